"""What an origin no longer yields: reported after a complete run, and never guessed."""

import time
from types import SimpleNamespace

import pytest

from calls import KEY
from ingest_texts import texts
from knowledge_bot import Client
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest import (
    File,
    Ledger,
    Skipped,
    Text,
    ingest,
)
from knowledge_bot.origins import (
    Folder,
    JsonLines,
    Loader,
    Rows,
    Site,
    Sitemap,
    Urls,
)
from scripted_server import answer, reset
from trap_site import Response, TrapSite, serving_traps

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def ledger(ledger_address: str) -> Ledger:
    return Ledger(ledger_address)


@pytest.fixture
def ingested(send, ledger):
    """`ingested(items, **options)`: ingest from the origin `handbook`."""

    def go(items, **options):
        return send(items, **{"ledger": ledger, "origin": "handbook", **options})

    return go


def gone(ledger: Ledger) -> list[str]:
    return [entry.key for entry in ledger.gone()]


def test_what_no_longer_comes_is_gone_and_named_with_its_source(ingested, ledger):
    ingested(texts(5))
    report = ingested(texts(3))
    assert (report.gone, report.withheld, report.unchanged) == (2, 0, 3)
    assert report.ok
    entries = {entry.key: entry for entry in ledger.gone()}
    assert sorted(entries) == ["t3", "t4"]
    assert {entry.origin for entry in entries.values()} == {"handbook"}
    assert all(entry.source_id.startswith("src_") for entry in entries.values())
    assert all(entry.gone_at is not None for entry in entries.values())
    (holding,) = ledger.status()
    assert (holding.created, holding.gone) == (5, 2)


@pytest.mark.parametrize(("vanished", "incomplete"), [(5, False), (6, True)])
def test_a_place_that_loses_files_while_it_is_read_is_no_whole_one(
    ingested, tmp_path, vanished, incomplete
):
    folder = tmp_path / "handbook"
    folder.mkdir()
    files = [folder / f"{number}.md" for number in range(8)]

    class Losing(Folder):
        def listings(self, memory=None):
            for listing in super().listings(memory):
                for file in files[:vanished]:
                    file.unlink()
                yield listing

    for file in files:
        file.write_text(f"This is {file.name}.")
    report = ingested(Losing(folder))
    assert (report.skipped, report.created) == (vanished, 8 - vanished)
    assert bool(report.incomplete) == incomplete


def test_what_is_gone_stays_gone_and_keeps_the_time_at_which_it_went(ingested, ledger, monkeypatch):
    ingested(texts(5))
    ingested(texts(4))
    (before,) = ledger.gone()
    later = time.time() + 1000
    monkeypatch.setattr(time, "time", lambda: later)
    assert ingested(texts(3)).gone == 2
    assert [one.gone_at for one in ledger.gone() if one.key == "t4"] == [before.gone_at]


@pytest.mark.parametrize("content", ["Some text", "Another text"])
def test_an_item_that_comes_back_is_not_gone(ingested, ledger, service, content):
    ingested(texts(5))
    ingested(texts(4))
    assert gone(ledger) == ["t4"]
    report = ingested([*texts(4), texts(5, content)[4]])
    assert (report.gone, report.created) == (0, content == "Another text")
    assert gone(ledger) == []


@pytest.mark.parametrize("fate", ["blank", "held back", "refused"])
def test_an_item_that_comes_back_and_is_not_sent_is_not_gone(ingested, ledger, service, fate):
    service.judge = lambda name, times: reset if (name, times) == ("t4", 2) else None
    ingested(texts(5))
    if fate == "held back":
        assert ingested([*texts(4), texts(5, "lost")[4]]).unknown == 1
    assert ingested(texts(4)).gone == 1
    if fate == "refused":
        service.judge = lambda name, times: answer(400, {"code": "no", "message": "no"})
    back = Text(name="t4", content=" " if fate == "blank" else "new")
    assert ingested([*texts(4), back]).gone == 0
    assert gone(ledger) == []
    assert ledger.status()[0].gone == 0


def test_items_without_an_origin_are_never_gone(send, ledger):
    send(texts(5), ledger=ledger)
    assert send(texts(1), ledger=ledger).gone == 0
    assert gone(ledger) == []


@pytest.mark.parametrize("find", [JsonLines, Sitemap])
def test_a_file_of_items_is_an_origin_of_its_own(send, ledger, tmp_path, find):
    path = written(tmp_path, find, 4)
    assert send(find(str(path)), ledger=ledger).created == 4
    written(tmp_path, find, 3)
    assert send(find(str(path)), ledger=ledger).gone == 1


def three_pages(site: TrapSite) -> None:
    del site.responses["/robots.txt"]
    site.page("/", "/a", "/b")
    site.page("/a")
    site.page("/b")


