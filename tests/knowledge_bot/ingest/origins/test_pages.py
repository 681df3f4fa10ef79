"""A page's links and directives, its version, and its address."""

import time
from dataclasses import replace

import pytest

from knowledge_bot.origins import _html as html
from knowledge_bot.origins._addresses import cleaned
from knowledge_bot.origins._changes import digest_of
from knowledge_bot.origins._pages import Known, _asked_by_header, _canonical_by_header
from knowledge_bot_web.fetching import WebResponse

URL = "https://h.example/a/b"


def page(text: str) -> html.ParsedPage:
    return html.read_page(text, URL, "utf-8")


def links(text: str) -> list[str]:
    return [link.removeprefix("https://h.example") for link in page(text).links]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<a href=c>", ["/a/c"]),
        ("<A CLASS=x HREF = '/c'>", ["/c"]),
        ('<a href="/c?a=1&amp;b=2">', ["/c?a=1&b=2"]),
        ('<a href="/c"href="/d">', ["/c"]),
        ("<a title='>' href=/c>", ["/c"]),
        ("<a\n\thref\n=\n/c\n>", ["/c"]),
        ("<a/href=/c>", ["/c"]),
        ("<area href=/c><link href=/d rel=stylesheet><img src=/e>", ["/c"]),
        ("<base href=/x/><base href=/y/><a href=c>", ["/x/c"]),
        ("<base href='http://['><a href=c>", ["/a/c"]),
        ("<a href=/c rel='x NOFOLLOW'><a href=/d rel=next>", ["/d"]),
        ("<!-- <a href=/c> --><a href=/d>", ["/d"]),
        ("<script>'<a href=/c>'</script ><a href=/d>", ["/d"]),
        ("<textarea><a href=/c></textarea><style><a href=/c></style><a href=/d>", ["/d"]),
        ("<meta http-equiv=refresh content='5; url=/c'>", ["/c"]),
        ("<meta http-equiv=refresh content=5>", []),
        ("<frameset><frame src=/c></frameset><iframe src=/d></iframe>", ["/c", "/d"]),
        ("<a href=/c><a href=/c#x><a href=/c?utm_source=y>", ["/c"]),
        ("1 < 2 <3 </ > <> <!x> <?y?> <a href=/c>", ["/c"]),
        ("<a href=/c", []),
        ("<a href='/c>", []),
        ("<!-- <a href=/c>", []),
        ("<a href>", []),
        ("<a href=''>", []),
    ],
)
def test_links_are_found_where_a_browser_would_find_them(text, expected):
    assert links(text) == expected


def test_all_links_of_a_page_are_found_each_once():
    text = "".join(f"<a href=/{number}>" for number in range(6000)) * 2
    assert len(page(text).links) == 6000


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("<link rel=canonical href=/c>", "/c"),
        ("<link rel='alternate Canonical' href=/c>", "/c"),
        ("<link rel=canonical href=/c><link rel=canonical href=/d>", "/c"),
        ("<link rel=stylesheet href=/s.css><link rel=canonical href=/c>", "/c"),
        ("<link rel=stylesheet href=/s.css>", None),
        ("<link rel=icon href=/i.png><link rel=alternate hreflang=de href=/de>", None),
        ("<link rel=canonical>", None),
    ],
)
def test_a_page_has_the_first_canonical_address_that_it_names(head, expected):
    found = page(head).canonical
    assert found == (None if expected is None else f"https://h.example{expected}")


@pytest.mark.parametrize(
    "piece",
    [
        "<",
        "<!",
        "<a_",
        "<a_b='",
        '<a_="',
        "<!--",
        "</",
        "<![",
        "<?",
        "<a/",
        "<script>",
        "<title>",
        "&#",
        "&",
        "<style></styl",
        "<p_role=banner>",
        "<meta_",
    ],
)
def test_no_page_takes_long(piece):
    """html.parser of Python 3.11 needs 111 seconds for 100 KB of the third one."""
    began = time.process_time()
    page(piece.replace("_", " ") * (500_000 // len(piece)))
    assert time.process_time() - began < 3


def test_a_layout_is_no_text():
    def digest(text: str) -> str | None:
        return digest_of(html.blocks_of(text, page(text), "plain"))

    assert digest("<p>one  two</p>") == digest("<div>one<br>\n two</div>") != digest("<p>one")
    assert digest("<script>1</script>") is None


def test_a_page_that_the_extractor_finds_nothing_in_is_compared_all_the_same():
    pytest.importorskip("trafilatura")
    one, two = (
        html.blocks_of(text, page(text), "trafilatura") for text in ("<p>1</p>", "<p>2</p>")
    )
    assert (one, two) == (["1"], ["2"])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["noindex, NoFollow"], {"noindex", "nofollow"}),
        (["noindex", "nofollow"], {"noindex", "nofollow"}),
        (["other: noindex, nofollow"], set()),
        (["other: noindex, knowledge-bot: nofollow"], {"nofollow"}),
        (["Knowledge-Bot: none"], {"none"}),
        (["unavailable_after: 25 Jun 2030 15:00:00 PST"], set()),
        (["max-snippet:20, noindex"], {"noindex"}),
    ],
)
def test_x_robots_tag_is_for_all_or_for_whom_it_names(values, expected):
    answer = WebResponse(URL, 200, tuple(("x-robots-tag", value) for value in values))
    assert _asked_by_header(answer) & {"noindex", "nofollow", "none"} == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('</c>; rel="canonical"', "https://h.example/c"),
        ("</x>; rel=preload, </c>; rel=canonical", "https://h.example/c"),
        ('</c>; rel="alternate canonical"', "https://h.example/c"),
        ('</c>; rel="canonical-not"', None),
        ("</c>; rel=next", None),
    ],
)
def test_a_canonical_address_may_stand_in_a_header(value, expected):
    assert _canonical_by_header(WebResponse(URL, 200, (("link", value),)), URL) == expected


