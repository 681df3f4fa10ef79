"""What is given to commands: a file, stdin for `-`, or a time."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import click

from knowledge_bot.cli.exits import Exit, Failed

F = TypeVar("F", bound=Callable[..., Any])

_UNITS = {"s": 1, "m": 60, "h": 3600}


class Suggesting(click.Group):
    """A group that says which of its commands was meant, or else which there are.

    `words` are what people type for commands of another name.
    """

    def __init__(self, *args: Any, words: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self._words = words or {}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, as click does; the error names the one that is meant."""
        if args[0][:1] not in ("", "-") and self.get_command(ctx, args[0]) is None:
            known = self.list_commands(ctx)
            meant = self.meant(args[0]) or "".join(get_close_matches(args[0], known, 1))
            said = f"Did you mean `{ctx.command_path} {meant}`?" if meant else ""
            said = said or f"`{ctx.command_path}` has {', '.join(known)}."
            ctx.fail(f"There is no command {args[0]!r}. {said}")
        return super().resolve_command(ctx, args)

    def meant(self, typed: str) -> str:
        """Return the command that people mean by a word; empty where none is known."""
        return self._words.get(typed, "")


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


def given_question(text: str) -> str:
    """Return a question that is given as `given_text` takes it.

    Raises:
        click.UsageError: it is empty.
    """
    if not (question := given_text(text)).strip():
        raise click.UsageError("the QUESTION is empty")
    return question


CONCURRENCY: dict[str, Any] = {
    "type": click.IntRange(1, 100),
    "show_default": True,
    "help": "How many requests may be under way at once.",
}


def time_option(name: str, default: str, text: str) -> Callable[[F], F]:
    """Return an option whose value is a time, in seconds; the user writes 90, 90s, 10m or 1h30m."""
    return click.option(name, callback=_seconds, default=default, metavar="TIME", help=text)


def _seconds(_: click.Context, option: click.Parameter, given: str) -> float:
    parts = re.findall(r"(\d+(?:\.\d+)?)([smh]?)", given)
    if not parts or "".join(number + unit for number, unit in parts) != given:
        problem = f"{given!r} is not a time; write it as 90, 90s, 10m or 1h30m"
        raise click.BadParameter(problem, param=option)
    return sum(float(number) * _UNITS[unit or "s"] for number, unit in parts)


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
