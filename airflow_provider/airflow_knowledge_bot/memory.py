"""What the tries of one task instance share.

XCom is cleared when a try begins, and a worker can be killed at any moment. So what a later try has
to know stands in the task's state store (Airflow 3.3), which all tries share, before it is needed.
Airflow 3.1 and 3.2 have no such store: there the tries share nothing but what each of them can make
alike, such as a key of idempotency.
"""

import hashlib
import time
import uuid
from typing import TYPE_CHECKING, Any

from knowledge_bot.adapters import end_of_life
from knowledge_bot.errors import KnowledgeBotError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from knowledge_bot import Client
    from knowledge_bot.adapters import Extensions

_KEY = "knowledge_bot"

# Seconds before the end of a key's life from which on it is not used: clocks differ, and a request
# takes its time.
_MARGIN = 60.0


class TaskMemory:
    """What earlier tries of a task instance have left for this one.

    Attributes:
        is_kept: whether a later try finds what is kept.
        earlier: what was kept last; empty if nothing was.
        is_cleared: whether a person has cleared the task since then.
    """

    def __init__(self, context: "Context") -> None:
        self._store = context.get("task_state_store")
        self._instance, self._run = context.get("ti"), context.get("dag_run")
        self.is_kept = self._store is not None
        found: Any = self._store.get(_KEY) if self._store is not None else None
        self.earlier: dict[str, Any] = dict(found or {})
        # Clearing a task raises its `max_tries`; a retry does not.
        self._start = getattr(self._instance, "max_tries", 0)
        self.is_cleared = self.earlier.pop("max_tries", self._start) != self._start

    def keep(self, **what: Any) -> None:
        """Keep plain JSON for the next try, in place of what was kept before."""
        if self._store is not None:
            self._store.set(_KEY, {"max_tries": self._start, **what})

    def forget(self) -> None:
        """Keep nothing."""
        if self._store is not None:
            self._store.delete(_KEY)

    def key(self, *of: object) -> str | None:
        """Return a key of idempotency that every try makes alike; None where there can be none.

        A cleared task, and another run, makes another one. It is a UUIDv7 that was born when the
        DAG's run started, the one time that all tries know. `of` is what distinguishes one request
        of the task from the others.
        """
        task, run = self._instance, self._run
        if task is None or run is None or run.start_date is None:
            return None
        same = (run.dag_id, run.run_id, task.task_id, task.map_index, self._start, *of)
        made = hashlib.sha256(repr(same).encode()).hexdigest()
        born = int(run.start_date.timestamp() * 1000)
        # The 7 is the version, the 8 the variant (RFC 9562, section 5.7).
        return str(uuid.UUID(f"{born:012x}7{made[:3]}8{made[3:18]}"))


def extensions_of(client: "Client") -> "Extensions":
    """Return what the service announces; nothing where something else answers its ping.

    Raises:
        KnowledgeBotError: it cannot be asked now; nothing was sent yet, so the next try may.
    """
    try:
        return client.extensions()
    except KnowledgeBotError as error:
        if error.may_pass:
            raise
        return {}


def living(key: str | None, extensions: "Extensions") -> str | None:
    """Return a key of idempotency, if the service takes keys and will take this one."""
    if key is None or "idempotency" not in extensions:
        return None
    return key if time.time() + _MARGIN < end_of_life(key, extensions) else None
