"""Reads documents and texts in a separate process, up to what goes into the index.

A document may make its reader loop, use gigabytes or crash, so it is read in a child process; this
also keeps the interpreter free for requests. A child reads one document after another, since a new
one costs a fifth of a second. Both directions are lines of JSON: a request each on its input, and
on its output some of the document's passages, or the reason why there are none.
"""

import contextlib
import json
import math
import os
import queue
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from knowledge_bot_service.readers.extract import (
    ExtractionError,
    ParsedDocument,
    extract,
    extract_text,
)
from knowledge_bot_service.readers.passages import IndexEntry, index_entries, passages

if TYPE_CHECKING:
    from knowledge_bot_web.fetching import WebResponse  # which the child has no use for


@dataclass(frozen=True, slots=True)
class ReadingLimits:
    """What reading one document may take.

    Attributes:
        seconds: of computing for a part of it, the first one as a rule. A process that says
            nothing for twenty times as long is ended too.
        seconds_in_all: of computing; a long text comes in many parts.
        memory: of the reading process, in bytes.
    """

    seconds: float = 30.0
    seconds_in_all: float = 600.0
    memory: int = 1024**3


@dataclass(frozen=True, slots=True)
class ReadingRequest:
    """What is to be read: a text, or the file at a path, as `extract` takes it.

    Attributes:
        name: the source's name; it is searched as well.
        text: the text that was sent.
        path: where the file is. `is_text` says that it holds the text that was sent, in UTF-8.
        filename: what its sender calls it.
        content_type: what its sender says it is.
    """

    name: str
    text: str | None = None
    path: str = ""
    is_text: bool = False
    filename: str = ""
    content_type: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """Some passages of a document, in order; `title` and `warnings` are the document's own."""

    title: str | None
    warnings: tuple[str, ...]
    entries: list[IndexEntry]
    is_last: bool


class TooSlowError(ExtractionError):
    """A document took longer than its limit."""


class ReaderDiedError(Exception):
    """The reading process crashed on a document, or was killed. str() says how."""


class ReaderClosedError(Exception):
    """The reader was closed before it had read all."""


