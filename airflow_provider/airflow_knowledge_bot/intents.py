"""Write-ahead intents: what a later try of a task must know of the request of an earlier one.

XCom is cleared when a try begins, and a worker can be killed in the middle of a request. So, before
the request leaves, an intent is written to the task's state store (Airflow 3.3; all tries of a task
instance share it), and after it, the answer. Airflow 3.1 and 3.2 have no such store: there, a
worker killed in the middle of a request is the one case in which a retry sends it again.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, cast

from airflow_knowledge_bot._compat import AirflowFailException
from knowledge_bot.errors import Delivery, KnowledgeBotError

if TYPE_CHECKING:
    from airflow.sdk import Context

OnUncertain = Literal["fail", "resend"]
"""What to do where the service may have acted on a request whose answer never arrived."""

# Holds `max_tries` and either the `answer` or a `state`: `sending`, or `reported` once the task has
# failed for a person to look at.
_KEY = "knowledge_bot_request"

_UNCERTAIN = (
    "An earlier try of this task ended in the middle of its request, so that the service may have "
    "acted on it. Nothing was sent this time. Look in the service first; clear the task to send "
    "the request again."
)


def send_once(
    context: "Context", send: Callable[[], dict[str, Any]], on_uncertain: OnUncertain
) -> dict[str, Any]:
    """Send a task's one request, unless an earlier try did.

    A task that a person cleared starts anew, except where nobody was told yet that the outcome of
    its request is uncertain.

    Args:
        context: the task's context.
        send: sends the request and returns its answer as plain JSON.
        on_uncertain: `fail` never sends twice, `resend` never loses.

    Returns:
        The answer, this try's or the earlier one's.

    Raises:
        AirflowFailException: an earlier try may have sent it, and `on_uncertain` is `fail`.
        Exception: what `send` raises.
    """
    store = context.get("task_state_store")
    if store is None:
        return send()
    # Clearing a task raises its `max_tries`, trying again does not.
    start = {"max_tries": context["ti"].max_tries}
    earlier = cast("dict[str, Any]", store.get(_KEY) or {})
    same_start = earlier.get("max_tries") == start["max_tries"]
    if same_start and "answer" in earlier:
        return dict(earlier["answer"])
    uncertain = earlier.get("state") == "sending" or (
        same_start and earlier.get("state") == "reported"
    )
    if uncertain and on_uncertain == "fail":
        store.set(_KEY, {**start, "state": "reported"})
        raise AirflowFailException(_UNCERTAIN)
    store.set(_KEY, {**start, "state": "sending"})
    try:
        answer = send()
    except AirflowFailException:
        store.delete(_KEY)  # the operator's own, raised before anything was sent
        raise
    except KnowledgeBotError as error:
        if error.delivery is not Delivery.UNKNOWN:
            store.delete(_KEY)
        elif on_uncertain == "fail":
            store.set(_KEY, {**start, "state": "reported"})
        raise
    store.set(_KEY, {**start, "answer": answer})
    return answer
