"""Files as multipart bodies (RFC 7578): constant memory and an explicit length.

A small file is sent in one piece, as JSON is. A larger one is streamed, and its body knows whether
its last byte was handed to the network: until then the service cannot hold a complete request, so
an upload that broke before may be sent again.
"""

import asyncio
import io
import os
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Literal

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

    fields: Mapping[str, str | Sequence[str]]
    file: UploadFile
    filename: str
    content_type: str
    on_progress: OnProgress | None
    start: int | None
    """Where a file object stood, so that every attempt begins there; None: it cannot be rewound."""

    @classmethod
    def prepare(
        cls,
        fields: Mapping[str, str | Sequence[str]],
        file: UploadFile,
        *,
        filename: str | None,
        content_type: str | None,
        on_progress: OnProgress | None,
    ) -> "Upload":
        """Check the arguments of an upload; the file itself is not touched before `open`.

        Raises:
            ConfigurationError: `file` is neither a path, bytes nor an open binary file object, or
                `content_type` is not a media type.
        """
        start: int | None = 0
        if isinstance(file, str | os.PathLike):
            name = filename or _last_part(file)
        elif isinstance(file, bytes | bytearray | memoryview):
            name = filename or str(fields["name"])
        elif callable(getattr(file, "read", None)):
            if isinstance(file, io.TextIOBase):
                raise ConfigurationError("file: a file object must be opened in binary mode ('rb')")
            name = filename or _name_of(file) or str(fields["name"])
            start = _start_of(file)
        else:
            raise ConfigurationError(
                f"file: expected a path, bytes or a binary file object, not {type(file).__name__}"
            )
        content_type = content_type or _guessed_type(str(name))
        for argument, text in (("filename", name), ("content_type", content_type)):
            if not isinstance(text, str):
                kind = type(text).__name__
                raise ConfigurationError(f"{argument}: expected a string, not {kind}")
        if on_progress is not None and not callable(on_progress):
            raise ConfigurationError(
                f"on_progress: expected a function, not {type(on_progress).__name__}"
            )
        if not _CONTENT_TYPE.fullmatch(content_type):
            raise ConfigurationError(f"content_type: {content_type!r} is not a media type")
        return cls(fields, file, name, content_type, on_progress, start)

    @property
    def replayable(self) -> bool:
        """Whether another attempt can start from the first byte."""
        return self.start is not None

    @property
    def in_memory(self) -> bool:
        """Whether `open` waits for no disk, and so needs no thread."""
        file = self.file
        return isinstance(file, bytes | bytearray | memoryview) and (
            memoryview(file).nbytes <= _PIECE
        )

    def open(self, encoding: UploadEncoding) -> "Body":
        """Open the file for one attempt; a small one is read and closed.

        Raises:
            ConfigurationError: the file cannot be read, is not a file, is empty, or changed while
                it was read.
        """
        try:
            stream, owned = self._stream()
            size = _remaining(stream) if self.replayable else None
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"file: cannot be opened: {error}") from error
        if size == 0:
            if owned:
                stream.close()
            raise ConfigurationError(f"file: {self.filename!r} is empty")
        body = Body(self, stream, owned, size, encoding)
        if size is not None and size <= _PIECE:
            body.read()
        return body

    def _stream(self) -> tuple[BinaryIO, bool]:
        if isinstance(self.file, str | os.PathLike):
            return open(self.file, "rb"), True  # noqa: PTH123 - as for `_last_part`
        if isinstance(self.file, bytes | bytearray | memoryview):
            return io.BytesIO(bytes(self.file)), True
        if self.start is not None:
            self.file.seek(self.start)
        return self.file, False


