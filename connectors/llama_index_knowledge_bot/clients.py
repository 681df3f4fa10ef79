"""How the classes of this package reach the service."""

from typing import Any

from knowledge_bot import AsyncClient, Client, ConfigurationError
from knowledge_bot.adapters.settings import async_twin, shared_client


class Clients:
    """A blocking client and its asynchronous twin.

    Deep copies share the clients. Pickles contain them, and so the API key.

    Args:
        client: the client to use; by default the one for `KNOWLEDGE_BOT_BASE_URL` and
            `KNOWLEDGE_BOT_API_KEY`, which all objects made without a client share.
        async_client: the asynchronous one; by default a client with the settings of `client`.

    Raises:
        ConfigurationError: there is no base URL, or an argument is not a client.
    """

    def __init__(
        self, client: Client | None = None, async_client: AsyncClient | None = None
    ) -> None:
        # An argument of the wrong type may be a key: its type is named, its value never quoted.
        if not isinstance(client, Client | None):
            raise ConfigurationError.expected(
                "client",
                "a knowledge_bot.Client",
                client,
                "; it belongs into async_client="
                if isinstance(client, AsyncClient)
                else "; pass a key and an address to it: client=Client(api_key, base_url)",
            )
        if not isinstance(async_client, AsyncClient | None):
            raise ConfigurationError.expected(
                "async_client", "a knowledge_bot.AsyncClient", async_client
            )
        self.blocking = shared_client() if client is None else client
        self._awaiting = async_client

    @property
    def awaiting(self) -> AsyncClient:
        """The asynchronous client.

        Raises:
            ConfigurationError: the blocking client sends with its own `http_client`, so
                `async_client=` is required.
        """
        return self._awaiting or async_twin(self.blocking)

    def __repr__(self) -> str:
        return repr(self.blocking)


def with_clients(state: dict[str, Any]) -> dict[str, Any]:
    """Return a component's state for pickle, after checking that it contains the clients.

    The framework drops what cannot be pickled; the copy would then send with the key of the
    environment, which may belong to another account.

    Raises:
        TypeError: the clients were dropped.
    """
    if "clients" not in state["__dict__"]:
        raise TypeError(
            "a client with your own http_client cannot be pickled; pass one made from a key and an "
            "address: client=Client(api_key, base_url)"
        )
    return state
