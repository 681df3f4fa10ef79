"""LangGraph's default `RetryPolicy`: it asks again where that is safe, and nowhere else."""

import asyncio
import inspect
import pickle
import warnings
from collections import Counter

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import ConfigurableField
from langchain_core.tools import ToolException
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import RetryPolicy, default_retry_on

from knowledge_bot import ConnectionFailedError, Delivery, KnowledgeBotError, RateLimitError
from langchain_knowledge_bot import ChatKnowledgeBot, KnowledgeBotRetriever, KnowledgeBotTool
from langchain_knowledge_bot.model_errors import as_chat_error
from numbering_bots import contents, received

CALL = {"name": "ask_1", "args": {"question": "When?"}, "id": "1", "type": "tool_call"}
ASKED = {"messages": [("human", "When?")]}
CALLED = {"messages": [AIMessage("", tool_calls=[CALL])]}


def chat(fields):
    bot = ChatKnowledgeBot(bot_id="bot_1", **fields)
    return lambda state: {"messages": [bot.invoke(state["messages"])]}


def retriever(fields, **named):
    found = KnowledgeBotRetriever(**named or {"bot_id": "bot_1"}, **fields)

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
UNKNOWN = {
    "500": lambda service: service.fail_next(times=3),
    "silent": lambda service: service.time_out_next(acts=True, times=3),
    "closed": lambda service: service.lose_next_answer(times=3),
    "unreadable": lambda service: service.answer_next(200, b"no JSON", times=3),
    "302": lambda service: service.answer_next(302, times=3),
}


@NODES
@pytest.mark.parametrize("fails", UNKNOWN.values(), ids=UNKNOWN)
def test_a_question_that_the_service_may_have_is_sent_once(fields, service, node, value, fails):
    fails(service)
    with pytest.raises((KnowledgeBotError, ToolException)) as caught:
        run(node({"max_retries": 0, **fields}), value)
    assert contents(service) == ["When?"]
    assert isinstance(caught.value, RuntimeError)
    assert "may have acted" in str(caught.value)


@NODES
@pytest.mark.parametrize("status", [408, 425, 429, 503])
def test_what_the_service_refused_for_now_is_tried_again(fields, service, node, value, status):
    service.fail_next(status, retry_after=0, times=2)
    answered = run(node({"max_retries": 0, **fields}), value)
    assert answered["messages"][-1].content == "<answer 1> of bot_1"
    assert len(contents(service)) == 1 + 2


RUNNABLES = pytest.mark.parametrize(
    ("kind", "asked"),
    [
        (ChatKnowledgeBot, "When?"),
        (KnowledgeBotRetriever, "When?"),
        (KnowledgeBotTool, {"question": "When?"}),
    ],
)


def runnable(kind, fields, bot_id="bot_1"):
    more = {"handle_tool_error": False} if kind is KnowledgeBotTool else {}
    return kind(bot_id=bot_id, max_retries=0, **fields, **more)


# How each of a runnable's methods is called that returns it with something around it.
WRAPPINGS = {
    "bind": lambda one: one.bind(),
    "configurable_alternatives": lambda one: one.configurable_alternatives(
        ConfigurableField(id="which"), other=one
    ),
    "configurable_fields": lambda one: one.configurable_fields(tags=ConfigurableField(id="tags")),
    "map": lambda one: one.map(),
    "with_alisteners": lambda one: one.with_alisteners(),
    "with_config": lambda one: one.with_config(tags=["x"]),
    "with_fallbacks": lambda one: one.with_fallbacks([one]),
    "with_listeners": lambda one: one.with_listeners(),
    "with_retry": lambda one: one.with_retry(**AT_ONCE),
    "with_types": lambda one: one.with_types(),
}
AT_ONCE = {"wait_exponential_jitter": False, "stop_after_attempt": 3}

# These return a sequence, of which the runnable is a part, or raise for a bot.
OTHERS = {"__or__", "__ror__", "assign", "pick", "pipe", "bind_tools", "with_structured_output"}


def test_every_method_of_the_framework_that_wraps_is_in_the_table():
    kinds = (ChatKnowledgeBot, KnowledgeBotRetriever, KnowledgeBotTool)
    methods = {
        name
        for kind in kinds
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if "Runnable" in str(inspect.signature(method).return_annotation)
        and not name.startswith("_abc")
    }
    assert methods - OTHERS == WRAPPINGS.keys()


@pytest.mark.parametrize("way", ["with_retry", "with_fallbacks"])
@pytest.mark.parametrize("inner", WRAPPINGS)
@RUNNABLES
def test_no_wrapper_asks_again_what_the_service_may_have(  # noqa: PLR0917
    fields, service, kind, asked, inner, way
):
    service.fail_next(times=9)
    wrapped = WRAPPINGS[way](WRAPPINGS[inner](runnable(kind, fields)))
    twins = [] if "listeners" in inner else [pickle.loads(pickle.dumps(wrapped))]
    for one in (wrapped, *twins):  # the framework's listeners are functions that no pickle holds
        service.requests.clear()
        with pytest.raises(RuntimeError):
            one.invoke([asked] if inner == "map" else asked)
        assert contents(service) == ["When?"]


@pytest.mark.parametrize("inner", sorted(WRAPPINGS.keys() - {"with_retry", "with_fallbacks"}))
@RUNNABLES
def test_every_wrapper_asks_again_what_the_service_refused_for_now(
    fields, service, kind, asked, inner
):
    wrapped = WRAPPINGS[inner](runnable(kind, fields))
    other = runnable(kind, fields, "bot_2")
    given = [asked] if inner == "map" else asked
    service.fail_next(429, times=2)
    wrapped.with_retry(**AT_ONCE).invoke(given)
    service.fail_next(429)
    assert "bot_2" in str(wrapped.with_fallbacks([WRAPPINGS[inner](other)]).invoke(given))
    assert len(contents(service)) == 3 + 2


@pytest.mark.parametrize("batch", ["batch", "abatch"])
def test_each_of_several_questions_has_an_outcome_of_its_own(fields, service, batch):
    def of(question):
        return lambda request: request.value.get("content") == question

    service.fail_next(429, where=of("Second?"))
    service.fail_next(429, where=of("Third?"), times=None)
    bot = runnable(ChatKnowledgeBot, fields).with_retry(**AT_ONCE | {"stop_after_attempt": 2})
    found = getattr(bot, batch)(["First?", "Second?", "Third?"], return_exceptions=True)
    if batch == "abatch":
        found = asyncio.run(found)
    assert [type(one).__name__ for one in found] == [
        *("AIMessage", "AIMessage", "PassingChatRateLimitError")
    ]
    assert Counter(contents(service)) == {"First?": 1, "Second?": 2, "Third?": 2}


def test_of_several_bots_none_is_asked_again_with_the_one_that_failed(fields, service):
    service.fail_next(429)
    node = retriever({"max_retries": 0, **fields}, bot_ids=["bot_1", "bot_2", "bot_3"])
    with pytest.raises(RateLimitError, match="429") as caught:
        run(node, ASKED)
    assert len(received(service)) == 3
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
