"""Where the service keeps the book (`sync`): what a run sends, removes, and says of troubles."""

import asyncio
import json
import os
import weakref
from collections import Counter
from functools import partial

import pytest

from calls import KEY
from knowledge_bot import AsyncClient, Client
from knowledge_bot.ingest import (
    File,
    Ledger,
    Outcome,
    Stop,
    Text,
    WebPage,
    aingest,
    complete,
    ingest,
)
from knowledge_bot.origins import Folder
from knowledge_bot.origins._addresses import LONGEST
from knowledge_bot.testing import MemoryService, no_waiting

pytestmark = pytest.mark.timeout(60)

URL, COLLECTION = "https://service.test", "col_1"


@pytest.fixture
def service():
    return MemoryService(collections=[COLLECTION, "col_2"], extensions={"sources", "sync"})


@pytest.fixture
def feed(service):
    """`feed(origin, **options)`: one night."""

    def go(items, **options):
        with Client(KEY, URL, transport=service.transport) as client:
            return ingest(client, items, **{"collections": COLLECTION, **options})

    return go


@pytest.fixture
def folder(tmp_path):
    """A folder of 24 notes, 8 of them in a folder below."""
    for number in range(24):
        write(tmp_path, number, "a")
    return tmp_path


def write(folder, number: int, text: str) -> None:
    path = folder / ("sub" if number < 8 else "") / f"note {number}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"The code of locker {number} is {text}.")
    os.utime(path, (number, number + len(text) + ord(text[-1])))


def texts(count: int, word: str = "a") -> list[Text]:
    return [Text(name=f"t{number}", content=f"{word} {number}") for number in range(count)]


def answered(service) -> Counter[tuple[str, str]]:
    """What questions are answered from: names with their contents."""
    found = ((one["name"], service.ready_content(one["id"])) for one in service.sources)
    return Counter((n, text.decode() if isinstance(text, bytes) else text) for n, text in found)


def is_as(service, folder) -> bool:
    there = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.md")}
    return answered(service) == Counter(there.items())


def puts(service) -> int:
    return sum(one.method == "PUT" for one in service.requests)


def is_put(request) -> bool:
    return request.method == "PUT"


# Faults: each is followed by one more night, after which the service is as the folder is ----------


def killed(service, folder, feed):
    async def main(after):
        async with AsyncClient(KEY, URL, transport=service.async_transport) as client:
            task = asyncio.create_task(aingest(client, Folder(folder), collections=COLLECTION))
            while puts(service) < after:
                await asyncio.sleep(0.001)
            for _ in range(2):
                task.cancel()
                await asyncio.sleep(0)
            await asyncio.wait([task])

    for after in (3, 8, 15):
        asyncio.run(main(after))


def answers_lost(service, folder, feed):
    service.lose_next_answer(times=4, where=is_put)
    with no_waiting():
        assert feed(Folder(folder)).ok


def put_off(service, folder, feed):
    service.fail_next(429, retry_after=1, times=10, where=is_put)
    with no_waiting():
        assert feed(Folder(folder)).created == 24


def renamed(service, folder, feed):
    feed(Folder(folder))
    before = puts(service)
    (folder / "sub").rename(folder / "renamed")
    assert feed(Folder(folder)).moved == 8
    assert puts(service) == before


def two_at_once(service, folder, feed):
    async def main():
        async with AsyncClient(KEY, URL, transport=service.async_transport) as client:
            run = partial(aingest, client, Folder(folder), collections=COLLECTION)
            return await asyncio.gather(*(run() for _ in range(4)))

    reports = asyncio.run(main())
    assert all(report.ok for report in reports)


def removed_there(service, folder, feed):
    feed(Folder(folder))
    with Client(KEY, URL, transport=service.transport) as client:
        for source in service.sources[:8]:
            client.delete_source(source["id"])


def edited_and_removed_here(service, folder, feed):
    feed(Folder(folder))
    for number in range(10, 15):
        (folder / f"note {number}.md").unlink()
        write(folder, number + 5, "b")


def restored_there(service, folder, feed):
    """The service is as it was before these edits."""
    feed(Folder(folder))
    for number in range(12):
        write(folder, number, "b")


def replacements_refused(service, folder, feed):
    feed(Folder(folder))
    before = answered(service)
    for number in range(15, 20):
        write(folder, number, "b")
    service.fail_next(400, times=5, where=is_put)
    report = feed(Folder(folder))
    assert (report.refused, report.ok) == (5, False)
    assert answered(service) == before


