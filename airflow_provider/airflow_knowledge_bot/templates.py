"""Which parts of the items in a DAG file are templates: their names, keys and addresses.

Their content is not, nor is a document's: a text about Helm or Jinja has braces of its own, and
rendering a string costs more than sending it. Values from an upstream task are not rendered, as
everywhere in Airflow.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from airflow_knowledge_bot._compat import AirflowFailException

if TYPE_CHECKING:
    import jinja2

_NOT_TEMPLATES = ("content", "text", "page_content", "metadata")


def rendered(
    parameter: str, items: Any, render: Callable[[Any], Any], jinja_env: "jinja2.Environment"
) -> Any:
    """Return a parameter's items, rendered.

    They are a list from the DAG file, a template or an upstream task's output that gives one, or a
    function, which is not called.

    Raises:
        AirflowFailException: a template in them cannot be rendered.
    """
    from jinja2 import TemplateError

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

    def item_of(item: Any) -> Any:
        if not isinstance(item, dict):
            return render(item)
        return {name: field_of(name, value) for name, value in item.items()}

    try:
        if isinstance(items, list | tuple):
            return [item_of(item) for item in items]
        # Of a dict it is reported later that it is no list.
        return items if callable(items) or isinstance(items, dict) else render(items)
    except TemplateError as error:
        reason = str(error).rstrip(". ")
        raise AirflowFailException(
            f"The task's parameter {parameter!r} cannot be rendered: {reason}. Correct the "
            "template, or keep its braces in {% raw %}. Nothing was sent."
        ) from error
