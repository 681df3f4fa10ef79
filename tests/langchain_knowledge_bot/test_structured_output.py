"""Structured output: the bot is asked, and another model reads its answer."""

from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import BaseModel, ValidationError
from typing_extensions import TypedDict

from knowledge_bot import KnowledgeBotError
from langchain_knowledge_bot import ChatKnowledgeBot
from scripted_server import answer


class Hours(BaseModel):
    """When it opens."""

    opens: str


class HoursDict(TypedDict):
    """When it opens."""

    opens: str


SCHEMA = {
    "title": "Hours",
    "description": "When it opens.",
    "type": "object",
    "properties": {"opens": {"type": "string"}},
    "required": ["opens"],
}
READ = {"opens": "<answer 1> of bot_1"}


class Judge(BaseChatModel):
    """A model that calls the tool it has to call with what stands behind "Answer:"."""

    field: str = "opens"
    heard: list[str] = []  # noqa: RUF012 - a pydantic field

    @property
    def _llm_type(self) -> str:
        return "judge"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=tools)

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any):
        self.heard.append(messages[-1].text)
        (tool,) = kwargs["tools"]
        name = getattr(tool, "__name__", None) or tool.get("title") or tool["function"]["name"]
        read = {self.field: messages[-1].text.rpartition("Answer:\n")[2]}
        call = {"name": name, "args": read, "id": "1"}
        return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=[call]))])


@pytest.fixture
def bot(bots):
    return ChatKnowledgeBot(bot_id="bot_1", max_retries=0, **bots.fields)


@pytest.mark.parametrize(
    ("schema", "read"),
    [(Hours, Hours(**READ)), (HoursDict, READ), (SCHEMA, READ)],
    ids=["pydantic", "TypedDict", "JSON schema"],
)
def test_a_judge_reads_the_answer_into_a_schema(invoke, bot, bots, schema, read):
    judge = Judge(heard=[])
    structured = bot.with_structured_output(schema, judge=judge)
    asked = [("system", "Be kind."), ("human", "When do you open?")]
    assert invoke(structured, asked) == read
    assert judge.heard == ["Question:\nWhen do you open?\n\nAnswer:\n<answer 1> of bot_1"]
    assert len(bots.received) == 1


def test_the_bots_message_is_kept_beside_what_was_read(invoke, bot, bots):
    structured = bot.with_structured_output(Hours, judge=Judge(), include_raw=True)
    found = invoke(structured, "When do you open?")
    assert (found["parsed"], found["parsing_error"]) == (Hours(**READ), None)
    assert found["raw"].response_metadata["conversation_id"] in bots.threads
    wrong = bot.with_structured_output(Hours, judge=Judge(field="closes"), include_raw=True)
    found = invoke(wrong, "When do you open?")
    assert found["parsed"] is None
    assert isinstance(found["parsing_error"], ValidationError)
    assert found["raw"].content == "<answer 2> of bot_1"


async def test_batches_and_streams_ask_each_question_once(bot, bots):
    structured = bot.with_structured_output(Hours, judge=Judge())
    assert len(structured.batch(["one", "two"])) == 2
    assert len(await structured.abatch(["three", "four"])) == 2
    assert [each.opens for each in structured.stream("five")] == ["<answer 5> of bot_1"]
    assert [each.opens async for each in structured.astream("six")] == ["<answer 6> of bot_1"]
    assert sorted(bots.contents) == sorted(["one", "two", "three", "four", "five", "six"])


def test_a_bot_that_fails_is_told_of_and_the_judge_hears_nothing(invoke, bot, bots):
    judge = Judge(heard=[])
    bots.refuse_next.append(answer(402))
    with pytest.raises(KnowledgeBotError, match="402"):
        invoke(bot.with_structured_output(Hours, judge=judge), "When do you open?")
    assert judge.heard == []
