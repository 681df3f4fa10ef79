"""The sensors: one waits until the service answers, one until a bot answers as expected."""

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Unpack

from airflow_knowledge_bot._compat import AirflowFailException, AirflowSensorTimeout, conf

# isort: split
from airflow.sdk import BaseSensorOperator, PokeReturnValue

from airflow_knowledge_bot.tasks import QuestionsTask, ServiceTask, check_filled

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_knowledge_bot.arguments import AnswerSensorArguments, PingSensorArguments
    from airflow_knowledge_bot.checks import CheckProgress

# Seconds that the trigger gets beyond its own deadline, so that its event, which says why, arrives
# before Airflow's bare timeout.
_GRACE = 60.0

_TRIGGER = "airflow_knowledge_bot.triggers.knowledge_bot.KnowledgeBotPingTrigger"


class KnowledgeBotPingSensor(ServiceTask, BaseSensorOperator):
    """Waits until the service answers a ping (GET /ping).

    Connection failures, timeouts, 429 and 5xx mean "not yet". What waiting cannot help fails at
    once: a missing or wrong connection, a refusal, an address where something else answers.

    Args:
        knowledge_bot_conn_id: the connection (templated).
        deferrable: wait in the triggerer, without a worker's slot; by default Airflow's setting
            `[operators] default_deferrable`.
        start_from_trigger: start in the triggerer, without a worker that starts only to defer.
            Mapped tasks, and all tasks before Airflow 3.3, still defer from a worker.
        kwargs: of every sensor: `poke_interval` and `timeout` in seconds, `mode` (`poke` or
            `reschedule`), `soft_fail` and so on.
    """

    template_fields: Sequence[str] = ServiceTask.template_fields

    def __init__(
        self,
        *,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        start_from_trigger: bool = False,
        **kwargs: "Unpack[PingSensorArguments]",
    ) -> None:
        super().__init__(**kwargs)  # type: ignore[misc] # Airflow's own base is the next one
        self.deferrable = deferrable or start_from_trigger
        if start_from_trigger:
            self._start_from_trigger()

    def poke(self, context: "Context") -> bool:  # noqa: ARG002 - Airflow's signature
        """Ping once.

        Raises:
            AirflowFailException: waiting cannot help.
        """
        from knowledge_bot.errors import KnowledgeBotError

        try:
            with self._service({}) as hook, hook.get_conn() as client:
                client.ping()
        except KnowledgeBotError as error:
            self.log.info("Not yet: %s", error)
            return False
        return True

    def execute(self, context: "Context") -> Any:
        """Wait on the worker, or defer to the triggerer."""
        if not self.deferrable:
            return super().execute(context)

        from airflow_knowledge_bot.triggers import KnowledgeBotPingTrigger

        check_filled(knowledge_bot_conn_id=self.knowledge_bot_conn_id)
        return self.defer(
            trigger=KnowledgeBotPingTrigger(**self._looking(time.time() + self.timeout)),
            method_name="execute_complete",
            timeout=timedelta(seconds=self.timeout + _GRACE),
        )

    def _start_from_trigger(self) -> None:
        # Loaded here: it is more than the rest of what parsing a DAG loads.
        from airflow.triggers.base import StartTriggerArgs

        self.start_from_trigger = True
        self.start_trigger_args = StartTriggerArgs(
            trigger_cls=_TRIGGER,
            # When it gives up is known when the task starts, not when its DAG is parsed.
            trigger_kwargs=self._looking(deadline=None),
            next_method="execute_complete",
            timeout=timedelta(seconds=self.timeout),
        )

    def _looking(self, deadline: float | None) -> dict[str, Any]:
        """Return the arguments of the trigger, as plain values."""
        return {
            "knowledge_bot_conn_id": self.knowledge_bot_conn_id,
            "poke_interval": float(self.poke_interval),
            "deadline": deadline,
            "exponential_backoff": self.exponential_backoff,
            "max_wait": None if self.max_wait is None else self.max_wait.total_seconds(),
        }

    def execute_complete(self, context: "Context", event: object) -> None:  # noqa: ARG002 - Airflow's signature
        """Take the trigger's event.

        Raises:
            AirflowSensorTimeout: the service was not ready in time.
            AirflowFailException: waiting cannot help, or the event is not from
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
                raise AirflowFailException(f"The trigger fired an unknown event: {event!r}")


class KnowledgeBotAnswerSensor(QuestionsTask, BaseSensorOperator):
    """Waits until a bot answers questions as expected, that is, until it knows its new sources.

    The service accepts a source long before a bot can answer from it, and does not report its
    status, so asking is the only way to find out. Each poke asks the questions that have not passed
    yet, once, each in a new conversation (POST /messages). Every message counts against the quota:
    use one question that only the newest source can answer, and a long `poke_interval`.

    Wrong answers, connection failures, timeouts, 429 and 5xx mean "not yet". What waiting cannot
    help fails at once: a key, quota or bot that the service refuses, a parameter that cannot be
    used.

    It cannot be deferred, since a restarted triggerer would ask again; `mode="reschedule"` frees
    the worker's slot between two pokes. On Airflow 3.3 what has passed is not asked again, by any
    later poke or try. Airflow 3.1 and 3.2 keep nothing between processes: there a rescheduled poke
    asks everything, and only `mode="poke"` remembers what has passed.

    XCom, once it is done: as for `KnowledgeBotCheckOperator`, from the last poke.

    Args:
        bot_id: the bot that is asked (templated); by default the connection's `default_bot_id`.
        questions: what is asked and what the answers must hold (templated), as
            `KnowledgeBotCheckOperator` takes them.
        file: a file of questions instead (templated), as there.
        min_pass: the share of the questions that has to pass, 0 to 1.
        concurrency: how many messages are in flight at most.
        mode: `reschedule`, or `poke`, which holds the worker's slot.
        poke_interval: seconds (or a timedelta) between two pokes.
        timeout: seconds (or a timedelta) after which it fails; by default an hour, since messages
            cost, and not Airflow's week.
        knowledge_bot_conn_id: the connection (templated).
        kwargs: of every sensor: `soft_fail`, `exponential_backoff`, `max_wait` and so on.
    """

    _progress: "CheckProgress | None" = None
    _open = ""

    def __init__(
        self,
        *,
        mode: str = "reschedule",
        poke_interval: timedelta | float = 60.0,
        timeout: timedelta | float = 3600.0,
        **kwargs: "Unpack[AnswerSensorArguments]",
    ) -> None:
        given: Any = {"mode": mode, "poke_interval": poke_interval, "timeout": timeout, **kwargs}
        super().__init__(**given)

    def execute(self, context: "Context") -> Any:
        """Poke until enough has passed.

        Raises:
            AirflowSensorTimeout: too few answers were as expected in time; it names the others.
            AirflowFailException: waiting cannot help.
        """
        # Airflow may use one operator object for several runs.
        self._progress = None
        try:
            return super().execute(context)
        except AirflowSensorTimeout as error:
            raise AirflowSensorTimeout(f"{error} {self._open}") from None

    def poke(self, context: "Context") -> PokeReturnValue:
        """Ask the questions that have not passed yet, once.

        Raises:
            AirflowFailException: waiting cannot help.
        """
        from airflow_knowledge_bot.checks import CheckProgress, ask, failure_of, log_open, summary
        from airflow_knowledge_bot.memory import TaskMemory
        from knowledge_bot.adapters import storable

        if self._progress is None:
            self._progress = CheckProgress(TaskMemory(context, "checks"))
        with self._service({}) as hook:
            report = ask(self, hook, self._progress)
        if (failure := failure_of(report, waiting=True)) is not None:
            raise failure
        if report.ok:
            self.log.info("%s", report.summary())
        else:
            self._open = log_open(report)
        return PokeReturnValue(is_done=report.ok, xcom_value=storable(summary(report)))
