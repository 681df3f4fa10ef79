"""The operators: each sends one request that creates something, and its retries send it no more.

None of them can be deferred: a triggerer that is restarted runs its triggers again, and would send
the request again with them. Where answers are slow, raise the connection's `timeout`.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_knowledge_bot._compat import AirflowFailException
from airflow_knowledge_bot.hooks import KnowledgeBotHook

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from os import PathLike

    from airflow.sdk import Context, ObjectStoragePath

    from airflow_knowledge_bot.intents import OnUncertain
    from knowledge_bot import Client
    from knowledge_bot.models import Message, Source


class _RequestOperator(BaseOperator):
    """One request, made of the task's parameters; its answer becomes the task's XCom."""

    template_ext: Sequence[str] = ()
    ui_color = "#e3edf7"

    parameters: ClassVar[tuple[str, ...]]
    """The attributes that make the request, named as the interface names its fields."""
    required: ClassVar[tuple[str, ...]]
    """Those of them that must hold something once they are rendered."""
    default: ClassVar[tuple[str, str]]
    """The parameter that the connection may give instead, and the field of its extra that does."""
    answer_fields: ClassVar[dict[str, Any]]
    """What of the answer goes to XCom, as pydantic's `include` takes it: the documented fields."""

    def __init__(
        self,
        *,
        knowledge_bot_conn_id: str = KnowledgeBotHook.default_conn_name,
        on_uncertain: "OnUncertain" = "fail",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if on_uncertain not in ("fail", "resend"):
            raise ValueError(f"on_uncertain is 'fail' or 'resend', not {on_uncertain!r}")
        self.knowledge_bot_conn_id = knowledge_bot_conn_id
        self.on_uncertain = on_uncertain

    def execute(self, context: "Context") -> dict[str, Any]:
        """Send the request and return its answer as a small plain dict.

        Raises:
            AirflowFailException: the request cannot be sent as it is, the service refused it for
                good, or the service may have acted on it although no answer arrived
                (`on_uncertain="fail"`).
            KnowledgeBotError: Airflow may try the task again.
        """
        from airflow_knowledge_bot.failures import task_fails_for_good
        from airflow_knowledge_bot.intents import Intent

        request = {name: getattr(self, name) for name in self.parameters}
        with task_fails_for_good(self.knowledge_bot_conn_id, request, self.on_uncertain):
            hook = KnowledgeBotHook(self.knowledge_bot_conn_id)
            self._complete(request, hook)
            intent = Intent(context, self.on_uncertain)
            if (answer := intent.earlier_answer()) is not None:
                self.log.info("An earlier try sent the request; this is its answer.")
                return answer
            with self._opened(request) as ready, hook.get_conn() as client:
                return intent.send(
                    lambda: self._send(client, ready).model_dump(
                        mode="json", include=self.answer_fields
                    )
                )

    def _complete(self, request: dict[str, Any], hook: KnowledgeBotHook) -> None:
        """Add the connection's default and check what is required, before anything is sent."""
        name, field = self.default
        if request[name] is None:
            request[name] = getattr(hook.settings.extra, field)
            if request[name] is None:
                raise AirflowFailException(
                    f"The task's parameter {name!r} is not given, and the connection "
                    f"{self.knowledge_bot_conn_id!r} has no {field!r} in its extra. Set one."
                )
        for required in self.required:
            if _is_empty(request[required]):
                raise AirflowFailException(
                    f"The task's parameter {required!r} is empty once it is rendered "
                    f"({request[required]!r}): nothing was sent. Check what the template or the "
                    "upstream task gives."
                )

    def _opened(self, request: dict[str, Any]) -> "AbstractContextManager[dict[str, Any]]":
        """Open what the request is made of; a failure here is none of the request."""
        return nullcontext(request)

    @abstractmethod
    def _send(self, client: "Client", request: dict[str, Any]) -> "Source | Message":
        """Send the one request."""


class _CreateSourceOperator(_RequestOperator):
    """A request that creates a source."""

    default = ("collections", "default_collection_id")
    answer_fields: ClassVar[dict[str, Any]] = {
        "id": True,
        "name": True,
        "status": True,
        "collections": {"__all__": {"id", "name"}},
        "created_at": True,
    }

    def __init__(
        self, *, name: str, collections: "str | Sequence[str] | None" = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.name = name
        self.collections = collections


class KnowledgeBotCreateWebpageSourceOperator(_CreateSourceOperator):
    """Creates a source from a web page, which the service scrapes (POST /sources/webpage).

    XCom: `id`, `name`, `status` (`pending`: the service reads the page later), `collections` (each
    with `id` and `name`) and `created_at` (Unix milliseconds).

    Args:
        name: the source's name (templated).
        collections: id or ids of the collections it belongs to (templated); by default the
            connection's `default_collection_id`.
        url: the page's address (templated).
        headers: request headers that the service sends while it scrapes (templated). A secret in
            them belongs into a connection or a Variable that Airflow masks.
        knowledge_bot_conn_id: the connection (templated).
        on_uncertain: where the service may have acted although no answer arrived: `fail` for good,
            so that nothing is sent twice, or `resend` with Airflow's next try.
    """

    parameters = ("name", "collections", "url", "headers")
    required = ("name", "collections", "url")
    template_fields: Sequence[str] = (*parameters, "knowledge_bot_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"collections": "json", "headers": "json"}

    def __init__(
        self, *, url: str, headers: Mapping[str, str] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.url = url
        self.headers = headers

    def _send(self, client: "Client", request: dict[str, Any]) -> "Source":
        return client.create_webpage_source(**request)


class KnowledgeBotCreateTextSourceOperator(_CreateSourceOperator):
    """Creates a source from text (POST /sources/write).

    XCom: as of `KnowledgeBotCreateWebpageSourceOperator`.

    Args:
        name: the source's name (templated).
        collections: id or ids of the collections it belongs to (templated); by default the
            connection's `default_collection_id`.
        content: the text (templated).
        knowledge_bot_conn_id: the connection (templated).
        on_uncertain: where the service may have acted although no answer arrived: `fail` for good,
            so that nothing is sent twice, or `resend` with Airflow's next try.
    """

    parameters = ("name", "collections", "content")
    required = parameters
    template_fields: Sequence[str] = (*parameters, "knowledge_bot_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"collections": "json", "content": "md"}

    def __init__(self, *, content: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.content = content

    def _send(self, client: "Client", request: dict[str, Any]) -> "Source":
        return client.create_text_source(**request)


class KnowledgeBotUploadSourceOperator(_CreateSourceOperator):
    """Creates a source from a file, streamed in constant memory (POST /sources/upload).

    XCom: as of `KnowledgeBotCreateWebpageSourceOperator`.

    Args:
        name: the source's name (templated).
        collections: id or ids of the collections it belongs to (templated); by default the
            connection's `default_collection_id`.
        file: a path on the worker, the address of an object (`s3://connection@bucket/key`), or an
            `ObjectStoragePath` (templated). Object storage needs its own Airflow provider.
        filename: the name that the service sees (templated); by default the file's own.
        knowledge_bot_conn_id: the connection (templated).
        on_uncertain: where the service may have acted although no answer arrived: `fail` for good,
            so that nothing is sent twice, or `resend` with Airflow's next try.
    """

    parameters = ("name", "collections", "file", "filename")
    required = ("name", "collections", "file")
    template_fields: Sequence[str] = (*parameters, "knowledge_bot_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"collections": "json"}

    def __init__(
        self,
        *,
        file: "str | PathLike[str] | ObjectStoragePath",
        filename: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.file = file
        self.filename = filename

    @contextmanager
    def _opened(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        from airflow_knowledge_bot.objects import is_object, opened

        if is_object(request["file"]):
            with opened(request["file"]) as (stream, name):
                yield {**request, "file": stream, "filename": request["filename"] or name}
        else:
            yield request  # the client opens a path by itself, anew for each attempt

    def _send(self, client: "Client", request: dict[str, Any]) -> "Source":
        return client.upload_source(**request)


class KnowledgeBotSendMessageOperator(_RequestOperator):
    """Sends a message to a bot and returns its answer (POST /messages).

    XCom: `id`, `answer`, `conversation_id` and `created_at` (Unix milliseconds).

    Args:
        bot_id: the bot that is asked (templated); by default the connection's `default_bot_id`.
        content: the message (templated).
        conversation_id: the conversation that it continues (templated); by default a new one.
        knowledge_bot_conn_id: the connection (templated).
        on_uncertain: where the service may have acted although no answer arrived: `fail` for good,
            so that nothing is sent twice, or `resend` with Airflow's next try.
    """

    parameters = ("bot_id", "content", "conversation_id")
    required = ("bot_id", "content")
    default = ("bot_id", "default_bot_id")
    answer_fields: ClassVar[dict[str, Any]] = {
        "id": True,
        "answer": True,
        "conversation_id": True,
        "created_at": True,
    }
    template_fields: Sequence[str] = (*parameters, "knowledge_bot_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"content": "md"}

    def __init__(
        self,
        *,
        content: str,
        bot_id: str | None = None,
        conversation_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.bot_id = bot_id
        self.content = content
        self.conversation_id = conversation_id

    def _send(self, client: "Client", request: dict[str, Any]) -> "Message":
        return client.send_message(**request)


def _is_empty(value: object) -> bool:
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, Sequence):
        return not value or any(_is_empty(item) for item in value)
    return value is None
