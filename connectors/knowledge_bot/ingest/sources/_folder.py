"""Files of a folder."""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from stat import S_ISLNK, S_ISREG
from typing import TYPE_CHECKING, Any

from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest._listings import ListedFile, Listing, Skipped, fingerprint, fingerprint_of

if TYPE_CHECKING:
    from knowledge_bot.ingest._items import File

# How many files a listing has at most.
_LISTED = 500

IGNORE_FILE = ".kbotignore"
"""The file in a folder that says what to leave out, written like a `.gitignore`."""


def from_folder(
    folder: str | os.PathLike[str],
    patterns: str | Iterable[str] = "*",
    *,
    exclude: str | Iterable[str] = (),
    hidden: bool = False,
    origin: str | None = None,
) -> "Folder":
    """Find the files below a folder.

    They come in the order of their paths. A file is named by its path below the folder; its key is
    that and the folder's origin. Links to folders are not followed; a link to a file is, if the
    file is below the folder. What a `.kbotignore` in the folder names is left out.

    Args:
        folder: where to look.
        patterns: which files, one pattern or several. A pattern without a slash matches the name,
            as in `*.md`; one with a slash the path below the folder, where `**/` is any number of
            folders.
        exclude: what to leave out, written like a `.gitignore`: `*.tmp`, `drafts/`.
        hidden: whether to take names that begin with a dot.
        origin: a name for the folder that stays the same wherever it is mounted, such as
            `handbook`; by default the folder's resolved path.

    Returns:
        An iterable of a `File` for each file, and a `Skipped` for what is hidden, leaves the
        folder, is not a file, has a path that is not UTF-8, or is a folder that cannot be read.

    Raises:
        ConfigurationError: there is no such folder, or a pattern is not valid.
    """
    root = Path(folder).resolve()
    if not os.path.isdir(root):  # noqa: PTH112 - before Python 3.14 a Path raises here
        raise ConfigurationError(f"folder: {os.fspath(folder)!r} is not a folder")
    several = [patterns] if isinstance(patterns, str) else list(patterns)
    matches = None
    try:
        if several != ["*"]:
            matches = re.compile("|".join(f"(?:{expression(each)})" for each in several)).fullmatch
    except re.error as error:
        raise ConfigurationError(
            f"patterns: {', '.join(several)} cannot be used: {error.msg}"
        ) from None
    name = str(root)
    if matches is not None:  # the same folder with other patterns is another origin
        name = f"{name} [{' '.join(sorted(several))}]"
    left_out = _ignored_lines(root)
    if exclude:
        from knowledge_bot.ingest.sources._documents import patterns_of

        left_out += patterns_of("exclude", exclude)
    excluding = matching(left_out)
    found = Folder(str(root), str(root), name, matches, excluding, hidden)
    return found if origin is None else found.named(origin)


