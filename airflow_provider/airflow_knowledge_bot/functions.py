"""Functions that a DAG's author passes to a task: their parameters, and how they are called."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import Parameter
from typing import Any

from airflow.sdk.definitions.context import KNOWN_CONTEXT_KEYS

from airflow_knowledge_bot._compat import AirflowFailException

_SEVERAL = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def check_function(parameter: str, function: Callable[..., Any]) -> None:
    """Refuse a function that no run could call, while the DAG is parsed.

    Raises:
        ValueError: it is asynchronous, or needs something that is not in Airflow's context.
    """
    subject = f"{parameter}: the function {name_of(function)!r}"
    if hasattr(function, "_airflow_is_task_decorator"):
        raise ValueError(f"{subject} is a task: call it, as in {parameter}={name_of(function)}()")
    check_synchronous(parameter, function)
    try:
        _given(function, dict.fromkeys(KNOWN_CONTEXT_KEYS), (), object)
    except TypeError as error:
        raise ValueError(
            f"{subject}: {error}: Airflow's context is passed by name. Give what is not in it a "
            "default, bind it with functools.partial, or name a part of the context, such as "
            "dag_run, params or ti"
        ) from None


def check_synchronous(parameter: str, function: Callable[..., Any]) -> None:
    """Refuse a function that would have to be awaited, while the DAG is parsed."""
    inner = function.func if isinstance(function, partial) else function
    for each in (inner, getattr(inner, "__call__", None)):  # noqa: B004 - an object's own
        if inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each):
            raise ValueError(
                f"{parameter}: the function {name_of(function)!r} is asynchronous; write it with "
                "'def' instead of 'async def'"
            )


def call_with_context(
    function: Callable[..., Any],
    context: Mapping[str, Any],
    arguments: Sequence[Any] = (),
    *,
    jinja_env: Callable[[], object] = object,
) -> Any:
    """Call a function with the parts of a task's context that it names.

    Args:
        function: what the DAG's author wrote. With `**context` it gets all parts; it may also name
            `context` and `jinja_env`, as a callable in a template field (apache/airflow#48375).
        context: the task's context, and whatever else can be named.
        arguments: positional arguments, which come first.
        jinja_env: makes Airflow's Jinja environment, if the function names it.

    Raises:
        AirflowFailException: it needs a part that this run's context lacks.
        Exception: what the function raises.
    """
    try:
        given = _given(function, context, arguments, jinja_env)
    except TypeError as error:
        raise AirflowFailException(
            f"The function {name_of(function)!r}: {error}. This run's context does not have it: a "
            "run without a logical date has no ds, ts or data_interval_start. Give it a default, "
            "or take dag_run.run_after. Nothing was sent."
        ) from None
    return function(*arguments, **given)


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function as its author knows it."""
    inner = function.func if isinstance(function, partial) else function
    return str(getattr(inner, "__name__", type(inner).__name__))


def _given(
    function: Callable[..., Any],
    context: Mapping[str, Any],
    arguments: Sequence[Any],
    jinja_env: Callable[[], object],
) -> dict[str, Any]:
    """Return what a function is called with by name; a `TypeError` where something is missing."""
    signature = inspect.signature(function)
    kinds = {each.name: each.kind for each in signature.parameters.values()}
    # The signature of a functools.partial still shows the keywords that it has bound.
    bound = function.keywords if isinstance(function, partial) else {}
    taken = {*bound, *signature.bind_partial(*arguments).arguments}
    named = {name for name, kind in kinds.items() if kind not in _SEVERAL} - taken
    passed = set(context) - taken if Parameter.VAR_KEYWORD in kinds.values() else named
    given = {name: context[name] for name in passed & set(context)}
    for name, make in (("context", lambda: context), ("jinja_env", jinja_env)):
        if name in named and name not in given:
            given[name] = make()
    signature.bind(*arguments, **given)
    return given
