"""Text from files as people have them, and reasons from files as nobody should have them."""

from pathlib import Path

import pytest

from document_files import SENTENCE, archive, pdf


def test_the_content_decides_before_the_type_and_the_name(read):
    assert read(pdf("Text"), "a.txt", "text/plain").text == "Text"
    assert read("<!DOCTYPE html><p>Text", "a.txt", "text/plain").text == "Text"
    assert read("just text", "a.bin", "application/octet-stream").text == "just text"
    assert read("**a**", "a.html", "text/markdown").text == "a"
    assert read("A file that begins with %PDF-1.7 is a PDF.", "a.txt").text.startswith("A file")


@pytest.mark.parametrize("data", [b"", b" \n\t\r\n", b"\xef\xbb\xbf", b"\0" * 10])
def test_an_empty_file_is_told(data, read):
    assert read.reason(data, "a.txt") == "the file is empty"


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (bytes(range(256)) * 40, "binary data"),
        (bytes(range(1, 256)) * 40, "binary data"),
        (b"text with NULs\0" * 400, "binary data"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "an image"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(100), "old Office"),
        (archive({"xl/workbook.bin": ""}), "a binary spreadsheet (.xlsb); save it as .xlsx"),
        (archive({"Index/Document.iwa": ""}), "a document of Apple's iWork; export it as PDF"),
        (archive({"readme.txt": "Text."}), "a ZIP archive, and no document that is known"),
        (b"\x1f\x8b" + bytes(100), "compressed"),
        (b"\x7fELF" + bytes(100), "a program"),
    ],
)
def test_a_kind_that_cannot_be_read_is_told(data, part, read):
    assert part in read.reason(data, "a.txt", "text/plain")


@pytest.mark.parametrize("name", ["contract.DOCX", "book.xlsx", "photo.png", "guide.pdf"])
def test_a_text_with_the_name_of_what_is_never_a_text_is_told(name, read):
    assert Path(name).suffix.lower() in read.reason(b"PK", name, "application/octet-stream")
    assert read(f"<html><p>{SENTENCE}", name, "text/html").text == SENTENCE


def test_a_charset_that_is_no_name_is_passed_over(read):
    page = f"<html><p>{SENTENCE}"
    assert read(page, "", "text/html; charset*=utf-8''%00").text == SENTENCE
    assert read(page, "", "text/html; charset*=a\0b''x").text == SENTENCE


def test_a_paragraph_without_end_is_cut_and_nothing_of_it_is_lost(read):
    line = "word " * 30_000
    parts = read(line + "x" * 70_000, "a.txt").text.split("\n\n")
    assert max(map(len, parts)) <= 50_000
    assert [set(part.split()) for part in parts[:3]] == [{"word"}] * 3
    assert "".join("".join(parts).split()) == "word" * 30_000 + "x" * 70_000
