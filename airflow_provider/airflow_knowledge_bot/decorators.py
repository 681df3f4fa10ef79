"""A function as a task: the items that it yields or returns are ingested."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_knowledge_bot.operators.ingest import KnowledgeBotIngestOperator

# isort: split
from airflow.sdk.bases.decorator import DecoratedOperator, TaskDecorator, task_decorator_factory
from airflow.sdk.definitions.context import context_merge

from airflow_knowledge_bot.functions import call_with_context, check_synchronous, name_of

if TYPE_CHECKING:
    from airflow.sdk import Context


def knowledge_bot_ingest_task(
    python_callable: Callable[..., Iterable[Any]] | None = None, **kwargs: Any
) -> TaskDecorator:
    """Turn a function into a task that ingests the items it yields or returns.

    ```python
    @task.knowledge_bot_ingest(collections="col_shop", ledger_conn_id="ledger", origin_name="stock")
    def stock(shop: str, dag_run=None):
        for row in rows_of(shop):
            yield {"name": row.title, "content": row.text, "key": row.id}
    ```

    An item is a dict or an object of `knowledge_bot.ingest`, as for the operator's `origin`, and is
    not templated; the function may also return one of `knowledge_bot.origins`. The generator is
    read one item at a time while earlier ones are sent. A retry calls the function again, and so
    does a try that finds another run sending some of its items; what was sent is not sent again.

    Args:
        python_callable: the function, if the decorator is used without parentheses.
        kwargs: parameters of `KnowledgeBotIngestOperator` but `origin`.
    """
    return task_decorator_factory(
        python_callable=python_callable, decorated_operator_class=_IngestTask, **kwargs
    )


class _IngestTask(DecoratedOperator, KnowledgeBotIngestOperator):
    """An ingestion of the items that the function yields or returns."""

    custom_operator_name = "@task.knowledge_bot_ingest"
    template_fields: Sequence[str] = (
        *DecoratedOperator.template_fields,
        *KnowledgeBotIngestOperator.template_fields,
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **DecoratedOperator.template_fields_renderers,
        **KnowledgeBotIngestOperator.template_fields_renderers,
    }
    shallow_copy_attrs: Sequence[str] = (
        *DecoratedOperator.shallow_copy_attrs,
        *KnowledgeBotIngestOperator.shallow_copy_attrs,
    )

    def __init__(self, *, python_callable: Callable[..., Iterable[Any]], **kwargs: Any) -> None:
        if "origin" in kwargs:
            raise TypeError(
                "@task.knowledge_bot_ingest takes no 'origin': the function yields the items"
            )
        check_synchronous("@task.knowledge_bot_ingest", python_callable)
        # What Airflow's web UI shows until the function has run.
        origin = [f"(what {python_callable.__name__} yields)"]
        super().__init__(python_callable=python_callable, origin=origin, **kwargs)

    def execute(self, context: "Context") -> dict[str, Any]:
        """Call the function, and ingest its items.

        Raises:
            AirflowFailException: as the operator.
            IncompleteIngestionError: as the operator.
            Exception: what the function raises, once its earlier items are sent.
        """
        context_merge(context, self.op_kwargs)
        function, arguments = self.python_callable, tuple(self.op_args)

        def items() -> Any:
            return call_with_context(function, context, arguments, jinja_env=self.get_template_env)

        items.__name__ = name_of(function)  # for the log
        self.origin = items
        return KnowledgeBotIngestOperator.execute(self, context)
