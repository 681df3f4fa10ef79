"""The operators that create one source each."""

import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_knowledge_bot._compat import AirflowException, AirflowFailException
from airflow_knowledge_bot.hooks import SOURCE_FIELDS, KnowledgeBotHook
from airflow_knowledge_bot.operators.request import RequestOperator, check_number

if TYPE_CHECKING:
    from os import PathLike

    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context, ObjectStoragePath

    from airflow_knowledge_bot.intents import OnUnknown
    from knowledge_bot import Client
    from knowledge_bot.models import SourceDetails


# Seconds between two looks at a source, at first and at most.
_PAUSE, _LONGEST_PAUSE = 0.25, 10.0


class _CreateSourceOperator(RequestOperator):
    """A request that creates a source."""

    default = ("collections", "default_collection_id")
    named_by = "name"
    answer_fields = SOURCE_FIELDS

    def __init__(
        self,
        *,
        name: str,
        collections: "str | Sequence[str] | None",
        knowledge_bot_conn_id: str,
        on_unknown: "OnUnknown",
        wait_ready: float,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            knowledge_bot_conn_id=knowledge_bot_conn_id, on_unknown=on_unknown, **kwargs
        )
        check_number("wait_ready", wait_ready, 0)
        self.wait_ready = wait_ready
        self.name = name
        self.collections = collections
        self._collection_uris: list[str] = []

    def get_openlineage_facets_on_complete(
        self,
        task_instance: object,  # noqa: ARG002 - OpenLineage's signature
    ) -> "OperatorLineage[Any, Any]":
        """Return the collections that the source went into, and where it came from."""
        from airflow_knowledge_bot.places import lineage

        return lineage(inputs=self._lineage_inputs(), outputs=self._collection_uris)

    def _created(self, request: dict[str, Any], answer: dict[str, Any]) -> str:  # noqa: ARG002 - the answer has all
        collections = ", ".join(collection["id"] for collection in answer["collections"])
        return f"the source {answer['id']} {answer['name']!r} in {collections}"

    def _done(self, context: "Context", base_url: str, answer: dict[str, Any]) -> None:
        from airflow_knowledge_bot.places import collection_uri, describe_outlets

        collections = [collection["id"] for collection in answer["collections"]]
        self._collection_uris = [collection_uri(base_url, one) for one in collections]
        describe_outlets(
            context,
            self.outlets,
            self._collection_uris,
            {
                "source_id": answer["id"],
                "source_name": answer["name"],
                "collections": collections,
            },
        )

    def _check_service(self, client: "Client") -> None:
        from knowledge_bot.adapters import check_announced

        if self.wait_ready:
            check_announced(("sources",), "wait_ready", client.extensions())

    def _settled(self, client: "Client", answer: dict[str, Any], *, again: bool) -> dict[str, Any]:
        """Wait until questions are answered from the source.

        Raises:
            AirflowFailException: the service could not read it.
            AirflowException: `wait_ready` is over.
        """
        from airflow_knowledge_bot.failures import is_temporary
        from knowledge_bot.errors import KnowledgeBotError

        if not self.wait_ready:
            return answer
        what = f"The source {answer['id']} {answer['name']!r}"
        self.log.info("%s is accepted; waiting until it is ready.", what)
        end, pause = time.monotonic() + self.wait_ready, _PAUSE
        while True:
            try:
                source = client.get_source(answer["id"])
            except KnowledgeBotError as error:
                if not is_temporary(error):
                    raise
                state = str(error)
            else:
                state = source.status
                if _is_done(source, answer.get("revision"), what):
                    for warning in source.warnings:
                        self.log.warning("%s: %s", what, warning)
                    return {**answer, "status": state}
            left = end - time.monotonic()
            if left <= 0:
                late = f"{what} was not ready within {self.wait_ready:g} s: {state}."
                if not again:
                    raise AirflowFailException(f"{late} Another try would create it once more.")
                raise AirflowException(f"{late} The next try waits for the same source.")
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)

    @abstractmethod
    def _lineage_inputs(self) -> list[str]:
        """Return the addresses that the source comes from."""


def _is_done(source: "SourceDetails", revision: str | None, what: str) -> bool:
    """Return whether questions are answered from a revision, or another one has taken its place.

    Raises:
        AirflowFailException: the service could not read it.
    """
    if revision not in (None, source.revision) or source.ready_revision == source.revision:
        return True
    if source.status == "failed":
        raise AirflowFailException(
            f"{what} cannot be read by the service: {source.reason}. Correct it, and clear the "
            "task, which creates another source."
        )
    return False


