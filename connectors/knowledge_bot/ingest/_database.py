"""Where a ledger is kept: addresses, connections and tables, in SQLite and PostgreSQL.

Statements are written once, for the standard library's `sqlite3` and for psycopg 3; where the two
differ, this module says how. Everything here blocks.
"""

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knowledge_bot.errors import Delivery, KnowledgeBotError


class LedgerError(KnowledgeBotError):
    """The ledger cannot be opened, read or written. Nothing is sent without it."""

    def __init__(self, message: str) -> None:
        super().__init__(message, delivery=Delivery.NOT_DELIVERED)


VERSION = 3

# All names begin alike, since a PostgreSQL database is often shared with other programs. Columns
# that hold nothing for most rows are NULL, and what all items of a run share is a row elsewhere: at
# ten million items a byte is ten megabytes.
_TABLES = """
CREATE TABLE kbot_ledger (version INTEGER NOT NULL);
CREATE TABLE kbot_scopes (        -- what a key is unique within
    number {identity},
    service TEXT NOT NULL,
    collections TEXT NOT NULL,    -- sorted, with commas
    UNIQUE (service, collections)
);
CREATE TABLE kbot_origins (       -- what is enumerated as a whole, such as a folder
    number {identity},
    scope INTEGER NOT NULL,
    name TEXT NOT NULL,
    UNIQUE (scope, name)
);
CREATE TABLE kbot_runs (          -- who may be sending
    run BIGINT PRIMARY KEY,
    scope INTEGER NOT NULL,
    machine TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started TEXT NOT NULL,
    lease_until DOUBLE PRECISION NOT NULL
);
CREATE TABLE kbot_items (
    number {identity},
    id {bytes} NOT NULL UNIQUE,   -- a hash of service, collections and key
    scope INTEGER NOT NULL,
    origin INTEGER,
    key TEXT NOT NULL,
    name TEXT,                    -- NULL: the same as the key
    kind TEXT NOT NULL,
    location TEXT,                -- of a page or a file; NULL: the same as the key
    state TEXT NOT NULL,
    digest {bytes},               -- of the content that the service has
    pending {bytes},              -- of the content that state is about, unless created
    version TEXT,                 -- tells the content of digest without reading it
    source_id TEXT,               -- the source created last ...
    source_name TEXT,             -- ... and its name, where the item has a newer one
    run BIGINT NOT NULL,          -- the run that wrote the row last
    revision INTEGER NOT NULL,    -- writing compares and swaps it
    attempts INTEGER NOT NULL,
    error TEXT,
    updated_at INTEGER NOT NULL,  -- Unix seconds, as all times
    gone_at INTEGER               -- since when its origin yields it no longer
);
CREATE INDEX kbot_items_unsettled ON kbot_items (state) WHERE state <> 'created';
CREATE INDEX kbot_items_origin ON kbot_items (origin) WHERE origin IS NOT NULL;
CREATE INDEX kbot_items_gone ON kbot_items (gone_at) WHERE gone_at IS NOT NULL;
CREATE INDEX kbot_items_digest ON kbot_items (digest) WHERE digest IS NOT NULL;
CREATE TABLE kbot_superseded (
    source_id TEXT PRIMARY KEY,
    replaced_by TEXT,
    scope INTEGER NOT NULL,
    key TEXT NOT NULL,
    name TEXT NOT NULL,
    superseded_at INTEGER NOT NULL
);
CREATE TABLE kbot_pages (         -- what their servers are asked with whether they changed
    id {bytes} PRIMARY KEY,       -- a hash of the address
    known {bytes} NOT NULL        -- by what read it, in a form of its own
);
"""

# Locks the creation of tables, which PostgreSQL does not do atomically. An arbitrary number.
_CREATION_LOCK = 7_205_759_403

# Seconds that SQLite waits for another process's transaction before it says that it is locked.
_BUSY = 2.0

# PostgreSQL, appendix A: connection exceptions, too many connections, a server that shuts down or
# starts up, a serialization failure, a deadlock.
_PASSING_STATES = ("08", "53300", "57P01", "57P02", "57P03", "40001", "40P01")

