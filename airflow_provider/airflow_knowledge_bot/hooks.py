"""The hook: from an Airflow connection to a client of the service."""

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_knowledge_bot._compat import AirflowNotFoundException, aget_connection

# isort: split
from airflow.sdk import BaseHook

from airflow_knowledge_bot.get_provider_info import get_provider_info

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_knowledge_bot.connections import Settings
    from knowledge_bot import AsyncClient, Client

C = TypeVar("C")


class KnowledgeBotHook(BaseHook):
    """Gives clients of the service that a connection of type `knowledge_bot` describes.

    Nothing is looked up before it is needed; the core client loads with the first call.

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

    def get_conn(self) -> "Client":
        """Return the client, the same on every call. It may be used as a context manager.

        Raises:
            AirflowNotFoundException: there is no such connection.
            ConfigurationError: the connection lacks something, or a field of it is wrong.
        """
        return self._client

    async def get_async_conn(self) -> "AsyncClient":
        """Return a new asynchronous client, without blocking the event loop; the caller closes it.

        Raises:
            AirflowNotFoundException: there is no such connection.
            ConfigurationError: the connection lacks something, or a field of it is wrong.
        """
        connection, extra = await aget_connection(self.knowledge_bot_conn_id)

        def new_client() -> "AsyncClient":
            import aiohttp  # noqa: F401 - or the client's first request would import it

            from airflow_knowledge_bot.connections import Settings
            from knowledge_bot import AsyncClient

            settings = Settings.read(self.knowledge_bot_conn_id, connection, extra)
            return _client_of(AsyncClient, settings)

        # Imports and the TLS context take longer than a triggerer's event loop may stand still:
        # it warns from 0.2 s on.
        return await asyncio.to_thread(new_client)

    @cached_property
    def settings(self) -> "Settings":
        """What the connection says, looked up once.

        Raises:
            AirflowNotFoundException: there is no such connection.
            ConfigurationError: the connection lacks something, or a field of it is wrong.
        """
        from airflow_knowledge_bot.connections import Settings

        connection = self.get_connection(self.knowledge_bot_conn_id)
        return Settings.read(self.knowledge_bot_conn_id, connection, connection.extra_dejson)

    def test_connection(self) -> tuple[bool, str]:
        """Ping the service, then list its bots, so that a wrong key shows.

        Returns:
            Whether both went well, and a sentence for the person who pressed the button.
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
        (connection_type,) = get_provider_info()["connection-types"]
        behaviour: dict[str, Any] = connection_type["ui-field-behaviour"]
        return {key.replace("-", "_"): value for key, value in behaviour.items()}

    @cached_property
    def _client(self) -> "Client":
        from knowledge_bot import Client

        return _client_of(Client, self.settings)


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
