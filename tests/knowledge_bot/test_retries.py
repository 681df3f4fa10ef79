"""What each failure is, whether the service may have acted, and how often it was asked."""

import json
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calls import KEY, SOURCE, create, read
from knowledge_bot import (
    AuthenticationError,
    BadRequestError,
    Delivery,
    HTTPResponse,
    KnowledgeBotError,
    PaymentRequiredError,
    RateLimitError,
    UnexpectedResponseError,
    _responses,
    _retries,
)
from knowledge_bot._endpoints import Request
from scripted_server import answer, close, then

BUSY = {"Retry-After": "0"}


@pytest.fixture(autouse=True)
def _short_backoff(monkeypatch):
    monkeypatch.setattr(_retries.random, "uniform", lambda low, high: 0.0)


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
        f"POST /sources/write to {server.url}/public/v1 was answered with 402 [quota_exceeded] "
        "(request id req-7): 10 of 10 sources used. Raise the account's quota or wait for its next "
        "period, then send it again. The service did not act on it."
    )


def test_what_an_error_says_can_be_printed_anywhere(call, scripted):
    odd = {"code": "\ud800", "message": "one\ntwo\x1b[31m \u202e\0"}
    server = scripted(answer(400, json.dumps(odd).encode(), {"X-Request-Id": "a\x7fb"}))
    with pytest.raises(BadRequestError) as caught:
        call(create, server.url)
    told = str(caught.value)
    assert told.isprintable()
    assert told.encode()
    assert "one two" in told


@pytest.mark.parametrize(
    ("status", "key", "words"),
    [
        (401, None, "There is no API key"),
        (401, KEY, "Check the API key"),
        (413, KEY, "send it in parts"),
        (407, KEY, "Check the proxy's address and login"),
    ],
)
def test_an_error_says_what_to_do(call, scripted, status, key, words):
    with pytest.raises(KnowledgeBotError, match=words):
        call(read, scripted(answer(status)).url, api_key=key)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            b"<!doctype html><title>Sign in",
            "It begins with '<!doctype html><title>Sign in', as app",
        ),
        ({"name": 3}, "id: Field required; name: Input should be a valid string"),
        (b"", "It is empty"),
    ],
)
def test_an_answer_that_cannot_be_read_is_shown_in_short(call, scripted, body, words):
    with pytest.raises(UnexpectedResponseError, match=re.escape(words)) as caught:
        call(create, scripted(answer(body=body)).url)
    assert "pydantic.dev" not in str(caught.value)


def test_a_short_key_leaves_our_own_sentences_alone(call, scripted):
    server = scripted(answer(302, headers={"Location": "https://key.example/the-service"}))
    with pytest.raises(UnexpectedResponseError, match="the API key would go along") as caught:
        call(create, server.url, api_key="key")
    assert "redirects to https://***.example/the-service" in str(caught.value)


def test_an_error_that_repeats_the_key_does_not_show_it(call, scripted):
    server = scripted(answer(401, {"code": "c", "message": f"the key {KEY} is not known"}))
    with pytest.raises(AuthenticationError) as caught:
        call(create, server.url)
    assert KEY not in str(caught.value)
    assert caught.value.message == "the key *** is not known"


@pytest.mark.parametrize(
    "body", [b'{"message": "no key a\\/b\\"c"}', b'{"message": "no key a/b\\"c"}']
)
def test_nor_a_key_that_json_writes_in_another_way(call, scripted, body):
    server = scripted(answer(401, body))
    with pytest.raises(AuthenticationError) as caught:
        call(create, server.url, api_key='a/b"c')
    assert caught.value.message == "no key ***"


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
    steps = _retries.exchange(POST, max_retries=1, place="http://h", key=None)
    next(steps)
    step = steps.send(HTTPResponse(429, headers))
    return step.seconds


def test_retry_after_is_honoured_as_seconds_and_as_a_date_and_capped(monkeypatch):
    monkeypatch.setattr(_responses.time, "time", lambda: 1_700_000_000.0)
    assert paused({"retry-after": "7"}) == 7
    assert paused({"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT"}) == 30
    assert paused({"retry-after": "Tue, 14 Nov 2000 22:13:50 GMT"}) == 0
    assert paused({"retry-after": "86400"}) == 120


def test_a_date_without_a_zone_is_utc_wherever_this_runs(monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        monkeypatch.setattr(_responses.time, "time", lambda: 1_700_000_000.0)
        assert paused({"retry-after": "Tue Nov 14 22:13:50 2023"}) == 30
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    "date", [f"Tue, 14 Nov {'9' * 20} 22:13:50 GMT", f"Tue, 14 Nov 2023 22:13:50 +{'9' * 14}"]
)
def test_a_date_beyond_all_dates_is_none(date):
    assert paused({"retry-after": date}) == 0


def test_the_backoff_doubles_under_full_jitter(monkeypatch):
    monkeypatch.setattr(_retries.random, "uniform", lambda low, high: high)
    steps = _retries.exchange(POST, max_retries=6, place="http://h", key=None)
    waits = []
    next(steps)
    for _ in range(6):
        waits.append(steps.send(HTTPResponse(429, {})).seconds)
        next(steps)
    assert waits == [0.5, 1, 2, 4, 8, 8]


@given(st.text(max_size=40))
def test_whatever_stands_in_retry_after_the_wait_is_bounded(value):
    assert 0 <= paused({"retry-after": value}) <= 120


@given(st.binary(max_size=300), st.integers(200, 599))
def test_whatever_the_service_answers_ends_in_a_result_or_an_error_with_a_delivery(body, status):
    steps = _retries.exchange(POST, max_retries=0, place="http://h", key=None)
    next(steps)
    with pytest.raises((StopIteration, KnowledgeBotError)) as ended:
        steps.send(HTTPResponse(status, {}, body))
    if isinstance(ended.value, StopIteration):
        assert status < 300
        assert ended.value.value == body.decode()
    else:
        assert isinstance(ended.value.delivery, Delivery)
