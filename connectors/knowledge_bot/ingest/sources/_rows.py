"""Rows of a table, of a query's result, or of something similar."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from pydantic import ValidationError

from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest._items import Skipped, Text
from knowledge_bot.ingest.sources._documents import Found, once

Column: TypeAlias = str | Callable[[Any], object]
"""A column's name, or a function that returns a value for a row."""


def from_rows(
    rows: Iterable[Any],
    *,
    key: Column,
    text: Column,
    name: Column | None = None,
    version: Column | None = None,
    origin: str | None = None,
) -> Found:
    """Find the texts of a table, one in each row.

        cursor.execute("SELECT id, title, body, changed_at FROM article")
        from_rows(cursor, key="id", text="body", name="title", version="changed_at")

    Args:
        rows: a cursor of any DB-API driver after its `execute`, a result of SQLAlchemy, or an
            iterable of dicts, `sqlite3.Row` objects, named tuples or objects with attributes. They
            are taken one at a time, in another thread: for sqlite3 make the connection with
            `check_same_thread=False`.
        key: the column of the key: its name, or a function of the row. A row with an empty key is
            `invalid`.
        text: the column of the text. A row without text is `skipped`.
        name: the column of the source's name; by default the key.
        version: a column that changes when the text does, such as the time of the last change. By
            default the text itself is compared.
        origin: a name for the table, such as `articles`. With it, keys are prefixed by it, so that
            another table may have the same keys, and rows that disappear are reported as gone. Give
            it only if these are all rows of the table.

    Returns:
        An iterable of a `Text` for each row, and a `Skipped` for one that cannot be read. If the
        database fails, the last item is a `Skipped` with the error.

    Raises:
        ConfigurationError: these are not rows, or a column is missing; raised at once if the
            columns are known before the rows.
    """
    fields: dict[str, Any] = {"key": key, "text": text, "name": name, "version": version}
    for option, column in fields.items():
        optional = option in ("name", "version") and column is None
        if not (optional or isinstance(column, str) or callable(column)):
            raise ConfigurationError(
                f"{option}: expected a column or a function, not {type(column).__name__}"
            )
    columns = _columns(rows)
    for option, column in fields.items():
        if columns and isinstance(column, str) and column not in columns:
            raise ConfigurationError(
                f"{option}: there is no column {column!r}; there are {', '.join(columns)}"
            )
    if not isinstance(rows, Iterable) and not hasattr(rows, "fetchone"):
        raise ConfigurationError(f"rows: expected several rows, not {type(rows).__name__}")
    places = {column: place for place, column in enumerate(columns)}
    take = once(_texts(rows, fields, places), "rows")
    return Found(take, origin, local_keys=True)


def _texts(
    rows: Any, fields: dict[str, Column | None], places: dict[str, int]
) -> Iterator[Text | Skipped]:
    number = 0
    # Not every driver's cursor is iterable: DB-API does not require it.
    each = rows if isinstance(rows, Iterable) else iter(rows.fetchone, None)
    try:
        for number, row in enumerate(each, 1):
            yield text_of(row, number, fields, places)
    except Exception as error:  # noqa: BLE001 - each driver has its own errors
        detail = " ".join(str(error).split())[:300] or type(error).__name__
        if "same thread" in detail:  # from sqlite3; an ingestion takes its items in its own thread
            detail += " Connect with sqlite3.connect(..., check_same_thread=False)."
        reason = f"the rows end after {number}: {detail}"
        yield Skipped("the rows", reason, invalid=True, partial=True)


def text_of(
    row: Any, number: int, fields: dict[str, Column | None], places: dict[str, int]
) -> Text | Skipped:
    """Return a row as an item.

    Args:
        row: the row.
        number: its number, from 1, which names it if it has no key.
        fields: the columns of its `key`, `text`, `name` and `version`.
        places: the index of each column, for rows that are plain tuples.
    """
    label = f"row {number}"
    try:
        values = {
            option: "" if column is None else _shown(_value(row, column, places))
            for option, column in fields.items()
        }
        if not values["key"].strip():
            # It may be in the ledger from an earlier run, and is then not gone.
            return Skipped(label, "its key is empty", invalid=True, partial=True)
        return Text(
            name=values["name"].strip() or values["key"],
            content=values["text"],  # a row with an empty text is skipped, and not gone
            key=values["key"],
            version=values["version"] or None,
        )
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        reason = f"it is not a text: {first['loc'][0]}: {first['msg']}"
    except Exception as error:  # noqa: BLE001 - the caller's function may raise anything
        reason = f"it cannot be read: {type(error).__name__}: {str(error)[:300]}"
    return Skipped(label, reason, invalid=True, partial=True)


def _columns(rows: Any) -> list[str]:
    """Return the columns, if they are known before the rows."""
    if description := getattr(rows, "description", None):
        return [str(column[0]) for column in description]
    keys = getattr(rows, "keys", None)  # of SQLAlchemy's results
    if callable(keys) and not isinstance(rows, Mapping):
        return list(map(str, keys()))
    return []


def _value(row: Any, column: Column, places: dict[str, int]) -> object:
    if callable(column):
        return column(row)
    row = getattr(row, "_mapping", row)  # of SQLAlchemy's rows
    if isinstance(row, tuple) and not hasattr(row, "_fields"):
        if column not in places:
            raise LookupError(f"there is no column {column!r}")
        return row[places[column]]
    if isinstance(row, Mapping) or hasattr(row, "keys"):
        try:
            return row[column]
        except (LookupError, KeyError):
            raise LookupError(f"there is no column {column!r}") from None
    return getattr(row, column)


def _shown(value: object) -> str:
    if value is None:
        return ""
    if callable(read := getattr(value, "read", None)):  # an Oracle LOB
        value = read()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8")
    return str(value)
