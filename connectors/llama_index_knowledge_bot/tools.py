"""Bots and collections as tools of agents."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from llama_index.core.callbacks import CallbackManager
from llama_index.core.tools import FunctionTool, QueryEngineTool
from llama_index.core.tools.tool_spec.base import BaseToolSpec

from knowledge_bot import AsyncClient, Bot, Client, Collection, Conversation, Message
from knowledge_bot.adapters import collection_ids
from knowledge_bot.adapters.retrieval import Answer
from knowledge_bot.adapters.tools import tool_descriptions, tool_names
from llama_index_knowledge_bot.clients import Clients
from llama_index_knowledge_bot.engines import KnowledgeBotQueryEngine

_READING = ["ask_bot", "list_bots", "list_collections", "list_conversations"]
_WRITING = ["add_text", "add_webpage"]

# How many conversations are listed at most; a model has no use for more.
_MOST_CONVERSATIONS = 200


def bot_tools(
    client: Client | None = None,
    bots: Sequence[Bot] | None = None,
    *,
    descriptions: Mapping[str, str] | None = None,
    async_client: AsyncClient | None = None,
    callback_manager: CallbackManager | None = None,
) -> list[QueryEngineTool]:
    """Return one tool for each bot, for agents and routers; each is a query engine.

    Args:
        client: the client to ask with; by default one made from `KNOWLEDGE_BOT_BASE_URL` and
            `KNOWLEDGE_BOT_API_KEY`.
        bots: the bots; by default all that the service lists, which is a blocking call.
        descriptions: what each bot knows, by its id: agents and routers choose by it, and the
            service only gives a bot's name.
        async_client: the client of asynchronous calls, as for `KnowledgeBotQueryEngine`.
        callback_manager: the framework's handlers of events.

    Returns:
        The tools, each named after its bot: `ask_…`, as in every framework.

    Raises:
        ConfigurationError: there is no base URL, or a description is for a bot that does not exist.
        KnowledgeBotError: from listing the bots, as the client raised it.
    """
    clients = Clients(client, async_client)
    listed = clients.blocking.list_bots() if bots is None else bots
    described = tool_descriptions(listed, descriptions)
    return [
        KnowledgeBotQueryEngine(
            bot.id,
            client=clients.blocking,
            async_client=async_client,
            callback_manager=callback_manager,
        ).as_tool(name=name, description=description)
        for bot, name, description in zip(listed, tool_names(listed), described, strict=True)
    ]


class KnowledgeBotToolSpec(BaseToolSpec):
    """The service as tools of an agent: ask any bot, and see what there is.

    An agent may add sources only to the collections that `write_to` names. Each call adds one, even
    if the service already has the same source.

    Example:
        ```python
        tools = KnowledgeBotToolSpec(write_to="col_notes").to_tool_list()
        ```

    Args:
        client: the client to use; by default one made from `KNOWLEDGE_BOT_BASE_URL` and
            `KNOWLEDGE_BOT_API_KEY`.
        async_client: the client of asynchronous calls; by default one with the settings of
            `client`.
        descriptions: what each bot knows, by its id; listed beside its name. With any,
            `to_tool_list` lists the bots, which is a blocking call.
        write_to: the collections that the agent may add sources to, as one or several ids; by
            default none, and the tools for it are left out.

    Raises:
        ConfigurationError: there is no base URL, or `write_to` has no ids of collections; from
            `to_tool_list`, a description is for a bot that does not exist.
        KnowledgeBotError: from a tool, as the client raised it; agents read its text.
    """

    def __init__(
        self,
        client: Client | None = None,
        *,
        async_client: AsyncClient | None = None,
        descriptions: Mapping[str, str] | None = None,
        write_to: str | Collection | Sequence[str | Collection] = (),
    ) -> None:
        self._clients = Clients(client, async_client)
        self._descriptions = dict(descriptions or {})
        self._write_to = collection_ids(write_to) if write_to else []
        offered = _READING + (_WRITING if write_to else [])
        self.spec_functions = [(name, f"a{name}") for name in offered]

    def to_tool_list(self, *args: Any, **kwargs: Any) -> list[FunctionTool]:
        """Return the tools, as `BaseToolSpec.to_tool_list` does."""
        if self._descriptions:
            tool_descriptions(self._clients.blocking.list_bots(), self._descriptions)
        return super().to_tool_list(*args, **kwargs)

    def ask_bot(
        self, bot_id: str, question: str, conversation_id: str | None = None
    ) -> dict[str, Any]:
        """Ask a bot a question. To continue, pass the conversation_id of its last answer."""
        message = self._clients.blocking.send_message(
            bot_id=bot_id, content=question, conversation_id=conversation_id or None
        )
        return _answered(message)

    async def aask_bot(
        self, bot_id: str, question: str, conversation_id: str | None = None
    ) -> dict[str, Any]:
        """Ask a bot a question. To continue, pass the conversation_id of its last answer."""
        message = await self._clients.awaiting.send_message(
            bot_id=bot_id, content=question, conversation_id=conversation_id or None
        )
        return _answered(message)

    def list_bots(self) -> list[dict[str, Any]]:
        """List the bots that can be asked, with their ids and names."""
        return self._described(self._clients.blocking.list_bots())

    async def alist_bots(self) -> list[dict[str, Any]]:
        """List the bots that can be asked, with their ids and names."""
        return self._described(await self._clients.awaiting.list_bots())

    def list_collections(self) -> list[dict[str, Any]]:
        """List the collections of sources, with their ids and names."""
        return list(map(_plain, self._clients.blocking.list_collections()))

    async def alist_collections(self) -> list[dict[str, Any]]:
        """List the collections of sources, with their ids and names."""
        return list(map(_plain, await self._clients.awaiting.list_collections()))

    def list_conversations(self, bot_id: str, limit: int = 20) -> list[dict[str, Any]]:
        """List the newest conversations with a bot, at most 200, with their ids and names."""
        return _newest(self._clients.blocking.list_conversations(bot_id), limit)

    async def alist_conversations(self, bot_id: str, limit: int = 20) -> list[dict[str, Any]]:
        """List the newest conversations with a bot, at most 200, with their ids and names."""
        return _newest(await self._clients.awaiting.list_conversations(bot_id), limit)

    def add_text(self, name: str, content: str) -> dict[str, Any]:
        """Add a text to the knowledge, named for what it is about. Each call adds it."""
        create = self._clients.blocking.create_text_source
        return _plain(create(name=name, collections=self._write_to, content=content))

    async def aadd_text(self, name: str, content: str) -> dict[str, Any]:
        """Add a text to the knowledge, named for what it is about. Each call adds it."""
        create = self._clients.awaiting.create_text_source
        return _plain(await create(name=name, collections=self._write_to, content=content))

    def add_webpage(self, name: str, url: str) -> dict[str, Any]:
        """Add a web page to the knowledge, named for what it is about. Each call adds it."""
        create = self._clients.blocking.create_webpage_source
        return _plain(create(name=name, collections=self._write_to, url=url))

    async def aadd_webpage(self, name: str, url: str) -> dict[str, Any]:
        """Add a web page to the knowledge, named for what it is about. Each call adds it."""
        create = self._clients.awaiting.create_webpage_source
        return _plain(await create(name=name, collections=self._write_to, url=url))

    def _described(self, bots: Iterable[Bot]) -> list[dict[str, Any]]:
        known = self._descriptions
        return [
            {**_plain(bot), **({"description": known[bot.id]} if bot.id in known else {})}
            for bot in bots
        ]


def _newest(conversations: Sequence[Conversation], limit: int) -> list[dict[str, Any]]:
    newest = conversations[::-1][: max(0, min(limit, _MOST_CONVERSATIONS))]
    return list(map(_plain, newest))


def _answered(message: Message) -> dict[str, Any]:
    answer = Answer.of(message)
    return {**_plain(message), "sources": list(answer.source_names), "found": not answer.refuses}


def _plain(model: Any) -> dict[str, Any]:
    plain: dict[str, Any] = model.model_dump(mode="json")
    return plain
