"""Patterns for paths: globs, and lines of a `.gitignore`."""

import re
from collections.abc import Callable, Iterable
from typing import Any

from knowledge_bot.errors import ConfigurationError

HIDDEN = (".", "~$")
"""What names begin with that are left out: hidden files, and the locks of Office's programs."""


def is_hidden(path: str) -> bool:
    """Return whether a part of a path is hidden."""
    return any(part.startswith(HIDDEN) for part in path.split("/"))


def matching(patterns: Iterable[str], option: str = "exclude") -> Callable[[str], bool] | None:
    """Return a function that says whether a path matches a pattern; None without patterns.

    Args:
        patterns: written like those of a `.gitignore`.
        option: the option's name, for the error.

    Raises:
        ConfigurationError: a pattern is not valid.
    """
    if not (lines := list(patterns)):
        return None
    from pathspec import GitIgnoreSpec

    try:
        spec: Any = GitIgnoreSpec.from_lines(lines)
    except ValueError as error:
        raise ConfigurationError.of(option, str(error)) from None
    return lambda relative: bool(spec.match_file(relative))


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
