"""One request for each task instance, whatever happens to its tries."""

import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from uuid import UUID

import airflow.sdk
import pytest

from airflow_knowledge_bot._compat import AirflowException, AirflowFailException
from airflow_knowledge_bot.operators import KnowledgeBotSendMessageOperator
from answering_bot import StateStore
from calls import KEY
from knowledge_bot import KnowledgeBotError, RateLimitError
from knowledge_bot.testing import MemoryService


class Killed(BaseException):
    """The end of a worker in the middle of a request."""


@pytest.fixture
def service(connect):
    """A service whose bot kills the worker that asks it while `kills` says so."""

    def answer(question):
        if service.kills > 0:
            service.kills -= 1
            raise Killed
        return "At nine."

    service = MemoryService(bots={"bot_guide": answer})
    service.kills = 0
    connect("https://service.test", max_retries=0)
    with service.standing_in():
        yield service


@pytest.fixture
def keyed(service):
    """The same service, which takes keys of idempotency."""
    service.extensions, service.announcement = {"idempotency"}, "idempotency=1;lifetime=604800"
    return service


@pytest.fixture
def attempt(service):
    """`attempt(…)`: one try of the task; all of them share the store."""

    def run(*contents, cleared=0, on_unknown="hold", retries=2, run_cleared=0):
        run.tries += 1
        counted = {"max_tries": 2 + cleared, "try_number": run.tries}
        instance = SimpleNamespace(task_id="ask", map_index=-1, **counted)
        instance.task = SimpleNamespace(retries=retries)
        dag_run = SimpleNamespace(clear_number=run_cleared, start_date=None)
        context = {"ti": instance, "dag_run": dag_run, **run.context}
        for content in contents or ("When do you open?",):
            task = KnowledgeBotSendMessageOperator(
                task_id="ask", bot_id="bot_guide", content=content, on_unknown=on_unknown
            )
            answer = task.execute(context)
        return answer

    run.tries, run.store = 0, StateStore()
    run.context = {"task_state_store": run.store}
    return run


def killed_in_the_middle(attempt, service):
    service.kills = 1
    with pytest.raises(Killed):
        attempt()


def keys(service):
    return [request.headers["idempotency-key"] for request in service.requests]


def test_a_retry_that_may_not_send_again_says_what_was_sent_and_when(attempt, service):
    killed_in_the_middle(attempt, service)
    said = r"\(content 'When do you open\?', sent at 2\d{3}-\d\d-\d\d \d\d:\d\d:\d\d\+00:00\)"
    for _ in range(2):  # a third try says the same
        with pytest.raises(AirflowFailException, match=said):
            attempt()
    assert len(service.requests) == 1


def test_a_person_who_was_warned_and_clears_the_task_sends_it(attempt, service):
    killed_in_the_middle(attempt, service)
    # Cleared while it ran: nobody was warned yet.
    with pytest.raises(AirflowFailException, match="clear the task"):
        attempt(cleared=1)
    assert len(service.requests) == 1
    attempt(cleared=2)
    assert len(service.requests) == 2


def test_an_unknown_outcome_is_not_sent_again_until_a_person_clears_the_task(attempt, service):
    service.time_out_next()
    for _ in range(2):
        with pytest.raises(AirflowFailException, match="clear the task"):
            attempt()
    assert len(service.requests) == 1
    attempt(cleared=1)
    assert len(service.requests) == 2


def test_a_definite_refusal_leaves_no_intent(attempt, service):
    service.fail_next(429)
    service.fail_next(402)
    with pytest.raises(RateLimitError):
        attempt()
    with pytest.raises(AirflowFailException):
        attempt()
    assert not [one for one in attempt.store.values() if "state" in one]
    attempt()


class Away(StateStore):
    """Airflow's store, which is away from the `n`-th write on."""

    def __init__(self, n):
        super().__init__()
        self.n = n

    def set(self, key, value, **how):
        if self.writes >= self.n:
            raise RuntimeError("API_SERVER_ERROR: 503")
        super().set(key, value, **how)


