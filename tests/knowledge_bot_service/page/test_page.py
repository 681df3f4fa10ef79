"""The page as a person uses it, in headless Chromium."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, Locator, Page, Request, expect

from knowledge_bot_service import LocalService
from page_server import answer, serving
from service_calls import BOTS, COLLECTIONS, add_text, client_of, value_of

pytestmark = pytest.mark.timeout(120)

# A busy machine takes its time; nothing here is about how much, in milliseconds.
expect.set_options(timeout=20_000)

HTML = (
    "<html><head><title>Lighthouse</title></head><body><article><p>The lighthouse of Rua was built"
    " in 1874 by Ana Sousa. Its lamp was changed in 1931.</p></article></body></html>"
)
MARKUP = "<img src=x onerror=alert(1)>"


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalService]:
    with LocalService(
        tmp_path / "data",
        collections=COLLECTIONS,
        bots=BOTS,
        bot_names={"bot_one": "Guide"},
        allow_fetch=["127.0.0.1/32"],
    ) as running:
        yield running


@dataclass
class Visit:
    """A tab with the page, and all that the browser complained about or asked for in it."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)

    def label(self, name: str) -> Locator:
        return self.page.get_by_label(name, exact=True)

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def source(self, name: str) -> Locator:
        return self.page.get_by_role("listitem").filter(has_text=name)

    async def enter(self, key: str) -> None:
        await self.label("API key").fill(key)
        await self.label("API key").press("Enter")

    async def ask(self, question: str) -> Locator:
        """Ask, and wait for what is the answer to this question."""
        answers = self.page.locator(".answer:not(.waits)")
        before = await answers.count()
        await self.label("Question").fill(question)
        await self.label("Question").press("Enter")
        await expect(answers).to_have_count(before + 1)
        return answers.last


@asynccontextmanager
async def visiting(
    browser: Browser, service: LocalService, width: int = 1100, enter: bool = True
) -> AsyncIterator[Visit]:
    """Open the page; at the end nothing may have been refused, loaded from elsewhere, or leaked."""
    origin = service.base_url.removesuffix("/public/v1")
    page = await browser.new_page(viewport={"width": width, "height": 700})
    visit = Visit(page)

    def note(request: Request) -> None:
        visit.addresses.append(request.url)

    page.on("request", note)
    page.on("pageerror", lambda error: visit.complaints.append(str(error)))
    page.on("dialog", lambda dialog: visit.complaints.append(dialog.message))
    page.on("console", lambda message: visit.complaints.append(message.text))
    await page.goto(f"{origin}/")
    if enter:
        await visit.enter(service.api_key)
        await expect(page.get_by_role("heading", name="Sources")).to_be_visible()
    yield visit
    refused = [one for one in visit.complaints if "Failed to load resource" not in one]
    assert refused == []
    assert all(one.startswith((f"{origin}/", "data:")) for one in visit.addresses)
    assert not any(service.api_key in one for one in visit.addresses)
    await page.close()


async def test_a_page_a_text_and_a_file_become_ready_and_are_named_by_answers(
    browser: Browser, local: LocalService, tmp_path: Path
) -> None:
    canoes = tmp_path / "canoes.md"
    canoes.write_text("# Canoes\n\nThe canoes are kept by Ruth Okafor, behind the boathouse.")
    async with visiting(browser, local) as visit:
        with serving() as pages:
            pages.answers["/rua"] = answer(HTML.encode())
            await visit.label("Address").fill(pages.url("/rua"))
            await visit.page.get_by_label("Name").fill("Old lighthouse")
            await visit.button("Add").click()
            await expect(visit.source("Old lighthouse")).to_contain_text("ready")
        await visit.page.get_by_role("radio", name="Text").check()
        await visit.page.get_by_label("Name").fill("House rules")
        await visit.page.locator("#content").fill("The kitchen closes at ten in the evening.")
        await visit.button("Add").click()
        await expect(visit.source("House rules")).to_contain_text("ready")
        await visit.page.get_by_role("radio", name="File").check()
        await visit.page.locator("#file").set_input_files(canoes)
        await visit.button("Add").click()
        await expect(visit.source("canoes.md")).to_contain_text("ready")
        await expect(visit.page.locator("#counts")).to_have_text("3 ready.")

        await visit.page.get_by_role("link", name="Chat").click()
        first = await visit.ask("Who built the lighthouse of Rua?")
        await expect(first).to_contain_text("Ana Sousa")
        await expect(first).to_contain_text("Sources: Old lighthouse")
        assert "canoes.md" in await (await visit.ask("Where are the canoes kept?")).inner_text()
        assert (
            "House rules"
            in await (await visit.ask("When does the kitchen close in the evening?")).inner_text()
        )


async def test_a_conversation_goes_on_until_a_new_one_is_started(
    browser: Browser, local: LocalService
) -> None:
    with client_of(local) as http:
        add_text(http, "Lighthouse", "The lighthouse of Rua was built in 1874 by Ana Sousa.")
        async with visiting(browser, local) as visit:
            await visit.page.get_by_role("link", name="Chat").click()
            first = await visit.ask("Who built the lighthouse of Rua?")
            await first.evaluate("one => one.setAttribute('data-first', '')")
            await expect(await visit.ask("When was it built?")).to_contain_text("1874")
            # A screen reader reads out what is new in the log, so what is old must stay.
            await expect(visit.page.locator("[data-first]")).to_have_count(1)
            assert conversations(http) == ["Who built the lighthouse of Rua?"]
            await visit.button("New conversation").click()
            await expect(visit.page.locator(".bubble")).to_have_count(0)
            await visit.ask("What else is there?")
            assert conversations(http)[1:] == ["What else is there?"]


