"""Pages: their article, their charset, and what has no text."""

import pytest

from document_files import SENTENCE


def test_a_page_gives_its_article_and_title(read):
    body = "".join(f"<p>{SENTENCE} Number {number}.</p>" for number in range(8))
    page = (
        "<html><head><title>Opening\nhours</title></head><body><nav><a href=/>Home</a></nav>"
        f"<article><h1>Hours</h1>{body}</article><footer>Imprint</footer></body></html>"
    )
    document = read(page, "", "text/html")
    assert document.title == "Opening hours"
    assert f"{SENTENCE} Number 0.\n\n{SENTENCE} Number 1." in document.text
    assert "Home" not in document.text
    assert "Imprint" not in document.text


def test_a_short_page_gives_its_main_text_and_not_its_navigation(read):
    page = (
        "<body><header>Site</header><nav>" + "<a href=/>Go to another page</a> " * 30 + "</nav>"
        f"<main><h2>Hours</h2><p>{SENTENCE}</p><form>Sign in</form></main></body>"
    )
    assert read(page, "page.html").text == f"## Hours\n\n{SENTENCE}"


def test_an_article_inside_another_is_read_once(read):
    page = "<body><article><p>A post.</p><article>A comment.</article></article></body>"
    assert read(page, "page.html").text == "A post.\n\nA comment."


def test_what_stands_beside_code_is_the_articles(read):
    code = "<pre><code>x = 1\ny = 2</code> <button>Copy</button></pre>"
    told = [f"Number {number} is set above. {SENTENCE}" for number in range(6)]
    body = "".join(f"{code}<p>{one}</p><p>{SENTENCE}</p>" for one in told)
    text = read(f"<html><body><ul><li>Menu</ul><h1>Numbers</h1>{body}</body></html>").text
    assert [one for one in told if one not in text] == []


def test_what_is_folded_in_a_page_is_kept(read):
    items = "".join(
        f"<details><summary>What is number {number}?</summary>It is {number}.</details>"
        for number in range(6)
    )
    introduction = f"<p>{SENTENCE * 5}</p>"
    text = read(f"<html><body><h1>FAQ</h1>{introduction}<div>{items}</div></body></html>").text
    assert all(f"What is number {number}?" in text for number in range(6))
    assert all(f"It is {number}." in text for number in range(6))


@pytest.mark.parametrize(
    ("head", "content_type"),
    [
        ('<meta charset="windows-1251">', "text/html"),
        ("", "text/html; charset=windows-1251"),
        ('<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">', None),
    ],
)
def test_a_page_is_read_in_the_charset_that_it_or_its_server_declares(head, content_type, read):
    page = f"<html><head>{head}</head><body><p>Привет, мир.</p></body></html>"
    assert read(page.encode("cp1251"), "", content_type).text == "Привет, мир."


def test_an_xhtml_page_with_an_encoding_declaration_is_read(read):
    page = '<?xml version="1.0" encoding="utf-8"?><html><body><p>Grüße</p></body></html>'
    assert read(page, "", "application/xhtml+xml").text == "Grüße"


@pytest.mark.parametrize(
    ("page", "content_type", "part"),
    [
        ("<html><body><div id=app></div><script>run()</script></body></html>", None, "JavaScript"),
        ("<html><body></body></html>", None, "no text"),
        ("<html><body>" + "<div>" * 100_000 + "deep", None, "nested"),
        ("<p>A text.<p>" + "</b>" * 500 + "<div>" * 300 + "deep", "text/html", "nested"),
        ("<p>" + "word " * 1_100_000, "text/html", "larger than 5 MiB"),
    ],
    ids=["script", "empty", "nested", "nested after text", "large"],
)
def test_a_page_without_readable_text_gets_its_reason(page, content_type, part, read):
    assert part in read.reason(page, "", content_type)


