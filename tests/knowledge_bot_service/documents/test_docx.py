"""Word documents, whole, broken and hostile."""

import pytest

from document_files import Reader, docx
from knowledge_bot_service.extract import Document


def cell(*paragraphs: str, properties: str = "") -> str:
    """A table's cell."""
    words = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in paragraphs)
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{words}</w:tc>"


def row(*cells: str) -> str:
    """A table's row."""
    return f"<w:tr>{''.join(cells)}</w:tr>"


def test_a_word_document_gives_its_paragraphs_and_rows(read: Reader) -> None:
    properties = '<p xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Hours</dc:title></p>'
    data = docx(
        "One.",
        "Two.",
        body=f"<w:tbl>{row(cell('a'), cell('b'))}</w:tbl>",
        properties=properties,
    )
    assert read(data, "a.docx") == Document("One.\n\nTwo.\n\na | b", "Hours")


@pytest.mark.parametrize(
    "look", ['w:firstRow="1"', 'w:val="04A0"', 'w:val="0020" w:firstRow="true"']
)
def test_every_cell_of_a_table_stays_in_its_column(look: str, read: Reader) -> None:
    above, below = "<w:vMerge w:val='restart'/>", "<w:vMerge/>"
    table = "".join(
        [
            row(cell("plan"), cell("a month"), cell("a year")),
            row(cell("Basic", properties=above), cell(""), cell("50 euros", "or 60")),
            row(cell("", properties=below), cell("6 euros"), cell("")),
            row(cell("For groups", properties='<w:gridSpan w:val="3"/>')),
            row(cell("Club"), cell("on request", properties='<w:gridSpan w:val="2"/>')),
        ]
    )
    look = f"<w:tblPr><w:tblLook {look}/></w:tblPr>"
    data = docx("One.", body=f"<w:tbl>{look}{table}</w:tbl><w:p><w:r><w:t>End.</w:t></w:r></w:p>")
    assert read(data, "a.docx").text == (
        "One.\n\n"
        "plan | a month | a year\n--- | --- | ---\n"
        "Basic |  | 50 euros or 60\n| Basic | 6 euros |  |\n\n"
        "For groups\n\n"
        "plan | a month | a year\n--- | --- | ---\nClub | on request | on request\n\n"
        "End."
    )


def test_a_table_in_a_table_loses_no_words(read: Reader) -> None:
    inner = f"<w:tbl>{row(cell('in'), cell('it'))}</w:tbl>"
    outer = row(f"<w:tc>{inner}<w:p><w:r><w:t>after</w:t></w:r></w:p></w:tc>", cell("beside"))
    text = read(docx("One.", body=f"<w:tbl>{outer}</w:tbl>"), "a.docx").text
    assert text == "One.\n\nin | it\n\nafter | beside"


def test_damaged_properties_cost_a_document_its_title_alone(read: Reader) -> None:
    assert read(docx("One.", properties="<cut"), "a.docx") == Document("One.")


def test_a_text_box_is_read_once_though_it_is_there_twice(read: Reader) -> None:
    box = "<w:txbxContent><w:p><w:r><w:t>In a box.</w:t></w:r></w:p></w:txbxContent>"
    drawing = (
        '<w:p><w:r><mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/'
        f'markup-compatibility/2006"><mc:Choice>{box}</mc:Choice>'
        f"<mc:Fallback>{box}</mc:Fallback></mc:AlternateContent></w:r></w:p>"
    )
    assert read(docx("One.", body=drawing), "a.docx").text == "One.\n\nIn a box."


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (docx("a" * 30_000_000), "unpacks from"),
        (docx("Text")[:150], "damaged or cut off"),
        (docx("Text").replace(b"word/doc", b"xord/doc"), "not a Word document"),
        (docx("a</w:wrong>"), "text is damaged"),
        (docx(), "no text"),
    ],
    ids=["bomb", "cut", "other zip", "broken", "empty"],
)
def test_a_word_document_without_readable_text_gets_its_reason(
    data: bytes, part: str, read: Reader
) -> None:
    assert part in read.reason(data, "a.docx")
