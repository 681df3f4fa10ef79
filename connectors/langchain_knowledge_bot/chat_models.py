"""A bot as a chat model."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Self, overload
from uuid import uuid4

from langchain_core.caches import BaseCache
from langchain_core.callbacks import (
    AsyncCallbackManagerForLLMRun,
    BaseCallbackHandler,
    BaseCallbackManager,
    CallbackManagerForLLMRun,
)
from langchain_core.language_models import BaseChatModel, ModelProfile
from langchain_core.language_models.base import LangSmithParams, LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    ContentBlock,
    TextContentBlock,
)
from langchain_core.messages.block_translators import register_translator
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.rate_limiters import BaseRateLimiter
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from pydantic import AliasChoices, ConfigDict, Field, PrivateAttr, model_validator
from typing_extensions import Unpack, override

from knowledge_bot import ConfigurationError, __version__
from knowledge_bot.adapters import API_KEY_VARIABLE, identifier
from knowledge_bot.adapters.retrieval import Answer
from knowledge_bot.adapters.settings import WITHOUT_EFFECT, WithoutEffect, with_effect
from knowledge_bot.conversations import (
    ROLES,
    Conversations,
    Heads,
    History,
    OnFork,
    Place,
    Reply,
    Said,
    chosen_question,
    placeholder,
)
from knowledge_bot.transcripts import Role
from langchain_knowledge_bot.clients import ClientFields, ClientMixin, HeadsField
from langchain_knowledge_bot.model_errors import AskedOnce, asking

PROVIDER = "knowledge_bot"

# LangChain's and its providers' names for them.
_ROLES: dict[str, Role] = {**ROLES, "ai": "assistant", "human": "user"}

_CALL_ARGUMENTS = ("bot_id", "model", "conversation_id", "stop")
_TOOL_ARGUMENTS = ("functions", "parallel_tool_calls", "tool_choice", "tools")

_NO_TOOLS = (
    "A bot of the Knowledge-Bot Service answers in text; it calls no tools and fills no schema. "
    "Bind these to another model, and give it the bot as a tool: KnowledgeBotTool(bot_id=...)"
)


class ChatFields(ClientFields, WithoutEffect, total=False):
    """The fields of a `ChatKnowledgeBot` except its bot, for type checkers."""

    conversation_id: str | None
    history: History
    on_fork: OnFork
    recognise: bool
    question: Callable[[Sequence[BaseMessage]], str] | None
    heads: Heads | str | PathLike[str] | None
    stop: list[str] | None
    cache: BaseCache | bool | None
    # the framework's
    name: str | None
    verbose: bool
    callbacks: list[BaseCallbackHandler] | BaseCallbackManager | None
    tags: list[str] | None
    metadata: dict[str, Any] | None
    custom_get_token_ids: Callable[[str], list[int]] | None
    rate_limiter: BaseRateLimiter | None
    disable_streaming: bool | Literal["tool_calling"]
    output_version: str | None
    profile: ModelProfile | None


class ChatKnowledgeBot(AskedOnce[LanguageModelInput, AIMessage], BaseChatModel, ClientMixin):
    """A bot of the Knowledge-Bot Service as a chat model.

    The service keeps each conversation itself, so a list of messages is not sent as a whole each
    time: what follows the bot's newest answer in it goes into that answer's conversation. A
    question is sent as it is. If there is more (a system text, tool results, answers of other
    models), all of it is sent as one text that ends with the question, see
    `knowledge_bot.transcripts`.

    A list is a fork if its newest answer of the bot is no longer the last one in its conversation,
    or if something before that answer was changed. A fork is sent as a whole into a new
    conversation, so that no list is answered with messages that are not in it. There is one
    exception: a list whose beginning was removed, as `trim_messages` does it, goes on in its
    conversation, which still holds the beginning. A middleware that rebuilds the bot's messages
    loses their metadata; the answer is then found by the message's id. `heads` remembers the last
    answer of each conversation: by default in this process, for as long as it runs. If several
    workers serve the same users, or the memory must survive a restart, name a database that they
    share.

    Setup:
        Install the package with its LangChain extra, and name the service.

        ```bash
        pip install "knowledge-bot[langchain]"
        export KNOWLEDGE_BOT_BASE_URL="https://service.example.com/public/v1"
        export KNOWLEDGE_BOT_API_KEY="your-api-key"
        ```

    Key init args:
        bot_id: str
            The bot, `bot_…`. Also named `model`.
        conversation_id: str | None
            The conversation for lists without an answer of the bot; by default each starts one.
        history: "transcript" | "latest" | "error"
            What is sent if there is more than a question: a transcript of everything, the newest
            question alone, or nothing: it raises.
        on_fork: "new" | "error"
            Where a fork is sent: into a new conversation, or nowhere: it raises.
        recognise: bool
            Whether an answer that comes without its metadata and its id is recognised by the whole
            list up to it, as where a chat's window stores role and content alone. False by default:
            two chats of one account with the same words then go on in one conversation.
        question: Callable[[Sequence[BaseMessage]], str] | None
            Returns the question of a list of messages, which is sent in place of the last human
            message. For bots of services that search for all of a prompt, with its instructions and
            its context; the embedded service finds the question by itself.
        heads: Heads | str | PathLike | None
            Where the last answer of each conversation is kept: `knowledge_bot.conversations.Heads`,
            or their address, `sqlite:///file` or `postgresql://…`.
        stop: list[str] | None
            The answer is cut before the first of these; the service writes it whole.
        cache: BaseCache | bool | None
            False by default: a cached answer belongs to someone else's conversation.
        api_key, base_url, timeout, max_retries, client, async_client
            How the service is reached, see `ClientMixin`.

        `bot_id` (or `model`), `conversation_id` and `stop` are arguments of `invoke` and its
        like, too. `temperature` and other settings of language models only cause a warning.

    Instantiate:
        ```python
        from langchain_knowledge_bot import ChatKnowledgeBot

        bot = ChatKnowledgeBot(bot_id="bot_handbook")
        ```

    Invoke:
        ```python
        from langchain_core.messages import HumanMessage

        history = [HumanMessage("When does the office open?")]
        history.append(bot.invoke(history))
        history.append(HumanMessage("And on Saturdays?"))
        bot.invoke(history)  # sends the last message alone, into the same conversation
        ```

        If messages are trimmed, the bot's answers may be among those removed: keep the
        conversation's id as well, and pass it in the call.

        ```python
        conversation_id = history[1].response_metadata["conversation_id"]
        bot.invoke("And on Sundays?", conversation_id=conversation_id)
        ```

    Stream:
        The service answers in one piece, so there is one chunk.

        ```python
        for chunk in bot.stream("When does the office open?"):
            print(chunk.text)
        ```

    Async:
        ```python
        await bot.ainvoke("When does the office open?")
        async for chunk in bot.astream("When does the office open?"):
            print(chunk.text)
        await bot.abatch(["When does it open?", "When does it close?"])
        ```

    Retry:
        The client itself retries what cannot duplicate a message, and so does `with_retry` by
        default. On a whole chain, `with_retry` retries everything; use it on the bot. LangGraph's
        default `RetryPolicy` never resends a message that the service may have.

    Response metadata:
        ```python
        bot.invoke("When does the office open?").response_metadata
        ```

        ```python
        {
            "model_provider": "knowledge_bot",
            "model_name": "bot_handbook",
            "bot_id": "bot_handbook",
            "conversation_id": "conv_…",
            "message_id": "msg_…",
            "created_at": 1731500000000,  # Unix milliseconds
            "sources": ["hours.md"],  # those that the service names
            "found": True,  # False if the bot says that it found nothing
            "citations": [{"title": "hours.md", "cited_text": "…"}],  # where passages are named
            "digests": {"turns": ["…", "…"]},  # and more of what came before, and of itself
            "finish_reason": "stop",
        }
        ```

        Sources are also `annotations` of the message's `content_blocks`, of type "citation" with
        the source's name as `title`, and as `url` and `cited_text` what the service says of them
        beside: the address of a page, and the passage that the answer was given from. The message's
        text stays as the service wrote it.

        The service counts no tokens, so there is no `usage_metadata`.

    Tools and structured output:
        A bot answers in text: it calls no tools and fills no schema, so `bind_tools` and
        `with_structured_output` raise NotImplementedError. Give the bot to an agent as a tool
        instead, see `KnowledgeBotTool`.

    Raises:
        pydantic.ValidationError: from the constructor: no key or no base URL, or a field is
            unknown, missing or wrong. It is a ValueError, and holds no field's value.
        langchain_knowledge_bot.model_errors.ChatError: from a call. It is the error that the client
            raised (`knowledge_bot.KnowledgeBotError`), and LangChain's `ModelError` for it as well;
            `delivery` says whether the service may have acted, `is_retryable` whether sending the
            message again is safe and may help.
        TypeError: an unknown argument of a call.
    """

    model_config = ConfigDict(populate_by_name=True)

    bot_id: str = Field(validation_alias=AliasChoices("bot_id", "model"))
    conversation_id: str | None = None
    history: History = "transcript"
    on_fork: OnFork = "new"
    recognise: bool = False
    question: Callable[[Sequence[BaseMessage]], str] | None = Field(
        default=None, exclude=True, frozen=True
    )
    heads: HeadsField = None
    stop: list[str] | None = None
    cache: BaseCache | bool | None = Field(default=False, exclude=True)

    # What a function returns cannot be told from its name, so its answers are cached for the object
    # that has it, and its copies.
    _of_question: str = PrivateAttr(default_factory=lambda: uuid4().hex)

    if TYPE_CHECKING:

        @overload
        def __init__(self, *, bot_id: str, **fields: Unpack[ChatFields]) -> None: ...

        @overload
        def __init__(self, *, model: str, **fields: Unpack[ChatFields]) -> None: ...

        def __init__(self, **fields: Any) -> None: ...

    @property
    def model(self) -> str:
        """The bot, by the name that other chat models have for it."""
        return self.bot_id

    @model_validator(mode="before")
    @classmethod
    def _warn_of_settings_without_effect(cls, fields: Any) -> Any:
        if not isinstance(fields, Mapping):
            return fields
        if "bot_id" in fields and "model" in fields:
            raise ConfigurationError.of("bot_id, model", "both name the bot; pass one of them")
        return with_effect(fields)

    @model_validator(mode="after")
    def _check_ids(self) -> Self:
        identifier("bot_id", self.bot_id, "bot_")
        if self.conversation_id is not None:
            identifier("conversation_id", self.conversation_id, "conv_")
        return self

    @model_validator(mode="after")
    def _set_knowledge_bot_version(self) -> Self:
        self._add_version("knowledge-bot", __version__)
        return self

    @override
    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        with asking(run_manager):
            bot_id, said, how = self._asked(messages, kwargs)
            reply = self._conversations(stop).ask(self._sync, bot_id, said, **how)
            return _result(bot_id, reply)

    @override
    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        with asking(run_manager):
            bot_id, said, how = self._asked(messages, kwargs)
            client = self._awaiting_client()
            reply = await self._conversations(stop).aask(client, bot_id, said, **how)
            return _result(bot_id, reply)

    @override
    def _stream(self, *arguments: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        yield _chunk(self._generate(*arguments, **kwargs))

    @override
    async def _astream(self, *arguments: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        yield _chunk(await self._agenerate(*arguments, **kwargs))

    def _asked(
        self, messages: list[BaseMessage], arguments: Mapping[str, Any]
    ) -> tuple[str, list[Said], dict[str, Any]]:
        """Return the bot, what was said to it, and how it is asked."""
        bot_id = arguments.get("model") or arguments.get("bot_id") or self.bot_id
        if arguments:
            _check(arguments)
        question = None if self.question is None else chosen_question(self.question, messages)
        how = {
            "conversation_id": arguments.get("conversation_id"),
            "default": self.conversation_id,
            "question": question,
        }
        return bot_id, said_in(messages, bot_id), how

    def _conversations(self, stop: list[str] | None) -> Conversations:
        heads = Heads.of_process() if self.heads is None else self.heads
        whose = self._account if self.recognise else None
        return Conversations(heads, self.history, self.on_fork, whose, stop or self.stop or ())

    @override
    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Raise NotImplementedError: a bot calls no tools.

        The framework's `with_structured_output` and agents bind a schema as a tool. Without a tool
        there is nothing to bind.
        """
        if not tools:
            return self
        raise NotImplementedError(_NO_TOOLS)

    @override
    def get_num_tokens_from_messages(
        self, messages: list[BaseMessage], tools: Sequence[Any] | None = None
    ) -> int:
        """Estimate the number of tokens, for trimming; the service does not count them."""
        return count_tokens_approximately(messages)

    @override
    def get_num_tokens(self, text: str) -> int:
        """Estimate the number of tokens of a text."""
        return count_tokens_approximately([text])

    @override
    def _resolve_model_profile(self) -> ModelProfile:
        return ModelProfile(
            tool_calling=False,
            structured_output=False,
            image_inputs=False,
            pdf_inputs=False,
            audio_inputs=False,
            video_inputs=False,
            reasoning_output=False,
        )

    @property
    @override
    def _llm_type(self) -> str:
        return PROVIDER

    @property
    @override
    def _identifying_params(self) -> dict[str, Any]:
        return {
            "bot_id": self.bot_id,
            "service": self._service,
            "conversation_id": self.conversation_id,
            "history": self.history,
            "on_fork": self.on_fork,
            "recognise": self.recognise,
            "question": self.question is not None,
            "stop": self.stop,
        }

    @override
    def _get_llm_string(self, stop: list[str] | None = None, **kwargs: Any) -> str:
        # A cache's key. The default leaves out what comes from the environment or a client, so two
        # services or two accounts would share their answers.
        named = {**self._identifying_params, "account": self._account, "stop": stop or self.stop}
        named["question"] = None if self.question is None else self._of_question
        return str(sorted({**named, **kwargs}.items()))

    @override
    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = LangSmithParams(
            ls_provider=PROVIDER,
            ls_model_type="chat",
            ls_model_name=kwargs.get("model") or kwargs.get("bot_id") or self.bot_id,
        )
        if cut := stop or self.stop:
            params["ls_stop"] = cut
        return params

    @property
    @override
    def lc_secrets(self) -> dict[str, str]:
        return {"api_key": API_KEY_VARIABLE}

    @classmethod
    @override
    def is_lc_serializable(cls) -> bool:
        return True


