"""What each failure is, whether the service may have acted, and how often it was asked."""

import concurrent.futures
import socket
import ssl
import time

import httpx
import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from calls import KEY, SOURCE, ask, create, read, upload
from knowledge_bot import (
    APIError,
    AuthenticationError,
    BadRequestError,
    Client,
    ConflictError,
    ConnectionFailedError,
    ConnectionLostError,
    Delivery,
    KnowledgeBotError,
    NotFoundError,
    PaymentRequiredError,
    PermissionDeniedError,
    RateLimitError,
    RequestTimeoutError,
    ServerError,
    UnexpectedResponseError,
    delivery,
)
from knowledge_bot.endpoints import Request
from scripted_server import answer, close, drip, raw, reset, silence, then

# Only these faults are met by waiting; the others have time, also on a machine that is busy.
SLOW_FAULTS = ("no answer in time", "a dripping answer")

NOT_DELIVERED, REFUSED, UNKNOWN = Delivery.NOT_DELIVERED, Delivery.REFUSED, Delivery.UNKNOWN

BUSY = {"Retry-After": "0"}

# Each: the server's reply, the error, its delivery, and how often a POST and a GET arrive with two
# retries allowed.
FAULTS = {
    "closed after the request": (close, ConnectionLostError, UNKNOWN, 1, 3),
    "reset after the request": (reset, ConnectionLostError, UNKNOWN, 1, 3),
    "no answer in time": (silence, RequestTimeoutError, UNKNOWN, 1, 3),
    "a truncated answer": (
        then(answer(body=SOURCE, length=9999), close),
        ConnectionLostError,
        UNKNOWN,
        1,
        3,
    ),
    "a dripping answer": (
        then(answer(body=b"", length=9999), drip(b"x" * 9999, 0.05)),
        RequestTimeoutError,
        UNKNOWN,
        1,
        3,
    ),
    "not HTTP": (then(raw(b"SSH-2.0-OpenSSH\r\n\r\n"), close), ConnectionLostError, UNKNOWN, 1, 3),
    "200 with junk": (answer(body=b"junk"), UnexpectedResponseError, UNKNOWN, 1, 1),
    "200 with another shape": (answer(body={"a": 1}), UnexpectedResponseError, UNKNOWN, 1, 1),
    "200 with invalid UTF-8": (
        answer(body=b'{"id": "\xff"}'),
        UnexpectedResponseError,
        UNKNOWN,
        1,
        1,
    ),
    "204": (answer(204), UnexpectedResponseError, UNKNOWN, 1, 1),
    "302": (
        answer(302, headers={"Location": "http://127.0.0.1:9/elsewhere"}),
        UnexpectedResponseError,
        UNKNOWN,
        1,
        1,
    ),
    "400": (answer(400, {"code": "c", "message": "m"}), BadRequestError, REFUSED, 1, 1),
    "401": (answer(401), AuthenticationError, REFUSED, 1, 1),
    "402": (answer(402, {"code": "c", "message": "m"}), PaymentRequiredError, REFUSED, 1, 1),
    "403": (answer(403), PermissionDeniedError, REFUSED, 1, 1),
    "404": (answer(404), NotFoundError, REFUSED, 1, 1),
    "409": (answer(409), ConflictError, REFUSED, 1, 1),
    "418": (answer(418), APIError, REFUSED, 1, 1),
    "429": (answer(429), RateLimitError, REFUSED, 3, 3),
    "429 with Retry-After": (answer(429, headers=BUSY), RateLimitError, REFUSED, 3, 3),
    "500": (answer(500), ServerError, UNKNOWN, 1, 1),
    "502": (answer(502, b"<html>Bad gateway</html>"), ServerError, UNKNOWN, 1, 3),
    "503": (answer(503), ServerError, UNKNOWN, 1, 3),
    "503 with Retry-After": (answer(503, headers=BUSY), ServerError, REFUSED, 3, 3),
    "504": (answer(504), ServerError, UNKNOWN, 1, 3),
}


def patience(fault):
    return 0.4 if fault in SLOW_FAULTS else 20


