"""The notifier: a message about a run becomes a source, so that bots can answer questions on it."""

from collections.abc import Generator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

from airflow_knowledge_bot.hooks import KnowledgeBotHook

# isort: split
from airflow.sdk import BaseNotifier

from airflow_knowledge_bot.tasks import as_several

if TYPE_CHECKING:
    from airflow.sdk import Context


class KnowledgeBotTextNotifier(BaseNotifier):
    """Creates a source from a text about a task or a run (POST /sources/write), for a callback.

    Each call sends one text, once. If no answer arrives, Airflow's log says that the service may
    have it anyway, and nothing is sent again; a failure here does not change the state of the task
    or the run. Airflow calls an `on_retry_callback` in each failed try, and the other callbacks of
    a task in its last one.

    As an `AsyncCallback` of a deadline it runs in the triggerer, and a triggerer that restarts
    meanwhile runs it again: give deadlines a `SyncCallback`.

    Args:
        name: the source's name (templated).
        content: the text (templated).
        collections: id or ids of the collections it belongs to (templated); by default the
            connection's `default_collection_id`.
        knowledge_bot_conn_id: the connection (templated).
        context: Airflow's context, which Airflow passes.
    """

    template_fields: Sequence[str] = ("name", "content", "collections", "knowledge_bot_conn_id")
    template_ext: Sequence[str] = ()

    def __init__(
        self,
        *,
        name: str,
        content: str,
        collections: str | Sequence[str] | None = None,
        knowledge_bot_conn_id: str = KnowledgeBotHook.default_conn_name,
        context: "Context | None" = None,
    ) -> None:
        super().__init__(context)
        self.name = name
        self.content = content
        self.collections = collections
        self.knowledge_bot_conn_id = knowledge_bot_conn_id

    def __call__(self, *args: Any) -> None:
        """Send the text of this call; a notifier in `default_args` is called for many tasks."""
        # Airflow's base renders the object itself, so that a second call would not render again.
        super(KnowledgeBotTextNotifier, copy(self)).__call__(*args)

    def __await__(self) -> "Generator[Any, Any, Any]":
        """Send the text of this call, without blocking the event loop."""
        return super(KnowledgeBotTextNotifier, copy(self)).__await__()

    def notify(self, context: "Context") -> None:  # noqa: ARG002 - Airflow has rendered with it
        """Create the source.

        Raises:
            ValueError: the name or the text is empty once it is rendered.
            AirflowNotFoundException: there is no such connection.
            KnowledgeBotError: the source was not created, or, by its `delivery`, may have been.
        """
        self._check()
        hook = KnowledgeBotHook(self.knowledge_bot_conn_id)
        with hook.get_conn() as client:
            created = client.create_text_source(**self._request(hook))
        self.log.info("Created the source %s: %s", created.id, created.name)

    async def async_notify(self, context: "Context") -> None:  # noqa: ARG002 - likewise
        """Create the source without blocking the event loop.

        Raises:
            Exception: as `notify`.
        """
        self._check()
        hook = KnowledgeBotHook(self.knowledge_bot_conn_id)
        async with await hook.get_async_conn() as client:
            created = await client.create_text_source(**self._request(hook))
        self.log.info("Created the source %s: %s", created.id, created.name)

    def _check(self) -> None:
        for parameter in ("name", "content", "knowledge_bot_conn_id"):
            if not str(getattr(self, parameter) or "").strip():
                raise ValueError(
                    f"The notifier's parameter {parameter!r} is empty once it is rendered: nothing "
                    "was sent. Check what its template gives."
                )

    def _request(self, hook: KnowledgeBotHook) -> dict[str, Any]:
        collections = hook.settings.default("collections", self.collections)
        return {"name": self.name, "content": self.content, "collections": as_several(collections)}