def conversations(http: httpx.Client) -> list[str]:
    return [one["name"] for one in value_of(http.get("/bots/bot_one/conversations"))["data"]]


async def test_a_wrong_key_is_said_and_shows_nothing(browser: Browser, local: LocalService) -> None:
    async with visiting(browser, local, enter=False) as visit:
        await visit.enter("wrong-key")
        await expect(visit.page.get_by_role("alert").first).to_have_text(
            "The service does not know this key."
        )
        await expect(visit.page.get_by_role("navigation")).to_be_hidden()
        await expect(visit.label("API key")).to_be_focused()
        await visit.enter(local.api_key)
        await expect(visit.page.get_by_role("heading", name="Sources")).to_be_visible()


async def test_a_key_is_kept_by_the_tab_until_it_is_forgotten(
    browser: Browser, local: LocalService
) -> None:
    async with visiting(browser, local) as visit:
        await visit.page.reload()
        await expect(visit.page.get_by_role("heading", name="Sources")).to_be_visible()
        await visit.button("Forget key").click()
        await expect(visit.label("API key")).to_be_visible()
        kept = await visit.page.evaluate("[sessionStorage.length, localStorage.length]")
        assert kept == [0, 0]


async def test_a_failed_source_shows_its_reason(browser: Browser, local: LocalService) -> None:
    async with visiting(browser, local) as visit:
        await visit.label("Address").fill("http://10.0.0.5/start")
        await visit.button("Add").click()
        failed = visit.source("http://10.0.0.5/start")
        await expect(failed).to_contain_text("failed")
        await expect(failed.locator(".reason")).to_contain_text("not a public address")
        await expect(visit.page.get_by_role("status")).to_contain_text("failed")
        await visit.label("Show").select_option("Ready")
        await expect(failed).to_have_count(0)
        await visit.label("Show").select_option("Failed")
        await expect(failed).to_have_count(1)


async def test_what_the_service_refuses_is_said_and_the_form_is_kept(
    browser: Browser, local: LocalService
) -> None:
    async with visiting(browser, local) as visit:
        for box in await visit.page.locator("#collections input:checked").all():
            await box.uncheck()
        await visit.label("Address").fill("http://example.org/")
        await visit.button("Add").click()
        await expect(visit.page.locator("#add-problem")).to_have_text("Choose a collection.")
        await expect(visit.label("Address")).to_have_value("http://example.org/")
    assert local.sources() == []


async def test_markup_in_names_reasons_and_answers_is_shown_as_text(
    browser: Browser, local: LocalService
) -> None:
    with client_of(local) as http:
        add_text(http, MARKUP, f"The password of the gate is {MARKUP} and nothing else.")
    local.wait_until_ready()
    async with visiting(browser, local) as visit:
        await expect(visit.page.locator(".name")).to_have_text([MARKUP])
        await visit.page.get_by_role("link", name="Chat").click()
        replied = await visit.ask(f"What is the password of the gate? {MARKUP}")
        await expect(replied).to_contain_text(f"The password of the gate is {MARKUP}")
        await expect(replied).to_contain_text(f"Sources: {MARKUP}")
        assert await visit.page.locator("img").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_phone_needs_no_sideways_scrolling(
    browser: Browser, local: LocalService, scheme: str
) -> None:
    with client_of(local) as http:
        add_text(http, "W" * 300, f"The long word is {'X' * 290}.")
    async with visiting(browser, local, width=320) as visit:
        await visit.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        await expect(visit.source("WWW")).to_contain_text("ready")
        assert await overflow(visit.page) == []
        await visit.page.get_by_role("link", name="Chat").click()
        await visit.ask("What is the long word?")
        assert await overflow(visit.page) == []
        await expect(visit.label("Question")).to_be_in_viewport()


async def overflow(page: Page) -> list[str]:
    """What is wider than its place, among everything that is shown."""
    found: list[str] = await page.evaluate(
        """() => [...document.querySelectorAll("html, body, body *:not(.hidden, option)")]
            .filter((one) => one.clientWidth && one.scrollWidth > one.clientWidth + 1)
            .map((one) => `${one.tagName} ${one.id} ${one.scrollWidth} ${one.clientWidth}`)"""
    )
    return found


async def test_every_field_has_a_label_and_the_keyboard_reaches_it(
    browser: Browser, local: LocalService
) -> None:
    async with visiting(browser, local) as visit:
        unnamed = await visit.page.evaluate(
            """() => [...document.querySelectorAll("input, select, textarea")]
                .filter((one) => !one.labels.length).map((one) => one.id)"""
        )
        assert unnamed == []
        reached = set()
        for _ in range(20):
            await visit.page.keyboard.press("Tab")
            reached.add(await visit.page.evaluate("document.activeElement.id"))
        assert {"leave", "url", "name", "shown"} <= reached


async def test_without_an_answer_a_question_is_kept_and_a_source_is_not_called_lost(
    browser: Browser, local: LocalService
) -> None:
    async with visiting(browser, local) as visit:
        local.kill()
        await visit.label("Address").fill("http://example.org/")
        await visit.button("Add").click()
        await expect(visit.page.locator("#add-problem")).to_contain_text("may have acted")
        await visit.page.get_by_role("link", name="Chat").click()
        await visit.label("Question").fill("Is anybody there?")
        await visit.button("Ask").click()
        await expect(visit.page.locator(".log .problem")).to_contain_text("gave no answer")
        await expect(visit.label("Question")).to_have_value("Is anybody there?")
        local.start()
        await visit.button("Ask").click()
        await expect(visit.page.locator(".answer:not(.waits)")).to_have_count(1)
