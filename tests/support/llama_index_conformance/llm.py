"""What an LLM owes: `llama_index.core.llms.llm.LLM`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import Any, ClassVar

from llama_index.core.llms import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.llms.llm import LLM
from llama_index.core.prompts import PromptTemplate

from llama_index_conformance.component import ComponentConformance, Start, Way

_COMPLETION = ("LLMCompletionStartEvent", "LLMCompletionEndEvent")
_CHAT = ("LLMChatStartEvent", "LLMChatEndEvent")


class LLMConformance(ComponentConformance):
    """The checks of an LLM; those of `ComponentConformance` for each of its eight methods."""

    base = LLM
    ways = (
        Way("complete"),
        Way("acomplete", awaited=True),
        Way("stream_complete", streamed=True),
        Way("astream_complete", awaited=True, streamed=True),
        Way("chat"),
        Way("achat", awaited=True),
        Way("stream_chat", streamed=True),
        Way("astream_chat", awaited=True, streamed=True),
    )
    # The answer comes in one piece; an LLM that streams for real overrides this.
    events: ClassVar = {
        **dict.fromkeys(("complete", "acomplete"), _COMPLETION),
        **dict.fromkeys(
            ("stream_complete", "astream_complete"),
            (_COMPLETION[0], "LLMCompletionInProgressEvent", _COMPLETION[1]),
        ),
        **dict.fromkeys(("chat", "achat"), _CHAT),
        **dict.fromkeys(
            ("stream_chat", "astream_chat"), (_CHAT[0], "LLMChatInProgressEvent", _CHAT[1])
        ),
    }
    callbacks = ("LLM start", "LLM end")

    def restored(self, service: Any) -> dict[str, Any]:
        """Return what has to be given when an LLM is read back, since it is not written down."""
        return {}

    def arguments(self, way: Way) -> list[Any]:
        (question,) = super().arguments(way)
        return [[ChatMessage(question)] if "chat" in way.method else question]

    def text(self, result: Any) -> str:
        return str(result.message.content if isinstance(result, ChatResponse) else result.text)

    def pieces(self, result: Any) -> Iterator[str]:
        last = ""
        for piece in result:
            last = self.text(piece)
            yield piece.delta
        assert last == self.answer  # a stream's last piece holds all of the text

    async def apieces(self, result: Any) -> AsyncIterator[str]:
        last = ""
        async for piece in result:
            last = self.text(piece)
            yield piece.delta
        assert last == self.answer

    def test_its_metadata_names_the_model(self, start: Start) -> None:
        metadata = self.make(start()).metadata
        assert isinstance(metadata, LLMMetadata)
        assert metadata.model_name != "unknown"
        assert metadata.context_window > 0

    def test_its_parameters_are_named_as_the_framework_s(self, start: Start, way: Way) -> None:
        # Spans and callbacks look for these names, and so do callers.
        (value,) = self.arguments(way)
        named = {"messages" if "chat" in way.method else "prompt": value}
        service = start()
        result = getattr(self.make(service), way.method)(**named)
        if way.awaited:
            result = asyncio.run(_finished(result))
        elif way.streamed:
            list(result)
        assert service.calls == 1

    def test_a_prompt_is_predicted(self, start: Start) -> None:
        service = start()
        assert self.make(service).predict(PromptTemplate("When {what}?"), what="x") == self.answer
        assert service.calls == 1

    def test_a_name_of_its_own_stands_for_it_where_it_is_written_down(self, start: Start) -> None:
        names = {base.class_name() for base in LLM.__mro__ if hasattr(base, "class_name")}
        assert type(self.make(start())).class_name() not in names

    def test_it_is_written_down_and_read_back_without_the_secret(self, start: Start) -> None:
        service = start()
        llm = self.make(service)
        written = llm.to_json()
        assert self.secret not in written
        assert self.secret not in str(llm.to_dict())
        again = type(llm).from_json(written, **self.restored(service))
        assert again.to_json() == written
        assert self.ask(again, Way("complete")) == self.answer

    def test_what_events_tell_names_the_model_and_not_the_secret(self, start: Start) -> None:
        told = self.make(start()).to_payload()
        assert told["model"]
        assert self.secret not in str(told)


async def _finished(result: Awaitable[Any]) -> None:
    outcome = await result
    if isinstance(outcome, AsyncIterator):
        async for _ in outcome:
            pass
