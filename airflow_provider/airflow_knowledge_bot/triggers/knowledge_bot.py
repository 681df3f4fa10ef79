"""The triggers: one waits for the service, one tells of new and changed sources."""

import asyncio
import hashlib
import inspect
import random
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

from airflow_knowledge_bot._compat import AirflowFailException, AirflowNotFoundException

# isort: split
from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent

from airflow_knowledge_bot.failures import no_connection
from airflow_knowledge_bot.hooks import KnowledgeBotHook
from airflow_knowledge_bot.tasks import as_seconds, check_filled
from knowledge_bot.adapters import collection_ids, storable
from knowledge_bot.errors import KnowledgeBotError

# Thousands of triggers share one event loop: none may spin, whatever its interval.
_SHORTEST_PAUSE = 0.5
# Seconds for a last ping, and before it for the connection, if the triggerer was down when the
# deadline passed.
_LAST_CHANCE = 5.0
_OPENING = 60.0

# After so many looks in a row that failed for a reason that waiting does not explain, a trigger
# gives up, as Airflow's own HttpEventTrigger does (apache/airflow#72376).
_MOST_FAILURES = 10

# The key of Airflow's store beside an asset.
_TOLD = "knowledge_bot_ready"

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class _Looking:
    """A trigger that looks at a service now and then.

    Its arguments are checked when it is made, and Airflow recreates it from them.
    """

    def __init__(
        self,
        knowledge_bot_conn_id: str,
        poke_interval: timedelta | float,
        exponential_backoff: bool,
        max_wait: timedelta | float | None,
    ) -> None:
        super().__init__()
        self.knowledge_bot_conn_id = knowledge_bot_conn_id
        self.poke_interval = as_seconds("poke_interval", poke_interval)
        self.exponential_backoff = exponential_backoff
        self.max_wait = None if max_wait is None else as_seconds("max_wait", max_wait)
        self._looks = 0

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the plain values that recreate this trigger."""
        names: list[str] = []
        makers = (vars(each).get("__init__") for each in type(self).__mro__)
        for maker in filter(None, makers):
            parameters = inspect.signature(maker).parameters.values()
            names += [one.name for one in parameters if one.kind in _NAMED and one.name != "self"]
            if not any(one.kind is one.VAR_KEYWORD for one in parameters):
                break  # else a subclass leaves the others to the class above
        return f"{type(self).__module__}.{type(self).__qualname__}", {
            name: getattr(self, name) for name in dict.fromkeys(names)
        }

    async def _pause(self) -> None:
        """Wait for the interval, or longer and longer, until `_looks` begins anew."""
        interval = self.poke_interval
        if self.exponential_backoff:
            interval *= 2 ** min(self._looks, 30)
        self._looks += 1
        # Jitter, so that the triggers of one schedule do not ask in step.
        interval *= random.uniform(0.8, 1.2)  # noqa: S311 - no secret is made of it
        longest = interval if self.max_wait is None else self.max_wait
        await asyncio.sleep(max(min(interval, longest), _SHORTEST_PAUSE))


class KnowledgeBotPingTrigger(_Looking, BaseTrigger):
    """Pings the service until it answers, then fires an event.

    The event is a dict of `status` and `message`; `status` is `ready`, `timeout` or `failed`.
    Connection failures, timeouts, 429 and 5xx mean "not yet"; what only a person can change fails
    at once, and anything else, ten times in a row.

    Args:
        knowledge_bot_conn_id: the connection; its key is looked up where the trigger runs, and is
            never among the values that Airflow stores.
        poke_interval: seconds (or a timedelta) between two pings, give or take a fifth, at least
            0.5.
        deadline: when to give up, in seconds since the epoch. It is an absolute time, so that a
            restarted triggerer does not wait from the beginning. None: Airflow's own timeout
            applies.
        exponential_backoff: double the interval after each ping.
        max_wait: seconds (or a timedelta) that it then is at most.

    Raises:
        ValueError: an argument cannot be used.
    """

    def __init__(
        self,
        knowledge_bot_conn_id: str,
        poke_interval: timedelta | float,
        deadline: float | None,
        exponential_backoff: bool = False,
        max_wait: timedelta | float | None = None,
    ) -> None:
        super().__init__(knowledge_bot_conn_id, poke_interval, exponential_backoff, max_wait)
        self.deadline = deadline
        self._last_failure = "no ping ended"

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield the one event."""
        try:
            async with asyncio.timeout(self._seconds_left(_OPENING)) as limit:
                yield await self._until_ready(limit)
        except TimeoutError:
            yield _event("timeout", f"The service was not ready in time: {self._last_failure}")

    async def _until_ready(self, limit: asyncio.Timeout) -> TriggerEvent:
        hook, failures, is_opened = KnowledgeBotHook(self.knowledge_bot_conn_id), 0, False
        while True:
            try:
                check_filled(knowledge_bot_conn_id=self.knowledge_bot_conn_id)
                async with await hook.get_async_conn() as client:
                    left = self._seconds_left(_LAST_CHANCE)
                    if left is not None and not is_opened:
                        limit.reschedule(asyncio.get_running_loop().time() + left)
                    is_opened = True
                    await client.ping()
                return _event("ready", "The service answered the ping.")
            except AirflowNotFoundException:
                return _event("failed", no_connection(self.knowledge_bot_conn_id))
            except Exception as error:  # noqa: BLE001 - Airflow's own server may be away
                is_ours = isinstance(error, KnowledgeBotError | AirflowFailException)
                may_pass = getattr(error, "may_pass", not is_ours)
                failures = 0 if is_ours else failures + 1
                if not may_pass or failures >= _MOST_FAILURES:
                    return _event("failed", str(error))
                self._last_failure = str(error)
                self.log.info("Not yet: %s", error)
            await self._pause()

    def _seconds_left(self, least: float) -> float | None:
        return None if self.deadline is None else max(self.deadline - time.time(), least)


