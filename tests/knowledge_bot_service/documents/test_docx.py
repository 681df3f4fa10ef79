"""Word documents, whole, broken and hostile."""

import pytest

from document_files import Reader, docx
from knowledge_bot_service.extract import Document


def test_a_word_document_gives_its_paragraphs_and_rows(read: Reader) -> None:
    def cell(text: str) -> str:
        return f"<w:tc><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:tc>"

    properties = '<p xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Hours</dc:title></p>'
    data = docx(
        "One.",
        "Two.",
        body=f"<w:tbl><w:tr>{cell('a')}{cell('b')}</w:tr></w:tbl>",
        properties=properties,
    )
    assert read(data, "a.docx") == Document("One.\n\nTwo.\n\na | b", "Hours")


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
