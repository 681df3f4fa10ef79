"""From the ingest operator's parameters to the items that it ingests."""

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from pydantic import ValidationError

from airflow_knowledge_bot._compat import AirflowFailException, AirflowNotFoundException
from airflow_knowledge_bot.objects import found
from airflow_knowledge_bot.tasks import (
    NAMING,
    as_bool,
    as_number,
    as_several,
    check_several,
    wrong_type,
)
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest import (
    File,
    Item,
    Skipped,
    Text,
    WebPage,
    from_feed,
    from_jsonl,
    from_loader,
    from_rows,
    from_site,
    from_sitemap,
    from_urls,
)
from knowledge_bot.origins import Folder

if TYPE_CHECKING:
    import jinja2
    from airflow.providers.common.sql.hooks.sql import DbApiHook

# The field of a dict that decides which kind of item it is.
_KINDS: dict[str, type[Item]] = {"url": WebPage, "content": Text, "path": File}

# What finds the items of a source, and so defines its options; `items` has none.
_FINDERS: dict[str, Callable[..., Any]] = {
    "folder": Folder,
    "objects": found,
    "site": from_site,
    "sitemap": from_sitemap,
    "feed": from_feed,
    "urls": from_urls,
    "jsonl": from_jsonl,
    "sql": from_rows,
    "documents": from_loader,
}

# What a source is where it is no address.
_WANTED = {
    "folder": "a path",
    "jsonl": "a path",
    "urls": "a file's path, or a list of addresses as text",
    "sql": "a query as text",
}

# Where a document has its text. Where it has none, an error names so many of its fields.
_TEXTS = ("page_content", "text")
_FIELDS = 10

# The default of an option that has none.
_REQUIRED = inspect.Parameter.empty

# The operator has its own parameter for it.
_NO_OPTION = "origin"

# The fields of an item that are no templates: a text about Helm or Jinja has braces of its own, and
# rendering a string costs more than sending it.
_NOT_TEMPLATES = ("content", "text", "page_content", "metadata")

# Rows that psycopg2 and psycopg fetch at once from a cursor that the server keeps.
_AT_ONCE = 500


class Items:
    """The items of the one source that a task names.

    Attributes:
        origin: the source's name in the ledger; None where it has none.
        collections: those that items have named for themselves so far.
        found: the items, to be iterated over once.

    Raises:
        AirflowFailException: the source or an option cannot be used, or does not exist.
    """

    def __init__(
        self,
        item_source: str,
        value: Any,
        options: Any = None,
        *,
        sql_conn_id: str | None = None,
    ) -> None:
        self._item_source, self._value, self._sql_conn_id = item_source, value, sql_conn_id
        self._options = _checked(item_source, options)
        self.collections: set[str] = set()
        self.found: Any = self._found()
        self.origin: str | None = getattr(self.found, "origin", None)

    def _found(self) -> Any:
        item_source, value = self._item_source, self._value
        if item_source in ("items", "documents"):
            value = value() if callable(value) else value
            check_several(item_source, value, Item, "items")
            if item_source == "items":
                return self._noting(map(_item, value))
            return from_loader(map(_document, value), **self._options)
        if item_source != "objects":
            is_list = item_source == "urls" and isinstance(value, list | tuple)
            kinds = str | Path if item_source in ("folder", "urls", "jsonl") else str
            if not all(isinstance(one, kinds) for one in (value if is_list else [value])):
                raise wrong_type(item_source, value, _WANTED.get(item_source, "an address as text"))
        if item_source == "sql":
            return rows_of(value, self._sql_conn_id, self._options)
        try:
            items = _FINDERS[item_source](value, **self._options)
        except (ConfigurationError, TypeError) as error:
            raise AirflowFailException(
                f"The task's parameter {item_source!r}, or an option in 'source_options', cannot "
                f"be used on this worker: {str(error).rstrip('.')}. Nothing was sent."
            ) from error
        if item_source == "jsonl":
            take = items.take
            return replace(items, take=lambda: self._noting(take()))
        return items

    def _noting(self, items: Iterable[object]) -> Iterator[object]:
        for item in items:
            if named := getattr(item, "collections", None):
                self.collections.update(named)
            yield item


@cache
def _options_of(item_source: str) -> dict[str, Any]:
    """Return the names of a source's options with their defaults; `_REQUIRED` is none."""
    if item_source == "items":
        return {}
    _, *parameters = inspect.signature(_FINDERS[item_source]).parameters.values()
    return {each.name: each.default for each in parameters if each.name != _NO_OPTION}


def _checked(item_source: str, options: Any) -> dict[str, Any]:
    options = {} if options is None else options
    if not isinstance(options, Mapping):
        raise wrong_type("source_options", options, "a dict, as in {'exclude': '*.tmp'}")
    known = _options_of(item_source)
    options_are = ", ".join(known) or "none"
    for name in options:
        if name not in known:
            raise AirflowFailException(
                f"The task's parameter 'source_options' has {name!r}, which {item_source!r} does "
                f"not take. Its options: {options_are}. Nothing was sent."
            )
    missing = [name for name, at in known.items() if at is _REQUIRED and not options.get(name)]
    if missing:
        raise AirflowFailException(
            f"The task's parameter 'source_options' lacks {' and '.join(map(repr, missing))}, "
            f"which {item_source!r} needs. Its options: {options_are}. Nothing was sent."
        )
    return {name: _read(name, value, known[name]) for name, value in options.items()}


def _read(name: str, value: Any, default: Any) -> Any:
    """Return an option's value, which a template may have turned into text."""
    if not isinstance(value, str) or isinstance(default, str):
        return value
    if isinstance(default, bool):
        return as_bool(name, value)
    if isinstance(default, int | float):
        return type(default)(as_number(name, value))
    return as_several(value)


