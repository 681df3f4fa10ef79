"""Reads a response's body piece by piece, decompressed and within limits."""

import zlib
from collections.abc import Iterator
from typing import Final

import httpcore


class BodyError(ValueError):
    """A body cannot be read. `str()` is the reason."""


def read_body(response: httpcore.Response, max_bytes: int) -> bytes:
    """Read a body of at most `max_bytes`, counted as transferred and once more decompressed.

    Raises:
        BodyError: it is larger, compressed in an unknown way, or damaged.
    """
    body = bytearray()
    for piece in _decompressed(_bounded(response, max_bytes), _coding(response), max_bytes):
        body += piece
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
    return bytes(body)


# gzip and zlib frames, which zlib itself distinguishes.
_GZIP_OR_ZLIB: Final = zlib.MAX_WBITS | 32


def _coding(response: httpcore.Response) -> str:
    values = (value for name, value in response.headers if name.lower() == b"content-encoding")
    return b",".join(values).decode("latin-1").strip().lower()


def _bounded(response: httpcore.Response, max_bytes: int) -> Iterator[bytes]:
    for name, value in response.headers:
        if name.lower() == b"content-length" and int(value) > max_bytes:
            raise _too_large(max_bytes)
    size = 0
    for piece in response.iter_stream():
        size += len(piece)
        if size > max_bytes:
            raise _too_large(max_bytes)
        yield piece


def _decompressed(pieces: Iterator[bytes], coding: str, max_bytes: int) -> Iterator[bytes]:
    match coding:
        case "" | "identity":
            return pieces
        case "gzip" | "x-gzip" | "deflate":
            return _inflated(pieces, max_bytes)
        case _:
            raise BodyError(
                f"the page is compressed in a way that was not asked for: {coding[:40]}"
            )


def _inflated(pieces: Iterator[bytes], max_bytes: int) -> Iterator[bytes]:
    inflater = None
    try:
        for piece in pieces:
            while piece:
                inflater = inflater or _inflater(piece)
                # One byte more than allowed distinguishes a larger body from one that just fits.
                yield inflater.decompress(piece, max_bytes + 1)
                piece = inflater.unused_data if inflater.eof else b""  # noqa: PLW2901
                if inflater.eof:
                    inflater = None
    except zlib.error:
        raise BodyError("the page's compression is damaged") from None
    if inflater is not None:
        raise BodyError("the page ended early")


def _inflater(start: bytes) -> "zlib._Decompress":
    # Some servers send "deflate" without zlib's frame, whose first byte ends in 8.
    is_framed = start[0] & 0x0F == 0x08 or start[0] == 0x1F
    return zlib.decompressobj(_GZIP_OR_ZLIB if is_framed else -zlib.MAX_WBITS)


def _too_large(max_bytes: int) -> BodyError:
    return BodyError(f"the page is larger than {max_bytes:,} bytes")
