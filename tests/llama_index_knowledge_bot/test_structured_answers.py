"""Schemas that another model fills from a bot's answer."""

import asyncio

import pytest
from llama_index.core.llms import ChatMessage, CompletionResponse, MockLLM
from llama_index.core.prompts import ChatPromptTemplate, PromptTemplate
from pydantic import BaseModel

from calls import KEY, MESSAGE
from knowledge_bot import Client, ConfigurationError, PaymentRequiredError
from knowledge_bot.transcripts import read
from llama_index_knowledge_bot import KnowledgeBotLLM
from scripted_server import answer

PROMPT = PromptTemplate("When does {what} open?")
ASKING = [
    "structured_predict",
    "astructured_predict",
    "stream_structured_predict",
    "astream_structured_predict",
]


class Hours(BaseModel):
    """When something opens."""

    opens: str


class Judge(MockLLM):
    """Fills the schema from the answer that it is shown, and from nothing else."""

    def complete(self, prompt, formatted=False, **_):
        seen = "When does it open?" in prompt and "Answer:\nAt nine." in prompt
        return CompletionResponse(text='{"opens": "%s"}' % ("nine" if seen else "unknown"))

    async def acomplete(self, prompt, formatted=False, **_):
        return self.complete(prompt)


@pytest.fixture(params=ASKING)
def predict(request):
    """`predict(llm, prompt, **values)`: the result of any of the four methods."""

    async def awaited(result):
        outcome = await result
        return [piece async for piece in outcome][-1] if "stream" in request.param else outcome

    def run(llm, prompt=PROMPT, **values):
        result = getattr(llm, request.param)(Hours, prompt, **values)
        if request.param.startswith("a"):
            return asyncio.run(awaited(result))
        return list(result)[-1] if "stream" in request.param else result

    return run


def llm_of(server, **options):
    return KnowledgeBotLLM("bot_1", client=Client(KEY, server.url, max_retries=0), **options)


def asked(server):
    return [request.json()["value"] for request in server.requests]


def test_a_judge_fills_the_schema_from_the_bot_s_answer(predict, scripted):
    server = scripted(answer(body=MESSAGE))
    llm = llm_of(server, judge=Judge())
    assert predict(llm, what="it", llm_kwargs={"conversation_id": "conv_7"}) == Hours(opens="nine")
    assert asked(server) == [
        {"bot_id": "bot_1", "content": "When does it open?", "conversation_id": "conv_7"}
    ]


def test_a_list_of_messages_is_asked_as_a_transcript(predict, scripted):
    server = scripted(answer(body=MESSAGE))
    talk = [ChatMessage("Be brief.", role="system"), ChatMessage("When does it open?")]
    assert predict(llm_of(server, judge=Judge()), ChatPromptTemplate(talk)) == Hours(opens="nine")
    (sent,) = asked(server)
    assert read(sent["content"]).question == "When does it open?"


@pytest.mark.parametrize("method", ["chat", "achat", "complete"])
def test_a_structured_llm_answers_in_the_schema(scripted, method):
    server = scripted(answer(body=MESSAGE))
    structured = llm_of(server, judge=Judge()).as_structured_llm(Hours)
    question = "When does it open?"
    given = getattr(structured, method)(
        question if method == "complete" else [ChatMessage(question)]
    )
    given = asyncio.run(given) if method == "achat" else given
    assert given.raw == Hours(opens="nine")
    assert len(asked(server)) == 1


def test_without_a_judge_nothing_is_sent_and_the_advice_is_to_give_one(predict, scripted):
    server = scripted(answer(body=MESSAGE))
    llm = llm_of(server)
    with pytest.raises(ConfigurationError):
        predict(llm, what="it")
    with pytest.raises(ConfigurationError):
        llm.as_structured_llm(Hours)
    assert server.requests == []


def test_an_answer_that_did_not_come_is_not_judged(predict, scripted):
    with pytest.raises(PaymentRequiredError):
        predict(llm_of(scripted(answer(402)), judge=Judge()), what="it")
