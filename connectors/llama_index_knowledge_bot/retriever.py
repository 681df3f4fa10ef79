"""What a bot answers from, or its answers, as retrieved nodes."""

from collections.abc import Sequence
from dataclasses import replace

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import NodeWithScore, QueryBundle

from knowledge_bot import AsyncClient, Client
from knowledge_bot.adapters import check_number
from knowledge_bot.adapters.retrieval import Retrieval, bots_named
from llama_index_knowledge_bot.clients import Clients
from llama_index_knowledge_bot.messages import node_of, text_of


class KnowledgeBotRetriever(BaseRetriever):
    """The passages that one bot or several would answer from, as nodes.

    Where the service announces `passages`, these are searched for and no bot is asked: there is no
    message and no conversation. The best passages of each bot come in turn, first those of bots
    that found something. A node has the passage's id and score, and its source as `ref_doc_id`; its
    metadata are `source`: the source's name, `source_id`, `url`, `revision` and `passage_id`.
    Nothing in it is the question's or the bot's, so equal passages are equal nodes, and a fusion
    takes them for one. Scores are comparable among the passages of one search; they have no upper
    bound, so cut by count and not by a number.

    Elsewhere every bot is asked, in a conversation of its own. The passages that its answer names
    are then the nodes, or the answer if it names none; the score is 1.0, since there is none and
    postprocessors drop nodes without one. An answer's metadata are `bot_id`, `passage_id`
    (equal answers of a bot have the same one), and `source`: the names of its sources, separated by
    commas.

    Of the metadata only `source` is embedded and shown to a model.

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
        drop_refusals: whether to leave out what is not about the question: passages of a search
            that found nothing, and answers such as "I could not find that", which are recognised by
            `found` in the service's answer, or without it by their English words.
        similarity_top_k: how many nodes at most, once all bots were asked and refusals dropped.
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
        similarity_top_k: int = Retrieval.DEFAULT,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        super().__init__(callback_manager=callback_manager)
        self._clients = Clients(client, async_client)
        check_number("similarity_top_k", similarity_top_k, 1, whole=True)
        self._retrieval = Retrieval(
            bots_named(bot_id, bot_ids),
            limit=similarity_top_k,
            relevant=drop_refusals,
        )

    @property
    def similarity_top_k(self) -> int:
        """How many nodes at most; it can be set."""
        return self._retrieval.limit or Retrieval.DEFAULT

    @similarity_top_k.setter
    def similarity_top_k(self, limit: int) -> None:
        check_number("similarity_top_k", limit, 1, whole=True)
        self._retrieval = replace(self._retrieval, limit=limit)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(bot_ids={self._retrieval.bots!r}, client={self._clients!r})"

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = self._retrieval.get(self._clients.blocking, text_of(query_bundle))
        return list(map(node_of, found))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = await self._retrieval.aget(self._clients.awaiting, text_of(query_bundle))
        return list(map(node_of, found))
