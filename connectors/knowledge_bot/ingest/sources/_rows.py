"""Rows of a table, of a query's result, or of something similar."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from numbers import Number
from typing import Any, TypeAlias

from pydantic import ValidationError

from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest._items import Text
from knowledge_bot.ingest._listings import Skipped
from knowledge_bot.ingest.sources._found import FoundItems, once

# The most columns that an error names.
_NAMED = 20

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
) -> FoundItems:
    """Find the texts of a table, one in each row.

        cursor.execute("SELECT id, title, body, changed_at FROM article")
        from_rows(cursor, key="id", text="body", name="title", version="changed_at")

    Args:
        rows: a cursor of any DB-API driver after its `execute`, a result of SQLAlchemy, or an
            iterable of dicts, `sqlite3.Row` objects, named tuples or objects with attributes. They
            are taken one at a time, in another thread: for sqlite3 make the connection with
            `check_same_thread=False`.
        key: the column of the key: its name, or a function of the row. A row with an empty key is
            `invalid`. A whole float is the same key as the integer: pandas turns 7 into 7.0 where a
            column has missing values.
        text: the column of the text. A row without text is `skipped`, or `invalid` where the
            service still has its text of before. None, NaN, NaT and pandas' NA are all empty.
            Numbers, dates and UUIDs are written as text; a row with a list, a mapping, a boolean or
            an object without a text form is `invalid`.
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
    _check_fields(fields)
    columns = _columns(rows)
    for option, column in fields.items():
        if columns and isinstance(column, str) and column not in columns:
            raise ConfigurationError.of(
                option, f"there is no column {column!r}; there are {', '.join(columns)}"
            )
    if not isinstance(rows, Iterable) and not hasattr(rows, "fetchone"):
        raise ConfigurationError.expected("rows", "several rows", rows)
    places = {column: place for place, column in enumerate(columns)}
    take = once(_texts(rows, fields, places), "rows")
    return FoundItems(take, origin, local_keys=True)


def _check_fields(fields: Mapping[str, Any]) -> None:
    """Check what was given as the columns of `key`, `text`, `name` and `version`.

    Raises:
        ConfigurationError: one is neither a column's name nor a function.
    """
    for option, column in fields.items():
        optional = option in ("name", "version") and column is None
        named = isinstance(column, str) and column.strip()
        if not (optional or named or callable(column)):
            what = "an empty text" if isinstance(column, str) else type(column).__name__
            raise ConfigurationError.of(option, f"expected a column or a function, not {what}")


def _texts(
    rows: Any, fields: dict[str, Column | None], places: dict[str, int]
) -> Iterator[Text | Skipped]:
    number = 0
    # Not every driver's cursor is iterable: DB-API does not require it.
    each = rows if isinstance(rows, Iterable) else iter(rows.fetchone, None)
    try:
        for number, row in enumerate(each, 1):
            yield _text_of(row, number, fields, places)
    except Exception as error:  # noqa: BLE001 - each driver has its own errors
        detail = " ".join(str(error).split())[:300] or type(error).__name__
        if "same thread" in detail:  # from sqlite3; an ingestion takes its items in its own thread
            detail += " Connect with sqlite3.connect(..., check_same_thread=False)."
        reason = f"the rows end after {number}: {detail}"
        yield Skipped("the rows", reason, invalid=True, partial=True)


def _text_of(
    row: Any, number: int, fields: dict[str, Column | None], places: dict[str, int]
) -> Text | Skipped:
    """Return a row as an item.

    Its number, from 1, names it if it has no key; `places` are the columns' indexes, for plain
    tuples.
    """

    def read(option: str) -> str:
        column = fields[option]
        return "" if column is None else _shown(option, _value_of(row, column, places))

    label, key = f"row {number}", ""
    try:
        if not (key := read("key")).strip():
            return Skipped(label, "its key is empty", invalid=True)  # it hides no other key
        return Text(
            name=read("name").strip() or key,
            content=read("text"),  # a row with an empty text is skipped, and not gone
            key=key,
            version=read("version") or None,
        )
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        reason = f"it is not a text: {first['loc'][0]}: {first['msg']}"
        key = "" if first["loc"][0] == "key" else key
    except _MissingColumnError as error:
        reason = str(error)
    except _NoTextError as error:
        reason = f"its {error}"
    except Exception as error:  # noqa: BLE001 - the caller's function may raise anything
        reason = f"it cannot be read: {type(error).__name__}: {str(error)[:300]}"
    if key.strip():  # it hides no other one
        return Skipped(key, f"{label}: {reason}", invalid=True, gone="unread")
    return Skipped(label, reason, invalid=True, partial=True)


def _columns(rows: Any) -> list[str]:
    """Return the columns, if they are known before the rows."""
    if description := getattr(rows, "description", None):
        return [str(column[0]) for column in description]
    keys = getattr(rows, "keys", None)  # of SQLAlchemy's results
    if callable(keys) and not isinstance(rows, Mapping):
        return list(map(str, keys()))
    return []


class _MissingColumnError(LookupError):
    """A row does not have a column."""

    def __init__(self, column: str, there: Iterable[object]) -> None:
        names = [str(name) for name in there]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        known = f"; there are {', '.join(names[:_NAMED])}{more}" if names else ""
        super().__init__(f"there is no column {column!r}{known}")


class _NoTextError(TypeError):
    """A value has no text form that anybody means."""


def _value_of(row: Any, column: Column, places: Mapping[str, int]) -> object:
    """Return a row's value in a column.

    Raises:
        _MissingColumnError: the row does not have the column.
        Exception: what the function raised.
    """
    if callable(column):
        return column(row)
    row = getattr(row, "_mapping", row)  # of SQLAlchemy's rows
    if isinstance(row, tuple) and not hasattr(row, "_fields"):
        if column not in places:
            raise _MissingColumnError(column, places)
        return row[places[column]]
    if isinstance(row, Mapping) or hasattr(row, "keys"):
        try:
            return row[column]
        except (LookupError, KeyError):
            raise _MissingColumnError(column, row.keys()) from None
    try:
        return getattr(row, column)
    except AttributeError:
        raise _MissingColumnError(column, getattr(row, "_fields", ())) from None


def _shown(option: str, value: object) -> str:
    if callable(read := getattr(value, "read", None)):  # an Oracle LOB
        value = read()
    if isinstance(value, str):
        return value
    if value is None or type(value).__name__ == "NAType":  # pandas' NA is not even equal to itself
        return ""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8")
    # Else an object would be sent as its place in memory. Integers use their `repr` too.
    bare = type(value).__str__ is object.__str__ and not isinstance(value, Number)
    if bare or isinstance(value, bool | Iterable) or type(value).__name__ in ("bool_", "bool"):
        raise _NoTextError(f"{option} is of type {type(value).__name__}, which is no text")
    if value != value:  # noqa: PLR0124 - NaN and NaT
        return ""
    if option != "text" and isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
