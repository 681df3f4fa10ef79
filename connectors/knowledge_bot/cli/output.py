"""Data on stdout: tables for people, tab-separated lines for pipes, JSON for programs."""

import codecs
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from knowledge_bot.cli.terminal import printable

if TYPE_CHECKING:
    from pydantic import BaseModel

F = TypeVar("F", bound=Callable[..., Any])
"""A command under construction, as click's decorators take and return it."""


def as_json_option(command: F) -> F:
    """Add the option `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def write_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows: a table on a terminal, otherwise one line each, with tabs and without a head."""
    texts = [[printable(str(value)) for value in row] for row in rows]
    if not sys.stdout.isatty():
        for row in texts:
            click.echo("\t".join(re.sub(r"[\t\r\n]+", " ", text) for text in row))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")  # an id that is cut short is of no use
    for row in texts:
        table.add_row(*map(Text, row))
    Console(highlight=False).print(table)


def write_text(text: str) -> None:
    """Print a text; on a terminal without anything that would steer it."""
    click.echo(printable(text) if sys.stdout.isatty() else text)


def write_document(value: object) -> None:
    """Print one JSON document over several lines."""
    click.echo(_json(value, indent=2))


def write_line(value: object) -> None:
    """Print one JSON document on a line of its own (NDJSON)."""
    click.echo(_json(value))


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


def _json(value: object, indent: int | None = None) -> str:
    # Escapes are JSON in every encoding; characters as they are read better where they can be.
    encoding = codecs.lookup(getattr(sys.stdout, "encoding", None) or "ascii").name
    return json.dumps(value, ensure_ascii=encoding != "utf-8", indent=indent, default=_time_as_text)


def _time_as_text(value: object) -> str:
    if not isinstance(value, datetime):
        raise TypeError(f"{type(value).__name__} is not JSON")
    return value.isoformat()