@pytest.fixture(autouse=True)
def _short_backoff(monkeypatch):
    monkeypatch.setattr(delivery.random, "uniform", lambda low, high: 0.0)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("use", [create, upload, ask])
def test_a_post_is_sent_again_only_where_that_cannot_duplicate(call, scripted, use, fault):
    reply, kind, expected, times, _ = FAULTS[fault]
    server = scripted(reply)
    with pytest.raises(KnowledgeBotError) as caught:
        call(use, server.url, timeout=patience(fault))
    assert type(caught.value) is kind
    assert caught.value.delivery is expected
    assert len(server.requests) == times


@pytest.mark.parametrize("fault", FAULTS)
def test_a_get_is_sent_again_where_the_failure_may_pass(call, scripted, fault):
    reply, kind, _, _, times = FAULTS[fault]
    server = scripted(reply)
    with pytest.raises(KnowledgeBotError) as caught:
        call(read, server.url, timeout=patience(fault))
    assert type(caught.value) is kind
    # aiohttp sends a GET once more by itself where a connection it kept was just closed.
    assert times <= len(server.requests) <= 2 * times


@pytest.mark.parametrize("use", [create, upload, ask, read])
def test_a_refused_connection_is_not_delivered(call, use):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(ConnectionFailedError) as caught:
        call(use, f"http://127.0.0.1:{port}")
    assert caught.value.delivery is NOT_DELIVERED


def test_a_name_that_does_not_resolve_is_not_delivered(call):
    with pytest.raises(ConnectionFailedError) as caught:
        call(create, "https://service.invalid", max_retries=0)
    assert caught.value.delivery is NOT_DELIVERED


def test_an_untrusted_certificate_is_not_delivered(call, scripted):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    server = scripted(answer(body=SOURCE), tls=context)
    with pytest.raises(ConnectionFailedError, match="certificate") as caught:
        call(create, server.url, max_retries=0)
    assert caught.value.delivery is NOT_DELIVERED
    assert server.requests == []


def test_a_trusted_certificate_is_accepted(call, scripted, tmp_path):
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    server = scripted(answer(body=SOURCE), tls=context)
    assert call(create, server.url, verify=str(tmp_path / "ca.pem")).id == "src_1"


def test_a_connection_that_never_comes_is_not_delivered(call):
    # Nobody accepts, and the backlog is full: the handshake is never answered.
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        address = deaf.getsockname()
        filling = [socket.socket() for _ in range(4)]
        for waiting in filling:
            waiting.setblocking(False)
            waiting.connect_ex(address)
        with pytest.raises(RequestTimeoutError) as caught:
            call(create, f"http://127.0.0.1:{address[1]}", timeout=0.3, max_retries=0)
        for waiting in filling:
            waiting.close()
    assert caught.value.delivery is NOT_DELIVERED
    assert "no connection" in str(caught.value)


def test_no_free_connection_is_not_delivered(scripted):
    server = scripted(then(silence, answer(body=SOURCE)))
    with (
        httpx.Client(limits=httpx.Limits(max_connections=1)) as http_client,
        Client(KEY, server.url, timeout=30, http_client=http_client) as patient,
        Client(KEY, server.url, timeout=0.3, max_retries=0, http_client=http_client) as hasty,
        concurrent.futures.ThreadPoolExecutor() as pool,
    ):
        first = pool.submit(create, patient)
        while not server.requests:
            time.sleep(0.01)
        with pytest.raises(RequestTimeoutError) as caught:
            create(hasty)
        server.stop()
        assert isinstance(first.exception(), ConnectionLostError)
    assert caught.value.delivery is NOT_DELIVERED
    assert len(server.requests) == 1


def test_a_connection_that_breaks_off_while_a_post_is_on_its_way_is_unknown_over_aiohttp_too(
    call, scripted
):
    # httpx-aiohttp reports every lost connection as httpx.ConnectTimeout.
    server = scripted(close)
    with pytest.raises(ConnectionLostError) as caught:
        call(create, server.url)
    assert caught.value.delivery is UNKNOWN