_REASONS = {
    "file is not a database": "it is not a SQLite file, so it is no ledger; name another file",
    "malformed": "the file is damaged; restore it from a copy",
    "disk is full": "the disk is full; make room and run again",
    "disk i/o error": "the disk does not take it (full, over a quota, or failing)",
    "readonly": "the file or its folder is read-only",
    "unable to open": "the file cannot be opened: does its folder exist, and may it be written to?",
    "is locked": "another process has held a lock on it for too long",
}


@dataclass(frozen=True)
class Database:
    """Where a ledger is kept.

    Attributes:
        file: SQLite's file; None for PostgreSQL.
        url: what PostgreSQL's driver connects to; may hold a password.
        told: the address for messages, without a password.
    """

    file: Path | None
    url: str
    told: str

    @classmethod
    def of(cls, address: str | os.PathLike[str]) -> "Database":
        """Return the database of `sqlite:///file`, `postgresql://…`, or the path of a SQLite file.

        Raises:
            LedgerError: the address is none of these.
        """
        text = os.fspath(address)
        scheme, mark, rest = text.partition("://")
        scheme = scheme.lower().partition("+")[0]  # SQLAlchemy's spelling may name a driver
        if mark and scheme in ("postgresql", "postgres"):
            user, at, place = rest.rpartition("@")
            hosts = place.partition("/")[0].partition("?")[0].split(",")
            ports = [host.rpartition(":")[2] for host in hosts if ":" in host and host[-1] != "]"]
            if not all(port.isdecimal() or not port for port in ports):
                raise LedgerError(
                    "the ledger's address is not a database URL, such as sqlite:///kbot.db or "
                    "postgresql://user:password@host/database: a port is a number"
                )
            told = f"postgresql://{user.partition(':')[0]}{':***' * bool(at)}{at}"
            return cls(None, f"postgresql://{rest}", told + place.partition("?")[0])
        if mark and scheme.isalnum():
            if scheme != "sqlite":
                raise LedgerError(f"a ledger is kept in SQLite or PostgreSQL, not in {scheme!r}")
            if rest in ("", "/", "/:memory:") or rest[0] != "/":
                raise LedgerError("a ledger is kept in a file; name one: sqlite:///kbot.db")
            if any(sign in rest for sign in "?#%"):
                raise LedgerError(
                    f"{text!r}: the path of a sqlite:/// address with ?, # or % in it can be read "
                    "in two ways; give the path alone, without sqlite:///"
                )
            text = rest[1:]
        # Absolute, since a process may change its working directory between two runs.
        file = Path(text).absolute()
        return cls(file, "", str(file))

    def open(self, *, reading: bool) -> "Connection | None":
        """Open the ledger, made where there is none; a reader gets None then, and makes nothing.

        Raises:
            LedgerError: it cannot be opened, it is something else, or of another version.
        """
        if self.file is not None and os.path.isdir(self.file):  # noqa: PTH112 - it never raises
            raise LedgerError(f"{self.told} is a folder; name a file, such as {self.told}/kbot.db")
        try:
            if reading and self.file is not None:
                self.file.stat()
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise LedgerError(f"the ledger {self.told} cannot be read: {reason}") from None
        connection = self.connect(reading=reading)
        try:
            with self.explaining("read" if reading else "made"):
                if _holds_a_ledger(connection, self.told):
                    return connection
                if not reading:
                    self._make(connection)
                    return connection
        except BaseException:
            connection.close()
            raise
        connection.close()
        return None

    def connect(self, *, reading: bool) -> "Connection":
        """Open a connection, to whatever is there.

        Raises:
            LedgerError: it cannot be opened.
        """
        with self.explaining("read" if reading else "opened"):
            if self.file is None:
                return Connection(_postgresql_connection(self.url, self.told), sqlite=False)
            raw = _sqlite_connection(self.file, "mode=rw" if reading else "mode=rwc")
            # What was committed survives a power cut, and so a claim.
            raw.execute("PRAGMA query_only=ON" if reading else "PRAGMA synchronous=FULL")
            try:
                raw.execute("SELECT count(*) FROM sqlite_master").fetchone()
            except sqlite3.OperationalError as error:
                denied = "unable to open" in str(error) or "readonly" in str(error)
                if not (reading and denied):
                    raise
                # In a folder that nobody may write to, where no writer can be either.
                raw = _sqlite_connection(self.file, "immutable=1")
            return Connection(raw, sqlite=True)

    def _make(self, connection: "Connection") -> None:
        if connection.sqlite:
            # Readers and the writer do not wait for each other then; kept in the file. SQLite does
            # not wait for this lock by itself, when another process makes the same file.
            deadline = time.monotonic() + 30
            while connection.locked_out_of("PRAGMA journal_mode=WAL"):
                if time.monotonic() > deadline:
                    raise LedgerError(f"the ledger {self.told} cannot be made: it is locked")
                time.sleep(0.02)
        kinds = {"identity": "INTEGER PRIMARY KEY", "bytes": "BLOB"}
        if not connection.sqlite:
            kinds["identity"] = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
            kinds["bytes"] = "BYTEA"
        with connection.transaction():
            if not connection.sqlite:  # SQLite's write transactions exclude each other already
                connection.run("SELECT pg_advisory_xact_lock(?)", _CREATION_LOCK)
            if not _holds_a_ledger(connection, self.told):
                for statement in _TABLES.format(**kinds).split(";\n"):
                    connection.run(statement)
                connection.run("INSERT INTO kbot_ledger (version) VALUES (?)", VERSION)

    def file_identity(self) -> tuple[int, int] | None:
        """Return what tells SQLite's file from another one of its name; None without a file."""
        try:
            status = None if self.file is None else self.file.stat()
        except OSError:
            status = None
        return None if status is None else (status.st_dev, status.st_ino)

    def check_whole(self) -> None:
        """Read SQLite's file as it is on disk: an open connection reads what it has in memory.

        Raises:
            LedgerError: something else wrote into the file.
        """
        if self.file is not None:
            with contextlib.closing(self.connect(reading=True)) as connection:
                ((found,),) = connection.rows("PRAGMA quick_check(1)")
            if found != "ok":
                raise LedgerError(
                    f"the ledger {self.told} was damaged while it was in use: {found}. Restore it "
                    "from a copy before the next run, which would send what is missing in it again"
                )

    @contextmanager
    def explaining(self, what: str) -> Iterator[None]:
        """Turn database errors inside into `LedgerError`: `what` could not be done."""
        try:
            yield
        except Exception as error:
            if not is_of_a_database(error):
                raise
            raise self.explained(error, what) from error

    def explained(self, error: BaseException, what: str) -> LedgerError:
        """Return a database's error as ours."""
        said = " ".join(str(error).split())
        reason = next((told for sign, told in _REASONS.items() if sign in said.lower()), "")
        detail = f"{reason} ({said[:200]})" if reason else said[:300]
        return LedgerError(f"the ledger {self.told} cannot be {what}: {detail}")


