"""Sitemaps: nested, compressed, and hostile."""

import gzip

import pytest

from knowledge_bot.ingest import (
    Skipped,
    WebPage,
)
from knowledge_bot.origins import (
    Sitemap,
)
from knowledge_bot.origins import _documents as documents
from knowledge_bot.testing import no_waiting
from page_server import answer, redirect
from refusals import refused
from waiting import free_port

NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def pages(*entries: str) -> bytes:
    urls = "".join(f"<url>{entry}</url>" for entry in entries)
    return f'<?xml version="1.0"?><urlset {NAMESPACE}>{urls}</urlset>'.encode()


def index(*locations: str) -> bytes:
    entries = "".join(f"<sitemap><loc>{location}</loc></sitemap>" for location in locations)
    return f"<sitemapindex {NAMESPACE}>{entries}</sitemapindex>".encode()


def skipped(items) -> list[Skipped]:
    return [item for item in items if isinstance(item, Skipped)]


def test_pages_have_their_address_as_name_and_are_read_past_one_that_is_none(web):
    web.answers["/s.xml"] = answer(
        pages("<loc> https://h.example/a </loc>", "<loc>javascript:alert(1)</loc>", "<loc>/b</loc>")
    )
    one, none, other = Sitemap(web.url("/s.xml")).items()
    assert one == WebPage(name="https://h.example/a", url="https://h.example/a")
    assert isinstance(none, Skipped)
    assert other == WebPage(name=web.url("/b"), url=web.url("/b"))


def test_a_lastmod_in_another_notation_is_no_change(web):
    said = ("2026-01-02", "2026-01-02T00:00:00Z", "2026-01-02T01:00+01:00", "yesterday")
    web.answers["/s.xml"] = answer(
        pages(*(f"<loc>/{n}</loc><lastmod>{each}</lastmod>" for n, each in enumerate(said)))
    )
    *alike, other = (page.version for page in Sitemap(web.url("/s.xml")).items())
    assert set(alike) == {"2026-01-02T00:00:00+00:00"}
    assert other == "yesterday"


def test_nested_and_compressed_sitemaps_are_followed(web):
    web.answers["/index.xml"] = answer(index("a.xml.gz", "/b.xml", "/index.xml"))
    web.answers["/a.xml.gz"] = answer(
        gzip.compress(gzip.compress(pages("<loc>/1</loc>"))), "Content-Encoding: gzip"
    )
    web.answers["/b.xml"] = answer(pages("<loc>/2</loc>"))
    found = [item.url for item in Sitemap(web.url("/index.xml")).items()]
    assert found == [web.url("/1"), web.url("/2")]


def test_a_text_with_addresses_is_a_sitemap(web):
    web.answers["/s.txt"] = answer(
        b"\xef\xbb\xbfhttps://h.example/a\r\n\r\nhttps://h.example/b?c&d\n"
    )
    found = [item.url for item in Sitemap(web.url("/s.txt")).items()]
    assert found == ["https://h.example/a", "https://h.example/b?c&d"]


def test_an_address_with_an_ampersand_that_is_not_escaped_is_read(web):
    web.answers["/s.xml"] = answer(pages("<loc>https://h.example/?a=1&b=2&amp;c&#38;&</loc>"))
    (page,) = Sitemap(web.url("/s.xml")).items()
    assert page.url == "https://h.example/?a=1&b=2&c&&"


def test_a_file_is_read_as_well(tmp_path):
    (tmp_path / "s.xml.gz").write_bytes(gzip.compress(pages("<loc>https://h.example/</loc>")))
    assert len(list(Sitemap(str(tmp_path / "s.xml.gz")).items())) == 1


def test_redirects_are_followed_and_no_key_goes_along(web, monkeypatch):
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", "the-key-of-the-service")
    web.answers["/old.xml"] = redirect("/new.xml")
    web.answers["/new.xml"] = answer(pages("<loc>/1</loc>"))
    assert len(list(Sitemap(web.url("/old.xml")).items())) == 1
    assert len(web.requests) == 2
    assert not any("the-key-of-the-service" in request for request in web.requests)


BOMB = (
    b'<?xml version="1.0"?><!DOCTYPE z [<!ENTITY a "aaaaaaaaaa">'
    b'<!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]><urlset><url><loc>&b;</loc></url></urlset>'
)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (BOMB, "declares entities"),
        (b"<html><body>Not found</body></html>", "not a sitemap but <html>"),
        (pages("<loc>/1</loc>")[:-20], "not well-formed"),
        (b"no XML at all", "neither XML nor"),
        (b"", "neither XML nor"),
        (gzip.compress(b""), "neither XML nor"),
        (gzip.compress(pages("<loc>/1</loc>"))[:-12], "cannot be unpacked"),
    ],
    ids=["bomb", "page", "cut off", "text", "nothing", "nothing, zipped", "cut off while zipped"],
)
def test_what_is_no_sitemap_is_reported(web, body, said):
    web.answers["/s.xml"] = answer(body)
    (last,) = skipped(Sitemap(web.url("/s.xml")).items())
    assert said in last.reason
    assert (last.invalid, last.partial) == (True, True)  # nothing that it listed is gone


def test_a_compression_bomb_is_not_unpacked(web, monkeypatch):
    monkeypatch.setattr(documents, "TOO_LARGE", 1024 * 1024)
    web.answers["/s.xml"] = answer(gzip.compress(b"<urlset>" + b" " * 5_000_000 + b"</urlset>"))
    (last,) = skipped(Sitemap(web.url("/s.xml")).items())
    assert "larger than 1 MiB" in last.reason


def test_a_sitemap_that_is_not_there_is_reported(web):
    web.answers["/s.xml"] = answer(b"", status="404 Not Found")
    (last,) = Sitemap(web.url("/s.xml")).items()
    assert "404" in last.reason
    with no_waiting():
        (last,) = Sitemap(f"http://127.0.0.1:{free_port()}/s.xml").items()
    assert (last.invalid, last.partial) == (True, True)
    for address in ("/nowhere/s.xml", "ftp://h.example/s.xml", "", "https://a:b@h.example/s.xml"):
        with refused("address"):
            Sitemap(address).items()


def test_endless_nesting_ends(web):
    for level in range(9):
        web.answers[f"/{level}"] = answer(index(f"/{level + 1}"))
    (last,) = Sitemap(web.url("/0")).items()
    assert "too deeply" in last.reason
    assert len(web.requests) == 4
