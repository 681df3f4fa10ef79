"""Texts that are safe to show, and streams that nobody may be reading any more."""

import os
import re
import sys
from typing import IO, TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

# Everything that steers a terminal, but not tabs and line ends: C0, DEL, C1, and what reverses the
# direction of writing.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Return the text with control characters escaped, so that a service cannot move the cursor."""
    return _CONTROL.sub(
        lambda match: match.group().encode("unicode_escape").decode("ascii"),
        text.replace("\r\n", "\n"),
    )


def one_line(text: str) -> str:
    """Return the text, printable, on a line of its own and without tabs."""
    return re.sub(r"[\t\r\n]+", " ", printable(text))


def console(*, stderr: bool = False) -> "Console":
    """Return rich's console of stdout or stderr; NO_COLOR takes bold letters away as well."""
    from rich.console import Console

    plain = bool(os.environ.get("NO_COLOR"))
    return Console(stderr=stderr, highlight=False, color_system=None if plain else "auto")


def write_stderr(text: str) -> None:
    """Write a text to stderr, printable; if nobody reads it any more, nothing happens."""
    try:
        click.echo(printable(text), err=True)
    except OSError:  # for example a terminal that was closed
        give_up(sys.stderr)


def give_up(stream: IO[Any]) -> None:
    """Discard what a stream still holds and what follows: it would fail again at exit.

    See Python's documentation of SIGPIPE.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
