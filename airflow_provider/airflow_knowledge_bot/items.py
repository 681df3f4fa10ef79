"""From the ingest operator's parameters to the items that are ingested."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from airflow_knowledge_bot._compat import AirflowFailException, call_with_context
from airflow_knowledge_bot.objects import found
from knowledge_bot.ingest import (
    File,
    Item,
    Skipped,
    Text,
    WebPage,
    from_folder,
    from_jsonl,
    from_sitemap,
)

if TYPE_CHECKING:
    from airflow.sdk import Context

# Which field of a dict tells what kind of item it is.
_KINDS: dict[str, type[Item]] = {"url": WebPage, "content": Text, "path": File}


def items_of(name: str, value: Any, context: "Context") -> Iterable[object]:
    """Return the items of one of the operator's parameters.

    Args:
        name: the parameter's name.
        value: its value.
        context: the task's context, for a function that gives items.

    Raises:
        AirflowFailException: what the parameter names is not there.
    """
    if name == "items":
        given = call_with_context(value, context) if callable(value) else value
        _check_is_several(given)
        return map(_item, given)
    if name == "objects":
        return found(value)
    if name == "sitemap":
        return from_sitemap(value)
    _check_is_there(name, Path(value))
    return from_folder(value) if name == "folder" else from_jsonl(value)


def _item(given: object) -> object:
    if not isinstance(given, dict):
        return given
    for field, kind in _KINDS.items():
        if field in given:
            try:
                defaults = {"name": given["url"]} if kind is WebPage else {}
                return kind.model_validate(defaults | given)
            except ValidationError as error:
                # Without the value, which may be a whole text or a secret.
                wrong = "; ".join(f"{one['loc'][0]}: {one['msg']}" for one in error.errors())
                return _no_item(given, wrong)
            except TypeError as error:  # of a path, whose check goes before pydantic's own
                wrong = f"a field of it is of a wrong type: {error}"
                return _no_item(given, wrong)
    return _no_item(given, "it has none of the fields url, content and path")


def _no_item(given: dict[str, Any], reason: str) -> Skipped:
    told = (given.get(field) for field in ("name", "url", "path", "key"))
    name = str(next(filter(None, told), "an item"))
    # It may be known from an earlier run, and is not gone then.
    return Skipped(name, reason, invalid=True, partial=True)


def _check_is_several(given: object) -> None:
    # What a template makes of a list is a text, which would be taken for a list of characters.
    if isinstance(given, str | bytes | dict | Item) or not isinstance(given, Iterable):
        raise AirflowFailException(
            f"The task's parameter 'items' gives {type(given).__name__} instead of several items: "
            "put a single one into a list, and take an upstream task's list as its `.output`, not "
            "by a template. Nothing was sent."
        )


def _check_is_there(name: str, path: Path) -> None:
    if not (path.is_dir() if name == "folder" else path.is_file()):
        raise AirflowFailException(
            f"The task's parameter {name!r} names {'a folder' if name == 'folder' else 'a file'} "
            f"that this worker does not have: {path}. Nothing was sent."
        )
