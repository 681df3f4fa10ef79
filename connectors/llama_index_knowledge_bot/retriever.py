"""A bot's answers as retrieved nodes."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from knowledge_bot import AsyncClient, Client, ConfigurationError, Message


class KnowledgeBotRetriever(BaseRetriever):
    """The answers of one bot or several, as one node for each bot.

    A node's text is an answer, written by the bot from the passages that it found; the service does
    not give the passages themselves. Its score is 1.0, since the service gives none and a node
    without one is dropped by postprocessors. Its metadata (`bot_id`, `conversation_id`,
    `message_id`, and `created_at` in Unix milliseconds) stays out of what is embedded or shown to a
    model. Every question starts a conversation of its own, which the service keeps.

    A retriever may be used from any thread and event loop. Pickles and deep copies hold its
    clients, and pickles so the API key.

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
        async_client: what asynchronous calls use; by default a client with the settings of
            `client`. To be given where `client` sends with an `http_client` of its own.
        callback_manager: the framework's handlers of events.

    Raises:
        ConfigurationError: not one bot and not several, or no client and no base URL.
        KnowledgeBotError: from a call, as the client raised it; `delivery` tells whether the
            service may have acted. Of several bots, the first that failed in their order is told
            of, once all have answered or failed.
    """

    def __init__(
        self,
        bot_id: str | None = None,
        *,
        bot_ids: Sequence[str] | None = None,
        client: Client | None = None,
        async_client: AsyncClient | None = None,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        super().__init__(callback_manager=callback_manager)
        self._bot_ids = _named(bot_id, bot_ids)
        self._client = client or Client()
        self._async_client = async_client

    def __repr__(self) -> str:
        return f"{type(self).__name__}(bot_ids={self._bot_ids!r}, client={self._client!r})"

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        def ask(bot_id: str) -> NodeWithScore:
            message = self._client.send_message(bot_id=bot_id, content=query_bundle.query_str)
            return _node(bot_id, message)

        if len(self._bot_ids) == 1:
            return [ask(self._bot_ids[0])]
        with ThreadPoolExecutor(max_workers=len(self._bot_ids)) as pool:
            answers = [pool.submit(copy_context().run, ask, bot_id) for bot_id in self._bot_ids]
        return [answer.result() for answer in answers]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        client = self._awaiting_client()

        async def ask(bot_id: str) -> NodeWithScore:
            message = await client.send_message(bot_id=bot_id, content=query_bundle.query_str)
            return _node(bot_id, message)

        nodes = []
        # Every bot is waited for, whatever another one's failure: nothing goes on unseen.
        for outcome in await asyncio.gather(*map(ask, self._bot_ids), return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
            nodes.append(outcome)
        return nodes

    def _awaiting_client(self) -> AsyncClient:
        if self._async_client is None:
            self._async_client = self._client.to_async()
        return self._async_client


def _named(bot_id: str | None, bot_ids: Sequence[str] | None) -> list[str]:
    if (bot_id is None) == (bot_ids is None) or isinstance(bot_ids, str):
        raise ConfigurationError("bot_id: name one bot with bot_id=, or several with bot_ids=[…]")
    named = [bot_id] if bot_id is not None else list(dict.fromkeys(bot_ids or ()))
    if not named:
        raise ConfigurationError("bot_ids: name at least one bot")
    return named


def _node(bot_id: str, message: Message) -> NodeWithScore:
    metadata = {
        "bot_id": bot_id,
        "conversation_id": message.conversation_id,
        "message_id": message.id,
        "created_at": message.model_dump(mode="json", include={"created_at"})["created_at"],
    }
    node = TextNode(
        id_=message.id,
        text=message.answer,
        metadata=metadata,
        excluded_embed_metadata_keys=list(metadata),
        excluded_llm_metadata_keys=list(metadata),
    )
    return NodeWithScore(node=node, score=1.0)