def edited_while_sent(service, folder, feed):
    """A file changes between the look at it and its request."""
    large = folder / "large.md"
    large.write_text("x" * 600_000)
    names = (path for path in [large])

    def items():
        yield from Folder(folder).items()

    def edit(report):
        for path in names:
            path.write_text("y" * 600_000)

    feed(items(), origin=str(folder), on_progress=edit)


FAULTS = [
    killed,
    answers_lost,
    put_off,
    renamed,
    two_at_once,
    removed_there,
    edited_and_removed_here,
    restored_there,
    replacements_refused,
    edited_while_sent,
]


@pytest.mark.parametrize("fault", FAULTS)
def test_after_a_fault_one_more_night_makes_all_right(service, folder, feed, fault):
    fault(service, folder, feed)
    report = feed(Folder(folder))
    assert report.ok
    assert is_as(service, folder)
    before = puts(service)
    assert feed(Folder(folder)).ok
    assert puts(service) == before


def test_a_third_goes_only_when_a_second_night_misses_it(service, folder, feed):
    feed(Folder(folder))
    (folder / "sub").rename(folder.with_name("away"))
    report = feed(Folder(folder))
    assert (report.gone, report.removed, report.ok, len(service.sources)) == (8, 0, True, 24)
    assert feed(Folder(folder)).removed == 8
    assert is_as(service, folder)


def test_a_source_of_no_origin_is_adopted_and_counted_once(service, feed):
    with Client(KEY, URL, transport=service.transport) as client:
        client.create_text_source(name="t0", collections=COLLECTION, content="a 0")
    report = feed(texts(1), origin="o", anyway=True)
    assert (report.unchanged, report.created, report.items) == (1, 0, 1)
    assert len(service.sources) == 1


def test_an_older_run_covers_no_newer_text(service, feed):
    feed(texts(1), origin="o")

    def items():
        """The run has asked the service by now what it has."""
        feed([Text(name="t0", content="the newest")], origin="o")
        yield Text(name="t0", content="older, but read before")

    report = feed(items(), origin="o")
    assert (report.undelivered, report.ok) == (1, False)
    assert "another run was faster" in report.failures[0].error
    assert answered(service) == Counter({("t0", "the newest"): 1})


def test_what_another_run_removes_meanwhile_is_not_lost(service, feed):
    feed(texts(8), origin="o")

    def items():
        """The other run is at its end before this one is."""
        yield from texts(7)
        yield Text(name="new", content="new")
        while len(service.sources) < 9:
            pass
        assert feed([*texts(7), Text(name="new", content="new")], origin="o").removed == 1

    report = feed(items(), origin="o")
    assert (report.ok, report.created, len(service.sources)) == (True, 1, 8)


# A service that does not keep its word ------------------------------------------------------------


def other_sums(service):
    body = json.dumps({"value": {"known": True, "count": 3, "sums": ["0" * 15 + "1"] * 256}})
    service.answer_next(200, body.encode(), times=None, where=lambda one: one.path == "/sync")


@pytest.mark.parametrize(
    "broken",
    [
        lambda service: service.fail_next(404, times=None, where=lambda one: one.path == "/sync"),
        lambda service: service.fail_next(501, times=None, where=is_put),
        lambda service: service.answer_next(200, b"<html>", times=None, where=is_put),
        lambda service: service.answer_next(200, b'{"value": {}}', times=None),
        other_sums,
    ],
    ids=["404", "501 of a put", "HTML", "garbage", "other sums"],
)
def test_a_service_that_announces_and_does_otherwise_ends_the_run(service, tmp_path, feed, broken):
    (tmp_path / "a.md").write_text("a")
    broken(service)
    with no_waiting():
        report = feed(Folder(tmp_path), ledger=tmp_path.parent / "ledger.db")
    assert (report.stopped, report.ok) == (Stop.UNSUPPORTED, False)
    assert not service.sources
    assert not (tmp_path.parent / "ledger.db").exists()


@pytest.mark.parametrize("key", ["../x", "a%2Fb", "cafe\u0301", "caf\u00e9", "k" * 2048, " a "])
def test_any_text_is_a_key(service, feed, key):
    item = Text(name="n", content="c", key=key)
    assert feed([item], origin="o").created == 1
    assert feed([item], origin="o").unchanged == 1


