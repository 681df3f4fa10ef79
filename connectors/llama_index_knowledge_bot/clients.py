"""How every class of this package reaches the service."""

from typing import Any

from knowledge_bot import AsyncClient, Client, ConfigurationError
from knowledge_bot._shared import async_twin, shared_client


class Clients:
    """A client that blocks, and its twin that awaits.

    Deep copies share the clients. Pickles hold them, and so the API key.

    Args:
        client: the client to use; by default the one for `KNOWLEDGE_BOT_BASE_URL` and
            `KNOWLEDGE_BOT_API_KEY`, which all objects made without a client share.
        async_client: the one to await; by default a client with the settings of `client`.

    Raises:
        ConfigurationError: no base URL, or something else than a client was given.
    """

    def __init__(
        self, client: Client | None = None, async_client: AsyncClient | None = None
    ) -> None:
        # An argument of the wrong kind may be a key: it is named by its type, never quoted.
        if not isinstance(client, Client | None):
            raise ConfigurationError(
                f"client: expected a knowledge_bot.Client, not {type(client).__name__}; a key and "
                "an address go in there: client=Client(api_key, base_url)"
            )
        if not isinstance(async_client, AsyncClient | None):
            raise ConfigurationError(
                "async_client: expected a knowledge_bot.AsyncClient, not "
                f"{type(async_client).__name__}"
            )
        self.blocking = shared_client() if client is None else client
        self._awaiting = async_client

    @property
    def awaiting(self) -> AsyncClient:
        """The client to await.

        Raises:
            ConfigurationError: the blocking client sends with an `http_client` of its own, so that
                `async_client=` has to be given.
        """
        return self._awaiting or async_twin(self.blocking)

    def __repr__(self) -> str:
        return repr(self.blocking)


def with_clients(state: dict[str, Any]) -> dict[str, Any]:
    """Return what a component is pickled as, once it is sure that its clients are in there.

    The framework leaves out what cannot be pickled; the copy would then send with the key of the
    environment, which may be another account's.

    Raises:
        TypeError: the clients were left out.
    """
    if "clients" not in state["__dict__"]:
        raise TypeError(
            "a client that sends with an http_client of yours cannot be pickled; give one that is "
            "made of a key and an address: client=Client(api_key, base_url)"
        )
    return state