def _result(bot_id: str, reply: Reply) -> ChatResult:
    """Return an answer as an `AIMessage` by which `said_in` recognises it."""
    answer = Answer.of(reply.message)
    # What the service cites beside its sources' names, in the fields of `Citation`.
    cited = [{"title": one.name, "url": one.url, "cited_text": one.text} for one in answer.cited]
    citations = [{name: text for name, text in one.items() if text is not None} for one in cited]
    metadata = {
        "model_provider": PROVIDER,
        "model_name": bot_id,
        **answer.as_dict(bot_id),
        **reply.kept(),
        **({"citations": citations} if citations else {}),
        "finish_reason": "stop",
    }
    message = AIMessage(content=reply.text, id=reply.message.id, response_metadata=metadata)
    return ChatResult(generations=[ChatGeneration(message=message)])


def _chunk(result: ChatResult) -> ChatGenerationChunk:
    said = result.generations[0].message
    message = AIMessageChunk(
        content=said.content,
        id=said.id,
        response_metadata=said.response_metadata,
        chunk_position="last",
    )
    return ChatGenerationChunk(message=message)


def _check(arguments: Mapping[str, Any]) -> None:
    """Check a call's arguments, and warn of those without an effect.

    Raises:
        TypeError: an argument is unknown.
    """
    nothing_to_call = {name for name in _TOOL_ARGUMENTS if not arguments.get(name)}
    unknown = arguments.keys() - WITHOUT_EFFECT - set(_CALL_ARGUMENTS) - nothing_to_call
    if unknown:
        instead = f" {_NO_TOOLS}." if unknown.intersection(_TOOL_ARGUMENTS) else ""
        raise TypeError(
            f"ChatKnowledgeBot: a call takes no argument {min(unknown)!r}; it takes "
            f"{', '.join(_CALL_ARGUMENTS)}.{instead} Nothing was sent."
        )
    with_effect(arguments)


