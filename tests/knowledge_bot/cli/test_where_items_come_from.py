"""`kbot ingest`: where items come from, and what is not one."""

import os
import sys

import pytest

from calls import SOURCE
from scripted_server import answer

IN_ONE = ("--collection", "col_1")


def sent(server):
    return [request.json()["value"] for request in server.requests]


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