def _item(given: object) -> object:
    if not isinstance(given, dict):
        return given
    for field, kind in _KINDS.items():
        if field in given:
            try:
                defaults = {"name": given["url"]} if kind is WebPage else {}
                return kind.model_validate(defaults | given)
            except ValidationError as error:
                # Without the value, which may be a whole text or a secret.
                wrong = "; ".join(f"{one['loc'][0]}: {one['msg']}" for one in error.errors())
                return _invalid(given, wrong)
    return _invalid(given, "it has none of the fields url, content and path")


def _invalid(given: dict[str, Any], reason: str) -> Skipped:
    names = (given.get(field) for field in NAMING)
    name = str(next(filter(None, names), "an item"))
    # Partial: an earlier run may have sent it, and then it must not count as gone.
    return Skipped(name, reason, invalid=True, partial=True)


def _document(given: object) -> object:
    """Return a document that Airflow passed on as a dict as an object again."""
    if not isinstance(given, dict):
        return given
    if any(isinstance(given.get(field), str) for field in _TEXTS):
        return SimpleNamespace(**{str(name): value for name, value in given.items()})
    has = f"has only {', '.join(map(repr, list(given)[:_FIELDS]))}" if given else "is empty"
    return _invalid(
        given,
        "it is no document: a dict needs its text as a string in 'text' or 'page_content', and may "
        f"have 'metadata'; this one {has}",
    )


# Templates in a DAG file's items ------------------------------------------------------------------


def rendered(
    parameter: str, items: Any, render: Callable[[Any], Any], jinja_env: "jinja2.Environment"
) -> Any:
    """Return a parameter's items, rendered.

    They are a list from the DAG file, a template or an upstream task's output that gives one, or a
    function, which is not called.

    Raises:
        AirflowFailException: a template in them cannot be rendered.
    """
    from jinja2 import TemplateError

    marks = (
        jinja_env.block_start_string,
        jinja_env.variable_start_string,
        jinja_env.comment_start_string,
        *filter(None, (jinja_env.line_statement_prefix, jinja_env.line_comment_prefix)),
    )

    def field_of(name: object, value: Any) -> Any:
        if name in _NOT_TEMPLATES or value is None or isinstance(value, os.PathLike):
            return value
        is_plain = isinstance(value, str) and not any(mark in value for mark in marks)
        return value if is_plain else render(value)

    def item_of(item: Any) -> Any:
        if not isinstance(item, dict):
            return render(item)
        return {name: field_of(name, value) for name, value in item.items()}

    try:
        if isinstance(items, list | tuple):
            return [item_of(item) for item in items]
        # Of a dict it is reported later that it is no list.
        return items if callable(items) or isinstance(items, dict) else render(items)
    except TemplateError as error:
        reason = str(error).rstrip(". ")
        raise AirflowFailException(
            f"The task's parameter {parameter!r} cannot be rendered: {reason}. Correct the "
            "template, or keep its braces in {% raw %}. Nothing was sent."
        ) from error


# Rows of a query on a database that Airflow has a connection to -----------------------------------


class QueryError(Exception):
    """A query failed; the next try may succeed."""


def rows_of(sql: str, conn_id: str | None, options: Mapping[str, Any]) -> "Rows":
    """Find the texts of a query's result, one in each row; it is run when the first one is taken.

    Raises:
        AirflowFailException: the connection or its hook is missing.
    """
    return Rows(sql, _hook(str(conn_id)), str(conn_id), options)


@dataclass(frozen=True)
class Rows:
    """The rows of a query, as texts. Each iteration runs the query again."""

    sql: str
    hook: "DbApiHook"
    conn_id: str
    options: Mapping[str, Any]
    origin: str | None = None

    def named(self, origin: str) -> "Rows":
        """Return the same rows with an origin, which begins their keys."""
        return replace(self, origin=origin)

    def __iter__(self) -> Iterator[object]:
        # Opened by the thread that takes the rows, since sqlite3 allows it to no other.
        try:
            with closing(self.hook.get_conn()) as connection, closing(_cursor(connection)) as rows:
                rows.execute(self.sql)
                yield from from_rows(_Described(rows), origin=self.origin, **self.options)
        except (GeneratorExit, AirflowFailException):
            raise
        except ValueError as error:  # a missing column
            reason = str(error).rstrip(". ")
            raise AirflowFailException(
                f"The task's parameter 'source_options': {reason}. Nothing was sent."
            ) from error
        except Exception as error:
            raise QueryError(
                f"The query in the task's parameter 'sql' failed on the connection "
                f"{self.conn_id!r}: {' '.join(str(error).split())[:500]}"
            ) from error


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


def _hook(conn_id: str) -> "DbApiHook":
    subject = f"The task's parameter 'sql_conn_id' names the connection {conn_id!r}"
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise AirflowFailException(f"{subject}, which does not exist. Nothing was sent.") from error
    subject += f" of type {connection.conn_type!r}"
    try:
        from airflow.providers.common.sql.hooks.sql import DbApiHook

        hook = connection.get_hook()  # type: ignore[no-untyped-call] # Airflow leaves it untyped
    except Exception as error:  # Airflow raises its base class here, and what the import raises
        raise AirflowFailException(
            f"{subject}, which cannot be used on this worker ({error}). It may need pip install "
            "apache-airflow-providers-common-sql and the provider of that database, such as "
            "apache-airflow-providers-postgres. Nothing was sent."
        ) from error
    if not isinstance(hook, DbApiHook):
        raise AirflowFailException(
            f"{subject}, which is not a database that takes SQL. Nothing was sent."
        )
    return hook
