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
    twice = pdf(f"Rules\nOpening\n{SENTENCE}")
    assert read(twice).text.split("\n\n")[:2] == ["# Rules", "Opening"]
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
