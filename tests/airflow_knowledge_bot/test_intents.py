"""One request for each task instance, whatever happens to its tries."""

import os
import signal
import threading
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from uuid import UUID

import pytest

from airflow_knowledge_bot._compat import AirflowException, AirflowFailException
from airflow_knowledge_bot.operators import KnowledgeBotCreateTextSourceOperator
from answering_bot import StateStore
from calls import KEY, SOURCE
from knowledge_bot import KnowledgeBotError, RateLimitError
from scripted_server import answer, silence

GOOD = answer(body={"value": SOURCE})


class Killed(BaseException):
    """The end of a worker in the middle of a request."""


@pytest.fixture
def attempt(connect):
    """`attempt(server, …)`: one try of the task; all of them share the store."""
    store = StateStore()

    def run(server, *, cleared=0, on_unknown="hold", content="We open at nine.", **connection):
        connect(server.url, **{"max_retries": 0, "timeout": 0.3} | connection)
        task = KnowledgeBotCreateTextSourceOperator(
            task_id="add",
            name="Hours",
            collections="col_1",
            content=content,
            on_unknown=on_unknown,
        )
        instance = SimpleNamespace(max_tries=2 + cleared, task_id="add", map_index=-1)
        return task.execute({"ti": instance, **run.context})

    run.context = {"task_state_store": store}

    run.store = store
    return run


def killed_in_the_middle(attempt, server):
    """End a try while it waits for its answer, as Airflow's `execution_timeout` does."""

    def die(*arguments):
        raise Killed

    before = signal.signal(signal.SIGUSR1, die)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        with pytest.raises(Killed):
            attempt(server, timeout=30)
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


def test_a_retry_that_may_not_send_again_says_what_was_sent_and_when(attempt, scripted):
    server = scripted(silence)
    killed_in_the_middle(attempt, server)
    said = r"\(name 'Hours', sent at 2\d{3}-\d\d-\d\d \d\d:\d\d:\d\d\+00:00\)"
    for _ in range(2):  # a third try says the same
        with pytest.raises(AirflowFailException, match=said):
            attempt(server)
    assert len(server.requests) == 1


def test_a_person_who_was_warned_and_clears_the_task_sends_it(attempt, scripted):
    server = scripted(silence, GOOD)
    killed_in_the_middle(attempt, server)
    # Cleared while it ran: nobody was warned yet.
    with pytest.raises(AirflowFailException, match="clear the task"):
        attempt(server, cleared=1)
    assert len(server.requests) == 1
    attempt(server, cleared=2)
    assert len(server.requests) == 2


def test_an_unknown_outcome_is_not_sent_again_until_a_person_clears_the_task(attempt, scripted):
    server = scripted(silence, GOOD)
    for _ in range(2):
        with pytest.raises(AirflowFailException, match="clear the task"):
            attempt(server)
    assert len(server.requests) == 1
    attempt(server, cleared=1)
    assert len(server.requests) == 2


def test_a_definite_refusal_leaves_no_intent(attempt, scripted):
    server = scripted(answer(429), answer(402), GOOD)
    with pytest.raises(RateLimitError):
        attempt(server)
    with pytest.raises(AirflowFailException):
        attempt(server)
    assert attempt.store == {}
    attempt(server)


def test_an_intent_holds_neither_key_nor_content(attempt, scripted):
    killed_in_the_middle(attempt, scripted(silence))
    assert KEY not in str(attempt.store)
    assert "nine" not in str(attempt.store)


# With idempotency ---------------------------------------------------------------------------------


def keyed(*replies):
    """Replies that a service gives that takes keys: each answer names the request's."""
    left = list(replies)

    def reply_to(received):
        reply = left.pop(0) if len(left) > 1 else left[0]
        if reply is silence:
            return silence
        status, body = reply
        return answer(status, body, {"Idempotency-Key": received.headers["idempotency-key"]})

    return reply_to


CREATED = (200, {"value": SOURCE})


@pytest.fixture
def announcing(scripted):
    def start(*replies, lifetime=604_800):
        header = f"idempotency=1;lifetime={lifetime}"
        pong = answer(body="pong", headers={"Knowledge-Bot-Extensions": header})
        return scripted(reply_to=keyed(*replies), on_ping=pong)

    return start


def keys(server):
    return [request.headers["idempotency-key"] for request in server.requests]


