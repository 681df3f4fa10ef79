"""A bot as a chat model."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from langchain_core.caches import BaseCache
from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
from langchain_core.language_models import ModelProfile
from langchain_core.language_models.base import LangSmithParams, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.rate_limiters import BaseRateLimiter
from pydantic import AliasChoices, ConfigDict, Field, model_validator
from typing_extensions import Unpack, override

from knowledge_bot import ConfigurationError, KnowledgeBotError, __version__
from knowledge_bot.adapters import (
    API_KEY_VARIABLE,
    WITHOUT_EFFECT,
    with_effect,
)
from knowledge_bot.conversations import (
    Conversations,
    Heads,
    History,
    OnFork,
    OnTrim,
    chosen_question,
)
from langchain_knowledge_bot.asked_once import AskedOnce
from langchain_knowledge_bot.connection import (
    FRAMEWORKS,
    Connection,
    ConnectionFields,
    HeadsField,
    LedgerField,
)
from langchain_knowledge_bot.messages import PROVIDER, message_fields, said_in
from langchain_knowledge_bot.model_errors import as_chat_error
from langchain_knowledge_bot.text_only import NO_TOOLS, TextOnlyChatModel

if TYPE_CHECKING:
    from knowledge_bot.ingest import Ledger

_CALL_ARGUMENTS = ("bot_id", "model", "conversation_id", "stop")
_TOOL_ARGUMENTS = ("functions", "parallel_tool_calls", "tool_choice", "tools")


@contextmanager
def _as_chat_errors() -> Iterator[None]:
    try:
        yield
    except KnowledgeBotError as error:
        raise as_chat_error(error) from None


class ChatFields(ConnectionFields, total=False):
    """The fields of a `ChatKnowledgeBot` except its bot, for type checkers."""

    conversation_id: str | None
    history: History
    on_fork: OnFork
    on_trim: OnTrim
    question: Callable[[Sequence[BaseMessage]], str] | None
    heads: Heads | str | PathLike[str] | None
    ledger: "Ledger | str | PathLike[str] | None"
    stop: list[str] | None
    cache: BaseCache | bool | None
    # accepted with a warning, see `WITHOUT_EFFECT`
    frequency_penalty: float | None
    logit_bias: dict[Any, Any] | None
    logprobs: bool | None
    max_completion_tokens: int | None
    max_tokens: int | None
    n: int | None
    presence_penalty: float | None
    seed: int | None
    stream: bool
    streaming: bool
    temperature: float | None
    top_k: int | None
    top_p: float | None
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


class ChatKnowledgeBot(AskedOnce[LanguageModelInput, AIMessage], TextOnlyChatModel, Connection):
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
    conversation, which still holds the beginning; with `on_trim="new"` it does not. `heads`
    remembers the last answer of each conversation: by default in this process, for as long as it
    runs. If several workers serve the same users, or the memory must survive a restart, name a
    database that they share.

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
        history: "transcript" | "latest" | "replay" | "error"
            What is sent if there is more than a question: a transcript of everything, the newest
            question alone, the user's messages one by one, or nothing: it raises.
        on_fork: "new" | "continue" | "error"
            Where a fork is sent: into a new conversation, into the old one, or nowhere: it raises.
        on_trim: "continue" | "new"
            Where a list is sent whose beginning was removed. "new" also for what a user deleted on
            purpose; then each later turn of a list that stays trimmed is sent as a whole.
        question: Callable[[Sequence[BaseMessage]], str] | None
            Returns the question of a list of messages, which is sent in place of the last human
            message. For bots of services that search for all of a prompt, with its instructions and
            its context; the embedded service finds the question by itself.
        heads: Heads | str | PathLike | None
            Where the last answer of each conversation is kept: `knowledge_bot.conversations.Heads`,
            or their address, `sqlite:///file` or `postgresql://…`.
        ledger: Ledger | str | PathLike | None
            What the bot's sources were ingested with (a `knowledge_bot.ingest.Ledger`, its address
            or the path of a SQLite file): answers then say how current each source is.
        stop: list[str] | None
            The answer is cut before the first of these; the service writes it whole.
        cache: BaseCache | bool | None
            False by default: a cached answer belongs to someone else's conversation.
        api_key, base_url, timeout, max_retries, client, async_client
            How the service is reached, see `Connection`.

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

        With a `ledger` there is also `freshness`: for each source its `name`, `source_id`,
        `verdict` ("current", "changed", "moved", "gone" or "unknown") and `as_of`; None if the
        ledger could not be read, which the log explains. See `knowledge_bot.ingest.Freshness`.

        Sources are also `annotations` of the message's `content_blocks`, of type "citation" with
        the source's name as `title`, and as `url` and `cited_text` what the service says of them
        beside: the address of a page, and the passage that the answer was given from. The message's
        text stays as the service wrote it.

        The service counts no tokens, so there is no `usage_metadata`.

    Tools and structured output:
        A bot answers in text and calls no tools. Give it to an agent as a tool instead, see
        `KnowledgeBotTool`; for structured output, let another model read its answer.

        ```python
        structured = bot.with_structured_output(Hours, judge=another_model)
        structured.invoke("When does the office open?")
        ```

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
    """The bot, `bot_…`. Also named `model`."""

    conversation_id: str | None = None
    """The conversation for lists without an answer of the bot; by default each starts one."""

    history: History = "transcript"
    """What is sent if there is more than a question."""

    on_fork: OnFork = "new"
    """Where a list is sent whose newest answer is not its conversation's last, or in which
    something before that answer was changed."""

    on_trim: OnTrim = "continue"
    """Where a list is sent whose beginning was removed."""

    question: Callable[[Sequence[BaseMessage]], str] | None = Field(default=None, exclude=True)
    """Returns the question of a list of messages, which is sent in place of the last human one."""

    heads: HeadsField = None
    """Where the last answer of each conversation is kept; takes `Heads` or their address."""

    ledger: LedgerField = None
    """What the bot's sources were ingested with; takes a `Ledger` or its address."""

    stop: list[str] | None = None
    """The answer is cut before the first of these."""

    cache: BaseCache | bool | None = Field(default=False, exclude=True)
    """Whether answers are cached: False, True for the global cache, or a `BaseCache`."""

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
        return with_effect(fields, inside=FRAMEWORKS)

    @model_validator(mode="after")
    def _set_knowledge_bot_version(self) -> Self:
        self._add_version("knowledge-bot", __version__)
        return self

    @override
    def _ask(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        bot_id, named = _named_in(kwargs, self.bot_id)
        with _as_chat_errors():
            how = self._asking(messages, named)
            said = said_in(messages, bot_id)
            reply = self._conversations().ask(self._sync, bot_id, said, **how)
        return message_fields(bot_id, reply, stop or self.stop or [])

    @override
    async def _aask(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        bot_id, named = _named_in(kwargs, self.bot_id)
        with _as_chat_errors():
            how = self._asking(messages, named)
            said, client = said_in(messages, bot_id), self._awaiting_client()
            reply = await self._conversations().aask(client, bot_id, said, **how)
        return message_fields(bot_id, reply, stop or self.stop or [])

    def _asking(self, messages: list[BaseMessage], named: str | None) -> dict[str, Any]:
        question = None if self.question is None else chosen_question(self.question, messages)
        return {"conversation_id": named, "default": self.conversation_id, "question": question}

    def _conversations(self) -> Conversations:
        heads = Heads.of(self._sync) if self.heads is None else self.heads
        return Conversations(
            heads, self.history, self.on_fork, on_trim=self.on_trim, ledger=self.ledger
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
            "on_trim": self.on_trim,
            "question": self.question,
            "stop": self.stop,
        }

    @override
    def _get_llm_string(self, stop: list[str] | None = None, **kwargs: Any) -> str:
        # A cache's key. The default leaves out what comes from the environment or a client, so two
        # services or two accounts would share their answers.
        named = {**self._identifying_params, "account": self._account, "stop": stop or self.stop}
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


def _named_in(arguments: Mapping[str, Any], bot_id: str) -> tuple[str, str | None]:
    """Return the bot, by default `bot_id`, and the conversation that a call's arguments name.

    Raises:
        TypeError: an argument is unknown.
    """
    unknown = arguments.keys() - WITHOUT_EFFECT - set(_CALL_ARGUMENTS)
    if unknown:
        instead = f" {NO_TOOLS}." if unknown.intersection(_TOOL_ARGUMENTS) else ""
        raise TypeError(
            f"ChatKnowledgeBot: a call takes no argument {min(unknown)!r}; it takes "
            f"{', '.join(_CALL_ARGUMENTS)}.{instead} Nothing was sent."
        )
    with_effect(arguments, inside=FRAMEWORKS)
    named = arguments.get("model") or arguments.get("bot_id") or bot_id
    return named, arguments.get("conversation_id")
