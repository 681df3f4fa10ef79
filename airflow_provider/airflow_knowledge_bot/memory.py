"""What the tries of one task instance share: what was sent, and what came of it.

XCom is cleared when a try begins, and a worker can be killed at any moment. So what a later try has
to know stands in the task's state store (Airflow 3.3), which all tries share, before it is needed.
Airflow 3.1 and 3.2 have no such store: there the tries share nothing but what each of them can make
alike, such as a key of idempotency.
"""

import hashlib
import json
import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from airflow_knowledge_bot._compat import AirflowException, AirflowFailException
from knowledge_bot.adapters import end_of_life, new_key, storable
from knowledge_bot.errors import Delivery, KnowledgeBotError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from knowledge_bot import Client
    from knowledge_bot.adapters import Extensions, OnUnknown

# Where the store's keys begin, and where a try's context counts the requests that it made.
_KEY = "knowledge_bot"
_MADE = "knowledge_bot_requests"

# That is `airflow.sdk.NEVER_EXPIRE`, the same object, which only releases with a store have.
_NEVER_EXPIRE = timedelta.max

# Seconds before the end of a key's life from which on it is not used: clocks differ, and a request
# takes its time.
_MARGIN = 60.0

# Statuses that an equal request before this one got as well, or, if it was another one, 422.
_FINAL = (400, 413, 422)

_log = logging.getLogger(__name__)

_UNKNOWN = (
    "An earlier try of this task ended in the middle of its request ({what}), so the service may "
    "have acted on it. Nothing was sent this time. Look in the service first; clear the task to "
    "send the request again."
)

_SENT_AGAIN = (
    "The next try sends the request again with the same idempotency key, so its result exists once."
)

_SINCE_KILLED = (
    "This Airflow keeps nothing between the tries of a task: if the worker is killed in the middle "
    "of the request, the next try sends it again."
)


Counters = list[int]
"""How often a task may be tried, its retries, and how often its run was cleared."""


def counters(context: "Context") -> Counters:
    """Return Airflow's own counters, by which `is_cleared` knows a task that a person cleared."""
    task, run = context.get("ti"), context.get("dag_run")
    retries = getattr(getattr(task, "task", None), "retries", None)
    found = (getattr(task, "max_tries", 0), retries, getattr(run, "clear_number", 0))
    return [count or 0 for count in found]


def is_cleared(before: Counters, now: Counters) -> bool:
    """Return whether a task was cleared between two of its tries.

    Clearing sets `max_tries` to the tries so far and the task's retries. That is what it was where
    the author lowered the retries by as many; then the run was cleared all the same. The run alone
    says too little: another one of its tasks may have been cleared.
    """
    tries, retries, run = (one != other for one, other in zip(before, now, strict=True))
    return tries or (retries and run)


class TaskMemory:
    """What earlier tries of a task instance have left for this one, about one of its requests.

    Args:
        context: the task's.
        of: the request, or what else it is about, as a part of the store's key.

    Attributes:
        of: the same.
        is_kept: whether a later try finds what is kept.
        earlier: what was kept last; empty if nothing was.
        is_cleared: whether a person has cleared the task since then.
    """

    def __init__(self, context: "Context", of: str) -> None:
        self.of, self._key = of, f"{_KEY}:{of}"
        self._store = context.get("task_state_store")
        self._instance, self._run = context.get("ti"), context.get("dag_run")
        self._counters = counters(context)
        self.is_kept = self._store is not None
        found: Any = self._store.get(self._key) if self._store is not None else None
        self.earlier: dict[str, Any] = dict(found or {})
        before = self.earlier.pop("counters", self._counters)
        self.is_cleared = is_cleared(before, self._counters)

    def keep(self, *, first: bool = False, **what: Any) -> None:
        """Keep plain JSON for the next try, in place of what was kept before.

        A `state` is open until it is settled: it never expires, as other things do. `first` is what
        has to be kept before the task goes on: else a store that is away is an error.
        """
        retention = _NEVER_EXPIRE if "state" in what else None

        def keep(store: Any) -> None:
            kept = {"counters": self._counters, **storable(what)}
            store.set(self._key, kept, retention=retention)

        self._change(keep, first=first)

    def forget(self) -> None:
        """Keep nothing."""
        self._change(lambda store: store.delete(self._key))

    def _change(self, change: Callable[[Any], object], *, first: bool = False) -> None:
        """Change the store, which never stands in the way of what has happened."""
        try:
            if self._store is not None:
                change(self._store)
        except Exception:
            if first:
                raise
            _log.exception("What a later try of the task needs to know is not kept.")

    def key(self, *of: object) -> str | None:
        """Return a key of idempotency that every try makes alike; None where there can be none.

        A cleared task, and another run, makes another one. It is a UUIDv7 that was born when the
        DAG's run started, the one time that all tries know. `of` is what distinguishes one request
        of the task from the others.
        """
        task, run = self._instance, self._run
        if task is None or run is None or run.start_date is None:
            return None
        tries = self._counters[0]
        same = (run.dag_id, run.run_id, task.task_id, task.map_index, tries, self.of, *of)
        made = hashlib.sha256(repr(same).encode()).hexdigest()
        born = int(run.start_date.timestamp() * 1000)
        # The 7 is the version, the 8 the variant (RFC 9562, section 5.7).
        return str(uuid.UUID(f"{born:012x}7{made[:3]}8{made[3:18]}"))


