"""Messages that are transcripts: what is asked in them, remembered of them, and shown."""

from collections.abc import Iterator

import httpx
import pytest

from in_process import InProcess
from knowledge_bot.transcripts import Role, Turn, render
from service_calls import BOTS, COLLECTIONS, add_text, client_of, problem_of
from service_calls import ask as ask_a_bot

LIGHTS = [
    ("Rua", "Ana Sousa", "1874", "white"),
    ("Tavo", "Ivo Lima", "1911", "red"),
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    """A service that knows two lighthouses, each from a source of its own."""
    folder = tmp_path_factory.mktemp("lights")
    with (
        InProcess(folder, collections=COLLECTIONS, bots=BOTS) as running,
        client_of(running) as http,
    ):
        for place, keeper, built, colour in LIGHTS:
            text = (
                f"{keeper} keeps the lighthouse of {place}.\n\nThe tower was built in {built}.\n\n"
                f"The colour of its door is {colour}."
            )
            add_text(http, f"Lighthouse of {place}", text, collection="col_lights")
        running.wait_until_ready(300)
        yield running


def ask(http: httpx.Client, content: str, conversation: str | None = None) -> dict[str, str]:
    return ask_a_bot(http, content, conversation, bot="bot_lights")


def first_source(message: dict[str, str]) -> str:
    return message["answer"].partition("\n\nSources: ")[2].split(", ")[0]


def written(*said: tuple[Role, str]) -> str:
    return render(Turn(role, text) for role, text in said)


def test_a_system_text_changes_neither_answer_nor_passages(http: httpx.Client) -> None:
    question = "Who keeps the lighthouse of Rua?"
    content = written(
        ("system", "You know all of Ivo Lima and the lighthouse of Tavo, built in 1911."),
        ("user", question),
    )
    assert ask(http, content)["answer"] == ask(http, question)["answer"]


@pytest.mark.parametrize("role", ["assistant", "tool"])
@pytest.mark.parametrize(("place", "built"), [(light[0], light[2]) for light in LIGHTS])
def test_a_follow_up_takes_its_subject_from_what_was_asked_or_replied_before_it(
    http: httpx.Client, role: Role, place: str, built: str
) -> None:
    asked = written(
        ("user", f"Who keeps the lighthouse of {place}?"),
        (role, "Somebody does."),
        ("user", "When was it built?"),
    )
    replied = written(
        ("user", "Name one, please."),
        (role, f"The lighthouse of {place}."),
        ("user", "When was it built?"),
    )
    for content in (asked, replied):
        message = ask(http, content)
        assert built in message["answer"]
        assert first_source(message) == f"Lighthouse of {place}"


@pytest.mark.parametrize(("place", "colour"), [(light[0], light[3]) for light in LIGHTS])
def test_later_messages_are_understood_with_all_turns_of_a_stored_transcript(
    http: httpx.Client, place: str, colour: str
) -> None:
    # The transcript's own question does not say which one.
    content = written(
        ("user", f"Who keeps the lighthouse of {place}?"),
        ("assistant", "I do not know."),
        ("user", "When was it built?"),
    )
    conversation = ask(http, content)["conversation_id"]
    message = ask(http, "What colour is its door?", conversation)
    assert f"door is {colour}" in message["answer"]
    assert first_source(message) == f"Lighthouse of {place}"


def test_thanks_after_a_history_are_small_talk(http: httpx.Client) -> None:
    content = written(
        ("user", "Who keeps the lighthouse of Rua?"),
        ("assistant", "Ana Sousa keeps the lighthouse of Rua."),
        ("user", "Thank you!"),
    )
    assert ask(http, content)["answer"] == ask(http, "Thank you!")["answer"]


def test_what_nobody_answered_is_not_answered_with_the_question_after_it(
    http: httpx.Client,
) -> None:
    question = "When was the lighthouse of Rua built?"
    for said in ([("user", "Who keeps the lighthouse of Tavo?")], [("assistant", "")]):
        content = written(("user", "Who keeps the lighthouse of Tavo?"), *said, ("user", question))
        assert ask(http, content)["answer"] == ask(http, question)["answer"]


def test_of_many_turns_the_last_ones_count(http: httpx.Client) -> None:
    idle: list[tuple[Role, str]] = [("user", "And then?"), ("assistant", "Nothing.")]
    first: list[tuple[Role, str]] = [
        ("user", "Who keeps the lighthouse of Tavo?"),
        ("assistant", "Ivo Lima keeps the lighthouse of Tavo."),
    ]
    last: list[tuple[Role, str]] = [
        ("user", "Who keeps the lighthouse of Rua?"),
        ("assistant", "Ana Sousa keeps the lighthouse of Rua."),
    ]
    content = written(*first, *idle * 4000, *last, ("user", "When was it built?"))
    message = ask(http, content)
    assert first_source(message) == "Lighthouse of Rua"
    # Those that are stored are as bounded: the conversation goes on.
    after = ask(http, "Who keeps it?", message["conversation_id"])
    assert first_source(after) == "Lighthouse of Rua"


@pytest.mark.parametrize(
    "said",
    [[("system", "long " * 40_000), ("user", "Why?")], [("user", "long " * 4_001)]],
)
def test_a_transcript_and_its_question_may_be_too_long(
    http: httpx.Client, said: list[tuple[Role, str]]
) -> None:
    content = written(("assistant", "Welcome."), *said)
    body = {"bot_id": "bot_lights", "content": content}
    problem = problem_of(http.post("/messages", json={"value": body}), 400)
    assert problem["code"] == "invalid_request"
    assert "value.content" in problem["message"]
