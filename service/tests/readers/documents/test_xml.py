"""XML, and what it may not do."""

import pytest


@pytest.mark.parametrize(
    ("xml", "text"),
    [
        (
            "<rss><item><title>One</title><!-- no --><description>Two</description></item></rss>",
            "title: One; description: Two",
        ),
        ("<a><para>Click <b>OK</b> to save.</para></a>", "Click OK to save."),
        ("<rooms><room name='Hall'><fee>150</fee></room></rooms>", "name: Hall; fee: 150"),
        (
            "<a><b>It opens at nine.</b><c>Then it closes.</c></a>",
            "It opens at nine.\n\nThen it closes.",
        ),
    ],
)
def test_xml_gives_the_text_of_its_elements(xml, text, read):
    assert read(xml, "", "application/rss+xml").text == text


LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE l [<!ENTITY l0 "lol">'
    + "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    + "]><l>&l9;</l>"
)


@pytest.mark.parametrize(
    ("source", "part"),
    [
        (LAUGHS, "not well-formed"),
        ("<a>not closed", "not well-formed"),
        ("<a> </a>", "no text"),
        ("<a>" * 300 + "</a>" * 300, "not well-formed"),
        (f"<a>{'x' * 10_100_000}</a>", "not well-formed"),
    ],
    ids=["laughs", "broken", "empty", "nested", "one long text"],
)
def test_xml_without_readable_text_gets_its_reason(source, part, read):
    assert part in read.reason(source, "", "application/xml")


def test_xml_takes_nothing_from_other_files(read, tmp_path):
    other = tmp_path / "other"
    other.write_text("s3cret")
    source = f'<!DOCTYPE a [<!ENTITY x SYSTEM "{other.as_uri()}">]><a>text &x;</a>'
    assert "s3cret" not in read(source, "", "application/xml").text
