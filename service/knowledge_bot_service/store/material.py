"""What is to be read waits in files of the data folder, each written durably."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from knowledge_bot.models import Header


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Write a file durably, for its owner alone; after an error nothing is there."""
    partial = path.with_suffix(".part")
    try:
        partial.touch(mode=0o600)
        with partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.rename(path)
        synchronise_folder(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text to `path` durably, as an upload would be."""
    with writing(path) as file:
        file.write(text.encode())


def write_headers(path: Path, headers: Iterable[Header]) -> None:
    """Write request headers to `path`, as a text."""
    write_text(path, json.dumps([[header.name, header.value] for header in headers]))


def read_headers(path: Path) -> tuple[Header, ...]:
    """The reverse of `write_headers`."""
    written = json.loads(path.read_text(encoding="utf-8"))
    return tuple(Header(name=name, value=value) for name, value in written)


def synchronise_folder(folder: Path) -> None:
    """Make a new or renamed file's entry durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
