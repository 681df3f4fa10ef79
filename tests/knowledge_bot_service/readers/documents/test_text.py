"""Text in the encodings that people have it in."""

# Letters of many scripts look alike.
# ruff: noqa: RUF001

import pytest

from document_files import Reader


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_text_is_read_in_the_encoding_it_is_in(encoding: str, read: Reader) -> None:
    text = "Grüße aus Köln: “Über allem ist Ruh’ – fast.”"
    assert read(text.encode(encoding), "a.txt").text == text


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("koi8-r", "Привет, это простой текст на русском языке, и он довольно длинный. "),
        ("cp1251", "Привет, это простой текст на русском языке, и он довольно длинный. "),
        ("shift_jis", "これは日本語のテキストです。東京は日本の首都であり、人口が多いです。"),
        ("gb18030", "这是一段简体中文的文字，北京是中国的首都，人口很多。"),
    ],
)
def test_an_encoding_that_nobody_declared_is_recognised(
    encoding: str, text: str, read: Reader
) -> None:
    assert read((text * 20).encode(encoding), "a.txt").text == (text * 20).strip()


def test_a_declared_charset_is_believed_where_it_fits(read: Reader) -> None:
    assert read("łódź".encode("iso8859-2"), "", "text/plain; charset=ISO-8859-2").text == "łódź"
    assert read("łódź".encode(), "", "text/plain; charset=ascii").text == "łódź"
    assert read("łódź".encode(), "", "text/plain; charset=no-such-thing").text == "łódź"
    assert read("łódź".encode(), "", "text/plain; charset=punycode").text == "łódź"


def test_a_damaged_byte_does_not_spoil_the_rest_of_a_text(read: Reader) -> None:
    data = ("Grüße aus Köln, schöne Stadt. " * 100).encode()
    text = read(data[:500] + b"\xff" + data[500:], "a.txt").text
    assert text.count("Grüße aus Köln") >= 99


def test_a_text_is_normalised_and_its_paragraphs_are_separated_by_one_blank_line(
    read: Reader,
) -> None:
    text = "Cafe\u0301  \r\n\r\n\r\n \r\nsoft\u00adware\x07 is\u200b\n"
    assert read(text, "a.txt").text == "Café\n\nsoftware is"
