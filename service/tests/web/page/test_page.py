"""The page as a person uses it, in headless Chromium."""

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.async_api import Page, expect

from in_process import OnAPort
from knowledge_bot_service import LocalService
from page_server import answer, serving
from service_calls import BOTS, COLLECTIONS, add_text, ask, client_of, put_text, value_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(600),
]

# A busy machine takes its time; nothing here is about how much, in milliseconds.
expect.set_options(timeout=20_000)

HTML = (
    "<html><head><title>Lighthouse</title></head><body><article><p>The lighthouse of Rua was built"
    " in 1874 by Ana Sousa. Its lamp was changed in 1931.</p></article></body></html>"
)
MARKUP = "<img src=x onerror=alert(1)>"
SAFE = "<script>"
READER = {"name": "reader", "role": "read", "key": "key-of-a-reader"}
WRITER = {"name": "writer", "role": "write", "key": "key-of-a-writer"}


NAMES = "Country|Over 8 hours|" + "|".join(f"Meal {number}" for number in range(9))
PORTUGAL = "Portugal|30 euros|" + "|".join(f"{number} euros" for number in range(9))
NORWAY = "Norway||" + "|".join(f"{number} kroner" for number in range(9))
ALLOWANCES = "\n".join(
    ["| " + row.replace("|", " | ") + " |" for row in (NAMES, "-|" * 10 + "-", PORTUGAL, NORWAY)]
)


def added(service, name, text):
    """The id of a source that is added, and ready."""
    with client_of(service) as http:
        source: str = add_text(http, name, text)["id"]
    service.wait_until_ready(300)
    return source


DECLARED: dict[str, Any] = {
    "collections": COLLECTIONS,
    "bots": BOTS,
    "bot_names": {"bot_one": "Guide"},
    "allow_fetch": ["127.0.0.1/32"],
    "settings": {"keys": [READER, WRITER], "limits": {"upload_bytes": 30_000_000}},
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with OnAPort(tmp_path_factory.mktemp("shared"), **DECLARED) as running:
        yield running


@pytest.fixture
def local(shared):
    """A service without sources, which may have conversations of other tests."""
    shared.wait_until_ready(300)
    with client_of(shared) as http:
        for source in shared.sources():
            http.delete(f"/sources/{source.id}").raise_for_status()
    return shared


@pytest.fixture
def own(tmp_path):
    """A service of the test's own: without conversations, and to be killed."""
    with LocalService(tmp_path / "data", **DECLARED) as running:
        yield running


@dataclass
class Visit:
    """A tab with the page, and all that the browser complained about or asked for in it."""

    page: Page
    origin: str
    complaints: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)

    def label(self, name):
        return self.page.get_by_label(name, exact=True)

    def button(self, name):
        return self.page.get_by_role("button", name=name, exact=True)

    def source(self, name):
        return self.page.get_by_role("listitem").filter(has_text=name)

    async def enter(self, key):
        await self.label("API key").fill(key)
        await self.label("API key").press("Enter")

    async def ask(self, question):
        """Ask, and wait for what is the answer to this question."""
        answers = self.page.locator(".answer:not(.waits)")
        before = await answers.count()
        await self.label("Question").fill(question)
        await self.label("Question").press("Enter")
        await expect(answers).to_have_count(before + 1)
        return answers.last


@asynccontextmanager
async def visiting(browser, service, width=1100, enter=True):
    """Open the page; at the end nothing may have been refused, loaded from elsewhere, or leaked."""
    origin = service.base_url.removesuffix("/public/v1")
    page = await browser.new_page(viewport={"width": width, "height": 700})
    visit = Visit(page, origin)

    def note(request):
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
    browser, local, tmp_path
):
    canoes = tmp_path / "canoes.md"
    canoes.write_text("# Canoes\n\nThe canoes are kept by Ruth Okafor, behind the boathouse.")
    async with visiting(browser, local) as visit:
        with serving() as pages:
            pages.answers["/rua"] = answer(HTML.encode())
            await visit.label("Address").fill(pages.url("/rua"))
            await visit.page.locator("#name").fill("Old lighthouse")
            await visit.button("Add").click()
            await expect(visit.source("Old lighthouse")).to_contain_text("ready")
        await visit.page.get_by_role("radio", name="Text").check()
        await visit.page.locator("#name").fill("House rules")
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


async def test_a_conversation_goes_on_until_a_new_one_is_started(browser, own):
    with client_of(own) as http:
        add_text(http, "Lighthouse", "The lighthouse of Rua was built in 1874 by Ana Sousa.")
        own.wait_until_ready(300)
        async with visiting(browser, own) as visit:
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


