"""Rows of a table or of a query's result, each a text."""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import KW_ONLY, dataclass, field
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias
from urllib.parse import unquote, urlsplit

from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest._listings import Skipped
from knowledge_bot.origins._origin import Memory, Origin, detail_of, is_template, to_the_end

if TYPE_CHECKING:
    from knowledge_bot.ingest._items import Text

# The most columns that an error names.
_NAMED = 20

# Rows that psycopg fetches at once from a cursor that the server keeps.
_AT_ONCE = 500

Column: TypeAlias = str | Callable[[Any], object]
"""A column's name, or a function that returns a value for a row."""


@dataclass(frozen=True, repr=False)
class _Table(Origin):
    """Columns that rows are made texts by; `Sql` explains them."""

    _: KW_ONLY
    key: Column
    text: Column
    title: Column | None = None
    version: Column | None = None

    @property
    def _columns(self) -> dict[str, Any]:
        return {each: getattr(self, each) for each in ("key", "text", "title", "version")}

    def _check(self) -> None:
        for option, column in self._columns.items():
            optional = option in ("title", "version") and column is None
            named = isinstance(column, str) and column.strip()
            if not (optional or named or callable(column)):
                what = "an empty text" if isinstance(column, str) else type(column).__name__
                raise ConfigurationError.of(option, f"expected a column or a function, not {what}")

    def _texts(self, rows: Any) -> "Iterator[Text | Skipped]":
        """Yield the text of each row.

        Raises:
            ConfigurationError: a column is missing, as far as they are known before the rows.
        """
        self._check_columns(columns := _columns(rows))
        return _texts(rows, self._columns, {name: place for place, name in enumerate(columns)})

    def _check_columns(self, known: list[str]) -> None:
        for option, column in self._columns.items():
            if known and isinstance(column, str) and column not in known:
                raise ConfigurationError.of(
                    option, f"there is no column {column!r}; there are {', '.join(known)}"
                )


@dataclass(frozen=True, repr=False)
class Rows(_Table):
    """The rows of a table, of a query's result, or of something similar, one text in each.

        cursor.execute("SELECT id, title, body, changed_at FROM article")
        Rows(cursor, name="articles", key="id", text="body", title="title", version="changed_at")

    Attributes:
        rows: a cursor of any DB-API driver after its `execute`, a result of SQLAlchemy, or an
            iterable of dicts, `sqlite3.Row` objects, named tuples or objects with attributes. They
            are taken one at a time, in another thread: for sqlite3 make the connection with
            `check_same_thread=False`. If the database fails, the last item is a `Skipped` with the
            error.
        name: the table's, such as `articles`; it must be given.
        key: the column of the key, and
        text: of the text, and
        title: of the source's name, and
        version: of what changes with the text; see `Sql`.

    Raises:
        ConfigurationError: an argument cannot be used; from `items`, that a column is missing, or
            that the rows can be read only once and have been.
    """

    rows: Iterable[Any] = field(repr=False)

    def _check(self) -> None:
        super()._check()
        if not isinstance(self.rows, Iterable) and not hasattr(self.rows, "fetchone"):
            raise ConfigurationError.expected("rows", "several rows", self.rows)
        self._check_columns(_columns(self.rows))

    def items(self, memory: Memory | None = None) -> "Iterator[Text | Skipped]":  # noqa: ARG002 - as others
        """Yield a `Text` for each row, and a `Skipped` for one that cannot be read."""
        if isinstance(self.rows, Iterator) or hasattr(self.rows, "fetchone"):
            self._take_once("rows")
        return to_the_end(self._texts(self.rows), self.name, _with_remedy)


@dataclass(frozen=True, repr=False)
class Sql(_Table):
    """The rows of a query, one text in each. It is asked again each time.

        Sql(
            "SELECT id, title, body FROM article",
            database="postgresql://reader@db.example/library",
            name="articles", key="id", text="body", title="title",
        )

    Attributes:
        query: what to ask.
        name: the table's, such as `articles`; it must be given.
        database: a file of SQLite, or an address: `sqlite:///library.db`, `postgresql://…` (with
            the extra `postgresql`), or any that SQLAlchemy takes, where that and its driver are
            installed. A password belongs where the driver looks for it, such as `~/.pgpass`; one in
            the address is never shown.
        conn_id: in Airflow, the connection of the database.
        connect: returns a DB-API connection, where somebody else knows how to make one.
        key: the column of the key: its name, or a function of the row. A row with an empty key is
            `invalid`. A whole float is the same key as the integer: pandas turns 7 into 7.0 where a
            column has missing values.
        text: the column of the text. A row without text is `skipped`, or `invalid` where the
            service still has its text of before. None, NaN, NaT and pandas' NA are all empty.
            Numbers, dates and UUIDs are written as text; a row with a list, a mapping, a boolean or
            an object without a text form is `invalid`.
        title: the column of the source's name; by default the key.
        version: a column that changes when the text does, such as the time of the last change. By
            default the text itself is compared.

    Raises:
        ConfigurationError: an argument cannot be used; from `items`, that a column, a database's
            file or its driver is missing.
    """

    query: str
    _: KW_ONLY
    database: str = field(default="", repr=False)
    conn_id: str = ""
    connect: Callable[[], Any] | None = field(default=None, repr=False, compare=False)

    template_fields: ClassVar[tuple[str, ...]] = ("query", "name", "database", "conn_id")

    def _check(self) -> None:
        super()._check()
        if isinstance(self.database, os.PathLike):
            self._set(database=os.fspath(self.database))
        for option in ("query", "database", "conn_id"):
            given: object = getattr(self, option)
            if not (isinstance(given, str) or is_template(given)):
                raise ConfigurationError.expected(option, "a text", given)
        if not self.query:
            raise ConfigurationError.of("query", "it is empty")
        if bool(self.database) + bool(self.conn_id or self.connect) != 1:
            raise ConfigurationError.of(
                "database", "expected either the address of a database, or conn_id, in Airflow"
            )

    def items(self, memory: Memory | None = None) -> "Iterator[Text | Skipped]":  # noqa: ARG002 - as others
        """Yield a `Text` for each row, and a `Skipped` for one that cannot be read.

        Where the database fails, the last item is a `Skipped` with the error.
        """
        return to_the_end(self._selected(), self.name, self._without_login)

    def _selected(self) -> "Iterator[Text | Skipped]":
        # Opened by the thread that takes the rows, since sqlite3 allows it to no other.
        with closing(self._connected()) as connection, closing(_cursor(connection)) as cursor:
            cursor.execute(self.query)
            yield from self._texts(_Described(cursor))

    def _connected(self) -> Any:
        if self.connect is not None:
            return self.connect()
        if self.conn_id:
            raise ConfigurationError.of(
                "conn_id", "connections are Airflow's; give a database here"
            )
        return _connected(self.database)

    def _without_login(self, text: str) -> str:
        login = self.database.partition("://")[2].rpartition("@")[0]
        for secret in sorted({login, *login.split(":")[1:]}, key=len, reverse=True):
            for form in {secret, unquote(secret)} - {""}:
                text = text.replace(form, "***")
        return text


