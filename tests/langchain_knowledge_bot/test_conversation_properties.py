"""Whatever is done to message lists: nothing is lost, said twice, or heard by another fork.

Lists are started, continued, forked, cut and trimmed at random, and given to two bots of a service
that loses some of its answers.
"""

import asyncio
import re
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from calls import KEY
from knowledge_bot import BadRequestError, ConnectionLostError
from langchain_knowledge_bot import ChatKnowledgeBot
from numbering_bots import numbering

KINDS = {
    "human": HumanMessage,
    "blocks": lambda text: HumanMessage([{"type": "text", "text": text}]),
    "named": lambda text: HumanMessage(text, name="ada"),
    "system": SystemMessage,
    "tool": lambda text: ToolMessage(text, tool_call_id="1", name="search"),
    "other model": lambda text: AIMessage(text, response_metadata={"model_provider": "openai"}),
    "tool call": lambda text: AIMessage([{"type": "tool_use", "id": "1"}, text]),
    "role": lambda text: ChatMessage(text, role="critic"),
}
kinds = st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3)
MARK = re.compile(r"<\w+ \d+>")


@dataclass(frozen=True)
class Said:
    """A message in a list, and every mark in the past that it followed, its own included."""

    message: BaseMessage
    past: frozenset[str]


def followed(one, message):
    before = one[-1].past if one else frozenset()
    return (*one, Said(message, before.union(marks(message))))


def marks(message):
    return MARK.findall(message.text)


class MessageLists(RuleBasedStateMachine):
    lists = Bundle("lists")

    def __init__(self):
        super().__init__()
        self.service = numbering()
        self.standing_in = self.service.standing_in()
        self.standing_in.__enter__()
        # Clients are shared, so each service has an address of its own.
        self.address = f"https://{id(self.service)}.test"
        self.texts = 0

    def teardown(self):
        self.standing_in.__exit__(None, None, None)

    @initialize(target=lists)
    def nothing(self):
        return ()

    @rule(target=lists, one=lists, kinds=kinds, bot_id=st.sampled_from(["bot_1", "bot_2"]))
    def ask(self, one, kinds, bot_id):
        return self._asked(self._continued(one, kinds), bot_id)

    @rule(target=lists, one=lists, kinds=kinds)
    def ask_in_an_event_loop(self, one, kinds):
        return self._asked(self._continued(one, kinds), "bot_1", asynchronous=True)

    @rule(target=lists, one=lists, kinds=kinds)
    def lose_an_answer_and_ask_again(self, one, kinds):
        one = self._continued(one, kinds)
        self.service.lose_next_answer()
        sent = len(self.service.requests)
        with pytest.raises(ConnectionLostError):
            self._bot("bot_1").with_retry().invoke([each.message for each in one])
        assert len(self.service.requests) == sent + 1
        return self._asked(one, "bot_1")

    @rule(target=lists, one=lists, kinds=kinds)
    def be_refused_and_ask_again(self, one, kinds):
        one = self._continued(one, kinds)
        self.service.fail_next(400)
        with pytest.raises(BadRequestError):
            self._bot("bot_1").invoke([each.message for each in one])
        return self._asked(one, "bot_1")

    @rule(target=lists, one=lists, data=st.data())
    def go_back(self, one, data):
        return one[: data.draw(st.integers(0, len(one)))]

    @rule(target=lists, one=lists, data=st.data())
    def drop_some(self, one, data):
        return tuple(each for each in one if data.draw(st.booleans()))

    def _continued(self, one, kinds):
        # Instructions alone ask nothing, which is refused.
        for kind in [*kinds, "human"] if set(kinds) == {"system"} else kinds:
            self.texts += 1
            one = followed(one, KINDS[kind](f"<text {self.texts}>"))
        return one

    def _bot(self, bot_id):
        return ChatKnowledgeBot(bot_id=bot_id, api_key=KEY, base_url=self.address)

    def _asked(self, one, bot_id, *, asynchronous=False):
        bot, messages = self._bot(bot_id), [each.message for each in one]
        reply = asyncio.run(bot.ainvoke(messages)) if asynchronous else bot.invoke(messages)
        conversation = reply.response_metadata["conversation_id"]
        heard = MARK.findall("\n".join(self.service.conversations[conversation]))
        for message in messages:
            its_own = message.response_metadata.get("conversation_id") == conversation
            for mark in marks(message):
                assert heard.count(mark) == (0 if its_own else 1), "once in each conversation"
        assert one[-1].past.issuperset(heard), "no fork hears another fork's messages"
        return followed(one, reply)


@pytest.mark.timeout(240)
def test_every_text_is_heard_once_in_each_conversation_and_by_no_other_fork():
    run_state_machine_as_test(
        MessageLists,
        settings=settings(max_examples=30, stateful_step_count=15),
    )
