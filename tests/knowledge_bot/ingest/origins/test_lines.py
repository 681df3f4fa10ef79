"""Items from lines of JSON and of addresses."""

import io

import pytest

from knowledge_bot import ConfigurationError
from knowledge_bot.ingest import (
    File,
    Skipped,
    Text,
    WebPage,
)
from knowledge_bot.origins import (
    JsonLines,
    Urls,
)

LINES = [
    '{"name": "a", "content": "text", "key": "k1"}',
    "",
    '{"url": "https://h.example/", "version": "2"}',
    '{"path": "files/b.txt", "collections": ["col_2"]}',
    '{"name": "p", "url": "https://h.example/p", "headers": {"Cookie": "c"}}',
]


def test_each_line_is_the_item_that_its_fields_say(tmp_path):
    path = tmp_path / "items.jsonl"
    path.write_text("\ufeff" + "\n".join(LINES), encoding="utf-8")
    text, page, file, other = JsonLines(path).items()
    assert text == Text(name="a", content="text", key="k1")
    assert page == WebPage(name="https://h.example/", url="https://h.example/", version="2")
    assert file == File(path=tmp_path / "files/b.txt", collections=["col_2"])
    assert isinstance(other, WebPage)
    assert other.headers[0][1].get_secret_value() == "c"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"name": "a", "content": ', "it is not JSON: EOF while parsing a value at column 25"),
        ("[1, 2]", "an object as {name, content}"),
        ('{"name": "a", "contents": "x"}', "nor a path, but name, contents"),
        ('{"name": "a", "content": 3}', "content"),
        ('{"name": "", "content": "x"}', "name"),
        ('{"content": "x"}', "name"),
        ('{"name": "a", "content": "x", "colour": "red"}', "there is no field 'colour'"),
        ('{"name": "a", "content": "x", "collections": ["x"]}', "col_"),
        ('{"name": "a", "url": "https://h", "headers": {"X": 1}}', "not an item"),
    ],
)
def test_a_line_that_is_no_item_is_named_and_the_rest_is_read(line, said):
    before = ['{"name": "a", "content": "x"}'] * 6
    *good, last, after = JsonLines([*before, line, before[0]]).items()
    assert all(isinstance(item, Text) for item in [*good, after])
    assert isinstance(last, Skipped)
    assert last.name == "the list, line 7"
    assert said in last.reason
    assert last.invalid


def test_an_error_does_not_quote_a_secret():
    line = '{"name": "a", "url": "https://h", "headers": {"Authorization": "s3cret\\n"}}'
    (item,) = JsonLines([line]).items()
    assert isinstance(item, Skipped)
    assert "s3cret" not in item.reason
    assert "Authorization" in item.reason


def test_standard_input_and_open_files_are_read(monkeypatch):
    content = b'{"name": "a", "content": "text"}\n'
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert list(JsonLines("-").items()) == list(JsonLines(io.BytesIO(content)).items())


def test_a_line_without_end_is_not_read_into_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("knowledge_bot.origins._lines._LONGEST_LINE", 100)
    path = tmp_path / "items.jsonl"
    path.write_text('{"name": "a", "content": "' + "x" * 200 + '"}\n')
    assert all(isinstance(item, Skipped) for item in JsonLines(path).items())


def test_addresses_are_pages(tmp_path):
    path = tmp_path / "urls.txt"
    path.write_text("# ours\nhttps://h.example/a\n\n  https://h.example/b  \nh.example\nhttp://[\n")
    one, two, three, four = Urls(path).items()
    assert one == WebPage(name="https://h.example/a", url="https://h.example/a")
    assert two.url == "https://h.example/b"
    assert (three.name, three.invalid, three.partial) == ("h.example", True, True)
    assert (four.invalid, four.partial) == (True, True)
    assert list(Urls(["https://h.example/a"]).items()) == [one]


def test_an_address_with_a_login_is_refused_and_the_login_is_not_shown(tmp_path):
    path = tmp_path / "urls.txt"
    path.write_text("https://me:s3cret@h.example/a\nhttps://h.example/b?mail=me@h.example\n")
    refused, page = Urls(path).items()
    assert (refused.name, refused.invalid) == ("…@h.example/a", True)
    assert "s3cret" not in repr(refused)
    assert "s3cret" not in repr(Urls(path.read_text().splitlines()))
    assert page.url == "https://h.example/b?mail=me@h.example"
    (item,) = JsonLines(['{"url": "https://me:s3cret@h.example/a", "name": "n"}']).items()
    assert "url: " in item.reason
    assert "s3cret" not in repr(item)


@pytest.mark.parametrize("read", [JsonLines, Urls])
@pytest.mark.parametrize("wrong", [5, None])
def test_what_holds_no_lines_is_reported_at_once(read, wrong):
    with pytest.raises(ConfigurationError):
        read(wrong)


def test_an_address_in_place_of_a_file_of_them_is_reported():
    with pytest.raises(ConfigurationError):
        Urls("https://h.example/")


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
def test_lines_in_the_encodings_that_editors_and_shells_write_are_read(tmp_path, encoding, ends):
    lines = [
        '{"name": "one", "content": "Wäsche \u2028 und \u0a0a"}',
        "",
        '{"name": "2", "content": "b"}',
    ]
    text = ends.join([*lines, ""]) if encoding != "utf-16-be" else "\ufeff" + ends.join(lines)
    (tmp_path / "items.jsonl").write_bytes(text.encode(encoding))
    items = list(JsonLines(tmp_path / "items.jsonl").items())
    assert [item.content for item in items] == ["Wäsche \u2028 und \u0a0a", "b"]


def test_lines_that_end_with_an_error_are_not_all_there_are(send, ledger):
    def lines(*several):
        yield from ['{"name": "one", "content": "a"}', *several]
        if not several:
            raise OSError(5, "Input/output error")

    whole = '{"name": "two", "content": "b"}'
    assert send(JsonLines(lines(whole), name="crm"), ledger=ledger).ok
    report = send(JsonLines(lines(), name="crm"), ledger=ledger)
    assert (report.unchanged, report.invalid, report.gone, report.ok) == (1, 1, 0, False)