def test_a_page_is_kept_by_its_address_however_long_a_site_may_make_it(service, feed):
    page = WebPage(name="n", url=f"{URL}/?".ljust(LONGEST, "x"))
    assert feed([page], origin="o").created == 1
    assert feed([page], origin="o").unchanged == 1


def test_keys_that_look_alike_are_two(service, feed):
    twins = [Text(name=key, content="c") for key in ("cafe\u0301", "caf\u00e9")]
    assert feed(twins, origin="o").created == 2
    assert feed(twins, origin="o").unchanged == 2


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("key", ["k" * 2049, "a\0b"])
def test_what_is_no_key_is_invalid_and_the_rest_is_sent(service, feed, key, complete):
    items = [Text(name="n", content="c", key=key), *texts(2)]
    report = feed(items, origin="o", complete=complete)
    assert (report.invalid, report.created) == (1, 2)


@pytest.fixture
def large():
    """`large(word, version)`: 200 texts of 200,000 characters; `large.most` were there at once."""
    alive = weakref.WeakSet()

    def made(word, version=None):
        made.most = 0
        for number in range(200):
            content = f"{word} {number} {'x' * 200_000}"
            text = Text(name=f"t{number}", content=content, version=version)
            alive.add(text)
            made.most = max(made.most, len(alive))
            yield text

    return made


def test_texts_with_new_versions_are_not_kept_to_the_end(service, feed, large):
    feed(large("a", "1"), origin="o")
    report = feed(large("a", "2"), origin="o")
    assert (report.unchanged, report.sent, large.most < 150) == (200, 0, True)
    before = len(service.requests)
    assert feed(large("a", "2"), origin="o").unchanged == 200
    assert {one.method for one in service.requests[before:]} == {"GET", "POST"}
    assert "/sync/touch" not in {one.path for one in service.requests[before:]}


def test_texts_that_another_run_was_faster_with_are_not_kept_to_the_end(feed, large):
    def late():
        assert feed((Text(name=f"t{n}", content="b") for n in range(200)), origin="o").ok
        yield from large("c")

    feed(large("a"), origin="o")
    report = feed(late(), origin="o")
    assert (report.undelivered, report.sent, large.most < 150) == (200, 0, True)


# Never all twice ----------------------------------------------------------------------------------


@pytest.mark.parametrize("by_hand", [False, True])
def test_what_another_holds_already_is_not_sent_again(service, feed, by_hand):
    if by_hand:
        with Client(KEY, URL, transport=service.transport) as client:
            for one in texts(4):
                client.create_text_source(
                    name=one.name, collections=COLLECTION, content=one.content
                )
    else:
        feed(texts(4), origin="mine")
    report = feed(texts(6), origin="yours")
    assert (report.stopped, report.ok, len(service.sources)) == (Stop.OVERLAP, False, 4)
    assert ("by hand" if by_hand else "'mine'") in report.stop_reason
    assert not report.stopped.may_pass
    other = feed(texts(6), origin="yours", collections="col_2")
    assert other.created == 6
    anyway = feed(texts(6), origin="theirs", anyway=True)
    assert (anyway.created, len(service.sources)) == ((2, 12) if by_hand else (6, 16))


def test_what_a_person_added_file_by_file_is_not_sent_again(service, feed):
    with Client(KEY, URL, transport=service.transport) as client:
        for one in texts(4):
            client.create_text_source(name=one.name, collections=COLLECTION, content=one.content)
    items = [Text(name=f"sub/{one.name}", content=one.content) for one in texts(6)]
    report = feed(items, origin="yours")
    assert (report.stopped, len(service.sources)) == (Stop.OVERLAP, 4)
    assert ("by hand" in report.stop_reason, "taken over" in report.stop_reason) == (True, False)
    assert feed(items, origin="yours", anyway=True).created == 6
    alike = [Text(name=f"{number}/{texts(1)[0].name}", content="c") for number in range(6)]
    assert feed(alike, origin="theirs").created == 6  # one of six is no more than that
    pages = [WebPage(name=f"{URL}/{number}/", url=f"{URL}/{number}/") for number in range(3)]
    assert feed(pages, origin="pages").created == 3  # they have no names without their folders


def test_half_is_not_all(service, feed):
    feed(texts(3), origin="mine")
    assert feed(texts(6), origin="yours").created == 6


