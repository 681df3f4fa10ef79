"""The trigger that waits for the service on behalf of `KnowledgeBotPingSensor`."""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow_knowledge_bot._compat import AirflowFailException, AirflowNotFoundException

# isort: split
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_knowledge_bot.failures import is_temporary, no_connection
from airflow_knowledge_bot.hooks import KnowledgeBotHook
from airflow_knowledge_bot.operators.request import check_filled
from knowledge_bot.errors import KnowledgeBotError

# Thousands of triggers share one event loop: none may spin, whatever its interval.
_SHORTEST_PAUSE = 0.5
# Seconds for a last ping, and before it for the connection, if the triggerer was down when the
# deadline passed.
_LAST_CHANCE = 5.0
_OPENING = 60.0


class KnowledgeBotPingTrigger(BaseTrigger):
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

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the plain values that recreate this trigger."""
        return "airflow_knowledge_bot.triggers.KnowledgeBotPingTrigger", {
            "knowledge_bot_conn_id": self.knowledge_bot_conn_id,
            "poke_interval": self.poke_interval,
            "deadline": self.deadline,
        }

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
        check_filled("knowledge_bot_conn_id", self.knowledge_bot_conn_id)
        hook = KnowledgeBotHook(self.knowledge_bot_conn_id)
        async with await hook.get_async_conn() as client:
            if (left := self._seconds_left(_LAST_CHANCE)) is not None:
                limit.reschedule(asyncio.get_running_loop().time() + left)
            while True:
                try:
                    await client.ping()
                except KnowledgeBotError as error:
                    if not is_temporary(error):
                        raise
                    self._last_failure = str(error)
                    self.log.info("Not yet: %s", error)
                else:
                    return
                await asyncio.sleep(self._pause())

    def _seconds_left(self, least: float) -> float | None:
        return None if self.deadline is None else max(self.deadline - time.time(), least)

    def _pause(self) -> float:
        # Jitter, so that the sensors of one schedule do not ping in step.
        jitter = random.uniform(0.8, 1.2)  # noqa: S311 - no secret is made of it
        return max(self.poke_interval * jitter, _SHORTEST_PAUSE)


def _event(status: str, message: str) -> TriggerEvent:
    payload = {"status": status, "message": message}
    return TriggerEvent(payload)  # type: ignore[no-untyped-call] # Airflow leaves it untyped
