"""A chat model that answers with one whole text, and how it refuses the rest."""

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput, ModelProfile
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
)
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import (
    Runnable,
    RunnableConfig,
    RunnableLambda,
    RunnableParallel,
)
from langchain_core.tools import BaseTool
from pydantic import BaseModel
from typing_extensions import override

from langchain_knowledge_bot.connection import traced

NO_TOOLS = (
    "A bot of the Knowledge-Bot Service answers in text and calls no tools. Bind the tools to "
    "another model, and give it the bot as one of them: KnowledgeBotTool(bot_id=...)"
)
_NO_STRUCTURE = (
    "A bot of the Knowledge-Bot Service answers in text. Name a model that extracts the structure: "
    "bot.with_structured_output(schema, judge=other_model)"
)
_NO_AGENT = (
    "A bot of the Knowledge-Bot Service answers in text, so it cannot be an agent with "
    "response_format=. Give the agent another model, and the bot as one of its tools: "
    "KnowledgeBotTool(bot_id=...); or ask the bot alone with "
    "bot.with_structured_output(schema, judge=other_model)"
)

_JUDGE = (
    "A knowledge bot has answered a question in words. Put what the answer says into the requested "
    "structure. Add nothing that the answer does not say."
)


class TextOnlyChatModel(BaseChatModel):
    """A chat model without tools, structured output, images and token counts.

    The answer comes as a whole, so a stream has one chunk.
    """

    @abstractmethod
    def _ask(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the fields of the message that answers."""

    @abstractmethod
    async def _aask(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        """Return what `_ask` does, without blocking."""

    @override
    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        with traced(run_manager):
            message = AIMessage(**self._ask(messages, stop, kwargs))
        return ChatResult(generations=[ChatGeneration(message=message)])

    @override
    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        with traced(run_manager):
            message = AIMessage(**await self._aask(messages, stop, kwargs))
        return ChatResult(generations=[ChatGeneration(message=message)])

    @override
    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        with traced(run_manager):
            answer = self._ask(messages, stop, kwargs)
        yield ChatGenerationChunk(message=AIMessageChunk(**answer, chunk_position="last"))

    @override
    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        with traced(run_manager):
            answer = await self._aask(messages, stop, kwargs)
        yield ChatGenerationChunk(message=AIMessageChunk(**answer, chunk_position="last"))

    @override
    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Raise NotImplementedError: a bot calls no tools."""
        # An agent binds its answer's structure as a tool that must be called.
        structured = tool_choice is not None or "response_format" in kwargs
        raise NotImplementedError(_NO_AGENT if structured else NO_TOOLS)

    @override
    def with_structured_output(
        self,
        schema: dict[str, Any] | type,
        *,
        judge: BaseChatModel | None = None,
        include_raw: bool = False,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, dict[str, Any] | BaseModel]:
        """Return this model with another one that extracts a structure from its answers.

        The bot is asked once; the judge gets only the question and the bot's answer.

        Args:
            schema: the structure, as the judge takes it: a pydantic model, a
                `TypedDict` or a JSON schema.
            judge: a chat model with structured output.
            include_raw: return a dict of `raw`, the bot's message, `parsed` and `parsing_error`.
            **kwargs: `method`, `strict` and the like of the judge's `with_structured_output`.

        Returns:
            A runnable that takes the bot's input and returns what the judge's
            `with_structured_output` does. The arguments of a call, such as `model` and
            `conversation_id`, go to the bot. `configurable_fields` have no effect on it: name
            another bot in the call.

        Raises:
            NotImplementedError: there is no judge, or the judge has no structured output either.
            TypeError: the judge is not a chat model.
        """
        if judge is None:
            raise NotImplementedError(_NO_STRUCTURE)
        if not isinstance(judge, BaseChatModel):
            raise TypeError(
                f"judge: expected a chat model with structured output, not {type(judge).__name__}"
            )
        try:
            reader = judge.with_structured_output(schema, include_raw=include_raw, **kwargs)
        except NotImplementedError as error:
            raise NotImplementedError(
                f"judge: {type(judge).__name__} has no structured output; name a chat model that "
                "has it, or that calls tools"
            ) from error
        asked = self._with_question()
        judged = RunnableLambda(_for_the_judge) | _in_one_piece(reader)
        if not include_raw:
            return asked | judged
        both = asked | RunnableParallel(raw=RunnableLambda(itemgetter("raw")), read=judged)
        return both | RunnableLambda(lambda found: {**found["read"], "raw": found["raw"]})

    def _with_question(self) -> Runnable[Any, Any]:
        # A `RunnableParallel` drops the arguments of a call.
        def invoke(value: Any, config: RunnableConfig, **arguments: Any) -> dict[str, Any]:
            raw = self.invoke(value, config, **arguments)
            return {"question": self._question(value), "raw": raw}

        async def ainvoke(value: Any, config: RunnableConfig, **arguments: Any) -> dict[str, Any]:
            raw = await self.ainvoke(value, config, **arguments)
            return {"question": self._question(value), "raw": raw}

        return RunnableLambda(invoke, ainvoke)

    def _question(self, value: LanguageModelInput) -> str:
        """Return the user's last message."""
        messages = self._convert_input(value).to_messages()
        said = (each.text for each in reversed(messages) if isinstance(each, HumanMessage))
        return next(said, messages[-1].text if messages else "")

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


def _for_the_judge(found: dict[str, Any]) -> list[BaseMessage]:
    content = f"Question:\n{found['question']}\n\nAnswer:\n{found['raw'].text}"
    return [SystemMessage(_JUDGE), HumanMessage(content)]


def _in_one_piece(runnable: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """Return a runnable that streams its result as one piece.

    The framework's parsers yield nothing for a model that does not stream.
    """

    def invoke(value: Any, config: RunnableConfig) -> Any:
        return runnable.invoke(value, config)

    async def ainvoke(value: Any, config: RunnableConfig) -> Any:
        return await runnable.ainvoke(value, config)

    return RunnableLambda(invoke, ainvoke)
