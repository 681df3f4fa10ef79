"""Data on stdout: tables for people, tab-separated lines for pipes, JSON for programs."""

import codecs
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from knowledge_bot.cli.exits import StdoutError
from knowledge_bot.cli.terminal import give_up, one_line, printable

if TYPE_CHECKING:
    from pydantic import BaseModel

F = TypeVar("F", bound=Callable[..., Any])
"""A command under construction, as click's decorators take and return it."""


def as_json_option(command: F) -> F:
    """Add the option `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def write_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows: a table on a terminal, otherwise one line each, with tabs and without a head.

    Raises:
        StdoutError: stdout does not take it, as for everything that is printed here.
        BrokenPipeError: whoever read it has gone (`| head`).
    """
    if not sys.stdout.isatty():
        for row in rows:
            _print("\t".join(one_line(str(value)) for value in row))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")  # an id that is cut short is of no use
    for row in rows:
        table.add_row(*(Text(printable(str(value))) for value in row))
    with _to_stdout():
        Console(highlight=False).print(table)


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


def write_listing(models: Sequence["BaseModel"], *, as_json: bool) -> None:
    """Print resources that have an id and a name."""
    found: list[Mapping[str, Any]] = [fields_of(model) for model in models]
    if as_json:
        write_document(found)
    else:
        write_table(("id", "name"), [(one["id"], one["name"]) for one in found])


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
