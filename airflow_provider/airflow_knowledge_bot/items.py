"""From the ingest operator's `origin` to the items that it ingests."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from airflow_knowledge_bot._compat import AirflowFailException, AirflowNotFoundException
from airflow_knowledge_bot.objects import store_of
from airflow_knowledge_bot.tasks import as_several, check_several
from knowledge_bot.adapters import detail_of, item_of, storable
from knowledge_bot.ingest import Item, Skipped
from knowledge_bot.origins import JsonLines, Objects, Sql

if TYPE_CHECKING:
    import jinja2
    from airflow.providers.common.sql.hooks.sql import DbApiHook

    from knowledge_bot.origins import Memory

# The fields that name an item, the best first.
_NAMING = ("name", "url", "path", "key")

# The fields of an item that are no templates: a text about Helm or Jinja has braces of its own, and
# rendering a string costs more than sending it.
_NOT_TEMPLATES = ("content", "text", "page_content", "metadata")


@dataclass(frozen=True)
class Given:
    """Items that a DAG's author gives: a list, what a function yields, or lines of a file.

    Attributes:
        take: returns the items.
        name: what they are called.
        whole: whether these are all items of that name; else none is gone.
        collections: those that items name themselves, noted as they come.
    """

    take: Callable[[], Any]
    name: str
    whole: bool
    collections: set[str] = field(default_factory=set)

    def items(self, memory: "Memory | None" = None) -> Iterator[object]:  # noqa: ARG002 - as others
        """Yield the items."""
        for item in map(_item, self.take()):
            self.collections.update(getattr(item, "collections", None) or ())
            yield item


def origin_of(given: Any, name: str | None, task: str) -> Any:
    """Return what a task ingests: an origin as this worker reaches it, or items with a name.

    Args:
        given: an origin, a list of items, or a function without arguments that returns one of them.
        name: what the origin is called, if the DAG's author says it.
        task: what the items are called otherwise.

    Raises:
        AirflowFailException: it is none of these, or a connection is missing.
    """
    value = given() if callable(given) else given
    if not is_origin(value):
        check_several("origin", value, Item, "items")
        return Given(lambda: value, name or task, whole=name is not None)
    found: Any = replace(value, name=name) if name else value
    if isinstance(found, Objects):
        return store_of(found)
    if isinstance(found, Sql) and found.conn_id:
        return replace(found, connect=_hook(found.conn_id).get_conn)
    return Given(found.items, found.name, whole=True) if isinstance(found, JsonLines) else found


def is_origin(given: object) -> bool:
    """Return whether this is an origin, and no item or list."""
    is_named = isinstance(getattr(given, "name", None), str)
    return is_named and callable(getattr(given, "items", None))


def _item(given: object) -> object:
    if not isinstance(given, dict):
        return given
    try:
        return item_of(given)
    except ValueError as error:
        name = next(filter(None, map(given.get, _NAMING)), "an item")
        # Partial: an earlier run may have sent it, and then it must not count as gone.
        return Skipped(storable(str(name)), detail_of(error), invalid=True, partial=True)


# Templates ----------------------------------------------------------------------------------------


def rendered(given: Any, render: Callable[[Any], Any], jinja_env: "jinja2.Environment") -> Any:
    """Return an origin, rendered: its `template_fields`, or the fields of items in a DAG file.

    Raises:
        AirflowFailException: a template cannot be rendered, or what it gives cannot be used.
    """
    from jinja2 import TemplateError

    from knowledge_bot import ConfigurationError

    try:
        if is_origin(given):
            return given.rendered(lambda value: as_several(render(value)))
        if isinstance(given, list | tuple):
            return [_item_rendered(item, render, jinja_env) for item in given]
        # Of a dict it is reported later that it is no list.
        return given if callable(given) or isinstance(given, dict) else render(given)
    except TemplateError as error:
        reason = str(error).rstrip(". ")
        raise AirflowFailException(
            f"The task's parameter 'origin' cannot be rendered: {reason}. Correct the "
            "template, or keep its braces in {% raw %}. Nothing was sent."
        ) from error
    except ConfigurationError as error:
        raise AirflowFailException(
            f"The task's parameter 'origin' cannot be used once it is rendered: "
            f"{str(error).rstrip('.')}. Nothing was sent."
        ) from error


def _item_rendered(item: Any, render: Callable[[Any], Any], jinja_env: "jinja2.Environment") -> Any:
    if not isinstance(item, dict):
        return render(item)
    marks = (
        jinja_env.block_start_string,
        jinja_env.variable_start_string,
        jinja_env.comment_start_string,
        *filter(None, (jinja_env.line_statement_prefix, jinja_env.line_comment_prefix)),
    )

    def field_of(name: object, value: Any) -> Any:
        if name in _NOT_TEMPLATES or value is None or isinstance(value, os.PathLike):
            return value
        is_plain = isinstance(value, str) and not any(mark in value for mark in marks)
        return value if is_plain else render(value)

    return {name: field_of(name, value) for name, value in item.items()}


# A database that Airflow has a connection to ------------------------------------------------------


def _hook(conn_id: str) -> "DbApiHook":
    subject = f"The task's origin names the connection {conn_id!r}"
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise AirflowFailException(f"{subject}, which does not exist. Nothing was sent.") from error
    subject += f" of type {connection.conn_type!r}"
    try:
        from airflow.providers.common.sql.hooks.sql import DbApiHook

        hook = connection.get_hook()  # type: ignore[no-untyped-call] # Airflow leaves it untyped
    except Exception as error:  # Airflow raises its base class here, and what the import raises
        raise AirflowFailException(
            f"{subject}, which cannot be used on this worker ({error}). It may need pip install "
            "apache-airflow-providers-common-sql and the provider of that database, such as "
            "apache-airflow-providers-postgres. Nothing was sent."
        ) from error
    if not isinstance(hook, DbApiHook):
        raise AirflowFailException(
            f"{subject}, which is not a database that takes SQL. Nothing was sent."
        )
    return hook
