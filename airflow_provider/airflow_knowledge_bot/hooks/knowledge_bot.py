"""The hook: from an Airflow connection to a client of the service."""

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property, update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from airflow_knowledge_bot._compat import AirflowNotFoundException

# isort: split
from airflow.sdk import BaseHook

from airflow_knowledge_bot.get_provider_info import ConnectionForm

if TYPE_CHECKING:
    from airflow_knowledge_bot.hooks.connections import ConnectionSettings
    from knowledge_bot import AsyncClient, Client

C = TypeVar("C", "AsyncClient", "Client")
P = ParamSpec("P")


def _table() -> "type[Client]":
    from knowledge_bot import Client

    return Client


class _PlainEndpoint(Generic[P]):
    """An endpoint of the client as a method of the hook, with an answer of plain values.

    The client's table of endpoints says what it takes and documents it; it loads with the first
    use, since a DAG that is parsed needs no client.
    """

    def __init__(self, endpoint: Callable[[], Callable[P, Any]]) -> None:
        self._endpoint = endpoint
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, hook: None, owner: type) -> "_PlainEndpoint[P]": ...
    @overload
    def __get__(self, hook: "KnowledgeBotHook", owner: type) -> Callable[P, Any]: ...
    def __get__(self, hook: "KnowledgeBotHook | None", owner: type) -> Any:
        if hook is None:
            return self
        build = self._endpoint()

        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return plain(getattr(hook.get_conn(), self._name)(*args, **kwargs))

        update_wrapper(call, build)
        call.__signature__ = inspect.signature(build)  # type: ignore[attr-defined] # for agents
        return call


class KnowledgeBotHook(ConnectionForm, BaseHook):
    """Calls the service that a connection of type `knowledge_bot` describes.

    It has the client's endpoints as methods. They return plain values, which a task may return
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
    def settings(self) -> "ConnectionSettings":
        """The connection's settings, looked up once."""
        from airflow_knowledge_bot.hooks.connections import ConnectionSettings

        connection = self.get_connection(self.knowledge_bot_conn_id)
        return ConnectionSettings.read(
            self.knowledge_bot_conn_id, connection, connection.extra_dejson
        )

    ping = _PlainEndpoint(lambda: _table().ping)
    list_collections = _PlainEndpoint(lambda: _table().list_collections)
    list_bots = _PlainEndpoint(lambda: _table().list_bots)
    extensions = _PlainEndpoint(lambda: _table().extensions)
    list_sources = _PlainEndpoint(lambda: _table().list_sources)
    get_source = _PlainEndpoint(lambda: _table().get_source)
    delete_source = _PlainEndpoint(lambda: _table().delete_source)
    search = _PlainEndpoint(lambda: _table().search)
    get_passage = _PlainEndpoint(lambda: _table().get_passage)

    # These take what they are not given from the connection.

    def list_conversations(self, bot_id: str | None = None) -> list[dict[str, Any]]:
        """List the conversations of a bot: `id` and `name` of each.

        Args:
            bot_id: the bot's id; by default the connection's `default_bot_id`.
        """
        bot = self.settings.default("bot_id", bot_id or None)
        found: list[dict[str, Any]] = plain(self.get_conn().list_conversations(bot))
        return found

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
        return self._of_connection(
            "send_message", bot_id=bot_id, content=content, conversation_id=conversation_id
        )

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
        return self._of_connection(
            "create_webpage_source", name=name, collections=collections, url=url, headers=headers
        )

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
        return self._of_connection(
            "create_text_source", name=name, collections=collections, content=content
        )

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
        return self._of_connection(
            "upload_source", name=name, collections=collections, file=file, filename=filename
        )

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

    def _of_connection(self, endpoint: str, **arguments: Any) -> dict[str, Any]:
        for name in arguments.keys() & {"bot_id", "collections"}:
            arguments[name] = self.settings.default(name, arguments[name] or None)
        created: dict[str, Any] = plain(getattr(self.get_conn(), endpoint)(**arguments))
        return created


def plain(answer: Any) -> Any:
    """Return an answer of the client as plain JSON: of models, the fields that are documented."""
    if isinstance(answer, Mapping):
        return {name: plain(value) for name, value in answer.items()}
    if isinstance(answer, list | tuple):
        return [plain(one) for one in answer]
    documented = getattr(type(answer), "model_fields", None)
    if documented is None:
        return answer
    include: dict[str, Any] = dict.fromkeys(documented, True)
    if "collections" in include:  # a source; not every service tells a new one's revision
        include |= {"revision": True, "collections": {"__all__": {"id", "name"}}}
    return answer.model_dump(mode="json", include=include)


def _client_of(make: "Callable[..., C]", settings: "ConnectionSettings") -> "C":
    from knowledge_bot.adapters import OPTIONS, Words, speaking
    from knowledge_bot.errors import ConfigurationError

    named = f"the connection {settings.conn_id!r}"
    words = Words(
        key=f"the password of {named}",
        no_key=f"set the password of {named}",
        base_url=f"the host of {named}",
        verify=f"`verify` in the extra of {named}",
        option=(OPTIONS | {"origin": "its name= or origin_name="}).__getitem__,
    )
    try:
        client = make(
            base_url=settings.base_url,
            api_key=settings.api_key.get_secret_value(),
            timeout=settings.extra.timeout,
            max_retries=settings.extra.max_retries,
            verify=settings.extra.verify,
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"The connection {settings.conn_id!r}: {error}") from None
    return speaking(client, words)
