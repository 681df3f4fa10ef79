"""The triggers: one waits for the service, one tells when a bot can answer from new sources."""

import asyncio
import hashlib
import inspect
import random
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from airflow_knowledge_bot._compat import AirflowFailException, AirflowNotFoundException

# isort: split
from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent

from airflow_knowledge_bot.failures import no_connection
from airflow_knowledge_bot.hooks import KnowledgeBotHook
from airflow_knowledge_bot.tasks import check_filled
from knowledge_bot.errors import KnowledgeBotError

if TYPE_CHECKING:
    from knowledge_bot import AsyncClient

# Thousands of triggers share one event loop: none may spin, whatever its interval.
_SHORTEST_PAUSE = 0.5
# Seconds for a last ping, and before it for the connection, if the triggerer was down when the
# deadline passed.
_LAST_CHANCE = 5.0
_OPENING = 60.0

# The key of Airflow's store beside an asset.
_TOLD = "knowledge_bot_ready"


class _Recreated:
    """A trigger that Airflow recreates from its arguments, which it keeps under their names."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the plain values that recreate this trigger."""
        names = list(inspect.signature(type(self)).parameters)
        return f"{type(self).__module__}.{type(self).__name__}", {
            name: getattr(self, name) for name in names
        }


class KnowledgeBotPingTrigger(_Recreated, BaseTrigger):
    """Pings the service until it answers, then fires an event.

    The event is a dict of `status` and `message`; `status` is `ready`, `timeout` or `failed`.
    Connection failures, timeouts, 429 and 5xx mean "not yet"; anything else fails at once.

    Args:
        knowledge_bot_conn_id: the connection; its key is looked up where the trigger runs, and is
            never among the values that Airflow stores.
        poke_interval: seconds between two pings, give or take a fifth, at least 0.5.
        deadline: when to give up, in seconds since the epoch. It is an absolute time, so that a
            restarted triggerer does not wait from the beginning. None: Airflow's own timeout
            applies.
    """

    def __init__(
        self, knowledge_bot_conn_id: str, poke_interval: float, deadline: float | None
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # Airflow leaves it untyped
        self.knowledge_bot_conn_id = knowledge_bot_conn_id
        self.poke_interval = poke_interval
        self.deadline = deadline
        self._last_failure = "no ping ended"

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield the one event."""
        try:
            async with asyncio.timeout(self._seconds_left(_OPENING)) as limit:
                await self._until_ready(limit)
        except TimeoutError:
            yield _event("timeout", f"The service was not ready in time: {self._last_failure}")
        except AirflowNotFoundException:
            yield _event("failed", no_connection(self.knowledge_bot_conn_id))
        except (KnowledgeBotError, AirflowFailException) as error:
            yield _event("failed", str(error))
        else:
            yield _event("ready", "The service answered the ping.")

    async def _until_ready(self, limit: asyncio.Timeout) -> None:
        check_filled(knowledge_bot_conn_id=self.knowledge_bot_conn_id)
        hook = KnowledgeBotHook(self.knowledge_bot_conn_id)
        async with await hook.get_async_conn() as client:
            if (left := self._seconds_left(_LAST_CHANCE)) is not None:
                limit.reschedule(asyncio.get_running_loop().time() + left)
            while True:
                try:
                    await client.ping()
                except KnowledgeBotError as error:
                    if not error.may_pass:
                        raise
                    self._last_failure = str(error)
                    self.log.info("Not yet: %s", error)
                else:
                    return
                await asyncio.sleep(_pause(self.poke_interval))

    def _seconds_left(self, least: float) -> float | None:
        return None if self.deadline is None else max(self.deadline - time.time(), least)


class KnowledgeBotAnswerTrigger(_Recreated, BaseEventTrigger):
    """Fires when questions can be answered from new or changed sources, for an asset's watcher.

    It reads the state of the sources, which costs no message, so the service has to announce
    `sources`. It fires once nothing is being read any more and what is ready is not what it was at
    the last event: sources were added, replaced, or removed. So a night's ingestion of a thousand
    files is one event. While there are no sources it does not fire.

    On Airflow 3.3 what was told last is kept beside the asset. Airflow 3.1 and 3.2 keep nothing
    for triggers, so there a triggerer that starts tells the present state once more.

    ```python
    watcher = AssetWatcher(name="ready", trigger=KnowledgeBotAnswerTrigger("col_handbook"))
    handbook = Asset("knowledgebot://service.example/col_handbook", watchers=[watcher])
    ```

    The event's payload has `collections`, and how many sources are `ready` and `failed`.

    Args:
        collections: id or ids of the collections that are watched.
        knowledge_bot_conn_id: the connection; its key is looked up where the trigger runs.
        poke_interval: seconds between two looks, give or take a fifth, at least 0.5. Each reads the
            list of the collections' sources.
    """

    def __init__(
        self,
        collections: str | list[str],
        knowledge_bot_conn_id: str = KnowledgeBotHook.default_conn_name,
        poke_interval: float = 60.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # Airflow leaves it untyped
        self.collections = [collections] if isinstance(collections, str) else list(collections)
        self.knowledge_bot_conn_id = knowledge_bot_conn_id
        self.poke_interval = poke_interval
        self._told = _digest()

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield an event each time; nothing ends it, since Airflow would start it again at once."""
        hook = KnowledgeBotHook(self.knowledge_bot_conn_id)
        while True:
            try:
                async with await hook.get_async_conn() as client:
                    while True:
                        digest, counts = await self._ready(client)
                        if digest not in (None, await self._read()):
                            event = {"collections": self.collections, **counts}
                            yield TriggerEvent(event)  # type: ignore[no-untyped-call] # as below
                            # Not before, since an event that nobody took has to come again.
                            await self._keep(digest)
                        await asyncio.sleep(_pause(self.poke_interval))
            except (KnowledgeBotError, AirflowFailException, AirflowNotFoundException) as error:
                self.log.warning("The state of the sources is not known: %s", error)
            await asyncio.sleep(_pause(self.poke_interval))

    async def _ready(self, client: "AsyncClient") -> tuple[str | None, dict[str, int]]:
        """Return what stands for all that is ready, and counts; None while some is being read."""
        ready, failed = [], 0
        async for source in client.list_sources(collection=self.collections):
            if source.status in ("pending", "processing"):
                return None, {}
            failed += source.status == "failed"
            if source.ready_revision is not None:
                ready.append(f"{source.id} {source.ready_revision}")
        return _digest(*sorted(ready)), {"ready": len(ready), "failed": failed}

    async def _read(self) -> str:
        """Return what was told last."""
        if self._store is not None:
            with suppress(ValueError):  # several assets have this trigger
                return str(await self._store.aget(_TOLD, _digest()))
        return self._told

    async def _keep(self, digest: str) -> None:
        self._told = digest
        if self._store is not None:
            with suppress(ValueError):
                await self._store.aset(_TOLD, digest)

    @property
    def _store(self) -> Any:
        """Airflow's store beside the asset; None before Airflow 3.3."""
        return getattr(self, "asset_state_store", None)


def _digest(*lines: str) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _pause(interval: float) -> float:
    # Jitter, so that the triggers of one schedule do not ask in step.
    jitter = random.uniform(0.8, 1.2)  # noqa: S311 - no secret is made of it
    return max(interval * jitter, _SHORTEST_PAUSE)


def _event(status: str, message: str) -> TriggerEvent:
    payload = {"status": status, "message": message}
    return TriggerEvent(payload)  # type: ignore[no-untyped-call] # Airflow leaves it untyped
