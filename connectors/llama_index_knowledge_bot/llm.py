"""A bot in the place of a language model."""

from collections.abc import Sequence
from typing import Any, Literal, get_args

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseAsyncGen,
    ChatResponseGen,
    CompletionResponse,
    CompletionResponseAsyncGen,
    CompletionResponseGen,
    LLMMetadata,
    MessageRole,
    TextBlock,
)
from llama_index.core.bridge.pydantic import Field
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.llm import LLM

from knowledge_bot import AsyncClient, Client, ConfigurationError, Message
from llama_index_knowledge_bot.clients import Clients, with_clients

History = Literal["flatten", "last"]


class KnowledgeBotLLM(LLM):
    """A bot in the place of a language model, for components that take nothing else.

    A bot answers questions from the sources it reads; it follows no instructions, calls no tools
    and reads no images. To ask a bot, `KnowledgeBotQueryEngine` and `KnowledgeBotChatEngine` are
    the better fit. Each call is one message to the service, and starts a conversation that the
    service keeps unless `conversation_id=` is passed with the call. A stream is one piece, asked
    for when the first is taken.

    The answer as the interface writes it is in a response's `raw`, and its conversation in the
    response's `additional_kwargs["conversation_id"]`. There are no token counts: the service gives
    none.

    An LLM may be used from any thread and event loop. Pickles and deep copies hold its clients, and
    pickles so the API key; `to_dict` and `to_json` do not, and `from_dict` makes a client from the
    environment.

    Example:
        ```python
        llm = KnowledgeBotLLM("bot_handbook")
        first = llm.complete("When does the office open?")
        llm.complete("And on Sundays?", **first.additional_kwargs)
        ```

    Args:
        bot_id: the bot that is asked, `bot_…`.
        client: the client to ask with; by default one made from `KNOWLEDGE_BOT_BASE_URL` and
            `KNOWLEDGE_BOT_API_KEY`.
        async_client: what asynchronous calls use; by default a client with the settings of
            `client`. To be given where `client` sends with an `http_client` of its own.
        history: what `chat` sends of several messages: "flatten" all of them as one text, with
            their roles; "last" only the last, where the service's conversation holds the others.
        context_window: how much text, in tokens, components may put into one message; the service
            shows no limit (interface section 8).
        is_chat_model: whether components shall call `chat` rather than `complete`. They then send
            system prompts as well, which a bot takes for a part of the question.
        options: fields of `llama_index.core.llms.LLM`, such as `callback_manager`.

    Raises:
        ConfigurationError: no base URL, an argument that is not known or cannot be used, a message
            that holds more than text, or a list that cannot be sent under `history`.
        KnowledgeBotError: from a call, as the client raised it; `delivery` tells whether the
            service may have acted.
    """

    bot_id: str
    history: History = "flatten"
    context_window: int = 8192
    is_chat_model: bool = False
    clients: Clients = Field(exclude=True, repr=False)

    def __init__(
        self,
        bot_id: str,
        *,
        client: Client | None = None,
        async_client: AsyncClient | None = None,
        history: History = "flatten",
        context_window: int = 8192,
        is_chat_model: bool = False,
        **options: Any,
    ) -> None:
        if unknown := options.keys() - type(self).model_fields.keys():
            raise ConfigurationError(
                f"{', '.join(sorted(unknown))}: no argument of {type(self).__name__}; a key, an "
                "address and a time-out go into its client: client=Client(api_key, base_url)"
            )
        if history not in get_args(History):
            raise ConfigurationError(f"history: expected 'flatten' or 'last', not {history!r}")
        # The framework unpickles by passing all fields to this method, and so `clients`.
        clients = options.pop("clients", None) or Clients(client, async_client)
        super().__init__(
            bot_id=bot_id,
            clients=clients,
            history=history,
            context_window=context_window,
            is_chat_model=is_chat_model,
            **options,
        )

    def __getstate__(self) -> dict[str, Any]:
        return with_clients(super().__getstate__())

    @classmethod
    def class_name(cls) -> str:
        """Return the name that stands for this class in what is written down."""
        return "knowledge_bot_llm"

    @property
    def metadata(self) -> LLMMetadata:
        """What components plan with."""
        return LLMMetadata(
            context_window=self.context_window,
            num_output=-1,
            is_chat_model=self.is_chat_model,
            model_name=self.bot_id,
        )

    def to_payload(self) -> dict[str, Any]:
        """Return what events tell of this LLM; tracing tools look for `model`."""
        return {
            "class_name": self.class_name(),
            "model": self.bot_id,
            **self.metadata.model_dump(),
        }

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Ask the bot; `conversation_id=` continues a conversation."""
        return _completion(self._ask(self._prompt(prompt, formatted=formatted), kwargs))

    @llm_completion_callback()
    async def acomplete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponse:
        """Ask the bot; `conversation_id=` continues a conversation."""
        return _completion(await self._aask(self._prompt(prompt, formatted=formatted), kwargs))

    @llm_completion_callback()
    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponseGen:
        """Ask the bot when the answer's one piece is taken."""
        content = self._prompt(prompt, formatted=formatted)
        _conversation_id(kwargs)

        def pieces() -> CompletionResponseGen:
            yield _completion(self._ask(content, kwargs), streamed=True)

        return pieces()

    @llm_completion_callback()
    async def astream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponseAsyncGen:
        """Ask the bot when the answer's one piece is taken."""
        content = self._prompt(prompt, formatted=formatted)
        _conversation_id(kwargs)

        async def pieces() -> CompletionResponseAsyncGen:
            yield _completion(await self._aask(content, kwargs), streamed=True)

        return pieces()

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Ask the bot as `history` says; `conversation_id=` continues a conversation."""
        return _reply(self._ask(self._content(messages, kwargs), kwargs))

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Ask the bot as `history` says; `conversation_id=` continues a conversation."""
        return _reply(await self._aask(self._content(messages, kwargs), kwargs))

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        """Ask the bot when the answer's one piece is taken."""
        content = self._content(messages, kwargs)

        def pieces() -> ChatResponseGen:
            yield _reply(self._ask(content, kwargs), streamed=True)

        return pieces()

    @llm_chat_callback()
    async def astream_chat(
        self, messages: Sequence[ChatMessage], **kwargs: Any
    ) -> ChatResponseAsyncGen:
        """Ask the bot when the answer's one piece is taken."""
        content = self._content(messages, kwargs)

        async def pieces() -> ChatResponseAsyncGen:
            yield _reply(await self._aask(content, kwargs), streamed=True)

        return pieces()

    def _ask(self, content: str, options: dict[str, Any]) -> Message:
        return self.clients.blocking.send_message(
            bot_id=self.bot_id, content=content, conversation_id=_conversation_id(options)
        )

    async def _aask(self, content: str, options: dict[str, Any]) -> Message:
        return await self.clients.awaiting.send_message(
            bot_id=self.bot_id, content=content, conversation_id=_conversation_id(options)
        )

    def _prompt(self, prompt: str, *, formatted: bool) -> str:
        if formatted or self.completion_to_prompt is None:
            return prompt
        return self.completion_to_prompt(prompt)

    def _content(self, messages: Sequence[ChatMessage], options: dict[str, Any]) -> str:
        conversation_id = _conversation_id(options)
        if not messages:
            raise ConfigurationError("messages: is empty; pass at least the question")
        for position, message in enumerate(messages, 1):
            _check_is_text(position, message)
        *earlier, last = messages
        if self.history == "flatten":
            if (earlier or last.role is not MessageRole.USER) and self.messages_to_prompt:
                return self.messages_to_prompt(messages)
        elif last.role is not MessageRole.USER:
            raise ConfigurationError(
                f"messages: with history='last' the last one is sent, and that is the "
                f"{last.role.value}'s, not the user's"
            )
        elif earlier and conversation_id is None:
            raise ConfigurationError(
                "messages: with history='last' the earlier ones are not sent; pass the "
                "conversation_id= of the conversation that holds them, or use history='flatten'"
            )
        return last.content or ""


