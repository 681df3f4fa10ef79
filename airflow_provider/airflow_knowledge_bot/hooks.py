"""The hook: from an Airflow connection to a client of the service."""

from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_knowledge_bot._compat import AirflowNotFoundException

# isort: split
from airflow.sdk import BaseHook

from airflow_knowledge_bot.get_provider_info import field_behaviour

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import BaseModel

    from airflow_knowledge_bot.connections import Settings
    from knowledge_bot import AsyncClient, Client

C = TypeVar("C")

SOURCE_FIELDS: "dict[str, Any]" = {
    "id": True,
    "name": True,
    "status": True,
    "collections": {"__all__": {"id", "name"}},
    "created_at": True,
    "revision": True,
}
"""A source's fields, in the form of pydantic's `include`; not every service tells a `revision`."""

_DETAILS = SOURCE_FIELDS | dict.fromkeys(("ready_revision", "reason", "warnings", "ready_at"), True)

MESSAGE_FIELDS: "dict[str, Any]" = {
    "id": True,
    "answer": True,
    "conversation_id": True,
    "created_at": True,
}
"""A message's documented fields."""

_NAMED: "dict[str, Any]" = {"id": True, "name": True}


class KnowledgeBotHook(BaseHook):
    """Calls the service that a connection of type `knowledge_bot` describes.

    It has the interface's endpoints as methods. They return plain values, which a task may return
    and an agent may use (`HookToolset(KnowledgeBotHook(), allowed_methods=[…])` of Airflow's
    common-ai provider). `get_conn` returns the client itself. Nothing is looked up before it is
    needed; the core client loads with the first call.

    All methods except `test_connection` raise `AirflowNotFoundException` if there is no such
    connection, `ConfigurationError` if the connection or an argument cannot be used, and
    `KnowledgeBotError` if the request fails; `delivery` says whether the service may have acted.

    Args:
        knowledge_bot_conn_id: id of the connection: its host is the base URL (a missing protocol
            is https), its password the API key. Its extra may hold `timeout` (seconds, 60),
            `max_retries` (2), `verify` (true, false or the path of a PEM file), `default_bot_id`
            and `default_collection_id`.
    """

    conn_name_attr = "knowledge_bot_conn_id"
    default_conn_name = "knowledge_bot_default"
    conn_type = "knowledge_bot"
    hook_name = "Knowledge-Bot"

    def __init__(self, knowledge_bot_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.knowledge_bot_conn_id = knowledge_bot_conn_id
        self._client: Client | None = None

    def get_conn(self) -> "Client":
        """Return the client, any number of times: the same one, or a new one once that is closed.

        It may be used as a context manager, which closes it.
        """
        if self._client is None or self._client._is_closed:  # noqa: SLF001 - the core's own
            from knowledge_bot import Client

            self._client = _client_of(Client, self.settings)
        return self._client

    async def get_async_conn(self) -> "AsyncClient":
        """Return a new asynchronous client without blocking the loop; the caller closes it."""

        def new_client() -> "AsyncClient":
            import aiohttp  # noqa: F401 - else the first request would import it

            from knowledge_bot import AsyncClient

            return _client_of(AsyncClient, self.settings)

        from asgiref.sync import sync_to_async

        # Imports, the TLS context and, before Airflow 3.3.2, `BaseHook.aget_connection` block for
        # longer than a triggerer's event loop allows: it warns from 0.2 s on. Airflow 3.1 asks for
        # the connection by `async_to_sync`, which finds its way back to that loop only from a
        # thread of `sync_to_async`; from another one it breaks the triggerer.
        return await sync_to_async(new_client, thread_sensitive=False)()

    @cached_property
    def settings(self) -> "Settings":
        """The connection's settings, looked up once."""
        from airflow_knowledge_bot.connections import Settings

        connection = self.get_connection(self.knowledge_bot_conn_id)
        return Settings.read(self.knowledge_bot_conn_id, connection, connection.extra_dejson)

    def ping(self) -> bool:
        """Check that the service is alive; returns True or raises."""
        return self.get_conn().ping()

    def list_collections(self) -> list[dict[str, Any]]:
        """List the collections: `id` and `name` of each."""
        return [_plain(one, _NAMED) for one in self.get_conn().list_collections()]

    def list_bots(self) -> list[dict[str, Any]]:
        """List the bots: `id` and `name` of each."""
        return [_plain(one, _NAMED) for one in self.get_conn().list_bots()]

    def list_conversations(self, bot_id: str | None = None) -> list[dict[str, Any]]:
        """List the conversations of a bot: `id` and `name` of each.

        Args:
            bot_id: the bot's id; by default the connection's `default_bot_id`.
        """
        bot = self.settings.default("bot_id", bot_id or None)
        return [_plain(one, _NAMED) for one in self.get_conn().list_conversations(bot)]

    def send_message(
        self, content: str, bot_id: str | None = None, conversation_id: str | None = None
    ) -> dict[str, Any]:
        """Ask a bot, which answers from its sources. Each call sends a new message.

        Args:
            content: the question, or any other message.
            bot_id: the bot that is asked; by default the connection's `default_bot_id`.
            conversation_id: the conversation that it continues; by default a new one.

        Returns:
            `id`, `answer`, `conversation_id` and `created_at` (Unix milliseconds).
        """
        bot = self.settings.default("bot_id", bot_id or None)
        message = self.get_conn().send_message(
            bot_id=bot, content=content, conversation_id=conversation_id
        )
        return _plain(message, MESSAGE_FIELDS)

    def create_webpage_source(
        self,
        name: str,
        url: str,
        collections: list[str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """Create a source from a web page, which the service scrapes. Each call creates a new one.

        Args:
            name: the source's name.
            url: the page's address.
            collections: collection ids; by default the connection's `default_collection_id`.
            headers: request headers that the service sends while it scrapes.

        Returns:
            `id`, `name`, `status`, `collections` (each with `id` and `name`), `created_at` (Unix
            milliseconds) and, where the service announces `sources`, `revision`.
        """
        into = self.settings.default("collections", collections or None)
        source = self.get_conn().create_webpage_source(
            name=name, collections=into, url=url, headers=headers
        )
        return _plain(source, SOURCE_FIELDS)

    def create_text_source(
        self, name: str, content: str, collections: list[str] | None = None
    ) -> dict[str, Any]:
        """Create a source from a text. Each call creates a new one.

        Args:
            name: the source's name.
            content: the text.
            collections: collection ids; by default the connection's `default_collection_id`.

        Returns:
            As for `create_webpage_source`.
        """
        into = self.settings.default("collections", collections or None)
        source = self.get_conn().create_text_source(name=name, collections=into, content=content)
        return _plain(source, SOURCE_FIELDS)

    def upload_source(
        self,
        name: str,
        file: str,
        collections: list[str] | None = None,
        filename: str | None = None,
    ) -> dict[str, Any]:
        """Create a source from a file on this machine. Each call creates a new one.

        Args:
            name: the source's name.
            file: the file's path.
            collections: collection ids; by default the connection's `default_collection_id`.
            filename: the name that the service sees; by default the file's own.

        Returns:
            As for `create_webpage_source`.
        """
        into = self.settings.default("collections", collections or None)
        source = self.get_conn().upload_source(
            name=name, collections=into, file=file, filename=filename
        )
        return _plain(source, SOURCE_FIELDS)

    def extensions(self) -> dict[str, dict[str, Any]]:
        """Return what the service can beyond the interface: parameters by an extension's name."""
        return {name: dict(given) for name, given in self.get_conn().extensions().items()}

    def list_sources(
        self,
        name: str | None = None,
        status: list[str] | None = None,
        collection: list[str] | None = None,
    ) -> list[dict[str, Any]]:
        """List sources, newest first, where the service announces `sources`.

        Args:
            name: only those of exactly this name.
            status: only those with one of these: `pending`, `processing`, `ready`, `failed`.
            collection: only those in one of these collections.

        Returns:
            Of each the same as `get_source`.
        """
        found = self.get_conn().list_sources(name=name, status=status, collection=collection)
        return [_plain(one, _DETAILS) for one in found]

    def get_source(self, source_id: str) -> dict[str, Any]:
        """Return a source with its state, where the service announces `sources`.

        Args:
            source_id: the source's id.

        Returns:
            As for `create_webpage_source`, and `ready_revision` (the one that questions are
            answered from, or None), `reason` (why `revision` failed), `warnings` and `ready_at`.
        """
        return _plain(self.get_conn().get_source(source_id), _DETAILS)

    def replace_source(
        self,
        source_id: str,
        name: str,
        *,
        collections: list[str] | None = None,
        content: str | None = None,
        url: str | None = None,
        headers: dict[str, str] | None = None,
        file: str | None = None,
        filename: str | None = None,
        revision: str | None = None,
    ) -> dict[str, Any]:
        """Replace a source in place, or rename it, where the service announces `sources`.

        Questions are answered from the old text until the new one is ready.

        Args:
            source_id: the source's id, which stays.
            name: its name from now on.
            collections: its collections from now on; needed with a new text.
            content: the new text. With neither this nor `url` nor `file`, only the name changes.
            url: the address of the page that it is read from now on.
            headers: request headers that the service sends while it scrapes.
            file: the path of the new file on this machine.
            filename: the name that the service sees; by default the file's own.
            revision: replace only this one; by default whichever it is.

        Returns:
            As for `get_source`.
        """
        source = self.get_conn().replace_source(
            source_id,
            name=name,
            collections=collections,
            content=content,
            url=url,
            headers=headers,
            file=file,
            filename=filename,
            revision=revision,
        )
        return _plain(source, _DETAILS)

    def delete_source(self, source_id: str, revision: str | None = None) -> None:
        """Delete a source, where the service announces `sources`; one that is not there is fine.

        Args:
            source_id: the source's id.
            revision: delete only this one; by default whichever it is.
        """
        self.get_conn().delete_source(source_id, revision=revision)

    def search(
        self,
        query: str,
        *,
        bot_id: str | None = None,
        collections: list[str] | None = None,
        limit: int = 5,
    ) -> list[dict[str, Any]]:
        """Return the passages that fit a question best, where the service announces `passages`.

        Args:
            query: the question; no bot is asked.
            bot_id: look in the collections of this bot.
            collections: look in these; with neither, in all that the API key sees.
            limit: how many passages at most, 1 to 40.

        Returns:
            Of each `id`, `source_id`, `name`, `url`, `revision`, `text`, `score` and `found`.
        """
        found = self.get_conn().search(query, bot_id=bot_id, collections=collections, limit=limit)
        return [passage.model_dump(mode="json") for passage in found]

    def get_passage(self, passage_id: str) -> dict[str, Any]:
        """Return a passage that was found, where the service announces `passages`.

        Args:
            passage_id: the passage's id, which holds for one revision of its source.

        Returns:
            As for `search`.
        """
        return self.get_conn().get_passage(passage_id).model_dump(mode="json")

    def test_connection(self) -> tuple[bool, str]:
        """Ping the service, then list its bots, so that a wrong key shows.

        Returns:
            Whether both worked, and a sentence for the person who pressed the button.
        """
        from knowledge_bot.errors import KnowledgeBotError

        try:
            client = self.get_conn()
            client.ping()
            bots = client.list_bots()
        except (KnowledgeBotError, AirflowNotFoundException) as error:
            return False, str(error)
        return True, f"The service answers and accepts the key; bots: {len(bots)}."

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Return the form's labels for Airflow 3.1; later ones read `get_provider_info` alone."""
        return field_behaviour(cls.conn_type)


def _plain(answer: "BaseModel", fields: dict[str, Any]) -> dict[str, Any]:
    return answer.model_dump(mode="json", include=fields)


def _client_of(make: "Callable[..., C]", settings: "Settings") -> "C":
    from knowledge_bot.errors import ConfigurationError

    try:
        return make(
            base_url=settings.base_url,
            api_key=settings.api_key.get_secret_value(),
            timeout=settings.extra.timeout,
            max_retries=settings.extra.max_retries,
            verify=settings.extra.verify,
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"The connection {settings.conn_id!r}: {error}") from None
