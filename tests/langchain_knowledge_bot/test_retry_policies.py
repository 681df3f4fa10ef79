"""LangGraph's default `RetryPolicy`: it asks again where that is safe, and nowhere else."""

import pickle
import warnings

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import ToolException
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import RetryPolicy, default_retry_on

from knowledge_bot import ConnectionFailedError, Delivery, KnowledgeBotError, RateLimitError
from langchain_knowledge_bot import ChatKnowledgeBot, KnowledgeBotRetriever, KnowledgeBotTool
from langchain_knowledge_bot.model_errors import as_chat_error
from scripted_server import answer, close, raw, silence

CALL = {"name": "ask_1", "args": {"question": "When?"}, "id": "1", "type": "tool_call"}
ASKED = {"messages": [("human", "When?")]}
CALLED = {"messages": [AIMessage("", tool_calls=[CALL])]}


def chat(fields):
    bot = ChatKnowledgeBot(bot_id="bot_1", **fields)
    return lambda state: {"messages": [bot.invoke(state["messages"])]}


def retriever(fields, **bots):
    found = KnowledgeBotRetriever(**bots or {"bot_id": "bot_1"}, **fields)

    def node(state):
        return {"messages": [AIMessage(each.page_content) for each in found.invoke("When?")]}

    return node


def tool(fields):
    return ToolNode([KnowledgeBotTool(bot_id="bot_1", handle_tool_error=False, **fields)])


def run(node, value, **policy):
    """Run a graph of one node under the policy, which has nothing to wait for."""
    policy = RetryPolicy(initial_interval=0.01, jitter=False, **policy)
    graph = StateGraph(MessagesState).add_node("ask", node, retry_policy=policy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return graph.add_edge(START, "ask").compile().invoke(value)


NODES = pytest.mark.parametrize(
    ("node", "value"), [(chat, ASKED), (retriever, ASKED), (tool, CALLED)]
)
UNKNOWN = [answer(500), silence, close, raw(b"HTTP/1.1 200 OK\r\n\r\nno JSON"), answer(302)]


@NODES
@pytest.mark.parametrize("reply", UNKNOWN, ids=["500", "silent", "closed", "unreadable", "302"])
def test_a_question_that_the_service_may_have_is_sent_once(bots, node, value, reply):
    bots.lose_next.extend([reply] * 3)
    with pytest.raises((KnowledgeBotError, ToolException)) as caught:
        run(node({"timeout": 0.3, "max_retries": 0, **bots.fields}), value)
    assert bots.contents == ["When?"]
    assert isinstance(caught.value, RuntimeError)
    assert "may have acted" in str(caught.value)


@NODES
@pytest.mark.parametrize("status", [429, 503])
def test_what_the_service_refused_for_now_is_tried_again(bots, node, value, status):
    bots.refuse_next.extend([answer(status, headers={"Retry-After": "0"})] * 2)
    answered = run(node({"max_retries": 0, **bots.fields}), value)
    assert answered["messages"][-1].content == "<answer 1> of bot_1"
    assert len(bots.contents) == 1 + 2


RUNNABLES = pytest.mark.parametrize(
    ("kind", "asked"),
    [
        (ChatKnowledgeBot, "When?"),
        (KnowledgeBotRetriever, "When?"),
        (KnowledgeBotTool, {"question": "When?"}),
    ],
)


def runnable(kind, bots, bot_id="bot_1"):
    more = {"handle_tool_error": False} if kind is KnowledgeBotTool else {}
    return kind(bot_id=bot_id, timeout=0.3, max_retries=0, **bots.fields, **more)


@RUNNABLES
def test_no_wrapper_asks_again_what_the_service_may_have(bots, kind, asked):
    bots.lose_next.extend([answer(500)] * 3)
    asking = runnable(kind, bots)
    again = asking.with_retry(wait_exponential_jitter=False, stop_after_attempt=3)
    with pytest.raises(RuntimeError):
        again.invoke(asked)
    with pytest.raises(RuntimeError):
        asking.with_fallbacks([runnable(kind, bots, "bot_2")]).invoke(asked)
    assert bots.contents == ["When?", "When?"]


@RUNNABLES
def test_every_wrapper_asks_again_what_the_service_refused_for_now(bots, kind, asked):
    bots.refuse_next.extend([answer(429)] * 2)
    asking = runnable(kind, bots)
    again = asking.with_retry(wait_exponential_jitter=False, stop_after_attempt=2)
    with pytest.raises((KnowledgeBotError, ToolException)):
        again.invoke(asked)
    bots.refuse_next.append(answer(429))
    assert "bot_2" in str(asking.with_fallbacks([runnable(kind, bots, "bot_2")]).invoke(asked))
    assert len(bots.contents) == 4


def test_of_several_bots_none_is_asked_again_with_the_one_that_failed(bots):
    bots.refuse_next.append(answer(429))
    node = retriever({"max_retries": 0, **bots.fields}, bot_ids=["bot_1", "bot_2", "bot_3"])
    with pytest.raises(RateLimitError, match="429") as caught:
        run(node, ASKED)
    assert len(bots.received) == 3
    assert caught.value.delivery is Delivery.REFUSED
    assert "2 answered" in caught.value.__notes__[0]


def test_an_error_of_one_of_several_crosses_the_border_of_a_process():
    error = as_chat_error(
        ConnectionFailedError("No way.", delivery=Delivery.NOT_DELIVERED), alone=False
    )
    assert not default_retry_on(error)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), again.delivery) == (str(error), Delivery.NOT_DELIVERED)
