"""Where SQLite and PostgreSQL differ: addresses, drivers, transactions, the clock."""

import contextlib
import importlib.util
import os
import re
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url
from sqlalchemy.pool import NullPool

from knowledge_bot.ingest.ledger.entries import LedgerError

# Seconds that a writer waits for another process's transaction, which takes milliseconds.
_BUSY_TIMEOUT = 30.0

# Locks the creation of tables, which PostgreSQL does not do atomically. An arbitrary number.
_CREATION_LOCK = 7_205_759_403


@dataclass(frozen=True)
class Database:
    """A database that can hold a ledger.

    Attributes:
        engine: SQLAlchemy's engine; it pools nothing, since every thread keeps one connection.
        told: the address for messages, without a password.
        file: SQLite's file; None for PostgreSQL.
    """

    engine: Any
    told: str
    file: Path | None

    @property
    def shared(self) -> bool:
        """Whether other programs' tables may be in it, and other machines write to it."""
        return self.file is None

    def now(self, connection: Any) -> float:
        """Return the time in Unix seconds by the clock that all owners of this ledger share."""
        if self.file is not None:
            return time.time()
        return float(
            connection.execute(sa.text("select extract(epoch from clock_timestamp())")).scalar()
        )

    def use_write_ahead_log(self) -> None:
        """Let SQLite's readers and its writer not wait for each other; kept in the file.

        Raises:
            sqlite3.Error: the file cannot be opened.
        """
        if self.file is None:
            return
        deadline = time.monotonic() + _BUSY_TIMEOUT
        while True:
            try:
                with contextlib.closing(sqlite3.connect(self.file)) as connection:
                    connection.execute("PRAGMA journal_mode=WAL")
            except sqlite3.Error as error:
                # SQLite does not wait for this lock by itself: another process makes the same file.
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                return

    def lock_for_creation(self, connection: Any) -> None:
        """Let no other process create the tables until this transaction ends."""
        if self.file is None:  # SQLite's write transactions exclude each other already
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CREATION_LOCK)))


def database(address: str | os.PathLike[str]) -> Database:
    """Return the database of an address.

    Args:
        address: `sqlite:///file`, `postgresql://…`, or the path of a SQLite file.

    Raises:
        LedgerError: the address is neither, or its driver is not installed.
    """
    text = os.fspath(address)
    if not re.match(r"[a-z][a-z0-9+]*://", text, re.IGNORECASE):
        return _sqlite(Path(text))
    text = re.sub(r"^postgres://", "postgresql://", text)  # as hosting platforms hand it out
    try:
        url = make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        raise LedgerError(
            "the ledger's address is not a database URL, such as sqlite:///kbot.db or "
            "postgresql://user:password@host/database"
        ) from None
    if url.get_backend_name() == "sqlite":
        if not url.database or url.database == ":memory:":
            raise LedgerError("a ledger is kept in a file; name one: sqlite:///kbot.db")
        return _sqlite(Path(url.database))
    if url.get_backend_name() == "postgresql":
        return _postgresql(url)
    raise LedgerError(
        f"a ledger is kept in SQLite or PostgreSQL, not in {url.get_backend_name()!r}"
    )


def _sqlite(file: Path) -> Database:
    # Not taken from the URL: a process may change its working directory between two runs.
    file = file.absolute()
    engine = sa.create_engine(
        URL.create("sqlite", database=str(file)),
        future=True,
        poolclass=NullPool,
        hide_parameters=True,
        connect_args={"timeout": _BUSY_TIMEOUT, "check_same_thread": False},
    )
    sa.event.listen(engine, "connect", _prepare_sqlite)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return Database(engine, str(file), file)


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # BEGIN is ours: Python's comes too late for a claim
    connection.execute("PRAGMA synchronous=FULL")  # a claim survives a power cut


def _begin_sqlite(connection: Any) -> None:
    reading = connection.get_execution_options().get("kbot_reading", False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


def _postgresql(url: URL) -> Database:
    if url.drivername == "postgresql":
        url = url.set(drivername=f"postgresql+{_postgresql_driver()}")
    told = url.set(drivername="postgresql", query={}).render_as_string(hide_password=True)
    try:
        engine = sa.create_engine(
            url,
            future=True,
            poolclass=NullPool,
            hide_parameters=True,
            connect_args={"connect_timeout": 10, "application_name": "knowledge-bot ledger"},
        )
    except (ImportError, sa.exc.ArgumentError) as error:
        raise LedgerError(f"{told}: its database driver cannot be loaded: {error}") from error
    return Database(engine, told, None)


def _postgresql_driver() -> str:
    # SQLAlchemy 1.4, which Airflow's constraints pin, does not know psycopg 3.
    modern = not sa.__version__.startswith("1.")
    for driver in ("psycopg", "psycopg2") if modern else ("psycopg2",):
        if importlib.util.find_spec(driver) is not None:
            return driver
    if modern:
        raise LedgerError(
            "a ledger in PostgreSQL needs the driver psycopg, which is not installed: "
            "pip install 'knowledge-bot[postgresql]'"
        )
    raise LedgerError(
        f"a ledger in PostgreSQL needs the driver psycopg2 with SQLAlchemy {sa.__version__}, and "
        "it is not installed: pip install psycopg2-binary"
    )