@pytest.mark.parametrize(("path", "failure"), [("/b", 500), ("/b", 403), ("/", 500)])
def test_nothing_of_a_site_is_gone_that_stands_behind_a_failure(send, ledger, path, failure):
    with serving_traps(filling=three_pages) as site:
        pages = Site(f"{site.root}/", rate=1000)
        assert send(pages, ledger=ledger).created == 3
        site.responses[path].status = failure
        assert send(pages, ledger=ledger).gone == 0
        site.responses[path].status = 200
        site.responses["/b"].status = 404
        assert send(pages, ledger=ledger).gone == 1


@pytest.mark.parametrize("status", [401, 403, 405, 451, 500])
def test_what_never_could_be_read_hides_nothing(send, ledger, status):
    with serving_traps(filling=three_pages) as site:
        site.page("/", "/a", "/b", "/admin")
        site.responses["/admin"] = Response(b"No", status)
        pages = Site(f"{site.root}/", rate=1000)
        assert send(pages, ledger=ledger).created == 3
        site.page("/", "/a", "/admin")
        report = send(pages, ledger=ledger)
        assert (report.gone, report.incomplete) == (1, "")
        assert gone(ledger) == [f"{site.root}/b"]


def test_what_a_page_linked_to_is_not_gone_while_that_page_cannot_be_read(send, ledger):
    with serving_traps(filling=three_pages) as site:
        site.page("/a", "/behind", *(f"/more/{number}" for number in range(4)))
        for path in ("/behind", *(f"/more/{number}" for number in range(4))):
            site.page(path)
        pages = Site(f"{site.root}/", rate=1000)
        assert send(pages, ledger=ledger).created == 8
        for status in (403, 500):
            site.responses["/a"].status = status
            del site.responses["/more/0"]
            report = send(pages, ledger=ledger)
            # What it linked to is read all the same, so that one is gone for certain.
            assert (report.created, report.unchanged, report.gone) == (0, 6, 1)
            assert gone(ledger) == [f"{site.root}/more/0"]
            site.page("/more/0")
        site.page("/a")  # no link any more
        report = send(pages, ledger=ledger, gone_limit=1)
        assert (report.gone, report.incomplete) == (5, "")


def test_a_sitemap_hides_pages_only_if_it_once_had_some(send, ledger):
    with serving_traps(filling=three_pages) as site:

        def named(*paths: str) -> Response:
            locations = "".join(f"<url><loc>{site.root}{path}</loc></url>" for path in paths)
            return Response(f"<urlset>{locations}</urlset>".encode(), kind="text/xml")

        site.page("/alone")
        there = f"Sitemap: {site.root}/none.xml\nSitemap: {site.root}/pages.xml\n"
        site.responses["/robots.txt"] = Response(there.encode(), kind="text/plain")
        site.responses["/pages.xml"] = named("/alone")
        pages = Site(f"{site.root}/", rate=1000)
        assert send(pages, ledger=ledger).created == 4
        site.page("/", "/a")
        assert send(pages, ledger=ledger).gone == 1  # although there is no none.xml
        site.responses["/pages.xml"].status = 404
        report = send(pages, ledger=ledger)
        assert report.incomplete.startswith(f"{site.root}/pages.xml")
        assert gone(ledger) == [f"{site.root}/b"]


def written(folder, find, count: int):
    """Write a file of so many pages, as the reader of it takes them."""
    pages = [f"https://h.example/{number}" for number in range(count)]
    path = folder / "pages"
    if find is JsonLines:
        path.write_text("".join(f'{{"url": "{page}"}}\n' for page in pages))
    else:
        urls = "".join(f"<url><loc>{page}</loc></url>" for page in pages)
        path.write_text(f"<urlset>{urls}</urlset>")
    return path


def raising():
    yield from texts(2)
    raise LookupError("the disk went away")


def test_nothing_is_gone_where_the_items_break_off(ingested, ledger):
    ingested(texts(3))
    with pytest.raises(LookupError):
        ingested(raising())
    assert gone(ledger) == []


# Fewer are missing than `gone_limit` allows, so that it is not what spares them.
@pytest.mark.parametrize(
    ("options", "status", "stop"), [({"limit": 1}, None, "limit"), ({}, 401, "authentication")]
)
def test_nothing_is_gone_after_a_run_that_ended_early(  # noqa: PLR0917 - a row
    ingested, ledger, service, options, status, stop
):
    ingested(texts(10))
    service.judge = lambda name, times: answer(status) if status else None
    report = ingested([*texts(8), *texts(14)[10:]], **options)
    assert report.stopped == stop
    assert (report.gone, report.withheld, gone(ledger)) == (0, 0, [])


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (Skipped("guide/", "it cannot be read", invalid=True, partial=True), 0),
        ({"name": "no item"}, 0),
        (Skipped(".git", "hidden"), 1),
    ],
    ids=["a folder", "no item", "by name"],
)
def test_nothing_is_gone_beside_what_may_hide_it(ingested, ledger, item, expected):
    ingested(texts(5))
    report = ingested([*texts(4), item])
    assert (report.gone, report.withheld, len(gone(ledger))) == (expected, 0, expected)


