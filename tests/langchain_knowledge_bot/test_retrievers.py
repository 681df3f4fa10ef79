"""The retriever against a real socket."""

import asyncio
import gc
import os
import threading
import warnings
from pathlib import Path

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from calls import KEY, MESSAGE
from knowledge_bot import (
    ConfigurationError,
    PaymentRequiredError,
    RateLimitError,
    RequestTimeoutError,
)
from langchain_knowledge_bot import KnowledgeBotRetriever
from scripted_server import answer, silence, then

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


def test_one_event_loop_after_another_is_served_and_nothing_stays_open(scripted):
    retriever = several_of(scripted(answer(body=MESSAGE)))
    descriptors = Path("/proc/self/fd")
    gc.collect()  # what other tests left
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(retriever.ainvoke(QUESTION))
        before = len(os.listdir(descriptors)) if descriptors.exists() else 0
        for _ in range(20):
            assert len(asyncio.run(retriever.ainvoke(QUESTION))) == 3
        gc.collect()
    assert (len(os.listdir(descriptors)) if descriptors.exists() else 0) <= before + 2
