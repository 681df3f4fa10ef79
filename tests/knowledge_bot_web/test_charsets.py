"""A page's bytes as text: by its first bytes, by what it or its server says, or by what fits."""

import pytest

from knowledge_bot_web.charsets import declared_in, decoded
from trap_site import ENCODINGS


def read(content, declared=None, *, guess=False):
    names = [declared] if declared else []
    return decoded(content, names + declared_in(content), guess=guess)[0]


@pytest.mark.parametrize(("name", "said", "words"), ENCODINGS, ids=[each[0] for each in ENCODINGS])
def test_a_page_is_decoded_by_its_first_bytes_its_header_or_its_meta(name, said, words):
    meta = {"meta": f"<meta charset='{name}'>", "http-equiv": f"<meta content=';charset={name}'>"}
    content = f"<html>{meta.get(said, '')}{words}".encode(name)
    text = read(content, name if said == "header" else None)
    assert text.endswith(words)


@pytest.mark.parametrize(
    ("content", "declared", "expected"),
    [
        (b"\xef\xbb\xbfgr\xc3\xbcn", "iso-8859-1", "grün"),  # the first bytes win
        (b"<meta charset=koi8-r>gr\xc3\xbcn", "utf-8", "<meta charset=koi8-r>grün"),
        (b"gr\xc3\xbcn", None, "grün"),
        (b"gr\xfcn \x80", None, "grün €"),
        (b"gr\xfcn \x80", "latin1", "grün €"),  # as every browser reads it
        (b"gr\xc3\xbcn", "no-such-charset", "grün"),
        (b"gr\xc3\xbcn", "base64", "grün"),
        (b"<meta charset=utf-16>gr\xc3\xbcn", None, "<meta charset=utf-16>grün"),
        (
            b"<?xml version='1.0' encoding='koi8-r'?>\xc1",
            None,
            "<?xml version='1.0' encoding='koi8-r'?>\u0430",
        ),
        (b"\xff\xfe", None, ""),
        (b"", None, ""),
    ],
)
def test_what_a_page_says_of_its_encoding_is_weighed(content, declared, expected):
    assert read(content, declared) == expected


def test_the_encoding_is_told_for_what_has_to_be_written_in_it():
    assert decoded("naïve".encode("latin-1"), ["latin-1"]) == ("naïve", "cp1252")
    assert decoded("目录".encode("gbk"), ["gb2312"]) == ("目录", "gb18030")


def test_who_claims_western_europe_and_sends_utf_8_never_looked():
    assert read("źródło".encode(), "iso-8859-1") == "źródło"


def test_a_declared_encoding_is_believed_although_a_byte_is_damaged():
    text = "목차와 색인, 그리고 본문. " * 20
    page = text.encode("euc-kr") + b"\xff"
    assert decoded(page, ["euc-kr"], guess=False) == (text + "\ufffd", "cp949")


@pytest.mark.parametrize("guess", [True, False])
def test_what_fits_is_looked_for_only_where_that_is_wanted(guess):
    text = "Привет, это простой текст на русском языке, и он довольно длинный. " * 20
    assert (read(text.encode("koi8-r"), guess=guess) == text) is guess
