"""`kbot ingest`: where items come from, and what is not one."""

import os
import sys

import pytest

from calls import SOURCE
from scripted_server import answer

IN_ONE = ("--collection", "col_1")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every name is Unicode")
def test_a_name_that_is_not_utf_8_is_reported_and_the_rest_is_sent(run, answering, handbook):
    server = answering(answer(body=SOURCE))
    for name in (b"caf\xe9.md", b".caf\xe9"):
        (handbook / os.fsdecode(name)).write_text("x")
    (handbook / "link.md").symlink_to(os.fsdecode(b"caf\xe9.md"))
    done = run("ingest", "folder", handbook, *IN_ONE)
    assert (done.exit_code, len(server.requests)) == (3, 3)
    for name in ("\n  caf\\xe9.md\n", "\n  .caf\\xe9\n", "\n  link.md\n"):
        assert name in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="it is Linux's file that cannot be read")
def test_a_list_that_cannot_be_read_to_its_end_is_a_sentence(run, answering):
    answering(answer(body=SOURCE))
    done = run("ingest", "urls", "/proc/self/mem", *IN_ONE)
    assert done.exit_code == 3
    assert "[Errno 5]" in done.stderr


def test_a_secret_that_a_loader_repeats_is_not_shown(run, answering, tmp_path, monkeypatch):
    answering(answer(body=SOURCE))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    strict = "class Strict:\n  load = print\n  def __init__(self, it): raise ValueError(it)\n"
    (tmp_path / "strict_loaders.py").write_text(strict)
    done = run("ingest", "loader", "strict_loaders:Strict", "--set", "it=s3cret", *IN_ONE)
    assert (done.exit_code, "s3cret" in done.stderr) == (2, False)
    assert "ValueError" in done.stderr
