"""Answers of bounded size: decoded piece by piece, so that a compressed bomb never unfolds."""

import zlib
from collections.abc import Iterator, Mapping

from knowledge_bot.delivery import Answer

ACCEPT_ENCODING = "gzip, deflate"

# Room for a long list of conversations; the largest documented answer is a bot's text.
_LARGEST_ANSWER = 16 * 1024 * 1024

# How much is unpacked at a time, and how much of a body in excess is kept, in bytes.
_STEP = 256 * 1024
_START = 4000

# Lets zlib recognise both of the formats above by their headers.
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


class AnswerReader:
    """Takes an answer's raw pieces and makes the `Answer`."""

    def __init__(self, status: int, headers: Mapping[str, str]) -> None:
        self._status, self._headers = status, headers
        self._body = bytearray()
        self._excess = ""
        self._decompressor = None
        encoding = headers.get("content-encoding", "identity").strip().lower()
        if encoding in ("gzip", "x-gzip", "deflate"):
            self._decompressor = zlib.decompressobj(_GZIP_OR_ZLIB)
        elif encoding not in ("", "identity"):
            self._excess = f"its body is encoded as {encoding[:40]!r}, which was not asked for"

    @property
    def refusal(self) -> bool:
        """Whether the status alone says what came of the request, however the body ends."""
        return self._status >= 400

    def feed(self, piece: bytes) -> bool:
        """Take a piece as it came from the wire; return whether more is wanted."""
        if self._excess:
            return False
        try:
            for part in self._decoded(piece):
                self._body += part
                if len(self._body) > _LARGEST_ANSWER:
                    self._excess = f"its body is larger than {_LARGEST_ANSWER // 2**20} MiB"
                    break
        except zlib.error as error:
            self._excess = f"its compressed body is damaged: {error}"
        return not self._excess

    def answer(self) -> Answer:
        """Return what was read; of a body in excess only its start."""
        unfinished = self._decompressor is not None and not self._decompressor.eof
        if unfinished and self._body and not self._excess:
            self._excess = "its compressed body is cut short"
        body = bytes(self._body[:_START] if self._excess else self._body)
        return Answer(self._status, self._headers, body, self._excess)

    def _decoded(self, piece: bytes) -> Iterator[bytes]:
        if self._decompressor is None:
            yield piece
            return
        part = b""
        # A full step may leave output in the decompressor although no input is left.
        while piece or len(part) == _STEP:
            part = self._decompressor.decompress(piece, _STEP)
            piece = self._decompressor.unconsumed_tail
            yield part
