"""Functions that a DAG's author passes to a task: their parameters, and how they are called."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import Parameter
from typing import Any

from airflow.sdk.definitions.context import KNOWN_CONTEXT_KEYS

from airflow_knowledge_bot._compat import AirflowFailException

# What Airflow passes to a callable in a template field (apache/airflow#48375), by the same names.
_PASSED_AS_WELL = ("context", "jinja_env")

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_SEVERAL = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def check_function(parameter: str, function: Callable[..., Any]) -> None:
    """Refuse a function that no run could call, while the DAG is parsed.

    Args:
        parameter: the task's parameter that holds it.
        function: what the DAG's author wrote.

    Raises:
        ValueError: it is asynchronous, or needs something that is not in Airflow's context.
    """
    subject = f"{parameter}: the function {name_of(function)!r}"
    if hasattr(function, "_airflow_is_task_decorator"):
        raise ValueError(f"{subject} is a task: call it, as in {parameter}={name_of(function)}()")
    check_synchronous(parameter, function)
    for each in _parameters(subject, function):
        if each.default is not Parameter.empty or each.kind in _SEVERAL:
            continue
        if each.kind is Parameter.POSITIONAL_ONLY:
            raise ValueError(
                f"{subject} takes {each.name!r} by position only, and Airflow's context is passed "
                "by name: remove the / from its signature"
            )
        if each.name not in KNOWN_CONTEXT_KEYS and each.name not in _PASSED_AS_WELL:
            raise ValueError(
                f"{subject} asks for {each.name!r}, which is not in Airflow's context: give it a "
                "default, bind it with functools.partial, or name a part of the context, such as "
                "dag_run, params or ti"
            )


def check_synchronous(parameter: str, function: Callable[..., Any]) -> None:
    """Refuse a function that would have to be awaited.

    Args:
        parameter: the parameter that holds it.
        function: what the DAG's author wrote.

    Raises:
        ValueError: it is asynchronous.
    """
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
            `context` and `jinja_env`.
        context: the task's context, and whatever else can be named.
        arguments: positional arguments, which come first.
        jinja_env: makes Airflow's Jinja environment, if the function names it.

    Raises:
        AirflowFailException: it needs a part that this run's context lacks.
        Exception: what the function raises.
    """
    subject = f"The function {name_of(function)!r}"
    parameters = _parameters(subject, function)
    positional = [each for each in parameters if each.kind in _POSITIONAL][: len(arguments)]
    # The signature of a functools.partial still shows the keywords that it has bound.
    bound = function.keywords if isinstance(function, partial) else {}
    taken = {*bound, *(each.name for each in positional)}
    given: dict[str, Any] = {}
    if any(each.kind is Parameter.VAR_KEYWORD for each in parameters):
        given = {name: value for name, value in context.items() if name not in taken}
    for each in parameters:
        if each.name in taken or each.kind in _SEVERAL:
            continue
        if each.name in context:
            given[each.name] = context[each.name]
        elif each.name == "context":
            given["context"] = context
        elif each.name == "jinja_env":
            given["jinja_env"] = jinja_env()
        elif each.default is Parameter.empty and each not in positional:
            raise AirflowFailException(
                f"{subject} asks for {each.name!r}, which this run's context does not have: a run "
                "without a logical date has no ds, ts or data_interval_start. Give it a default, "
                "or take dag_run.run_after. Nothing was sent."
            )
    return function(*arguments, **given)


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function as its author knows it."""
    inner = function.func if isinstance(function, partial) else function
    return str(getattr(inner, "__name__", type(inner).__name__))


def _parameters(subject: str, function: Callable[..., Any]) -> list[Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some functions written in C
        raise ValueError(f"{subject} has no signature: wrap it in a function of yours") from None
