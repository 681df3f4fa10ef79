"""What each failure is, whether the service may have acted, and how often it was asked."""

import contextlib
import json
import re
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calls import KEY, ask, create, read
from knowledge_bot import (
    AuthenticationError,
    BadRequestError,
    Client,
    Delivery,
    KnowledgeBotError,
    Message,
    PaymentRequiredError,
    ServerError,
    UnexpectedResponseError,
)
from knowledge_bot.testing import MemoryService, no_waiting


def test_an_error_shows_code_message_request_id_and_what_to_do(call, service):
    body = b'{"code": "quota_exceeded", "message": "10 of 10 sources used"}'
    service.answer_next(402, body, {"X-Request-Id": "req-7"})
    with pytest.raises(PaymentRequiredError) as caught:
        call(create, service)
    error = caught.value
    assert (error.status_code, error.code, error.request_id) == (402, "quota_exceeded", "req-7")
    assert error.message == "10 of 10 sources used"
    assert error.delivery is Delivery.REFUSED
    inserted = (
        "POST /sources/write",
        "https://service.test",
        "402",
        error.code,
        "req-7",
        error.message,
    )
    assert all(part in str(error) for part in (*inserted, PaymentRequiredError.advice))


def test_what_an_error_says_can_be_printed_anywhere(call, service):
    odd = {"code": "\ud800", "message": "one\ntwo\x1b[31m \u202e\0"}
    service.answer_next(400, json.dumps(odd).encode(), {"X-Request-Id": "a\x7fb"})
    with pytest.raises(BadRequestError) as caught:
        call(create, service)
    shown = str(caught.value)
    assert shown.isprintable()
    assert shown.encode()
    assert "one two" in shown


@pytest.mark.parametrize(
    ("status", "key", "words"),
    [
        (401, None, "KNOWLEDGE_BOT_API_KEY"),
        (401, KEY, "API key"),
        (413, KEY, "in parts"),
        (407, KEY, "HTTP_PROXY"),
    ],
)
def test_an_error_says_what_to_do(call, service, status, key, words):
    service.fail_next(status)
    with pytest.raises(KnowledgeBotError, match=words):
        call(read, service, api_key=key)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            b"<!doctype html><title>Sign in",
            "It begins with '<!doctype html><title>Sign in'",
        ),
        (b'{"name": {}}', "id: Field required; name: Input should be a valid string"),
        (b"", "It is empty"),
    ],
)
def test_an_answer_that_cannot_be_read_is_shown_in_short(call, service, body, words):
    service.answer_next(200, body)
    with pytest.raises(UnexpectedResponseError, match=re.escape(words)) as caught:
        call(create, service)
    assert "pydantic.dev" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (302, b"", {"Location": "https://me:p@ss-word@host.example/x"}),
        (400, b'{"message": "no page at https://me:p@ss-word@host.example/x"}', {}),
        (502, b"<p>cannot reach ftp://me:p@ss-word@host.example/x", {}),
        (200, b"junk http://me:p@ss-word@host.example/x", {}),
    ],
)
def test_a_login_in_an_address_is_in_no_error(call, service, status, body, headers):
    service.answer_next(status, body, headers)
    with pytest.raises(KnowledgeBotError) as caught:
        call(create, service)
    assert "***@host.example/x" in str(caught.value)
    assert "ss-word" not in str(caught.value) + str(getattr(caught.value, "message", ""))


def test_a_short_key_leaves_our_own_sentences_alone(call, service):
    service.answer_next(302, headers={"Location": "https://key.example/the-service"})
    with pytest.raises(UnexpectedResponseError) as caught:
        call(create, service, api_key="key")
    assert "https://***.example/the-service" in str(caught.value)
    assert str(caught.value).count("***") == 1


@pytest.mark.parametrize("written", [r"a/b\"c", r"a\/b\"c"])
def test_an_error_that_repeats_the_key_does_not_show_it_however_it_is_written(
    call, service, written
):
    service.answer_next(401, f'{{"message": "no key {written}"}}'.encode())
    with pytest.raises(AuthenticationError) as caught:
        call(create, service, api_key='a/b"c')
    assert caught.value.message == "no key ***"
    assert 'a/b"c' not in str(caught.value)


