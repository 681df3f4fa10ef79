"""`kbot ingest`: where items come from, and what is not one."""

import gzip
import json
import os
import subprocess
import sys
import time

import pytest

from calls import SOURCE
from page_server import answer as page
from page_server import redirect, serving
from scripted_server import answer

IN_ONE = ("--collection", "col_1")

_SITEMAP = """<?xml version="1.0"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
<url><loc>https://h.example/a</loc></url></urlset>"""

_FEED = """<?xml version="1.0"?>
<rss version="2.0"><channel><title>News</title>
<item><title>B</title><link>https://h.example/b</link></item></channel></rss>"""

_ONE_PAGE = "created\t1\nunchanged\t0\nunversioned\t1\n"


def sent(server):
    return [request.json()["value"] for request in server.requests]


def test_patterns_and_hidden_names_choose_files(run, answering, handbook):
    server = answering(answer(body=SOURCE))
    assert (
        run("ingest", "folder", handbook, "--include", "*.md", "--hidden", *IN_ONE).exit_code == 0
    )
    assert len(server.requests) == 2
    assert run("ingest", "folder", handbook, "--include", ".h*", "--hidden", *IN_ONE).exit_code == 0
    assert len(server.requests) == 3


def names(done):
    """The items that a dry run lists, without the counts below them."""
    return {line for line in done.stdout.splitlines() if "\t" not in line}


def test_excluded_files_and_what_the_folder_ignores_are_left_out(run, answering, handbook):
    server = answering(answer(body=SOURCE))
    dry = ("ingest", "folder", handbook, "--dry-run", *IN_ONE)
    assert names(run(*dry, "--exclude", "*.txt")) == {"a.md", "deeper/c.md"}
    assert names(run(*dry, "--exclude", "deeper/", "--exclude", "*.txt")) == {"a.md"}
    assert names(run(*dry, "--exclude", "*.md", "--exclude", "!a.md")) == {"a.md", "b.txt"}
    (handbook / ".kbotignore").write_text("# drafts\n/deeper/\n")
    assert names(run(*dry)) == {"a.md", "b.txt"}
    assert run("ingest", "folder", handbook, "--exclude", "*.txt", *IN_ONE).exit_code == 0
    assert len(server.requests) == 1


@pytest.mark.parametrize("name", ["ledger.db", "my [l]edger*.db"])
def test_the_ledger_and_the_output_in_the_folder_are_not_uploaded(
    program, answering, handbook, name
):
    server = answering(answer(body=SOURCE))
    command = [program, "ingest", "folder", handbook, "--ledger", handbook / name, *IN_ONE]
    for created in (3, 0):
        with (handbook / "out.log").open("w") as log:
            subprocess.run(command, check=True, stdout=log, stderr=log)
        assert f"created\t{created}\n" in (handbook / "out.log").read_text()
    assert len(server.requests) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every name is Unicode")
def test_a_name_that_is_not_utf_8_is_reported_and_the_rest_is_sent(run, answering, handbook):
    server = answering(answer(body=SOURCE))
    for name in (b"caf\xe9.md", b".caf\xe9"):
        (handbook / os.fsdecode(name)).write_text("x")
    (handbook / "link.md").symlink_to(os.fsdecode(b"caf\xe9.md"))
    done = run("ingest", "folder", handbook, *IN_ONE)
    assert (done.exit_code, len(server.requests)) == (3, 3)
    assert "not UTF-8 text" in done.stderr
    for name in ("\n  caf\\xe9.md\n", "\n  .caf\\xe9\n", "\n  link.md\n"):
        assert name in done.stderr


@pytest.mark.parametrize("pattern", ["[z-a].md", "[]"])
def test_a_pattern_that_is_none_is_a_usage_error(run, answering, handbook, pattern):
    server = answering(answer(body=SOURCE))
    done = run("ingest", "folder", handbook, "--include", pattern, *IN_ONE)
    assert done.exit_code == 2
    assert pattern in done.stderr
    assert server.started == 0


