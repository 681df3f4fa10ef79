"""A bot as a language model."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from typing import Any, TypeAlias, TypeVar

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseAsyncGen,
    ChatResponseGen,
    CompletionResponse,
    CompletionResponseAsyncGen,
    CompletionResponseGen,
    LLMMetadata,
)
from llama_index.core.bridge.pydantic import Field
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.llm import LLM
from llama_index.core.types import PydanticProgramMode

from knowledge_bot import AsyncClient, Client, ConfigurationError, Message
from knowledge_bot.adapters import identifier
from knowledge_bot.adapters.settings import with_effect
from knowledge_bot.conversations import Conversations, Heads, History, Said, chosen_question
from knowledge_bot.transcripts import Turn, read, render
from llama_index_knowledge_bot.clients import Clients, with_clients
from llama_index_knowledge_bot.messages import completion_of, reply_of, said_of

_Piece = TypeVar("_Piece")

_Asking: TypeAlias = tuple[list[Said], dict[str, Any]]
"""What was said, and how the bot is asked with it."""

# Arguments of `KnowledgeBotChatEngine`, which may have been meant.
_CHAT_ENGINE_ARGUMENTS = ("chat_history", "heads", "message_id", "on_fork")


class KnowledgeBotLLM(LLM):
    """A bot as a language model, for components that accept nothing else.

    A bot answers questions from its sources; it follows no instructions, calls no tools and reads
    no images. `KnowledgeBotQueryEngine` and `KnowledgeBotChatEngine` are better ways to ask one.
    Each call is one message to the service, and starts a conversation, which the service keeps,
    unless the call has a `conversation_id=`. A stream has one piece; the bot is asked when it is
    read.

    The user's last message of a list is the question. Alone it is sent as it is; if there are
    others (system texts, earlier answers, tool results), `history` says what is sent. The same goes
    for prompts that a component renders from such a list, and for `system_prompt`.

    A response's `raw` is the `knowledge_bot.Message`. Its `additional_kwargs` hold the
    `conversation_id`, the names of the `sources`, and whether the bot `found` anything. There are
    no token counts, since the service gives none.

    An LLM may be used from any thread and event loop. Pickles and deep copies contain its clients,
    and so pickles contain the API key; `to_dict` and `to_json` do not, and `from_dict` makes a
    client from the environment.

    Example:
        ```python
        llm = KnowledgeBotLLM("bot_handbook")
        first = llm.complete("When does the office open?")
        conversation = first.additional_kwargs["conversation_id"]
        llm.complete("And on Sundays?", conversation_id=conversation)
        ```

    Args:
        bot_id: the bot that is asked, `bot_…`.
        client: the client to ask with; by default one made from `KNOWLEDGE_BOT_BASE_URL` and
            `KNOWLEDGE_BOT_API_KEY`.
        async_client: the client of asynchronous calls; by default one with the settings of
            `client`. Required if `client` sends with its own `http_client`.
        history: what is sent if there is more than a question: "transcript" all of it, as one text
            that the service reads (see `knowledge_bot.transcripts`); "latest" the newest question
            alone; "error" nothing: it raises.
        question: returns the question of a list of messages, or of a prompt as one message; it is
            sent in place of the user's last message. For bots of services that search for all of a
            prompt, with its instructions and its context; the embedded service finds the question
            by itself.
        context_window: how many tokens of text components may put into one message; the service
            states no limit (interface section 8).
        is_chat_model: whether components call `chat` rather than `complete`.
        options: fields of `llama_index.core.llms.LLM`, such as `callback_manager`, and
            `system_prompt`, which precedes each transcript. `temperature` and other settings of
            language models only cause a warning, here and in calls.

    Raises:
        TypeError: an argument is unknown, here or in a call. Nothing was sent.
        ConfigurationError: there is no base URL, an argument cannot be used, a message holds more
            than text, or a list has no question or cannot be sent under `history`. Nothing was
            sent.
        KnowledgeBotError: from a call, as the client raised it; `delivery` says whether the service
            may have acted.
    """

    bot_id: str
    history: History = "transcript"
    context_window: int = 8192
    is_chat_model: bool = False
    # Nothing that fills a schema is sent: the framework says that the model calls no functions.
    pydantic_program_mode: PydanticProgramMode = PydanticProgramMode.FUNCTION
    question: Callable[[Sequence[ChatMessage]], str] | None = Field(
        default=None, exclude=True, repr=False
    )
    clients: Clients = Field(exclude=True, repr=False)

    def __init__(
        self,
        bot_id: str,
        *,
        client: Client | None = None,
        async_client: AsyncClient | None = None,
        history: History = "transcript",
        question: Callable[[Sequence[ChatMessage]], str] | None = None,
        context_window: int = 8192,
        is_chat_model: bool = False,
        **options: Any,
    ) -> None:
        options = with_effect(options)
        identifier("bot_id", bot_id, "bot_")
        unknown = options.keys() - type(self).model_fields.keys()
        if misplaced := unknown.intersection(_CHAT_ENGINE_ARGUMENTS):
            raise TypeError(
                f"{', '.join(sorted(misplaced))}: {type(self).__name__} takes no such argument, "
                "since it keeps no conversation; KnowledgeBotChatEngine takes it"
            )
        if unknown:
            raise TypeError(
                f"{', '.join(sorted(unknown))}: {type(self).__name__} takes no such argument; pass "
                "a key, an address and a timeout to its client: client=Client(api_key, base_url)"
            )
        Conversations(Heads(), history)  # raises here if `history` is none of those
        if options.get("system_prompt") and history != "transcript":
            raise ConfigurationError.of(
                "system_prompt",
                f"is only sent with a transcript, and history={history!r} sends "
                'none. Leave it out, or set history="transcript"',
            )
        # A component that renders a list as one text uses the form that the service reads.
        options["messages_to_prompt"] = options.get("messages_to_prompt") or _transcript_of
        # The framework unpickles by passing all fields to this method, `clients` among them.
        clients = options.pop("clients", None) or Clients(client, async_client)
        super().__init__(
            bot_id=bot_id,
            clients=clients,
            history=history,
            question=question,
            context_window=context_window,
            is_chat_model=is_chat_model,
            **options,
        )

    def __getstate__(self) -> dict[str, Any]:
        return with_clients(super().__getstate__())

    @classmethod
    def class_name(cls) -> str:
        """Return the class's name in serialised form."""
        return "knowledge_bot_llm"

    @property
    def metadata(self) -> LLMMetadata:
        """The settings that components read."""
        return LLMMetadata(
            context_window=self.context_window,
            num_output=-1,
            is_chat_model=self.is_chat_model,
            model_name=self.bot_id,
        )

    def to_payload(self) -> dict[str, Any]:
        """Return this LLM's description for events; tracing tools look for `model`."""
        return {
            "class_name": self.class_name(),
            "model": self.bot_id,
            **self.metadata.model_dump(),
        }

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Ask the bot; `conversation_id=` continues a conversation."""
        asking = self._of_prompt(prompt, formatted, kwargs)
        return completion_of(self.bot_id, self._ask(asking))

    @llm_completion_callback()
    async def acomplete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponse:
        """Ask the bot; `conversation_id=` continues a conversation."""
        asking = self._of_prompt(prompt, formatted, kwargs)
        return completion_of(self.bot_id, await self._aask(asking))

    @llm_completion_callback()
    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponseGen:
        """Ask the bot when the stream's one piece is read."""
        asking = self._of_prompt(prompt, formatted, kwargs)
        return _when_read(lambda: completion_of(self.bot_id, self._ask(asking), streamed=True))

    @llm_completion_callback()
    async def astream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponseAsyncGen:
        """Ask the bot when the stream's one piece is read."""
        asking = self._of_prompt(prompt, formatted, kwargs)

        async def piece() -> CompletionResponse:
            return completion_of(self.bot_id, await self._aask(asking), streamed=True)

        return _when_awaited(piece)

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Ask the bot as `history` says; `conversation_id=` continues a conversation."""
        asking = self._of_messages(messages, kwargs)
        return reply_of(self.bot_id, self._ask(asking))

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Ask the bot as `history` says; `conversation_id=` continues a conversation."""
        asking = self._of_messages(messages, kwargs)
        return reply_of(self.bot_id, await self._aask(asking))

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        """Ask the bot when the stream's one piece is read."""
        asking = self._of_messages(messages, kwargs)
        return _when_read(lambda: reply_of(self.bot_id, self._ask(asking), streamed=True))

    @llm_chat_callback()
    async def astream_chat(
        self, messages: Sequence[ChatMessage], **kwargs: Any
    ) -> ChatResponseAsyncGen:
        """Ask the bot when the stream's one piece is read."""
        asking = self._of_messages(messages, kwargs)

        async def piece() -> ChatResponse:
            return reply_of(self.bot_id, await self._aask(asking), streamed=True)

        return _when_awaited(piece)

    # The framework adds the system prompt in some methods and not in others. Here every call goes
    # through `_asking`, which adds it once.

    def _extend_prompt(self, formatted_prompt: str) -> str:
        if self.query_wrapper_prompt is None:
            return formatted_prompt
        return self.query_wrapper_prompt.format(query_str=formatted_prompt)

    def _extend_messages(self, messages: list[ChatMessage]) -> list[ChatMessage]:
        return messages

    def _of_prompt(self, prompt: str, formatted: bool, options: dict[str, Any]) -> _Asking:
        conversation_id = _conversation_id(options)
        if not prompt.strip():
            raise ConfigurationError.of("prompt", "is empty; say what is asked. Nothing was sent")
        if not formatted and self.completion_to_prompt is not None:
            prompt = self.completion_to_prompt(prompt)
        said = [Said(turn.role, turn.text) for turn in read(prompt).turns]
        return self._asking(said, [ChatMessage(prompt)], conversation_id)

    def _of_messages(self, messages: Sequence[ChatMessage], options: dict[str, Any]) -> _Asking:
        conversation_id = _conversation_id(options)
        said = said_of(messages)
        rendered = self.messages_to_prompt
        if len(said) > 1 and rendered is not None and rendered is not _transcript_of:
            said = [Said("user", rendered(messages))]
        return self._asking(said, messages, conversation_id)

    def _asking(
        self, said: list[Said], messages: Sequence[ChatMessage], conversation_id: str | None
    ) -> _Asking:
        if self.system_prompt:
            said = [Said("system", self.system_prompt), *said]
        question = None if self.question is None else chosen_question(self.question, messages)
        return said, {"conversation_id": conversation_id, "question": question}

    def _conversations(self) -> Conversations:
        return Conversations(Heads.of_process(), self.history)

    def _ask(self, asking: _Asking) -> Message:
        said, how = asking
        return self._conversations().ask(self.clients.blocking, self.bot_id, said, **how).message

    async def _aask(self, asking: _Asking) -> Message:
        (said, how), client = asking, self.clients.awaiting
        return (await self._conversations().aask(client, self.bot_id, said, **how)).message


def _when_read(make: Callable[[], _Piece]) -> Generator[_Piece, None, None]:
    yield make()


async def _when_awaited(make: Callable[[], Awaitable[_Piece]]) -> AsyncGenerator[_Piece, None]:
    yield await make()


def _conversation_id(options: dict[str, Any]) -> str | None:
    if unknown := with_effect(options).keys() - {"conversation_id"}:
        raise TypeError(
            f"{', '.join(sorted(unknown))}: a bot takes no such argument; leave it out. How a bot "
            "answers is configured in the service, and a call can only add conversation_id="
        )
    conversation_id: str | None = options.get("conversation_id")
    return conversation_id


def _transcript_of(messages: Sequence[ChatMessage]) -> str:
    return render(Turn(said.role, said.text) for said in said_of(messages))
