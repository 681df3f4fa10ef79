"""Data on stdout: tables for people, tab-separated lines for pipes, JSON for programs."""

import codecs
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import wraps
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import click

from knowledge_bot.cli.exits import StdoutError
from knowledge_bot.cli.terminal import console, give_up, one_line, printable

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console
    from rich.table import Table

# Columns whose cells may wrap at spaces. All others hold ids, addresses, times and numbers.
_PROSE = ("name", "collections", "what happened", "detail", "value", "from")

# What a table is measured in: wider than any terminal, so that rich cuts nothing off.
_WIDEST = 10_000

as_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

quiet_option = click.option("--quiet", is_flag=True, help="Write only errors to stderr.")


def write_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows: a table on a terminal, otherwise one line each, with tabs and without a head.

    Where a terminal is too narrow for the ids and addresses, each field has a line of its own: what
    is cut in two cannot be copied.

    Raises:
        StdoutError: stdout cannot be written, as everywhere in this module.
        BrokenPipeError: its reader has gone away (`| head`).
    """
    lines = [list(map(_cell, row)) for row in rows]
    if not sys.stdout.isatty():
        for line in lines:
            _print("\t".join(line))
        return
    screen = console()
    table = _table(columns, lines)
    with _to_stdout():
        if (
            screen.measure(table, options=screen.options.update(width=_WIDEST)).minimum
            > screen.width
        ):
            _write_paragraphs(screen, columns, lines)
        else:
            screen.print(table)


def write_text(text: str) -> None:
    """Print a text; on a terminal without anything that would steer it."""
    _print(printable(text) if sys.stdout.isatty() else text)


def write_row(text: str) -> None:
    """Print a text as one line, whatever it holds."""
    _print(one_line(text))


def write_bytes(content: bytes) -> None:
    """Print bytes as they are."""
    with _to_stdout():
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()


def write_document(value: object) -> None:
    """Print one JSON document over several lines."""
    _print(_json(value, indent=2))


def write_line(value: object) -> None:
    """Print one JSON document on a line of its own (NDJSON)."""
    _print(_json(value))


def fields_of(model: "BaseModel") -> dict[str, Any]:
    """Return a resource as the interface shows it: times as integers of milliseconds."""
    return model.model_dump(mode="json")


def listing(
    *columns: str, **computed: Callable[[dict[str, Any]], object]
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Make a function that returns resources or named tuples print them; adds the option `--json`.

    JSON shows all fields. One record that is not in a list is a document of its own.

    Args:
        columns: the fields that a table shows; `title=field` where its column has another title.
        computed: more columns, and what makes each of a record's fields.
    """
    titled = (one.partition("=") for one in columns)
    shown = {title: itemgetter(field or title) for title, _, field in titled} | computed

    def decorate(find: Callable[..., Any]) -> Callable[..., None]:
        @wraps(find)
        def command(*args: Any, as_json: bool, **options: Any) -> None:
            found = find(*args, **options)
            many = isinstance(found, Sequence | Iterator)
            plain = [
                one._asdict() if hasattr(one, "_asdict") else fields_of(one)
                for one in (found if many else [found])
            ]
            if as_json:
                write_document(plain if many else plain[0])
            else:
                write_table([*shown], ([get(one) for get in shown.values()] for one in plain))

        return as_json_option(command)

    return decorate


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}Z"
    if isinstance(value, tuple | list):
        value = ", ".join(value)
    return one_line("" if value is None else str(value))


def _table(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> "Table":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=column not in _PROSE)
    for line in lines:
        table.add_row(*map(Text, line))
    return table


def _write_paragraphs(
    screen: "Console", columns: Sequence[str], lines: Sequence[Sequence[str]]
) -> None:
    from rich.text import Text

    width = max(map(len, columns))
    for number, line in enumerate(lines):
        if number:
            screen.print()
        filled = [cell for cell in zip(columns, line, strict=True) if cell[1]]
        for column, value in filled:
            # The terminal itself wraps it, and copies it as one line.
            screen.print(Text.assemble((f"{column:{width}}", "bold"), "  ", value), soft_wrap=True)


def _print(text: str) -> None:
    with _to_stdout():
        click.echo(text)


@contextmanager
def _to_stdout() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        give_up(sys.stdout)
        raise StdoutError(f"stdout cannot be written: {error.strerror}.") from None


def _json(value: object, indent: int | None = None) -> str:
    # Escapes are JSON in every encoding; characters as they are read better where they can be.
    encoding = codecs.lookup(getattr(sys.stdout, "encoding", None) or "ascii").name
    return json.dumps(value, ensure_ascii=encoding != "utf-8", indent=indent, default=_time_as_text)


def _time_as_text(value: object) -> str:
    if not isinstance(value, datetime):
        raise TypeError(f"{type(value).__name__} is not JSON")
    return value.isoformat()
