"""A page's tree and its main text."""

import time

import pytest

from knowledge_bot_web.html import PageError, article, main_texts, parsed
from loaded_modules import loaded_by


def text_of(page):
    return " ".join(main_texts(page, parsed(page, deep=True)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<title>t</title><p>a<b>b</b><p>c", "ab c"),
        ("<nav>n</nav><header>h</header>a<footer>f</footer><aside>s</aside>", "a"),
        ("<div role=banner>n<div>m</div></div>a", "a"),
        ("<script>s</script><style>s</style>a<svg><text>s</text></svg>", "a"),
        ("x<main>a<nav>n</nav></main>y", "a"),
        ("x<div role=main>a<div>b</div>c</div>y", "a b c"),
        ("<div class='x ad-slot'>n</div><ul id=related>n</ul><div class='no-ads'>a</div>", "a"),
        ("<body class=ads><p class=ad>a", "a"),  # a page, and a paragraph, are no box
        ("<nav>a", "a"),  # never closed: nobody knows where it ends
        ("<main></main>a", "a"),
        ("<p>a<nav>b<p>c", "a b c"),
        ("<p>a<NAV>b</nav><footer>c<p>d", "a c d"),
        ("<nav>a</nav>", "a"),  # or nothing would be left
        ("a &amp; b&eacute;", "a & bé"),
        ("", ""),
    ],
)
def test_the_main_text_is_what_stands_between(text, expected):
    assert text_of(text) == expected


@pytest.mark.parametrize("page", ["", " \n", "<!-- nothing -->", '<?xml version="1.0"?>'])
def test_an_empty_page_has_no_text(page):
    assert text_of(page) == ""


def test_a_declaration_of_xml_is_no_text_and_no_other_encoding():
    assert text_of('<?xml version="1.0" encoding="koi8-r"?><html><p>Grüße') == "Grüße"


@pytest.mark.parametrize(("deep", "levels"), [(False, 250), (True, 2000)])
def test_a_page_is_read_to_its_depth_or_not_at_all(deep, levels):
    assert "end" in parsed("<p>begin" + "<i>" * (levels - 10) + "end", deep=deep).text_content()
    with pytest.raises(PageError, match=f"more than {levels} deep"):
        parsed("<p>begin" + "<div>" * levels * 2 + "end", deep=deep)


@pytest.mark.parametrize("piece", ["<nav>", "<nav ", "<a_b='", "</", "<!--", "<p role=main>", "&#"])
def test_no_page_takes_long(piece):
    began = time.process_time()
    try:
        text_of(piece * (500_000 // len(piece)))
    except PageError:
        assert piece == "<nav>"
    assert time.process_time() - began < 3


def test_an_article_is_what_trafilatura_finds():
    sentence = "The library opens at nine on weekdays, and at ten on Saturdays. "
    page = f"<nav>Home</nav><article><p>{sentence * 5}</p></article><footer>Imprint</footer>"
    assert article(page) == (sentence * 5).strip()


def test_heavy_libraries_are_loaded_by_who_reads_a_page():
    light = "knowledge_bot_web.charsets, knowledge_bot_web.html, knowledge_bot_web.robots"
    heavy = {"lxml", "trafilatura", "httpcore", "charset_normalizer"}
    assert not loaded_by(f"import {light}") & heavy
