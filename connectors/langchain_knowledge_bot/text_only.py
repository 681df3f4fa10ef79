"""A chat model whose whole answer is one text: how it is told, and what is said of the rest."""

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput, ModelProfile
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from pydantic import BaseModel
from typing_extensions import override

NO_TOOLS = (
    "A bot of the Knowledge-Bot Service answers in text and calls no tools. Bind the tools to "
    "another model, and give it the bot as one of them: KnowledgeBotTool(bot_id=...)"
)
_NO_STRUCTURE = (
    "A bot of the Knowledge-Bot Service answers in text. Pipe its answer to a model that has "
    "structured output: bot | StrOutputParser() | other_model.with_structured_output(schema)"
)


class TextOnlyChatModel(BaseChatModel):
    """A chat model without tools, structured output, images and counts of tokens.

    An answer comes as a whole, so that a stream of it is one chunk.
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
        raise NotImplementedError(NO_TOOLS)

    @override
    def with_structured_output(
        self, schema: dict[str, Any] | type, *, include_raw: bool = False, **kwargs: Any
    ) -> Runnable[LanguageModelInput, dict[str, Any] | BaseModel]:
        """Raise NotImplementedError: a bot answers in text."""
        raise NotImplementedError(_NO_STRUCTURE)

    @override
    def get_num_tokens_from_messages(
        self, messages: list[BaseMessage], tools: Sequence[Any] | None = None
    ) -> int:
        """Estimate the number of tokens, for trimming; the service tells nothing of them."""
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
