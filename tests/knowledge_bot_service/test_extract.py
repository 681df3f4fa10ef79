"""Text from files as people have them, and reasons from files as nobody should have them."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from document_files import SENTENCE, Reader, pdf


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    """Reads content as if it had been uploaded."""
    return Reader(tmp_path)


def test_the_content_decides_before_the_type_and_the_name(read: Reader) -> None:
    assert read(pdf("Text"), "a.txt", "text/plain").text == "Text"
    assert read("<!DOCTYPE html><p>Text", "a.txt", "text/plain").text == "Text"
    assert read("just text", "a.pdf", "application/pdf").text == "just text"
    assert read("**a**", "a.html", "text/markdown").text == "a"
    assert read("A file that begins with %PDF-1.7 is a PDF.", "a.txt").text.startswith("A file")


@pytest.mark.parametrize("data", [b"", b" \n\t\r\n", b"\xef\xbb\xbf", b"\0" * 10])
def test_an_empty_file_is_told(data: bytes, read: Reader) -> None:
    assert read.reason(data, "a.txt") == "the file is empty"


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (bytes(range(256)) * 40, "binary data"),
        (bytes(range(1, 256)) * 40, "binary data"),
        (b"text with NULs\0" * 400, "binary data"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "an image"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(100), "old Office"),
        (b"{\\rtf1 text}", "Rich Text"),
        (b"\x1f\x8b" + bytes(100), "compressed"),
        (b"\x7fELF" + bytes(100), "a program"),
    ],
)
def test_a_kind_that_cannot_be_read_is_told(data: bytes, part: str, read: Reader) -> None:
    assert part in read.reason(data, "a.txt", "text/plain")


needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells a process's children")


BUSY = "<html><body>" + f"<p>{SENTENCE}</p>" * 60_000


@pytest.fixture
def hanging_parser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the parser of pages one that waits forever, in the child process only."""
    (tmp_path / "trafilatura.py").write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)


@needs_proc
@pytest.mark.timeout(60)  # the parser hangs for ten minutes
@pytest.mark.usefixtures("hanging_parser")
def test_a_parser_that_hangs_is_given_up(read: Reader) -> None:
    before = children()
    assert read.reason("<html>", seconds=0.5) == "reading it took longer than 0.5 s"
    assert children() <= before


def test_a_document_that_keeps_its_parser_busy_is_given_up(read: Reader) -> None:
    assert read.reason(BUSY, seconds=0.5) == "reading it took longer than 0.5 s"


def test_a_document_that_takes_too_much_memory_is_given_up(read: Reader) -> None:
    page = "<p>" + "<b>x</b>" * 600_000
    sentence = read.reason(page, "", "text/html", memory=256 * 1024**2)
    assert sentence == "reading it needed more than 256 MiB of memory"


_READ_A_PAGE = """
import pathlib, sys
from knowledge_bot_service.extract import extract
extract(pathlib.Path(sys.argv[1]), filename="a.html")
"""


def test_a_page_is_read_where_no_signal_ends_a_process_for_its_time(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(f"<html><p>{SENTENCE}")
    # As on Windows.
    program = "import signal\ndel signal.SIGXCPU\n" + _READ_A_PAGE
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_charset_that_is_no_name_is_passed_over(read: Reader) -> None:
    page = f"<html><p>{SENTENCE}"
    assert read(page, "", "text/html; charset*=utf-8''%00").text == SENTENCE
    assert read(page, "", "text/html; charset*=a\0b''x").text == SENTENCE


@needs_proc
def test_reading_leaves_no_process_behind(read: Reader) -> None:
    before = children()
    read(pdf("Text"))
    read.reason(pdf(""))
    assert children() <= before


@needs_proc
@pytest.mark.usefixtures("hanging_parser")
def test_a_child_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "slow.html"
    path.write_text("<html>")
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            _READ_A_PAGE,
            str(path),
        ]
    )
    try:
        wait_until(lambda: bool(children(parent.pid)))
        (child,) = children(parent.pid)
    finally:
        parent.kill()
        parent.wait()
    wait_until(lambda: not is_running(child))


def test_the_child_sees_no_key_of_the_service(
    read: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", "s3cret")
    package = tmp_path / "trafilatura.py"
    package.write_text(
        "import os\ndef extract(*_, **__): return f'{SENTENCE}' * 9 + repr(dict(os.environ))\n"
        f"SENTENCE = {SENTENCE!r}\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    text = read(f"<html><body><p>{SENTENCE}</p></body></html>").text
    assert "PYTHONPATH" in text
    assert "s3cret" not in text


def children(parent: int | None = None) -> set[int]:
    """The processes that a process has started and that have not ended."""
    tasks = Path(f"/proc/{parent or os.getpid()}/task")
    started = " ".join((task / "children").read_text() for task in tasks.iterdir())
    return {int(process) for process in started.split()}


def is_running(process: int) -> bool:
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)