def test_what_is_remembered_comes_back_from_a_version_that_stays_short():
    place = ("12345678", "87654321", 3)
    known = Known("d", "c", "t", "Fri", '"e"', read_at=5, changes=2, lies=True, places=(place,))
    assert Known.of(known.version) == known
    much = replace(known, etag="ä" * 200, places=(place,) * 90)
    assert len(much.version.encode()) <= 2000
    assert Known.of(much.version) == replace(known, etag=None, places=())
    for day in ("2026-01-02", "7", '"x"', "[1, 2]", "{}"):
        assert Known.of(day) == Known(digest=day, modified=day)


@pytest.mark.parametrize(("characters", "is_hollow"), [(299, True), (300, False)])
def test_only_a_short_page_that_speaks_of_javascript_is_hollow(characters, is_hollow):
    said = "Please enable JavaScript.".ljust(characters, "x")
    assert bool(page(f"<script>1</script><p>{said}</p>").hollow) is is_hollow


def known(content=None, modified=None, **more) -> Known:
    return Known(content or modified, content, content, modified, **more)


@pytest.mark.parametrize(
    ("before", "now", "digest"),
    [
        (known("a"), known("a", "Fri"), "a"),
        (known("a", "Thu"), known("b", "Thu"), "b"),
        (known("a", "Thu"), known("a", "Fri"), "a"),
        (known(None, "Thu"), known("b", "Fri"), "Thu"),  # it was never read
        (Known.of("2026-01-02"), known("b"), "2026-01-02"),
    ],
)
def test_only_what_is_compared_and_was_known_is_a_change(before, now, digest):
    assert before.followed_by(now).digest == digest


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("HTTP://H.Example:80/x#f", "http://h.example/x"),
        ("https://h.example:443", "https://h.example/"),
        ("https://h.example:8443/", "https://h.example:8443/"),
        ("//other.example/x", "https://other.example/x"),
        ("c/../../d/./e", "https://h.example/d/e"),
        ("/../../x/..", "https://h.example/"),
        ("https://h.example/x/../y", "https://h.example/y"),
        ("https://h.example/x/y/..", "https://h.example/x/"),
        ("?q=1", "https://h.example/a/b?q=1"),
        (" /x\ty\n", "https://h.example/xy"),
        ("/x?", "https://h.example/x"),
        ("/ä b?q=ü", "https://h.example/%C3%A4%20b?q=%FC"),
        ("/x?q=%e3%zz", "https://h.example/x?q=%E3%25zz"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("http://[::1]:80/", "http://[::1]/"),
        ("/x?utm_source=a&b=1&fbclid=2&gclid=3", "https://h.example/x?b=1"),
        ("/x;jsessionid=1A2B.node?PHPSESSID=3", "https://h.example/x"),
        ("/x?a=1&sid=0123456789abcdef0123", "https://h.example/x?a=1"),
        ("/x?sid=12", "https://h.example/x?sid=12"),
        ("/(S(abc123abc123abc123abc123))/x.aspx", "https://h.example/x.aspx"),
        ("/x;v=1", "https://h.example/x;v=1"),
        ("mailto:a@h.example", None),
        ("javascript:void(0)", None),
        ("https://user:secret@h.example/", None),
        ("http://[half", None),
        ("http://h.example:port/", None),
        ("http://h.example:99999/", None),
        ("http://a_b<c/", None),
        ("http://" + "ü" * 70 + "/", None),
    ],
)
def test_an_address_has_one_spelling(link, expected):
    assert cleaned(link, URL, "latin-1") == expected
    if expected is not None:
        assert cleaned(expected) == expected
