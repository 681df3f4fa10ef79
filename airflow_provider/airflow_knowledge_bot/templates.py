"""Which parts of the items in a DAG file are templates: their names, keys and addresses.

Their content is not, nor is a document's: a text about Helm or Jinja has braces of its own, and
rendering a string costs more than sending it. Values from an upstream task are not rendered, as
everywhere in Airflow.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_knowledge_bot._compat import AirflowFailException

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import BaseOperator, Context

_NOT_TEMPLATES = ("content", "text", "page_content", "metadata")


class Rendering:
    """Renders items for one try of a task.

    Args:
        operator: renders as Airflow does.
        context: the task's context.
        jinja_env: Airflow's Jinja environment.
        seen: ids of values that are rendered already, such as a mapped task's arguments.
    """

    def __init__(
        self,
        operator: "BaseOperator",
        context: "Context",
        jinja_env: "jinja2.Environment",
        seen: set[int],
    ) -> None:
        self._operator, self._context, self._env, self._seen = operator, context, jinja_env, seen
        self._marks = (
            jinja_env.block_start_string,
            jinja_env.variable_start_string,
            jinja_env.comment_start_string,
            *filter(None, (jinja_env.line_statement_prefix, jinja_env.line_comment_prefix)),
        )

    def __call__(self, parameter: str, items: Any) -> Any:
        """Return a parameter's items, rendered.

        Args:
            parameter: its name, for errors.
            items: a list from the DAG file, a template or an upstream task's output that gives one,
                or a function, which is not called.

        Raises:
            AirflowFailException: a template in them cannot be rendered.
        """
        if callable(items) or id(items) in self._seen:
            return items
        from jinja2 import TemplateError

        try:
            if isinstance(items, list | tuple):
                return [self._item(item) for item in items]
            if isinstance(items, dict):  # not a list, which is reported later
                return items
            return self._rendered(items)
        except TemplateError as error:
            reason = str(error).rstrip(". ")
            raise AirflowFailException(
                f"The task's parameter {parameter!r} cannot be rendered: {reason}. Correct the "
                "template, or keep its braces in {% raw %}. Nothing was sent."
            ) from error

    def _item(self, item: Any) -> Any:
        if not isinstance(item, dict):
            return self._rendered(item)
        return {
            field: value if self._is_plain(field, value) else self._rendered(value)
            for field, value in item.items()
        }

    def _is_plain(self, field: object, value: object) -> bool:
        """Return whether a value is not a template, or would not change if it were rendered."""
        if isinstance(value, str):
            return field in _NOT_TEMPLATES or not any(mark in value for mark in self._marks)
        if isinstance(value, Mapping):
            return field in _NOT_TEMPLATES
        return value is None or isinstance(value, os.PathLike)

    def _rendered(self, value: Any) -> Any:
        return self._operator.render_template(value, self._context, self._env, self._seen)
