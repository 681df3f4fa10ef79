"""Lines of a file, of a pipe or of a list: items as JSON, or addresses of pages."""

import codecs
import io
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar, TypeAlias

from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest._listings import Skipped
from knowledge_bot.origins._origin import (
    Memory,
    Origin,
    detail_of,
    is_template,
    is_web_address,
    to_the_end,
)

if TYPE_CHECKING:
    from knowledge_bot.ingest._items import File, Text, WebPage

Lines: TypeAlias = str | os.PathLike[str] | IO[bytes] | IO[str] | Iterable[str]
"""A path, `-` for standard input, an open file, or the lines themselves."""

# Most bytes of one line: an encyclopaedia fits, a large file without line ends does not.
_LONGEST_LINE = 64 * 1024 * 1024

_Numbered: TypeAlias = Iterator[tuple[int, bytes]]


@dataclass(frozen=True, repr=False)
class OfLines(Origin):
    """Items in lines.

    A file is named by its path. A pipe or a list has no name that says what it is: without one, it
    need not be all there is, and nothing is gone.
    """

    source: Lines

    template_fields: ClassVar[tuple[str, ...]] = ("source", "name")

    def _check(self) -> None:
        super()._check()
        given: object = self.source
        if isinstance(given, os.PathLike):
            self._set(source=os.fspath(given))
        elif not (isinstance(given, Iterable) or is_template(given)) or isinstance(given, dict):
            raise ConfigurationError.expected("source", "a path, an open file or lines", given)
        elif isinstance(given, str) and is_web_address(given):
            raise ConfigurationError.of(
                "source", f"{given} is an address, but a file of lines is expected, or a list"
            )

    def _default_name(self) -> str:
        file = self._file
        return os.path.abspath(file) if file is not None else self._label  # noqa: PTH100 - no IO

    @property
    def whole(self) -> bool:
        """Whether these are all items of the origin, so that what does not come is gone."""
        return self._file is not None or self.name != self._label

    @property
    def _file(self) -> str | None:
        """A file's path; None for everything else, such as a pipe."""
        return self.source if isinstance(self.source, str) and self.source != "-" else None

    @property
    def _label(self) -> str:
        if self.source == "-":
            return "standard input"
        return self._file or str(getattr(self.source, "name", "the list"))

    def _numbered(self) -> _Numbered:
        """Yield the lines that are not empty, with their numbers.

        Raises:
            ConfigurationError: the file cannot be opened, or they were read before.
        """
        if (file := self._file) is not None:
            return _numbered(_closing(_opened(file)))
        if not isinstance(self.source, list | tuple):
            self._take_once("lines")
        lines: Any = _lines_of(sys.stdin.buffer) if self.source == "-" else self.source
        return _numbered(lines)


@dataclass(frozen=True, repr=False)
class JsonLines(OfLines):
    """The items of a file with one JSON object per line.

    An object holds the fields of a `WebPage` (`name`, `url`, …), a `Text` (`name`, `content`, …) or
    a `File` (`path`, …; relative to the folder of the JSON file). Its `url`, `content` or `path`
    says which. Empty lines are left out, and a line that is no item is a `Skipped`.

    Attributes:
        source: a path, `-` for standard input, an open file, or lines.
        name: by default the file's path. Without one, nothing of a pipe or a list is ever gone.

    Raises:
        ConfigurationError: an argument cannot be used; from `items`, that the file cannot be
            opened, or that the lines can be read only once and have been.
    """

    def items(self, memory: Memory | None = None) -> "Iterator[WebPage | Text | File | Skipped]":  # noqa: ARG002 - as others
        """Yield an item for each line."""
        folder = Path(self._file or "-").absolute().parent
        return to_the_end(_json_items(self._numbered(), self._label, folder), self._label)


def _json_items(
    lines: Iterator[tuple[int, bytes]], name: str, folder: Path
) -> "Iterator[WebPage | Text | File | Skipped]":
    for number, line in lines:
        what = "it cannot be read"
        try:
            fields = _fields_of(line)
            what = "it is not an item"
            yield item_of(fields, folder)
        except (ValueError, TypeError) as error:
            reason = f"{what}: {detail_of(error)}"
            yield Skipped(f"{name}, line {number}", reason, invalid=True, partial=True)


def _fields_of(line: bytes) -> Any:
    from pydantic_core import from_json

    if len(line) > _LONGEST_LINE:
        raise ValueError("it is too long")
    try:
        return from_json(line)
    except ValueError as error:  # to the parser, each line is line 1
        detail = str(error)[:300].replace(" at line 1 column", " at column")
        raise ValueError(f"it is not JSON: {detail}") from None


def item_of(fields: Any, folder: Path | None = None) -> "WebPage | Text | File":
    """Return the item that a dict describes; a path is taken from `folder`, if there is one.

    Raises:
        ValueError: it describes none.
        TypeError: it is no dict.
    """
    from knowledge_bot.ingest._items import File, Text, WebPage

    if not isinstance(fields, dict):
        raise TypeError(f"expected an object as {{name, content}}, not {type(fields).__name__}")
    if "url" in fields:
        return WebPage.model_validate({"name": fields["url"]} | fields)
    if "content" in fields:
        return Text.model_validate(fields)
    if "path" in fields:
        path = fields["path"]
        file = folder / path if folder is not None and isinstance(path, str) else path
        return File.model_validate(fields | {"path": file})
    raise ValueError(
        "it has neither a url, nor content, nor a path, but "
        f"{', '.join(map(str, fields))[:200] or 'nothing'}"
    )


def _numbered(lines: Iterable[Any]) -> _Numbered:
    for number, line in enumerate(lines, 1):
        data = line.encode("utf-8", "surrogatepass") if isinstance(line, str) else line
        if number == 1:
            data = data.removeprefix(b"\xef\xbb\xbf")  # some editors write a byte order mark
        if data.strip():
            yield number, data


def _lines_of(stream: Any) -> Iterator[str | bytes]:
    """Yield the lines of a file; those of PowerShell are in UTF-16, which the first bytes say."""
    head = stream.read(2)
    if head in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        kind = "utf-16-le" if head == codecs.BOM_UTF16_LE else "utf-16-be"
        text = io.TextIOWrapper(stream, kind, "surrogatepass", newline="\n")
        try:
            yield from iter(lambda: text.readline(_LONGEST_LINE + 1), "")
        finally:
            text.detach()  # else it would close standard input
        return
    yield head if head.endswith(b"\n") else head + stream.readline(_LONGEST_LINE + 1)
    yield from iter(lambda: stream.readline(_LONGEST_LINE + 1), b"")


def _closing(stream: IO[bytes]) -> Iterator[str | bytes]:
    with stream:
        yield from _lines_of(stream)


def _opened(file: str) -> IO[bytes]:
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise ConfigurationError.of(
            "source", f"{file} cannot be read: {error.strerror or error}"
        ) from error
