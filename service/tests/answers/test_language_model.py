"""Answers that an OpenAI-compatible endpoint words, and what becomes of questions it does not."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from in_process import InProcess
from knowledge_bot.transcripts import Turn, render
from knowledge_bot_service import SettingsError
from scripted_server import Reply, ScriptedServer, answer, close, drip, raw, reset, silence
from service_calls import add_text, ask, client_of, problem_of, value_of

KEY = "key-of-the-endpoint-77b1"
VARIABLE = "TESTS_ENDPOINT_KEY"
REFUSAL = "I could not find that in my sources."
QUESTION = "Who built the lighthouse of Rua?"


def completion(text: object) -> Reply:
    return answer(body={"choices": [{"message": {"role": "assistant", "content": text}}]})


@pytest.fixture(scope="module")
def endpoint() -> Iterator[ScriptedServer]:
    server = ScriptedServer()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def service(
    endpoint: ScriptedServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[InProcess]:
    """A service whose answers the endpoint words; its key comes from the environment."""
    answers = {
        "base_url": f"{endpoint.url}/v1",
        "model": "small-model",
        "api_key_env": VARIABLE,
        "timeout": 1.0,
    }
    data = tmp_path_factory.mktemp("worded")
    declared = {"collections": ["col_one"], "bots": ["bot_one"], "settings": {"answers": answers}}
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(VARIABLE, KEY)
        with InProcess(data, **declared) as running, client_of(running) as http:
            add_text(http, "Lighthouse", "The lighthouse of Rua was built by Ana Sousa.")
            add_text(http, "Harbour", "The harbour of Rua has no lighthouse of its own.")
            running.wait_until_ready(300)
            yield running


@pytest.fixture(autouse=True)
def _nothing_asked_yet(endpoint: ScriptedServer) -> None:
    endpoint.requests.clear()


def says(endpoint: ScriptedServer, reply: Reply) -> None:
    endpoint.reply_to = lambda _received: reply


def asked(endpoint: ScriptedServer) -> list[dict[str, str]]:
    """The messages of the newest request."""
    body: Any = endpoint.requests[-1].json()
    messages: list[dict[str, str]] = body["messages"]
    return messages


def messages_in(service: InProcess) -> int:
    with closing(sqlite3.connect(service.data / "knowledge.sqlite3")) as database:
        count: int = database.execute("SELECT count(*) FROM message").fetchone()[0]
    return count


def test_the_model_words_the_answer_from_the_passages_and_their_sources_are_named(
    endpoint: ScriptedServer, http: httpx.Client
) -> None:
    says(endpoint, completion("It was Ana Sousa [1]."))
    message = ask(http, QUESTION)
    assert message["answer"] == "It was Ana Sousa.\n\nSources: Lighthouse"
    assert [source["name"] for source in message["sources"]] == ["Lighthouse"]
    assert message["found"] is True
    (request,) = endpoint.requests
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    body: Any = request.json()
    assert body["model"] == "small-model"
    system, question = body["messages"]
    assert system["role"] == "system"
    assert REFUSAL in system["content"]
    assert question["role"] == "user"
    assert "[1] Lighthouse\n" in question["content"]
    assert "built by Ana Sousa" in question["content"]
    assert question["content"].endswith(f"Question: {QUESTION}")


def test_a_transcripts_turns_go_along_and_its_system_text_as_words_of_the_users(
    endpoint: ScriptedServer, http: httpx.Client
) -> None:
    says(endpoint, completion("Ana Sousa [1]."))
    turns = [
        Turn("system", "Answer in one word."),
        Turn("user", "Which harbour has one?"),
        Turn("tool", "Look at Rua."),
        Turn("assistant", "Rua has.\n\nSources: Harbour"),
        Turn("user", QUESTION),
    ]
    answer = ask(http, render(turns))
    system, asked_before, replied, question = asked(endpoint)
    assert asked_before == {"role": "user", "content": "Which harbour has one?"}
    assert replied == {"role": "assistant", "content": "Look at Rua.\n\nRua has."}
    assert question["role"] == "user"
    assert question["content"].endswith(f"\n\nAnswer in one word.\n\nQuestion: {QUESTION}")
    # Whoever may send a message wrote that text: it must not weigh what the service's own does.
    assert system["role"] == "system"
    assert "one word" not in system["content"]

    ask(http, "And who built that of the harbour of Rua?", answer["conversation_id"])
    *before, question = asked(endpoint)
    assert [message["content"] for message in before[1:]] == [
        "Which harbour has one?",
        "Look at Rua.\n\nRua has.",
        QUESTION,
        "Ana Sousa.",
    ]
    assert "\n\nAnswer in one word.\n\nQuestion: And who" in question["content"]


@pytest.mark.parametrize(
    ("reply", "shown"),
    [
        ("Ana [1], not there [2].", "Ana, not there.\n\nSources: Lighthouse, Harbour"),
        ("Not there [2]. Ana [1, 2].", "Not there. Ana.\n\nSources: Harbour, Lighthouse"),
        ("Ana.", "Ana.\n\nSources: Lighthouse, Harbour"),
        ("Ana, in [1874] [1].", "Ana, in [1874].\n\nSources: Lighthouse"),
        ("Ana [1].\n\nSources: my memory", "Ana.\n\nSources: Lighthouse"),
        (f" {REFUSAL}\n", REFUSAL),
    ],
)
def test_an_answer_has_the_form_of_a_quoted_one(
    endpoint: ScriptedServer, http: httpx.Client, reply: str, shown: str
) -> None:
    says(endpoint, completion(reply))
    assert ask(http, QUESTION)["answer"] == shown


@pytest.mark.parametrize("question", ["Which violins does the duchess admire?", "Hello!"])
def test_a_model_is_not_asked_what_the_sources_do_not_have(
    endpoint: ScriptedServer, http: httpx.Client, question: str
) -> None:
    says(endpoint, completion("I know this from elsewhere."))
    assert "elsewhere" not in ask(http, question)["answer"]
    assert endpoint.requests == []


PASSING: dict[str, tuple[Reply, str]] = {
    "overloaded": (answer(503, b"busy"), "answered 503"),
    "broken": (answer(500, b"<h1>Oops</h1>"), "answered 500"),
    "too many": (answer(429, {"error": {"message": "slow down"}}), "answered 429"),
    "silent": (silence, "did not answer within 1 s"),
    "dripping": (drip(b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 50, 0.05), "within 1 s"),
    "closing": (close, "could not be reached"),
    "resetting": (reset, "could not be reached"),
    "no HTTP": (raw(b"not HTTP at all\r\n\r\n"), "could not be reached"),
    "cut off": (answer(200, b'{"choices": [', length=500), "did not answer within 1 s"),
}
LASTING: dict[str, tuple[Reply, str]] = {
    "wrong key": (answer(401, {"error": {"message": f"bad key {KEY}"}}), "answered 401"),
    "no such model": (answer(404, {"error": {"message": "no model"}}), "answered 404"),
    "redirect": (answer(302, b"", {"Location": "http://127.0.0.1:1/"}), "answered 302"),
    "a page": (answer(200, b"<html>Sign in"), "not a chat completion"),
    "a list": (answer(200, []), "not a chat completion"),
    "no choices": (answer(200, {"choices": []}), "not a chat completion"),
    "deep": (answer(200, b"[" * 100_000), "not a chat completion"),
    "no text": (completion(None), "without text"),
    "blank": (completion(" \n"), "without text"),
    "numbers only": (completion("[1]"), "without text"),
    "endless": (answer(200, b" " * 2_000_000), "1,048,576 bytes"),
    "bad gzip": (answer(200, b"\x00\x01", {"Content-Encoding": "gzip"}), "cannot be read"),
}


@pytest.mark.parametrize("name", [*PASSING, *LASTING])
def test_without_an_answer_the_question_is_refused_and_the_conversation_unchanged(
    endpoint: ScriptedServer,
    service: InProcess,
    http: httpx.Client,
    name: str,
) -> None:
    says(endpoint, completion("Ana [1]."))
    conversation = ask(http, QUESTION)["conversation_id"]
    listed = value_of(http.get("/bots/bot_one/conversations"))
    before = messages_in(service)
    reply, said = (PASSING | LASTING)[name]
    says(endpoint, reply)
    for body in ({}, {"conversation_id": conversation}):
        body |= {"bot_id": "bot_one", "content": QUESTION}
        response = http.post("/messages", json={"value": body})
        problem = problem_of(response, 503 if name in PASSING else 424)
        assert problem["code"] == ("model_unavailable" if name in PASSING else "model_failed")
        assert said in problem["message"]
        assert response.headers.get("Retry-After") == ("5" if name in PASSING else None)
        assert KEY not in response.text
    assert messages_in(service) == before
    assert value_of(http.get("/bots/bot_one/conversations")) == listed
    says(endpoint, completion("Ana [1]."))
    ask(http, "And who built that of the harbour of Rua?", conversation)
    assert len(asked(endpoint)) == 4


def test_the_log_has_the_cause_and_not_the_key(
    endpoint: ScriptedServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
    says(endpoint, answer(401, {"error": {"message": f"no account for {KEY} here"}}))
    answers = {"base_url": endpoint.url, "model": "small-model", "api_key_env": VARIABLE}
    with (
        InProcess(tmp_path, settings={"answers": answers}) as service,
        client_of(service) as http,
    ):
        add_text(http, "Lighthouse", "Ana Sousa built the lighthouse of Rua.", "col_default")
        body = {"bot_id": "bot_default", "content": QUESTION}
        problem_of(http.post("/messages", json={"value": body}), 424)
    assert "small-model" in caplog.text
    assert "answered 401" in caplog.text
    assert "no account for … here" in caplog.text
    assert KEY not in caplog.text


def test_a_missing_key_is_said_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"base_url": "http://127.0.0.1:1/v1", "model": "m", "api_key_env": VARIABLE}
    monkeypatch.delenv(VARIABLE, raising=False)
    service = InProcess(settings={"answers": answers})
    with pytest.raises(SettingsError, match=VARIABLE):
        service.start()
    monkeypatch.setenv(VARIABLE, "secret with spaces")
    with pytest.raises(SettingsError, match=VARIABLE) as caught:
        service.start()
    assert "secret" not in str(caught.value)