class Connection:
    """One connection to either database, in autocommit mode; used by one thread at a time.

    Args:
        raw: the driver's connection.
        sqlite: whether it is SQLite's.
    """

    def __init__(self, raw: Any, *, sqlite: bool) -> None:
        self._raw, self.sqlite = raw, sqlite
        self._spelled: Callable[[str], str] = str if sqlite else _with_other_placeholders

    def rows(self, statement: str, *values: Any) -> list[Any]:
        """Return the rows of a query."""
        found: list[Any] = self._raw.execute(self._spelled(statement), values).fetchall()
        return found

    def of_ids(self, statement: str, ids: Sequence[bytes], *values: Any) -> list[Any]:
        """Return the rows of a query that has `{ids}` where these are to be found."""
        if not self.sqlite:
            return self.rows(statement.format(ids="= ANY(?)"), list(ids), *values)
        found: list[Any] = []
        for start in range(0, len(ids), 900):  # SQLite allowed 999 parameters for a long time
            part = ids[start : start + 900]
            marks = f"IN ({','.join('?' * len(part))})"
            found += self.rows(statement.format(ids=marks), *part, *values)
        return found

    def run(self, statement: str, *values: Any) -> int:
        """Run a statement; return how many rows it changed."""
        return int(self._raw.execute(self._spelled(statement), values).rowcount)

    def run_many(self, statement: str, several: Sequence[Sequence[Any]]) -> int:
        """Run a statement once for each of `several`; return how many rows were changed in all."""
        if not several:
            return 0
        cursor = self._raw.cursor()
        cursor.executemany(self._spelled(statement), several)
        return int(cursor.rowcount)

    def locked_out_of(self, statement: str) -> bool:
        """Run a statement; True where another connection's lock forbids it."""
        try:
            self.run(statement)
        except sqlite3.OperationalError as error:
            if is_passing(error):
                return True
            raise
        return False

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Do what is inside as a whole or not at all, excluding other writers on SQLite."""
        if not self.sqlite:
            with self._raw.transaction():
                yield
            return
        self._raw.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._raw.execute("ROLLBACK")
            raise
        self._raw.execute("COMMIT")

    def now(self) -> float:
        """Return Unix seconds by the clock that all runs of this ledger share."""
        if self.sqlite:
            return time.time()
        return float(self.rows("SELECT extract(epoch FROM clock_timestamp())")[0][0])

    def close(self) -> None:
        """Close it."""
        with contextlib.suppress(Exception):  # it may be broken
            self._raw.close()


def _with_other_placeholders(statement: str) -> str:
    return statement.replace("?", "%s")


def _sqlite_connection(file: Path, options: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{file.as_uri()}?{options}",
        uri=True,
        timeout=_BUSY,
        check_same_thread=False,
        isolation_level=None,
    )


def _postgresql_connection(url: str, told: str) -> Any:
    try:
        import psycopg
    except ImportError:
        raise LedgerError(
            "a ledger in PostgreSQL needs the driver psycopg, which is not installed: "
            "pip install 'knowledge-bot[postgresql]'"
        ) from None
    try:
        return psycopg.connect(
            url, autocommit=True, connect_timeout=10, application_name="knowledge-bot ledger"
        )
    except psycopg.ProgrammingError:  # it quotes the address, and with it a password
        raise LedgerError(
            f"{told} is not a database URL that PostgreSQL's driver takes, such as "
            "postgresql://user:password@host/database"
        ) from None


def _holds_a_ledger(connection: Connection, told: str) -> bool:
    """Tell whether a database holds a ledger; False where it holds none yet."""
    query = "SELECT tablename FROM pg_tables WHERE schemaname = ANY(current_schemas(false))"
    query = "SELECT name FROM sqlite_master" if connection.sqlite else query
    names = [name for (name,) in connection.rows(query)]
    if "kbot_ledger" not in names:
        if names and connection.sqlite:
            raise LedgerError(
                f"{told} is not a ledger: it is a database of another program, with the table "
                f"{names[0]!r}. Nothing was written to it; name another file"
            )
        return False
    ((version,),) = connection.rows("SELECT version FROM kbot_ledger")
    if version > VERSION:
        raise LedgerError(
            f"{told} was written by a newer knowledge-bot (ledger version {version}, this one "
            f"knows {VERSION}). Nothing was written to it; update knowledge-bot"
        )
    if version < VERSION:
        raise LedgerError(
            f"{told} is a ledger of an older design (version {version}, this one knows {VERSION}), "
            "and cannot be taken over. Nothing was written to it. Name a new ledger: everything is "
            "sent once more then, so let it go into a new collection, or remove the old sources"
        )
    return True


def is_of_a_database(error: BaseException) -> bool:
    """Tell whether a driver raised it."""
    return isinstance(error, sqlite3.Error) or _is_a_psycopg(error, "Error")


def is_passing(error: BaseException) -> bool:
    """Tell whether the same may succeed a moment later, over a new connection."""
    if isinstance(error, sqlite3.Error):
        return "is locked" in str(error)
    state: str | None = getattr(error, "sqlstate", None)
    if state is not None:
        return state.startswith(_PASSING_STATES)
    # Without a state it is the connection: refused, lost, or closed by a server that restarts.
    return _is_a_psycopg(error, "OperationalError") or _is_a_psycopg(error, "InterfaceError")


def _is_a_psycopg(error: BaseException, name: str) -> bool:
    # By name, since the driver is loaded only where it is used.
    return any(
        cls.__name__ == name and cls.__module__.startswith("psycopg") for cls in type(error).__mro__
    )
