"""The audit: which documents a bot does not find, without a question being written."""

import asyncio
import subprocess
import sys
import tracemalloc

import pytest

from knowledge_bot import AsyncClient, AuthenticationError, Client, ConfigurationError
from knowledge_bot.checks import aaudit, audit
from knowledge_bot.checks._audit import _Candidate, _without_twins
from knowledge_bot.checks._sentences import Corpus, holds
from knowledge_bot.errors import KnowledgeBotError, ServerError
from knowledge_bot.ingest import File, Skipped, Text, WebPage, ingest
from knowledge_bot.origins import Folder
from knowledge_bot.testing import MemoryService
from page_server import answer, redirect, serving

URL = "https://service.test"

SAID = {
    "opening.md": "# Opening\n\nThe museum opens its doors on Saturdays at half past nine sharp.\n"
    "Visitors with a membership card may enter through the western garden gate.",
    "tools.md": "Hand tools are lent for three weeks and must be returned clean and sharpened.\n\n"
    "A broken chisel is replaced by the borrower at the price of a new one.",
    "repair.md": "Mia Keller leads the repair evening on the first Thursday of every month.\n\n"
    "Soldering irons and oscilloscopes stand ready on the long bench by the window.",
}
OLD = "Everything in this leaflet was said in entirely different words a year ago, as they were."
ITEMS = [Text(name=name, content=text) for name, text in SAID.items()]


def answering(**told):
    """A service whose bot says the texts with most of a question's words."""
    texts = told or SAID

    def answer(question):
        asked = {*question.casefold().split()}
        best = max(texts.values(), key=lambda text: len(asked & {*text.casefold().split()}))
        return best if len(asked & {*best.casefold().split()}) > 1 else "I do not know."

    return MemoryService(bots={"bot_1": answer})


def searchable(*extensions, **texts):
    """A service that can be searched, with sources of these texts."""
    service = MemoryService(bots={"bot_1": {}}, extensions={"passages", "sources", *extensions})
    with Client("key", URL, transport=service.transport) as client:
        for name, text in texts.items():
            client.create_text_source(name=name, collections="col_default", content=text)
    return service


@pytest.fixture(params=["audit", "aaudit"])
def run(request):
    """`run(service, origin, …)`: either function, with a client of its own."""

    async def awaited(service, origin, bot="bot_1", **how):
        client = AsyncClient("key", URL, transport=service.async_transport, max_retries=0)
        async with client:
            return await aaudit(client, bot, origin, **how)

    def blocking(service, origin, bot="bot_1", **how):
        with Client("key", URL, transport=service.transport, max_retries=0) as client:
            return audit(client, bot, origin, **how)

    if request.param == "audit":
        return blocking
    return lambda *given, **how: asyncio.run(awaited(*given, **how))


def outcomes(found):
    return {one.name: str(one.outcome) for one in found.documents}


def test_all_documents_are_found_by_search_and_no_message_is_sent(run):
    service = searchable(**SAID)
    found = run(service, ITEMS)
    assert outcomes(found) == dict.fromkeys(SAID, "found")
    assert (found.coverage, found.ok, found.ways, found.asked) == (1, True, "search", 6)
    assert service.conversations == {}


def test_what_is_lost_and_what_is_old_are_told_apart_and_not_covered(run):
    kept = {"opening.md": SAID["opening.md"], "tools.md": OLD}
    found = run(searchable(**kept), ITEMS)
    assert outcomes(found) == {"opening.md": "found", "tools.md": "old", "repair.md": "missing"}
    assert found.coverage == pytest.approx(1 / 3)
    assert not found.ok
    assert run(searchable(**kept), ITEMS, min_coverage=0.33).ok


def test_what_the_service_has_not_and_has_not_read_is_said_so(run):
    service = searchable(**{"tools.md": SAID["tools.md"]})
    service.hold_sources()
    with Client("key", URL, transport=service.transport) as client:
        client.create_text_source(
            name="opening.md", collections="col_default", content=SAID["opening.md"]
        )
    reasons = {one.name: one.reason for one in run(service, ITEMS).documents}
    assert "source is pending" in reasons["opening.md"]
    assert "no source of it" in reasons["repair.md"]


def test_half_a_document_of_last_year_is_old_by_search(run):
    before = SAID["tools.md"].partition("\n\n")[0] + "\n\n" + OLD
    assert outcomes(run(searchable(**{**SAID, "tools.md": before}), ITEMS))["tools.md"] == "old"


