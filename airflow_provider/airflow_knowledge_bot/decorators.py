"""`@task.knowledge_bot_text`: a function whose text becomes a source."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_knowledge_bot._compat import AirflowFailException

# isort: split
from airflow.sdk.bases.decorator import DecoratedOperator, TaskDecorator, task_decorator_factory
from airflow.sdk.definitions.context import context_merge

from airflow_knowledge_bot.functions import call_with_context
from airflow_knowledge_bot.operators import KnowledgeBotCreateTextSourceOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


def knowledge_bot_text_task(
    python_callable: Callable[..., str] | None = None, **kwargs: Any
) -> TaskDecorator:
    """Make a function a task that creates a source from the text it returns.

    ```python
    @task.knowledge_bot_text(
        name="Stock of {{ dag_run.run_after | ds }}", collections="col_shop"
    )
    def stock() -> str:
        return "…"
    ```

    Args:
        python_callable: the function, where the decorator stands without parentheses.
        kwargs: parameters of `KnowledgeBotCreateTextSourceOperator` but `content`. Where `name` is
            left out, it is the function's name.
    """
    return task_decorator_factory(
        python_callable=python_callable, decorated_operator_class=_TextTask, **kwargs
    )


class _TextTask(DecoratedOperator, KnowledgeBotCreateTextSourceOperator):
    """A text source whose content is what the function returns."""

    custom_operator_name = "@task.knowledge_bot_text"
    template_fields: Sequence[str] = (
        *DecoratedOperator.template_fields,
        *KnowledgeBotCreateTextSourceOperator.template_fields,
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **DecoratedOperator.template_fields_renderers,
        **KnowledgeBotCreateTextSourceOperator.template_fields_renderers,
    }

    def __init__(
        self, *, python_callable: Callable[..., str], name: str | None = None, **kwargs: Any
    ) -> None:
        if "content" in kwargs:
            raise TypeError("@task.knowledge_bot_text takes no 'content': the function returns it")
        super().__init__(
            python_callable=python_callable,
            name=python_callable.__name__ if name is None else name,
            # What Airflow's web UI shows until the function has run.
            content="(what the function returns)",
            **kwargs,
        )

    def execute(self, context: "Context") -> dict[str, Any]:
        """Call the function, then create the source from its text.

        Raises:
            AirflowFailException: the function returned no text; else as the operator.
            KnowledgeBotError: Airflow may try the task again.
        """
        context_merge(context, self.op_kwargs)
        content = call_with_context(self.python_callable, context, tuple(self.op_args))
        if not isinstance(content, str):
            raise AirflowFailException(
                f"The function {self.python_callable.__name__!r} returned "
                f"{type(content).__name__} where its task needs a text. Nothing was sent."
            )
        self.content = content
        return KnowledgeBotCreateTextSourceOperator.execute(self, context)
