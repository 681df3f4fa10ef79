"""An origin in which nothing is found: no night is green then, unless that is said."""

import json
import sqlite3
from contextlib import closing

import pytest

from calls import KEY
from knowledge_bot import Client, origins
from knowledge_bot.ingest import Report, ingest
from knowledge_bot.testing import MemoryService

COLUMNS = {"key": "id", "text": "body", "name": "crm"}
PAGE = "https://h.example/{}"


def folder(place, count, **how):
    place.mkdir(exist_ok=True)
    for number in range(3):
        (place / f"{number}.md").unlink(missing_ok=True)
        if number < count:
            (place / f"{number}.md").write_text(f"Text {number}.")
    return origins.Folder(place, name="crm", **how)


def patterns(place, count, **how):
    folder(place, 3)
    return origins.Folder(place, name="crm", include="*.md" if count else "*.mdd", **how)


def objects(place, count, **how):
    folder(place, count)
    (place / ".keep").touch()
    return origins.Objects(f"file://{place}/**", name="crm", **how)


def object_patterns(place, count, **how):
    folder(place, 3)
    return origins.Objects(f"file://{place}/*.{'md' if count else 'mdd'}", name="crm", **how)


def lines(place, count, **how):
    several = [json.dumps({"name": str(number), "content": "text"}) for number in range(count)]
    place.write_text("\n".join(several))
    return origins.JsonLines(place, name="crm", **how)


def urls(place, count, **how):
    place.write_text("# pages\n" + "\n".join(map(PAGE.format, range(count))))
    return origins.Urls(place, name="crm", **how)


def sitemap(place, count, **how):
    pages = "".join(f"<url><loc>{PAGE.format(number)}</loc></url>" for number in range(count))
    place.write_text(f"<urlset>{pages}</urlset>")
    return origins.Sitemap(place, name="crm", **how)


def feed(place, count, **how):
    entry = "<item><title>{0}</title><link>https://h.example/{0}</link></item>"
    items = "".join(map(entry.format, range(count)))
    place.write_text(f'<rss version="2.0"><channel><title>N</title>{items}</channel></rss>')
    return origins.Feed(place, name="crm", **how)


def rows(place, count, **how):
    several = [{"id": number, "body": "text"} for number in range(count)]
    return origins.Rows(several, **COLUMNS, **how)


def sql(place, count, **how):
    with closing(sqlite3.connect(place)) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS article (id, body)")
        connection.execute("DELETE FROM article")
        connection.executemany(
            "INSERT INTO article VALUES (?, ?)", [(n, "t") for n in range(count)]
        )
    return origins.Sql("SELECT id, body FROM article", database=str(place), **COLUMNS, **how)


def loader(place, count, **how):
    pages = [{"page_content": f"Page {number}.", "id": number} for number in range(count)]
    return origins.Loader(pages, name="crm", **how)


EVERY = [
    folder,
    patterns,
    objects,
    object_patterns,
    lines,
    urls,
    sitemap,
    feed,
    rows,
    sql,
    loader,
]


@pytest.fixture(params=["sync", "plain"])
def night(request, tmp_path):
    """`night(origin, **options)`: one run, with the service as keeper or with a ledger."""
    service = MemoryService(
        collections=["col_1"], extensions={"sources", "sync"} if request.param == "sync" else set()
    )

    def go(origin, **options) -> Report:
        ledger = None if request.param == "sync" else tmp_path / "ledger.db"
        with Client(KEY, "https://service.test", transport=service.transport) as client:
            return ingest(client, origin, collections="col_1", ledger=ledger, **options)

    return go


@pytest.mark.parametrize("kind", EVERY)
def test_a_first_run_over_nothing_is_ok_only_if_it_is_said(kind, night, tmp_path):
    place = tmp_path / "place"
    found = night(kind(place, 0))
    assert (found.ok, found.items, bool(found.incomplete)) == (False, 0, True)
    assert night(kind(place, 0, allow_empty=True)).ok
    assert night(kind(place, 3)).ok


@pytest.mark.parametrize("kind", EVERY)
def test_nothing_where_there_was_something_is_not_ok_until_it_is_back(kind, night, tmp_path):
    place = tmp_path / "place"
    assert night(kind(place, 3)).created == 3
    for _ in range(3):
        empty = night(kind(place, 0))
        assert (empty.ok, empty.removed, empty.sent) == (False, 0, 0)
    back = night(kind(place, 3))
    assert (back.ok, back.unchanged) == (True, 3)


def test_what_is_gone_by_a_persons_word_leaves_an_empty_origin(night, tmp_path):
    place = tmp_path / "place"
    assert night(folder(place, 3)).created == 3
    night(folder(place, 0, allow_empty=True), gone_limit=1)
    assert night(folder(place, 0, allow_empty=True), gone_limit=1).ok
