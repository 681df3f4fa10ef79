"""Patterns for paths: globs, and lines of a `.gitignore`."""

import functools
import re
from collections.abc import Callable, Iterable
from typing import Any

from knowledge_bot.errors import ConfigurationError

HIDDEN = (".", "~$")
"""What names begin with that are left out: hidden files, and the locks of Office's programs."""


# The names of sets of letters that git knows, which Python does not.
_CLASS = re.compile(r"\[:([a-z]+):\]")
_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r" \t",
    "digit": "0-9",
    "lower": "a-z",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}


def is_hidden(path: str) -> bool:
    """Return whether a part of a path is hidden."""
    return any(part.startswith(HIDDEN) for part in path.split("/"))


def matching(
    patterns: Iterable[str], option: str = "exclude", lines: Iterable[str] = ()
) -> Callable[[str], bool] | None:
    """Return a function that says whether a path matches a pattern; None without patterns.

    Args:
        patterns: written like those of a `.gitignore`.
        option: the option's name, for the error.
        lines: those of a file, which come first. As to git, what is no pattern there is nothing.

    Raises:
        ConfigurationError: a pattern is not valid.
    """
    return _matching(tuple(patterns), option, tuple(lines))


@functools.lru_cache(maxsize=64)  # what is missing is asked for key by key
def _matching(
    patterns: tuple[str, ...], option: str, lines: tuple[str, ...]
) -> Callable[[str], bool] | None:
    spec: Any = None
    for given, line in [*((False, line) for line in lines), *((True, each) for each in patterns)]:
        try:
            one: Any = _spec(line)
        except ValueError as error:
            if given:
                raise ConfigurationError.of(option, str(error)) from None
        else:
            spec = one if spec is None else spec + one
    return None if spec is None else lambda relative: bool(spec.match_file(relative))


def _spec(line: str) -> Any:
    from pathspec import GitIgnoreSpec

    named = _CLASS.sub(lambda found: _CLASSES.get(found[1], found[0]), line)
    return GitIgnoreSpec.from_lines([named])


def globbing(patterns: Iterable[str], option: str) -> Callable[[str], object]:
    """Return a function that says whether one of some glob patterns takes a path.

    Args:
        patterns: see `expression`.
        option: the option's name, for the error.

    Raises:
        ConfigurationError: a pattern is not valid.
    """
    several = list(patterns)
    try:
        return re.compile("|".join(f"(?:{expression(each)})" for each in several)).fullmatch
    except re.error as error:
        shown = f"{', '.join(several)} cannot be used: {error.msg}"
        raise ConfigurationError.of(option, shown) from None


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
