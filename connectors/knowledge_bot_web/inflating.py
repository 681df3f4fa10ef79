"""Decompresses in small pieces, so that a bomb ends when its reader stops."""

import zlib
from collections.abc import Iterable, Iterator
from typing import Final

from knowledge_bot_web.errors import FetchError


def inflated(pieces: Iterable[bytes], coding: str) -> Iterator[bytes]:
    """Undo the content coding of a body.

    Raises:
        FetchError: the coding is another one, or the body is damaged or ends early.
    """
    match coding.strip().lower():
        case "" | "identity":
            yield from pieces
        case "gzip" | "x-gzip" | "deflate":
            yield from _inflated(pieces)
        case other:
            raise FetchError(f"it is compressed in a way that was not asked for: {other[:40]}")


# What one step makes at most, in bytes.
_STEP: Final = 65_536

# gzip and zlib frames, which zlib itself distinguishes.
_GZIP_OR_ZLIB: Final = zlib.MAX_WBITS | 32
_GZIP: Final = 0x1F


def _inflated(pieces: Iterable[bytes]) -> Iterator[bytes]:
    inflater, has_ended = None, False
    try:
        for piece in pieces:
            left, made = piece, b""
            # A full step may leave something inside although there is no input left.
            while left or len(made) == _STEP:
                if inflater is None:
                    # gzip's members follow one another; anything else there is padding.
                    if has_ended and left[0] != _GZIP:
                        return
                    inflater = _inflater(left)
                made = inflater.decompress(left, _STEP)
                yield made
                left = inflater.unconsumed_tail
                if inflater.eof:
                    left, made, inflater, has_ended = inflater.unused_data, b"", None, True
    except zlib.error:
        raise FetchError("its compression is damaged") from None
    if inflater is not None:
        raise FetchError("it is compressed, and ended early")


def _inflater(start: bytes) -> "zlib._Decompress":
    # Some servers send "deflate" without zlib's frame, whose first byte ends in 8.
    is_framed = start[0] & 0x0F == 0x08 or start[0] == _GZIP
    return zlib.decompressobj(_GZIP_OR_ZLIB if is_framed else -zlib.MAX_WBITS)