def test_a_run_that_puts_nothing_under_a_new_name_leaves_no_origin_behind(service, feed, tmp_path):
    def origins():
        return {one.name: one.count for one in client.list_origins()}

    with Client(KEY, URL, transport=service.transport) as client:
        feed(Folder(tmp_path), origin="mistyped")
        feed(Folder(tmp_path, allow_empty=True), origin="mistyped")
        feed([], origin="mistyped")
        complete(client, "mistyped", [])
        assert origins() == {}
        feed(texts(4), origin="mine")
        feed(texts(4), origin="mistyped")
        assert origins() == {"mine": 4}
        feed([], origin="mine", gone_limit=1)
        assert origins() == {"mine": 0}


# What the service could not read ------------------------------------------------------------------


def test_a_run_waits_for_what_is_not_read_yet(service, feed):
    service.hold_sources()
    report = feed(texts(3), origin="o", wait_ready=0.3)
    assert (report.created, report.unready, report.ok) == (3, 3, False)
    service.finish_sources()
    assert feed(texts(3), origin="o", wait_ready=5).ok


# Parts --------------------------------------------------------------------------------------------


def test_parts_come_in_any_order_and_again_and_only_the_end_removes(service, feed):
    def part(start, stop, word="a"):
        return feed(texts(9, word)[start:stop], origin="crm", complete=False)

    def end(count, **options):
        with Client(KEY, URL, transport=service.transport) as client:
            return complete(client, "crm", [f"t{n}" for n in range(count)], **options)

    assert [part(6, 9).created, part(0, 3).created, part(3, 6).created] == [3, 3, 3]
    before = puts(service)
    assert [part(0, 3).unchanged, part(0, 3).unchanged, puts(service)] == [3, 3, before]
    assert part(0, 3, "b").replaced == 3
    assert end(9).ok
    assert len(service.sources) == 9
    assert end(6).removed == 3
    assert (end(0).withheld, end(0).ok) == (6, False)
    assert end(0, prune=False).gone == 6
    assert len(service.sources) == 6


@pytest.mark.parametrize("extensions", [{"sync"}, set()])
def test_the_end_of_an_origin_under_another_name_is_not_ok(tmp_path, extensions):
    service = MemoryService(collections=[COLLECTION], extensions=extensions)
    ledger = Ledger(tmp_path / "kbot.db")
    with Client(KEY, URL, transport=service.transport) as client:
        how = {"collections": COLLECTION, "ledger": ledger, "complete": False}
        assert ingest(client, texts(3), origin="crm", **how).created == 3
        report = complete(client, "CRM", ["t0"], ledger=ledger)
        assert (report.ok, "CRM" in report.incomplete) == (False, True)
        assert complete(client, "CRM", [], ledger=ledger).ok
        assert complete(client, "crm", ["t0", "t1"], ledger=ledger).ok


@pytest.mark.parametrize(
    ("code", "ended"), [("idempotency_key_reused", "unknown"), ("invalid_request", "refused")]
)
def test_a_key_that_was_used_says_nothing_of_the_item_that_it_was_kept_for(tmp_path, code, ended):
    service = MemoryService(collections=[COLLECTION], extensions={"idempotency"})
    ledger = Ledger(tmp_path / "kbot.db")

    def night():
        with Client(KEY, URL, transport=service.transport) as client, no_waiting():
            return ingest(client, texts(1), collections=COLLECTION, ledger=ledger, origin="o")

    service.lose_next_answer(times=None)
    assert night().unknown == 1
    service.recover()
    # The first request with the key may have been ours.
    service.answer_next(422, json.dumps({"code": code, "message": "m"}).encode())
    report = night()
    assert [name for name in ("unknown", "refused") if getattr(report, name)] == [ended]


# One call for every service -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extensions", "unsupported"),
    [
        (set(), ("prune", "wait_ready")),
        ({"idempotency"}, ("prune", "wait_ready")),
        ({"sources"}, ("prune", "wait_ready")),
        ({"sources", "sync"}, ()),
    ],
    ids=["plain", "keys", "sources", "sync"],
)
def test_the_same_call_works_with_each(tmp_path, extensions, unsupported):
    service = MemoryService(collections=[COLLECTION], extensions=extensions)

    def night(several):
        with Client(KEY, URL, transport=service.transport) as client:
            how = {"collections": COLLECTION, "ledger": Ledger(tmp_path / "kbot.db")}
            return ingest(client, several, origin="o", wait_ready=1, **how)

    first = night(texts(5))
    assert (first.created, first.ok) == (5, True)
    second = night([*texts(3), Text(name="t3", content="new"), Text(name="t5", content="new")])
    assert second.unchanged == 3
    assert second.ok
    assert second.unsupported == unsupported
    assert second.gone + second.removed == 1
    assert (tmp_path / "kbot.db").exists() is bool(unsupported)


