"""Engines that ask a bot: single questions, or in a conversation."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseAsyncGen,
    ChatResponseGen,
    CompletionResponse,
    MessageRole,
)
from llama_index.core.base.response.schema import (
    AsyncStreamingResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
from llama_index.core.callbacks.base import EventContext
from llama_index.core.chat_engine.types import (
    AgentChatResponse,
    BaseChatEngine,
    StreamingAgentChatResponse,
)
from llama_index.core.llms.callbacks import llm_chat_callback
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.settings import Settings
from llama_index.core.tools import QueryEngineTool
from llama_index.core.types import TokenAsyncGen

from knowledge_bot import AsyncClient, Client, ConfigurationError
from knowledge_bot.adapters import Turns, identifier
from knowledge_bot.adapters.retrieval import Retrieval
from knowledge_bot.conversations import Conversations, Heads, OnFork, Place, Said
from llama_index_knowledge_bot.llm import KnowledgeBotLLM
from llama_index_knowledge_bot.messages import node_of, reply_of, said_of, source_nodes, text_of


class KnowledgeBotQueryEngine(BaseQueryEngine):
    """A bot that answers questions one by one, for queries, routers, agents and workflows.

    A query is one message to the service, in its own conversation, which the service keeps.
    The response's metadata holds `bot_id`, `conversation_id`, `message_id`, `created_at` in Unix
    milliseconds, the names of the `sources`, and whether the bot `found` anything.

    Where the service names the passages that it answered from, as the embedded one does, these are
    the response's source nodes, as `KnowledgeBotRetriever` has them. Where it names only sources,
    there is one node for each, with the name as `source` in its metadata, and all of them have the
    same text: the answer without the list of names. An evaluator that compares such an answer with
    its source nodes compares it with itself. An answer that names no source has one such node
    without a `source`; one that found nothing and names none has none.

    An engine may be used from any thread and event loop. Pickles and deep copies contain its
    clients, and so pickles contain the API key.

    Example:
        ```python
        engine = KnowledgeBotQueryEngine("bot_handbook")
        print(engine.query("When does the office open?"))
        tool = engine.as_tool(name="handbook", description="Rules and hours of the house.")
        ```

    Args:
        bot_id: the bot that is asked, `bot_…`.
        client: the client to ask with; by default one made from `KNOWLEDGE_BOT_BASE_URL` and
            `KNOWLEDGE_BOT_API_KEY`.
        async_client: the client of asynchronous calls; by default one with the settings of
            `client`. Required if `client` sends with its own `http_client`.
        streaming: whether a query returns a stream, as callers of `stream_chat` want it; the answer
            is its one piece.
        callback_manager: the framework's handlers of events; by default those of its `Settings`.

    Raises:
        ConfigurationError: there is no base URL, or a query contains an image.
        KnowledgeBotError: from a query, as the client raised it; `delivery` says whether the
            service may have acted.
    """

    def __init__(
        self,
        bot_id: str,
        *,
        client: Client | None = None,
        async_client: AsyncClient | None = None,
        streaming: bool = False,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        super().__init__(callback_manager or Settings.callback_manager)
        self._streaming = streaming
        self._llm = KnowledgeBotLLM(
            bot_id,
            client=client,
            async_client=async_client,
            callback_manager=self.callback_manager,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._llm.bot_id!r}, client={self._llm.clients!r})"

    def as_tool(
        self, *, name: str, description: str, return_direct: bool = False
    ) -> QueryEngineTool:
        """Return this engine as a tool for agents and routers.

        Args:
            name: the tool's name, of letters, digits, `_` and `-`.
            description: what the bot knows; agents and routers choose by it.
            return_direct: whether this tool's answer ends the agent's run.
        """
        return QueryEngineTool.from_defaults(
            self, name=name, description=description, return_direct=return_direct
        )

    def _get_prompt_modules(self) -> PromptMixinType:
        return {}

    def retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Return what the bot would answer from, as `KnowledgeBotRetriever` does."""
        retrieval = Retrieval([self._llm.bot_id])
        return list(map(node_of, retrieval.get(self._llm.clients.blocking, text_of(query_bundle))))

    async def aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Return what `retrieve` does, without blocking."""
        retrieval, client = Retrieval([self._llm.bot_id]), self._llm.clients.awaiting
        return list(map(node_of, await retrieval.aget(client, text_of(query_bundle))))

    def _query(self, query_bundle: QueryBundle) -> Response | StreamingResponse:
        with self._query_event(query_bundle) as event:
            answer = self._llm.complete(text_of(query_bundle), formatted=True)
            response = self._response(answer, event)
        if not self._streaming:
            return response
        pieces = (piece for piece in [answer.text])
        return StreamingResponse(pieces, response.source_nodes, response.metadata)

    async def _aquery(self, query_bundle: QueryBundle) -> Response | AsyncStreamingResponse:
        with self._query_event(query_bundle) as event:
            answer = await self._llm.acomplete(text_of(query_bundle), formatted=True)
            response = self._response(answer, event)
        if not self._streaming:
            return response

        async def pieces() -> TokenAsyncGen:
            yield answer.text

        return AsyncStreamingResponse(pieces(), response.source_nodes, response.metadata)

    def _query_event(self, query: QueryBundle) -> AbstractContextManager[EventContext]:
        # The framework's base class reports a query to its dispatcher, but not to its callbacks.
        asked: dict[str, Any] = {EventPayload.QUERY_STR: query.query_str}
        return self.callback_manager.event(CBEventType.QUERY, asked)

    def _response(self, answer: CompletionResponse, event: EventContext) -> Response:
        metadata = dict(answer.additional_kwargs)
        response = Response(answer.text, source_nodes=source_nodes(answer), metadata=metadata)
        event.on_end({EventPayload.RESPONSE: response})
        return response


def _said(messages: Sequence[ChatMessage]) -> list[tuple[str, str]]:
    # A streamed answer is shown without the white space around it.
    return [(message.role.value, (message.content or "").strip()) for message in messages]


@dataclass
class _Conversation:
    """One conversation's state; a turn that ends after `reset` still belongs to the old one.

    Attributes:
        id: the conversation; None until its first answer.
        place: the position of its last answer; None until one is known.
        history: the messages up to there.
        turns: who has the next one.
    """

    id: str | None = None
    place: Place | None = None
    history: list[ChatMessage] = field(default_factory=list)
    turns: Turns = field(default_factory=Turns)

    def asking(self, said: ChatMessage) -> tuple[list[Said], dict[str, str]]:
        """Return the list of messages of the next turn, and the options of the call."""
        if self.id is not None and self.place is None:
            return said_of([said]), {"conversation_id": self.id}
        *before, asked = said_of([*self.history, said])
        # An empty message marks the position, and is left out of transcripts.
        mark = [] if self.place is None else [Said("assistant", "", place=self.place)]
        return [*before, *mark, asked], {}

    def answered(self, said: ChatMessage, reply: ChatResponse) -> ChatResponse:
        """Record a turn, and return its answer."""
        told = reply.additional_kwargs
        self.id, self.place = told["conversation_id"], Place.of(told)
        self.history += [said, reply.message]
        return reply


class KnowledgeBotChatEngine(BaseChatEngine):
    """A conversation with a bot, kept by the service; each turn is one message.

    Turns of several threads run one after another, and so do those of an event loop's tasks: two at
    once on a new engine would start two conversations. Between threads and loops nobody waits; of
    turns at once one goes on, and the others are forks. A streamed turn gives its answer in one
    piece; it is over when `stream_chat` returns, and its `response` is set, whether or not the
    stream is read.

    A conversation can be restored by its id, also in another worker. The service does not return
    the messages of a conversation, so an engine continues one only from an answer that is still its
    last, according to the `heads`; these belong to this process unless several workers share them.
    Otherwise the turn is a fork: by default it goes into a new conversation, as a transcript with
    the whole `chat_history`, so that no answer depends on turns that this engine does not know.
    `conversation_id` then changes. An engine restored by `conversation_id` alone takes its first
    turn after whatever the conversation holds by then; with the last answer's `message_id` as well,
    that turn is a fork if anybody else has continued the conversation.

    The responses of `chat` and `achat` have the same metadata as a query's, see
    `KnowledgeBotQueryEngine`; the framework's streams have none. All have the same source nodes.

    Pickles and deep copies contain the clients and continue the same conversation, without waiting
    for each other's turns; the second one forks. A pickle contains the API key and the address of
    the heads.

    Example:
        ```python
        chat = KnowledgeBotChatEngine("bot_handbook")
        print(chat.chat("When does the office open?"))
        print(chat.chat("And on Sundays?"))
        ```

    Args:
        bot_id: the bot that is asked, `bot_…`.
        client: the client to ask with; by default one made from `KNOWLEDGE_BOT_BASE_URL` and
            `KNOWLEDGE_BOT_API_KEY`.
        async_client: the client of asynchronous turns; by default one with the settings of
            `client`. Required if `client` sends with its own `http_client`.
        conversation_id: a conversation to continue, `conv_…`; by default the first turn starts one.
        message_id: the last answer in it, `msg_…`, from `message_id` or the metadata of a turn.
        chat_history: the earlier messages in it, for `chat_history` and for forks.
        heads: where the last answer of each conversation is kept: `Heads`, or the address of a
            database that workers share, such as `sqlite:///heads.db` or `postgresql://…`.
        on_fork: where a turn goes if its conversation has continued without this engine: "new" into
            a new conversation; "error" nowhere: it raises.
        callback_manager: the framework's handlers of events; by default those of its `Settings`.

    Raises:
        ConfigurationError: there is no base URL, an argument cannot be used, or a turn is a fork
            and `on_fork` is "error". Nothing was sent.
        HeadsError: shared heads cannot be read or written. Nothing was sent.
        KnowledgeBotError: from a turn, as the client raised it; `delivery` says whether the
            service may have acted. After one of unknown delivery the next turn is a fork.
    """

    def __init__(
        self,
        bot_id: str,
        *,
        client: Client | None = None,
        async_client: AsyncClient | None = None,
        conversation_id: str | None = None,
        message_id: str | None = None,
        chat_history: Sequence[ChatMessage] = (),
        heads: Heads | str | os.PathLike[str] | None = None,
        on_fork: OnFork = "new",
        callback_manager: CallbackManager | None = None,
    ) -> None:
        if message_id is not None and conversation_id is None:
            raise ConfigurationError.of("message_id", "needs conversation_id= as well; pass both")
        if conversation_id is not None:
            identifier("conversation_id", conversation_id, "conv_")
        self.callback_manager = callback_manager or Settings.callback_manager
        self._heads = heads if isinstance(heads, Heads | None) else Heads(heads)
        self._on_fork = on_fork
        self._llm = KnowledgeBotLLM(
            bot_id,
            client=client,
            async_client=async_client,
            callback_manager=self.callback_manager,
        )
        self._conversations()  # raises here if `on_fork` is none of those
        place = message_id and conversation_id and Place(conversation_id, message_id)
        self._conversation = _Conversation(conversation_id, place or None, list(chat_history))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self._llm.bot_id!r}, "
            f"conversation_id={self.conversation_id!r}, client={self._llm.clients!r})"
        )

    @property
    def conversation_id(self) -> str | None:
        """The conversation's id; None until its first answer, and another one after a fork."""
        return self._conversation.id

    @property
    def message_id(self) -> str | None:
        """The id of the last answer; None until there is one."""
        place = self._conversation.place
        return None if place is None else place.message_id

    @property
    def chat_history(self) -> list[ChatMessage]:
        """The turns that this engine knows: those it was given, and its own since a reset."""
        return list(self._conversation.history)

    def reset(self) -> None:
        """Leave the conversation; the next turn starts a new one."""
        self._conversation = _Conversation()

    def chat(
        self, message: str, chat_history: list[ChatMessage] | None = None
    ) -> AgentChatResponse:
        """Take a turn.

        Args:
            message: the user's message.
            chat_history: what was said before, as the framework's engines take it. If that is what
                this engine knows, it goes on; anything else begins a new conversation with it.
        """
        return self._response(self._turn(message, chat_history))

    async def achat(
        self, message: str, chat_history: list[ChatMessage] | None = None
    ) -> AgentChatResponse:
        """Take a turn, as `chat` does, without blocking."""
        return self._response(await self._aturn(message, chat_history))

    def stream_chat(
        self, message: str, chat_history: list[ChatMessage] | None = None
    ) -> StreamingAgentChatResponse:
        """Take a turn, as `chat` does, and return its answer as a stream of one piece."""
        reply = self._turn(message, chat_history)

        def pieces() -> ChatResponseGen:
            yield reply

        return self._stream(reply, chat_stream=pieces())

    async def astream_chat(
        self, message: str, chat_history: list[ChatMessage] | None = None
    ) -> StreamingAgentChatResponse:
        """Take a turn, as `stream_chat` does, without blocking."""
        reply = await self._aturn(message, chat_history)

        async def pieces() -> ChatResponseAsyncGen:
            yield reply

        # Callers of the framework's engines await the task that records the turn; here it is done.
        written = asyncio.create_task(asyncio.sleep(0))
        await written
        return self._stream(reply, achat_stream=pieces(), awrite_response_to_history_task=written)

    def _turn(self, text: str, chat_history: list[ChatMessage] | None) -> ChatResponse:
        conversation, said = self._opened(text, chat_history)

        # The framework's events tell of the one message that is sent, and of none before it.
        @llm_chat_callback()
        def ask(llm: KnowledgeBotLLM, _: list[ChatMessage]) -> ChatResponse:
            messages, how = conversation.asking(said)
            client = llm.clients.blocking
            reply = self._conversations().ask(client, llm.bot_id, messages, **how)
            return reply_of(llm.bot_id, reply.message, streamed=True)

        with conversation.turns.of_threads:
            return conversation.answered(said, ask(self._llm, [said]))

    async def _aturn(self, text: str, chat_history: list[ChatMessage] | None) -> ChatResponse:
        conversation, said = self._opened(text, chat_history)

        @llm_chat_callback()
        async def ask(llm: KnowledgeBotLLM, _: list[ChatMessage]) -> ChatResponse:
            messages, how = conversation.asking(said)
            client = llm.clients.awaiting
            reply = await self._conversations().aask(client, llm.bot_id, messages, **how)
            return reply_of(llm.bot_id, reply.message, streamed=True)

        async with conversation.turns.of_tasks:
            return conversation.answered(said, await ask(self._llm, [said]))

    def _conversations(self) -> Conversations:
        return Conversations(self._heads or Heads.of_process(), on_fork=self._on_fork)

    def _opened(
        self, text: str, chat_history: list[ChatMessage] | None
    ) -> tuple[_Conversation, ChatMessage]:
        if not isinstance(text, str):
            raise ConfigurationError.expected("message", "a text", text, ". Nothing was sent")
        if not text.strip():
            raise ConfigurationError.of("message", "is empty; say something. Nothing was sent")
        if chat_history is not None and _said(chat_history) != _said(self._conversation.history):
            self._conversation = _Conversation(history=list(chat_history))
        return self._conversation, ChatMessage(role=MessageRole.USER, content=text)

    def _response(self, reply: ChatResponse) -> AgentChatResponse:
        metadata = dict(reply.additional_kwargs)
        return AgentChatResponse(**self._answer(reply), metadata=metadata)

    def _stream(self, reply: ChatResponse, **stream: Any) -> StreamingAgentChatResponse:
        response = StreamingAgentChatResponse(
            **self._answer(reply), is_writing_to_memory=False, **stream
        )
        response.response = response.response.strip()  # as the framework does
        response.is_done = True
        return response

    def _answer(self, reply: ChatResponse) -> dict[str, Any]:
        return {"response": reply.message.content, "source_nodes": source_nodes(reply)}
