"""The retriever against a real socket."""

import asyncio
import threading
import warnings

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from calls import KEY, MESSAGE
from knowledge_bot import (
    Client,
    ConfigurationError,
    PaymentRequiredError,
    RateLimitError,
    RequestTimeoutError,
)
from knowledge_bot.ingest import Text, ingest
from knowledge_bot.testing import MemoryService
from langchain_knowledge_bot import KnowledgeBotRetriever
from scripted_server import answer, silence, then
from waiting import on_linux, open_files, until

QUESTION = "When do you open?"
BOTS = ["bot_1", "bot_2", "bot_3"]


def message(number):
    return {**MESSAGE, "id": f"msg_{number}", "answer": f"Answer {number}."}


def at_once(count, *bodies):
    """Replies that are only given when so many requests have arrived."""
    barrier = threading.Barrier(count)
    return [then(lambda _: barrier.wait(timeout=10), answer(body=body)) for body in bodies]


def retriever_of(server, **fields):
    return KnowledgeBotRetriever(
        **{"bot_id": "bot_1", "api_key": KEY, "base_url": server.url, **fields}
    )


def several_of(server, **fields):
    return retriever_of(server, **{"bot_id": None, "bot_ids": BOTS, **fields})


def asked(server):
    return [request.json()["value"]["bot_id"] for request in server.requests]


def test_the_answer_is_one_document(invoke, scripted):
    server = scripted(answer(body={"value": MESSAGE}))
    assert invoke(retriever_of(server), QUESTION) == [
        Document(
            id="msg_1",
            page_content="At nine.",
            metadata={
                "bot_id": "bot_1",
                "conversation_id": "conv_1",
                "message_id": "msg_1",
                "created_at": 1_700_000_000_456,
                "sources": [],
                "found": True,
            },
        )
    ]
    assert server.requests[0].json() == {"value": {"bot_id": "bot_1", "content": QUESTION}}


def test_k_limits_the_bots_that_are_asked(invoke, scripted):
    server = scripted(answer(body=MESSAGE))
    assert len(invoke(several_of(server, k=2), QUESTION)) == 2
    assert sorted(asked(server)) == ["bot_1", "bot_2"]
    assert len(invoke(several_of(server, k=2), QUESTION, k=1)) == 1
    assert len(invoke(several_of(server), QUESTION, k=9)) == 3


@pytest.mark.parametrize("arguments", [{"k": 0}, {"top_k": 1}])
def test_a_wrong_argument_of_a_call_is_an_error_and_nothing_is_sent(invoke, scripted, arguments):
    server = scripted(answer(body=MESSAGE))
    with pytest.raises((ConfigurationError, TypeError), match="k"):
        invoke(several_of(server), QUESTION, **arguments)
    assert server.requests == []


def test_an_answer_names_its_sources_and_says_whether_it_found_something(invoke, scripted):
    result = [
        "At nine.\n\nSources: hours.md, rules.md",
        "I could not find that in my sources.",
        "On Saturdays.",
    ]
    server = scripted(*(answer(body={**MESSAGE, "answer": each}) for each in result))
    found = [invoke(retriever_of(server), QUESTION)[0].metadata for _ in result]
    assert [each["sources"] for each in found] == [["hours.md", "rules.md"], [], []]
    assert [each["found"] for each in found] == [True, False, True]


@pytest.mark.parametrize(
    ("reply", "error", "times"),
    [
        (silence, RequestTimeoutError, 1),
        (answer(429, headers={"Retry-After": "0"}), RateLimitError, 3),
    ],
    ids=["silent", "busy"],
)
def test_with_retry_sends_no_question_again_that_may_have_arrived(
    invoke, scripted, reply, error, times
):
    server = scripted(reply)
    retriever = retriever_of(server, timeout=1 if reply is silence else 30, max_retries=0)
    with pytest.raises(error):
        invoke(retriever.with_retry(wait_exponential_jitter=False), QUESTION)
    assert len(server.requests) == times


def test_the_callbacks_hear_of_an_answer_and_of_an_error(invoke, scripted):
    heard = []

    class Handler(BaseCallbackHandler):
        def on_retriever_end(self, documents, **kwargs):
            heard.append([document.id for document in documents])

        def on_retriever_error(self, error, **kwargs):
            heard.append(error.status_code)

    retriever = retriever_of(scripted(answer(body=MESSAGE), answer(402)))
    invoke(retriever, QUESTION, config={"callbacks": [Handler()]})
    with pytest.raises(PaymentRequiredError):
        invoke(retriever, QUESTION, config={"callbacks": [Handler()]})
    assert heard == [["msg_1"], 402]


