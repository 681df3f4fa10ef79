"""Write-ahead intents: what a later try of a task must know about the request of an earlier one.

XCom is cleared when a try begins, and a worker can be killed in the middle of a request. So an
intent is written to the task's state store before the request leaves (Airflow 3.3; all tries of a
task instance share the store), and the answer after it. Airflow 3.1 and 3.2 have no such store:
there, if a worker is killed after its request, the retry sends it again.
"""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, cast

from airflow_knowledge_bot._compat import AirflowFailException
from knowledge_bot.errors import Delivery, KnowledgeBotError

if TYPE_CHECKING:
    from airflow.sdk import Context

OnUnknown = Literal["hold", "resend"]
"""What to do where the service may have acted on a request whose answer never arrived."""

# Holds `max_tries` and either the `answer` or a `state`: `sending`, or `reported` once the task has
# failed and asked for a person.
_KEY = "knowledge_bot_request"

_log = logging.getLogger(__name__)

_UNKNOWN = (
    "An earlier try of this task ended in the middle of its request ({what}), so the service may "
    "have acted on it. Nothing was sent this time. Look in the service first; clear the task to "
    "send the request again."
)


class Intent:
    """What the tries of one task instance share about its one request.

    A task that a person cleared starts over, unless the unknown outcome of its request has not been
    reported yet.

    Args:
        context: the task's context.
        on_unknown: `hold` never sends twice, `resend` never loses.
        what: the request in a few words, for a person who looks for it in the service.

    Attributes:
        is_kept: whether a later try will know of this one.
    """

    def __init__(self, context: "Context", on_unknown: OnUnknown, what: str) -> None:
        self._on_unknown, self._what = on_unknown, what
        self._store = context.get("task_state_store")
        self.is_kept: bool = self._store is not None
        # Clearing a task raises its `max_tries`; a retry does not.
        self._start = {} if self._store is None else {"max_tries": context["ti"].max_tries}

    def earlier_answer(self) -> dict[str, Any] | None:
        """Return the answer that an earlier try got, or None if the request should be sent.

        Raises:
            AirflowFailException: an earlier try may have sent it, and `on_unknown` is `hold`.
        """
        if self._store is None:
            return None
        earlier = cast("dict[str, Any]", self._store.get(_KEY) or {})
        same_start = earlier.get("max_tries") == self._start["max_tries"]
        if same_start and "answer" in earlier:
            return dict(earlier["answer"])
        unknown = earlier.get("state") == "sending" or (
            same_start and earlier.get("state") == "reported"
        )
        if unknown and self._on_unknown == "hold":
            what = earlier.get("what", self._what)
            self._store_state(state="reported", what=what)
            raise AirflowFailException(_UNKNOWN.format(what=what))
        if unknown:
            _log.warning(
                "on_unknown='resend': an earlier try may have sent the request (%s). It is sent "
                "again now, so its result may exist twice.",
                earlier.get("what", self._what),
            )
        return None

    def send(self, request: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Store the intent, send the request, and store its answer.

        Args:
            request: sends the request and returns its answer as plain JSON.

        Raises:
            Exception: what `request` raises.
        """
        now = datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
        what = f"{self._what}, sent at {now}"
        self._store_state(state="sending", what=what)
        try:
            answer = request()
        except KnowledgeBotError as error:
            if error.delivery is not Delivery.UNKNOWN:
                self._forget()
            elif self._on_unknown == "hold":
                self._store_state(state="reported", what=what)
            else:
                _log.warning(
                    "on_unknown='resend': the next try, if any, sends the request again (%s), so "
                    "its result may exist twice.",
                    what,
                )
            raise
        self._store_state(answer=answer)
        return answer

    def _store_state(self, **what: Any) -> None:
        if self._store is not None:
            self._store.set(_KEY, {**self._start, **what})

    def _forget(self) -> None:
        if self._store is not None:
            self._store.delete(_KEY)
