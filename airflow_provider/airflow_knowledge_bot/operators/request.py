"""The operators that send one request each: they create a source, or ask a bot."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from airflow_knowledge_bot.hooks.knowledge_bot import plain
from airflow_knowledge_bot.tasks import (
    ServiceTask,
    as_several,
    brief,
    check_filled,
    check_on_unknown,
    without_secrets,
)

if TYPE_CHECKING:
    from os import PathLike

    from airflow.sdk import Context, ObjectStoragePath

    from airflow_knowledge_bot.arguments import (
        RequestArguments,
        ServiceArguments,
        SourceArguments,
    )
    from airflow_knowledge_bot.memory import Intent
    from knowledge_bot import Client
    from knowledge_bot.adapters import OnUnknown

# How many characters of a message or a name identify it.
_LABEL = 60

# Parameters whose names in the interface `default_args` for other operators would reach.
_SENT_AS = {"source_name": "name", "scrape_headers": "headers"}

# The parameters that may be empty.
_OPTIONAL = {"scrape_headers", "filename", "conversation_id"}


class RequestOperator(ServiceTask):
    """Sends one request built from the task's parameters; its answer becomes the XCom."""

    endpoint: ClassVar[str]
    """The method of the client that sends the request."""
    parameters: ClassVar[tuple[str, ...]]
    """The attributes that form the request, named like the interface's fields."""
    by_connection: ClassVar[str]
    """The one for which the connection has a default."""
    named_by: ClassVar[str]
    """The one by which a person recognises the request."""
    created: ClassVar[str]
    """What the request made, for the log: of its parameters, and of what the events are told."""
    told: ClassVar[Mapping[str, str]]
    """What the events of the task's outlets are told, beside collections: fields of the answer."""

    def __init__(
        self,
        *,
        on_unknown: "OnUnknown" = "hold",
        **kwargs: "Unpack[ServiceArguments]",
    ) -> None:
        super().__init__(**kwargs)
        check_on_unknown(on_unknown)
        self.on_unknown = on_unknown

    def execute(self, context: "Context") -> dict[str, Any]:
        """Send the request and return its answer as a small plain dict.

        Raises:
            AirflowFailException: the request cannot be sent as it is, the service refused it for
                good, or it may have acted on it although no answer arrived (`on_unknown="hold"`).
            KnowledgeBotError: Airflow may try the task again.
        """
        from airflow_knowledge_bot.assets.knowledge_bot import collection_uri, describe_outlets
        from airflow_knowledge_bot.memory import Intent
        from knowledge_bot.adapters import storable

        label = brief(str(getattr(self, self.named_by)))[:_LABEL]
        given = {name: getattr(self, name) for name in self.parameters}
        with self._service(given, self.on_unknown) as hook:
            name = self.by_connection
            given[name] = hook.settings.default(name, given[name])
            for several in given.keys() & {"collections", "scrape_headers"}:
                given[several] = as_several(given[several])
            check_filled(**{name: given[name] for name in given.keys() - _OPTIONAL})
            request = {_SENT_AS.get(name, name): value for name, value in given.items()}
            # For a person who looks for it in the service.
            what = f"{_SENT_AS.get(self.named_by, self.named_by)} {label!r}"
            place = {"endpoint": self.endpoint, "base_url": hook.settings.base_url}
            intent = Intent(context, place | request, self.on_unknown, what)
            with hook.get_conn() as client:
                if intent.answer is None:
                    answer = self._sent(client, intent, request)
                else:
                    self.log.info("An earlier try sent the request; its answer is returned.")
                    answer = intent.answer
        answer = storable(answer)
        extra: dict[str, Any] = {name: answer[field] for name, field in self.told.items()}
        if "collections" in answer:
            extra["collections"] = [collection["id"] for collection in answer["collections"]]
        created = self.created.format(**given | extra)
        base_url = hook.settings.base_url
        self.log.info("Created %s at %s.", storable(created), without_secrets(base_url))
        # The service does not say which collections a bot reads (interface section 2), so an alias
        # of a message stays empty.
        uris = [collection_uri(base_url, one) for one in extra.get("collections", ())]
        # Also of an answer that an earlier try got.
        describe_outlets(context, self.outlets, uris, extra)
        return answer

    def _sent(self, client: "Client", intent: "Intent", request: dict[str, Any]) -> dict[str, Any]:
        """Send the request, unless an earlier try may have done so and must not be repeated."""
        # If its file cannot be opened, nothing was sent, and no intent is stored.
        with _opened(request) if "file" in request else nullcontext(request) as ready:
            send = getattr(client, self.endpoint)
            return intent.send(client, lambda key: plain(send(**ready, idempotency_key=key)))