def test_it_works_within_a_chain(invoke, scripted):
    chain = retriever_of(scripted(answer(body=MESSAGE))) | RunnableLambda(
        lambda documents: documents[0].page_content
    )
    assert invoke(chain, QUESTION) == "At nine."


async def test_a_blocking_call_works_inside_a_running_loop(scripted):
    retriever = several_of(scripted(answer(body=MESSAGE)))
    assert len(retriever.invoke(QUESTION)) == 3
    assert len(await retriever.ainvoke(QUESTION)) == 3


async def test_asynchronous_questions_go_out_together(scripted):
    server = scripted(*at_once(60, *[MESSAGE] * 60))
    answers = await retriever_of(server).abatch([QUESTION] * 60)
    assert [len(documents) for documents in answers] == [1] * 60


@on_linux
def test_one_event_loop_after_another_is_served_and_nothing_stays_open(scripted):
    retriever = several_of(scripted(answer(body=MESSAGE)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(retriever.ainvoke(QUESTION))
        before = open_files()
        for _ in range(20):
            assert len(asyncio.run(retriever.ainvoke(QUESTION))) == 3
        assert until(lambda: open_files() <= before + 2)


# Passages -----------------------------------------------------------------------------------------

PASSES = "passages=1"


def passage(number, **more):
    return {
        "id": f"pas_{number}",
        "source_id": f"src_{number}",
        "name": f"{number}.md",
        "url": None,
        "revision": "r1",
        "text": f"Passage {number}.",
        "score": float(number),
        "found": True,
        **more,
    }


@pytest.fixture
def searched(scripted):
    """A server that announces passages and finds these for each bot."""

    def start(**of_bots):
        def reply_to(request):
            return answer(body={"value": {"data": of_bots[request.json()["value"]["bot_id"]]}})

        announced = answer(body="pong", headers={"Knowledge-Bot-Extensions": PASSES})
        return scripted(on_ping=announced, reply_to=reply_to)

    return start


def test_passages_are_documents_and_no_bot_is_asked(invoke, searched):
    server = searched(bot_1=[passage(1, url="https://h.example/")])
    assert invoke(retriever_of(server), QUESTION) == [
        Document(
            id="pas_1",
            page_content="Passage 1.",
            metadata={
                "bot_id": "bot_1",
                "source": "1.md",
                "source_id": "src_1",
                "url": "https://h.example/",
                "revision": "r1",
                "passage_id": "pas_1",
                "score": 1.0,
                "found": True,
            },
        )
    ]
    (request,) = server.requests
    assert request.path == "/public/v1/search"
    assert request.json() == {"value": {"query": QUESTION, "limit": 5, "bot_id": "bot_1"}}


def test_the_best_of_each_bot_come_in_turn_and_each_once(invoke, searched):
    server = searched(
        bot_1=[passage(1), passage(2), passage(3)],
        bot_2=[passage(2), passage(4)],
        bot_3=[],
    )
    found = invoke(several_of(server), QUESTION)
    assert [one.id for one in found] == ["pas_1", "pas_2", "pas_4", "pas_3"]
    assert [one.metadata["bot_id"] for one in found] == ["bot_1", "bot_2", "bot_2", "bot_1"]
    found = invoke(several_of(server, k=2), QUESTION)
    assert [one.id for one in found] == ["pas_1", "pas_2"]
    assert server.requests[-1].json()["value"]["limit"] == 2


def test_what_is_not_about_the_question_is_left_out_on_demand(invoke, searched):
    server = searched(bot_1=[passage(1, found=False)], bot_2=[passage(2)], bot_3=[])
    assert len(invoke(several_of(server), QUESTION)) == 2
    (found,) = invoke(several_of(server, drop_refusals=True), QUESTION)
    assert (found.id, found.metadata["found"]) == ("pas_2", True)


def test_what_a_ledger_does_not_know_of_a_passages_source_is_said(invoke, searched, tmp_path):
    ledger, memory = tmp_path / "ledger.db", MemoryService()
    with Client(KEY, "https://service.test", transport=memory.transport) as client:
        ingest(client, [Text(name="1.md", content="x")], collections="col_default", ledger=ledger)
    server = searched(bot_1=[passage(1)])
    (found,) = invoke(retriever_of(server, ledger=ledger), QUESTION)
    (freshness,) = found.metadata["freshness"]
    assert (freshness["source_id"], freshness["verdict"]) == ("src_1", "unknown")
