"""Write-ahead intents: what a later try of a task must know about the request of an earlier one.

An intent is kept in the task's memory before the request leaves, and the answer after it. Where
Airflow keeps nothing between tries (3.1 and 3.2), and a worker is killed after its request, the
retry sends it again.

Where the service takes idempotency keys, the intent holds one, and a retry sends the request again
with the same key: the service answers it as it answered the first one, or acts on it now. Where
nothing is kept, each try makes the same key.
"""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from airflow_knowledge_bot._compat import AirflowException, AirflowFailException
from airflow_knowledge_bot.memory import TaskMemory, living
from knowledge_bot.adapters import new_key
from knowledge_bot.errors import Delivery, KnowledgeBotError

if TYPE_CHECKING:
    from knowledge_bot.adapters import Extensions

OnUnknown = Literal["hold", "resend"]
"""What to do where the service may have acted on a request whose answer never arrived."""

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


class Intent:
    """What the tries of one task instance share about its one request.

    A task that a person cleared starts over, unless the unknown outcome of its request has not been
    reported yet.

    What is kept is either the `answer` or a `state`: `sending`, with the request's `key` if it has
    one, or `reported` once the task has failed and asked for a person.

    Attributes:
        is_kept: whether a later try will know of this one, or make the same key.
    """

    def __init__(self, memory: TaskMemory, on_unknown: OnUnknown, what: str) -> None:
        self._memory, self._on_unknown, self._what = memory, on_unknown, what
        self.is_kept = memory.is_kept
        state = memory.earlier.get("state")
        was_reported = state == "reported" and not memory.is_cleared
        self._is_unknown = state == "sending" or was_reported

    def earlier_answer(self) -> dict[str, Any] | None:
        """Return the answer that an earlier try got, or None if there is none."""
        return None if self._memory.is_cleared else self._memory.earlier.get("answer")

    def key(self, extensions: "Extensions") -> str | None:
        """Return the idempotency key to send the request with; None where there can be none.

        Raises:
            AirflowFailException: an earlier try may have sent it without a key that still lives,
                and `on_unknown` is `hold`.
        """
        new = living(new_key() if self._memory.is_kept else self._memory.key(), extensions)
        self.is_kept = self.is_kept or new is not None
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
        if self._on_unknown == "hold":
            self._memory.keep(state="reported", what=what)
            raise AirflowFailException(_UNKNOWN.format(what=what))
        _log.warning(
            "on_unknown='resend': an earlier try may have sent the request (%s). It is sent "
            "again now, so its result may exist twice.",
            what,
        )
        return new

    def send(self, request: Callable[[], dict[str, Any]], key: str | None) -> dict[str, Any]:
        """Store the intent, send the request, and store its answer.

        Raises:
            AirflowException: the service may have acted, and the next try sends the same key.
            Exception: what `request` raises.
        """
        now = datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
        what = f"{self._what}, sent at {now}"
        self._memory.keep(state="sending", what=what, key=key)
        try:
            answer = request()
        except KnowledgeBotError as error:
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
                    "on_unknown='resend': the next try, if any, sends the request again (%s), so "
                    "its result may exist twice.",
                    what,
                )
            raise
        self._memory.keep(answer=answer)
        return answer
