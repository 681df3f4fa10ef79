"""What the provider's tasks have in common: the service that they reach, and their parameters."""

import ast
import json
import logging
import math
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from threading import Event
from typing import TYPE_CHECKING, Any, ClassVar, Unpack
from urllib.parse import urlsplit

from airflow_knowledge_bot._compat import AirflowFailException

# isort: split
from airflow.sdk import BaseOperator
from airflow.sdk.log import mask_secret

from airflow_knowledge_bot.hooks import KnowledgeBotHook

_log = logging.getLogger(__name__)

# The length of a line in a log or XCom that quotes somebody.
_CHARACTERS = 500

# The password of a login in an address.
_PASSWORD = re.compile(r"://[^\s/?#@:]*:([^\s/?#@]+)@")

if TYPE_CHECKING:
    from os import PathLike

    from airflow.sdk import Context, ObjectStoragePath

    from airflow_knowledge_bot.arguments import BaseOperatorArguments, ServiceArguments
    from knowledge_bot.checks import Question


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts of a parameter, of items only their addresses."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _texts(value.get("url"))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)
    elif hasattr(value, "template_fields"):  # an origin
        yield from _texts([*vars(value).values()])


def brief(text: str) -> str:
    """Return a text of others as one storable line of bounded length."""
    from knowledge_bot.adapters import storable

    line = storable(" ".join(text.split()))
    return line if len(line) <= _CHARACTERS else f"{line[:_CHARACTERS]}…"


def host_of(base_url: str) -> str:
    """Return host and port, without a user before them."""
    return urlsplit(base_url).netloc.rpartition("@")[2]


def without_secrets(address: str) -> str:
    """Return an address without user, connection id, key or query."""
    url = urlsplit(address)
    return f"{url.scheme}://{host_of(address)}{url.path}"


class ServiceTask(BaseOperator):
    """A task that calls the service of a connection.

    Its template fields are checked once it is made, not in its constructor, and what is secret in
    them is masked once they are rendered: in its logs, and where Airflow's web UI shows them.
    """

    template_fields: Sequence[str] = ("knowledge_bot_conn_id",)
    template_ext: Sequence[str] = ()
    ui_color = "#e3edf7"

    _iterated: ClassVar[Sequence[str]] = ()
    """The parameters that are read item by item, in each try anew."""

    _stop: Event | None = None
    """Ends a run early; made by `execute`, since operators are copied, and an event cannot be."""

    def __init__(
        self,
        *,
        knowledge_bot_conn_id: str = KnowledgeBotHook.default_conn_name,
        **kwargs: "Unpack[BaseOperatorArguments]",
    ) -> None:
        super().__init__(**kwargs)
        self.knowledge_bot_conn_id = knowledge_bot_conn_id

    def _set_xcomargs_dependencies(self) -> None:
        """Check what no run can use; Airflow calls this for each task that a DAG file makes."""
        super()._set_xcomargs_dependencies()
        for name in self._iterated:
            check_repeatable(name, getattr(self, name))

    def _do_render_template_fields(self, parent: Any, *given: Any, **named: Any) -> None:
        """Mask what is secret; Airflow calls this for a mapped task as well."""
        super()._do_render_template_fields(parent, *given, **named)
        if parent is self:
            addresses = (
                one for name in self.template_fields for one in _texts(getattr(self, name))
            )
            passwords = (found for one in addresses for found in _PASSWORD.findall(one))
            for secret in (*self._secrets(), *passwords):
                mask_secret(secret)

    def _secrets(self) -> Iterable[str]:
        """Return what is secret in the rendered template fields."""
        return ()

    def on_kill(self) -> None:
        """Start nothing new, and finish what is in flight, so that no outcome is unknown.

        Airflow kills the process five seconds later; requests without an answer are then unknown.
        """
        if self._stop is not None:
            self._stop.set()

    @contextmanager
    def _service(
        self, given: Mapping[str, Any], on_unknown: str = "resend"
    ) -> Iterator[KnowledgeBotHook]:
        """Give the connection's hook, and judge errors as `task_fails_for_good` does."""
        from airflow_knowledge_bot.failures import task_fails_for_good

        with task_fails_for_good(self.knowledge_bot_conn_id, given, on_unknown):
            check_filled(knowledge_bot_conn_id=self.knowledge_bot_conn_id)
            yield KnowledgeBotHook(self.knowledge_bot_conn_id)


