"""What is known of conversations: the last answer of each, and who sends the next message there.

`knowledge_bot.conversations` decides what happens to a head; here one is kept and changed in one
step, in memory or in a database.
"""

import functools
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from knowledge_bot._database import Connection, Database, DatabaseError, Session
from knowledge_bot._endpoints import check_number
from knowledge_bot.errors import ConfigurationError

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

T = TypeVar("T")

logger: logging.Logger = logging.getLogger("knowledge_bot.conversations")

_DAY: Final = 86_400  # seconds

# How many conversations a process remembers, some hundred bytes each.
_OF_PROCESS: Final = 100_000


class HeadsError(DatabaseError):
    """The heads of conversations cannot be read or written. Nothing was sent."""


class Head(NamedTuple):
    """What is known of a conversation.

    Attributes:
        answer: the id of its last answer; None where that is not known.
        sender: who has the turn after it; None where nobody has.
        content: a digest of what is being sent.
        lost: whether it may have been sent, and no answer will come.
        said: a digest of all that was said up to the answer, where answers are recognised by it.
        asked: a digest of what others than the bot said up to the answer.
    """

    answer: str | None
    sender: str | None = None
    content: str | None = None
    lost: bool = False
    said: str | None = None
    asked: str | None = None


Thread: TypeAlias = tuple[str, str]
"""A service's address and the id of a conversation there."""

Change: TypeAlias = Callable[[Head | None], Head | None]
"""Returns what becomes of a head; None stands for no head. It may be called several times."""


class Heads:
    """The last answer of each conversation, as far as it is known here.

    The service cannot be asked for it. Without an address, an object knows what went through it,
    and takes the list's word for conversations it has not seen. With an address, all that have the
    same one share what they know: workers, machines, and the same process after a restart. There, a
    list that continues an unknown conversation is a fork, so no list is ever answered with messages
    that are not in it.

    May be shared between threads and event loops, and used in children of `os.fork`. A pickle of it
    holds the address, and with it perhaps a password.

    Args:
        address: `sqlite:///file`, `postgresql://…`, or the path of a SQLite file; a ledger may be
            in the same database. None: in this object alone.
        remembered: without an address, how many conversations are remembered; the least recently
            used is forgotten first.
        days: with an address, after how many days without a message a conversation is forgotten.

    Raises:
        HeadsError: the address cannot be used. From a call: the database cannot be read or written.
        ConfigurationError: a number cannot be used, or the address is neither text nor a path.
    """

    def __init__(
        self,
        address: str | os.PathLike[str] | None = None,
        *,
        remembered: int = 10_000,
        days: int = 400,
    ) -> None:
        if not isinstance(address, str | os.PathLike | None):
            raise ConfigurationError.expected(
                "heads",
                "Heads, their address (sqlite:///file or postgresql://…) or the path of a SQLite "
                "file",
                address,
            )
        check_number("remembered", remembered, 1, whole=True)
        check_number("days", days, 1, whole=True)
        self._made_of = (address, remembered, days)
        self._thread: tuple[int, ThreadPoolExecutor] | None = None
        self._store = (
            _InProcess(remembered) if address is None else _Shared(_HeadsDatabase.of(address), days)
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._store.name})"

    def __reduce__(self) -> tuple[Any, ...]:
        address, remembered, days = self._made_of
        return functools.partial(Heads, remembered=remembered, days=days), (address,)

    @classmethod
    @functools.cache
    def of_process(cls) -> "Heads":
        """Return the heads of this process: of every service, whichever client asks.

        A conversation belongs to a service, and not to the object that asked last; the same list
        goes on in it with another timeout, another client, or after many other keys.
        """
        return cls(remembered=_OF_PROCESS)

    @property
    def shared(self) -> bool:
        """Whether a database holds them, so that calls may take some milliseconds."""
        return isinstance(self._store, _Shared)

    async def off_the_loop(self, work: Callable[..., T], *arguments: Any) -> T:
        """Do something that uses them, without blocking an event loop or asyncio's own threads.

        Where a database holds them, that is done in a thread of their own, one after another; how
        long it is waited for counts from here.
        """
        if not self.shared:  # takes microseconds
            return work(*arguments)
        import asyncio

        asked_at = time.monotonic()

        def run() -> T:
            _asked_at.set(asked_at)
            return work(*arguments)

        return await asyncio.get_running_loop().run_in_executor(self._own_thread(), run)

    def _own_thread(self) -> "ThreadPoolExecutor":
        """Return what runs in the thread; a child of `os.fork` has to start one anew."""
        from concurrent.futures import ThreadPoolExecutor

        with _threads_lock:
            if self._thread is None or self._thread[0] != os.getpid():
                self._thread = os.getpid(), ThreadPoolExecutor(1, thread_name_prefix="heads")
            return self._thread[1]

    def check(self) -> None:
        """Check that they can be read.

        Raises:
            HeadsError: they cannot.
        """
        self.find("", "")

    def change(self, thread: Thread, change: Change) -> Head | None:
        """Replace a head in one step; returns what became of it."""
        return self._store.change(thread, change)

    def find(self, service: str, token: str) -> tuple[str, Head] | None:
        """Return a conversation and its head, if nothing is under way after its last answer.

        Args:
            service: its address.
            token: the answer's id, or the digest of all that was said up to it; of several
                conversations, any is found.
        """
        return self._store.find(service, token)


# When the call that a thread works for began to wait; unset for calls in the caller's own thread.
_asked_at: "ContextVar[float]" = ContextVar("asked_at")
_threads_lock = threading.Lock()
os.register_at_fork(after_in_child=lambda: globals().update(_threads_lock=threading.Lock()))


