"""`kbot ingest loader`: a loader that is named on the command line, and its arguments."""

import inspect
import sys
from importlib import import_module
from typing import Any

import click

from knowledge_bot.origins._loader import LOADING, is_loader


def loader_of(name: str, arguments: dict[str, Any]) -> object:
    """Make a loader.

    Arguments that its class does not take go to its `load_data`, as many readers of LlamaIndex take
    there what they are to read.

    Raises:
        click.UsageError: it cannot be imported, is not a loader, or does not take the arguments.
    """
    made_by = _imported(name)
    if not (inspect.isclass(made_by) and is_loader(made_by)):
        raise click.UsageError(
            f"{name} is not a loader: expected a class with one of the methods {', '.join(LOADING)}"
        )
    load_data = getattr(made_by, "load_data", None)
    own, at_loading = _divided(name, made_by, load_data, arguments)
    try:
        loader: Any = made_by(**own)
    except Exception as error:  # noqa: BLE001 - a class may raise anything
        raise click.UsageError(f"{name} cannot be made: {_said(error, arguments)}") from None
    if not at_loading:
        return loader
    loading = {"load_data": lambda _: loader.load_data(**at_loading)}
    return type(type(loader).__name__, (), loading)()


def _imported(name: str) -> Any:
    module, colon, attribute = name.partition(":")
    parts = [*module.split("."), attribute]
    if not colon or not all(part.isidentifier() for part in parts):
        raise click.UsageError(
            f"{name!r} names no class: expected package.module:Class, such as "
            "llama_index.core:SimpleDirectoryReader"
        )
    if "" not in sys.path:  # the user's own module, beside the data
        sys.path.insert(0, "")
    try:
        found = getattr(import_module(module), attribute, None)
    except Exception as error:  # noqa: BLE001 - a module may raise anything
        lacks = isinstance(error, ModuleNotFoundError)
        next_step = "; install its package, or run this in the folder of the module" * lacks
        said = f"{module} cannot be imported: {_said(error, {})}{next_step}"
        raise click.UsageError(said) from None
    if found is None:
        raise click.UsageError(f"{module} has no {attribute}")
    return found


def _divided(
    name: str, made_by: Any, load_data: Any, arguments: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    own, at_loading = {}, {}
    takes, loads = _parameters(made_by), _parameters(load_data) if load_data else set()
    for argument, value in arguments.items():
        if takes is None or argument in takes:
            own[argument] = value
        elif loads is None or argument in loads:
            at_loading[argument] = value
        else:
            known = ", ".join(sorted(takes | loads)) or "none"
            raise click.UsageError(f"{name} takes no argument {argument!r}; it takes {known}")
    return own, at_loading


def _parameters(function: Any) -> set[str] | None:
    """Return the names that can be given; None where any can."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return None
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {each.name for each in parameters if each.kind in kinds} - {"self"}


def _said(error: Exception, arguments: dict[str, Any]) -> str:
    text = " ".join(str(error).split())[:300]
    for value in arguments.values():  # which may be secrets
        if isinstance(value, str) and len(value) > 3:
            text = text.replace(value, "***")
    return f"{type(error).__name__}: {text}".removesuffix(": ")
