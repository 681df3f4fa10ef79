"""From the ingest operator's parameters to the items that are ingested."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pydantic import ValidationError

from airflow_knowledge_bot._compat import AirflowFailException
from airflow_knowledge_bot.objects import found
from airflow_knowledge_bot.operators.request import check_several
from airflow_knowledge_bot.rows import rows_of
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest import (
    File,
    Item,
    Skipped,
    Text,
    WebPage,
    from_feed,
    from_folder,
    from_jsonl,
    from_loader,
    from_rows,
    from_site,
    from_sitemap,
    from_urls,
)

# Which field of a dict tells what kind of item it is.
_KINDS: dict[str, type[Item]] = {"url": WebPage, "content": Text, "path": File}

# What finds the items of a place, and so knows its options; `items` has none.
_FINDING: dict[str, Callable[..., Any]] = {
    "folder": from_folder,
    "objects": found,
    "site": from_site,
    "sitemap": from_sitemap,
    "feed": from_feed,
    "urls": from_urls,
    "jsonl": from_jsonl,
    "sql": from_rows,
    "documents": from_loader,
}

# Where a document has its text, and how many fields of one that has none are named.
_TEXTS = ("page_content", "text")
_FIELDS = 10

# The operator has a parameter of its own for it.
_NO_OPTION = "origin"


class Items:
    """The items of the one place that a task names.

    Args:
        place: the parameter that names it.
        value: its value; a function is called each time.
        options: the task's `source_options`.
        sql_conn_id: the connection of a query.
        alone: makes a context in which code of the DAG's author runs, which may call Airflow.

    Attributes:
        origin: what the ledger knows the place by; None where it has no name of its own.
        collections: those that items named for themselves so far.
        found: the items, to be taken once.

    Raises:
        AirflowFailException: the place or an option cannot be used, or is not there.
    """

    def __init__(
        self,
        place: str,
        value: Any,
        options: Any = None,
        *,
        sql_conn_id: str | None = None,
        alone: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._place, self._value, self._sql_conn_id = place, value, sql_conn_id
        self._alone = alone
        self._options = _checked(place, options)
        self.collections: set[str] = set()
        self.found: Any = self._found()
        self.origin: str | None = getattr(self.found, "origin", None)

    def _found(self) -> Any:
        place, value = self._place, self._value
        if place in ("items", "documents"):
            value = self._called(value)
            check_several(place, value, Item, "items")
        elif place in ("folder", "jsonl"):
            value = _there(place, value)
        elif place == "urls":
            value = _there(place, value) if isinstance(value, str | Path) else _texts(value)
        elif place in ("site", "sitemap", "feed") and not isinstance(value, str):
            raise _of_a_wrong_type(place, value, "an address as text")
        if place == "items":
            return self._noting(map(_item, self._each(value)))
        if place == "documents":
            return from_loader(map(_document, self._each(value)), **self._options)
        if place == "sql":
            return rows_of(value, self._sql_conn_id, self._options)
        try:
            items = _FINDING[place](value, **self._options)
        except (ConfigurationError, TypeError) as error:
            raise AirflowFailException(
                f"The task's parameter {place!r}, or an option in 'source_options', cannot be "
                f"used: {str(error).rstrip('.')}. Nothing was sent."
            ) from error
        if place == "jsonl":
            take = items.take
            return replace(items, take=lambda: self._noting(take()))
        return items

    def _called(self, value: Any) -> Any:
        if not callable(value):
            return value
        with self._alone():
            return value()

    def _each(self, given: Iterable[object]) -> Iterator[object]:
        with self._alone():
            iterator = iter(given)
        while True:
            with self._alone():
                try:
                    one = next(iterator)
                except StopIteration:
                    return
            yield one

    def _noting(self, items: Iterable[object]) -> Iterator[object]:
        for item in items:
            if named := getattr(item, "collections", None):
                self.collections.update(named)
            yield item


@cache
def _options_of(place: str) -> dict[str, bool]:
    """Return the names of a place's options, each with whether it must be given."""
    if place == "items":
        return {}
    _, *parameters = inspect.signature(_FINDING[place]).parameters.values()
    return {each.name: each.default is each.empty for each in parameters if each.name != _NO_OPTION}


def _checked(place: str, options: Any) -> dict[str, Any]:
    if options is None:
        options = {}
    if not isinstance(options, Mapping):
        raise _of_a_wrong_type("source_options", options, "a dict, as in {'exclude': '*.tmp'}")
    known = _options_of(place)
    there_are = ", ".join(known) or "none"
    for name in options:
        if name not in known:
            raise AirflowFailException(
                f"The task's parameter 'source_options' has {name!r}, which {place!r} does not "
                f"take. There are: {there_are}. Nothing was sent."
            )
    missing = [name for name, required in known.items() if required and not options.get(name)]
    if missing:
        raise AirflowFailException(
            f"The task's parameter 'source_options' lacks {' and '.join(map(repr, missing))}, "
            f"which {place!r} needs. There are: {there_are}. Nothing was sent."
        )
    return dict(options)


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


def _document(given: object) -> object:
    """Return a dict of a document, as Airflow hands it on, as the object that it was made of."""
    if not isinstance(given, dict):
        return given
    if any(isinstance(given.get(field), str) for field in _TEXTS):
        return SimpleNamespace(**{str(name): value for name, value in given.items()})
    has = f"has only {', '.join(map(repr, list(given)[:_FIELDS]))}" if given else "is empty"
    return _no_item(
        given,
        "it is no document: a dict needs its text in 'text' or 'page_content', as a string, and "
        f"perhaps 'metadata', and this one {has}",
    )


def _texts(addresses: Any) -> list[str]:
    # Those of a list of anything else would be told as none of the web, one by one.
    if not isinstance(addresses, list | tuple) or not all(isinstance(a, str) for a in addresses):
        raise _of_a_wrong_type("urls", addresses, "a file's path, or a list of addresses as text")
    return list(addresses)


def _there(parameter: str, given: object) -> Path:
    if not isinstance(given, str | Path):
        raise _of_a_wrong_type(parameter, given, "a path")
    path, is_folder = Path(given), parameter == "folder"
    if not (path.is_dir() if is_folder else path.is_file()):
        raise AirflowFailException(
            f"The task's parameter {parameter!r} names {'a folder' if is_folder else 'a file'} "
            f"that this worker does not have: {path}. Nothing was sent."
        )
    return path


def _of_a_wrong_type(parameter: str, given: object, wanted: str) -> AirflowFailException:
    return AirflowFailException(
        f"The task's parameter {parameter!r} is {type(given).__name__} where {wanted} is needed. "
        "Nothing was sent."
    )
