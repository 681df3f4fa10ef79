"""A tool that goes on in one conversation within a graph, without what was not said there."""

import json
import pickle
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode
from pydantic import BaseModel, Field

from knowledge_bot import ConfigurationError
from knowledge_bot.conversations import Heads
from langchain_knowledge_bot import KnowledgeBotTool, KnowledgeBotToolkit
from numbering_bots import heard, times_sent


@pytest.fixture
def tool(fields):
    return KnowledgeBotTool(
        bot_id="bot_1", conversation="continue", heads=Heads(), max_retries=0, **fields
    )


def asking(*questions: str, name: str = "ask_1") -> AIMessage:
    """What a model says that asks questions at once."""
    asking.count += 1
    calls = [
        {"name": name, "args": {"question": each}, "id": f"{asking.count}-{number}"}
        for number, each in enumerate(questions)
    ]
    return AIMessage("", tool_calls=calls)


asking.count = 0


def graph_of(*tools: Any, **options: Any) -> Any:
    """A graph whose person plays the model: what is put in is what the model says."""
    graph = StateGraph(MessagesState).add_node("tools", ToolNode(list(tools)))
    return graph.add_edge(START, "tools").compile(**options)


def test_a_tool_goes_on_where_the_agent_was_with_it(invoke, tool, service):
    graph, state = graph_of(tool), {"messages": []}
    for question in ("When does it open?", "And on Saturdays?", "And on Sundays?"):
        state = invoke(graph, {"messages": [*state["messages"], asking(question)]})
    assert heard(service) == [["When does it open?", "And on Saturdays?", "And on Sundays?"]]
    assert json.loads(json.dumps(state["messages"][-1].artifact)) == state["messages"][-1].artifact


class Described(BaseModel):
    question: str = Field(description="A question about opening hours.")


@pytest.mark.parametrize("key", ["messages", "chat"])
def test_a_tool_goes_on_with_another_schema_and_under_another_name(invoke, fields, service, key):
    tool = KnowledgeBotTool(
        bot_id="bot_1", conversation="continue", args_schema=Described, **fields
    )
    assert "opening hours" in str(convert_to_openai_tool(tool))
    state = TypedDict("State", {key: Annotated[list, add_messages]})
    graph = StateGraph(state).add_node("tools", ToolNode([tool], messages_key=key))
    compiled, said = graph.add_edge(START, "tools").compile(), []
    for question in ("one", "two"):
        said = invoke(compiled, {key: [*said, asking(question)]})[key]
    assert heard(service) == [["one", "two"]]


class Model(BaseModel):
    said: Annotated[list, add_messages]


@dataclass
class Data:
    said: Annotated[list, add_messages]


@dataclass(slots=True)
class Slots:
    said: Annotated[list, add_messages]


class Named(NamedTuple):
    said: Annotated[list, add_messages]


@pytest.mark.parametrize("state", [Model, Data, Slots, Named])
def test_a_tool_goes_on_whatever_class_the_state_is_of(invoke, tool, service, state):
    graph = StateGraph(state).add_node("tools", ToolNode([tool], messages_key="said"))
    compiled, said = graph.add_edge(START, "tools").compile(), []
    for question in ("one", "two"):
        said = invoke(compiled, {"said": [*said, asking(question)]})["said"]
    assert heard(service) == [["one", "two"]]


@pytest.mark.parametrize("kind", [list, tuple, lambda said: {"said": tuple(said)}])
def test_a_tool_goes_on_after_messages_without_a_graph(invoke, tool, service, kind):
    call = {"name": tool.name, "args": {"question": "one"}, "id": "1", "type": "tool_call"}
    said = [invoke(tool, call)]
    invoke(tool, {"question": "two", "state": kind(said)})
    assert heard(service) == [["one", "two"]]


WITHOUT_MESSAGES = [7, "one", object(), Slots([]), Named([]), {"said": ["one"], 5: 6}]


@pytest.mark.parametrize("state", WITHOUT_MESSAGES)
def test_a_state_without_messages_is_an_error_of_the_configuration(invoke, tool, service, state):
    with pytest.raises(ConfigurationError) as failure:
        invoke(tool, {"question": "one", "state": state})
    assert failure.value.argument == "conversation"
    assert heard(service) == []


def test_the_question_that_was_asked_is_told_and_not_the_one_that_was_edited(tool, service):
    call = {"name": "ask_1", "args": {"question": "On Fridays?"}, "id": "1", "type": "tool_call"}
    asked = AIMessage("", tool_calls=[{**call, "args": {"question": "On Mondays?"}}])
    answered = graph_of(tool).invoke({"messages": [AIMessage("", tool_calls=[call])]})
    said = [asked, answered["messages"][-1], asking("And the next day?")]
    graph_of(tool).invoke({"messages": said})
    assert heard(service) == [["On Fridays?", "And the next day?"]]