def test_headings_code_lists_and_tables_of_a_page_are_kept(read):
    page = (
        "<body><nav><a href=/>Other page</a></nav><main><h1>Tool<a href=#x>¶</a></h1>"
        f"<p>{SENTENCE} Install it with this command:</p><pre>pip install \\\n  tool</pre>"
        f"<h2>Steps</h2><p>{SENTENCE} Then do this:</p><ol><li>Open it.</li>"
        "<li><p>Run it:</p><pre>tool run</pre></li></ol>"
        f"<p>{SENTENCE} These are its options:</p><table><tr><th>option</th><th>default</th></tr>"
        f"<tr><td>--port</td><td>8700</td></tr></table><dl><dt>Port</dt><dd>{SENTENCE}</dd></dl>"
        "</main><footer>Imprint</footer></body>"
    )
    assert read(page, "page.html").text == (
        f"# Tool\n\n{SENTENCE} Install it with this command:\n\n"
        f"```\npip install \\\n  tool\n```\n\n## Steps\n\n{SENTENCE} Then do this:\n\n"
        "1. Open it.\n2. Run it:\n\n   ```\n   tool run\n   ```\n\n"
        f"{SENTENCE} These are its options:\n\noption | default\n--- | ---\n--port | 8700\n\n"
        f"- Port: {SENTENCE}"
    )


def test_code_and_tables_below_the_last_paragraph_are_the_articles(read):
    body = "".join(f"<p>{SENTENCE} Number {number}.</p>" for number in range(8))
    rows = "<tr><td colspan=2>options</td></tr><tr><td>--list</td><td>show each file</td></tr>"
    page = (
        f"<body><article><h1>Prune</h1>{body}<h2>Options</h2><table>{rows}</table>"
        "<h2>Examples</h2><pre>prune --list /repo</pre></article><nav>Next page</nav></body>"
    )
    text = read(page, "page.html").text
    assert text.endswith(
        "## Options\n\noptions\n\n--list | show each file\n\n"
        "## Examples\n\n```\nprune --list /repo\n```"
    )


PRICES = (
    "<table><tr><th>plan</th><th>a month</th><th>a year</th></tr>"
    "<tr><td rowspan=2>Basic</td><td></td><td>50 euros</td></tr>"
    "<tr><td>6 euros</td><td></td></tr>"
    "<tr><th colspan=3>For groups</th></tr>"
    "<tr><td>Club</td><td colspan=2>on request</td></tr></table>"
)


def test_every_cell_of_a_table_stays_in_its_column(read):
    page = f"<body><main><p>{SENTENCE} {SENTENCE}</p>{PRICES}</main></body>"
    assert read(page, "page.html").text.endswith(
        "plan | a month | a year\n--- | --- | ---\nBasic |  | 50 euros\n| Basic | 6 euros |  |\n\n"
        "For groups\n\n"
        "plan | a month | a year\n--- | --- | ---\nClub | on request | on request"
    )


@pytest.mark.parametrize("span", ["65534", "1000", "0", "-1", "x", "", "9" * 5000, "²"])
def test_a_cell_that_spans_what_no_table_has_is_read(span, read):
    rows = "".join(
        f"<tr><td rowspan={span!r} colspan={span!r}>a</td><td>b</td></tr>" for _ in range(5)
    )
    page = f"<body><main><p>{SENTENCE} {SENTENCE}</p><table><tr><th>x</th><th colspan={span!r}>y"
    text = read(f"{page}</th></tr>{rows}</table></main></body>", "page.html").text
    assert "a | b" in text or "a | a" in text


@pytest.mark.parametrize(
    ("inner", "shown"),
    [
        ("20 <img src=x alt=coin> euros", "20 euros"),
        ("<button>Copy</button>20 euros", "20 euros"),
        ("20<input type=checkbox> euros", "20 euros"),
        ("<q>20</q> euros", "20 euros"),
        ("<time>20</time> euros", "20 euros"),
        ("<label>20</label> euros", "20 euros"),
        ("<math><mn>20</mn></math> euros", "20 euros"),
        ("<del>15</del> <ins>20</ins> euros", "20 euros"),
        ("<s>15</s> 20 <strike>15</strike> euros", "20 euros"),
        ("<span style='Display: None'>no</span>20 <i hidden>no</i>euros", "20 euros"),
        ("\n20\neuros", "20 euros"),
    ],
)
def test_a_paragraph_is_read_whatever_is_within_it(inner, shown, read):
    fee = f"<p>Fees:\n{inner} for each of the members in a year.</p>"
    page = f"<body><main><h1>Club</h1><p>{SENTENCE * 3}</p>{fee}<p>{SENTENCE}</p></main></body>"
    assert f"\n\nFees: {shown} for each of the members in a year.\n\n" in read(page, "a.html").text


