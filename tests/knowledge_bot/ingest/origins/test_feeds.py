"""Feeds: RSS and Atom, broken and hostile ones."""

import json

import pytest

from knowledge_bot.ingest import (
    Skipped,
    WebPage,
)
from knowledge_bot.origins import (
    Feed,
)
from page_server import answer

RSS = b"""<?xml version="1.0"?><rss version="2.0"><channel><title>News</title>
<item><title>One  &amp; only</title><link>https://h.example/1</link>
<pubDate>Mon, 05 Jan 2026 10:00:00 GMT</pubDate></item>
<item><title>No link</title></item>
<item><link>https://h.example/3</link></item></channel></rss>"""

ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title>
<entry><title>A</title><link href="/a"/><updated>2026-01-05T10:00:00Z</updated></entry></feed>"""


def test_an_rss_feed_yields_its_pages_with_a_version(web):
    web.answers["/rss"] = answer(RSS)
    one, without_link, three = Feed(web.url("/rss")).items()
    assert one == WebPage(
        name="One & only", url="https://h.example/1", version="Mon, 05 Jan 2026 10:00:00 GMT"
    )
    assert isinstance(without_link, Skipped)
    assert not without_link.invalid  # it will never have one
    assert three == WebPage(name="https://h.example/3", url="https://h.example/3")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_an_atom_feed_yields_its_pages_with_absolute_addresses(web, encoding):
    web.answers["/atom"] = answer(ATOM.decode().encode(encoding))
    (page,) = Feed(web.url("/atom")).items()
    assert page == WebPage(name="A", url=web.url("/a"), version="2026-01-05T10:00:00Z")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_json_feed_yields_its_pages(web, encoding):
    items = [
        {"id": "1", "url": "/1", "title": "One", "date_modified": "2026-01-05T10:00:00Z"},
        {"id": "2", "content_text": "No link"},
        "no entry",
    ]
    feed = {"version": "https://jsonfeed.org/version/1.1", "items": items}
    web.answers["/feed.json"] = answer(json.dumps(feed).encode(encoding))
    page, without_link = Feed(web.url("/feed.json")).items()
    assert page == WebPage(name="One", url=web.url("/1"), version="2026-01-05T10:00:00Z")
    assert isinstance(without_link, Skipped)


def test_a_feed_that_is_not_well_formed_is_read_all_the_same(tmp_path):
    path = tmp_path / "feed.xml"
    path.write_bytes(RSS.replace(b"&amp;", b"&"))
    assert sum(isinstance(item, WebPage) for item in Feed(str(path)).items()) == 2


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"<html><body>Hello</body></html>", "neither RSS nor Atom"),
        (b'<!DOCTYPE z [<!ENTITY a "aa">]><rss version="2.0"/>', "declares entities"),
        (b"", "neither RSS nor Atom"),
        (b'{"version": "1"}', "nor a JSON Feed"),
        (b'{"a":' * 100_000, "nor a JSON Feed"),
    ],
    ids=["page", "bomb", "nothing", "other JSON", "JSON that nests"],
)
def test_what_is_no_feed_is_reported(web, body, said):
    web.answers["/feed"] = answer(body)
    (item,) = Feed(web.url("/feed")).items()
    assert isinstance(item, Skipped)
    assert said in item.reason


def test_a_feed_is_not_read_before_it_is_needed(web):
    Feed(web.url("/feed"))
    assert web.requests == []