def said_in(messages: Sequence[BaseMessage], bot_id: str) -> list[Said]:
    """Return messages as the core's, with the positions of the bot's own answers."""
    return [_said(number, message, bot_id) for number, message in enumerate(messages, 1)]


def _content_blocks(message: AIMessage) -> list[ContentBlock]:
    """Return an answer as LangChain's standard blocks, with its sources as annotations."""
    text: TextContentBlock = {"type": "text", "text": message.text}
    metadata = message.response_metadata
    cited = metadata.get("citations")
    if not isinstance(cited, list):
        sources = metadata.get("sources")
        cited = [{"title": str(name)} for name in sources] if isinstance(sources, list) else []
    annotations: list[Any] = [{"type": "citation", **one} for one in cited]
    if annotations:
        text["annotations"] = annotations
    return [text]


# The framework's way for external providers: the content stays a text.
register_translator(PROVIDER, _content_blocks, _content_blocks)


def _said(number: int, message: BaseMessage, bot_id: str) -> Said:
    role, name = _speaker(message)
    place = None
    if isinstance(message, AIMessage):
        metadata = message.response_metadata
        if metadata.get("model_provider") == PROVIDER and metadata.get("bot_id") == bot_id:
            place = Place.of(metadata)
    text, other = _text(message)
    unreadable = f"message {number} ({message.type}) holds a block of type {other!r}"
    kept = message.id if role == "assistant" and (message.id or "").startswith("msg_") else None
    return Said(role, text, name or message.name, place, unreadable if other else "", kept)


def _speaker(message: BaseMessage) -> tuple[Role, str | None]:
    if isinstance(message, ChatMessage):
        # Its role may be any text; an unknown one is the name of an assistant.
        role = _ROLES.get(message.role.lower())
        return (role, None) if role else ("assistant", message.role)
    kind = message.type.removesuffix("MessageChunk").lower()  # a chunk's type is its class's name
    return _ROLES.get(kind, "assistant"), None


def _text(message: BaseMessage) -> tuple[str, str]:
    """Return a message's text, and the type of what is not text in it; empty if there is none."""
    if isinstance(message.content, str):
        return message.content, ""
    texts, other = [], ""
    for block in message.content:
        if isinstance(block, str):
            texts.append(block)
        elif block.get("type") == "text":
            texts.append(str(block.get("text", "")))
        elif not isinstance(message, AIMessage):  # a model's reasoning and tool calls are left out
            other = str(block.get("type"))[:40]
            texts.append(placeholder(other, block.get("filename") or block.get("name")))
    return "".join(texts), other