def test_by_messages_one_of_two_sentences_is_enough(run):
    half = {**SAID, "tools.md": SAID["tools.md"].partition("\n\n")[0]}
    service = answering(**half)
    found = run(service, ITEMS)
    assert (found.coverage, found.ways) == (1, "messages")
    assert found.asked == len(service.conversations) <= 6


def test_by_messages_what_is_lost_is_missing(run):
    assert outcomes(run(answering(**{"tools.md": SAID["tools.md"]}), ITEMS)) == {
        "opening.md": "missing",
        "tools.md": "found",
        "repair.md": "missing",
    }


@pytest.mark.parametrize(("budget", "judged"), [(2, 1), (3, 2), (4, 3), (100, 3)])
def test_no_more_messages_are_sent_than_the_budget_allows_and_it_is_said_before(
    run, budget, judged
):
    service, told = answering(), []
    found = run(service, ITEMS, budget=budget, on_progress=told.append)
    assert len(found.documents) == judged
    assert (found.total, found.coverage) == (3, 1)
    assert len(service.conversations) == found.asked <= budget
    assert (told[0].asked, told[0].open, told[0].most) == (0, min(3, budget), min(6, budget))
    assert (told[-1].asked, told[-1].passed) == (found.asked, judged)


def test_a_budget_is_enough_for_lost_documents_too(run):
    service = MemoryService(bots={"bot_1": lambda _: "I do not know."})
    found = run(service, ITEMS, budget=5)
    assert [len(found.documents), found.asked, found.coverage] == [2, 4, 0]


def test_a_lost_answer_takes_no_more_than_the_budget(run):
    service = MemoryService(bots={"bot_1": lambda _: "I do not know."})
    service.lose_next_answer()
    with pytest.raises(KnowledgeBotError):
        run(service, ITEMS, budget=2)
    assert len(service.conversations) <= 2


def test_a_search_has_no_budget_and_its_price_is_said_before(run):
    told = []
    found = run(searchable(old=OLD), ITEMS, budget=2, concurrency=1, on_progress=told.append)
    assert len(found.documents) == 3
    assert found.asked == told[0].most == 12
    assert (told[-1].passed, told[-1].open) == (0, 0)


def test_a_sample_is_judged_of_all(run):
    found = run(searchable(**SAID), ITEMS, sample=2)
    assert (len(found.documents), found.total) == (2, 3)


def test_documents_that_say_the_same_are_one(run):
    twin = Text(name="copy.md", content=SAID["tools.md"].replace("\n\n", "\n"))
    found = run(searchable(**SAID), [*ITEMS, twin])
    assert (len(found.documents), found.total, found.coverage) == (3, 4, 1)


@pytest.mark.parametrize("extensions", [(), ("passages",)])
def test_a_wrong_bot_is_an_error_that_names_those_that_are_there(run, extensions):
    service = MemoryService(bots={"bot_1": {}}, extensions=extensions)
    with pytest.raises(KnowledgeBotError, match="bot_1"):
        run(service, ITEMS, bot="bot_2")


@pytest.mark.parametrize(("status", "error"), [(401, AuthenticationError), (500, ServerError)])
def test_an_outage_is_an_error_and_no_coverage(run, status, error):
    service = answering()
    service.fail_next(status, times=None)
    with pytest.raises(error):
        run(service, ITEMS)


def test_an_answer_that_was_lost_is_asked_for_again(run):
    service = answering()
    service.lose_next_answer()
    found = run(service, ITEMS, concurrency=1)
    assert (found.coverage, found.asked) == (1, 4)


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ({"sample": 0}, "sample"),
        ({"budget": 1}, "budget"),
        ({"min_coverage": 1.1}, "min_coverage"),
        ({"concurrency": 0}, "concurrency"),
        ({"on_progress": 3}, "on_progress"),
    ],
)
def test_an_argument_that_cannot_be_used_is_refused_before_anything_is_asked(run, given, argument):
    service = answering()
    with pytest.raises(ConfigurationError) as refused:
        run(service, ITEMS, **given)
    assert refused.value.argument == argument
    assert not service.requests


@pytest.mark.parametrize("origin", [[], [Skipped("a.tmp", "it is left out")]])
def test_an_origin_without_documents_is_an_error(run, origin):
    with pytest.raises(ConfigurationError):
        run(answering(), origin)


# Files, and what cannot be read here -------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    for name, text in SAID.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "page.html").write_text(
        "<nav>Imprint and privacy, as on all pages of this house</nav><main><p>The reading room "
        "&amp; its lamps are open to everybody until ten in the evening.</p></main>"
    )
    (tmp_path / "plan.pdf").write_bytes(b"%PDF-1.7 \0\1\2")
    (tmp_path / "scan.png").write_bytes(b"\x89PNG\0\1")
    return tmp_path


