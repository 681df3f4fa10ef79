"""What a chat engine owes: `llama_index.core.chat_engine.types.BaseChatEngine`."""

from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar

from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.llms import MessageRole

from llama_index_conformance.component import ComponentConformance, Start, Way


class ChatEngineConformance(ComponentConformance):
    """The checks of a chat engine whose service keeps the conversation: one call a turn."""

    base = BaseChatEngine
    ways = (
        Way("chat"),
        Way("achat", awaited=True),
        Way("stream_chat", streamed=True),
        Way("astream_chat", awaited=True, streamed=True),
    )
    events: ClassVar = dict.fromkeys(
        ("chat", "achat", "stream_chat", "astream_chat"), ("LLMChatStartEvent", "LLMChatEndEvent")
    )
    callbacks = ("LLM start", "LLM end")
    serves_at_once = False

    def text(self, result: Any) -> str:
        return str(result.response)

    def pieces(self, result: Any) -> Iterator[str]:
        yield from result.response_gen
        assert str(result) == self.answer  # a stream that was read tells its text

    async def apieces(self, result: Any) -> AsyncIterator[str]:
        async for piece in result.async_response_gen():
            yield piece
        assert str(result) == self.answer

    def test_each_turn_is_one_call_and_two_messages_of_the_history(
        self, start: Start, way: Way
    ) -> None:
        service = start()
        engine = self.make(service)
        for turn in (1, 2, 3):
            assert self.ask(engine, way) == self.answer
            assert service.calls == turn
            assert [message.role for message in engine.chat_history] == [
                MessageRole.USER,
                MessageRole.ASSISTANT,
            ] * turn

    def test_a_reset_forgets_the_history(self, start: Start, way: Way) -> None:
        engine = self.make(start())
        self.ask(engine, way)
        engine.reset()
        assert engine.chat_history == []
        self.ask(engine, way)
        assert len(engine.chat_history) == 2

    def test_a_refused_turn_is_not_in_the_history(self, start: Start, way: Way) -> None:
        engine = self.make(start(refusing=True))
        try:
            self.ask(engine, way)
        except self.error:
            assert engine.chat_history == []
        else:
            raise AssertionError("the turn was not refused")

    def test_the_history_that_is_given_out_is_a_copy(self, start: Start) -> None:
        engine = self.make(start())
        engine.chat("When?")
        engine.chat_history.clear()
        assert len(engine.chat_history) == 2