def _with_remedy(text: str) -> str:
    if "same thread" not in text:  # from sqlite3; an ingestion takes its items in its own thread
        return text
    return f"{text} Connect with sqlite3.connect(..., check_same_thread=False)."


def _connected(address: str) -> Any:
    """Return a DB-API connection to a database.

    Raises:
        ConfigurationError: its file or its driver is missing.
    """
    scheme, colon, _ = address.partition("://")
    if not colon or scheme == "sqlite":
        path = urlsplit(address).path[1:] if colon else address
        if not os.path.isfile(path):  # noqa: PTH113 - a text, as elsewhere here
            raise ConfigurationError.of("database", f"there is no file {path}")
        return sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)
    try:
        if scheme in ("postgresql", "postgres"):
            import psycopg

            return psycopg.connect(address)
        import sqlalchemy

        return sqlalchemy.create_engine(address).raw_connection()
    except (ImportError, ValueError) as error:  # SQLAlchemy knows neither it nor its driver
        raise _missing(scheme, error) from None
    except Exception as error:
        if type(error).__name__ in ("NoSuchModuleError", "ArgumentError"):
            raise _missing(scheme, error) from None
        raise


def _missing(scheme: str, error: Exception) -> ConfigurationError:
    remedy = (
        "install the extra postgresql"
        if scheme.startswith("postgres")
        else "install sqlalchemy and the driver of that database"
    )
    return ConfigurationError.of("database", f"{scheme}:// cannot be used: {error}; {remedy}")


class _Described:
    """A cursor with its columns known before its rows; some drivers need the first row for it."""

    def __init__(self, cursor: Any) -> None:
        self._cursor, self._first = cursor, cursor.fetchone()
        self.description = cursor.description

    def __iter__(self) -> Iterator[Any]:
        if self._first is None:
            return
        yield self._first
        # Iteration lets psycopg fetch many at once; not every driver's cursor has it.
        if hasattr(self._cursor, "__iter__"):
            yield from self._cursor
        else:
            yield from iter(self._cursor.fetchone, None)


def _cursor(connection: Any) -> Any:
    """Return a cursor that holds some rows at a time, if the driver has one."""
    try:
        cursor = connection.cursor(name="knowledge_bot")  # kept on the server, by psycopg
    except TypeError:
        return connection.cursor()
    cursor.itersize = cursor.arraysize = _AT_ONCE
    return cursor


def _texts(
    rows: Any, fields: dict[str, Column | None], places: dict[str, int]
) -> "Iterator[Text | Skipped]":
    # Not every driver's cursor is iterable: DB-API does not require it.
    each = rows if isinstance(rows, Iterable) else iter(rows.fetchone, None)
    for number, row in enumerate(each, 1):
        yield _text_of(row, number, fields, places)


def _text_of(
    row: Any, number: int, fields: dict[str, Column | None], places: dict[str, int]
) -> "Text | Skipped":
    """Return a row as an item.

    Its number, from 1, names it if it has no key; `places` are the columns' indexes, for plain
    tuples.
    """
    from pydantic import ValidationError

    from knowledge_bot.ingest._items import Text

    def read(option: str) -> str:
        column = fields[option]
        return "" if column is None else _shown(option, _value_of(row, column, places))

    label, key = f"row {number}", ""
    try:
        if not (key := read("key")).strip():
            return Skipped(label, "its key is empty", invalid=True)  # it hides no other key
        return Text(
            name=read("title").strip() or key,
            content=read("text"),  # a row with an empty text is skipped, and not gone
            key=key,
            version=read("version") or None,
        )
    except ValidationError as error:
        reason = f"it is not a text: {detail_of(error)}"
        key = "" if error.errors(include_url=False)[0]["loc"][0] == "key" else key
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
