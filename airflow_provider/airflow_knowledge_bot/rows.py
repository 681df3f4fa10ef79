"""Rows of a query on a database that Airflow has a connection to."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from airflow_knowledge_bot._compat import AirflowFailException, AirflowNotFoundException
from knowledge_bot.ingest import from_rows

if TYPE_CHECKING:
    from airflow.providers.common.sql.hooks.sql import DbApiHook

# Rows that psycopg2 and psycopg fetch at once from a cursor that the server keeps.
_AT_ONCE = 500


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
