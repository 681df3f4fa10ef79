"""Takes the pictures of the page in docs/images: PYTHONPATH=tests/support python THIS_FILE.

It needs a Chromium on PATH, as the tests beside it do.
"""

from pathlib import Path
from typing import Literal

import httpx
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

import chromium
from knowledge_bot_service import LocalService

IMAGES = Path(__file__).parents[4] / "docs" / "images"

TEXTS = {
    "Opening hours": "The library opens at nine on Saturdays and at eight on working days. It is "
    "closed on Sundays.\n\nThe reading room stays open for an hour longer than the lending desk.",
    "Vacation rules": "Full-time employees get 28 days of paid vacation a year.\n\nUp to five days "
    "may be carried over until 31 March. Requests go to the team lead two weeks ahead.",
    "Travel expenses": "Travel costs are reimbursed within ten working days. Receipts above 25 "
    "euros must be attached.\n\nTaxi rides need a reason; the train is preferred.",
}
MANUAL = """# Frobnicator

You can install the tool with the following command:

```
pip install frobnicator
```
"""
QUESTIONS = (
    "How do I install the frobnicator tool?",
    "How many days of vacation do I get?",
    "Who won the cup final?",
)


def main() -> None:
    with (
        LocalService(
            collections={"col_handbook": "Handbook", "col_archive": "Archive"},
            bots=["bot_guide"],
            bot_names={"bot_guide": "Guide"},
        ) as service,
        sync_playwright() as playwright,
    ):
        fill(service)
        browser = playwright.chromium.launch(**chromium.options())
        page = entered(browser, service, {"width": 960, "height": 550}, "light")
        page.screenshot(path=IMAGES / "service-sources.png")
        chat(page)
        page.screenshot(path=IMAGES / "service-chat.png")
        page.get_by_role("link", name="Vacation rules").click()
        page.locator(".quoted mark").first.wait_for()
        page.screenshot(path=IMAGES / "service-passage.png")
        phone = entered(browser, service, {"width": 390, "height": 640}, "dark")
        phone.get_by_role("link", name="Chat").click()
        phone.get_by_text("Conversations").click()
        phone.get_by_role("link", name=QUESTIONS[0]).click()
        phone.get_by_text("Conversations").click()
        phone.locator(".cited").first.wait_for()
        phone.get_by_label("Question").blur()
        phone.screenshot(path=IMAGES / "service-phone.png")
        browser.close()


def entered(
    browser: Browser, service: LocalService, size: ViewportSize, scheme: Literal["light", "dark"]
) -> Page:
    """A tab of its own with the page, behind the key."""
    page = browser.new_page(viewport=size, color_scheme=scheme, locale="en-GB")
    page.goto(service.base_url.removesuffix("public/v1"))
    page.get_by_label("API key").fill(service.api_key)
    page.get_by_role("button", name="Enter").click()
    page.get_by_text("Vacation rules").wait_for()
    return page


def fill(service: LocalService) -> None:
    """Add sources of every kind, of which some fail and one is not ready yet."""
    client = httpx.Client(base_url=service.base_url, headers={"X-API-KEY": service.api_key})
    with client:
        for name, content in TEXTS.items():
            add(client, "write", name, "col_handbook", content=content)
        add(client, "webpage", "Intranet start page", "col_handbook", url="http://10.0.0.5/")
        upload(client, "Contract of 1998", "contract.pdf", b"%PDF-1.4 cut off", "application/pdf")
        upload(client, "Frobnicator manual", "manual.md", MANUAL.encode(), "text/markdown")
        service.wait_until_ready()
        add(client, "write", "Minutes of 2025", "col_archive", content="A long text. " * 1_500_000)


def upload(client: httpx.Client, name: str, filename: str, content: bytes, kind: str) -> None:
    form = {"name": name, "collections": "col_handbook"}
    file = (filename, content, kind)
    client.post("/sources/upload", data=form, files={"file": file}).raise_for_status()


def add(client: httpx.Client, kind: str, name: str, collection: str, **fields: str) -> None:
    body = {"value": {"name": name, "collections": [collection], **fields}}
    client.post(f"/sources/{kind}", json=body).raise_for_status()


def chat(page: Page) -> None:
    page.get_by_role("link", name="Chat").click()
    for number, question in enumerate(QUESTIONS):
        page.get_by_label("Question").fill(question)
        page.get_by_label("Question").press("Enter")
        page.locator(".answer:not(.waits)").nth(number).wait_for()
    page.get_by_label("Question").blur()


if __name__ == "__main__":
    main()