def test_what_came_of_a_request_is_handed_on_where_the_store_is_away_by_then(attempt, service):
    attempt.context["task_state_store"] = store = Away(2)
    assert attempt()["answer"] == "At nine."
    store.n = 99
    # Airflow may fail a task that has succeeded; its retry does not know that.
    with pytest.raises(AirflowFailException, match="clear the task"):
        attempt()
    assert len(service.requests) == 1


@pytest.mark.parametrize("writes", [0, 1])
def test_nothing_is_sent_where_the_store_is_away_before(attempt, service, writes):
    attempt.context["task_state_store"] = Away(writes)
    with pytest.raises(RuntimeError):
        attempt()
    assert not service.requests


def test_an_intent_holds_neither_key_nor_a_long_content(attempt, service):
    service.kills = 1
    with pytest.raises(Killed):
        attempt(f"When do you open, {'please, ' * 20} and the secret is nine?")
    assert KEY not in str(attempt.store)
    assert "secret" not in str(attempt.store)


def asked(service):
    return [request.value["content"] for request in service.requests]


def test_each_of_several_requests_of_a_task_is_sent_once_over_all_tries(attempt, service):
    several = ("When do you open?", "Who leads it?", "When do you open?")
    attempt(*several)
    attempt(*several)  # as after a failure further on
    assert asked(service) == list(several)


def test_a_killed_try_s_open_request_is_reported_before_another_one_is_sent(attempt, service):
    service.kills = 1
    with pytest.raises(Killed):
        attempt("It is 02:00. What is due?")
    for _ in range(2):
        with pytest.raises(AirflowFailException, match="It is 02:00"):
            attempt("It is 02:05. What is due?")
    attempt("It is 02:05. What is due?", cleared=1)
    assert len(asked(service)) == 2


def test_an_open_request_is_sent_beside_another_one_where_the_author_resends(attempt, service):
    killed_in_the_middle(attempt, service)
    attempt("When do you close?", on_unknown="resend")
    assert len(asked(service)) == 2


@pytest.mark.parametrize(
    ("counted", "sent"),
    [
        ({}, 1),  # a retry
        ({"cleared": 1}, 2),
        ({"retries": 1}, 1),  # a retry after its DAG's file was edited
        ({"run_cleared": 1}, 1),  # a retry while another task was cleared
        ({"retries": 1, "run_cleared": 1}, 2),  # cleared, with the retries lowered: max_tries stays
        ({"retries": 0, "cleared": 1, "run_cleared": 1}, 2),
    ],
)
def test_cleared_is_what_airflow_s_own_counters_say(attempt, service, counted, sent):
    attempt()
    attempt(**counted)
    assert len(asked(service)) == sent


def test_an_intent_never_expires_before_it_is_settled(attempt, service):
    never = getattr(airflow.sdk, "NEVER_EXPIRE", timedelta.max)
    killed_in_the_middle(attempt, service)
    (open_one,) = [key for key, one in attempt.store.items() if "state" in one]
    assert attempt.store.retentions[open_one] is never
    with pytest.raises(AirflowFailException):
        attempt()
    assert attempt.store.retentions[open_one] is never
    attempt(cleared=1)
    assert attempt.store.retentions[open_one] is None


# With idempotency ---------------------------------------------------------------------------------


def age(attempt, by):
    """Make the key of the stored intent older."""
    (intent,) = [one for one in attempt.store.values() if "key" in one]
    born = int(intent["key"].replace("-", "")[:12], 16) - int(by.total_seconds() * 1000)
    intent["key"] = str(UUID(f"{born:012x}{intent['key'].replace('-', '')[12:]}"))


def test_a_retry_of_a_killed_try_sends_the_same_key_and_is_green(attempt, keyed):
    killed_in_the_middle(attempt, keyed)
    assert attempt()["answer"] == "At nine."
    first, second = keys(keyed)
    assert first == second
    assert UUID(first).version == 7
    attempt()  # finds the answer
    attempt(cleared=1)
    assert len(set(keys(keyed))) == 2
    assert len(keyed.requests) == 3


