"""The base of the operators that send one request, and checks of parameters."""

import ast
import json
import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from airflow.sdk import BaseOperator

from airflow_knowledge_bot._compat import AirflowFailException
from airflow_knowledge_bot.hooks import KnowledgeBotHook
from airflow_knowledge_bot.places import KnowledgeBotServiceLink, service_page, without_secrets

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from airflow.sdk import Context

    from airflow_knowledge_bot.connections import Settings
    from airflow_knowledge_bot.intents import Intent, OnUnknown
    from knowledge_bot import Client


T = TypeVar("T")

# How many characters of a message or a name identify it.
_LABEL = 60


class RequestOperator(BaseOperator):
    """Sends one request built from the task's parameters; its answer becomes the XCom."""

    template_ext: Sequence[str] = ()
    ui_color = "#e3edf7"
    operator_extra_links = (KnowledgeBotServiceLink(),)

    endpoint: ClassVar[str]
    """The method of the client that sends the request."""
    parameters: ClassVar[tuple[str, ...]]
    """The attributes that form the request, named like the interface's fields."""
    required: ClassVar[tuple[str, ...]]
    """The parameters that must not be empty once they are rendered."""
    default: ClassVar[tuple[str, str]]
    """The parameter with a default in the connection, and the field of its extra that holds it."""
    answer_fields: ClassVar[dict[str, Any]]
    """The answer's documented fields, which go to XCom; in the form of pydantic's `include`."""

    named_by: ClassVar[str]
    """The parameter by which a person recognises the request."""

    service_page = ""
    """Where the extra link leads, once the task knows its connection."""

    def __init__(
        self,
        *,
        knowledge_bot_conn_id: str,
        on_unknown: "OnUnknown",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_on_unknown(on_unknown)
        self.knowledge_bot_conn_id = knowledge_bot_conn_id
        self.on_unknown = on_unknown

    @property
    def label(self) -> str:
        """A mapped task's name in Airflow's grid, unless its DAG gives one."""
        return " ".join(str(getattr(self, self.named_by)).split())[:_LABEL]

    def execute(self, context: "Context") -> dict[str, Any]:
        """Send the request and return its answer as a small plain dict.

        Raises:
            AirflowFailException: the request cannot be sent as it is, the service refused it for
                good, or the service may have acted on it although no answer arrived
                (`on_unknown="hold"`).
            KnowledgeBotError: Airflow may try the task again.
        """
        from airflow_knowledge_bot.failures import task_fails_for_good
        from airflow_knowledge_bot.intents import Intent
        from airflow_knowledge_bot.memory import TaskMemory

        label_mapped_task(self.label, context)
        request = {name: getattr(self, name) for name in self.parameters}
        with task_fails_for_good(self.knowledge_bot_conn_id, request, self.on_unknown):
            check_filled("knowledge_bot_conn_id", self.knowledge_bot_conn_id)
            hook = KnowledgeBotHook(self.knowledge_bot_conn_id)
            self.service_page = service_page(hook.settings.base_url)
            self._complete(request, hook.settings)
            intent = Intent(TaskMemory(context), self.on_unknown, self._described())
            answer = intent.earlier_answer()
            with hook.get_conn() as client:
                self._check_service(client)
                if answer is not None:
                    self.log.info("An earlier try sent the request; its answer is returned.")
                else:
                    answer = self._sent(client, intent, request)
                answer = self._settled(client, answer, again=intent.is_kept)
        page = without_secrets(hook.settings.base_url)
        self.log.info("Created %s at %s.", self._created(request, answer), page)
        self._done(context, hook.settings.base_url, answer)
        return answer

    def _complete(self, request: dict[str, Any], settings: "Settings") -> None:
        """Add the connection's default and check what is required, before anything is sent."""
        name, field = self.default
        request[name] = given_or_default(name, request[name], field, settings)
        for several in ("collections", "headers"):
            if several in request:
                request[several] = as_several(request[several])
        for required in self.required:
            check_filled(required, request[required])

    def _described(self) -> str:
        """Return the request in a few words, for a person who looks for it in the service."""
        return f"{self.named_by} {self.label!r}"

    def _opened(self, request: dict[str, Any]) -> "AbstractContextManager[dict[str, Any]]":
        """Open the request's file, before the intent is stored: if this fails, nothing was sent."""
        return nullcontext(request)

    def _sent(self, client: "Client", intent: "Intent", request: dict[str, Any]) -> dict[str, Any]:
        """Send the request, unless an earlier try may have done so and must not be repeated."""
        from airflow_knowledge_bot.memory import extensions_of

        with self._opened(request) as ready:
            # What cannot be sent is reported before anything is, a ping included.
            getattr(type(client), self.endpoint)(**ready)
            key = intent.key(extensions_of(client))
            if not intent.is_kept and self.on_unknown == "hold":
                self.log.warning(
                    "This Airflow keeps nothing between the tries of a task: if the worker is "
                    "killed in the middle of the request, the next try sends it again."
                )
            send = partial(getattr(client, self.endpoint), **ready, idempotency_key=key)
            return intent.send(
                lambda: send().model_dump(mode="json", include=self.answer_fields), key
            )

    def _check_service(self, client: "Client") -> None:
        """Check that the service can do what the task needs, before anything is sent."""

    def _settled(
        self,
        client: "Client",  # noqa: ARG002 - a source asks it
        answer: dict[str, Any],
        *,
        again: bool,  # noqa: ARG002 - whether the next try finds the answer
    ) -> dict[str, Any]:
        """Return the answer once the service is done with what was sent."""
        return answer

    @abstractmethod
    def _created(self, request: dict[str, Any], answer: dict[str, Any]) -> str:
        """Return what was created, with its id and without its content, for the log."""

    @abstractmethod
    def _done(self, context: "Context", base_url: str, answer: dict[str, Any]) -> None:
        """Put the answer, which may be an earlier try's, into the events of the task's outlets."""


def hand_on(operator: BaseOperator, context: "Context", result: dict[str, Any]) -> None:
    """Put the result of a task that fails into its XCom, as Airflow does for one that succeeds."""
    if operator.do_xcom_push:
        context["ti"].xcom_push(key="return_value", value=result)


def label_mapped_task(label: str, context: "Context") -> None:
    """Show a mapped task by a name instead of its number, unless it has none, or its DAG says how.

    Airflow renders the template also while it handles an error, so that nothing in it may fail.
    """
    is_mapped = getattr(context.get("ti"), "map_index", -1) >= 0
    if is_mapped and label and context.get("map_index_template") is None:
        context["map_index_template"] = "{{ task.label }}"


def check_on_unknown(value: object) -> None:
    """Refuse a wrong `on_unknown` while the DAG is parsed, rather than when its task runs.

    Raises:
        ValueError: it is neither `hold` nor `resend`.
    """
    if value not in ("hold", "resend"):
        raise ValueError(f"on_unknown is 'hold' or 'resend', not {value!r}")


def check_number(
    name: str, value: object, least: float, most: float = math.inf, *, whole: bool = False
) -> None:
    """Refuse a number that is out of its range while the DAG is parsed.

    Raises:
        ValueError: it is not a number, or not a `whole` one, less than `least` or more than `most`.
    """
    fits = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not fits or not least <= value <= most:  # type: ignore[operator] # a number by now
        what = "a whole number" if whole else "a number"
        limits = f"{least:g} or more" if most == math.inf else f"{least:g} to {most:g}"
        raise ValueError(f"{name}: expected {what}, {limits}, not {value!r}")


def as_bool(name: str, given: object) -> bool:
    """Return a truth value that a template may have turned into text.

    Raises:
        AirflowFailException: it is none.
    """
    texts = {"true": True, "false": False, "none": False, "": False}
    found = texts.get(given.strip().lower()) if isinstance(given, str) else given
    if not isinstance(found, bool):
        raise AirflowFailException(
            f"The task's parameter {name!r} is true or false, not {given!r}. Nothing was done."
        )
    return found


def as_number(name: str, given: Any) -> float:
    """Return a number that a template may have turned into text.

    Raises:
        AirflowFailException: it is none.
    """
    try:
        return float(given)
    except (TypeError, ValueError):
        raise AirflowFailException(
            f"The task's parameter {name!r} is a number, not {given!r}. Nothing was done."
        ) from None


def as_several(given: Any) -> Any:
    """Return the list or the mapping that a template has turned into text; all else as it is."""
    text = given.strip() if isinstance(given, str) else ""
    if text[:1] in ("[", "{") and text[-1:] in ("]", "}"):
        for read in (json.loads, ast.literal_eval):
            with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
                return read(text)
    return given


def given_or_default(name: str, given: T | None, field: str, settings: "Settings") -> T | str:
    """Return a parameter's value, or the connection's default for it.

    Args:
        name: the parameter's name.
        given: its value, or None.
        field: the field of the connection's extra.
        settings: the connection.

    Raises:
        AirflowFailException: there is neither.
    """
    found: T | str | None = getattr(settings.extra, field) if given is None else given
    if found is None:
        raise AirflowFailException(
            f"The task's parameter {name!r} is not given, and the connection "
            f"{settings.conn_id!r} has no {field!r} in its extra. Set one."
        )
    return found


def check_several(name: str, given: object, kind: Any, what: str) -> None:
    """Refuse a parameter that is a single value, or None, instead of several.

    A template turns a list into a text, which would be read as a list of characters.

    Args:
        name: the parameter's name.
        given: its value.
        kind: the class of a single one.
        what: what several are called.

    Raises:
        AirflowFailException: it is not an iterable of them.
    """
    if isinstance(given, str | bytes | dict | kind) or not isinstance(given, Iterable):
        raise AirflowFailException(
            f"The task's parameter {name!r} gives {type(given).__name__} instead of several "
            f"{what}: put a single one into a list, and pass an upstream task's list by its "
            "`.output`, not through a template. Nothing was sent."
        )


def check_filled(name: str, value: object) -> None:
    """Refuse a parameter that is empty.

    Raises:
        AirflowFailException: it is empty, or has an empty element.
    """
    if _is_empty(value):
        raise AirflowFailException(
            f"The task's parameter {name!r} is empty once it is rendered ({value!r}): nothing was "
            "sent. Check what the template or the upstream task gives."
        )


def _is_empty(value: object) -> bool:
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, Sequence):
        return not value or any(_is_empty(item) for item in value)
    return value is None
