"""The sensor that waits until the service answers."""

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Unpack

from airflow_knowledge_bot._compat import (
    AirflowFailException,
    AirflowNotFoundException,
    AirflowSensorTimeout,
    conf,
)

# isort: split
from airflow.sdk import BaseSensorOperator

from airflow_knowledge_bot.hooks import KnowledgeBotHook

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_knowledge_bot.arguments import BaseSensorArguments

# Seconds that the trigger gets beyond its own deadline, so that its event, which says why, arrives
# before Airflow's bare timeout.
_GRACE = 60.0

_TRIGGER = "airflow_knowledge_bot.triggers.KnowledgeBotPingTrigger"


class KnowledgeBotPingSensor(BaseSensorOperator):
    """Waits until the service answers a ping (GET /ping).

    Connection failures, timeouts, 429 and 5xx mean "not yet". What waiting cannot mend fails at
    once: a connection that is missing or wrong, a refusal, an address where something else answers.

    Args:
        knowledge_bot_conn_id: the connection (templated).
        deferrable: wait in the triggerer, without a worker's slot; by default Airflow's setting
            `[operators] default_deferrable`.
        start_from_trigger: go to the triggerer at once, without a worker that starts only to defer.
            Mapped tasks, and all before Airflow 3.3, defer from a worker all the same.
        kwargs: of every sensor: `poke_interval` and `timeout` in seconds, `mode` (`poke` or
            `reschedule`), `soft_fail` and so on.
    """

    template_fields: Sequence[str] = ("knowledge_bot_conn_id",)
    template_ext: Sequence[str] = ()
    ui_color = "#e3edf7"

    def __init__(
        self,
        *,
        knowledge_bot_conn_id: str = KnowledgeBotHook.default_conn_name,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        start_from_trigger: bool = False,
        **kwargs: "Unpack[BaseSensorArguments]",
    ) -> None:
        super().__init__(**kwargs)
        self.knowledge_bot_conn_id = knowledge_bot_conn_id
        self.deferrable = deferrable or start_from_trigger
        if start_from_trigger:
            self._start_from_trigger()

    def poke(self, context: "Context") -> bool:  # noqa: ARG002 - Airflow's signature
        """Ping once.

        Raises:
            AirflowFailException: waiting cannot mend what went wrong.
        """
        from airflow_knowledge_bot.failures import passes_by_itself
        from knowledge_bot.errors import KnowledgeBotError

        try:
            with KnowledgeBotHook(self.knowledge_bot_conn_id).get_conn() as client:
                client.ping()
        except (KnowledgeBotError, AirflowNotFoundException) as error:
            if not passes_by_itself(error):
                raise AirflowFailException(str(error)) from error
            self.log.info("Not yet: %s", error)
            return False
        return True

    def execute(self, context: "Context") -> Any:
        """Wait here, or hand the waiting to the triggerer."""
        if not self.deferrable:
            return super().execute(context)

        from airflow_knowledge_bot.triggers import KnowledgeBotPingTrigger

        return self.defer(
            trigger=KnowledgeBotPingTrigger(
                knowledge_bot_conn_id=self.knowledge_bot_conn_id,
                poke_interval=self.poke_interval,
                deadline=time.time() + self.timeout,
            ),
            method_name="execute_complete",
            timeout=timedelta(seconds=self.timeout + _GRACE),
        )

    def _start_from_trigger(self) -> None:
        # Loaded here: it is more than the rest of what parsing a DAG loads.
        from airflow.triggers.base import StartTriggerArgs

        self.start_from_trigger = True
        self.start_trigger_args = StartTriggerArgs(
            trigger_cls=_TRIGGER,
            trigger_kwargs={
                "knowledge_bot_conn_id": self.knowledge_bot_conn_id,
                "poke_interval": float(self.poke_interval),
                # The moment is known when the task starts, not when its DAG is parsed.
                "deadline": None,
            },
            next_method="execute_complete",
            timeout=timedelta(seconds=self.timeout),
        )

    def execute_complete(self, context: "Context", event: object) -> None:  # noqa: ARG002 - Airflow's signature
        """Take the trigger's event.

        Raises:
            AirflowSensorTimeout: the service was not ready in time.
            AirflowFailException: waiting cannot mend what went wrong, or the event is not one of
                `KnowledgeBotPingTrigger`.
        """
        match event:
            case {"status": "ready", "message": str(message)}:
                self.log.info("%s", message)
            case {"status": "timeout", "message": str(message)}:
                raise AirflowSensorTimeout(message)
            case {"status": "failed", "message": str(message)}:
                raise AirflowFailException(message)
            case _:
                raise AirflowFailException(
                    f"The trigger fired an event that means nothing: {event!r}"
                )