class DocumentReader:
    """Reads documents, one after another, in a child process that is started when there is work.

    One thread reads; any may `close`. The child ends with this process, however that dies. It has
    none of its environment but what Python needs, and none of its files and sockets.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._closed = False

    @property
    def is_running(self) -> bool:
        """Whether there is a child, at work or waiting for it."""
        return self._process is not None

    def read(
        self, request: ReadingRequest, limits: ReadingLimits = ReadingLimits()
    ) -> Iterator[Part]:
        """Read a document, part by part, as fast as the caller takes them.

        Raises:
            ExtractionError: it cannot be read; TooSlowError: for its limit of time.
            ReaderDiedError: its process died. The next document gets another.
            ReaderClosedError: `close` was called.
        """
        stays = False
        try:
            process = self._started()
            answers = self._answers(process, request, limits)
            for answer in answers:
                if "reason" in answer:
                    stays = answer["stays"]
                    raise ExtractionError(answer["reason"])
                entries = [
                    IndexEntry(text, answer["name"], body, blocks, b64decode(vectors))
                    for text, body, blocks, vectors in answer["entries"]
                ]
                stays = answer["stays"] and answer["is_last"]
                yield Part(answer["title"], tuple(answer["warnings"]), entries, answer["is_last"])
        finally:
            # Also after half of a document, which nobody wants the rest of.
            if not stays:
                self.rest()

    def read_page(
        self, name: str, page: "WebResponse", folder: Path, limits: ReadingLimits = ReadingLimits()
    ) -> Iterator[Part]:
        """Read a fetched page as `read` reads a document, with the same errors."""
        with tempfile.TemporaryDirectory(dir=folder) as place:
            path = Path(place, "page")
            path.write_bytes(page.body)
            request = ReadingRequest(
                name,
                path=str(path),
                filename=unquote(urlsplit(page.url).path.rpartition("/")[2]),
                content_type=page.first("content-type"),
            )
            yield from self.read(request, limits)

    def rest(self) -> None:
        """End the child, to free its memory; the next document gets another."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            _pipe(process.stdout).close()
            # Nobody needs what could not be written any more.
            with contextlib.suppress(BrokenPipeError):
                _pipe(process.stdin).close()

    def close(self) -> None:
        """End the child for good, whatever it does."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()

    def _started(self) -> "subprocess.Popen[bytes]":
        with self._lock:
            if self._closed:
                raise ReaderClosedError
            if self._process is None:
                self._process = subprocess.Popen(  # noqa: S603 (our own module)
                    [sys.executable, "-P", "-m", __name__],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env=_environment(),
                )
            return self._process

    def _answers(
        self, process: "subprocess.Popen[bytes]", request: ReadingRequest, limits: ReadingLimits
    ) -> Iterator[dict[str, Any]]:
        line = json.dumps({"request": asdict(request), "limits": asdict(limits)}) + "\n"
        # A child that has ended is noticed when its answer is read.
        with contextlib.suppress(BrokenPipeError):
            _pipe(process.stdin).write(line.encode())
            _pipe(process.stdin).flush()
        is_first, is_last = True, False
        while not is_last:
            stood_still = threading.Event()
            with _kills(process, limits.seconds * _PATIENCE, stood_still):
                line_of_answer = _pipe(process.stdout).readline()
            if not line_of_answer.endswith(b"\n"):
                raise self._end_of(
                    process, limits, stood_still=stood_still.is_set(), has_begun=not is_first
                )
            answer: dict[str, Any] = json.loads(line_of_answer)
            is_first, is_last = False, "reason" in answer or answer["is_last"]
            yield answer

    def _end_of(
        self,
        process: "subprocess.Popen[bytes]",
        limits: ReadingLimits,
        *,
        stood_still: bool,
        has_begun: bool,
    ) -> Exception:
        """Return the error for a child that ended before its answer."""
        code = process.wait()
        if self._closed:
            return ReaderClosedError()
        if stood_still:
            return ReaderDiedError(f"its reader stood still for {limits.seconds * _PATIENCE:g} s")
        if code == _OUT_OF_TIME:
            if not has_begun:
                return TooSlowError(f"reading it took longer than {limits.seconds:g} s")
            return TooSlowError(
                f"reading it took longer than {limits.seconds:g} s for a part of it, or than"
                f" {limits.seconds_in_all:g} s in all"
            )
        if code == _OUT_OF_MEMORY:
            return ExtractionError(f"reading it needed more than {_size(limits.memory)} of memory")
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return ReaderDiedError(f"its reader broke down ({how})")


# Passages in one answer. A client's write waits for the insertion of one answer's at most.
_PART: Final = 25

# On a busy machine a process that computes, at this niceness, gets a small share of the CPU.
_PATIENCE: Final = 60.0

# The exit code of a child that had too little memory.
_OUT_OF_MEMORY: Final = 3

# How a child ends at the end of its CPU time (resource.RLIMIT_CPU).
_OUT_OF_TIME: Final = -signal.SIGXCPU

# A child that has so many bytes left of a document is replaced.
_MAX_RESIDENT: Final = 150 * 1024**2

# Questions get the CPU first (nice(2)).
_NICENESS: Final = 5

# What the child needs of the environment; the service's may hold keys. Coverage measures children
# through its own variables.
_ENVIRONMENT: Final = frozenset(
    {"HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR"}
)
_ENVIRONMENT_PREFIXES: Final = ("PYTHON", "COVERAGE_")


def _environment() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name in _ENVIRONMENT or name.startswith(_ENVIRONMENT_PREFIXES)
    }


@contextlib.contextmanager
def _kills(
    process: "subprocess.Popen[bytes]", seconds: float, is_killed: threading.Event
) -> Iterator[None]:
    """Kill a process if this takes longer; the event says that it was done."""

    def kill() -> None:
        is_killed.set()
        process.kill()

    timer = threading.Timer(seconds, kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None  # noqa: S101 - both are pipes here; for the type checker
    return stream


def _size(size: int) -> str:
    """A size in the largest binary unit that it is a whole number of: "1 GiB", "512 MiB"."""
    exponent = min(int(math.log2(size & -size) // 10), 3) if size else 0
    return f"{size // 1024**exponent} {('bytes', 'KiB', 'MiB', 'GiB')[exponent]}"


# From here on, the child.


def main() -> None:
    """Answer requests until the input ends."""
    # Ctrl-C and a service manager's SIGTERM are for the service, which ends its children itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(requests,), daemon=True).start()
    # What a library prints must not get into the answers.
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    os.nice(_NICENESS)
    _limit("RLIMIT_CORE", 0)
    while True:
        values = json.loads(requests.get())
        limits = ReadingLimits(**values["limits"])
        _limit("RLIMIT_AS", limits.memory)
        end = _cpu_seconds() + limits.seconds_in_all
        _limit("RLIMIT_CPU", min(_cpu_seconds() + limits.seconds, end))
        try:
            for answer in _answers(ReadingRequest(**values["request"])):
                answer["stays"] = _resident() < _MAX_RESIDENT
                output.write(
                    json.dumps(answer, ensure_ascii=False).encode(errors="replace") + b"\n"
                )
                output.flush()
                _limit("RLIMIT_CPU", min(_cpu_seconds() + limits.seconds, end))
        except MemoryError:
            # At once: there may not be enough memory for a clean end.
            os._exit(_OUT_OF_MEMORY)


def _receive(requests: "queue.SimpleQueue[bytes]") -> None:
    for line in sys.stdin.buffer:
        requests.put(line)
    # The parent has ended, so nobody waits for what the other thread does.
    os._exit(1)


def _answers(request: ReadingRequest) -> Iterator[dict[str, Any]]:
    try:
        document = _read(request)
        title = f"{request.name}\n{document.title}" if document.title else request.name
        batches = _batched(index_entries(passages(document.blocks), title))
        batch = next(batches, None)
        if batch is None:
            raise ExtractionError("there is no text in it")
        while batch is not None:
            following = next(batches, None)
            yield {
                "title": document.title,
                "warnings": document.warnings,
                "name": batch[0].title,
                "entries": [
                    (entry.text, entry.body, entry.blocks, b64encode(entry.vectors).decode())
                    for entry in batch
                ],
                "is_last": following is None,
            }
            batch = following
    except ExtractionError as error:
        yield {"reason": str(error)}
    except MemoryError:
        raise
    except RecursionError:
        yield {"reason": "the document is nested too deeply"}
    except Exception as error:  # noqa: BLE001 (a parser's fault is the document's, not the service's)
        yield {"reason": f"the document could not be read ({type(error).__name__})"}


def _read(request: ReadingRequest) -> ParsedDocument:
    if request.text is not None:
        return extract_text(request.text)
    path = Path(request.path)
    if request.is_text:
        return extract_text(path.read_text(encoding="utf-8"))
    return extract(path, filename=request.filename, content_type=request.content_type)


def _batched(entries: Iterable[IndexEntry]) -> Iterator[list[IndexEntry]]:
    entries = iter(entries)
    while batch := list(islice(entries, _PART)):
        yield batch


def _limit(name: str, most: float) -> None:
    """Limit what this process may use of something, such as `RLIMIT_AS`, for whatever it runs."""
    kind, soft = getattr(resource, name), math.ceil(most)
    _, hard = resource.getrlimit(kind)
    if hard == resource.RLIM_INFINITY or soft < hard:
        resource.setrlimit(kind, (soft, hard))


def _cpu_seconds() -> float:
    used = os.times()
    return used.user + used.system


def _resident() -> int:
    """Return the memory that this process uses, in bytes; 0 if it is not known."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


if __name__ == "__main__":
    main()
