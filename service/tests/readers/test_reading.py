"""Reading in a process of its own: what it gives, and what ends it."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from document_files import SENTENCE, pdf
from knowledge_bot_service.readers.extract import ExtractionError
from knowledge_bot_service.readers.reading import (
    DocumentReader,
    ReaderClosedError,
    ReaderDiedError,
    ReadingLimits,
    ReadingRequest,
    TooSlowError,
)
from waiting import until

needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells a process's children")

BUSY = "<!doctype html>" + "<p><b>The</b> <i>lamp</i>" * 200_000


@pytest.fixture
def reader():
    reader = DocumentReader()
    yield reader
    reader.rest()


@pytest.fixture
def hanging_parser(tmp_path, monkeypatch):
    """Makes the parser of pages one that waits forever, in the child process only."""
    (tmp_path / "trafilatura.py").write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)


_DEFAULT = ReadingLimits()


def file(folder, content, filename="a.html"):
    path = folder / filename
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return ReadingRequest("Name", path=str(path), filename=filename)


def passages(reader, request, limits=_DEFAULT):
    return [entry.text for part in reader.read(request, limits) for entry in part.entries]


def reason(reader, request, limits=_DEFAULT):
    with pytest.raises(ExtractionError) as caught:
        passages(reader, request, limits)
    return str(caught.value)


def test_one_process_reads_one_document_after_another(reader, tmp_path):
    assert passages(reader, ReadingRequest("Name", "The lamp is green.")) == ["The lamp is green."]
    first = child_of(reader)
    assert passages(reader, file(tmp_path, f"<html><p>{SENTENCE}")) == [SENTENCE]
    assert reason(reader, ReadingRequest("Name", " ")) == "there is no text in it"
    assert passages(reader, ReadingRequest("Name", "The door is red.")) == ["The door is red."]
    assert child_of(reader) == first


def test_a_long_text_comes_in_parts_with_its_title(reader, tmp_path):
    text = "# Lamps\n\n" + "\n\n".join(f"Lamp {number}. " + "word " * 150 for number in range(60))
    parts = list(reader.read(file(tmp_path, text, "a.md")))
    assert [part.title for part in parts] == ["Lamps"] * 3
    assert [part.is_last for part in parts] == [False, False, True]
    entries = [entry for part in parts for entry in part.entries]
    assert {entry.title for entry in entries} == {"name lamp"}
    assert entries[-1].text.startswith("# Lamps\n\nLamp 59.")
    assert entries[-1].body.startswith("# lamp\n- lamp 59 word")


@pytest.mark.timeout(60)  # the parser hangs for ten minutes
@pytest.mark.usefixtures("hanging_parser")
def test_a_parser_that_hangs_is_given_up(reader, tmp_path):
    with pytest.raises(ReaderDiedError, match=r"^its reader stood still for 3 s$"):
        passages(reader, file(tmp_path, "<html>"), ReadingLimits(seconds=0.05))
    assert passages(reader, ReadingRequest("Name", "The lamp is green.")) == ["The lamp is green."]


def test_a_document_that_keeps_its_parser_busy_is_given_up(reader, tmp_path):
    # CPU time is limited in whole seconds: with less than one, patience would end sooner, but not
    # the time, and on a busy machine a process that computes would seem to stand still.
    with pytest.raises(TooSlowError, match=r"^reading it took longer than 1 s$"):
        passages(reader, file(tmp_path, BUSY), ReadingLimits(seconds=1))


def test_a_text_that_is_work_without_end_is_given_up(reader):
    limits = ReadingLimits(seconds_in_all=0.5)
    with pytest.raises(TooSlowError, match=r"^reading it took longer than "):
        passages(reader, ReadingRequest("Name", "One word. " * 1_000_000), limits)


def test_a_document_that_takes_too_much_memory_is_given_up(reader, tmp_path):
    page = file(tmp_path, "<!doctype html><p>" + "<b>x</b>" * 600_000)
    sentence = "reading it needed more than 256 MiB of memory"
    assert reason(reader, page, ReadingLimits(memory=256 * 1024**2)) == sentence
    assert passages(reader, ReadingRequest("Name", "The lamp is green.")) == ["The lamp is green."]


def test_a_document_that_nobody_wants_the_rest_of_is_not_read_on(reader):
    parts = reader.read(ReadingRequest("Name", "word " * 100_000))
    next(parts)
    parts.close()
    assert passages(reader, ReadingRequest("Name", "The lamp is green.")) == ["The lamp is green."]


@needs_proc
def test_a_process_that_is_killed_is_told_and_replaced(reader):
    parts = reader.read(ReadingRequest("Name", "word " * 100_000))
    next(parts)
    os.kill(child_of(reader), signal.SIGKILL)
    with pytest.raises(ReaderDiedError, match=r"^its reader broke down \(signal 9\)$"):
        list(parts)
    assert passages(reader, ReadingRequest("Name", "The lamp is green.")) == ["The lamp is green."]


@needs_proc
def test_what_interrupts_a_terminal_does_not_end_reading(reader):
    passages(reader, ReadingRequest("Name", "A text."))
    child = child_of(reader)
    os.kill(child, signal.SIGINT)
    os.kill(child, signal.SIGTERM)
    assert passages(reader, ReadingRequest("Name", "The lamp is green.")) == ["The lamp is green."]
    assert child_of(reader) == child


@needs_proc
def test_resting_leaves_no_process_behind(reader, tmp_path):
    passages(reader, file(tmp_path, pdf("Text"), "a.pdf"))
    assert reader.is_running
    child = child_of(reader)
    reader.rest()
    assert not reader.is_running
    assert not is_running(child)


def test_a_closed_reader_reads_nothing_more(reader):
    parts = reader.read(ReadingRequest("Name", "word " * 100_000))
    next(parts)
    reader.close()
    with pytest.raises(ReaderClosedError):
        list(parts)
    with pytest.raises(ReaderClosedError):
        passages(reader, ReadingRequest("Name", "A text."))


_READ_A_PAGE = """
import sys
from knowledge_bot_service.readers.reading import DocumentReader, ReadingRequest
list(DocumentReader().read(ReadingRequest("Name", path=sys.argv[1], filename="a.html")))
"""


@needs_proc
@pytest.mark.usefixtures("hanging_parser")
def test_a_child_ends_when_its_parent_is_killed(tmp_path):
    page = file(tmp_path, "<html>")
    parent = subprocess.Popen([sys.executable, "-c", _READ_A_PAGE, page.path])
    try:
        # Linux may leave out a child of a process that runs: one look that finds it is enough.
        found = set()
        assert until(lambda: found.update(children(parent.pid)) or bool(found))
        (child,) = found
    finally:
        parent.kill()
        parent.wait()
    assert until(lambda: not is_running(child))


@needs_proc
def test_the_child_has_no_key_and_no_file_of_the_service(reader, tmp_path, monkeypatch):
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", "s3cret")
    with (tmp_path / "open").open("wb"):
        passages(reader, ReadingRequest("Name", "A text."))
        child = child_of(reader)
        environment = Path(f"/proc/{child}/environ").read_text()
        files = [os.readlink(one) for one in Path(f"/proc/{child}/fd").iterdir()]
    assert "PATH=" in environment
    assert "s3cret" not in environment
    assert all(one.startswith(("pipe:", "/dev/null")) for one in files), files


def child_of(reader):
    """The process of a reader. Services of other tests may have some in this process too."""
    process = reader._process
    assert process is not None
    return process.pid


def children(parent):
    """The reading processes that a process has started and that have not ended."""
    found = set()
    for task in Path(f"/proc/{parent}/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # a thread, or a process, ended meanwhile
            for one in (task / "children").read_text().split():
                if b".reading" in Path(f"/proc/{one}/cmdline").read_bytes():
                    found.add(int(one))
    return found


def is_running(process):
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
