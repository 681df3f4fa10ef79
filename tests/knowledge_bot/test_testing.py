"""The service from memory: what it answers, what it keeps, and the faults that a test asks for."""

import asyncio
import contextlib
import json
import socket
import time

import pytest

from judged_requests import CALLS
from knowledge_bot import AsyncClient, Client, Delivery, HTTPRequest, errors
from knowledge_bot.ingest import Text, ingest
from knowledge_bot.testing import NOT_FOUND, MemoryService, no_waiting
from knowledge_bot.transcripts import Turn, render
from refusals import refused

URL = "https://service.test"
pytest_plugins = ["knowledge_bot.testing.pytest"]


@pytest.fixture(autouse=True)
def _no_sockets(monkeypatch):
    def refuse(self, address):
        raise AssertionError(f"a test without sockets connects to {address}")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture
def call(call):
    """`call(service, use, **options)`: the result of `use(client)` on either client."""
    return lambda service, use, **options: call(use, service, **options)


def ask(client):
    return client.send_message(bot_id="bot_1", content="When?")


def write(client):
    return client.create_text_source(name="n", collections="col_default", content="c")


def upload(client):
    return client.upload_source(name="n", collections="col_default", file=b"text" * 50_000)


@pytest.mark.parametrize("wrapped", [True, False])
def test_both_clients_ask_and_feed_without_sockets(call, wrapped):
    service = MemoryService(
        bots={"bot_1": {"When?": "At nine."}, "bot_2": lambda question: question.upper()},
        collections={"col_1": "House", "col_2": "Garden"},
        wrapped=wrapped,
    )
    assert call(service, lambda client: client.ping()) is True
    assert [bot.id for bot in call(service, lambda client: client.list_bots())] == [
        "bot_1",
        "bot_2",
    ]
    named = call(service, lambda client: client.list_collections())
    assert [(each.id, each.name) for each in named] == [("col_1", "House"), ("col_2", "Garden")]
    first = call(service, ask)
    assert first.answer == "At nine."
    again = call(
        service,
        lambda client: client.send_message(
            bot_id="bot_1", content="What?", conversation_id=first.conversation_id
        ),
    )
    assert again.conversation_id == first.conversation_id
    assert again.answer == NOT_FOUND
    assert call(service, lambda c: c.send_message(bot_id="bot_2", content="ah")).answer == "AH"
    held = call(service, lambda client: client.list_conversations("bot_1"))
    assert [each.id for each in held] == [first.conversation_id]
    page = call(
        service,
        lambda client: client.create_webpage_source(
            name="Page", collections=["col_1", "col_2"], url="https://a.example", headers={"A": "b"}
        ),
    )
    assert (page.status, [each.name for each in page.collections]) == (
        "pending",
        ["House", "Garden"],
    )
    assert service.requests[-1].value == {
        "name": "Page",
        "collections": ["col_1", "col_2"],
        "url": "https://a.example",
        "headers": [{"name": "A", "value": "b"}],
    }
    assert [source["id"] for source in service.sources] == [page.id]


# What the test asks for; the error and its delivery; how many requests arrive and sources are made.
FAULTS = [
    ("fail_next", {"status": 429, "times": 3}, "RateLimitError", "refused", (3, 0)),
    ("fail_next", {"status": 503, "retry_after": 60, "times": 3}, "ServerError", "refused", (3, 0)),
    ("fail_next", {"status": 500}, "ServerError", "unknown", (1, 0)),
    ("fail_next", {"status": 418}, "APIError", "refused", (1, 0)),
    ("answer_next", {"status": 302}, "UnexpectedResponseError", "unknown", (1, 0)),
    ("answer_next", {"body": b" " * (17 << 20)}, "UnexpectedResponseError", "unknown", (1, 0)),
    ("lose_next_answer", {}, "ConnectionLostError", "unknown", (1, 1)),
    ("time_out_next", {}, "RequestTimeoutError", "unknown", (1, 0)),
    ("time_out_next", {"acts": True}, "RequestTimeoutError", "unknown", (1, 1)),
    ("refuse_next_connection", {"times": 3}, "ConnectionFailedError", "not_delivered", (0, 0)),
]


