"""A later turn of a conversation: what no source says is refused or doubted there as it is alone.

Six sets of documents, each with questions that they answer, questions that go on from these, and
absent twins: on the same subject (`unsaid`) and on another one.
"""

import json
from collections import Counter
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import pytest

from in_process import InProcess
from service_calls import add_text, ask, client_of, value_of

QUESTIONS = Path(__file__).parents[1] / "benchmarks" / "questions"
HANDBOOK = Path(__file__).parents[3] / "examples" / "handbook"
SETS = {
    "handbook": (HANDBOOK, Path(__file__).with_name("handbook.json")),
    "office": (
        QUESTIONS / "other-words/office/documents",
        QUESTIONS / "other-words/office/questions.json",
    ),
    "workshop": (
        QUESTIONS / "everyday/workshop/documents",
        QUESTIONS / "everyday/workshop/questions.json",
    ),
    "german": (None, QUESTIONS / "conversations/german.json"),
    "chinese": (None, QUESTIONS / "conversations/chinese.json"),
    "thai": (None, QUESTIONS / "conversations/thai.json"),
}

# Of the follow-ups, at least so many have the answer; and are answered without a doubt.
RIGHT, SURE = 0.92, 0.84


@pytest.fixture(scope="module", params=sorted(SETS))
def told(request, tmp_path_factory) -> Iterator[tuple[httpx.Client, dict[str, Any]]]:
    """A client of a service that has read a set, and its questions."""
    documents, file = SETS[request.param]
    given = json.loads(file.read_text("utf-8"))
    more = QUESTIONS / "conversations" / f"{request.param}.json"
    given |= json.loads(more.read_text("utf-8")) if more.exists() else {}
    folder = tmp_path_factory.mktemp(request.param)
    with InProcess(folder, bots=["bot_one"]) as service, client_of(service) as http:
        for name, text in given.get("documents", {}).items():
            add_text(http, name, text, collection="col_default")
        for path in sorted(documents.iterdir()) if documents else ():
            form = {"name": path.name, "collections": "col_default"}
            value_of(http.post("/sources/upload", data=form, files={"file": path.read_bytes()}))
        service.wait_until_ready(300)
        yield http, given


def absent_in(given: dict[str, Any]) -> list[str]:
    return [*given["unsaid"], *(given.get("other_subjects") or given["offtopic"])]


def answered_in(given: dict[str, Any]) -> list[dict[str, Any]]:
    return given.get("answered") or given["questions"]


def is_right(one: dict[str, Any], answer: str) -> bool:
    groups = one.get("right") or [one["answers"]]
    return all(any(words.casefold() in answer.casefold() for words in group) for group in groups)


def test_what_no_source_says_is_not_answered_in_any_turn_where_it_is_not_alone(told):
    http, given = told
    alone = {one: ask(http, one) for one in absent_in(given)}
    refused = [one for one, message in alone.items() if not message["found"]]
    conversation = None
    answered, quoted = [], []
    for one, before in zip(refused, cycle([*answered_in(given)[:10], *given["follow_ups"]])):
        earlier = [before.get("before"), before["question"]]
        for question in filter(None, earlier):
            conversation = ask(http, question, conversation)["conversation_id"]
        message = ask(http, one, conversation)
        if message["found"]:
            answered.append((earlier[-1], one))
        elif not alone[one]["sources"] and message["sources"]:
            quoted.append((earlier[-1], one))
    assert len(refused) >= 0.7 * len(absent_in(given))
    assert len(answered) <= 0.03 * len(refused), answered
    assert len(quoted) <= 0.03 * len(refused), quoted


@pytest.mark.parametrize("turn", [2, 4])
def test_what_goes_on_is_answered_with_what_was_said_before_it(told, turn):
    http, given = told
    outcomes: Counter[str] = Counter()
    for one, other in zip(given["follow_ups"], cycle(answered_in(given))):
        conversation = None
        for earlier in [other["question"]] * (turn - 2) + [one["before"]]:
            conversation = ask(http, earlier, conversation)["conversation_id"]
        message = ask(http, one["question"], conversation)
        outcomes["right"] += is_right(one, message["answer"])
        outcomes["sure"] += is_right(one, message["answer"]) and message["found"]
    assert outcomes["right"] >= RIGHT * len(given["follow_ups"]), outcomes
    assert outcomes["sure"] >= SURE * len(given["follow_ups"]), outcomes


def test_a_change_of_subject_is_answered_as_it_is_alone(told):
    http, given = told
    alone, later = 0, 0
    conversation = None
    for one in answered_in(given)[::2]:
        alone += is_right(one, ask(http, one["question"])["answer"])
        message = ask(http, one["question"], conversation)
        conversation = message["conversation_id"]
        later += is_right(one, message["answer"])
    assert later >= 0.95 * alone
