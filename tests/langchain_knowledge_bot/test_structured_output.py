"""Structured output: the bot is asked, and another model reads its answer."""

from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import ConfigurableField
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


def test_a_bot_that_fails_is_reported_and_the_judge_hears_nothing(invoke, bot, bots):
    judge = Judge(heard=[])
    bots.refuse_next.append(answer(402))
    with pytest.raises(KnowledgeBotError, match="402"):
        invoke(bot.with_structured_output(Hours, judge=judge), "When do you open?")
    assert judge.heard == []


async def each_way(structured, question, **arguments):
    """Ask in all ways in which there is, and return what each gave."""
    return [
        structured.invoke(question, **arguments),
        await structured.ainvoke(question, **arguments),
        *structured.batch([question], **arguments),
        *await structured.abatch([question], **arguments),
        *structured.stream(question, **arguments),
        *[each async for each in structured.astream(question, **arguments)],
    ]


@pytest.mark.parametrize("include_raw", [False, True])
async def test_arguments_of_a_call_are_the_bots(bot, bots, include_raw):
    judge = Judge(heard=[])
    structured = bot.with_structured_output(Hours, judge=judge, include_raw=include_raw)
    conversation = bot.invoke("Hello?").response_metadata["conversation_id"]
    await each_way(structured, "When?", conversation_id=conversation)
    assert list(bots.threads) == [conversation]
    await each_way(structured, "When?", model="bot_2")
    assert [result.endswith("of bot_2") for result in judge.heard] == [False] * 6 + [True] * 6
    asked = len(bots.received)
    for call in (structured.invoke, structured.batch):
        with pytest.raises(TypeError, match="no argument 'foo'"):
            call(["When?"], foo=3)
    for acall in (structured.ainvoke, structured.abatch):
        with pytest.raises(TypeError, match="no argument 'foo'"):
            await acall(["When?"], foo=3)
    with pytest.raises(TypeError, match="no argument 'foo'"):
        list(structured.stream("When?", foo=3))
    with pytest.raises(TypeError, match="no argument 'foo'"):
        [each async for each in structured.astream("When?", foo=3)]
    assert len(bots.received) == asked


def test_a_model_with_configurable_fields_takes_its_bot_from_the_call(invoke, bot):
    configurable = bot.configurable_fields(bot_id=ConfigurableField(id="bot"))
    structured = configurable.with_structured_output(Hours, judge=Judge(heard=[]))
    assert invoke(structured, "When?", model="bot_2").opens.endswith("of bot_2")


def test_a_judge_without_structured_output_is_named(bot):
    with pytest.raises(NotImplementedError, match="judge: FakeListChatModel has no structured"):
        bot.with_structured_output(Hours, judge=FakeListChatModel(responses=[]))