def test_addresses_come_from_a_file_and_from_stdin(run, answering, tmp_path):
    server = answering(answer(body=SOURCE))
    (tmp_path / "urls.txt").write_text("# pages\nhttps://h.example/a\n\nhttps://h.example/b\n")
    assert run("ingest", "urls", tmp_path / "urls.txt", *IN_ONE).stdout.startswith("created\t2\n")
    done = run("ingest", "urls", "-", *IN_ONE, stdin="https://h.example/b\nhttps://h.example/c\n")
    assert done.stdout == "created\t1\nunchanged\t1\nunversioned\t2\n"
    addresses = {one["url"].removeprefix("https://h.example/") for one in sent(server)}
    assert addresses == {"a", "b", "c"}


def test_lines_of_json_that_are_none_are_named_and_the_rest_is_done(run, answering):
    server = answering(answer(body=SOURCE))
    lines = [{"name": f"n{number}", "content": f"x{number}"} for number in range(8)]
    text = [json.dumps(line) for line in lines]
    text[6] = "{not json"
    text[7] = '{"name": "without content"}'
    done = run("ingest", "jsonl", "-", *IN_ONE, stdin="\n".join(text))
    assert done.exit_code == 3
    assert done.stdout == "created\t6\nunchanged\t0\ninvalid\t2\n"
    assert "standard input, line 7" in done.stderr
    assert "standard input, line 8" in done.stderr
    assert len(server.requests) == 6


def test_a_sitemap_and_a_feed_are_read(run, answering):
    server = answering(answer(body=SOURCE))
    with serving() as site:
        for kind, body in {"sitemap": _SITEMAP, "feed": _FEED}.items():
            site.answers[f"/{kind}.xml"] = page(body.encode(), kind="text/xml")
            done = run("ingest", kind, site.url(f"/{kind}.xml"), *IN_ONE)
            assert (done.exit_code, done.stdout) == (0, _ONE_PAGE), done.stderr
    assert [one["url"] for one in sent(server)] == ["https://h.example/a", "https://h.example/b"]


def test_an_address_that_is_none_is_named_and_the_rest_is_sent(run, answering, tmp_path):
    server = answering(answer(body=SOURCE))
    wrong = ("https://[::1/x", "https://exa\u2100mple.org/", "ftp://h.example/")
    found = {
        "urls": "\n".join([*wrong, "https://h.example/?a[]=1"]),
        "sitemap": _SITEMAP.replace(
            "<url>", "".join(f"<url><loc>{address}</loc></url>" for address in wrong) + "<url>"
        ),
        "feed": _FEED.replace(
            "<item>",
            "".join(f"<item><link>{address}</link></item>" for address in wrong) + "<item>",
        ),
    }
    for kind, text in found.items():
        (tmp_path / kind).write_text(text)
        done = run("ingest", kind, tmp_path / kind, *IN_ONE)
        assert (done.exit_code, done.stdout) == (3, f"{_ONE_PAGE}invalid\t3\n"), kind
    addresses = [one["url"].removeprefix("https://h.example/") for one in sent(server)]
    assert addresses == ["?a[]=1", "a", "b"]


def test_a_redirect_is_followed_although_its_server_then_closes_the_connection(run, answering):
    answering(answer(body=SOURCE))
    with serving() as site:

        def redirecting(connection):
            redirect("/new.xml")(connection)
            time.sleep(0.2)

        site.answers["/old.xml"] = redirecting
        site.answers["/new.xml"] = page(_SITEMAP.encode(), kind="text/xml")
        done = run("ingest", "sitemap", site.url("/old.xml"), *IN_ONE)
    assert (done.exit_code, done.stdout) == (0, _ONE_PAGE), done.stderr


def damaged(body):
    """A file of gzip whose compressed data is junk."""
    packed = bytearray(gzip.compress(body))
    packed[12:24] = b"\xff" * 12
    return bytes(packed)


@pytest.mark.parametrize("kind", ["sitemap", "feed"])
def test_a_damaged_archive_is_reported(run, answering, tmp_path, kind):
    answering(answer(body=SOURCE))
    (tmp_path / "x.gz").write_bytes(damaged(_SITEMAP.encode()))
    done = run("ingest", kind, tmp_path / "x.gz", *IN_ONE)
    assert done.exit_code == 3
    assert "it cannot be unpacked" in done.stderr


