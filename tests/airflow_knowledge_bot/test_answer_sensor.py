"""The sensor that waits until a bot answers as expected, and how often it asks."""

import time
from collections import Counter

import pytest
from airflow.exceptions import (  # where Airflow 3.1 has them, too
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSensorTimeout,
    AirflowSkipException,
)
from airflow.sdk import DAG

from airflow_knowledge_bot.sensors import KnowledgeBotAnswerSensor
from answering_bot import AWAY, KEYS, ONCE, OPENING, PARKING, RIGHT, StateStore, TaskInstance, where
from calls import KEY

NOT_YET = "I found nothing about this in my sources."


def sensor(**options):
    given = {"bot_id": "bot_guide", "mode": "poke", "poke_interval": 0.1, "timeout": 10} | options
    if "file" not in given:
        given = {"questions": [OPENING, PARKING, KEYS]} | given
    return KnowledgeBotAnswerSensor(task_id="answers", **given)


def poke(instance=None, store=None, **options):
    """Poke once in a process of its own, as a rescheduled sensor does; return if it is done."""
    try:
        rescheduled(instance, store, **options)
    except AirflowRescheduleException:
        return False
    return True


def rescheduled(instance=None, store=None, **options):
    context = {"ti": instance or TaskInstance(), "task_state_store": store}
    return sensor(mode="reschedule", **options).execute(context)


def test_a_poke_asks_only_what_has_not_passed(bot):
    bot.knows[OPENING["ask"]] = NOT_YET
    waiting, store = TaskInstance(), StateStore()
    for _ in range(3):
        assert not poke(waiting, store)
    assert bot.asked == ONCE + Counter({OPENING["ask"]: 2})
    bot.knows.update(RIGHT)
    assert rescheduled(waiting, store)["messages"] == 1
    assert bot.asked == ONCE + Counter({OPENING["ask"]: 3})


def test_within_one_process_it_remembers_without_a_store(bot):
    bot.knows[OPENING["ask"]] = [NOT_YET, NOT_YET, "At nine."]
    sensor().execute({})
    assert bot.asked == ONCE + Counter({OPENING["ask"]: 2})


def test_one_object_starts_anew_in_each_run(bot):
    waiting = sensor()
    waiting.execute({})
    waiting.execute({})
    assert set(bot.asked.values()) == {2}


def test_a_later_try_asks_only_what_has_not_passed_and_a_cleared_one_all(bot):
    bot.fail_next(401, where=where(OPENING))
    store = StateStore()
    with pytest.raises(AirflowFailException, match="401"):
        rescheduled(TaskInstance(), store, concurrency=1, questions=[PARKING, OPENING])
    assert rescheduled(TaskInstance(), store, questions=[PARKING, OPENING])["messages"] == 1
    assert rescheduled(TaskInstance(max_tries=3), store, questions=[PARKING])["messages"] == 1


@pytest.mark.parametrize("does", AWAY.values(), ids=AWAY)
def test_a_service_that_is_away_for_a_while_is_waited_for(bot, does):
    waiting, store = TaskInstance(), StateStore()
    getattr(bot, does)(where=where(OPENING))
    assert not poke(waiting, store)
    assert poke(waiting, store)
    assert bot.asked == ONCE + Counter([OPENING["ask"]])


def test_a_service_that_comes_back_while_it_is_given_up_is_waited_for(bot):
    bot.fail_next(503, times=10)
    bot.bots["bot_guide"] = lambda question: time.sleep(0.5) or "I know."
    many = [{"ask": f"{number}?", "contains": "know"} for number in range(20)]
    assert not poke(questions=many, concurrency=1)
    assert 11 <= len(bot.requests) < 20


def test_a_share_may_be_enough_and_may_come_piece_by_piece(bot):
    store, waiting = StateStore(), TaskInstance()
    bot.knows |= {OPENING["ask"]: NOT_YET, PARKING["ask"]: NOT_YET}
    assert not poke(waiting, store, min_pass=0.6)
    # What passed before counts although it would not pass now.
    bot.knows |= {PARKING["ask"]: "Behind the workshop.", KEYS["ask"]: NOT_YET}
    assert poke(waiting, store, min_pass=0.6)


@pytest.mark.parametrize(
    ("status", "said"),
    [(401, "password of the connection"), (402, "Clear the task"), (403, "password"), (404, "404")],
)
def test_what_waiting_cannot_mend_fails_at_once(bot, status, said):
    bot.fail_next(status, times=None)
    with pytest.raises(AirflowFailException, match=said) as caught:
        sensor(questions=[OPENING]).execute({})
    assert sum(bot.asked.values()) == 1
    assert KEY not in str(caught.value)


def test_a_question_that_is_refused_fails_where_it_is_needed(bot):
    bot.fail_next(400, message="Too long.", times=None, where=where(PARKING))
    with pytest.raises(AirflowFailException, match="Too long"):
        sensor().execute({})
    bot.knows[OPENING["ask"]] = NOT_YET
    assert not poke(min_pass=0.6)


def test_a_wait_that_was_too_long_says_what_is_missing_or_skips(bot):
    bot.knows[OPENING["ask"]] = NOT_YET
    with pytest.raises(AirflowSensorTimeout, match=r'2 of 3 .*"When do you open.*contain "nine"'):
        sensor(timeout=0.3).execute({})
    with pytest.raises(AirflowSkipException):
        sensor(timeout=0.3, soft_fail=True).execute({})


def test_each_poke_tells_in_the_log_what_is_open(bot, caplog):
    bot.knows[OPENING["ask"]] = NOT_YET
    with caplog.at_level("INFO"):
        assert not poke()
    lines = [one.getMessage() for one in caplog.records if "Not yet" in one.getMessage()]
    assert lines == [
        "Not yet: 2 of 3 questions passed, and all must.",
        'Not yet: failed: "When do you open?": The answer does not contain "nine".',
    ]


def test_it_gives_its_slot_back_and_does_not_wait_for_ever_by_default():
    with DAG("defaults"):
        waiting = KnowledgeBotAnswerSensor(task_id="answers", questions=[OPENING])
    assert waiting.reschedule
    assert (waiting.poke_interval, waiting.timeout) == (60, 3600)