@pytest.mark.parametrize("use", [write, upload])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault[0]} {fault[1]}"[:50])
def test_each_fault_is_what_it_is_over_a_socket(call, fault, use):
    method, how, kind, delivery, counts = fault
    service = MemoryService()
    getattr(service, method)(**how)
    began = time.monotonic()
    with no_waiting(), pytest.raises(errors.KnowledgeBotError) as caught:
        call(service, use)
    assert time.monotonic() - began < 20  # never a Retry-After of the fault
    assert (type(caught.value).__name__, caught.value.delivery) == (kind, Delivery(delivery))
    assert (len(service.requests), len(service.sources)) == counts
    assert "https://service.test" in str(caught.value) or "answered with" in str(caught.value)
    assert call(service, use).status == "pending"  # a fault is over when it has happened


def test_a_request_that_is_refused_once_is_sent_again(call):
    service = MemoryService(bots={"bot_1": {"When?": "At nine."}})
    service.fail_next(429, retry_after=30)
    service.refuse_next_connection()
    with no_waiting():
        assert call(service, ask).answer == "At nine."
    assert len(service.requests) == 2


def test_waiting_is_switched_off_for_the_block_alone(monkeypatch):
    waits = []
    monkeypatch.setattr(time, "sleep", waits.append)
    service = MemoryService()
    client = Client("key", URL, transport=service.transport)
    service.fail_next(429, retry_after=7)
    with no_waiting():
        write(client)
    service.fail_next(429, retry_after=7)
    write(client)
    assert waits == [0, 7]


@pytest.mark.parametrize(
    ("method", "arguments", "code"),
    [
        ("send_message", {"bot_id": "bot_9"}, "unknown_bot"),
        (
            "send_message",
            {"bot_id": "bot_default", "conversation_id": "conv_9"},
            "unknown_conversation",
        ),
        ("create_text_source", {"name": "n", "collections": "col_9"}, "unknown_collection"),
    ],
)
def test_what_the_interface_does_not_allow_is_refused(call, method, arguments, code):
    service = MemoryService()
    with pytest.raises(errors.BadRequestError) as caught:
        call(service, lambda client: getattr(client, method)(content="c", **arguments))
    assert (caught.value.code, service.sources) == (code, [])
    with pytest.raises(errors.NotFoundError):
        call(service, lambda client: client.list_conversations("bot_9"))


@pytest.mark.parametrize(
    "wrong",
    [{"bots": {"nobody": {}}}, {"collections": ["house"]}, {"extensions": {"telepathy"}}],
)
def test_a_service_of_wrong_ids_is_refused(wrong):
    with pytest.raises(errors.ConfigurationError):
        MemoryService(**wrong)
    with refused("collections"):
        MemoryService(collections="col_1")


async def later(question):
    return question


@pytest.mark.parametrize(
    "bots", [None, ["bot_1"], {"bot_1": "hi"}, {"bot_1": None}, {"bot_1": later}]
)
def test_a_bot_that_cannot_answer_is_refused(bots):
    with pytest.raises(errors.ConfigurationError, match="bots"):
        MemoryService(bots=bots)


@pytest.mark.parametrize("wrong", [KeyError("mine"), None])
def test_what_is_wrong_with_a_bot_of_the_test_reaches_the_test(call, wrong):
    def answer(question):
        if wrong is not None:
            raise wrong

    with pytest.raises(AssertionError, match="what answers for bot_1"):
        call(MemoryService(bots={"bot_1": answer}), ask)


