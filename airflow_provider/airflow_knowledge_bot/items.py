"""From the ingest operator's parameters to the items that it ingests."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pydantic import ValidationError

from airflow_knowledge_bot._compat import AirflowFailException
from airflow_knowledge_bot.objects import found
from airflow_knowledge_bot.rows import rows_of
from airflow_knowledge_bot.tasks import (
    NAMING,
    as_bool,
    as_number,
    as_several,
    check_several,
    wrong_type,
)
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

# The field of a dict that decides which kind of item it is.
_KINDS: dict[str, type[Item]] = {"url": WebPage, "content": Text, "path": File}

# What finds the items of a source, and so defines its options; `items` has none.
_FINDERS: dict[str, Callable[..., Any]] = {
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

# What a source is where it is no address.
_WANTED = {
    "folder": "a path",
    "jsonl": "a path",
    "urls": "a file's path, or a list of addresses as text",
    "sql": "a query as text",
}

# Where a document has its text. Where it has none, an error names so many of its fields.
_TEXTS = ("page_content", "text")
_FIELDS = 10

# The default of an option that has none.
_REQUIRED = inspect.Parameter.empty

# The operator has its own parameter for it.
_NO_OPTION = "origin"


class Items:
    """The items of the one source that a task names.

    Attributes:
        origin: the source's name in the ledger; None where it has none.
        collections: those that items have named for themselves so far.
        found: the items, to be iterated over once.

    Raises:
        AirflowFailException: the source or an option cannot be used, or does not exist.
    """

    def __init__(
        self,
        item_source: str,
        value: Any,
        options: Any = None,
        *,
        sql_conn_id: str | None = None,
    ) -> None:
        self._item_source, self._value, self._sql_conn_id = item_source, value, sql_conn_id
        self._options = _checked(item_source, options)
        self.collections: set[str] = set()
        self.found: Any = self._found()
        self.origin: str | None = getattr(self.found, "origin", None)

    def _found(self) -> Any:
        item_source, value = self._item_source, self._value
        if item_source in ("items", "documents"):
            value = value() if callable(value) else value
            check_several(item_source, value, Item, "items")
            if item_source == "items":
                return self._noting(map(_item, value))
            return from_loader(map(_document, value), **self._options)
        if item_source != "objects":
            is_list = item_source == "urls" and isinstance(value, list | tuple)
            kinds = str | Path if item_source in ("folder", "urls", "jsonl") else str
            if not all(isinstance(one, kinds) for one in (value if is_list else [value])):
                raise wrong_type(item_source, value, _WANTED.get(item_source, "an address as text"))
        if item_source == "sql":
            return rows_of(value, self._sql_conn_id, self._options)
        try:
            items = _FINDERS[item_source](value, **self._options)
        except (ConfigurationError, TypeError) as error:
            raise AirflowFailException(
                f"The task's parameter {item_source!r}, or an option in 'source_options', cannot "
                f"be used on this worker: {str(error).rstrip('.')}. Nothing was sent."
            ) from error
        if item_source == "jsonl":
            take = items.take
            return replace(items, take=lambda: self._noting(take()))
        return items

    def _noting(self, items: Iterable[object]) -> Iterator[object]:
        for item in items:
            if named := getattr(item, "collections", None):
                self.collections.update(named)
            yield item


@cache
def _options_of(item_source: str) -> dict[str, Any]:
    """Return the names of a source's options with their defaults; `_REQUIRED` is none."""
    if item_source == "items":
        return {}
    _, *parameters = inspect.signature(_FINDERS[item_source]).parameters.values()
    return {each.name: each.default for each in parameters if each.name != _NO_OPTION}


def _checked(item_source: str, options: Any) -> dict[str, Any]:
    options = {} if options is None else options
    if not isinstance(options, Mapping):
        raise wrong_type("source_options", options, "a dict, as in {'exclude': '*.tmp'}")
    known = _options_of(item_source)
    options_are = ", ".join(known) or "none"
    for name in options:
        if name not in known:
            raise AirflowFailException(
                f"The task's parameter 'source_options' has {name!r}, which {item_source!r} does "
                f"not take. Its options: {options_are}. Nothing was sent."
            )
    missing = [name for name, at in known.items() if at is _REQUIRED and not options.get(name)]
    if missing:
        raise AirflowFailException(
            f"The task's parameter 'source_options' lacks {' and '.join(map(repr, missing))}, "
            f"which {item_source!r} needs. Its options: {options_are}. Nothing was sent."
        )
    return {name: _read(name, value, known[name]) for name, value in options.items()}


def _read(name: str, value: Any, default: Any) -> Any:
    """Return an option's value, which a template may have turned into text."""
    if not isinstance(value, str) or isinstance(default, str):
        return value
    if isinstance(default, bool):
        return as_bool(name, value)
    if isinstance(default, int | float):
        return type(default)(as_number(name, value))
    return as_several(value)


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
                return _invalid(given, wrong)
    return _invalid(given, "it has none of the fields url, content and path")


def _invalid(given: dict[str, Any], reason: str) -> Skipped:
    names = (given.get(field) for field in NAMING)
    name = str(next(filter(None, names), "an item"))
    # Partial: an earlier run may have sent it, and then it must not count as gone.
    return Skipped(name, reason, invalid=True, partial=True)


def _document(given: object) -> object:
    """Return a document that Airflow passed on as a dict as an object again."""
    if not isinstance(given, dict):
        return given
    if any(isinstance(given.get(field), str) for field in _TEXTS):
        return SimpleNamespace(**{str(name): value for name, value in given.items()})
    has = f"has only {', '.join(map(repr, list(given)[:_FIELDS]))}" if given else "is empty"
    return _invalid(
        given,
        "it is no document: a dict needs its text as a string in 'text' or 'page_content', and may "
        f"have 'metadata'; this one {has}",
    )
