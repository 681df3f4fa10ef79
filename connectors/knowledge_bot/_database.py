"""Databases for a ledger and the like: addresses and connections, SQLite and PostgreSQL.

Statements are written once, for the standard library's `sqlite3` and for psycopg 3; where the two
differ, this module says how. Everything here blocks.
"""

import contextlib
import itertools
import logging
import os
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar
from weakref import WeakSet

from knowledge_bot.errors import Delivery, KnowledgeBotError

logger: logging.Logger = logging.getLogger("knowledge_bot")

T = TypeVar("T")

# With 20 columns a row, fewer values than SQLite allowed in one statement for a long time (999).
_ROWS_AT_ONCE = 40


class DatabaseError(KnowledgeBotError):
    """A database cannot be opened, read or written. Nothing is sent without it.

    It `may_pass`: most often another process holds it, its server restarts, or its disk is full.
    """

    may_pass = True

    def __init__(self, message: str) -> None:
        super().__init__(message, delivery=Delivery.NOT_DELIVERED)


# Locks the creation of tables, which PostgreSQL does not do atomically. An arbitrary number.
_CREATION_LOCK = 7_205_759_403

_PAUSE = 0.2

# Seconds to wait until nobody else makes the same file.
_MAKING = 30.0

# Seconds after which PostgreSQL ends the session of a worker that holds a transaction open and says
# nothing, such as a stopped process or a paused machine: its locks would stop all other workers.
# These give up waiting for a lock sooner, log that, and try again.
_LONGEST_SILENCE = 10
_LONGEST_WAIT = 5
_APPLICATION = "knowledge-bot"
_LIMITS = (
    f"SELECT set_config('idle_in_transaction_session_timeout', '{_LONGEST_SILENCE}s', {{local}}), "
    f"set_config('lock_timeout', '{_LONGEST_WAIT}s', {{local}})"
)

# PostgreSQL's own timer does not run after a batch of statements: psycopg ends a batch with a
# message that stops it. So whoever waited for a lock in vain ends the sessions that PostgreSQL
# should have ended. A role may always end its own.
_END_SILENT = f"""
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND usename = current_user
      AND starts_with(application_name, '{_APPLICATION}') AND xact_start IS NOT NULL
      AND wait_event = 'ClientRead' AND state_change < now() - interval '{_LONGEST_SILENCE} seconds'
"""  # noqa: S608 - constants
_LOCK_TIMEOUT = "55P03"

# For psycopg, where the address does not say otherwise. A server whose machine lost its power, or a
# firewall that forgot the connection, is noticed after a minute.
_CONNECTING = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}

# PostgreSQL, appendix A: connection exceptions, too many connections, a server that shuts down or
# starts up, a serialization failure, a deadlock, a lock that was waited for too long, a session
# that was ended since it held a transaction open, and a server that takes no writes: until another
# one has taken over, it is the old one, or the new one that is not yet promoted.
_PASSING_STATES = (
    "08", "53300", "57P01", "57P02", "57P03", "40001", "40P01", "55P03", "25P03", "25006"
)  # fmt: skip
_PASSING_CODES = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)

