"""Text in the encodings that people have it in."""

# Letters of many scripts look alike.
# ruff: noqa: RUF001

import pytest


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_text_is_read_in_the_encoding_it_is_in(encoding, read):
    text = "Grüße aus Köln: “Über allem ist Ruh’ – fast.”"
    assert read(text.encode(encoding), "a.txt").text == text


def test_an_encoding_that_nobody_declared_is_recognised(read):
    text = "Привет, это простой текст на русском языке, и он довольно длинный. " * 20
    assert read(text.encode("koi8-r"), "a.txt").text == text.strip()


def test_a_declared_charset_is_believed_where_it_fits(read):
    assert read("łódź".encode("iso8859-2"), "", "text/plain; charset=ISO-8859-2").text == "łódź"
    assert read("łódź".encode(), "", "text/plain; charset=ascii").text == "łódź"
    assert read("łódź".encode(), "", "text/plain; charset=no-such-thing").text == "łódź"
    assert read("łódź".encode(), "", "text/plain; charset=punycode").text == "łódź"


def test_a_text_is_normalised_and_its_paragraphs_are_separated_by_one_blank_line(read):
    text = "Cafe\u0301  \r\n\r\n\r\n \r\nsoft\u00adware\x07 is\u200b\n"
    assert read(text, "a.txt").text == "Café\n\nsoftware is"
