"""The service behind the gateway: keys and clients of its callers."""

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import SecretStr

from knowledge_bot import (
    APIError,
    AsyncClient,
    Bot,
    ConfigurationError,
    Conversation,
    Delivery,
    KnowledgeBotError,
)
from knowledge_bot.adapters import check_number
from knowledge_bot.adapters.settings import allow_connections, async_twin, shared_client
from knowledge_bot.conversations import Conversations, Heads, HeadsError, OnFork

_log = logging.getLogger("knowledge_bot.gateway")


class Upstream:
    """A service that the gateway reaches for its callers.

    Args:
        base_url: the service's address.
        api_key: the gateway's own key, for all callers. None: each caller's key is passed through.
        heads: where the last answer of each conversation is kept; by default in this process.
        timeout: seconds to wait for a connection to the service, and again for each part of an
            answer; the whole answer may take twice as long.
        parallel: how many requests to the service may be in flight; who finds no free connection
            in time is told that nothing was sent.
        descriptions: what the bots are for, by their ids or names, for whoever chooses one.
        patience: after how many seconds a stream begins though its answer is not there.

    Raises:
        ConfigurationError: a value cannot be used.
    """

    def __init__(
        self,
        base_url: str,
        api_key: SecretStr | str | None = None,
        *,
        heads: Heads | None = None,
        timeout: float = 60.0,
        parallel: int = 256,
        descriptions: Mapping[str, str] | None = None,
        patience: float = 1.0,
    ) -> None:
        check_number("parallel", parallel, 1, whole=True)
        self.base_url, self.patience, self._timeout = base_url, patience, timeout
        self._parallel = parallel
        self._descriptions = {name.casefold(): text for name, text in (descriptions or {}).items()}
        self._own = None
        if api_key is not None:  # the caller retries, so that retries do not multiply
            self._own = AsyncClient(api_key, base_url, timeout=timeout, max_retries=0)
            allow_connections(self._own, parallel)
        self._heads = Heads() if heads is None else heads
        if self._own is None:
            self.client("any")  # raises now if the address cannot be used

    @property
    def passes_keys_through(self) -> bool:
        """Whether each caller's own key goes to the service."""
        return self._own is None

    def client(self, key: str | None) -> AsyncClient:
        """Return the client for a caller.

        Args:
            key: the caller's; not used if the gateway has its own.

        Raises:
            ConfigurationError: the key is missing or invalid.
        """
        if self._own is not None:
            return self._own
        if not key:
            raise ConfigurationError("The request has no API key of the service")
        # One shared client for each key; shared clients are not closed here.
        client = shared_client(key, self.base_url, timeout=self._timeout, max_retries=0)
        allow_connections(twin := async_twin(client), self._parallel)
        return twin

    def description_of(self, bot: Bot) -> str | None:
        """Return what a bot is for; None if nobody has said it."""
        known = self._descriptions
        return known.get(bot.id.casefold()) or known.get(bot.name.casefold())

    def conversations(
        self, caller: str, on_fork: OnFork = "new", stop: Sequence[str] = ()
    ) -> Conversations:
        """Return what asks bots for a caller, in conversations of the caller's own."""
        return Conversations(self._heads, on_fork=on_fork, recognise=caller, stop=stop)

    async def visible(
        self, client: AsyncClient, conversations: Sequence[Conversation], *, caller: str
    ) -> list[Conversation]:
        """Return those of some conversations that are not known to be other callers'.

        Raises:
            HeadsError: shared heads cannot be read.
        """
        known, service = self.conversations(caller), client.base_url

        def visible() -> list[Conversation]:
            return [one for one in conversations if not known.is_anothers(service, one.id)]

        return await self._heads.off_the_loop(visible)

    async def aclose(self) -> None:
        """Close the client of the gateway's own key."""
        if self._own is not None:
            await self._own.aclose()


def told(error: KnowledgeBotError) -> str:
    """Return an error as a caller may read it; what it says of the inside is in the log."""
    if getattr(error, "argument", None):
        return str(error)
    _log.log(logging.WARNING if error.may_pass else logging.INFO, "%s", error)
    if isinstance(error, HeadsError):
        return "The gateway cannot read or store what was answered last. Nothing was sent."
    if isinstance(error, APIError):
        code = f" [{error.code}]" if error.code else ""
        said = f": {error.message.rstrip('.')}" if error.message else ""
        return f"The service answered {error.status_code}{code}{said}. {_OUTCOMES[error.delivery]}."
    return f"The service {_FAILURES[error.delivery]}. {_OUTCOMES[error.delivery]}."


_FAILURES: Final[Mapping[Delivery, str]] = {
    Delivery.NOT_DELIVERED: "cannot be reached, or cannot do this",
    Delivery.REFUSED: "refused the request",
    Delivery.UNKNOWN: "gave no answer in time, or none that can be read",
}
_OUTCOMES: Final[Mapping[Delivery, str]] = {
    Delivery.NOT_DELIVERED: "Nothing was sent",
    Delivery.REFUSED: "It did not act on the request",
    Delivery.UNKNOWN: "It may have acted on the request, so look there before you send it again",
}