def test_an_item_that_fails_is_there_all_the_same(ingested, ledger, service, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("A file.")
    ingested([*texts(4), File(path=path)])
    path.write_text("")  # empty by now, and still there
    changed = [Text(name="t0", content="refused"), Text(name="t1", content="lost")]
    refusal = answer(400, {"code": "no", "message": "no"})
    service.judge = lambda name, times: {"t0": refusal, "t1": reset}.get(name)
    report = ingested([*changed, texts(3)[2], Text(name="t3", content=" "), File(path=path)])
    assert (report.refused, report.unknown, report.invalid, report.gone) == (1, 1, 2, 0)
    path.unlink()  # it cannot be read, but somebody says that it is there
    report = ingested([*texts(4), File(path=path)], on_unknown="resend")
    assert (report.invalid, report.gone) == (1, 0)


def test_what_never_was_in_the_service_is_not_gone(ingested, ledger, service):
    service.judge = lambda name, times: (
        answer(400, {"code": "no", "message": "no"}) if name == "t4" else None
    )
    ingested(texts(5))
    report = ingested(texts(3))
    assert report.gone == 1
    assert gone(ledger) == ["t3"]


def test_each_of_many_items_goes_and_comes_back_by_itself(ingested, ledger):
    everything = texts(40)
    ingested(everything)
    for away in (0, 7, 8, 9, 15, 16, 31, 39):
        ingested(everything[:away] + everything[away + 1 :])
        assert gone(ledger) == [f"t{away}"]
        assert ingested(everything, dry_run=True).gone == 0
    assert ingested(everything).gone == 0
    assert gone(ledger) == []


def test_more_than_the_limit_is_withheld_until_asked_for(ingested, ledger):
    ingested(texts(10))
    report = ingested(texts(4))
    assert (report.gone, report.withheld) == (0, 6)
    assert gone(ledger) == []
    assert ingested(texts(4), gone_limit=0.6).gone == 6
    assert len(gone(ledger)) == 6


def test_what_is_gone_already_does_not_count_for_the_limit(ingested, ledger):
    ingested(texts(24))
    assert ingested(texts(12)).gone == 12
    assert ingested(texts(6)).gone == 18
    report = ingested(texts(0), gone_limit=0.9)
    assert (report.gone, report.withheld) == (18, 6)


@pytest.mark.parametrize(
    ("before", "after", "options", "gone", "withheld"),
    [
        (10, 5, {}, 5, 0),  # half of them may vanish at once
        (10, 9, {"gone_limit": 0}, 0, 1),
        (6, 1, {}, 0, 5),  # a few are no exception
        (7, 4, {"gone_limit": 0.3}, 0, 3),
        (2, 1, {}, 1, 0),
        (1, 0, {}, 0, 1),  # an empty origin is taken for a mistake
        (2, 0, {"gone_limit": 1}, 2, 0),
    ],
)
def test_so_many_may_vanish_at_once(ingested, before, after, options, gone, withheld):  # noqa: PLR0917
    ingested(texts(before))
    report = ingested(texts(after), **options)
    assert (report.gone, report.withheld) == (gone, withheld)


def test_other_origins_and_services_are_not_touched(ingested, ledger, service):
    ingested(texts(4))
    ingested(texts(4), origin="another")
    other = service.url.replace("127.0.0.1", "localhost")
    ingested(texts(4), url=other)
    assert ingested(texts(3)).gone == 1
    (entry,) = ledger.gone()
    assert (entry.key, entry.origin) == ("t3", "handbook")
    assert entry.service.startswith(service.url)


def test_an_item_with_collections_of_its_own_belongs_to_the_origin_as_well(ingested, ledger):
    own = Text(name="own", content="elsewhere", collections=["col_9"])
    ingested([*texts(3), own])
    assert ingested([*texts(3), own]).gone == 0
    assert ingested(texts(3)).gone == 1
    assert gone(ledger) == ["own"]


def test_a_dry_run_counts_what_would_be_gone_and_writes_nothing(ingested, ledger):
    ingested(texts(5))
    report = ingested(texts(4), dry_run=True)
    assert (report.gone, report.dry_run) == (1, True)
    assert gone(ledger) == []


def test_what_a_person_forgets_is_gone_no_more(ingested, ledger):
    ingested(texts(5))
    ingested(texts(3))
    assert ledger.forget("t3") == 1
    assert gone(ledger) == ["t4"]
    assert ingested(texts(3)).gone == 1
    (last,) = ledger.gone()
    assert ledger.forget(last.source_id) == 1
    assert gone(ledger) == []
    (*_, there) = ledger.entries()
    assert ledger.forget(there.source_id) == 0  # by that, only what is gone


def test_what_two_runs_share_out_is_gone_for_neither(service, ledger):
    """A run's own rows and those that others made meanwhile are there, whoever looks."""
    items = texts(40)
    with Client(KEY, service.url) as client:

        def nested():
            yield from items[:20]
            report = ingest(client, items, collections="col_1", ledger=ledger, origin="handbook")
            assert report.gone == 0
            yield from items[20:]

        report = ingest(client, nested(), collections="col_1", ledger=ledger, origin="handbook")
    assert (report.gone, report.withheld) == (0, 0)
    assert gone(ledger) == []


# Places whose keys are their own ------------------------------------------------------------------


def table(*numbers: int, word: str = "row"):
    return [{"id": number, "body": f"{word} {number}"} for number in numbers]


def test_two_tables_with_the_same_keys_are_two_by_their_origins(send, ledger):
    def night(origin, *numbers):
        rows = Rows(table(*numbers, word=origin), key="id", text="body", name=origin)
        report = send(rows, ledger=ledger)
        return report.created, report.unchanged, report.superseded, report.gone

    assert night("articles", 1, 2, 3) == (3, 0, 0, 0)
    assert night("products", 1, 2) == (2, 0, 0, 0)
    for _ in range(2):
        assert night("articles", 1, 2, 3) == (0, 3, 0, 0)
        assert night("products", 1, 2) == (0, 2, 0, 0)
    assert night("articles", 1, 2) == (0, 2, 0, 1)
    (entry,) = ledger.gone()
    assert (entry.key, entry.origin) == ("3", "articles")


def test_two_loaders_with_the_same_sources_are_two_by_their_origins(send, ledger):
    class Wiki:
        def __init__(self, *pages):
            self.pages = pages

        def lazy_load(self):
            for page in self.pages:
                yield SimpleNamespace(page_content=page, metadata={"source": "Home"})

    for counts in ((1, 0), (0, 1), (0, 1)):
        for space in ("hr", "it"):
            wiki = Loader(Wiki(f"Welcome to {space}."), name=space)
            report = send(wiki, ledger=ledger)
            assert (report.created, report.unchanged) == counts
    assert {entry.origin for entry in ledger.entries()} == {"hr", "it"}


def test_the_origin_of_the_run_is_the_one_that_counts(send, ledger):
    for given in ("one", "other"):
        rows = Rows(table(1), key="id", text="body", name=given)
        send(rows, ledger=ledger, origin="articles")
    (entry,) = ledger.entries()
    assert (entry.key, entry.origin) == ("1", "articles")


# Taken again --------------------------------------------------------------------------------------


def test_what_may_be_taken_again_is_and_nothing_is_gone(send, ledger, tmp_path):
    (tmp_path / "urls.txt").write_text("https://h.example/a\nhttps://h.example/b\n")
    (tmp_path / "items.jsonl").write_text('{"name": "a", "content": "b"}\n')
    for number, found in enumerate(
        (
            Urls(tmp_path / "urls.txt"),
            Urls(["https://h.example/c"]),
            JsonLines(tmp_path / "items.jsonl"),
            Sitemap(str(written(tmp_path, Sitemap, 4))),
        )
    ):
        first = send(found, ledger=ledger, origin=f"place {number}")
        again = send(found, ledger=ledger, origin=f"place {number}")
        assert first.created > 0
        assert again.unchanged == first.created
        assert (again.gone, again.withheld) == (0, 0)


def test_what_can_be_taken_only_once_says_so(send):
    for found, what in (
        (Rows(iter(table(1, 2)), key="id", text="body", name="rows"), "rows"),
        (Urls(iter(["https://h.example/a"])), "lines"),
        (Loader(iter([SimpleNamespace(page_content="x")]), name="docs"), "documents"),
    ):
        assert send(found).created >= 1
        with pytest.raises(ConfigurationError, match=f"^{what}: "):
            send(found)


def test_a_run_that_did_not_see_everything_says_why_nothing_is_gone(send, ledger):
    def night(*rows):
        return send(Rows(rows, key="id", text="body", name="t"), ledger=ledger)

    night(*table(1, 2))
    report = night(*table(1), {"id": [2], "body": "x"})
    assert report.gone == 0
    assert report.incomplete.startswith("row 2: its key is of type list")
    assert report.as_dict()["incomplete"]
    whole = night(*table(1))
    assert (whole.gone, whole.incomplete) == (1, "")
    assert send([Text(name="n", content="c")], ledger=ledger).incomplete == ""