@pytest.mark.parametrize(
    "arguments", [{"status": 200}, {"status": "500"}, {"status": 404, "times": 0}]
)
def test_a_fault_that_is_none_is_refused(arguments):
    with pytest.raises(errors.ConfigurationError, match=r"status|times"):
        MemoryService().fail_next(**arguments)


def test_nor_does_it_wait_for_what_a_test_lets_the_service_ask_for(memory_service, tmp_path):
    memory_service.fail_next(429, retry_after=60)
    memory_service.fail_next(503, retry_after=60)
    began = time.monotonic()
    with Client("key", URL, transport=memory_service.transport) as client:
        items = [Text(name=f"t{n}", content="c") for n in range(5)]
        report = ingest(client, items, collections="col_default", ledger=tmp_path / "l.db")
    assert (report.created, len(memory_service.sources)) == (5, 5)
    assert time.monotonic() - began < 30


def test_the_fixture_waits_for_nothing_and_names_no_other_service(memory_service):
    with refused("base_url"):
        Client("key")
    client = Client("key", URL, transport=memory_service.transport)
    memory_service.fail_next(429, retry_after=120)
    assert client.send_message(bot_id="bot_default", content="c").answer
    assert json.loads(memory_service.requests[0].body)["value"]["bot_id"] == "bot_default"


def test_a_transport_of_the_other_kind_is_refused():
    service = MemoryService()
    with refused("transport"):
        Client("key", URL, transport=service.async_transport)
    with refused("transport"):
        AsyncClient("key", URL, transport=service.transport)
    with refused("transport"):
        Client("key", URL, transport=object())


def test_a_transcript_is_answered_by_its_question(call):
    turns = [
        Turn("system", "Be brief."),
        Turn("user", "Who opens?"),
        Turn("assistant", "Ana."),
        Turn("user", "When?"),
    ]
    content = render(turns)
    service = MemoryService(bots={"bot_1": {"When?": "At nine."}, "bot_2": str.upper})
    for bot, answer in {"bot_1": "At nine.", "bot_2": "WHEN?"}.items():
        sent = call(
            service, lambda client, bot=bot: client.send_message(bot_id=bot, content=content)
        )
        assert sent.answer == answer
        assert service.requests[-1].value["content"] == content


def test_a_bot_is_told_where_it_is_asked_and_what_it_heard_before(call):
    heard = []

    def answer(question):
        heard.append((question, question.bot_id, question.conversation_id, question.earlier))
        return f"{len(heard)}"

    service = MemoryService(bots={"bot_1": answer})
    service.conversations["conv_of_old"] = ["Who?"]
    first = call(service, ask)
    for conversation in (first.conversation_id, "conv_of_old"):
        call(
            service,
            lambda client, conversation=conversation: client.send_message(
                bot_id="bot_1", content="And?", conversation_id=conversation
            ),
        )
    assert heard == [
        ("When?", "bot_1", first.conversation_id, ()),
        ("And?", "bot_1", first.conversation_id, ("When?",)),
        ("And?", "bot_1", "conv_of_old", ("Who?",)),
    ]
    assert service.conversations == {
        first.conversation_id: ["When?", "And?"],
        "conv_of_old": ["Who?", "And?"],
    }


def test_several_answers_to_a_question_are_given_one_after_another(call):
    service = MemoryService(bots={"bot_1": {"When?": ["At ten.", "At nine."]}})
    assert [call(service, ask).answer for _ in range(3)] == ["At ten.", "At nine.", "At nine."]


def test_a_fault_meets_what_it_is_meant_for_until_the_service_recovers(call):
    service = MemoryService()
    service.fail_next(400, times=None, where=lambda request: request.value["name"] == "n")
    service.fail_next(503, where=lambda request: request.is_ping)
    for _ in range(2):
        with pytest.raises(errors.BadRequestError):
            call(service, write)
    assert call(service, upload_another).name == "another"
    service.recover()
    assert call(service, write).name == "n"


def upload_another(client):
    return client.upload_source(name="another", collections="col_default", file=b"text")


