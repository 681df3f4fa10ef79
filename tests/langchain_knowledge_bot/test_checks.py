"""The same questions asked of models, retrievers, chains and agents of LangChain."""

import asyncio
import json

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableConfig, RunnableLambda

from calls import KEY, MESSAGE
from knowledge_bot.checks import Question
from langchain_knowledge_bot import (
    ChatKnowledgeBot,
    KnowledgeBotRetriever,
    acheck_runnable,
    check_runnable,
)
from scripted_server import answer

OPEN = Question(ask="When do you open?", contains="9:30", sources="hours.md")
LEADS = Question(ask="Who leads it?", contains="Mia")
ANSWERS = {OPEN.ask: "At 9:30.\n\nSources: hours.md", LEADS.ask: "Max does."}


@pytest.fixture(params=["sync", "async"])
def check(request):
    """`check(runnable, questions, …)`: either function."""

    def run(*arguments, **options):
        if request.param == "sync":
            return check_runnable(*arguments, **options)
        return asyncio.run(acheck_runnable(*arguments, **options))

    return run


@pytest.fixture
def fields(scripted):
    """What a class needs to find a bot that answers."""

    def reply(request):
        value = json.loads(request.body)["value"]
        question = next(one for one in ANSWERS if one in value["content"])
        return answer(body={**MESSAGE, "answer": ANSWERS[question]})

    return {"api_key": KEY, "base_url": scripted(reply_to=reply).url, "bot_id": "bot_1"}


def verdicts(report):
    return [str(one.verdict) for one in report.results]


def test_a_model_a_retriever_and_a_chain_get_the_same_verdicts(check, fields):
    model = ChatKnowledgeBot(**fields)
    prompt = ChatPromptTemplate.from_template("{question}")
    found = {
        "model": check(model, [OPEN, LEADS]),
        "retriever": check(KnowledgeBotRetriever(**fields), [OPEN, LEADS]),
        "chain": check(prompt | model, [OPEN, LEADS], to_input=lambda ask: {"question": ask}),
    }
    assert [verdicts(report) for report in found.values()] == [["passed", "failed"]] * 3
    assert found["model"].results[1].reason == 'The answer does not contain "Mia".'
    assert found["model"].results[0].bot_id == ""


@pytest.mark.parametrize(
    "output",
    [
        "At 9:30.",
        AIMessage("At 9:30."),
        {"answer": "At 9:30.", "context": []},
        {"output": AIMessage("At 9:30.")},
        {"messages": [HumanMessage("When?"), AIMessage("At 9:30.")]},
        [Document("At 9:30."), Document("On Saturday.")],
        Document("At 9:30."),
    ],
)
def test_the_usual_outputs_are_understood(check, output):
    report = check(RunnableLambda(lambda _: output), [Question(ask="When?", contains="9:30")])
    assert report.ok, report


def test_sources_are_those_of_the_documents(check):
    found = [Document("At 9:30.", metadata={"source": "hours.md"}), Document("x")]
    assert check(RunnableLambda(lambda _: found), [OPEN]).ok
    nothing = RunnableLambda(lambda _: [])
    assert check(nothing, [Question(ask="What?", refuses=True)]).ok


def test_another_output_is_made_a_text_by_the_caller(check):
    runnable = RunnableLambda(lambda _: {"hours": [9, 30]})
    opens = [Question(ask="When?", equals="9:30")]
    report = check(runnable, opens)
    assert report.results[0].reason == (
        "No answer: TypeError: the runnable's output is dict, which has no known text; "
        "pass to_text=."
    )
    assert check(runnable, opens, to_text=lambda out: "{}:{}".format(*out["hours"])).ok


def test_what_a_runnable_raises_is_a_reason_and_asked_again(check):
    left = ["once", "twice"]

    def fails(_):
        if left:
            raise LookupError(left.pop())
        return "At 9:30."

    opens = [Question(ask="When?", contains="9:30")]
    assert check(RunnableLambda(fails), opens).results[0].reason == "No answer: LookupError: twice."
    report = check(RunnableLambda(fails), opens, wait=10, interval=0.1)
    assert (report.ok, report.results[0].attempts) == (True, 2)


def test_the_configuration_goes_along(check):
    def tagged(_: str, config: RunnableConfig) -> str:
        return " ".join(config["tags"])

    report = check(
        RunnableLambda(tagged),
        [Question(ask="?", contains="nightly")],
        config={"tags": ["nightly"]},
    )
    assert report.ok