def _conversation_id(options: dict[str, Any]) -> str | None:
    if unknown := options.keys() - {"conversation_id"}:
        raise ConfigurationError(
            f"{', '.join(sorted(unknown))}: a bot takes no such argument; leave it out. How a bot "
            "answers is set up in the service, and conversation_id= is all that a call can add"
        )
    conversation_id: str | None = options.get("conversation_id")
    return conversation_id


def _check_is_text(position: int, message: ChatMessage) -> None:
    for block in message.blocks:
        if not isinstance(block, TextBlock):
            raise ConfigurationError(
                f"messages: number {position} holds a {type(block).__name__}, and a bot reads text "
                "only; put into words what it shows, or add the file to a collection that the bot "
                "reads and ask about it"
            )


def _completion(message: Message, *, streamed: bool = False) -> CompletionResponse:
    return CompletionResponse(
        text=message.answer,
        delta=message.answer if streamed else None,
        raw=message.model_dump(mode="json"),
        additional_kwargs={"conversation_id": message.conversation_id},
    )


def _reply(message: Message, *, streamed: bool = False) -> ChatResponse:
    # The message's own additional_kwargs stay empty: the framework prints them into prompts.
    return ChatResponse(
        message=ChatMessage(role=MessageRole.ASSISTANT, content=message.answer),
        delta=message.answer if streamed else None,
        raw=message.model_dump(mode="json"),
        additional_kwargs={"conversation_id": message.conversation_id},
    )
