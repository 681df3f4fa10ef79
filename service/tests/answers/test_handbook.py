"""What the service makes of a real handbook.

It is asked questions of ours and questions on other subjects, by themselves and as transcripts.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from in_process import InProcess
from knowledge_bot.transcripts import Turn, render
from service_calls import ask, client_of, value_of

HANDBOOK = Path(__file__).parents[3] / "examples" / "handbook"

# Each question with the fact that its answer holds and the document that it is in; follow-ups,
# which mean nothing without what was asked before; questions on other subjects. The benchmark of
# answers reads them as well.
SET = json.loads(Path(__file__).with_name("handbook.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a service that has read the handbook."""
    with (
        InProcess(tmp_path_factory.mktemp("handbook"), bots=["bot_one"]) as service,
        client_of(service) as client,
    ):
        for file in sorted(HANDBOOK.iterdir()):
            form = {"name": file.name, "collections": "col_default"}
            with file.open("rb") as content:
                value_of(client.post("/sources/upload", data=form, files={"file": content}))
        service.wait_until_ready(300)
        assert {source.status for source in service.sources()} == {"ready"}
        yield client


def test_nine_of_ten_questions_are_answered_from_the_right_document(http: httpx.Client) -> None:
    # The others ask in words that the handbook does not use.
    missed = [one["question"] for one in SET["questions"] if not is_answered(http, **one)]
    assert len(missed) <= len(SET["questions"]) / 10, missed


def test_questions_in_capitals_are_answered_as_any_other(http):
    for one in SET["questions"]:
        assert ask(http, one["question"].upper())["found"] == ask(http, one["question"])["found"]


def is_answered(http: httpx.Client, question: str, answers: list[str], title: str) -> bool:
    return is_right(ask(http, question)["answer"], answers, title)


def is_right(answer: str, answers: list[str], title: str) -> bool:
    text, _, sources = answer.partition("\n\nSources: ")
    assert len(text) <= 1000
    return any(fact in text for fact in answers) and title in sources.split(", ")


def test_questions_on_other_subjects_are_not_answered(http: httpx.Client) -> None:
    answered = [one for one in SET["offtopic"] if ask(http, one)["found"]]
    assert len(answered) <= len(SET["offtopic"]) / 20, answered


SYSTEM = Turn("system", "You are a helpful assistant. Answer the member's question concisely.")


def exchange(http: httpx.Client, question: str) -> list[Turn]:
    return [Turn("user", question), Turn("assistant", ask(http, question)["answer"])]


def after_a_system_text(_http: httpx.Client, question: str, _other: str) -> str:
    return render([SYSTEM, Turn("user", question)])


def after_a_history(http: httpx.Client, question: str, other: str) -> str:
    return render([*exchange(http, other), Turn("user", question)])


def after_an_agent(http: httpx.Client, question: str, other: str) -> str:
    asked, replied = exchange(http, other)
    called = [Turn("assistant", ""), Turn("tool", replied.text), replied]
    return render([SYSTEM, asked, *called, Turn("user", question)])


@pytest.mark.parametrize("written", [after_a_system_text, after_a_history, after_an_agent])
def test_a_transcripts_question_is_answered_as_well_as_by_itself(
    http: httpx.Client, written: Callable[[httpx.Client, str, str], str]
) -> None:
    right = {"alone": 0, "written": 0}
    for one, other in zip(SET["questions"], SET["questions"][7:] + SET["questions"], strict=False):
        expected = one["answers"], one["title"]
        content = written(http, one["question"], other["question"])
        right["alone"] += is_right(ask(http, one["question"])["answer"], *expected)
        right["written"] += is_right(ask(http, content)["answer"], *expected)
    assert right["written"] >= right["alone"] - len(SET["questions"]) / 20, right


def test_a_follow_up_is_answered_after_a_fork_as_without_one(http: httpx.Client) -> None:
    wrong = []
    for one in SET["follow_ups"]:
        before = ask(http, one["before"])
        answer = ask(http, one["question"], before["conversation_id"])["answer"]
        if not is_right(answer, one["answers"], one["title"]):
            wrong.append(one["question"])
        turns = [Turn("user", one["before"]), Turn("assistant", before["answer"])]
        forked = render([*turns, Turn("user", one["question"])])
        assert ask(http, forked)["answer"] == answer
    assert not wrong


def test_a_conversation_goes_on_after_a_fork_as_without_one(http: httpx.Client) -> None:
    for one, other in zip(SET["follow_ups"], SET["questions"], strict=False):
        first = ask(http, other["question"])
        second = ask(http, one["before"], first["conversation_id"])
        third = ask(http, one["question"], first["conversation_id"])
        turns = [Turn("user", other["question"]), Turn("assistant", first["answer"])]
        forked = ask(http, render([*turns, Turn("user", one["before"])]))
        assert forked["answer"] == second["answer"]
        after = ask(http, one["question"], forked["conversation_id"])
        assert after["answer"] == third["answer"]