def conversations(http):
    return [one["name"] for one in value_of(http.get("/bots/bot_one/conversations"))["data"]]


async def test_a_wrong_key_is_said_and_shows_nothing(browser, local):
    async with visiting(browser, local, enter=False) as visit:
        await expect(visit.label("API key")).to_be_focused()
        await visit.enter("wrong-key")
        await expect(visit.page.get_by_role("alert").first).to_have_text(
            "The service does not know this key."
        )
        await expect(visit.page.get_by_role("navigation")).to_be_hidden()
        await expect(visit.label("API key")).to_be_focused()
        await visit.enter(local.api_key)
        await expect(visit.page.get_by_role("heading", name="Sources")).to_be_visible()


async def test_a_key_is_kept_by_the_tab_until_it_is_logged_out(browser, local):
    async with visiting(browser, local) as visit:
        await visit.page.reload()
        await expect(visit.page.get_by_role("heading", name="Sources")).to_be_visible()
        await visit.button("Log out").click()
        await expect(visit.label("API key")).to_be_focused()
        kept = await visit.page.evaluate("[sessionStorage.length, localStorage.length]")
        assert kept == [0, 0]


async def test_a_key_is_offered_nothing_that_it_may_not_do(browser, local):
    added(local, "House rules", "The kitchen closes at ten in the evening.")
    async with visiting(browser, local) as visit:
        for key, may_add, may_manage in (
            (None, True, True),
            (WRITER["key"], True, False),
            (READER["key"], False, False),
        ):
            if key is not None:
                await visit.button("Log out").click()
                await visit.enter(key)
            await expect(visit.page.get_by_role("heading", name="Sources")).to_be_visible()
            await expect(visit.button("Add")).to_be_visible(visible=may_add)
            await visit.page.get_by_role("link", name="House rules").click()
            await expect(visit.page.locator("#text")).to_contain_text("closes at ten")
            await expect(visit.button("Delete")).to_be_visible(visible=may_manage)
            await visit.page.get_by_role("link", name="All sources").click()
            await expect(visit.source("House rules")).to_be_visible()
            await expect(visit.button("Add")).to_be_visible(visible=may_add)


async def test_markup_is_shown_as_text_wherever_it_stands(browser, local):
    text = f"The password of the gate is {MARKUP} and nothing else.\n\n```\n{MARKUP}\n```"
    with client_of(local) as http:
        put_text(http, MARKUP, text, origin=MARKUP)
    local.wait_until_ready(300)
    async with visiting(browser, local) as visit:
        await expect(visit.page.locator(".name")).to_have_text([MARKUP])
        await visit.page.get_by_role("link", name="Chat").click()
        question = f"{MARKUP} What is the password of the gate?"
        replied = await visit.ask(question)
        await expect(replied).to_contain_text(f"The password of the gate is {MARKUP}")
        await expect(replied).to_contain_text(f"Sources: {MARKUP}")
        await expect(visit.page.locator("#talks .long").first).to_have_text(question)
        await visit.page.reload()
        await expect(visit.page.locator(".bubble.question")).to_have_text([question])
        await visit.page.locator(".cited a").click()
        await expect(visit.page.locator(".passage")).to_contain_text(MARKUP)
        await visit.button("Delete").click()
        await expect(visit.page.locator("#confirm-name")).to_have_text(MARKUP)
        await visit.button("Keep it").click()
        # A reason that has the sender's own words, of a replacement.
        with client_of(local) as http:
            body = {"name": MARKUP, "collections": ["col_one"], "url": f"http://127.0.0.1:1/{SAFE}"}
            body |= {"origin": MARKUP, "key": MARKUP, "digest": "other"}
            http.put("/sync/webpage", json={"value": body}).raise_for_status()
        local.wait_until_ready(300)
        await visit.page.reload()
        await expect(visit.page.locator("#facts .reason")).to_contain_text("not be reached")
        for place in (f"#sources/{MARKUP}", f"#chat/{MARKUP}/{MARKUP}", f"#{MARKUP}"):
            await visit.page.goto(f"{visit.origin}/{place}")
        assert await visit.page.locator("img").count() == 0


async def test_every_field_has_a_label_and_the_keyboard_reaches_it(browser, local):
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
        assert {"leave", "url", "name", "search", "status", "collection"} <= reached