@pytest.mark.parametrize("length", [1, 5])
@pytest.mark.parametrize(
    "attribute", ["hidden", "style='display:none'", "style='VISIBILITY: hidden'"]
)
def test_what_a_visitor_does_not_see_is_not_read(attribute, length, read):
    page = f"<body><main><p>{SENTENCE * length}</p><p {attribute}>Secret.</p>After.</main></body>"
    text = read(page, "a.html").text
    assert "Secret" not in text
    assert "After." in text


def test_tables_that_follow_from_one_another_stay_two(read):
    prices = "<table><tr><th>plan</th><th>price</th></tr><tr><td>Basic</td><td>5</td></tr></table>"
    contact = (
        "<table><tr><th>Phone</th><td>0555 1</td></tr><tr><th>Mail</th><td>a@b</td></tr></table>"
    )
    page = f"<body><main><p>{SENTENCE} {SENTENCE}</p>{prices}{contact}</main></body>"
    assert read(page, "a.html").text.endswith(
        "plan | price\n--- | ---\nBasic | 5\n\nPhone | 0555 1\nMail | a@b"
    )


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("Monday<br>Tuesday", "Monday Tuesday"),
        ("<p>Monday</p><p>Tuesday</p>", "Monday Tuesday"),
        ("<div>Mon<b>day</b></div>", "Monday"),
        ("H<sub>2</sub>O<script>no</script> x<sup>2</sup>", "H2O x2"),
        ("Mon<wbr>day <button>Copy</button>", "Monday"),
    ],
)
def test_the_words_of_a_cell_are_apart_where_its_lines_are(cell, words, read):
    table = f"<table><tr><td>{cell}</td><td>open</td></tr><tr><td>a</td><td>b</td></tr></table>"
    page = f"<body><main><p>{SENTENCE} {SENTENCE}</p>{table}</main></body>"
    assert read(page, "a.html").text.endswith(f"{words} | open\na | b")


def test_lines_of_code_end_at_a_break_too(read):
    code = "<pre><code>frob stop<br>frob <b>start</b><br/></code></pre>"
    page = f"<body><main><p>{SENTENCE} {SENTENCE} Type this:</p>{code}</main></body>"
    assert read(page, "a.html").text.endswith("\n\n```\nfrob stop\nfrob start\n```")


TABLES = {
    "<tr><th rowspan=2>Cake<th colspan=2>Price</tr><tr><th>small<th>large</tr>"
    "<tr><td>Wedding<td><td>180</tr>": (
        "Cake | Price small | Price large\n--- | --- | ---\nWedding |  | 180"
    ),
    "<tr><th>Day<th>Room</tr><tr><td>Friday<td><ul><li>3<li>4</ul></tr><tr><td>Sunday<td>5</tr>": (
        "Day | Room\n--- | ---\nFriday | 3 4\nSunday | 5"
    ),
    "<tr><th>Day<th>Room</tr><tr><td>Friday<td><table><tr><th>q<td>1</tr></table></tr>"
    "<tr><td>Sunday<td>5</tr>": "Day | Room\n--- | ---\nFriday | q 1\nSunday | 5",
    "<tr><td><table><tr><th>q<th>r</tr><tr><td>1<td>2</tr></table><td>side</tr>"
    "<tr><td>Sunday<td>Go</tr>": "q | r\n--- | ---\n1 | 2\n\nside\n\nSunday | Go",
    "<tr><td>Studio<td><ul><li>bed<li>desk</ul></tr><tr><td>Family<td>60</tr>": (
        "Studio | bed desk\nFamily | 60"
    ),
    "<tr><th>Day<th>Room</tr><tr><td rowspan=3>Friday<td>1</tr><tr><td>2</tr><tr><td>3</tr>": (
        "Day | Room\n--- | ---\nFriday | 1\nFriday | 2\nFriday | 3"
    ),
    "<tr><th>Phone<th>0555</tr><tr><th>Mail<th>a@b</tr>": "Phone | 0555\nMail | a@b",
}


