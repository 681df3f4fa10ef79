"""One request for each task instance, whatever happens to its tries."""

import json
import os
import signal
import threading
from types import SimpleNamespace

import pytest

from airflow_knowledge_bot._compat import AirflowFailException
from airflow_knowledge_bot.operators import KnowledgeBotCreateTextSourceOperator
from calls import KEY, SOURCE
from knowledge_bot import RateLimitError, RequestTimeoutError
from scripted_server import answer, silence

GOOD = answer(body={"value": SOURCE})


class StateStore(dict):
    """What Airflow 3.3 offers to a task as `context["task_state_store"]`, without its database."""

    def set(self, key, value):
        self[key] = json.loads(json.dumps(value))

    def delete(self, key):
        self.pop(key, None)


class Killed(BaseException):
    """The end of a worker in the middle of a request."""


@pytest.fixture
def attempt(connect):
    """`attempt(server, …)`: one try of the task; all of them share the store."""
    store = StateStore()

    def run(server, *, cleared=0, on_unknown="hold", **connection):
        connect(server.url, **{"max_retries": 0, "timeout": 0.3} | connection)
        task = KnowledgeBotCreateTextSourceOperator(
            task_id="add",
            name="Hours",
            collections="col_1",
            content="We open at nine.",
            on_unknown=on_unknown,
        )
        instance = SimpleNamespace(max_tries=2 + cleared)
        return task.execute({"task_state_store": store, "ti": instance})

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


def test_a_retry_after_the_answer_returns_it_and_sends_nothing(attempt, scripted):
    server = scripted(GOOD)
    first = attempt(server)
    assert attempt(server) == first
    assert len(server.requests) == 1


def test_a_retry_that_may_not_send_again_says_what_was_sent_and_when(attempt, scripted):
    server = scripted(silence)
    killed_in_the_middle(attempt, server)
    result = r"\(name 'Hours', sent at 2\d{3}-\d\d-\d\d \d\d:\d\d:\d\d\+00:00\)"
    for _ in range(2):  # a third try says the same
        with pytest.raises(AirflowFailException, match=result):
            attempt(server)


def test_a_cleared_task_starts_anew(attempt, scripted):
    server = scripted(GOOD)
    attempt(server)
    attempt(server, cleared=1)
    assert len(server.requests) == 2


def test_a_retry_that_finds_only_the_intent_fails_and_sends_nothing(attempt, scripted):
    server = scripted(silence, GOOD)
    killed_in_the_middle(attempt, server)
    for _ in range(2):
        with pytest.raises(AirflowFailException, match="service may have acted"):
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


def test_resend_sends_again_what_may_have_arrived(attempt, scripted):
    server = scripted(silence, GOOD)
    with pytest.raises(RequestTimeoutError):
        attempt(server, on_unknown="resend")
    attempt(server, on_unknown="resend")
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


def test_an_unknown_choice_is_refused_when_the_dag_is_parsed():
    with pytest.raises(ValueError, match="'hold' or 'resend'"):
        KnowledgeBotCreateTextSourceOperator(
            task_id="add", name="n", content="c", on_unknown="again"
        )