PAGE = "The reading room & its lamps are open to everybody until ten in the evening."


def test_files_of_text_are_read_and_html_for_its_main_text(run, folder):
    (folder / "plan.pdf").unlink()
    (folder / "scan.png").unlink()
    found = run(searchable(**SAID, **{"page.html": PAGE}), Folder(folder))
    assert outcomes(found) == dict.fromkeys([*SAID, "page.html"], "found")


@pytest.mark.parametrize(
    ("extensions", "plan", "scan"),
    [((), "unreadable", "unreadable"), (("sources", "passages"), "found", "unreadable")],
)
def test_what_cannot_be_read_here_is_judged_by_what_the_service_says_of_it(
    run, folder, extensions, plan, scan
):
    service = answering()
    service.extensions, service.announcement = (
        frozenset(extensions),
        ", ".join(f"{name}=1" for name in extensions),
    )
    service.fail_source("scan.png", "it is a picture")
    with Client("key", URL, transport=service.transport) as client:
        for name in (*SAID, "page.html", "plan.pdf", "scan.png"):
            client.create_text_source(
                name=name, collections="col_default", content=SAID.get(name, PAGE)
            )
    found = {one.name: one for one in run(service, Folder(folder)).documents}
    assert (str(found["plan.pdf"].outcome), str(found["scan.png"].outcome)) == (plan, scan)
    assert ("it is a picture" in found["scan.png"].reason) is bool(extensions)


def test_of_two_sources_of_a_document_the_newer_one_is_believed(run, tmp_path):
    (tmp_path / "scan.png").write_bytes(b"\x89PNG")
    service = searchable(**{"scan.png": "The plan of the garden."})
    service.fail_source("scan.png")
    with Client("key", URL, transport=service.transport) as client:
        client.create_text_source(name="scan.png", collections="col_default", content="x")
    assert outcomes(run(service, Folder(tmp_path))) == {"scan.png": "unreadable"}


def test_what_the_service_wrote_down_is_believed_without_asking(run, folder):
    """A removed source, a restored backup, a scan without text: nobody writes a question."""
    service = MemoryService(bots={"bot_1": {}}, extensions={"sync", "sources"})
    service.bots = {"bot_1": answering().bots["bot_1"]}
    service.fail_source("scan.png", "it is a picture")
    with Client("key", URL, transport=service.transport) as client:
        ingest(client, Folder(folder), collections="col_default")
        by_name = {one["name"]: one["id"] for one in service.sources}
        client.delete_source(by_name["plan.pdf"])
    (folder / "tools.md").write_text(SAID["tools.md"] + "\n\nAs of this year, gloves are lent too.")
    found = run(service, Folder(folder))
    assert outcomes(found) == {
        **dict.fromkeys(SAID, "found"),
        "page.html": "missing",  # the bot does not say it, whatever is written down
        "plan.pdf": "missing",
        "scan.png": "unreadable",
        "tools.md": "old",
    }


def test_what_vanishes_while_the_audit_lasts_is_unreadable_and_the_others_are_judged(run, folder):
    service = MemoryService(bots=answering().bots, extensions={"sync"})
    with Client("key", URL, transport=service.transport) as client:
        ingest(client, Folder(folder), collections="col_default")

    def remove(progress):
        (folder / "tools.md").unlink(missing_ok=True)

    found = outcomes(run(service, Folder(folder), on_progress=remove))
    assert {found[name] for name in SAID.keys() - {"tools.md"}} == {"found"}
    assert found["tools.md"] == "unreadable"


def test_what_the_origin_cannot_read_is_unreadable_and_what_it_leaves_out_no_document(run):
    skipped = [
        Skipped("a.tmp", "it is left out"),
        Skipped("b.md", "permission denied", invalid=True),
        Skipped("c", "it cannot be listed", partial=True),
    ]
    missing = File(path="/nowhere/d.md")
    found = run(answering(), [*ITEMS, *skipped, missing])
    assert outcomes(found) == {
        **dict.fromkeys(SAID, "found"),
        **dict.fromkeys(["b.md", "c", "d.md"], "unreadable"),
    }
    assert found.coverage == 0.5


def test_an_asynchronous_origin_is_audited():
    async def main():
        async def items():
            for one in ITEMS:
                yield one

        service = answering()
        async with AsyncClient("key", URL, transport=service.async_transport) as client:
            return await aaudit(client, "bot_1", items())

    assert asyncio.run(main()).coverage == 1


