"""A bot's answers as retrieved nodes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import NodeWithScore, QueryBundle

from knowledge_bot import AsyncClient, Client, ConfigurationError, Message
from knowledge_bot.adapters import aask_bots, ask_bots, awith_freshness, ledger_of, with_freshness
from llama_index_knowledge_bot.clients import Clients
from llama_index_knowledge_bot.messages import answer_node, text_of

if TYPE_CHECKING:
    import os

    from knowledge_bot.ingest import Ledger


class KnowledgeBotRetriever(BaseRetriever):
    """The answers of one bot or several, as one node for each bot.

    A node's text is an answer, written by the bot from the passages that it found; the service does
    not give the passages themselves. Its score is 1.0, since the service gives none and
    postprocessors drop nodes without one. Its metadata is neither embedded nor shown to a model:
    `bot_id`, `conversation_id`, `message_id`, `created_at` in Unix milliseconds, the names of the
    answer's `sources`, and whether the bot `found` anything. Every question starts its own
    conversation, which the service keeps.

    A retriever may be used from any thread and event loop. Pickles and deep copies contain its
    clients, and so pickles contain the API key.

    Example:
        ```python
        retriever = KnowledgeBotRetriever("bot_handbook")
        retriever.retrieve("When does the office open?")
        await retriever.aretrieve("When does the office open?")
        ```

    Args:
        bot_id: the bot that is asked, `bot_…`.
        bot_ids: several bots instead, asked at the same time.
        client: the client to ask with; by default one made from `KNOWLEDGE_BOT_BASE_URL` and
            `KNOWLEDGE_BOT_API_KEY`.
        async_client: the client of asynchronous calls; by default one with the settings of
            `client`. Required if `client` sends with its own `http_client`.
        drop_refusals: whether to leave out answers such as "I could not find that", which are of
            no use in a prompt. They are recognised by `found` in the service's answer, or without
            it by their English words.
        ledger: as for `KnowledgeBotLLM`: the metadata then also hold the sources' `freshness`.
        callback_manager: the framework's handlers of events.

    Raises:
        ConfigurationError: both or neither of `bot_id` and `bot_ids` are given, or there is no
            client and no base URL.
        KnowledgeBotError: from a call, as the client raised it; `delivery` says whether the service
            may have acted. With several bots, it is the error of the first one in their order that
            failed, raised once all have answered or failed.
    """

    def __init__(
        self,
        bot_id: str | None = None,
        *,
        bot_ids: Sequence[str] | None = None,
        client: Client | None = None,
        async_client: AsyncClient | None = None,
        drop_refusals: bool = False,
        ledger: "Ledger | str | os.PathLike[str] | None" = None,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        super().__init__(callback_manager=callback_manager)
        self._bot_ids = _named(bot_id, bot_ids)
        self._clients = Clients(client, async_client)
        self._drop_refusals = drop_refusals
        self._ledger = None if ledger is None else ledger_of(ledger)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(bot_ids={self._bot_ids!r}, client={self._clients!r})"

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        question = text_of(query_bundle)
        answers = ask_bots(self._clients.blocking, self._bot_ids, question)
        return self._nodes(
            [with_freshness(one, self._ledger, self._clients.blocking.base_url) for one in answers]
        )

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        question = text_of(query_bundle)
        answers = await aask_bots(self._clients.awaiting, self._bot_ids, question)
        return self._nodes(
            [
                await awith_freshness(one, self._ledger, self._clients.blocking.base_url)
                for one in answers
            ]
        )

    def _nodes(self, answers: list[Message]) -> list[NodeWithScore]:
        nodes = map(answer_node, self._bot_ids, answers)
        return [node for node in nodes if node.metadata["found"] or not self._drop_refusals]


def _named(bot_id: str | None, bot_ids: Sequence[str] | None) -> list[str]:
    if (bot_id is None) == (bot_ids is None) or isinstance(bot_ids, str):
        raise ConfigurationError.of(
            "bot_id", "name one bot with bot_id=, or several with bot_ids=[…]"
        )
    named = [bot_id] if bot_id is not None else list(dict.fromkeys(bot_ids or ()))
    if not named:
        raise ConfigurationError.of("bot_ids", "name at least one bot")
    return named