def test_agents_and_bots_have_conversations_of_their_own(invoke, tool, fields, service):
    other = KnowledgeBotTool(bot_id="bot_2", conversation="continue", heads=Heads(), **fields)
    graph = graph_of(tool, other)
    for _ in range(2):
        said = [asking("one"), asking("two", name="ask_2"), asking("three")]
        messages: list[Any] = []
        for each in said:
            messages = invoke(graph, {"messages": [*messages, each]})["messages"]
    assert heard(service) == [["one", "three"], ["two"], ["one", "three"], ["two"]]


def test_of_questions_asked_at_once_one_goes_on_and_the_others_start_anew(invoke, tool, service):
    graph = graph_of(tool)
    first = invoke(graph, {"messages": [asking("one")]})["messages"]
    asked = invoke(graph, {"messages": [*first, asking("two", "three", "four")]})["messages"]
    trunk, *others = heard(service)
    assert trunk[0] == "one"
    assert len(trunk) == 2
    assert len(others) == 2
    for (whole,) in others:
        assert "one" in whole
        assert sum(each in whole for each in ("two", "three", "four")) == 1
    assert all(each.status == "success" for each in asked[-3:])


def test_an_agent_that_goes_back_in_time_hears_nothing_of_later(tool, service, tmp_path):
    with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as saver:
        graph = graph_of(tool, checkpointer=saver)
        thread = {"configurable": {"thread_id": "1"}}
        for question in ("one", "two", "three"):
            graph.invoke({"messages": [asking(question)]}, thread)
        after_one = next(
            each
            for each in graph.get_state_history(thread)
            if len(each.values.get("messages", [])) == 2 and not each.next
        )
        graph.invoke({"messages": [asking("instead of two")]}, after_one.config)
    trunk, (fork,) = heard(service)
    assert trunk == ["one", "two", "three"]
    assert "one" in fork
    assert "instead of two" in fork
    assert "three" not in fork


def test_with_shared_heads_a_restart_forgets_nothing(fields, service, tmp_path):
    heads = f"sqlite:///{tmp_path}/heads.db"

    def restarted():
        return graph_of(
            KnowledgeBotTool(bot_id="bot_1", conversation="continue", heads=Heads(heads), **fields)
        )

    first = restarted().invoke({"messages": [asking("one")]})["messages"]
    trunk = restarted().invoke({"messages": [*first, asking("two")]})["messages"]
    restarted().invoke({"messages": [*first, asking("instead of two")]})
    restarted().invoke({"messages": [*trunk, asking("three")]})
    kept, (fork,) = heard(service)
    assert kept == ["one", "two", "three"]
    assert "two" not in fork.replace("instead of two", "")


def test_a_model_sees_the_question_alone(tool):
    shown = convert_to_openai_tool(tool)["function"]["parameters"]["properties"]
    assert list(shown) == ["question"]
    assert "knows what it was asked before" in shown["question"]["description"]


def test_outside_of_a_graph_each_question_is_the_first(invoke, tool, service):
    assert invoke(tool, {"question": "one"})
    call = {"name": tool.name, "args": {"question": "two"}, "id": "1", "type": "tool_call"}
    assert invoke(pickle.loads(pickle.dumps(tool)), call).artifact["found"]
    assert heard(service) == [["one"], ["two"]]


def test_a_message_of_someone_else_s_is_no_answer_of_the_bot(invoke, tool, service):
    strange = [
        HumanMessage("Hello."),
        asking("one"),
        ToolMessage("x", tool_call_id="nobody's", artifact={"bot_id": "bot_1"}),
        ToolMessage("x", tool_call_id="1", artifact=["a", "list"]),
        ToolMessage("x", tool_call_id="2"),
    ]
    invoke(graph_of(tool), {"messages": [*strange, asking("two")]})
    assert heard(service) == [["two"]]


def test_a_question_whose_answer_was_lost_is_not_sent_into_the_conversation_again(tool, service):
    graph = graph_of(tool)
    first = graph.invoke({"messages": [asking("one")]})["messages"]
    service.lose_next_answer()
    lost = graph.invoke({"messages": [*first, asking("two")]})["messages"]
    assert lost[-1].status == "error"
    graph.invoke({"messages": [*lost, asking("two")]})
    assert times_sent(service, "two") == [1] * len(heard(service))


def test_a_toolkit_s_tools_go_on_as_well(fields, service):
    from knowledge_bot import Bot

    toolkit = KnowledgeBotToolkit(
        bots=[Bot(id="bot_1", name="1")], conversation="continue", heads=Heads(), **fields
    )
    graph = graph_of(*toolkit.get_tools())
    first = graph.invoke({"messages": [asking("one")]})["messages"]
    graph.invoke({"messages": [*first, asking("two")]})
    assert heard(service) == [["one", "two"]]