class KnowledgeBotSourcesEventTrigger(_Looking, BaseEventTrigger):
    """Fires when questions can be answered from new or changed sources, for an asset's watcher.

    It reads the state of the sources and asks nothing, so it costs no message; the service has to
    announce `sources`. It fires once nothing is being read any more and what is ready is not what
    it was at the last event: sources were added, replaced, or removed. So a night's ingestion of a
    thousand files is one event. That the last source went is one too, with `ready` 0; before there
    was one it does not fire.

    On Airflow 3.3 what was told last is kept beside each asset that has this trigger, before the
    event and after it. Airflow 3.1 and 3.2 keep nothing for triggers, so there a triggerer that
    starts tells the present state once more.

    A look that fails is logged, and the next one follows after the interval. After ten in a row the
    trigger ends with an error, which Airflow logs before it starts the trigger again.

    ```python
    watcher = AssetWatcher(name="ready", trigger=KnowledgeBotSourcesEventTrigger("col_handbook"))
    handbook = Asset("knowledgebot://service.example/col_handbook", watchers=[watcher])
    ```

    The event's payload has `collections`, and how many sources are `ready` and `failed`.

    Args:
        collections: id or ids of the collections that are watched.
        knowledge_bot_conn_id: the connection; its key is looked up where the trigger runs.
        poke_interval: seconds (or a timedelta) between two looks, give or take a fifth, at least
            0.5. Each reads the list of the collections' sources.
        exponential_backoff: double the interval after each look that finds nothing new.
        max_wait: seconds (or a timedelta) that it then is at most.

    Raises:
        ValueError: an argument cannot be used.
    """

    def __init__(
        self,
        collections: str | list[str],
        knowledge_bot_conn_id: str = KnowledgeBotHook.default_conn_name,
        poke_interval: timedelta | float = 60.0,
        exponential_backoff: bool = False,
        max_wait: timedelta | float | None = None,
    ) -> None:
        super().__init__(knowledge_bot_conn_id, poke_interval, exponential_backoff, max_wait)
        self.collections = collection_ids(collections)
        if not knowledge_bot_conn_id.strip():
            raise ValueError("knowledge_bot_conn_id: expected the id of a connection")
        self._told = _digest()

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield an event each time that something has changed.

        Raises:
            RuntimeError: ten looks in a row have failed.
        """
        failures = 0
        while True:
            try:
                digest, counts = await self._ready()
                if digest is not None and not await self._was_told(digest):
                    await self._keep(digest, told=False)
                    # Airflow takes it only now, so an event may come twice, but is never lost.
                    yield TriggerEvent({"collections": self.collections, **counts})  # type: ignore[no-untyped-call]
                    self._told, self._looks = digest, 0
                    await self._keep(digest, told=True)
                failures = 0
            except Exception as error:  # noqa: BLE001 - Airflow would start it again at once
                failures += 1
                state = f"The state of the sources is not known ({failures} times in a row)"
                self.log.warning("%s: %s", state, storable(str(error)))
                if failures >= _MOST_FAILURES:
                    await self._pause()
                    raise RuntimeError(f"{state}: {storable(str(error))}") from None
            await self._pause()

    async def _ready(self) -> tuple[str | None, dict[str, int]]:
        """Return what stands for all that is ready, and counts; None while some is being read."""
        ready, failed = [], 0
        async with await KnowledgeBotHook(self.knowledge_bot_conn_id).get_async_conn() as client:
            being_read = ("pending", "processing")
            if await client.list_sources(status=being_read, collection=self.collections):
                return None, {}
            for source in await client.list_sources(collection=self.collections):
                failed += source.status == "failed"
                if source.ready_revision is not None:
                    ready.append(f"{source.id} {source.ready_revision}")
        return _digest(*sorted(ready)), {"ready": len(ready), "failed": failed}

    async def _was_told(self, digest: str) -> bool:
        """Return whether an event told of this to every asset."""
        nothing = [_digest(), True]
        kept = [await one.aget(_TOLD, nothing) for one in self._stores] or [[self._told, True]]
        return self._told == digest or all(one == [digest, True] for one in kept)

    async def _keep(self, digest: str, *, told: bool) -> None:
        for store in self._stores:
            await store.aset(_TOLD, [digest, told])

    @property
    def _stores(self) -> list[Any]:
        """Airflow's stores beside the assets with this trigger; none before Airflow 3.3.

        Assets with equal triggers share one, and Airflow has no public way to list them.
        """
        several: Any = getattr(self, "asset_state_store", None)
        found = (getattr(several, name, {}) for name in ("_by_name", "_by_uri"))
        return [store for each in found for store in each.values()]


def _digest(*lines: str) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _event(status: str, message: str) -> TriggerEvent:
    payload = {"status": status, "message": storable(message)}
    return TriggerEvent(payload)  # type: ignore[no-untyped-call] # Airflow leaves it untyped