class QuestionsTask(ServiceTask):
    """A task that asks a bot questions, and knows what the answers must hold."""

    template_fields: Sequence[str] = ("bot_id", "questions", "file", *ServiceTask.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = {"questions": "json"}

    _iterated = ("questions",)

    def __init__(
        self,
        *,
        bot_id: str | None = None,
        questions: "Iterable[Question | dict[str, Any]] | None" = None,
        file: "str | PathLike[str] | ObjectStoragePath | None" = None,
        min_pass: float = 1.0,
        concurrency: int = 4,
        **kwargs: "Unpack[ServiceArguments]",
    ) -> None:
        super().__init__(**kwargs)
        check_number("min_pass", min_pass, 0, 1)
        check_number("concurrency", concurrency, 1, whole=True)
        self.bot_id = bot_id
        self.questions = questions
        self.file = file
        self.min_pass = min_pass
        self.concurrency = concurrency


def hand_on(operator: "BaseOperator", context: "Context", result: dict[str, Any]) -> None:
    """Put the result of a task that fails into its XCom, as Airflow does for one that succeeds.

    It never stands in the way of what happened.
    """
    from knowledge_bot.adapters import storable

    if not operator.do_xcom_push:
        return
    try:
        context["ti"].xcom_push(key="return_value", value=storable(result))
    except Exception:  # noqa: BLE001 - whatever XCom's backend raises
        _log.exception("The task's result cannot be handed on.")


# While the DAG is parsed --------------------------------------------------------------------------


def check_on_unknown(value: object) -> None:
    """Raise a `ValueError` where it is neither `hold` nor `resend`."""
    if value not in ("hold", "resend"):
        raise ValueError(f"on_unknown is 'hold' or 'resend', not {value!r}")


def check_repeatable(name: str, given: object) -> None:
    """Raise a `ValueError` where it ends with its first use.

    Airflow would also see another DAG each time that it parses the file, which shows its address.
    """
    if isinstance(given, Iterator | AsyncIterator):
        raise ValueError(  # noqa: TRY004 - as for other arguments
            f"{name}: a {type(given).__name__} can be read only once, and a task may need it "
            "several times; give a list, or a function that returns it"
        )


def as_seconds(name: str, given: object, least: float = 0.0) -> float:
    """Return a duration, in seconds or a timedelta; raise a `ValueError` where it is none."""
    found = given.total_seconds() if isinstance(given, timedelta) else given
    check_number(name, found, least)
    return float(found)  # type: ignore[arg-type] # a number by now


def check_number(
    name: str, value: object, least: float, most: float = math.inf, *, whole: bool = False
) -> None:
    """Raise a `ValueError` where it is not a number, or not a `whole` one, or out of its range."""
    fits = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not fits or not least <= value <= most:  # type: ignore[operator] # a number by now
        what = "a whole number" if whole else "a number"
        limits = f"{least:g} or more" if most == math.inf else f"{least:g} to {most:g}"
        raise ValueError(f"{name}: expected {what}, {limits}, not {value!r}")


# Once the task is rendered: each raises AirflowFailException --------------------------------------


def as_bool(name: str, given: object, wanted: str = "true or false") -> bool:
    """Return a truth value that a template may have turned into text; `wanted` is for errors."""
    texts = {"true": True, "false": False, "none": False, "": False}
    found = texts.get(given.strip().lower()) if isinstance(given, str) else given
    if not isinstance(found, bool):
        raise AirflowFailException(
            f"The task's parameter {name!r} is {wanted}, not {given!r}. Nothing was done."
        )
    return found


def as_number(name: str, given: Any, what: str = "a number") -> float:
    """Return a number that a template may have turned into text; the error says what it is."""
    try:
        return given.total_seconds() if isinstance(given, timedelta) else float(given)
    except (TypeError, ValueError):
        raise AirflowFailException(
            f"The task's parameter {name!r} is {what}, not {given!r}. Nothing was done."
        ) from None


def as_several(given: Any) -> Any:
    """Return the list or the mapping that a template has turned into text; all else as it is."""
    text = given.strip() if isinstance(given, str) else ""
    if text[:1] in ("[", "{") and text[-1:] in ("]", "}"):
        for read in (json.loads, ast.literal_eval):
            with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
                return read(text)
    return given


def check_several(name: str, given: object, kind: Any, what: str) -> None:
    """Refuse a single one, of the class `kind`, and None, where several are wanted.

    A template turns a list into a text, which would be read as a list of characters.
    """
    if isinstance(given, str | bytes | dict | kind) or not isinstance(given, Iterable):
        raise AirflowFailException(
            f"The task's parameter {name!r} gives {type(given).__name__} instead of several "
            f"{what}: put a single one into a list, and pass an upstream task's list by its "
            "`.output`, not through a template. Nothing was sent."
        )


def check_filled(**parameters: object) -> None:
    """Refuse a parameter that is empty, or has an empty element."""
    for name, value in parameters.items():
        if _is_empty(value):
            raise AirflowFailException(
                f"The task's parameter {name!r} is empty once it is rendered ({value!r}): nothing "
                "was sent. Check what the template or the upstream task gives."
            )


def _is_empty(value: object) -> bool:
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, Sequence):
        return not value or any(_is_empty(item) for item in value)
    return value is None