@dataclass(frozen=True)
class Folder:
    """The files below a folder; `from_folder` makes it.

    Attributes:
        root: the folder's resolved path.
        prefix: what the keys of its files begin with.
        origin: the folder's name in the ledger.
    """

    root: str
    prefix: str
    origin: str
    _matches: Callable[[str], object] | None
    _ignores: Callable[[str], bool] | None
    _hidden: bool

    def named(self, origin: str) -> "Folder":
        """Return the same folder under a name that stays the same wherever it is mounted."""
        return replace(self, prefix=origin, origin=origin)

    def __iter__(self) -> Iterator["File | Skipped"]:
        from knowledge_bot.ingest._items import File

        for listing in self.listings():
            for item in map(listing.item, range(len(listing.keys))):
                if isinstance(item, Skipped):
                    yield item
                else:
                    yield File(path=item.path, name=item.name, key=item.key)

    def listings(self) -> Iterator[Listing]:  # noqa: C901, PLR0912 - one branch for each kind of entry
        """Yield the same as listings, a few hundred files each.

        To make an item of each file would take longer than everything else about an unchanged one.
        """
        found: list[str | ListedFile | Skipped] = []
        versions: list[str] = []

        def add(each: str | ListedFile | Skipped, version: str = "") -> None:
            found.append(each)
            versions.append(version)

        def listed(below: str) -> tuple[str, Iterator[os.DirEntry[str]]]:
            try:
                with os.scandir(f"{self.root}/{below}" if below else self.root) as entries:
                    return below, iter(sorted(entries, key=attrgetter("name")))
            except OSError as error:
                reason = f"the folder cannot be read: {error.strerror}"
                name = _shown(below or self.root)
                add(Skipped(name, reason, invalid=True, partial=True))
                return below, iter(())

        takes = self._takes
        # One loop for all folders, since nested ones would pass each file up level by level.
        waiting = [listed("")]
        while waiting:
            below, entries = waiting[-1]
            for entry in entries:
                if len(found) >= _LISTED:
                    yield self._listing(found, versions)
                    found, versions = [], []
                name = entry.name
                relative = below + name
                if name[0] == "." and not self._hidden:
                    if name != IGNORE_FILE:
                        add(_skipped(relative, "it is hidden"))
                elif entry.is_dir(follow_symlinks=False):
                    if self._ignores is None or not self._ignores(f"{relative}/"):
                        waiting.append(listed(f"{relative}/"))
                        break
                elif takes is None or takes(relative):
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except OSError:  # it was removed a moment ago
                        continue
                    if S_ISREG(status.st_mode):
                        found.append(relative)
                        versions.append(fingerprint(status))
                    elif S_ISLNK(status.st_mode):
                        linked = self._linked(entry.path, relative)
                        add(linked, fingerprint_of(entry.path))
                    else:
                        add(_skipped(relative, "it is not a regular file"))
            else:
                waiting.pop()
        yield self._listing(found, versions)

    def _listing(self, found: list[str | ListedFile | Skipped], versions: list[str]) -> Listing:
        prefix = f"{self.prefix}/"
        keys = [prefix + each if type(each) is str else getattr(each, "key", "") for each in found]

        def item(place: int) -> ListedFile | Skipped:
            each = found[place]
            # The path is resolved: the root is, and no link led here.
            return self._file(f"{self.root}/{each}", each, each) if isinstance(each, str) else each

        return Listing(keys, versions, item)

    @property
    def _takes(self) -> Callable[[str], bool] | None:
        """Whether a file is taken; None if all are."""
        matches, ignores = self._matches, self._ignores
        if matches is None and ignores is None:
            return None
        return lambda relative: (
            (matches is None or bool(matches(relative)))
            and not (ignores is not None and ignores(relative))
        )

    def _linked(self, path: str, relative: str) -> ListedFile | Skipped:
        target = Path(os.path.realpath(path))
        if not target.is_relative_to(self.root):
            return _skipped(relative, f"it is a link out of the folder, to {_shown(str(target))}")
        if os.path.isdir(target):  # noqa: PTH112 - before Python 3.14 a Path raises here
            return _skipped(relative, f"it is a link to a folder, {_shown(str(target))}")
        if not os.path.exists(target):  # noqa: PTH110 - as above
            return _skipped(relative, f"it is a link to nothing, {_shown(str(target))}")
        return self._file(str(target), str(target)[len(self.root) + 1 :], relative)

    def _file(self, path: str, below: str, name: str) -> ListedFile | Skipped:
        try:
            path.encode()
        except UnicodeEncodeError:  # on Linux a name is bytes
            reason = f"its path is not UTF-8 text, {_shown(path)}; rename it"
            return Skipped(_shown(name), reason, invalid=True)
        return ListedFile(path, name, f"{self.prefix}/{below}")


def _ignored_lines(root: Path) -> list[str]:
    try:
        return (root / IGNORE_FILE).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{root / IGNORE_FILE} cannot be read: {error}") from None


def matching(patterns: list[str], option: str = "exclude") -> Callable[[str], bool] | None:
    """Return a function that says whether a path matches a pattern; None without patterns.

    Args:
        patterns: written like those of a `.gitignore`.
        option: the option's name, for the error.

    Raises:
        ConfigurationError: a pattern is not valid.
    """
    if not patterns:
        return None
    from pathspec import GitIgnoreSpec

    try:
        spec: Any = GitIgnoreSpec.from_lines(patterns)
    except ValueError as error:
        raise ConfigurationError(f"{option}: {error}") from None
    return lambda relative: bool(spec.match_file(relative))


def _skipped(relative: str, reason: str) -> Skipped:
    return Skipped(_shown(relative), reason)


def _shown(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def expression(pattern: str) -> str:
    """Return a glob pattern as a regular expression for the path below the root.

    A pattern without a slash matches the name, at any depth.
    """
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