class _InProcess:
    name = ""

    def __init__(self, remembered: int) -> None:
        self._heads: OrderedDict[Thread, Head] = OrderedDict()
        self._of_token: dict[tuple[str, str], Thread] = {}
        self._remembered = remembered
        self._warned = False
        self._lock = threading.Lock()

    def find(self, service: str, token: str) -> tuple[str, Head] | None:
        with self._lock:
            thread = self._of_token.get((service, token))
            head = self._heads.get(thread) if thread is not None else None
        if thread is None or head is None or head.sender is not None:
            return None
        return (thread[1], head) if token in (head.said, head.answer) else None

    def change(self, thread: Thread, change: Change) -> Head | None:
        with self._lock:
            before = self._heads.get(thread)
            head = change(before)
            self._forget(thread, before)
            if head is not None:
                self._heads[thread] = head  # as the newest
                self._of_token.update(dict.fromkeys(_tokens(thread, head), thread))
                if len(self._heads) > self._remembered:
                    self._forget(*next(iter(self._heads.items())))
                    self._warn_once()
            return head

    def _warn_once(self) -> None:
        if not self._warned:
            self._warned = True
            logger.warning(
                "More than %d conversations are under way, so the oldest are forgotten: a list "
                "that continues one is taken at its word. Heads in a database forget none",
                self._remembered,
            )

    def _forget(self, thread: Thread, head: Head | None) -> None:
        self._heads.pop(thread, None)
        for token in _tokens(thread, head):
            if self._of_token.get(token) == thread:
                del self._of_token[token]


def _tokens(thread: Thread, head: Head | None) -> list[tuple[str, str]]:
    """Return what a head is found by."""
    tokens = (head.said, head.answer) if head is not None else ()
    return [(thread[0], token) for token in tokens if token is not None]


class _HeadsDatabase(Database):
    """The database of shared heads."""

    noun = "store of heads"
    error = HeadsError
    busy = 0.5
    tables = """
CREATE TABLE kbot_heads (
    service TEXT NOT NULL,
    conversation TEXT NOT NULL,
    answer TEXT,                  -- the id of the last one
    sender TEXT,                  -- who has the turn after it
    content TEXT,                 -- a digest of what is being sent
    lost INTEGER NOT NULL,        -- 1: no answer to that will come
    said TEXT,                    -- a digest of all that was said up to the answer
    asked TEXT,                   -- and one of what others than the bot said
    updated_at INTEGER NOT NULL,  -- Unix seconds
    PRIMARY KEY (service, conversation)
);
CREATE INDEX kbot_heads_updated ON kbot_heads (updated_at);
CREATE INDEX kbot_heads_said ON kbot_heads (said) WHERE said IS NOT NULL;
CREATE INDEX kbot_heads_answer ON kbot_heads (answer);
"""

    def is_made(self, connection: Connection) -> bool:
        """Return whether a database has the table; what else is in it does not matter."""
        return "kbot_heads" in connection.names()

    def check_replaced(self, *, there: bool) -> None:
        """Allow a new file: what it does not know is a fork."""


class _Shared:
    def __init__(self, database: _HeadsDatabase, days: int) -> None:
        self._session = Session(database, patience=3.0)  # a user is waiting for an answer
        self.name = repr(database.name)
        self._seconds = days * _DAY
        self._tidied = 0.0

    def change(self, thread: Thread, change: Change) -> Head | None:
        def write(connection: Connection) -> Head | None:
            with connection.transaction():
                found = connection.rows(_FIND if connection.sqlite else _FIND_AND_LOCK, *thread)
                before = _head(found[0]) if found else None
                after = change(before)
                if after is None:
                    connection.run(_REMOVE, *thread)
                elif after != before:
                    values = {**after._asdict(), "lost": int(after.lost)}.values()
                    connection.run(_WRITE, *thread, *values, int(time.time()))
                self._tidy(connection)
            return after

        return self._session.do("used", write, since=_since())

    def find(self, service: str, token: str) -> tuple[str, Head] | None:
        found = self._session.do(
            "used",
            lambda database: database.rows(_FIND_TOKEN, service, token, token),
            since=_since(),
        )
        return next(((conversation, _head(row)) for conversation, *row in found), None)

    def _tidy(self, connection: Connection) -> None:
        now = time.time()
        if now - self._tidied > _DAY:
            connection.run("DELETE FROM kbot_heads WHERE updated_at < ?", int(now - self._seconds))
            self._tidied = now


def _since() -> float:
    return _asked_at.get(time.monotonic())


def _head(row: Sequence[Any]) -> Head:
    head = Head(*row)
    return head._replace(lost=bool(head.lost))


_COLUMNS = ", ".join(Head._fields)
_FIND = f"SELECT {_COLUMNS} FROM kbot_heads WHERE service = ? AND conversation = ?"  # noqa: S608 - ours
_FIND_TOKEN = (
    f"SELECT conversation, {_COLUMNS} FROM kbot_heads WHERE service = ? "  # noqa: S608 - ours
    "AND (said = ? OR answer = ?) AND sender IS NULL ORDER BY updated_at DESC LIMIT 1"
)
_FIND_AND_LOCK = f"{_FIND} FOR UPDATE"
_REMOVE = "DELETE FROM kbot_heads WHERE service = ? AND conversation = ?"
_WRITE = (
    f"INSERT INTO kbot_heads (service, conversation, {_COLUMNS}, updated_at) "  # noqa: S608 - ours
    f"VALUES (?, ?, {', '.join('?' * len(Head._fields))}, ?) ON CONFLICT (service, conversation) "
    f"DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in Head._fields)}, "
    "updated_at = excluded.updated_at"
)