class Body:
    """The multipart body of one attempt; it is sent once.

    Attributes:
        content_type: the request's `Content-Type`, with the boundary.
        length: the body's size in bytes, or None for a stream of unknown size.
        whole: all of it, if the file is small, which is then closed.
        handed_over: whether the last piece was given to the network. False proves that the service
            has no complete request.
        error: what went wrong in making the body, such as a file that changed; transports wrap it.
    """

    def __init__(
        self,
        upload: Upload,
        stream: BinaryIO,
        owned: bool,
        size: int | None,
        encoding: UploadEncoding,
    ) -> None:
        boundary = f"kb-{os.urandom(16).hex()}"
        self.content_type: str = f"multipart/form-data; boundary={boundary}"
        self._head = _head(upload, boundary, encoding)
        self._tail = f"\r\n--{boundary}--\r\n".encode()
        self.length: int | None = None if size is None else len(self._head) + size + len(self._tail)
        self.whole: bytes | None = None
        self.handed_over: bool = False
        self.error: Exception | None = None
        self._upload, self._stream, self._owned, self._size = upload, stream, owned, size
        self._sent = 0
        # A cancelled call may leave a thread inside `read`; the file is not closed under it.
        self._reading = threading.Lock()

    def read(self) -> None:
        """Read the whole body and close the file."""
        try:
            self.whole = b"".join(self._pieces())
        finally:
            self.close()

    def content(self) -> bytes | Iterator[bytes]:
        """Return the body for a `Transport`: whole, or the pieces that are read one by one."""
        return self._streamed() if self.whole is None else self._at_once(self.whole)

    def acontent(self) -> bytes | AsyncIterator[bytes]:
        """Return the body for an `AsyncTransport`; pieces are read in a worker thread."""
        return self._astreamed() if self.whole is None else self._at_once(self.whole)

    def _at_once(self, whole: bytes) -> bytes:
        self._report(self._size or 0)
        return whole

    def _streamed(self) -> Iterator[bytes]:
        for piece in self._pieces():
            yield piece
            self._report_piece(piece)

    async def _astreamed(self) -> AsyncIterator[bytes]:
        pieces = self._pieces()
        while piece := await asyncio.to_thread(next, pieces, b""):
            yield piece
            self._report_piece(piece)

    def close(self) -> None:
        """Close what this attempt opened. A caller's own file object stays open."""
        with self._reading:
            if self._owned:
                self._stream.close()

    def _pieces(self) -> Iterator[bytes]:
        try:
            yield self._head
            yield from self._file()
        except Exception as error:
            self.error = error
            raise
        # Set before the piece leaves: a break while it is written looks the same as one
        # after it.
        self.handed_over = True
        yield self._tail

    def _file(self) -> Iterator[bytes]:
        read = 0
        while piece := self._read(_PIECE if self._size is None else min(_PIECE, self._size - read)):
            read += len(piece)
            yield piece
        if read == 0:
            raise ConfigurationError(f"file: {self._upload.filename!r} is empty")
        if self._size is not None and (read < self._size or self._read(1)):
            change = "shrank" if read < self._size else "grew"
            raise ConfigurationError(
                f"file: {self._upload.filename!r} {change} while it was sent ({read} bytes read, "
                f"{self._size} announced). The service has no complete request; send the file "
                "again when nobody writes to it"
            )

    def _read(self, size: int) -> bytes:
        try:
            with self._reading:
                return self._stream.read(size) if size else b""
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"file: {self._upload.filename!r} could not be read to its end: {error}"
            ) from error

    def _report_piece(self, piece: bytes) -> None:
        if piece is not self._head and piece is not self._tail:
            self._report(len(piece))

    def _report(self, more: int) -> None:
        if self._upload.on_progress is None:
            return
        self._sent += more
        try:
            self._upload.on_progress(self._sent, self._size)
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
    parts.append(
        part(
            f'name="file"; filename="{_quoted(upload.filename)}"',
            f"Content-Type: {upload.content_type}\r\n\r\n",
        )
    )
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
        raise ConfigurationError(f"file: cannot be read: {error}") from error


def _guessed_type(name: str) -> str:
    import mimetypes

    # A compressed file does not have the type of its content.
    guessed, compression = mimetypes.guess_type(name)
    return guessed if guessed and not compression else "application/octet-stream"


def _remaining(stream: BinaryIO) -> int:
    position = stream.tell()
    end = stream.seek(0, os.SEEK_END)
    stream.seek(position)
    return max(0, end - position)
