"""What the service makes of a real handbook: questions of ours, and questions on other subjects."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from knowledge_bot_service import LocalService
from service_calls import ask, client_of, value_of

HANDBOOK = Path(__file__).parents[2] / "examples" / "handbook"

REFUSAL = "I could not find that in my sources."

# Each question with the fact that its answer holds and the document that it is in; questions on
# other subjects. The benchmark of answers reads them as well.
SET = json.loads(Path(__file__).with_name("handbook.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a service that has read the handbook."""
    with (
        LocalService(tmp_path_factory.mktemp("handbook"), bots=["bot_one"]) as service,
        client_of(service) as client,
    ):
        for file in sorted(HANDBOOK.iterdir()):
            form = {"name": file.name, "collections": "col_default"}
            with file.open("rb") as content:
                value_of(client.post("/sources/upload", data=form, files={"file": content}))
        service.wait_until_ready(60)
        assert {source.status for source in service.sources()} == {"ready"}
        yield client


def test_nine_of_ten_questions_are_answered_from_the_right_document(http: httpx.Client) -> None:
    # The others ask in words that the handbook does not use.
    missed = [one["question"] for one in SET["questions"] if not is_answered(http, **one)]
    assert len(missed) <= len(SET["questions"]) / 10, missed


def is_answered(http: httpx.Client, question: str, answers: list[str], title: str) -> bool:
    text, _, sources = ask(http, question)["answer"].partition("\n\nSources: ")
    assert len(text) <= 300
    return any(fact in text for fact in answers) and title in sources.split(", ")


def test_questions_on_other_subjects_are_refused(http: httpx.Client) -> None:
    answered = [one for one in SET["offtopic"] if ask(http, one)["answer"] != REFUSAL]
    assert not answered
