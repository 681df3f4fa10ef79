"""The same questions asked of query engines of LlamaIndex."""

import asyncio
import json

import pytest
from llama_index.core.base.response.schema import Response
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import CustomQueryEngine, RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode

from calls import KEY, MESSAGE
from knowledge_bot import Client, ConfigurationError
from knowledge_bot.checks import Question
from llama_index_knowledge_bot import (
    KnowledgeBotQueryEngine,
    acheck_query_engine,
    check_query_engine,
)
from scripted_server import answer, close

OPEN = Question(ask="When do you open?", contains="9:30", sources="hours.md")
LEADS = Question(ask="Who leads it?", contains="Mia")
ANSWERS = {OPEN.ask: "At 9:30.\n\nSources: hours.md", LEADS.ask: "Max does."}


@pytest.fixture(params=["sync", "async"])
def check(request):
    """`check(engine, questions, …)`: either function."""

    def run(*arguments, **options):
        if request.param == "sync":
            return check_query_engine(*arguments, **options)
        return asyncio.run(acheck_query_engine(*arguments, **options))

    return run


def engine_of(url):
    return KnowledgeBotQueryEngine(bot_id="bot_1", client=Client(KEY, url, max_retries=0))


def test_a_bots_engine_gets_the_verdicts_of_the_bot(check, scripted):
    def reply(request):
        asked = json.loads(request.body)["value"]["content"]
        return answer(body={**MESSAGE, "answer": ANSWERS[asked]})

    report = check(engine_of(scripted(reply_to=reply).url), [OPEN, LEADS])
    assert [str(one.verdict) for one in report.results] == ["passed", "failed"]
    assert report.results[1].reason == 'The answer does not contain "Mia".'


class Nodes(BaseRetriever):
    def _retrieve(self, query_bundle):
        node = TextNode(text="We open at 9:30.", metadata={"file_name": "hours.md"})
        return [NodeWithScore(node=node, score=1.0)]


@pytest.mark.parametrize("streaming", [False, True])
def test_an_engine_over_nodes_names_their_files(check, streaming):
    engine = RetrieverQueryEngine.from_args(
        Nodes(), llm=MockLLM(), streaming=streaming, response_mode="compact"
    )
    report = check(engine, [OPEN, Question(ask="Whose?", contains="9:30", sources="other.md")])
    assert [one.passed for one in report.results] == [True, False]
    assert "it names hours.md" in report.results[1].reason


class Failing(CustomQueryEngine):
    left: list[str] = ["twice", "once"]  # noqa: RUF012 - a pydantic field

    def custom_query(self, query_str):
        if self.left:
            raise LookupError(self.left.pop(0))
        return Response("At 9:30.\n\nSources: hours.md")


def test_what_an_engine_raises_is_a_reason_and_asked_again(check):
    engine = Failing(left=["twice", "once"])
    assert check(engine, [OPEN]).results[0].reason == "No answer: LookupError: twice."
    report = check(engine, [OPEN], wait=10, interval=0.1)
    assert (report.ok, report.results[0].attempts) == (True, 2)


def test_a_lost_answer_says_that_the_message_may_have_been_sent(check, scripted):
    report = check(engine_of(scripted(close).url), [OPEN])
    assert report.results[0].reason.endswith("The message may have been sent.")


def test_bad_arguments_are_refused_before_anything_is_asked(check, scripted):
    server = scripted(close)
    with pytest.raises(ConfigurationError, match="concurrency: expected"):
        check(engine_of(server.url), [OPEN], concurrency=0)
    assert server.started == 0


def test_names_of_sources_with_commas_are_read_in_the_text(check, scripted):
    named = {**MESSAGE, "answer": "At 9:30.\n\nSources: Hours, fees.md, hours.md"}
    question = Question(ask=OPEN.ask, sources=["Hours, fees.md", "hours.md"])
    assert check(engine_of(scripted(answer(body=named)).url), [question]).ok


def test_what_a_service_says_as_data_is_believed(check, scripted):
    refused = {**MESSAGE, "answer": "Nichts dazu.", "found": False}
    assert check(
        engine_of(scripted(answer(body=refused)).url), [Question(ask="?", refuses=True)]
    ).ok
    named = {**MESSAGE, "sources": [{"name": "Hours, fees.md"}], "found": True}
    question = Question(ask="?", sources="Hours, fees.md")
    assert check(engine_of(scripted(answer(body=named)).url), [question]).ok