def test_an_unknown_outcome_is_left_to_the_next_try_which_sends_the_same_key(attempt, keyed):
    keyed.time_out_next(acts=True)
    keyed.fail_next(500)
    for _ in range(2):
        with pytest.raises(AirflowException) as caught:
            attempt()
        assert not isinstance(caught.value, AirflowFailException)
    attempt()
    assert len(set(keys(keyed))) == 1
    assert len(keyed.conversations) == 1


def test_an_unknown_outcome_that_only_a_person_can_change_ends_the_tries(attempt, keyed):
    keyed.fail_next(501)
    with pytest.raises(AirflowFailException, match="501"):
        attempt()
    attempt(cleared=1)
    assert len(set(keys(keyed))) == 1  # it may have arrived all the same


@pytest.mark.parametrize("status", [401, 409, 429, 503])
def test_a_refusal_after_a_killed_try_does_not_forget_the_key(attempt, keyed, status):
    killed_in_the_middle(attempt, keyed)
    keyed.fail_next(status, code="idempotency_key_in_use" if status == 409 else "no")
    with pytest.raises((AirflowException, KnowledgeBotError)):
        attempt()
    attempt(cleared=status == 401)
    assert len(set(keys(keyed))) == 1


def test_a_task_that_is_cleared_while_its_request_is_open_finishes_that_one(attempt, keyed):
    killed_in_the_middle(attempt, keyed)
    attempt(cleared=1)
    assert len(set(keys(keyed))) == 1


def test_a_retry_that_would_send_something_else_fails_and_is_sent_once_cleared(attempt, keyed):
    keyed.lose_next_answer()
    with pytest.raises(AirflowException):
        attempt()
    with pytest.raises(AirflowFailException, match=r"'When do you open\?', sent at"):
        attempt("When do you close?")
    attempt("When do you close?", cleared=1)
    assert len(set(keys(keyed))) == 2


@pytest.mark.parametrize("on_unknown", ["hold", "resend"])
def test_past_its_lifetime_a_key_says_nothing(attempt, keyed, on_unknown):
    keyed.announcement = "idempotency=1;lifetime=3600"
    killed_in_the_middle(attempt, keyed)
    age(attempt, timedelta(hours=1))
    if on_unknown == "hold":
        with pytest.raises(AirflowFailException):
            attempt()
        assert len(keyed.requests) == 1
        attempt(cleared=1)
    else:
        attempt(on_unknown="resend")
    first, second = keys(keyed)
    assert first != second


def test_a_service_that_takes_keys_no_more_is_held_as_before(attempt, keyed):
    killed_in_the_middle(attempt, keyed)
    keyed.extensions, keyed.announcement = frozenset(), ""
    with pytest.raises(AirflowFailException):
        attempt()


def without_store(run_id="r", start=None):
    start = start or datetime.now(UTC) - timedelta(minutes=3)
    return {"dag_run": SimpleNamespace(dag_id="d", run_id=run_id, start_date=start)}


def test_without_a_store_each_try_makes_the_same_key_until_the_task_is_cleared(attempt, keyed):
    attempt.context = without_store()
    keyed.time_out_next()
    with pytest.raises(AirflowException):
        attempt()
    attempt()
    attempt(cleared=1)
    attempt.context = without_store("of the next night")
    attempt()
    first, second, cleared, other = keys(keyed)
    assert first == second
    assert len({first, cleared, other}) == 3
    key = UUID(first)
    assert (key.version, key.variant) == (7, "specified in RFC 4122")
    assert time.time() - (key.int >> 80) / 1000 == pytest.approx(180, abs=60)


def test_without_a_store_a_run_older_than_the_lifetime_has_no_such_key(attempt, keyed):
    attempt.context = without_store(start=datetime.now(UTC) - timedelta(days=8))
    keyed.time_out_next()
    with pytest.raises(AirflowFailException):
        attempt()
    attempt()
    first, second = keys(keyed)  # the client's own, one for each call
    assert first != second
