"""Items from lines of JSON, or of addresses."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from pydantic import ValidationError
from pydantic_core import from_json

from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest._items import File, Text, WebPage
from knowledge_bot.ingest._listings import Skipped
from knowledge_bot.ingest.sources._comparing import compared
from knowledge_bot.ingest.sources._found import FoundItems, is_web_address, once, skipped_address

if TYPE_CHECKING:
    from knowledge_bot.ingest.sources._pages import Compare

Lines: TypeAlias = str | os.PathLike[str] | IO[bytes] | IO[str] | Iterable[str]
"""A path, `-` for standard input, an open file, or the lines themselves."""

# Most bytes of one line: an encyclopaedia fits, a large file without line ends does not.
_LONGEST_LINE = 64 * 1024 * 1024


def from_jsonl(source: Lines) -> FoundItems:
    """Find the items of a file with one JSON object per line.

    An object holds the fields of a `WebPage` (`name`, `url`, …), a `Text` (`name`, `content`, …) or
    a `File` (`path`, …; relative to the folder of the JSON file). Its `url`, `content` or `path`
    says which. Empty lines are left out.

    Args:
        source: a path, `-` for standard input, an open file, or lines.

    Returns:
        An iterable of an item for each line, and a `Skipped` for a line that is not one.

    Raises:
        ConfigurationError: the file cannot be opened; raised at once.
    """
    name, folder = _name(source), Path(_file(source) or "-").absolute().parent
    take = _taking(source, lambda lines: _json_items(lines, name, folder))
    return FoundItems(take, _origin(source))


def from_urls(
    source: Lines,
    *,
    compare: "Compare | None" = None,
    ignore: str | None = None,
    reread: bool = False,
    rate: float = 2.0,
    allow_private: bool = False,
) -> FoundItems:
    """Find the pages of a list with one address per line; a page is named by its address.

    Empty lines and lines that begin with `#` are left out.

    Args:
        source: a path, `-` for standard input, an open file, or the addresses themselves.
        compare: what a page's version is made of: its main text (`content`), or the time that its
            server states (`lastmod`). Each page is read for that, as by `from_site`. By default no
            page is read, and later changes are not seen.
        ignore: what does not count in a main text, and
        reread: whether to read pages that their servers say are unchanged; see `from_site`.
        rate: the most pages read per second.
        allow_private: whether a public page may redirect to a private address.

    Returns:
        An iterable of a `WebPage` for each line, and a `Skipped` for one that is not a web address
        or cannot be read.

    Raises:
        ConfigurationError: an option cannot be used, or the file cannot be opened; raised at once.
    """
    name = _name(source)
    return compared(
        FoundItems(_taking(source, lambda lines: _pages(lines, name)), _origin(source)),
        compare,
        rate=rate,
        allow_private=allow_private,
        ignore=ignore,
        reread=reread,
    )


def _json_items(
    lines: Iterator[tuple[int, bytes]], name: str, folder: Path
) -> Iterator[WebPage | Text | File | Skipped]:
    for number, line in lines:
        place = f"{name}, line {number}"
        if len(line) > _LONGEST_LINE:
            yield Skipped(place, "it is too long", invalid=True, partial=True)
            continue
        try:
            fields = from_json(line)
        except ValueError as error:
            # To the parser, each line is line 1.
            detail = str(error)[:300].replace(" at line 1 column", " at column")
            yield Skipped(place, f"it is not JSON: {detail}", invalid=True, partial=True)
            continue
        try:
            yield _item(fields, folder)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            said = first["msg"].removeprefix("Value error, ")
            # Our own checks name the field themselves.
            reason = said if said.startswith(f"{where}: ") else f"{where}: {said}"
            yield Skipped(place, f"it is not an item: {reason}", invalid=True, partial=True)
        except (ValueError, TypeError) as error:
            reason = f"it is not an item: {str(error)[:300]}"
            yield Skipped(place, reason, invalid=True, partial=True)


def _item(fields: Any, folder: Path) -> WebPage | Text | File:
    if not isinstance(fields, dict):
        raise TypeError("expected a JSON object")
    if "url" in fields:
        return WebPage.model_validate({"name": fields["url"]} | fields)
    if "content" in fields:
        return Text.model_validate(fields)
    if isinstance(fields.get("path"), str):
        return File.model_validate(fields | {"path": str(folder / fields["path"])})
    raise ValueError("it has neither a url, nor content, nor a path")


def _pages(lines: Iterator[tuple[int, bytes]], name: str) -> Iterator[WebPage | Skipped]:
    for number, line in lines:
        address = line.decode("utf-8", "replace").strip()
        if address.startswith("#"):
            continue
        yield skipped_address(address, f"{name}, line {number}") or WebPage(
            name=address, url=address
        )


_Numbered: TypeAlias = Iterator[tuple[int, bytes]]


def _taking(
    source: Lines, items: Callable[[_Numbered], Iterator[Any]]
) -> Callable[[], Iterator[Any]]:
    """Return a function that yields the items; raise at once if a file cannot be opened."""
    if (file := _file(source)) is not None:
        _opened(file).close()
        return lambda: items(_numbered(_lines_of(file)))
    lines: Any = sys.stdin.buffer if source == "-" else source
    if not isinstance(lines, Iterable):
        raise ConfigurationError.expected("source", "a path, an open file or lines", source)
    if isinstance(lines, list | tuple):
        return lambda: items(_numbered(lines))
    return once(items(_numbered(lines)), "lines")


def _numbered(lines: Iterable[Any]) -> _Numbered:
    """Yield the lines that are not empty, with their numbers."""
    for number, line in enumerate(lines, 1):
        data = line.encode("utf-8", "surrogatepass") if isinstance(line, str) else line
        if number == 1:
            data = data.removeprefix(b"\xef\xbb\xbf")  # some editors write a byte order mark
        if data.strip():
            yield number, data


def _lines_of(file: str) -> Iterator[bytes]:
    with _opened(file) as stream:
        yield from iter(lambda: stream.readline(_LONGEST_LINE + 1), b"")


def _opened(file: str) -> IO[bytes]:
    try:
        return Path(file).open("rb")
    except OSError as error:
        reason = str(error.strerror)
        if is_web_address(file):
            reason = "it is an address, but a file of lines is expected, or a list of them"
        raise ConfigurationError(f"{file} cannot be read: {reason}") from error


def _file(source: Lines) -> str | None:
    """Return a file's path; None for everything else, such as a pipe."""
    if isinstance(source, str | os.PathLike) and source != "-":
        return os.fspath(source)
    return None


def _name(source: Lines) -> str:
    if source == "-":
        return "standard input"
    return _file(source) or str(getattr(source, "name", "the list"))


def _origin(source: Lines) -> str | None:
    """Return a file's path; a pipe has no origin, since it may not yield everything."""
    file = _file(source)
    return None if file is None else str(Path(file).absolute())