@pytest.mark.parametrize("encoding", ["shift_jis", "nonsense"])
def test_a_sitemap_in_an_encoding_that_is_not_read_is_reported(run, answering, tmp_path, encoding):
    answering(answer(body=SOURCE))
    text = _SITEMAP.replace("?>", f' encoding="{encoding}"?>')
    (tmp_path / "s.xml").write_text(text, encoding="ascii")
    done = run("ingest", "sitemap", tmp_path / "s.xml", *IN_ONE)
    assert done.exit_code == 3
    assert "encoding" in done.stderr


@pytest.mark.parametrize("kind", ["sitemap", "feed"])
def test_an_address_to_read_from_that_is_none_is_reported(run, answering, kind):
    answering(answer(body=SOURCE))
    done = run("ingest", kind, "https://[::1/x.xml", *IN_ONE)
    assert done.exit_code == 3
    assert "the address is malformed" in done.stderr


def test_a_line_whose_headers_are_of_another_form_is_named_and_the_rest_is_sent(run, answering):
    server = answering(answer(body=SOURCE))
    listed = [{"name": "Authorization", "value": "secret-of-the-page"}]
    lines = [{"url": "https://h.example/a", "headers": listed}, {"url": "https://h.example/b"}]
    done = run("ingest", "jsonl", "-", *IN_ONE, stdin="\n".join(map(json.dumps, lines)))
    assert (done.exit_code, len(server.requests)) == (3, 1)
    assert "headers: expected a mapping" in done.stderr
    assert "secret-of-the-page" not in done.output


def test_a_page_is_added_again_when_its_lastmod_differs_and_the_help_says_so(
    run, answering, tmp_path
):
    server = answering(answer(body=SOURCE))
    for day in ("2026-02-02", "2026-02-02", "2026-01-01"):
        shown = f"<lastmod>{day}</lastmod></url>"
        (tmp_path / "s.xml").write_text(_SITEMAP.replace("</url>", shown))
        assert run("ingest", "sitemap", tmp_path / "s.xml", *IN_ONE).exit_code == 0
    assert len(server.requests) == 2
    shown = " ".join(run("ingest", "sitemap", "--help").stdout.split())
    assert "by its `lastmod`" in shown


def test_a_folder_that_is_mounted_elsewhere_is_the_same_one_by_its_origin(
    run, answering, handbook, tmp_path
):
    server = answering(answer(body=SOURCE))
    assert run("ingest", "folder", handbook, "--origin", "h", *IN_ONE).exit_code == 0
    moved = handbook.rename(tmp_path / "elsewhere")
    done = run("ingest", "folder", moved, "--origin", "h", *IN_ONE)
    assert (done.exit_code, len(server.requests)) == (0, 3)
    assert run("ingest", "folder", moved, *IN_ONE).stdout.startswith("created\t3\n")


@pytest.mark.skipif(sys.platform != "linux", reason="it is Linux's file that cannot be read")
def test_a_list_that_cannot_be_read_to_its_end_is_a_sentence(run, answering):
    answering(answer(body=SOURCE))
    done = run("ingest", "urls", "/proc/self/mem", *IN_ONE)
    assert done.exit_code == 3
    assert "The run ended early: [Errno 5] Input/output error. " in done.stderr
    assert "Ingestion until then" in done.stderr


# Stores and loaders -------------------------------------------------------------------------------

LOADERS = """
from dataclasses import dataclass, field
from pathlib import Path

@dataclass
class Document:
    page_content: str
    metadata: dict = field(default_factory=dict)

class Lines:
    def __init__(self, path, limit=None, breaks=False):
        self.path, self.limit, self.breaks = path, limit, breaks
    def lazy_load(self):
        for number, line in enumerate(Path(self.path).read_text().splitlines()[: self.limit]):
            yield Document(line, {"source": self.path})
        if self.breaks:
            raise OSError("the disk is away")

class Reader:
    def load_data(self, texts):
        return [Document(text) for text in texts]

class Strict:
    def __init__(self, password):
        raise ValueError(f"wrong: {password}")
    def load(self):
        return []

class Other:
    pass

number = 3
"""