async def test_without_an_answer_a_question_is_kept_and_a_source_is_not_called_lost(browser, own):
    async with visiting(browser, own) as visit:
        own.kill()
        await visit.label("Address").fill("http://example.org/")
        await visit.button("Add").click()
        problem = visit.page.locator("#add-problem")
        await expect(problem).to_contain_text("may have acted: see the list")
        await visit.page.get_by_role("link", name="Chat").click()
        await visit.label("Question").fill("Is anybody there?")
        await visit.button("Ask").click()
        problem = visit.page.locator(".log .problem")
        await expect(problem).to_contain_text("ask it again when the service is back")
        await expect(visit.label("Question")).to_have_value("Is anybody there?")
        own.start()
        await visit.button("Ask").click()
        await expect(visit.page.locator(".answer:not(.waits)")).to_have_count(1)


async def test_conversations_are_listed_opened_and_gone_on_with(browser, own):
    with client_of(own) as http:
        add_text(http, "Lighthouse", "The lighthouse of Rua was built in 1874 by Ana Sousa.")
        for number in range(35):
            ask(http, f"What is number {number}?")
        older = ask(http, "Who built the lighthouse of Rua?")["conversation_id"]
        for number in range(32):
            ask(http, f"And what is number {number}?", older)
    async with visiting(browser, own) as visit:
        await visit.page.get_by_role("link", name="Chat").click()
        talks = visit.page.locator("#talks a")
        await expect(talks).to_have_count(30)
        await expect(talks.first).to_contain_text("Who built the lighthouse")
        await visit.page.locator("#more-talks").click()
        await expect(talks).to_have_count(36)
        await talks.first.click()
        questions = visit.page.locator(".bubble.question")
        await expect(questions).to_have_count(30)
        await expect(questions.last).to_be_in_viewport()
        await visit.button("Show what is before").click()
        await expect(questions).to_have_count(33)
        await expect(questions.first).to_have_text("Who built the lighthouse of Rua?")
        await visit.ask("When was it built?")
        # Its address is that of the conversation, so that a reload keeps it.
        assert visit.page.url.endswith(f"#chat/bot_one/{older}")
        await visit.page.reload()
        await expect(questions.last).to_have_text("When was it built?")
        await visit.page.get_by_role("link", name="Sources").click()
        await visit.page.get_by_role("link", name="Chat").click()
        await expect(questions.last).to_have_text("When was it built?")
        await visit.button("New conversation").click()
        await expect(questions).to_have_count(0)
        await visit.ask("What is new?")
        await expect(talks.first).to_contain_text("What is new?")
        await visit.page.reload()
        await expect(questions).to_have_text(["What is new?"])
        await visit.label("Bot").select_option("bot_two")
        await expect(visit.page.locator("#talks")).to_contain_text("There are none yet.")
        await visit.page.goto(f"{visit.origin}/#chat/bot_one/conv_{'0' * 24}")
        await expect(visit.page.locator(".log .problem")).to_contain_text("not there")


async def test_an_answer_leads_to_the_passage_that_it_quotes(browser, local):
    filler = "\n\n".join(f"Paragraph {number} says {'nothing ' * 90}" for number in range(80))
    text = f"{filler}\n\nThe canoes are kept by Ruth Okafor. They are red.\n\n{filler}"
    added(local, "Boats, canoes, rafts", text)
    async with visiting(browser, local) as visit:
        await visit.page.get_by_role("link", name="Chat").click()
        replied = await visit.ask("Where are the canoes kept by Ruth Okafor?")
        await expect(replied.locator("mark")).to_have_text("The canoes are kept by Ruth Okafor.")
        await replied.get_by_role("link", name="Boats, canoes, rafts", exact=True).click()
        quoted = visit.page.locator(".passage.quoted")
        await expect(quoted).to_be_focused()
        marked = quoted.locator("mark").first
        await expect(marked).to_have_text("The canoes are kept by Ruth Okafor.")
        await expect(marked).to_be_in_viewport()
        passages = visit.page.locator(".passage")
        before = await passages.count()
        await visit.button("Show what is before").click()
        await expect(passages).not_to_have_count(before)
        await visit.page.get_by_role("link", name="Back to the chat").click()
        await expect(visit.page.locator(".bubble.question")).to_have_count(1)


