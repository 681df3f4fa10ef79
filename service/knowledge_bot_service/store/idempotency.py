"""Idempotency keys: a request that is sent again with its key is answered, and not done, again."""

import asyncio
import hashlib
import json
import sqlite3
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, TypeVar

from starlette.concurrency import run_in_threadpool

from knowledge_bot_service.config.refusals import RefusedRequestError
from knowledge_bot_service.store.database import ServiceDatabase

T = TypeVar("T")

LIFETIME: Final = 7 * 24 * 60 * 60
"""How long a key is honoured after its birth and after its first use, in seconds."""

# How long a request waits for an earlier one with its key, and when it may come again, in seconds.
_PATIENCE: Final = 5.0
_AGAIN: Final = "2"


@dataclass(frozen=True, slots=True)
class Keyed:
    """A request with a key: the key, and what tells the request from others.

    Behind a comma, which no client's has, the key may say what those see who share it.
    """

    key: str
    fingerprint: str

    def done(self, created: str, answer: str) -> "Done":
        """What it has done."""
        return Done(self.key, self.fingerprint, created, answer)


@dataclass(frozen=True, slots=True)
class Done:
    """What was done for a request with a key: the id of what it created, and its answer as JSON."""

    key: str
    fingerprint: str
    created: str
    answer: str

    def store(self, connection: sqlite3.Connection, used_at: int) -> None:
        """Store it, in the transaction that does it; `used_at` is in milliseconds."""
        forgotten_at = max(_birth(self.key) or 0, used_at) + LIFETIME * 1000
        connection.execute(
            "INSERT INTO idempotency_key VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (self.key, self.fingerprint, self.created, self.answer, forgotten_at),
        )


def fingerprint(method: str, path: str, **parts: object) -> str:
    """What two requests have in common if they ask for the same."""
    described = json.dumps([method, path, parts], sort_keys=True)
    return hashlib.sha256(described.encode()).hexdigest()


def find_done(connection: sqlite3.Connection, key: str) -> Done | None:
    """What was done for a key; None for a new one."""
    row = connection.execute(
        "SELECT key, fingerprint, created, answer FROM idempotency_key WHERE key = ?", (key,)
    ).fetchone()
    return row and Done(*row)


def forget(connection: sqlite3.Connection, now: int, limit: int) -> int:
    """Forget up to `limit` keys that are honoured no longer; returns how many there were."""
    return connection.execute(
        "DELETE FROM idempotency_key WHERE rowid IN"
        " (SELECT rowid FROM idempotency_key WHERE forgotten_at < ? LIMIT ?)",
        (now, limit),
    ).rowcount


class IdempotentRequests:
    """Does what requests with keys ask for, once for each key. Use it inside one event loop."""

    def __init__(self, database: ServiceDatabase) -> None:
        self._database = database
        self._handled: dict[str, asyncio.Event] = {}

    async def do(self, keyed: Keyed, perform: Callable[[], Awaitable[T]]) -> T | Done:
        """Do what a request asks for, or return what was done for its key. Not to be cancelled.

        `perform` does it, and stores its `Done` in the same transaction.

        Raises:
            RefusedRequestError: 409, its first request takes longer than some seconds; 412, it is
                new here and older than `LIFETIME`; 422, it was used with another request.
        """
        try:
            async with asyncio.timeout(_PATIENCE):
                while first := self._handled.get(keyed.key):
                    await first.wait()
        except TimeoutError:
            raise RefusedRequestError(
                HTTPStatus.CONFLICT,
                "idempotency_key_in_use",
                "Nothing was done: an earlier request with this idempotency key is still being "
                f"handled. Send it again in {_AGAIN} s.",
                {"Retry-After": _AGAIN},
            ) from None
        self._handled[keyed.key] = ended = asyncio.Event()
        try:
            done = await run_in_threadpool(lambda: find_done(self._database.reader(), keyed.key))
            if done is None:
                birth = _birth(keyed.key)
                if birth is not None and birth < (time.time() - LIFETIME) * 1000:
                    raise RefusedRequestError(
                        HTTPStatus.PRECONDITION_FAILED,
                        "idempotency_key_expired",
                        f"Nothing was done: the idempotency key was made more than {LIFETIME:,} s "
                        "ago, and whether an earlier request with it was done may be forgotten. "
                        "Look for what it was to create.",
                    )
                return await perform()
            if done.fingerprint != keyed.fingerprint:
                raise RefusedRequestError(
                    HTTPStatus.UNPROCESSABLE_ENTITY,
                    "idempotency_key_reused",
                    "Nothing was done: the idempotency key was used with another request, which "
                    f"created {done.created}",
                    id=done.created,
                )
            return done
        finally:
            del self._handled[keyed.key]
            ended.set()


def _birth(key: str) -> int | None:
    """When a UUIDv7 was made, in milliseconds since 1970; None for any other key."""
    try:
        value = uuid.UUID(key.partition(",")[0])
    except ValueError:
        return None
    return value.int >> 80 if value.version == 7 else None