@pytest.mark.parametrize("table", TABLES)
def test_a_row_stays_in_its_table_whatever_is_in_its_cells(table, read):
    page = f"<main><p>{SENTENCE * 5}</p><table>{table}</table></main>"
    assert read(page, "a.html").text.endswith(f"\n\n{TABLES[table]}")


@pytest.mark.parametrize("kind", ["ul", "ol", "dl"])
def test_a_list_of_a_plain_page_is_kept(kind, read):
    item, end = ("<dt>a</dt><dd>", "</dd>") if kind == "dl" else ("<li>", "</li>")
    items = f"<{kind}>{item}the form{end}{item}a card{end}</{kind}>"
    for page in (
        f"<body><h1>Club</h1><p>You need:</p>{items}<p>{SENTENCE * 5}</p></body>",
        f"<body><h1>Club</h1><p>{SENTENCE * 5}</p><p>You need:</p>{items}</body>",
    ):
        text = read(page, "a.html").text
        assert "the form" in text
        assert "a card" in text


def test_terms_that_share_a_definition_and_terms_that_have_two(read):
    terms = "<dl><dt>Sourdough</dt><dt>Leaven</dt><dd>A dough.</dd><dd>An old one.</dd></dl>"
    page = f"<main><p>{SENTENCE * 5}</p>{terms}</main>"
    assert read(page, "a.html").text.endswith("- Sourdough, Leaven: A dough.\n- An old one.")


BUTTON = '<button aria-controls="p">How do I renew?</button>'
ANSWER = "<p>At the desk, with a card.</p>"


@pytest.mark.parametrize(
    ("part", "there", "gone"),
    [
        (
            f'<h3>{BUTTON}</h3><div id="p" hidden>{ANSWER}</div>',
            "How do I renew?\n\nAt the desk",
            "-",
        ),
        (f'{BUTTON}<div id="p" hidden>{ANSWER}</div>', "How do I renew?\n\nAt the desk", "-"),
        (f"<h3>How?</h3><div style='display:none'>{ANSWER}</div>", "At the desk", "-"),
        (f'<h2><button>How?</button></h2><div class="collapse">{ANSWER}</div>', "How?", "-"),
        (f'<div role="tabpanel" hidden>{ANSWER}</div>', "At the desk", "-"),
        (f'<a aria-controls="d">More</a><dialog id="d">{ANSWER}</dialog>', "At the desk", "-"),
        (f"<div hidden>{ANSWER}</div><button>Buy</button>", SENTENCE, "At the desk"),
        (f"<article><header><h1>Lift</h1>{ANSWER}</header></article>", "At the desk", "-"),
        (f"<form><h2>Prices</h2>{ANSWER}</form>", "At the desk", "-"),
        ("<form><label>Name</label><input><button>Send</button></form>", SENTENCE, "Name"),
        ('<p>It is 12 euros<sup><a href="#n">1</a></sup> a year.</p>', "12 euros a year", "euros1"),
        ("<p>It has 30 m<sup>2</sup> of room.</p>", "30 m2", "-"),
        (
            "<table><tr><td></td><th>Mon</th><th>Tue</th></tr><tr><th>Desk</th><td>8</td><td>9</td></tr></table>",
            "|  | Mon | Tue |\n--- | --- | ---\nDesk | 8 | 9",
            "-",
        ),
        (
            '<p>See <a href="https://x.org/7">here</a> for it.</p>',
            "See here (https://x.org/7) for",
            "-",
        ),
        ('<p>See <a href="/7">here</a> for it all.</p>', "See here (https://a.org/7) for", "-"),
        ('<p><a href="mailto:a@x.org">Write</a> to us.</p>', "Write (a@x.org) to us", "-"),
        (
            f"<p>{'<a href=https://x.org/7>here</a> and ' * 4} nothing else.</p>",
            "here and here",
            "x.org",
        ),
    ],
)
def test_what_a_visitor_reads_is_text_and_the_rest_is_furniture(part, there, gone, read):
    base = '<link rel="canonical" href="https://a.org/b/">'
    body = "".join(f"<p>{SENTENCE} Number {number}.</p>" for number in range(5))
    text = read(f"<html><head>{base}</head><body><h1>A</h1>{body}{part}{body}", "a.html").text
    assert there in text
    assert gone not in text.replace(" - ", " ").replace("---", "") or gone == "-"
