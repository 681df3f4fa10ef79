"""Functions that a DAG's author gives to a task: what they may ask for, and how they are called."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import Parameter
from typing import Any

from airflow.sdk.definitions.context import KNOWN_CONTEXT_KEYS

from airflow_knowledge_bot._compat import AirflowFailException

# What Airflow hands to a callable in a template field (apache/airflow#48375), by the same names.
_ALSO = ("context", "jinja_env")

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_SEVERAL = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def check_function(parameter: str, function: Callable[..., Any]) -> None:
    """Refuse a function that no run could call, while the DAG is parsed.

    Args:
        parameter: the task's parameter that it is given as.
        function: what the DAG's author wrote.

    Raises:
        ValueError: it is asynchronous, or needs something that is no part of Airflow's context.
    """
    told = f"{parameter}: the function {name_of(function)!r}"
    if hasattr(function, "_airflow_is_task_decorator"):
        raise ValueError(f"{told} is a task: call it, as in {parameter}={name_of(function)}()")
    check_synchronous(parameter, function)
    for each in _parameters(told, function):
        if each.default is not Parameter.empty or each.kind in _SEVERAL:
            continue
        if each.kind is Parameter.POSITIONAL_ONLY:
            raise ValueError(
                f"{told} takes {each.name!r} by its position, where Airflow's context is given by "
                "names: take the / out of its signature"
            )
        if each.name not in KNOWN_CONTEXT_KEYS and each.name not in _ALSO:
            raise ValueError(
                f"{told} asks for {each.name!r}, which is no part of Airflow's context: give it a "
                "default, bind it with functools.partial, or name a part of the context, such as "
                "dag_run, params or ti"
            )


def check_synchronous(parameter: str, function: Callable[..., Any]) -> None:
    """Refuse a function that would have to be awaited.

    Args:
        parameter: what it is given as.
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
        function: what a DAG's author wrote. One with `**context` gets all parts, one that names
            `context` or `jinja_env` these.
        context: the task's context, and what else can be named.
        arguments: positional arguments, before those.
        jinja_env: makes Airflow's Jinja environment, where the function names it.

    Raises:
        AirflowFailException: it needs a part that this run's context does not have.
        Exception: what the function raises.
    """
    told = f"The function {name_of(function)!r}"
    parameters = _parameters(told, function)
    positional = [each for each in parameters if each.kind in _POSITIONAL][: len(arguments)]
    # What functools.partial has bound stays bound, although its signature still shows it.
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
                f"{told} asks for {each.name!r}, which this run's context does not have: a run "
                "without a logical date has no ds, ts or data_interval_start. Give it a default, "
                "or take dag_run.run_after. Nothing was sent."
            )
    return function(*arguments, **given)


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function as a person knows it."""
    inner = function.func if isinstance(function, partial) else function
    return str(getattr(inner, "__name__", type(inner).__name__))


def _parameters(told: str, function: Callable[..., Any]) -> list[Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # of some that are written in C
        raise ValueError(f"{told} does not tell what it takes: wrap it in one of yours") from None
