"""Input of commands: a file, or stdin for `-`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from knowledge_bot.cli.exits import Exit, Failed


def read_text(source: str) -> str:
    """Return the text of a file, or of stdin for `-`.

    Raises:
        Failed: it cannot be read, or is not UTF-8.
    """
    with _opened(source) as stream:
        return stream.read().decode("utf-8-sig")


def read_lines(source: str) -> Iterator[str]:
    """Yield the lines of a file, or of stdin for `-`, as they come.

    Raises:
        Failed: as `read_text` does, at the line where it is found.
    """
    with _opened(source) as stream:
        for number, line in enumerate(stream):
            yield line.decode("utf-8" if number else "utf-8-sig").rstrip("\r\n")


def given_text(text: str) -> str:
    """Return an argument, or the text of stdin without its last line end where it is `-`."""
    return read_text("-").removesuffix("\n").removesuffix("\r") if text == "-" else text


@contextmanager
def _opened(source: str) -> Iterator[BinaryIO]:
    name = "stdin" if source == "-" else source
    try:
        if source == "-":
            yield sys.stdin.buffer
        else:
            with Path(source).open("rb") as stream:
                yield stream
    except OSError as error:
        raise Failed(f"{name}: cannot be read: {error.strerror}.", Exit.USAGE) from None
    except UnicodeDecodeError as error:
        raise Failed(
            f"{name}: is not UTF-8 text ({error.reason}). Convert it, or send the file as it is "
            "with `kbot add file`.",
            Exit.USAGE,
        ) from None
