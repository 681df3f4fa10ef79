"""Questions that a task asks a person, who answers them under *Required Actions* in the web UI.

This is Airflow's human-in-the-loop. From 3.3 on the task then waits in the state `awaiting_input`,
without a worker, a trigger or a pool's slot; before, it waits in the triggerer. Either way its
method `execute_complete` gets the answer.
"""

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow_knowledge_bot._compat import AirflowFailException

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context

_log = logging.getLogger(__name__)


def ask(
    operator: "BaseOperator",
    context: "Context",
    *,
    subject: str,
    body: str,
    options: Sequence[str],
    fields: Mapping[str, Mapping[str, Any]] | None = None,
    timeout: timedelta | None,
    kwargs: Mapping[str, Any] | None = None,
) -> NoReturn:
    """Ask a person, and end this part of the task.

    A task that is cleared or tried again shows the question of its first time, before Airflow 3.4.
    So an option, or a field, has to say itself what it stands for. The `subject` is the question in
    a line, and the `body` Markdown. `fields` are the form's, as the schemas of Airflow's `Param`s,
    each with its `default`; `execute_complete` gets `kwargs`, as plain JSON, beside the answer.
    """
    from airflow.sdk.execution_time.hitl import upsert_hitl_detail

    params: Any = {
        name: {"value": schema["default"], "description": None, "schema": dict(schema)}
        for name, schema in (fields or {}).items()
    }
    then: dict[str, Any] = {"method_name": "execute_complete", "kwargs": dict(kwargs or {})}
    question: dict[str, Any] = {"ti_id": context["ti"].id, "options": list(options)}
    upsert_hitl_detail(**question, subject=subject, body=body, params=params)
    _log.info("Waiting for a person, under Required Actions: %s", subject)
    try:
        from airflow.sdk.exceptions import TaskAwaitingInput
    except ImportError:  # 3.1 and 3.2
        from airflow.providers.standard.triggers.hitl import HITLTrigger

        end = None if timeout is None else datetime.now(UTC) + timeout
        trigger = HITLTrigger(**question, params=params, timeout_datetime=end)
        operator.defer(trigger=trigger, **then)
    raise TaskAwaitingInput(timeout=timeout, **then)


def answer_of(event: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the option that a person chose, empty if nobody did in time, and the form's fields.

    Raises:
        AirflowFailException: the answer cannot be used.
    """
    if event.get("error_type") == "timeout":
        _log.warning("Nobody answered in time.")
        return "", {}
    if "error" in event:
        raise AirflowFailException(f"The answer cannot be used: {event['error']}")
    (chosen,) = event["chosen_options"]
    _log.info("%s answered: %s", (event.get("responded_by_user") or {}).get("name"), chosen)
    return chosen, dict(event.get("params_input") or {})


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], more: int = 0) -> str:
    """Return rows as a table in Markdown, and how many more there are."""
    lines = [
        " | ".join(" ".join(str(cell).split()).replace("|", "\\|") for cell in line)
        for line in (columns, ["---"] * len(columns), *rows)
    ]
    written = "\n".join(f"| {line} |" for line in lines)
    return f"{written}\n\n… and {more} more." if more > 0 else written
