"""The same questions asked of models, retrievers, chains and agents of LangChain."""

import asyncio

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda

from knowledge_bot.checks import Question
from langchain_knowledge_bot import (
    acheck_runnable,
    check_runnable,
)

OPEN = Question(ask="When do you open?", contains="9:30", sources="hours.md")
LEADS = Question(ask="Who leads it?", contains="Mia")


@pytest.fixture(params=["sync", "async"])
def check(request):
    """`check(runnable, questions, …)`: either function."""

    def run(*arguments, **options):
        if request.param == "sync":
            return check_runnable(*arguments, **options)
        return asyncio.run(acheck_runnable(*arguments, **options))

    return run


def test_a_chain_gets_its_question_in_the_input_that_it_takes(check):
    chain = RunnableLambda(lambda given: f"{given['question']} At 9:30.")
    report = check(chain, [LEADS], to_input=lambda ask: {"question": ask})
    assert [str(one.verdict) for one in report.results] == ["failed"]
    assert report.results[0].answer == f"{LEADS.ask} At 9:30."


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