@pytest.fixture
def loaders(tmp_path, monkeypatch):
    """A module of loaders in the working folder, and a file for them."""
    (tmp_path / "my_loaders.py").write_text(LOADERS)
    (tmp_path / "lines.txt").write_text("one\ntwo\nthree\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    yield "my_loaders"
    sys.modules.pop("my_loaders", None)


def test_objects_are_uploaded_and_only_those_that_changed_again(run, answering, handbook):
    server = answering(answer(body=SOURCE))
    address = f"file://{handbook}/**"
    done = run("ingest", "objects", address, "--exclude", "*.txt", "--exclude", ".*", *IN_ONE)
    assert (done.exit_code, done.stdout) == (0, "created\t2\nunchanged\t0\n"), done.stderr
    done = run("ingest", "objects", address, "--exclude", "*.txt", "--exclude", ".*", *IN_ONE)
    assert done.stdout == "created\t0\nunchanged\t2\n"
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("handbook",), "for a folder use from_folder"),
        (("gs://bucket/docs",), "gcsfs"),
        (("memory://a", "--set", "endpoint"), "expected NAME=VALUE, not 'endpoint'"),
    ],
)
def test_an_address_of_no_store_is_a_usage_error(run, answering, arguments, message):
    server = answering(answer(body=SOURCE))
    done = run("ingest", "objects", *arguments, *IN_ONE)
    assert (done.exit_code, server.started) == (2, 0)
    assert message in done.stderr


def test_a_place_that_cannot_be_listed_is_reported(run, answering):
    answering(answer(body=SOURCE))
    done = run("ingest", "objects", "memory://nowhere/**", *IN_ONE)
    assert done.exit_code == 3
    assert "memory://nowhere" in done.stderr
    assert "it cannot be listed: there is nothing" in done.stderr


def test_a_loader_is_named_by_its_module_and_class(run, answering, loaders):
    server = answering(answer(body=SOURCE))
    lines = ("ingest", "loader", f"{loaders}:Lines", "--set", "path=lines.txt")
    assert run(*lines, "--set", "limit=2", *IN_ONE).stdout == "created\t2\nunchanged\t0\n"
    assert run(*lines, *IN_ONE).stdout == "created\t1\nunchanged\t2\n"
    first, second, third = [one["content"] for one in sent(server)]
    assert ({first, second}, third) == ({"one", "two"}, "three")  # a run sends several at once


def test_what_a_class_does_not_take_goes_to_its_load_data(run, answering, loaders):
    server = answering(answer(body=SOURCE))
    reader = ("ingest", "loader", f"{loaders}:Reader", "--set", 'texts=["a", "b"]')
    assert run(*reader, *IN_ONE).stdout == "created\t2\nunchanged\t0\n"
    assert {one["content"] for one in sent(server)} == {"a", "b"}  # sent side by side


def test_what_a_loader_raises_is_reported_and_what_it_gave_before_is_sent(run, answering, loaders):
    answering(answer(body=SOURCE))
    options = ("--set", "path=lines.txt", "--set", "breaks=true")
    done = run("ingest", "loader", f"{loaders}:Lines", *options, *IN_ONE)
    assert (done.exit_code, done.stdout) == (3, "created\t3\nunchanged\t0\ninvalid\t1\n")
    assert "the loader ends after 3 documents: OSError: the disk is away" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Lines",), "names no class: expected package.module:Class"),
        (("my_loaders:Lines; x",), "names no class"),
        (("../my_loaders:Lines",), "names no class"),
        (("no_such_module:Lines",), "no_such_module cannot be imported: ModuleNotFoundError"),
        (("my_loaders:Missing",), "my_loaders has no Missing"),
        (("my_loaders:Other",), "my_loaders:Other is not a loader"),
        (("my_loaders:number",), "my_loaders:number is not a loader"),
        (("my_loaders:Lines", "--set", "file=x"), "takes no argument 'file'; it takes breaks, "),
        (("my_loaders:Lines",), "cannot be made: TypeError: "),
        (("my_loaders:Strict", "--set", "password=s3cret"), "cannot be made: ValueError: wrong"),
    ],
)
def test_a_loader_that_cannot_be_used_is_a_usage_error(run, answering, loaders, arguments, message):
    server = answering(answer(body=SOURCE))
    done = run("ingest", "loader", *arguments, *IN_ONE)
    assert (done.exit_code, server.started) == (2, 0)
    assert message in " ".join(done.stderr.split())
    assert "s3cret" not in done.stderr