# Pages, versions and other collections ------------------------------------------------------------


def page(version=None, digest=None, **other):
    return WebPage(name="p", url="https://h.example/", version=version, digest=digest, **other)


@pytest.mark.parametrize(
    ("before", "now", "sent"),
    [
        (page("1"), page("1"), 0),
        (page("1"), page("2"), 1),
        (page("1"), page(), 0),
        (page(), page("1"), 0),
        (page("etag 1", "d1"), page("etag 2", "d1"), 0),
        (page("etag 1", "d1"), page("etag 1", "d1", headers={"A": "b"}), 1),
        (page("1", key="p"), WebPage(name="p", url="https://h.example/2", version="1", key="p"), 1),
        (page("etag 1", "d1"), page("etag 2", "d2"), 1),
        (page(), page(headers={"Authorization": "b"}), 1),
        (Text(name="p", content="c"), page("1", key="p"), 1),
    ],
    ids=range(10),
)
def test_a_page_is_sent_again_when_what_it_says_changes(service, feed, before, now, sent):
    assert feed([before], origin="o").created == 1
    count = puts(service)
    assert feed([now], origin="o").ok
    assert puts(service) - count == sent
    assert feed([now], origin="o").unchanged == 1
    assert puts(service) - count == sent


def test_a_new_name_or_other_collections_are_seen_and_nothing_is_read_again(service, feed):
    feed([File(path=__file__, name="one", key="k", version="1")], origin="o")
    before = puts(service)
    renamed = File(path=__file__, name="two", key="k", version="1", collections=["col_2"])
    assert feed([renamed], origin="o").unchanged == 1
    assert puts(service) == before
    (source,) = service.sources
    assert (source["name"], source["collections"][0]["id"]) == ("two", "col_2")


NAMES = ["a\tb.md", "\u202aC:\\notes.md\u202c", "one\ntwo.md", "\x1b[1m.md"]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_no_service_takes_is_cleaned_and_its_key_stays(service, feed, tmp_path, name):
    service.strict = True
    (tmp_path / name).write_text("The gate is open.")
    assert feed(Folder(tmp_path, name="notes")).created == 1
    with Client(KEY, URL, transport=service.transport) as client:
        assert [one.key for one in client.list_entries("notes")] == [name]
    again = feed(Folder(tmp_path, name="notes"))
    assert (again.unchanged, again.ok, puts(service)) == (1, True, 1)
    (tmp_path / name).rename(tmp_path / f"new {name}")
    assert feed(Folder(tmp_path, name="notes")).moved == 1
    assert feed([Text(name=name * 900, content="long", key="1")], origin="texts").created == 1


def test_a_dry_run_names_what_would_be_removed(service, feed):
    items = [Text(name=name, content=name) for name in "abcd"]
    feed(items, origin="notes")
    would, told = partial(feed, origin="notes", dry_run=True), list[Outcome]()
    assert would(items[1:], on_outcome=told.append).removed == 1
    assert [(one.kind, one.key) for one in told] == [("removed", "a")]
    assert (would(items[3:]).withheld, len(service.sources)) == (3, 4)


def test_a_collection_that_is_not_there_is_no_fault_of_the_service(service, feed):
    report = feed([Text(name="a", content="A")], origin="notes", collections="col_nowhere")
    assert (report.stopped, report.ok, puts(service)) == (Stop.REFUSED, False, 0)


@pytest.mark.parametrize("how", [{}, {"version": "v1"}, {"version": "v1", "digest": "said"}])
def test_a_page_that_the_service_could_not_read_is_put_again_each_night(service, feed, how):
    page = WebPage(name="opening", url="https://h.example/opening", **how)
    pages = [page, WebPage(name="other", url="https://h.example/other", **how)]
    service.fail_source("opening", "its server answered 503")
    assert feed(pages, origin="site", wait_ready=1).failed == 1
    service.fail_source("opening", "its server answered 503")
    again = feed(pages, origin="site", wait_ready=1)
    assert (again.replaced, again.unchanged, again.still_failed, again.ok) == (1, 1, 1, True)
    assert feed(pages, origin="site", wait_ready=1).replaced == 1  # and it is there by now
    assert feed(pages, origin="site", wait_ready=1).unchanged == 2
    assert puts(service) == 4