BLOCKS = """
import os, signal, time
from knowledge_bot import Client
from knowledge_bot.checks import audit
from knowledge_bot.testing import MemoryService

def items():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
    yield

with Client("key", "https://service.test", transport=MemoryService().transport) as client:
    audit(client, "bot_1", items())
"""


def test_an_origin_that_blocks_does_not_hold_up_who_interrupts_the_audit():
    program = [sys.executable, "-c", BLOCKS]
    done = subprocess.run(program, check=False, capture_output=True, timeout=30)
    assert b"KeyboardInterrupt" in done.stderr


# Sentences ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sentence", "text", "held"),
    [
        ("The museum opens at half past nine.", "… The museum opens\nat half past nine. …", True),
        (
            "See [the guide](../guide.md) for opening hours.",
            "See the guide for opening hours.",
            True,
        ),
        ("The museum opens at half past nine.", "The museum closes at a quarter to five.", False),
        ("博物館は九時半に開館します。", "博物館は 九時半に 開館します", True),
    ],
)
def test_a_sentence_is_known_again_whatever_markup_stands_in_it(sentence, text, held):
    assert holds([text], sentence) is held


def test_a_long_text_does_not_say_what_only_its_pieces_say():
    sentence = "Parent rules take precedence over global rules."
    pieces = "A parent rules here. They take part. Precedence is over. The overall global rules."
    assert not holds([pieces.replace(". ", f". {'Nothing of it is said here. ' * 9}")], sentence)


def test_pages_are_read_for_their_main_text_with_their_headers():
    page = b"<nav>Imprint of this house on all its pages</nav><p>" + SAID["tools.md"].encode()
    with serving() as server:
        server.answers = {"/tools": answer(page), "/moved": redirect("/tools")}
        server.answers |= {"/gone": answer(status="404 Not Found")}
        pages = [
            WebPage(name=path, url=server.url(f"/{path}"), headers={"X-Token": "secret"})
            for path in ("tools", "moved", "gone")
        ]
        with Client("key", URL, transport=searchable(tools=SAID["tools.md"]).transport) as client:
            found = audit(client, "bot_1", pages)
    assert outcomes(found) == {"tools": "found", "gone": "unreadable"}  # and one is its twin
    assert "x-token: secret" in server.requests[0]


def test_a_sentence_that_another_document_has_nearly_so_is_not_asked_for():
    near = "Installing a {} means running the code of whoever wrote it, on your own machine."
    own = "Themes are chosen by their names in the file of settings beside the documents."
    corpus = Corpus([f"{near.format('theme')}\n\n{own}", near.format("plugin")])
    assert corpus.distinctive(f"{near.format('theme')}\n\n{own}", 2) == [own]


def test_the_texts_are_held_once():
    # Each is one long word: what is needed while one of them is read is next to nothing.
    texts = [f"{number:04}{'x' * 50_000}" for number in [*range(99), 0]]
    documents = [
        _Candidate(place, str(place), str(place), text=text) for place, text in enumerate(texts)
    ]
    tracemalloc.start()
    try:
        kept = _without_twins(documents)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [one.place for one in kept] == [*range(99)]
    assert peak < sum(map(len, texts)) / 5


def test_a_document_that_says_nothing_of_its_own_is_known_by_its_name(run):
    stubs = [Text(name=f"{name}.md", content=f"::: package.{name}") for name in ("one", "two")]

    def answer(question):
        return "Nothing.\n\nSources: one.md" if "one.md" in question else "I do not know."

    found = run(MemoryService(bots={"bot_1": answer}), stubs)
    assert outcomes(found) == {"one.md": "found", "two.md": "missing"}
    assert found.asked == 2
    searched = searchable(**{"one.md": "::: package.one", "three.md": "::: package.two"})
    assert outcomes(run(searched, stubs)) == {"one.md": "found", "two.md": "missing"}


@pytest.mark.parametrize("name", ["scan.pdf", "stock.csv", "mail.eml"])
def test_what_cannot_be_read_here_is_missing_to_a_bot_that_finds_nothing_of_the_origin(
    run, tmp_path, name
):
    (tmp_path / name).write_bytes(b"article,stock\nAnvil,12\nBellows,7\n")
    service = MemoryService(bots={"bot_1": {}}, extensions={"sync", "sources", "passages"})
    with Client("key", URL, transport=service.transport) as client:
        ingest(client, Folder(tmp_path), collections="col_default")
    service.answer_next(200, b'{"data": []}', times=None, where=lambda one: "search" in one.path)
    assert outcomes(run(service, Folder(tmp_path))) == {name: "missing"}