@contextmanager
def _opened(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Open the request's object; a file's path is opened by the client, once for each attempt."""
    from airflow_knowledge_bot.objects import is_object, opened

    if not is_object(request["file"]):
        yield request
        return
    with opened(request["file"]) as (stream, name):
        yield {**request, "file": stream, "filename": request["filename"] or name}


class _CreateSourceOperator(RequestOperator):
    """A request that creates a source."""

    by_connection = "collections"
    named_by = "source_name"
    created = "the source {source_id} {source_name!r} in {collections}"
    told: ClassVar[Mapping[str, str]] = {"source_id": "id", "source_name": "name"}

    def __init__(
        self,
        *,
        source_name: str,
        collections: "str | Sequence[str] | None" = None,
        **kwargs: "Unpack[RequestArguments]",
    ) -> None:
        super().__init__(**kwargs)
        self.source_name = source_name
        self.collections = collections


class KnowledgeBotCreateWebpageSourceOperator(_CreateSourceOperator):
    """Creates a source from a web page, which the service scrapes (POST /sources/webpage).

    XCom: `id`, `name`, `status` (`pending`: the service reads the page later), `collections` (each
    with `id` and `name`) and `created_at` (Unix milliseconds).

    Args:
        source_name: the source's name (templated).
        collections: id or ids of the collections it belongs to (templated); by default the
            connection's `default_collection_id`.
        url: the page's address (templated).
        scrape_headers: request headers that the service sends while it scrapes (templated); their
            values are masked in logs and in the web UI.
        knowledge_bot_conn_id: the connection (templated).
        on_unknown: what to do if the service may have acted although no answer arrived: `hold`
            fails for good, so that nothing is sent twice; `resend` lets Airflow's next try send it.
    """

    endpoint = "create_webpage_source"
    parameters = ("source_name", "collections", "url", "scrape_headers")
    template_fields: Sequence[str] = (*parameters, *ServiceTask.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = {
        "collections": "json",
        "scrape_headers": "json",
    }

    def __init__(
        self,
        *,
        url: str,
        scrape_headers: Mapping[str, str] | None = None,
        **kwargs: "Unpack[SourceArguments]",
    ) -> None:
        super().__init__(**kwargs)
        self.url = url
        self.scrape_headers = scrape_headers

    def _secrets(self) -> Iterable[str]:
        headers = as_several(self.scrape_headers)
        return map(str, headers.values()) if isinstance(headers, Mapping) else ()


class KnowledgeBotCreateTextSourceOperator(_CreateSourceOperator):
    """Creates a source from text (POST /sources/write).

    XCom: as for `KnowledgeBotCreateWebpageSourceOperator`.

    Args:
        source_name: the source's name (templated).
        collections: id or ids of the collections it belongs to (templated); by default the
            connection's `default_collection_id`.
        content: the text (templated).
        knowledge_bot_conn_id: the connection (templated).
        on_unknown: what to do if the service may have acted although no answer arrived: `hold`
            fails for good, so that nothing is sent twice; `resend` lets Airflow's next try send it.
    """

    endpoint = "create_text_source"
    parameters = ("source_name", "collections", "content")
    template_fields: Sequence[str] = (*parameters, *ServiceTask.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = {"collections": "json", "content": "md"}

    def __init__(
        self,
        *,
        content: str,
        **kwargs: "Unpack[SourceArguments]",
    ) -> None:
        super().__init__(**kwargs)
        self.content = content


class KnowledgeBotUploadSourceOperator(_CreateSourceOperator):
    """Creates a source from a file, streamed in constant memory (POST /sources/upload).

    XCom: as for `KnowledgeBotCreateWebpageSourceOperator`.

    Args:
        source_name: the source's name (templated).
        collections: id or ids of the collections it belongs to (templated); by default the
            connection's `default_collection_id`.
        file: a path on the worker, the address of an object (`s3://connection@bucket/key`), or an
            `ObjectStoragePath` (templated). Object storage needs its own Airflow provider.
        filename: the name that the service sees (templated); by default the file's own.
        knowledge_bot_conn_id: the connection (templated).
        on_unknown: what to do if the service may have acted although no answer arrived: `hold`
            fails for good, so that nothing is sent twice; `resend` lets Airflow's next try send it.
    """

    endpoint = "upload_source"
    parameters = ("source_name", "collections", "file", "filename")
    template_fields: Sequence[str] = (*parameters, *ServiceTask.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = {"collections": "json"}

    def __init__(
        self,
        *,
        file: "str | PathLike[str] | ObjectStoragePath",
        filename: str | None = None,
        **kwargs: "Unpack[SourceArguments]",
    ) -> None:
        super().__init__(**kwargs)
        self.file = file
        self.filename = filename


class KnowledgeBotSendMessageOperator(RequestOperator):
    """Sends a message to a bot and returns its answer (POST /messages).

    XCom: `id`, `answer`, `conversation_id` and `created_at` (Unix milliseconds).

    Args:
        bot_id: the bot that is asked (templated); by default the connection's `default_bot_id`.
        content: the message (templated).
        conversation_id: the conversation that it continues (templated); by default a new one.
        knowledge_bot_conn_id: the connection (templated).
        on_unknown: what to do if the service may have acted although no answer arrived: `hold`
            fails for good, so that nothing is sent twice; `resend` lets Airflow's next try send it.
    """

    endpoint = "send_message"
    parameters = ("bot_id", "content", "conversation_id")
    by_connection = "bot_id"
    named_by = "content"
    created = "the message {message_id} to the bot {bot_id} in the conversation {conversation_id}"
    told: ClassVar[Mapping[str, str]] = {"message_id": "id", "conversation_id": "conversation_id"}
    template_fields: Sequence[str] = (*parameters, *ServiceTask.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = {"content": "md"}

    def __init__(
        self,
        *,
        content: str,
        bot_id: str | None = None,
        conversation_id: str | None = None,
        **kwargs: "Unpack[RequestArguments]",
    ) -> None:
        super().__init__(**kwargs)
        self.bot_id = bot_id
        self.content = content
        self.conversation_id = conversation_id