def test_a_request_that_is_refused_once_succeeds_the_second_time(call, scripted):
    server = scripted(answer(429, headers=BUSY), answer(body=SOURCE))
    assert call(create, server.url).id == "src_1"
    assert len(server.requests) == 2


def test_no_retries_means_one_attempt(call, scripted):
    server = scripted(answer(429))
    with pytest.raises(RateLimitError):
        call(create, server.url, max_retries=0)
    assert len(server.requests) == 1


def test_an_error_tells_code_message_request_id_and_what_to_do(call, scripted):
    server = scripted(
        answer(
            402,
            {"code": "quota_exceeded", "message": "10 of 10 sources used"},
            {"X-Request-Id": "req-7"},
        )
    )
    with pytest.raises(PaymentRequiredError) as caught:
        call(create, server.url)
    error = caught.value
    assert (error.status_code, error.code, error.request_id) == (402, "quota_exceeded", "req-7")
    assert error.message == "10 of 10 sources used"
    assert str(error) == (
        "POST /sources/write was answered with 402 [quota_exceeded] (request id req-7): "
        "10 of 10 sources used. Raise the account's quota or wait for its next period, then send "
        "it again. The service did not act on it."
    )


def test_an_error_that_repeats_the_key_does_not_show_it(call, scripted):
    server = scripted(answer(401, {"code": "c", "message": f"the key {KEY} is not known"}))
    with pytest.raises(AuthenticationError) as caught:
        call(create, server.url)
    assert KEY not in str(caught.value)
    assert caught.value.message == "the key *** is not known"


def test_an_unreadable_answer_keeps_what_may_name_the_source(call, scripted):
    server = scripted(answer(body={"identifier": "src_77"}))
    with pytest.raises(UnexpectedResponseError) as caught:
        call(create, server.url)
    assert b"src_77" in caught.value.body


def test_a_refusal_that_breaks_off_is_still_a_refusal(call, scripted):
    server = scripted(then(answer(400, {"code": "c"}, length=9999), close))
    with pytest.raises(BadRequestError):
        call(create, server.url)


POST = Request("POST", "/messages", bytes.decode)


def paused(headers):
    """The seconds that the policy waits after a 429 with these headers."""
    steps = delivery.exchange(POST, max_retries=1, base_url="http://h")
    next(steps)
    step = steps.send(delivery.Answer(429, headers, b""))
    return step.seconds


def test_retry_after_is_honoured_as_seconds_and_as_a_date_and_capped(monkeypatch):
    monkeypatch.setattr(delivery.time, "time", lambda: 1_700_000_000.0)
    assert paused({"retry-after": "7"}) == 7
    assert paused({"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT"}) == 30
    assert paused({"retry-after": "Tue, 14 Nov 2000 22:13:50 GMT"}) == 0
    assert paused({"retry-after": "86400"}) == 120


def test_the_backoff_doubles_under_full_jitter(monkeypatch):
    monkeypatch.setattr(delivery.random, "uniform", lambda low, high: high)
    steps = delivery.exchange(POST, max_retries=6, base_url="http://h")
    waits = []
    next(steps)
    for _ in range(6):
        waits.append(steps.send(delivery.Answer(429, {}, b"")).seconds)
        next(steps)
    assert waits == [0.5, 1, 2, 4, 8, 8]


@given(st.text(max_size=40))
def test_whatever_stands_in_retry_after_the_wait_is_bounded(value):
    assert 0 <= paused({"retry-after": value}) <= 120


@given(st.binary(max_size=300), st.integers(200, 599))
def test_whatever_the_service_answers_ends_in_a_result_or_an_error_with_a_delivery(body, status):
    steps = delivery.exchange(POST, max_retries=0, base_url="http://h")
    next(steps)
    with pytest.raises((StopIteration, KnowledgeBotError)) as ended:
        steps.send(delivery.Answer(status, {}, body))
    if isinstance(ended.value, StopIteration):
        assert status < 300
        assert ended.value.value == body.decode()
    else:
        assert isinstance(ended.value.delivery, Delivery)
