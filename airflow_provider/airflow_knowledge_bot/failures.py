"""What a failed request means for the task: retry later, or fail at once.

Airflow retries a failed task unless it raises `AirflowFailException`. A POST may be retried only if
the service cannot have acted on it, or the DAG's author allows it (`error.delivery`), and only if
the same request may succeed next time (`error.may_pass`).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from airflow_knowledge_bot._compat import AirflowFailException, AirflowNotFoundException
from knowledge_bot.adapters import storable
from knowledge_bot.errors import (
    APIError,
    ConfigurationError,
    Delivery,
    KnowledgeBotError,
    UnsupportedError,
)

# The parameters whose values name something that the service may not know.
_NAMING = ("bot_id", "collections", "conversation_id", "url")

_MAY_HAVE_ACTED = "Airflow does not retry this; clear the task to send the request once more."


@contextmanager
def task_fails_for_good(
    conn_id: str, parameters: Mapping[str, Any], on_unknown: str
) -> Iterator[None]:
    """Turn errors after which a POST must not, or need not, be retried into `AirflowFailException`.

    Args:
        conn_id: the task's connection, named if the key is at fault.
        parameters: the task's own parameters, to name the one that the service refused.
        on_unknown: `resend` leaves what the service may have acted on to Airflow's next try.

    Raises:
        AirflowFailException: the service may have acted or refused for good, or there is no such
            connection.
        KnowledgeBotError: unchanged, if the next try may send the request again.
    """
    try:
        yield
    except AirflowNotFoundException as error:
        raise AirflowFailException(no_connection(conn_id)) from error
    except KnowledgeBotError as error:
        if error.may_pass and (error.delivery is not Delivery.UNKNOWN or on_unknown == "resend"):
            raise
        raise AirflowFailException(storable(_sentence(error, parameters))) from error


def no_connection(conn_id: str) -> str:
    """Return the sentence about a connection that does not exist."""
    return (
        f"The task's parameter 'knowledge_bot_conn_id' names a connection that does not exist: "
        f"{conn_id!r}. Nothing was sent."
    )


def _sentence(error: KnowledgeBotError, parameters: Mapping[str, Any]) -> str:
    if error.delivery is Delivery.UNKNOWN:
        return f"{error} {_MAY_HAVE_ACTED}"
    if isinstance(error, APIError) and (name := _parameter_at_fault(error, parameters)):
        return f"{error} The refusal is about the task's parameter {name!r}."
    if isinstance(error, ConfigurationError) and not isinstance(error, UnsupportedError):
        # The task's parameters are named like the client's arguments, or longer.
        ours = (name for name in parameters if name.endswith(f"_{error.argument}"))
        text = str(error).removeprefix(f"{error.argument}: ")
        longer = next(ours, None) if text != str(error) else None
        return f"Nothing was sent: {f'{longer}: {text}' if longer else error}"
    return str(error)


def _parameter_at_fault(error: APIError, parameters: Mapping[str, Any]) -> str | None:
    # The values of `code` are not documented (interface section 7), but a useful message quotes the
    # value that it does not know.
    for name in _NAMING:
        value = parameters.get(name) or ()
        if any(text in error.message for text in ([value] if isinstance(value, str) else value)):
            return name
    return None