class KnowledgeBotCreateWebpageSourceOperator(_CreateSourceOperator):
    """Creates a source from a web page, which the service scrapes (POST /sources/webpage).

    XCom: `id`, `name`, `status` (`pending`: the service reads the page later), `collections` (each
    with `id` and `name`) and `created_at` (Unix milliseconds).

    Args:
        name: the source's name (templated).
        collections: id or ids of the collections it belongs to (templated); by default the
            connection's `default_collection_id`.
        url: the page's address (templated).
        headers: request headers that the service sends while it scrapes (templated). Keep a
            secret in a connection or a Variable that Airflow masks.
        knowledge_bot_conn_id: the connection (templated).
        on_unknown: what to do if the service may have acted although no answer arrived: `hold`
            fails for good, so that nothing is sent twice; `resend` lets Airflow's next try send it.
        wait_ready: for how many seconds the task waits until questions are answered from the
            source, and fails where the service cannot read it; 0: it does not wait. The service
            has to announce `sources`.
    """

    endpoint = "create_webpage_source"
    parameters = ("name", "collections", "url", "headers")
    required = ("name", "collections", "url")
    template_fields: Sequence[str] = (
        "name",
        "collections",
        "url",
        "headers",
        "knowledge_bot_conn_id",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"collections": "json", "headers": "json"}

    def __init__(
        self,
        *,
        name: str,
        url: str,
        collections: "str | Sequence[str] | None" = None,
        headers: Mapping[str, str] | None = None,
        knowledge_bot_conn_id: str = KnowledgeBotHook.default_conn_name,
        on_unknown: "OnUnknown" = "hold",
        wait_ready: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            name=name,
            collections=collections,
            knowledge_bot_conn_id=knowledge_bot_conn_id,
            on_unknown=on_unknown,
            wait_ready=wait_ready,
            **kwargs,
        )
        self.url = url
        self.headers = headers

    def _lineage_inputs(self) -> list[str]:
        return [self.url]


class KnowledgeBotCreateTextSourceOperator(_CreateSourceOperator):
    """Creates a source from text (POST /sources/write).

    XCom: as for `KnowledgeBotCreateWebpageSourceOperator`.

    Args:
        name: the source's name (templated).
        collections: id or ids of the collections it belongs to (templated); by default the
            connection's `default_collection_id`.
        content: the text (templated).
        knowledge_bot_conn_id: the connection (templated).
        on_unknown: what to do if the service may have acted although no answer arrived: `hold`
            fails for good, so that nothing is sent twice; `resend` lets Airflow's next try send it.
        wait_ready: for how many seconds the task waits until questions are answered from the
            source, and fails where the service cannot read it; 0: it does not wait. The service
            has to announce `sources`.
    """

    endpoint = "create_text_source"
    parameters = ("name", "collections", "content")
    required = parameters
    template_fields: Sequence[str] = ("name", "collections", "content", "knowledge_bot_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"collections": "json", "content": "md"}

    def __init__(
        self,
        *,
        name: str,
        content: str,
        collections: "str | Sequence[str] | None" = None,
        knowledge_bot_conn_id: str = KnowledgeBotHook.default_conn_name,
        on_unknown: "OnUnknown" = "hold",
        wait_ready: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            name=name,
            collections=collections,
            knowledge_bot_conn_id=knowledge_bot_conn_id,
            on_unknown=on_unknown,
            wait_ready=wait_ready,
            **kwargs,
        )
        self.content = content

    def _lineage_inputs(self) -> list[str]:
        return []


class KnowledgeBotUploadSourceOperator(_CreateSourceOperator):
    """Creates a source from a file, streamed in constant memory (POST /sources/upload).

    XCom: as for `KnowledgeBotCreateWebpageSourceOperator`.

    Args:
        name: the source's name (templated).
        collections: id or ids of the collections it belongs to (templated); by default the
            connection's `default_collection_id`.
        file: a path on the worker, the address of an object (`s3://connection@bucket/key`), or an
            `ObjectStoragePath` (templated). Object storage needs its own Airflow provider.
        filename: the name that the service sees (templated); by default the file's own.
        knowledge_bot_conn_id: the connection (templated).
        on_unknown: what to do if the service may have acted although no answer arrived: `hold`
            fails for good, so that nothing is sent twice; `resend` lets Airflow's next try send it.
        wait_ready: for how many seconds the task waits until questions are answered from the
            source, and fails where the service cannot read it; 0: it does not wait. The service
            has to announce `sources`.
    """

    endpoint = "upload_source"
    parameters = ("name", "collections", "file", "filename")
    required = ("name", "collections", "file")
    template_fields: Sequence[str] = (
        "name",
        "collections",
        "file",
        "filename",
        "knowledge_bot_conn_id",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"collections": "json"}

    def __init__(
        self,
        *,
        name: str,
        file: "str | PathLike[str] | ObjectStoragePath",
        collections: "str | Sequence[str] | None" = None,
        filename: str | None = None,
        knowledge_bot_conn_id: str = KnowledgeBotHook.default_conn_name,
        on_unknown: "OnUnknown" = "hold",
        wait_ready: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            name=name,
            collections=collections,
            knowledge_bot_conn_id=knowledge_bot_conn_id,
            on_unknown=on_unknown,
            wait_ready=wait_ready,
            **kwargs,
        )
        self.file = file
        self.filename = filename

    @contextmanager
    def _opened(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        from airflow_knowledge_bot.objects import is_object, opened

        if is_object(request["file"]):
            with opened(request["file"]) as (stream, name):
                yield {**request, "file": stream, "filename": request["filename"] or name}
        else:
            yield request  # the client opens a path itself, once for each attempt

    def _lineage_inputs(self) -> list[str]:
        return [str(self.file)]