class Intent:
    """A request of a task, written to the task's memory before it leaves, and its answer after it.

    It belongs to the request: what it holds, and where it goes. Another request of the same task is
    another intent, also an equal one that the same try sends once more. But while nobody knows
    whether an earlier try's request arrived, a retry sends no other one either: its templates may
    have given something else.

    A task that a person cleared starts over, unless the unknown outcome of its request has not been
    reported yet. Where the service takes idempotency keys, the intent holds one, and a retry sends
    the request again with the same key: the service answers it as it answered the first one, or
    acts on it now. Where nothing is kept, each try makes the same key.

    What is kept is either the `answer` or a `state`: `sending`, with the request's `key` if it has
    one, or `reported` once the task has failed and asked for a person.

    Args:
        context: the task's.
        request: all that makes it this request and no other.
        on_unknown: what to do where nobody knows whether the service acted.
        what: the request, for a person who looks for it in the service.

    Attributes:
        answer: what an earlier try got; None: nothing.
    """

    def __init__(
        self, context: "Context", request: Mapping[str, object], on_unknown: "OnUnknown", what: str
    ) -> None:
        self._context, self._on_unknown, self._what = context, on_unknown, what
        self._memory = memory = TaskMemory(context, _of(request, context))
        self.answer: dict[str, Any] | None = (
            None if memory.is_cleared else memory.earlier.get("answer")
        )
        self._is_kept = memory.is_kept
        self._is_unknown = _is_open(memory)

    def send(
        self, client: "Client", request: Callable[[str | None], dict[str, Any]]
    ) -> dict[str, Any]:
        """Store the intent, send the request, and store its answer.

        Args:
            client: tells whether the service takes keys of idempotency.
            request: sends it, with the key that it gets.

        Raises:
            AirflowFailException: an earlier try may have sent it without a key that still lives,
                and `on_unknown` is `hold`. Nothing was sent.
            AirflowException: the service may have acted, and the next try sends the same key.
            Exception: what `request` raises.
        """
        self._look_for_another()
        key = self._key(client)
        if not self._is_kept and self._on_unknown == "hold":
            _log.warning(_SINCE_KILLED)
        now = datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
        what = f"{self._what}, sent at {now}"
        self._memory.keep(first=True, state="sending", what=what, key=key)
        try:
            answer = request(key)
        except KnowledgeBotError as error:
            self._keep_after(error, what, key)
            raise
        self._memory.keep(answer=answer)
        return answer

    def _look_for_another(self) -> None:
        """Find out whether an earlier try's newest request, if it is another one, is settled."""
        instance: Any = self._context.get("ti")
        this_try = getattr(instance, "try_number", 0)
        newest = TaskMemory(self._context, "newest")
        if newest.earlier.get("try", this_try) != this_try:
            other = TaskMemory(self._context, newest.earlier["of"])
            if other.of != self._memory.of and _is_open(other):
                self._report(other, other.earlier["what"])
        newest.keep(first=True, **{"of": self._memory.of, "try": this_try})

    def _report(self, unknown: TaskMemory, what: str) -> None:
        """Ask for a person, or warn, where nobody knows what became of a request."""
        if self._on_unknown == "hold":
            unknown.keep(state="reported", what=what)
            raise AirflowFailException(_UNKNOWN.format(what=what))
        _log.warning(
            "on_unknown='resend': an earlier try may have sent the request (%s). It is sent again "
            "now, so its result may exist twice.",
            what,
        )

    def _keep_after(self, error: KnowledgeBotError, what: str, key: str | None) -> None:
        if error.delivery is not Delivery.UNKNOWN:
            # Whatever became of this one, an earlier one with the same key may have arrived.
            if not self._is_unknown or getattr(error, "status_code", 0) in _FINAL:
                self._memory.forget()
        elif key is not None:
            if error.may_pass:
                raise AirflowException(f"{error} {_SENT_AGAIN}") from error
        elif self._on_unknown == "hold":
            self._memory.keep(state="reported", what=what)
        elif error.may_pass:
            _log.warning(
                "on_unknown='resend': the next try, if any, sends the request again (%s), so its "
                "result may exist twice.",
                what,
            )

    def _key(self, client: "Client") -> str | None:
        """Return the idempotency key to send the request with; None where there can be none."""
        made = new_key() if self._memory.is_kept else self._memory.key()
        if made is None:  # no later try could send it again
            return None
        extensions = _extensions_of(client)
        new = living(made, extensions)
        self._is_kept = self._is_kept or new is not None
        if not self._is_unknown:
            return new
        earlier = self._memory.earlier
        what = earlier.get("what", self._what)
        if (key := living(earlier.get("key"), extensions)) is not None:
            _log.info(
                "An earlier try may have sent the request (%s). It is sent again with the same "
                "idempotency key, so its result exists once.",
                what,
            )
            return key
        self._report(self._memory, what)
        return new


def _of(request: Mapping[str, object], context: "Context") -> str:
    """Return what stands for a request, another one each time that a try makes an equal one."""
    written = json.dumps(request, sort_keys=True, default=str)
    digest = hashlib.sha256(written.encode()).hexdigest()[:32]
    made: Counter[str] = cast("dict[str, Any]", context).setdefault(_MADE, Counter())
    made[digest] += 1
    return digest if made[digest] == 1 else f"{digest}:{made[digest]}"


def _is_open(memory: TaskMemory) -> bool:
    """Return whether nobody knows yet what became of a request."""
    state = memory.earlier.get("state")
    return state == "sending" or (state == "reported" and not memory.is_cleared)


def living(key: str | None, extensions: "Extensions") -> str | None:
    """Return a key of idempotency, if the service takes keys and will take this one."""
    if key is None or "idempotency" not in extensions:
        return None
    return key if time.time() + _MARGIN < end_of_life(key, extensions) else None


def _extensions_of(client: "Client") -> "Extensions":
    """Return what the service announces; nothing where something else answers its ping.

    An error that may pass is raised: nothing was sent yet, so the next try may send.
    """
    try:
        return client.extensions()
    except KnowledgeBotError as error:
        if error.may_pass:
            raise
        return {}