def age(attempt, by):
    """Make the key of the stored intent older."""
    intent = attempt.store["knowledge_bot"]
    born = int(intent["key"].replace("-", "")[:12], 16) - int(by.total_seconds() * 1000)
    intent["key"] = str(UUID(f"{born:012x}{intent['key'].replace('-', '')[12:]}"))


def test_a_retry_of_a_killed_try_sends_the_same_key_and_is_green(attempt, announcing):
    server = announcing(silence, CREATED)
    killed_in_the_middle(attempt, server)
    assert attempt(server)["id"] == SOURCE["id"]
    first, second = keys(server)
    assert first == second
    assert UUID(first).version == 7
    attempt(server)  # finds the answer
    attempt(server, cleared=1)
    assert len(set(keys(server))) == 2
    assert len(server.requests) == 3


def test_an_unknown_outcome_is_left_to_the_next_try_which_sends_the_same_key(attempt, announcing):
    server = announcing(silence, (500, b""), CREATED)
    for _ in range(2):
        with pytest.raises(AirflowException) as caught:
            attempt(server)
        assert not isinstance(caught.value, AirflowFailException)
    attempt(server)
    assert len(set(keys(server))) == 1


@pytest.mark.parametrize("status", [401, 409, 429, 503])
def test_a_refusal_after_a_killed_try_does_not_forget_the_key(attempt, announcing, status):
    body = {"code": "idempotency_key_in_use" if status == 409 else "no", "message": "Not now."}
    server = announcing(silence, (status, body), CREATED)
    killed_in_the_middle(attempt, server)
    with pytest.raises((AirflowException, KnowledgeBotError)):
        attempt(server)
    attempt(server, cleared=status == 401)
    assert len(set(keys(server))) == 1


def test_a_task_that_is_cleared_while_its_request_is_open_finishes_that_one(attempt, announcing):
    server = announcing(silence, CREATED)
    killed_in_the_middle(attempt, server)
    attempt(server, cleared=1)
    assert len(set(keys(server))) == 1


def test_a_retry_that_would_send_something_else_fails_and_is_sent_once_cleared(attempt, announcing):
    reused = {"code": "idempotency_key_reused", "message": "It was another request."}
    server = announcing(silence, (422, reused), CREATED)
    killed_in_the_middle(attempt, server)
    with pytest.raises(AirflowFailException, match="422"):
        attempt(server, content="We open at ten.")
    attempt(server, content="We open at ten.", cleared=1)
    first, second, third = keys(server)
    assert first == second != third


@pytest.mark.parametrize("on_unknown", ["hold", "resend"])
def test_past_its_lifetime_a_key_says_nothing(attempt, announcing, on_unknown):
    server = announcing(silence, CREATED, lifetime=3600)
    killed_in_the_middle(attempt, server)
    age(attempt, timedelta(hours=1))
    if on_unknown == "hold":
        with pytest.raises(AirflowFailException):
            attempt(server)
        assert len(server.requests) == 1
        attempt(server, cleared=1)
    else:
        attempt(server, on_unknown="resend")
    first, second = keys(server)
    assert first != second


def test_a_service_that_takes_keys_no_more_is_held_as_before(attempt, announcing, scripted):
    killed_in_the_middle(attempt, announcing(silence))
    with pytest.raises(AirflowFailException):
        attempt(scripted(GOOD))


def without_store(run_id="r", start=None):
    start = start or datetime.now(UTC) - timedelta(minutes=3)
    return {"dag_run": SimpleNamespace(dag_id="d", run_id=run_id, start_date=start)}


def test_without_a_store_each_try_makes_the_same_key_until_the_task_is_cleared(attempt, announcing):
    attempt.context = without_store()
    server = announcing(silence, CREATED)
    with pytest.raises(AirflowException):
        attempt(server)
    attempt(server)
    attempt(server, cleared=1)
    attempt.context = without_store("of the next night")
    attempt(server)
    first, second, cleared, other = keys(server)
    assert first == second
    assert len({first, cleared, other}) == 3
    key = UUID(first)
    assert (key.version, key.variant) == (7, "specified in RFC 4122")
    assert time.time() - (key.int >> 80) / 1000 == pytest.approx(180, abs=60)


def test_without_a_store_a_run_older_than_the_lifetime_has_no_such_key(attempt, announcing):
    attempt.context = without_store(start=datetime.now(UTC) - timedelta(days=8))
    server = announcing(silence, CREATED)
    with pytest.raises(AirflowFailException):
        attempt(server)
    attempt(server)
    first, second = keys(server)  # the client's own, one for each call
    assert first != second
