"""Files as multipart bodies (RFC 7578): constant memory and an explicit length.

A small file is sent in one piece, as JSON is. A larger one is streamed, and its body knows whether
its last byte was handed to the network: until then the service cannot hold a complete request, so
an upload that broke before may be sent again.
"""

import asyncio
import io
import os
import re
import stat
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal

from knowledge_bot._threads import begun, in_thread
from knowledge_bot.errors import ConfigurationError

UploadFile = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO
"""A path, the content itself, or a binary file object (read from its current position)."""

UploadEncoding = Literal["value", "fields"]
"""How the fields beside the file are sent: one form field `value` of JSON, or plain form fields.

The interface shows the first as a sample and the second in its schema notation (section 4,
POST /sources/upload).
"""

OnProgress = Callable[[int, int | None], None]
"""Called with the bytes of the file sent so far, and the file's size where it is known."""

# In bytes. Large enough that system calls cost little, small enough that a hundred uploads fit in
# memory. A file of one piece is small.
_PIECE = 512 * 1024

_CONTENT_TYPE = re.compile(
    r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(?:\s*;\s*[\w!#$&^.+-]+=[^\x00-\x1f\x7f]+)*"
)


@dataclass(frozen=True, slots=True, repr=False)
class Upload:
    """A file to send and the form fields beside it; `open` makes the body of one attempt."""

    fields: Mapping[str, Any]
    file: UploadFile | Callable[[], BinaryIO]
    """A function opens it for each attempt, after which it is closed."""
    filename: str
    content_type: str
    on_progress: OnProgress | None
    start: int | None
    """Where a file object stood, so that every attempt begins there; None: it cannot be rewound."""
    only_as: UploadEncoding | None = None
    """How its fields are sent, whatever the client's `upload_encoding` is."""

    @classmethod
    def prepare(
        cls,
        fields: Mapping[str, Any],
        file: UploadFile | Callable[[], BinaryIO],
        *,
        filename: str | None,
        content_type: str | None,
        on_progress: OnProgress | None,
        only_as: UploadEncoding | None = None,
    ) -> "Upload":
        """Check the arguments of an upload; the file itself is not touched before `open`.

        Raises:
            ConfigurationError: `file` is neither a path, bytes nor an open file object, or
                `content_type` is not a media type.
        """
        start: int | None = 0
        if isinstance(file, bytes | bytearray | memoryview):
            name = filename or str(fields["name"])
        elif isinstance(file, str | os.PathLike):
            name = filename or _last_part(file)
        elif not callable(file) and callable(getattr(file, "read", None)):
            name = filename or _name_of(file) or str(fields["name"])
            start = _start_of(file)
        elif callable(file):
            name, start = filename or str(fields["name"]), None
        else:
            raise ConfigurationError.expected("file", "a path, bytes or a binary file object", file)
        given = (("filename", name), ("filename", filename), ("content_type", content_type))
        for argument, text in given:
            if not isinstance(text, str | None):
                raise ConfigurationError.expected(argument, "a string", text)
        content_type = content_type or _guessed_type(name)
        if on_progress is not None and not callable(on_progress):
            raise ConfigurationError.expected("on_progress", "a function", on_progress)
        if not _CONTENT_TYPE.fullmatch(content_type):
            raise ConfigurationError.of("content_type", f"{content_type!r} is not a media type")
        return cls(fields, file, name, content_type, on_progress, start, only_as)

    @property
    def may_wait(self) -> bool:
        """Whether it is a pipe or the like, which gives its content once, and when it likes."""
        if isinstance(self.file, str | os.PathLike):
            try:
                return not stat.S_ISREG(os.stat(self.file).st_mode)  # noqa: PTH116 - as `_last_part`
            except (OSError, ValueError):  # there is none, as opening it will say
                return False
        return self.start is None

    @property
    def replayable(self) -> bool:
        """Whether another attempt can start from the first byte."""
        return not self.may_wait

    @property
    def in_memory(self) -> bool:
        """Whether the content is small and at hand, so that `open` needs no thread."""
        file = self.file
        return isinstance(file, bytes | bytearray | memoryview) and (
            0 < memoryview(file).nbytes <= _PIECE
        )

    def open(self, encoding: UploadEncoding) -> "Body":
        """Open the file for one attempt, and read its beginning; a small one is read and closed.

        Raises:
            ConfigurationError: the file cannot be read, is not a file, is empty, gives no bytes, or
                changed while it was read.
        """
        encoding = self.only_as or encoding
        if self.in_memory:
            at_hand: Any = self.file
            return Body(self, bytes(at_hand), encoding)
        file = self._opened()
        try:
            file.begin()
            if file.size is None or file.size > _PIECE:
                return Body(self, file, encoding)
            whole = Body(self, b"".join(file.pieces()), encoding)
        except BaseException:
            file.close()
            raise
        file.close()
        return whole

    def _opened(self) -> "_File":
        owned = True
        try:
            if isinstance(self.file, str | os.PathLike):
                stream: BinaryIO = open(self.file, "rb")  # noqa: PTH123, SIM115 - as for `_last_part`
            elif isinstance(self.file, bytes | bytearray | memoryview):
                stream = io.BytesIO(bytes(self.file))
            elif callable(self.file):
                stream = self.file()
            else:
                stream, owned = self.file, False
                if self.start is not None:
                    stream.seek(self.start)
            size = None if _start_of(stream) is None else _remaining(stream)
        except ConfigurationError:
            raise
        except Exception as error:
            raise ConfigurationError.of("file", f"cannot be opened: {error}") from error
        return _File(stream, owned, size, self.filename)


class _File:
    """An open file, with as many bytes as it had when it was opened; None: it cannot be known."""

    def __init__(self, stream: BinaryIO, owned: bool, size: int | None, name: str) -> None:
        self._stream, self._owned, self.size, self._name = stream, owned, size, name
        self._first = b""
        # A call that ended may leave a thread inside `read`; the file is not closed under it.
        self._reading, self._closed = threading.Lock(), False

    def begin(self) -> None:
        """Read the first piece, before anything is sent."""
        self._first = self._read(_PIECE if self.size is None else min(_PIECE, self.size))
        if not self._first and not self.size:
            raise ConfigurationError.of("file", f"{self._name!r} is empty")

    def pieces(self) -> Iterator[bytes]:
        """Yield the content; an error if it is not as long as it was."""
        piece, read = self._first, 0
        while piece:
            read += len(piece)
            yield piece
            piece = self._read(_PIECE if self.size is None else min(_PIECE, self.size - read))
        if self.size is not None and (read < self.size or self._read(1)):
            change = "shrank" if read < self.size else "grew"
            raise ConfigurationError.of(
                "file",
                f"{self._name!r} {change} while it was sent ({read} bytes read, "
                f"{self.size} announced). The service has no complete request; send the file "
                "again when nobody writes to it",
            )

    def _read(self, size: int) -> bytes:
        try:
            with self._reading:
                piece = self._stream.read(size) if size else b""
        except (OSError, ValueError, TypeError) as error:
            raise ConfigurationError.of(
                "file", f"{self._name!r} could not be read to its end: {error}"
            ) from error
        finally:
            if self._closed:
                self.close()
        if not isinstance(piece, bytes | bytearray | memoryview):
            raise ConfigurationError.expected(
                "file",
                "bytes of a file object in binary mode ('rb') that blocks until it has some",
                piece,
            )
        return piece

    def close(self) -> None:
        """Close what was opened here, at once or after its last read. A caller's own stays open."""
        self._closed = True
        if self._owned and self._reading.acquire(blocking=False):
            try:
                self._stream.close()
            finally:
                self._reading.release()


class Body:
    """The multipart body of one attempt; it is sent once.

    Attributes:
        content_type: the request's `Content-Type`, with the boundary.
        length: the body's size in bytes, or None for a stream of unknown size.
        whole: all of it, if the file is small; None: it is streamed, and closed afterwards.
        handed_over: whether the last piece was given to the network. False proves that the service
            has no complete request.
        error: what went wrong in making the body, such as a file that changed; transports wrap it.
    """

    def __init__(self, upload: Upload, file: "bytes | _File", encoding: UploadEncoding) -> None:
        boundary = f"kb-{os.urandom(16).hex()}"
        head, tail = _head(upload, boundary, encoding), f"\r\n--{boundary}--\r\n".encode()
        size = len(file) if isinstance(file, bytes) else file.size
        self.content_type: str = f"multipart/form-data; boundary={boundary}"
        self.length: int | None = None if size is None else len(head) + size + len(tail)
        self.whole: bytes | None = head + file + tail if isinstance(file, bytes) else None
        self.handed_over: bool = self.whole is not None
        self.error: Exception | None = None
        self._head, self._tail, self._size, self._sent = head, tail, size, 0
        self._file: Any = None if isinstance(file, bytes) else file
        self._on_progress = upload.on_progress

    def content(self, patience: float) -> bytes | Iterator[bytes]:
        """Return the body for a `Transport`: whole, or the pieces that are read one by one.

        A piece for which a file makes it wait longer than so many seconds is a `TimeoutError`.
        """
        return self._streamed(patience) if self.whole is None else self._at_once(self.whole)

    def acontent(self, patience: float) -> bytes | AsyncIterator[bytes]:
        """Return the body for an `AsyncTransport`; pieces are read in a worker thread."""
        return self._astreamed(patience) if self.whole is None else self._at_once(self.whole)

    def close(self) -> None:
        """Close what this attempt opened. A caller's own file object stays open."""
        if self._file is not None:
            self._file.close()

    def _at_once(self, whole: bytes) -> bytes:
        self._report(self._size or 0)
        return whole

    def _streamed(self, patience: float) -> Iterator[bytes]:
        pieces, waits = self._pieces(), self.length is None
        while step := (
            begun("upload", next, pieces, None).result(patience) if waits else next(pieces, None)
        ):
            yield step[0]
            self._report(step[1])

    async def _astreamed(self, patience: float) -> AsyncIterator[bytes]:
        pieces = self._pieces()
        # Threads of a pool cost less, but the loop's end waits for them.
        call: Any = in_thread if self.length is None else asyncio.to_thread
        while True:
            async with asyncio.timeout(patience):
                step = await call(next, pieces, None)
            if step is None:
                return
            yield step[0]
            self._report(step[1])

    def _pieces(self) -> Iterator[tuple[bytes, int]]:
        """Yield pieces of the body, and how many of their bytes are the file's."""
        try:
            yield self._head, 0
            for piece in self._file.pieces():
                yield piece, len(piece)
        except Exception as error:
            self.error = error
            raise
        # Set before the piece leaves: a break while it is written looks the same as one after it.
        self.handed_over = True
        yield self._tail, 0

    def _report(self, more: int) -> None:
        if self._on_progress is None or not more:
            return
        self._sent += more
        try:
            self._on_progress(self._sent, self._size)
        except Exception as error:
            self.error = error
            raise


def _head(upload: Upload, boundary: str, encoding: UploadEncoding) -> bytes:
    import json

    def part(disposition: str, body: str) -> str:
        return f"--{boundary}\r\nContent-Disposition: form-data; {disposition}\r\n{body}"

    if encoding == "value":
        fields = [("value", json.dumps(upload.fields, ensure_ascii=False))]
    else:
        fields = [
            (name, value)
            for name, values in upload.fields.items()
            for value in ([values] if isinstance(values, str) else values)
        ]
    parts = [part(f'name="{name}"', f"\r\n{value}\r\n") for name, value in fields]
    disposition = f'name="file"; filename="{_quoted(upload.filename)}"'
    parts.append(part(disposition, f"Content-Type: {upload.content_type}\r\n\r\n"))
    return "".join(parts).encode("utf-8", "replace")


def _quoted(filename: str) -> str:
    # As browsers do (WHATWG HTML, multipart/form-data encoding): UTF-8, and percent signs for what
    # would end the quoted string or the line.
    return re.sub(r'[\x00-\x1f\x7f"]', lambda match: f"%{ord(match.group()):02X}", filename)


def _last_part(path: str | os.PathLike[str]) -> str:
    return os.path.basename(os.path.normpath(path))  # noqa: PTH119 - pathlib is slow to load


def _name_of(file: BinaryIO) -> str | None:
    name = getattr(file, "name", None)
    return _last_part(name) if isinstance(name, str) else None


def _start_of(file: BinaryIO) -> int | None:
    try:
        return file.tell() if file.seekable() else None
    except AttributeError:  # it reads, and does nothing else
        return None
    except (OSError, ValueError) as error:
        raise ConfigurationError.of("file", f"cannot be read: {error}") from error


def _guessed_type(name: str) -> str:
    import mimetypes

    # A compressed file does not have the type of its content.
    guessed, compression = mimetypes.guess_type(name)
    return guessed if guessed and not compression else "application/octet-stream"


def _remaining(stream: BinaryIO) -> int:
    position = stream.tell()
    stream.seek(0, os.SEEK_END)
    end = stream.tell()  # not every file object returns it from `seek`
    stream.seek(position)
    return max(0, end - position)
