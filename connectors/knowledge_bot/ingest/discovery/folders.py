"""Files of a folder."""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pydantic import ValidationError

from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest.items import File, Skipped


def from_folder(
    folder: str | os.PathLike[str], patterns: str | Iterable[str] = "*", *, hidden: bool = False
) -> Iterator[File | Skipped]:
    """Yield the files below a folder, in the order of their names.

    A file is named by its path below the folder, and known by its resolved path. Links to other
    folders are not followed; a link to a file is, where the file is below the folder.

    Args:
        folder: where to look.
        patterns: which files, one pattern or several. One without a slash is for the name, as in
            `*.md`; one with a slash for the path below the folder, where `**/` stands for any
            number of folders.
        hidden: whether to take names that begin with a dot as well.

    Yields:
        A `File`, or a `Skipped` for what is hidden, leaves the folder, is no file, has a path that
        is not UTF-8, or is a folder that cannot be read.

    Raises:
        ConfigurationError: there is no such folder, or a pattern is none; raised at once.
    """
    root = Path(folder).resolve()
    if not root.is_dir():
        raise ConfigurationError(f"folder: {os.fspath(folder)!r} is not a folder")
    several = [patterns] if isinstance(patterns, str) else list(patterns)
    try:
        matches = re.compile("|".join(f"(?:{_expression(each)})" for each in several)).fullmatch
    except re.error as error:
        raise ConfigurationError(
            f"patterns: {', '.join(several)} cannot be used: {error.msg}"
        ) from None
    return _walk(str(root), str(root), "", matches, hidden)


def _walk(
    root: str, folder: str, below: str, matches: Callable[[str], object], hidden: bool
) -> Iterator[File | Skipped]:
    try:
        names = _sorted_names(folder)
    except OSError as error:
        reason = f"the folder cannot be read: {error.strerror}"
        yield _skipped(below or folder, reason, invalid=True)
        return
    for name, kind in names:
        relative, path = below + name, f"{folder}/{name}"
        if name.startswith(".") and not hidden:
            yield _skipped(relative, "it is hidden")
        elif kind == _FOLDER:
            yield from _walk(root, path, f"{relative}/", matches, hidden)
        elif not matches(relative):
            continue
        elif kind == _LINK:
            yield _linked(root, path, relative)
        elif kind == _OTHER:
            yield _skipped(relative, "it is not a regular file")
        else:
            # Resolved already: the root is, and no link led here. Resolving each anew would take
            # longer than everything else about a file that did not change.
            yield _file(path, relative)


_FILE, _FOLDER, _LINK, _OTHER = "file", "folder", "link", "other"


def _sorted_names(folder: str) -> list[tuple[str, str]]:
    with os.scandir(folder) as entries:
        return sorted((entry.name, _kind(entry)) for entry in entries)


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return _LINK
    if entry.is_dir(follow_symlinks=False):
        return _FOLDER
    return _FILE if entry.is_file(follow_symlinks=False) else _OTHER


def _linked(root: str, path: str, relative: str) -> File | Skipped:
    target = Path(os.path.realpath(path))
    if not target.is_relative_to(root):
        return _skipped(relative, f"it is a link that leaves the folder, to {_shown(str(target))}")
    if target.is_dir():
        return _skipped(relative, f"it is a link to a folder, {_shown(str(target))}")
    return _file(str(target), relative)


def _file(path: str, relative: str) -> File | Skipped:
    try:
        return File(path=path, name=relative, key=path)
    except ValidationError:  # on Linux a name is bytes, and a model takes text
        reason = f"its path is not UTF-8 text, {_shown(path)}; rename it"
        return _skipped(relative, reason, invalid=True)


def _skipped(relative: str, reason: str, *, invalid: bool = False) -> Skipped:
    return Skipped(_shown(relative), reason, invalid)


def _shown(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _expression(pattern: str) -> str:
    """Return a glob pattern as a regular expression for the path below the root."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[!?\]?[^\]/]*\])", pattern.lstrip("/"))
    wild = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    expression = "".join(
        wild.get(part) or (_set(part) if part.startswith("[") else re.escape(part))
        for part in parts
    )
    return expression if "/" in pattern else f"(?:.*/)?{expression}"


def _set(part: str) -> str:
    if not part.endswith("]"):
        return re.escape(part)
    negated = part.startswith("[!")
    inner = re.sub(r"([\\\[\]^&~|])", r"\\\1", part[2 if negated else 1 : -1])
    return f"[{'^/' if negated else ''}{inner}]"