async def test_a_source_is_deleted_after_it_was_named(browser, local):
    added(local, "House rules", "The kitchen closes at ten in the evening.")
    with client_of(local) as http:
        told = ask(http, "When does the kitchen close?")
    async with visiting(browser, local) as visit:
        await visit.page.get_by_role("link", name="House rules").click()
        await visit.button("Delete").click()
        dialog = visit.page.get_by_role("dialog")
        await expect(dialog).to_contain_text("House rules")
        await visit.page.keyboard.press("Escape")
        await expect(dialog).to_be_hidden()
        await visit.button("Delete").click()
        await dialog.get_by_role("button", name="Delete").click()
        await expect(visit.page.locator("#counts")).to_have_text("There are none yet.")
        assert local.sources() == []
        await visit.page.goto(f"{visit.origin}/#chat/bot_one/{told['conversation_id']}")
        await visit.page.locator(".cited a").click()
        await expect(visit.page.get_by_role("alert").filter(visible=True)).to_contain_text(
            "it was deleted"
        )


async def test_what_is_said_of_a_deleted_source_is_true_of_its_origin(browser, local):
    added(local, "Rules", "Nobody sings in the lift.")
    with client_of(local) as http:
        put_text(http, "Opening", "The library opens at nine.", origin=MARKUP)
    local.wait_until_ready(300)
    async with visiting(browser, local) as visit:
        await expect(visit.source("Opening")).to_contain_text(f"from {MARKUP}")
        for name, said in (
            ("Rules", "cannot be brought back, except from a backup"),
            ("Opening", f"comes back when {MARKUP} is fed again, unless it is gone from there"),
        ):
            await visit.page.get_by_role("link", name=name).click()
            await visit.button("Delete").click()
            await expect(visit.page.locator("#confirm-note")).to_contain_text(said)
            await visit.button("Keep it").click()
            await visit.page.locator("#back").click()


async def test_a_list_is_searched_and_goes_on(browser, local):
    with client_of(local) as http:
        for number in range(52):
            add_text(http, f"Rule {number}", "No running.")
        add_text(http, "Émile's notes", "No running.", "col_two")
    local.wait_until_ready(300)
    async with visiting(browser, local) as visit:
        names = visit.page.locator("#list .name")
        await expect(names).to_have_count(50)
        await visit.button("Show more").click()
        await expect(names).to_have_count(53)
        await visit.label("Search").fill("éMILE")
        await expect(names).to_have_text(["Émile's notes"])
        await visit.label("Search").fill("nobody")
        await expect(visit.page.locator("#counts")).to_have_text("None is found.")
        await visit.label("Search").fill("")
        await visit.label("Collection").select_option("Archive")
        await expect(names).to_have_text(["Émile's notes"])


async def test_an_upload_shows_how_far_it_is_and_can_be_cancelled(browser, local, tmp_path):
    large = tmp_path / "large.txt"
    large.write_text("The lighthouse of Rua. " * 1_000_000)
    async with visiting(browser, local) as visit:
        # Slow enough to be seen and cancelled: 23 MB at 4 MB a second.
        session = await visit.page.context.new_cdp_session(visit.page)
        await session.send(
            "Network.emulateNetworkConditions",
            {
                "offline": False,
                "latency": 0,
                "downloadThroughput": -1,
                "uploadThroughput": 4_000_000,
            },
        )
        await visit.page.get_by_role("radio", name="File").check()
        await visit.page.locator("#file").set_input_files(large)
        await visit.button("Add").click()
        await expect(visit.page.locator("#upload-note")).to_contain_text("% of 23 MB")
        await expect(visit.page.get_by_role("progressbar")).to_be_visible()
        await visit.button("Cancel").click()
        await expect(visit.page.locator("#add-problem")).to_have_text("The upload was cancelled.")
        await expect(visit.page.locator("#upload")).to_be_hidden()
    assert local.sources() == []


async def test_a_row_is_marked_in_the_answer_and_in_its_table(browser, local):
    added(local, "Travel", f"# Allowances\n\nThe allowances are these:\n\n{ALLOWANCES}")
    with client_of(local) as http:
        conversation = ask(http, "How much is the allowance in Norway?")["conversation_id"]
    async with visiting(browser, local, width=390) as visit:
        names, portugal, norway = (row.replace("|", "") for row in (NAMES, PORTUGAL, NORWAY))
        await visit.page.goto(f"{visit.origin}/#chat/bot_one/{conversation}")
        await expect(visit.page.locator(".answer tr:has(mark)")).to_have_text([norway])
        await visit.page.locator(".cited a").click()
        quoted = visit.page.locator(".passage.quoted")
        await expect(quoted.locator("tr:has(mark)")).to_have_text([norway])
        await expect(quoted.locator("tr")).to_have_text([names, portugal, norway])
        await expect(quoted.locator("h3")).to_have_text("Allowances")
        # The table scrolls in its own box.
        assert await quoted.locator(".wide").evaluate("one => one.scrollWidth > one.clientWidth")