def waits(client):
    """The seconds that a call waits before each of its retries."""
    with (
        patch.object(time, "sleep") as sleep,
        contextlib.suppress(KnowledgeBotError),
    ):
        client.list_bots()
    return [call.args[0] for call in sleep.call_args_list]


def paused(retry_after):
    """The seconds that a call waits after a 429 with this `Retry-After`; None: it does not."""
    service = MemoryService()
    service.answer_next(429, headers={"Retry-After": retry_after})
    with Client(KEY, "https://service.test", transport=service.transport) as client:
        return next(iter(waits(client)), None)


def in_30_seconds():
    return datetime.now(UTC) + timedelta(seconds=30)


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [
        *(("7", 7), (" 7 ", 7), ("+7", 7), ("7.", 7), ("1.5", 1.5), (".5", 0.5), ("1e1", 10)),
        *(("120", 120), ("0", 0), ("Tue, 14 Nov 2000 22:13:50 GMT", 0), ("2000-11-14T22:13Z", 0)),
        # For longer nobody waits, and asking earlier is no use.
        *((asked, None) for asked in ("120.5", "3600", "1e7", "9" * 400, "9999-01-01")),
    ],
)
def test_retry_after_is_honoured_as_people_send_it(retry_after, seconds):
    assert paused(retry_after) == seconds


@pytest.mark.parametrize("write", [lambda at: format_datetime(at, usegmt=True), datetime.isoformat])
def test_retry_after_is_honoured_as_a_date(write):
    assert 20 < paused(write(in_30_seconds())) <= 30


@pytest.mark.parametrize(("seconds", "tries"), [(1, 3), (1.5, 3), (0.5, 3), (120, 3), (121, 1)])
def test_a_service_that_says_when_has_not_acted_and_is_not_asked_before(
    call, service, seconds, tries
):
    service.fail_next(503, retry_after=seconds, times=None)
    with no_waiting(), pytest.raises(ServerError) as caught:
        call(ask, service)
    assert (caught.value.retry_after, caught.value.delivery) == (seconds, Delivery.REFUSED)
    assert len(service.requests) == tries


def test_a_date_without_a_zone_is_utc_wherever_this_runs(monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert 20 < paused(f"{in_30_seconds():%a %b %d %H:%M:%S %Y}") <= 30
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    "date", [f"Tue, 14 Nov {'9' * 20} 22:13:50 GMT", f"Tue, 14 Nov 2023 22:13:50 +{'9' * 14}"]
)
def test_a_date_beyond_all_dates_is_none(date):
    assert paused(date) <= 0.5  # as without one


def test_the_backoff_doubles_under_full_jitter():
    service = MemoryService()
    service.fail_next(429, times=50 * 7)
    with Client(KEY, "https://service.test", max_retries=6, transport=service.transport) as client:
        calls = [waits(client) for _ in range(50)]
    for bound, seconds in zip([0.5, 1, 2, 4, 8, 8], zip(*calls, strict=True), strict=True):
        assert 0 <= min(seconds) < bound / 2 < max(seconds) <= bound


@given(st.text(max_size=40))
def test_whatever_stands_in_retry_after_the_wait_is_bounded(value):
    assert 0 <= (paused(value) or 0) <= 120


@given(st.binary(max_size=300), st.integers(200, 599))
def test_whatever_the_service_answers_ends_in_a_result_or_an_error_with_a_delivery(body, status):
    service = MemoryService(bots={"bot_1": {}})
    service.answer_next(status, body)
    with Client(KEY, "https://service.test", max_retries=0, transport=service.transport) as client:
        try:
            message = ask(client)
        except KnowledgeBotError as error:
            delivery = error.delivery
        else:
            assert status < 300
            assert isinstance(message, Message)
            return
    assert isinstance(delivery, Delivery)
