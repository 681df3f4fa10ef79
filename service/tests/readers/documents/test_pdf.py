"""PDF files, whole and broken."""

import io

import pytest
from pypdf import PdfReader, PdfWriter

from document_files import SENTENCE, pdf


def encrypted():
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf(SENTENCE))))
    writer.encrypt("secret", algorithm="RC4-128")
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


def test_a_pdf_gives_its_pages_as_paragraphs(read):
    data = pdf(
        f"{SENTENCE}\nIt is closed for lunch between twelve and one, and on holi-\ndays.", "Two"
    )
    document = read(data[:-1] + b"\n", "a.bin", "application/octet-stream")
    assert document.text == (
        f"{SENTENCE} It is closed for lunch between twelve and one, and on holidays.\n\nTwo"
    )
    titled = pdf("Text", title="Hours")
    assert read(titled).title == "Hours"
    assert read(titled.replace(b"(Hours)", b" null  ")).title is None


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (pdf("Text")[:300], "cut off"),
        (b"%PDF-1.4\n" + bytes(range(256)) * 40 + b"%%EOF", "damaged"),
        (
            pdf("Text", trailer=b"/Encrypt<</Filter/Standard/V 1/R 2/O(x)/U(x)/P -4>>/ID[(a)(b)]"),
            "encrypted",
        ),
        (encrypted(), "needs a password"),
        (bytes(range(256)) * 99, "binary"),
        (pdf("", ""), "no text in its 2 pages (a scan?)"),
        (pdf(), "no pages"),
        (pdf("-" * 100_000_000, packed=True), "unpacks to more"),
    ],
    ids=["truncated", "junk", "encrypted", "locked", "noise", "scan", "no pages", "bomb"],
)
def test_a_pdf_without_readable_text_gets_its_reason(data, part, read):
    assert part in read.reason(data, "a.pdf", "application/pdf")


def drawn(*texts, annotations=""):
    """A page with texts at places."""
    shown = "\n".join(f"BT /F1 12 Tf {x} {y} Td ({text}) Tj T* ET" for x, y, text in texts)
    data = pdf(shown)
    line = (
        b"BT /F1 12 Tf 14 TL 72 720 Td "
        + b" T* ".join(b"(%s) Tj" % one.encode() for one in shown.split("\n"))
        + b" ET"
    )
    page = data.replace(line, shown.encode())
    return page.replace(b"/MediaBox", annotations.encode() + b"/MediaBox")


TABLE = [
    (72, 700, "Room"), (200, 700, "Seats"), (300, 700, "Fee"),
    (72, 680, "Small hall"), (200, 680, "40"), (300, 680, "150 francs"),
    (72, 660, "Yard"), (300, 660, "60 francs"),
]  # fmt: skip
COLUMNS = [
    (72, 700, "The office opens at nine on"), (320, 700, "The workshop has a saw and"),
    (72, 686, "all days but Sunday, when"), (320, 686, "a lathe, which any member"),
    (72, 672, "it is closed for everybody."), (320, 672, "may use after the course."),
]  # fmt: skip
COLUMNS_TOLD = (
    "The office opens at nine on all days but Sunday, when it is closed for everybody."
    " The workshop has a saw and a lathe, which any member may use after the course."
)
LINK = "/Annots[<</Subtype/Link/Rect[72 696 110 712]/A<</S/URI/URI(https://x.org/f)>>>>]"
FIELDS = b"8 0 obj<</FT/Tx/T(Surname)/V(Lark)>>endobj\n9 0 obj<</FT/Btn/T(Member)/V/Yes>>endobj\n"
FORM = (
    pdf("Please sign.")
    .replace(b"/Type/Catalog", b"/Type/Catalog/AcroForm<</Fields[8 0 R 9 0 R]>>")
    .replace(b"1 0 obj", FIELDS + b"1 0 obj")
)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (
            drawn(*TABLE),
            "Room: Small hall; Seats: 40; Fee: 150 francs\n\nRoom: Yard; Seats: –; Fee: 60 francs",  # noqa: RUF001
        ),
        (
            drawn(*COLUMNS),
            COLUMNS_TOLD,
        ),
        (
            drawn((72, 700, "The form is for all."), annotations=LINK),
            "The form (https://x.org/f) is for all.",
        ),
        (
            FORM,
            "Please sign.\n\nSurname: Lark\n\nMember: Yes",
        ),
        (b"\0x" * 750 + b"\n" + pdf("Text"), "Text"),
        (
            b"<html>Moved</html>"
            + pdf("Text").replace(b"\n1 0 obj", b"\n%" + bytes(99) + b"\n1 0 obj"),
            "Text",
        ),
    ],
    ids=["table", "columns", "link", "form", "bytes before it", "a page before it"],
)
def test_what_is_drawn_on_a_page_is_told_as_it_is_read(data, text, read):
    assert read(data, "a.pdf").text == text


def test_a_page_that_cannot_be_read_is_a_warning(read):
    data = pdf("One", "Two", "Three", packed=True)
    broken = data.replace(b"/Contents 7 0 R", b"/Contents 3 0 R")
    document = read(broken, "a.pdf")
    assert document.text == "One\n\nThree"
    assert [warning.rpartition(": ")[2] for warning in document.warnings] == ["2"]


@pytest.mark.parametrize(
    ("page", "warning"),
    [
        ("", "1 of its pages have no text (scans?): 2"),
        ("L e t t e r s " * 10, "1 of its pages have letters that their fonts do not name: 2"),
        ("/g12 /g13 /g14", "1 of its pages have letters that their fonts do not name: 2"),
    ],
)
def test_a_page_with_less_than_it_shows_is_a_warning(page, warning, read):
    document = read(pdf("One", page), "a.pdf")
    assert document.text.startswith("One")
    assert list(document.warnings) == [warning]