# How SQLite and PostgreSQL write what they do not write alike: a numbered row, bytes, a table whose
# rows are updated (with room for other versions of them on each page), and a small table that is
# found by its primary key.
_SPELLINGS = {
    "identity": ("INTEGER PRIMARY KEY", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"),
    "bytes": ("BLOB", "BYTEA"),
    "roomy": ("", " WITH (fillfactor = 60)"),
    "keyed": (" WITHOUT ROWID", ""),
}

# By SQLite's code or PostgreSQL's state.
_LOCKED = "another process has held a lock on it for too long"
_REASONS: Mapping[int | str, str] = {
    sqlite3.SQLITE_NOTADB: "it is not a SQLite file, so it is no {noun}; name another file",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; restore it from a copy",
    sqlite3.SQLITE_FULL: "the disk is full; make room and run again",
    sqlite3.SQLITE_IOERR: "the disk does not take it (full, over a quota, or failing)",
    sqlite3.SQLITE_READONLY: "the file or its folder is read-only",
    sqlite3.SQLITE_CANTOPEN: (
        "the file cannot be opened: does its folder exist, and may it be written to?"
    ),
    **dict.fromkeys(_PASSING_CODES, _LOCKED),
    _LOCK_TIMEOUT: _LOCKED,
    "25006": (
        "the server takes no writes: it is a standby, or another one takes over. Where the address "
        "names several hosts, target_session_attrs=read-write finds the one that does"
    ),
    "53100": "the server's disk is full; make room and run again",
}


@dataclass(frozen=True)
class Database(ABC):
    """The database of one thing, such as a ledger.

    Attributes:
        noun: what the thing is called in messages.
        error: what is raised where it cannot be used.
        busy: how many seconds SQLite waits for another process's transaction before it says that
            it is locked.
        tables: the statements that create its tables; names in braces stand for what the two
            databases spell differently, see `_SPELLINGS`.
        file: SQLite's file; None for PostgreSQL.
        url: what PostgreSQL's driver connects to; may hold a password.
        name: the address for messages, without a password.
    """

    noun: ClassVar[str]
    error: ClassVar[type[DatabaseError]]
    busy: ClassVar[float] = 2.0
    tables: ClassVar[str]

    file: Path | None
    url: str = field(repr=False)
    name: str

    @classmethod
    def of(cls, address: str | os.PathLike[str]) -> Self:
        """Return the database of `sqlite:///file`, `postgresql://…`, or the path of a SQLite file.

        Raises:
            DatabaseError: the address is none of these. As everywhere here, its class is `error`.
        """
        text = os.fspath(address)
        scheme, mark, rest = text.partition("://")
        scheme = scheme.lower().partition("+")[0]  # SQLAlchemy's spelling may name a driver
        if mark and scheme in ("postgresql", "postgres"):
            user, at, place = rest.rpartition("@")
            hosts = place.partition("/")[0].partition("?")[0].split(",")
            ports = [host.rpartition(":")[2] for host in hosts if ":" in host and host[-1] != "]"]
            if not all(port.isdecimal() or not port for port in ports):
                raise cls.error(
                    f"the {cls.noun}'s address is not a database URL, such as sqlite:///kbot.db or "
                    "postgresql://user:password@host/database: a port is a number"
                )
            user, colon, _ = user.partition(":")
            name = f"postgresql://{user}{':***' if colon else ''}{at}"
            return cls(None, f"postgresql://{rest}", name + place.partition("?")[0])
        if mark and scheme.isalnum():
            if scheme != "sqlite":
                raise cls.error(f"a {cls.noun} is kept in SQLite or PostgreSQL, not in {scheme!r}")
            if rest in ("", "/", "/:memory:") or rest[0] != "/":
                raise cls.error(f"a {cls.noun} is kept in a file; name one: sqlite:///kbot.db")
            if any(sign in rest for sign in "?#%"):
                raise cls.error(
                    f"{text!r}: the path of a sqlite:/// address with ?, # or % in it can be read "
                    "in two ways; give the path alone, without sqlite:///"
                )
            text = rest[1:]
        # Absolute, since a process may change its working directory between two runs.
        file = Path(text).absolute()
        return cls(file, "", str(file))

    def open(self, *, reading: bool) -> "Connection | None":
        """Open the database, created where there is none; a reader gets None instead.

        Raises:
            DatabaseError: it cannot be opened, it holds something else, or a version that cannot be
                used.
        """
        if self.file is not None and os.path.isdir(self.file):  # noqa: PTH112 - it never raises
            raise self.error(f"{self.name} is a folder; name a file, such as {self.name}/kbot.db")
        try:
            if reading and self.file is not None:
                self.file.stat()
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise self.error(f"the {self.noun} {self.name} cannot be read: {reason}") from None
        connection = self.connect(reading=reading)
        try:
            with self.explaining("read" if reading else "opened for writing"):
                if self.is_made(connection):
                    return connection
                if not reading:
                    self._make(connection)
                    return connection
                connection.close()
                return None
        except BaseException:
            connection.close()
            raise

    def connect(self, *, reading: bool) -> "Connection":
        """Open a connection, whatever the database holds.

        Raises:
            DatabaseError: it cannot be opened.
        """
        with self.explaining("read" if reading else "opened"):
            if self.file is None:
                return self._postgresql_connection()
            raw = _sqlite_connection(self.file, "mode=rw" if reading else "mode=rwc", self.busy)
            # A committed claim has to survive a power cut.
            raw.execute("PRAGMA query_only=ON" if reading else "PRAGMA synchronous=FULL")
            try:
                raw.execute("SELECT count(*) FROM sqlite_master").fetchone()
            except sqlite3.OperationalError as error:
                if not reading or not is_read_only(error):
                    raise
                # In a read-only folder, where there is no writer either.
                raw = _sqlite_connection(self.file, "immutable=1", self.busy)
            return Connection(raw, sqlite=True)

    @abstractmethod
    def is_made(self, connection: "Connection") -> bool:
        """Return whether its tables are there; False where they can be created.

        Raises:
            DatabaseError: it holds something else, or tables of another version.
        """

    @abstractmethod
    def check_replaced(self, *, there: bool) -> None:
        """Decide about a file that was removed while in use, or replaced (`there`).

        Raises:
            DatabaseError: its content is needed. Otherwise a new file is created.
        """

    def create(self, fill: Callable[["Connection"], None]) -> None:
        """Create the tables and fill them: as a whole, or nothing is there.

        A new file of SQLite gets its name once it is filled. A process that is killed before leaves
        one that ends in `.partial`, which nobody needs.

        Raises:
            DatabaseError: there are some already, or something else.
        """
        if self.file is None or self.file.exists():
            self._create_at(self, fill)
            return
        partial = Path(f"{self.file}.{os.getpid()}.partial")
        try:
            self._create_at(replace(self, file=partial), fill)
            try:
                os.link(partial, self.file)
            except FileExistsError:  # somebody else was faster
                raise self._taken() from None
            except OSError:  # a file system without links
                partial.rename(self.file)
        finally:
            partial.unlink(missing_ok=True)

    def _create_at(self, place: Self, fill: Callable[["Connection"], None]) -> None:
        with (
            contextlib.closing(place.connect(reading=False)) as connection,
            self.explaining("written"),
        ):
            if self.is_made(connection):
                raise self._taken()
            self._make(connection, fill)

    def _taken(self) -> DatabaseError:
        return self.error(f"{self.name} holds a {self.noun} already. Nothing was written to it")

    def _make(
        self, connection: "Connection", fill: Callable[["Connection"], None] | None = None
    ) -> None:
        """Create the tables, unless another process just did."""
        if connection.sqlite:
            _write_ahead(connection)
        with connection.transaction():
            if not connection.sqlite:  # SQLite's write transactions exclude each other already
                connection.run("SELECT pg_advisory_xact_lock(?)", _CREATION_LOCK)
            if not self.is_made(connection):
                connection.run_all(self.tables)
                if fill is not None:
                    fill(connection)
            elif fill is not None:
                raise self._taken()

    def file_identity(self) -> tuple[int, int] | None:
        """Return what identifies SQLite's file, whatever its name; None without a file."""
        try:
            status = None if self.file is None else self.file.stat()
        except OSError:
            status = None
        return None if status is None else (status.st_dev, status.st_ino)

    @contextmanager
    def explaining(self, what: str) -> Iterator[None]:
        """Turn database errors inside into ours: `what` could not be done."""
        try:
            yield
        except Exception as error:
            if not is_database_error(error):
                raise
            raise self.explained(error, what) from error

    def explained(self, error: BaseException, what: str) -> DatabaseError:
        """Return a database's error as ours."""
        said = " ".join(str(error).split()).rstrip(".?!")
        reason = _REASONS.get(_code(error), "")
        detail = f"{reason.format(noun=self.noun)} ({said[:200]})" if reason else said[:300]
        return self.error(f"the {self.noun} {self.name} cannot be {what}: {detail}")

    def _postgresql_connection(self) -> "Connection":
        try:
            import psycopg
        except ImportError:
            raise self.error(
                f"a {self.noun} in PostgreSQL needs the driver psycopg, which is not installed: "
                "pip install 'knowledge-bot[postgresql]'"
            ) from None
        try:
            given = psycopg.conninfo.conninfo_to_dict(self.url)
            named = {"application_name": f"{_APPLICATION} {self.noun}"}
            address = psycopg.conninfo.make_conninfo("", **{**_CONNECTING, **named, **given})
            raw = psycopg.connect(address, autocommit=True)
        except psycopg.ProgrammingError:  # it quotes the address, and with it a password
            raise self.error(
                f"{self.name} is not a database URL that PostgreSQL's driver takes, such as "
                "postgresql://user:password@host/database"
            ) from None
        # A pooler such as PgBouncer reports another id. It may run each transaction on another
        # server, where a prepared statement of this name is missing or different, and where what
        # was set for a session is set for others.
        ((pid,),) = raw.execute("SELECT pg_backend_pid()").fetchall()
        pooled = pid != raw.info.backend_pid
        if pooled:
            raw.prepare_threshold = None
        else:
            raw.execute(_LIMITS.format(local="false"))
        return Connection(raw, sqlite=False, pooled=pooled)


class Connection:
    """One connection to either database, in autocommit mode; used by one thread at a time.

    A pooler that stands between (`pooled`) may give each transaction to another session.
    """

    def __init__(self, raw: Any, *, sqlite: bool, pooled: bool = False) -> None:
        self._raw, self.sqlite, self._pooled = raw, sqlite, pooled
        self._spelled: Callable[[str], str] = (
            str if sqlite else lambda statement: statement.replace("?", "%s")
        )

    def rows(self, statement: str, *values: Any) -> list[Any]:
        """Return the rows of a query."""
        found: list[Any] = self._raw.execute(self._spelled(statement), values).fetchall()
        return found

    def of_ids(self, statement: str, ids: Sequence[Any], *values: Any) -> list[Any]:
        """Return the rows of a query that has `{ids}` where these are to be found."""
        several = self._for_ids(statement, ids, values)
        return [row for one, given in several for row in self.rows(one, *given)]

    def run_for_ids(self, statement: str, ids: Sequence[Any], *values: Any) -> int:
        """Run a statement that has `{ids}` likewise; return how many rows it changed."""
        return sum(self.run(one, *given) for one, given in self._for_ids(statement, ids, values))

    def _for_ids(
        self, statement: str, ids: Sequence[Any], values: Sequence[Any]
    ) -> Iterator[tuple[str, Sequence[Any]]]:
        if not self.sqlite:
            yield statement.format(ids="= ANY(?)"), (list(ids), *values)
            return
        for start in range(0, len(ids), 900):  # SQLite allowed 999 parameters for a long time
            part = ids[start : start + 900]
            yield statement.format(ids=f"IN ({','.join('?' * len(part))})"), (*part, *values)

    def insert(self, statement: str, rows: Sequence[Sequence[Any]]) -> int:
        """Run an INSERT that has `{rows}` where these are to be; return how many rows it changed.

        Many rows go into one statement, and not only for the database's sake: after each statement
        the thread waits for the interpreter, which an event loop that is busy keeps.
        """
        changed = 0
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            part = rows[start : start + _ROWS_AT_ONCE]
            marks = f"({','.join('?' * len(part[0]))})"
            spelled = statement.format(rows=", ".join([marks] * len(part)))
            changed += self.run(spelled, *itertools.chain.from_iterable(part))
        return changed

    def run(self, statement: str, *values: Any) -> int:
        """Run a statement; return how many rows it changed."""
        return int(self._raw.execute(self._spelled(statement), values).rowcount)

    def run_all(self, statements: str) -> None:
        """Run statements that end with a semicolon and a line, in this database's spelling."""
        spelling = {name: pair[not self.sqlite] for name, pair in _SPELLINGS.items()}
        for statement in statements.format(**spelling).split(";\n"):
            if statement.strip():
                self.run(statement)

    def columns(self, table: str) -> list[str]:
        """Return the names of a table's columns."""
        cursor = self._raw.execute(f"SELECT * FROM {table} LIMIT 0")  # noqa: S608 - a name of ours
        return [column[0] for column in cursor.description]

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Read what is inside as it is at one moment, however long that takes."""
        if self.sqlite:
            self._raw.execute("BEGIN")
            yield
            return
        with self._raw.transaction():
            self._raw.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            self._raw.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            yield

    def batches(self, statement: str) -> Iterator[list[Any]]:
        """Yield the rows of a query some thousand at a time; used inside a transaction."""
        with contextlib.closing(
            self._raw.cursor() if self.sqlite else self._raw.cursor("batches")
        ) as cursor:
            cursor.execute(statement)
            while rows := cursor.fetchmany(2000):
                yield rows

    def load(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Insert the rows of another database, with the numbers that they have."""
        names = f"{table} ({', '.join(columns)})"
        if self.sqlite:
            self.insert(f"INSERT INTO {names} VALUES {{rows}}", rows)  # noqa: S608 - as above
            return
        with self._raw.cursor() as cursor, cursor.copy(f"COPY {names} FROM STDIN") as copying:
            for row in rows:
                copying.write_row(row)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Do what is inside as a whole or not at all, excluding other writers on SQLite."""
        if not self.sqlite:
            with self._raw.transaction():
                if self._pooled:
                    self._raw.execute(_LIMITS.format(local="true"))
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

    def lock(self, statement: str) -> None:
        """Lock tables, inside a transaction, where SQLite excludes other writers anyway."""
        if not self.sqlite:
            self.run(statement)

    def end_silent(self) -> None:
        """End the sessions of stopped workers that hold locks in PostgreSQL."""
        with contextlib.suppress(Exception):  # it is tried again
            self.rows(_END_SILENT)

    def names(self) -> list[str]:
        """Return the names of what is there: tables, and with SQLite indexes too."""
        query = "SELECT tablename FROM pg_tables WHERE schemaname = ANY(current_schemas(false))"
        query = "SELECT name FROM sqlite_master" if self.sqlite else query
        return [name for (name,) in self.rows(query)]

    def now(self) -> float:
        """Return Unix seconds by the clock that all who use this database share."""
        if self.sqlite:
            return time.time()
        return float(self.rows("SELECT extract(epoch FROM clock_timestamp())")[0][0])

    def close(self) -> None:
        """Close it."""
        with contextlib.suppress(Exception):  # it may be broken
            self._raw.close()


class Session:
    """One connection that threads use in turn, opened again when it breaks.

    What fails because the database is locked, restarting or away is tried again for as long as one
    outage may last. After that nothing waits again until something succeeds. A child of `os.fork`
    opens a connection of its own. `patience` is in seconds.

    Attributes:
        given_up: when set, a database that is away is no longer waited for.
    """

    def __init__(self, database: Database, *, patience: float, reading: bool = False) -> None:
        self._database, self._patience, self._reading = database, patience, reading
        self._connection: Connection | None = None
        self._file: tuple[int, int] | None = None
        self._opened = False
        self._lock = threading.Lock()
        self._away_since: float | None = None
        self._cause: BaseException | None = None
        self.given_up: bool = False
        _sessions.add(self)

    def open(self) -> Connection | None:
        """Open the database, created where there is none; a reader gets None instead.

        Raises:
            DatabaseError: it cannot be opened, it holds something else, or another version.
        """
        self._connection = self._database.open(reading=self._reading)
        self._file, self._opened = self._database.file_identity(), self._connection is not None
        return self._connection

    def do(self, what: str, work: Callable[[Connection], T], *, since: float | None = None) -> T:
        """Do something with the connection, and try again while the database is away.

        Args:
            what: what an error says could not be done: "read" or "written".
            work: it may be called several times.
            since: when somebody began to wait for this, by `time.monotonic`. Then the patience is
                this caller's own: it counts from there, also where an outage began before, and is
                not begun anew by who had to wait for others.

        Raises:
            DatabaseError: it cannot be done.
        """
        while True:
            with self._lock:
                waited = 0.0 if since is None else time.monotonic() - since
                if self._cause is not None and waited > self._patience:
                    raise self._database.explained(self._cause, what) from self._cause
                try:
                    done = work(self._connected())
                except Exception as error:
                    cause = error.__cause__ if isinstance(error, DatabaseError) else error
                    if cause is None or not is_database_error(cause):
                        raise
                    self._failed(cause, self._database.explained(cause, what), since)
                else:
                    self._cause = None
                    if self._away_since is not None:
                        away, self._away_since = time.monotonic() - self._away_since, None
                        logger.warning("%s is back after %.0f s", self._database.name, away)
                    return done
            time.sleep(_PAUSE)

    def _failed(self, cause: BaseException, failure: DatabaseError, since: float | None) -> None:
        """Begin or go on with an outage; raise what failed if that has lasted long enough."""
        if self._connection is not None and not self._connection.sqlite:
            if getattr(cause, "sqlstate", None) == _LOCK_TIMEOUT:
                self._connection.end_silent()
            self._connection.close()
            self._connection = None
        if not is_transient(cause):
            self._away_since = None
            raise failure from cause
        now = time.monotonic()
        self._cause = cause
        if self._away_since is None:
            self._away_since = now
            logger.warning("Trying again for up to %.0f s: %s", self._patience, failure)
        began = self._away_since if since is None else since
        if self.given_up or now - began > self._patience:
            raise failure from cause

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _connected(self) -> Connection:
        if self._opened and self._file != (now := self._database.file_identity()):
            self._database.check_replaced(there=now is not None)
            self._connection, self._opened = None, False
        if self._connection is None and self._opened:
            self._connection = self._database.connect(reading=self._reading)
        elif self._connection is None:
            self.open()
        assert self._connection is not None  # noqa: S101 - readers have opened it, or do nothing
        return self._connection

    def _leave_to_the_parent(self) -> None:
        # Closing the connection here would close it for the parent as well.
        _of_parents.append(self._connection)
        self._connection, self._lock = None, threading.Lock()


_of_parents: list[Connection | None] = []
_sessions: WeakSet[Session] = WeakSet()


def _after_a_fork() -> None:
    for session in _sessions:
        session._leave_to_the_parent()  # noqa: SLF001 - this module's own


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_a_fork)


def _write_ahead(connection: Connection) -> None:
    """Set the mode, which a file keeps, in which its readers and its writer need not wait."""
    deadline = time.monotonic() + _MAKING
    while True:  # SQLite does not wait for this lock when another process creates the same file
        try:
            connection.run("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if not is_transient(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _sqlite_connection(file: Path, options: str, busy: float) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{file.as_uri()}?{options}",
        uri=True,
        timeout=busy,
        check_same_thread=False,
        isolation_level=None,
    )


def is_database_error(error: BaseException) -> bool:
    """Return whether a database driver raised an error."""
    return isinstance(error, sqlite3.Error) or _is_a_psycopg(error, "Error")


def is_transient(error: BaseException) -> bool:
    """Return whether the same may succeed a moment later, over a new connection."""
    code = _code(error)
    if isinstance(code, int):
        return code in _PASSING_CODES
    if code:
        return code.startswith(_PASSING_STATES)
    # Without a state it is the connection: refused, lost, or closed by a server that restarts.
    return _is_a_psycopg(error, "OperationalError") or _is_a_psycopg(error, "InterfaceError")


def is_read_only(error: BaseException | None) -> bool:
    """Return whether SQLite's file, or the folder that it is in, cannot be written to."""
    codes = sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY
    return isinstance(error, sqlite3.Error) and _code(error) in codes


def _code(error: BaseException) -> int | str:
    """Return SQLite's primary result code, or PostgreSQL's state; empty if it gave none."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", 0) & 0xFF
    return getattr(error, "sqlstate", None) or ""


def _is_a_psycopg(error: BaseException, name: str) -> bool:
    # By name, since the driver is loaded only where it is used.
    return any(
        cls.__name__ == name and cls.__module__.startswith("psycopg") for cls in type(error).__mro__
    )