def test_a_service_that_is_not_reachable_answers_no_ping(call):
    service = MemoryService()
    service.reachable = False
    with no_waiting(), pytest.raises(errors.ConnectionFailedError):
        call(service, lambda client: client.ping())
    service.recover()
    assert call(service, lambda client: client.ping())


def test_answers_are_held_for_as_long_as_the_client_waits(call):
    service = MemoryService()
    with service.holding_answers(), pytest.raises(errors.RequestTimeoutError) as caught:
        call(service, write, timeout=0.05, max_retries=0)
    assert (caught.value.delivery, len(service.sources)) == (Delivery.UNKNOWN, 1)
    assert call(service, write)


def test_it_stands_in_for_what_clients_of_the_code_under_test_would_reach():
    service = MemoryService()
    with service.standing_in():
        client = Client("key", URL)
        assert write(client).status == "pending"
        assert asyncio.run(AsyncClient("key", URL).list_bots())[0].id == "bot_default"
    assert write(client).status == "pending"
    with pytest.raises(AssertionError, match="without sockets"):
        Client("key", "http://127.0.0.1:9", max_retries=0).ping()


def test_ids_of_conversations_are_never_those_of_another_service(call):
    services = [MemoryService(bots={"bot_1": {}}) for _ in range(2)]
    assert len({call(service, ask).conversation_id for service in services}) == 2


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_a_request_is_judged_by_the_interface_or_as_the_embedded_service_does(name, strict):
    service, call = MemoryService(strict=strict), CALLS[name]
    path, body = call.sent_to("bot_default", "col_default")
    headers = list(call.headers.items())
    request = HTTPRequest(call.method, f"{URL}/public/v1{path}", headers, body, 5, 1 << 20)
    answer = service.transport.send(request)
    assert answer.status == (call.strict if strict else call.status), answer.body
    if answer.status >= 400:
        assert {"code", "message"} <= json.loads(answer.body).keys()


# Names and contents that a form's parser likes to alter.
FILES = {
    "mail.eml": b"From: a\r\n\r\nAt nine.",
    "page.mht": b'Content-Type: multipart/related; boundary="x"\r\n\r\n--x\r\n\r\na\r\n--x--\r\n',
    "C:\\docs\\a.txt": b"\r\n\r\n",
    " a.txt": b"--kb-\r\n",
    "=?utf-8?q?x?=.txt": b"a\r\n",
    'a"; filename="b.txt': b"\x00\xff",
    "ü.txt": b"--",
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_arrives_byte_for_byte_and_is_no_other_one(call, name):
    service, content = MemoryService(extensions={"sources", "idempotency"}), FILES[name]

    def send(client, content):
        return client.upload_source(
            name="n", collections="col_default", file=content, filename=name, idempotency_key="k"
        )

    source = call(service, lambda client: send(client, content))
    assert service.requests[-1].file == (name, content)
    assert "key" not in repr(service.requests[-1])
    assert service.ready_content(source.id) == content
    with pytest.raises(errors.APIError) as caught:  # the key is that of another request
        call(service, lambda client: send(client, content + b"."))
    assert caught.value.status_code == 422


@pytest.mark.parametrize("seconds", [0, 1, 1.5, 1e7])
def test_a_fault_names_the_seconds_that_it_was_given(call, seconds):
    service = MemoryService()
    service.fail_next(503, retry_after=seconds, times=None)
    with no_waiting(), pytest.raises(errors.ServerError) as caught:
        call(service, write)
    assert caught.value.retry_after == seconds


def test_a_filter_that_is_none_is_refused_by_a_strict_service(call):
    for strict in (False, True):
        service = MemoryService(extensions={"sources"}, strict=strict)
        found = contextlib.nullcontext() if not strict else pytest.raises(errors.BadRequestError)
        with found:
            assert call(service, lambda client: client.list_sources(status="nope")) == []
