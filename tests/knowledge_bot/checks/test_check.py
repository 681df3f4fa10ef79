"""Checks: what is asked, how often, and what is reported."""

import asyncio
import signal
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_bot import AsyncClient, Client, ConfigurationError, Delivery
from knowledge_bot._extensions import new_key
from knowledge_bot.checks import CheckStop, Question, acheck, check
from knowledge_bot.testing import no_waiting
from refusals import refused
from served import served
from waiting import until_awaited

OPEN = Question(ask="When do you open?", contains="9:30")
LEADS = Question(ask="Who leads it?", contains="Mia")
WHY = Question(ask="Why?", refuses=True)
BOTH = {OPEN.ask: "At 9:30.", LEADS.ask: "Max."}

URL = "https://service.test"


def assert_an_interval_apart(times, began, interval):
    # A message may be late on its way, so the time between two arrivals says nothing.
    assert all(at - began >= number * interval for number, at in enumerate(times))


def verdicts(report):
    return [str(one.verdict) for one in report.results]


def test_each_question_is_asked_once_in_a_conversation_of_its_own(run, serve):
    service = serve(bot_1={**BOTH, WHY.ask: "I do not know."})
    report = run(service, "bot_1", [OPEN, LEADS, WHY])
    assert verdicts(report) == ["passed", "failed", "passed"]
    assert (report.passed, report.failed, report.ok, report.stopped) == (2, 1, False, None)
    assert report.results[1].reason == 'The answer does not contain "Mia".'
    assert [one.attempts for one in report.results] == [1, 1, 1]
    assert report.results[0].answer == "At 9:30."
    assert report.results[0].message_id.startswith("msg_")
    assert len(service.conversations) == 3


def test_what_a_question_comes_after_is_asked_before_it_in_its_conversation(run, serve):
    service = serve(bot_1={**BOTH, WHY.ask: "I do not know."})
    later = Question(ask=WHY.ask, after=[OPEN.ask, LEADS.ask], refuses=True)
    report = run(service, "bot_1", [later, OPEN], messages=4, concurrency=1)
    assert verdicts(report) == ["passed", "passed"]
    assert [asked for _, asked in service.asked] == [OPEN.ask, LEADS.ask, WHY.ask, OPEN.ask]
    assert len(service.conversations) == 2
    # Where too few messages are left for one question, the others are asked.
    report = run(service, "bot_1", [OPEN, later, LEADS], messages=3, concurrency=1)
    assert verdicts(report) == ["passed", "unasked", "failed"]
    assert report.stopped is CheckStop.MESSAGES


def test_a_check_that_is_made_again_with_its_key_gets_the_same_answers(run, serve):
    service = serve(bot_1=BOTH, extensions={"idempotency"})
    later = Question(ask=LEADS.ask, after=OPEN.ask, contains="Max")
    key = new_key()
    for _ in range(2):
        assert run(service, "bot_1", [OPEN, later], key=key).ok
    assert (len(service.asked), len(service.conversations)) == (3, 2)


def test_a_service_that_ignores_keys_is_asked_without_them(run, serve):
    service = serve(bot_1=BOTH)
    service.announcement = "idempotency=1;lifetime=604800"
    leads = Question(ask=LEADS.ask, contains="Max")
    assert run(service, "bot_1", [OPEN, leads], key=new_key(), concurrency=1).ok


def test_a_share_may_be_enough(run, serve):
    service = serve(bot_1=BOTH)
    assert run(service, "bot_1", [OPEN, LEADS], min_pass=0.5).ok
    assert not run(service, "bot_1", [OPEN, LEADS], min_pass=0.51).ok


def test_what_becomes_answerable_passes_at_the_next_asking(run, serve):
    began, told, results = time.monotonic(), [], []
    others = [Question(ask=f"Question {number}?", contains="9:30") for number in range(5)]
    later = ["I do not know.", "I do not know.", "At 9:30."]
    service = serve(bot_1={OPEN.ask: later, **{one.ask: "At 9:30." for one in others}})
    report = run(
        service,
        "bot_1",
        [OPEN, *others],
        wait=60,
        interval=0.1,
        on_progress=told.append,
        on_result=results.append,
    )
    assert report.ok
    assert [one.attempts for one in report.results] == [3, 1, 1, 1, 1, 1]  # never again
    assert len(service.times(OPEN.ask)) == 3
    assert_an_interval_apart(service.times(OPEN.ask), began, 0.1)
    assert [str(one.verdict) for one in results if one.question == OPEN] == [
        *("failed", "failed", "passed")
    ]
    assert (told[0].total, told[0].passed, told[0].open) == (6, 0, 6)
    assert 0 < max(one.pause for one in told) <= 0.1
    assert (told[-1].passed, told[-1].open, told[-1].asked) == (6, 0, 8)


@settings(max_examples=4)
@given(
    known_after=st.lists(st.floats(0, 0.25), min_size=1, max_size=12),
    concurrency=st.integers(1, 4),
)
def test_no_question_is_asked_twice_in_an_interval_or_after_it_has_passed(
    serve, known_after, concurrency
):
    began = time.monotonic()

    def answers(question):
        return "yes" if time.monotonic() - began >= known_after[int(question)] else "no"

    service = serve(bot_1=answers)
    questions = [Question(ask=str(number), contains="yes") for number in range(len(known_after))]
    with Client("key", URL, transport=service.transport) as client:
        report = check(client, "bot_1", questions, wait=5, interval=0.1, concurrency=concurrency)
    assert report.ok
    for one in report.results:
        assert len(service.times(one.question.ask)) == one.attempts
        assert_an_interval_apart(service.times(one.question.ask), began, 0.1)


@pytest.mark.parametrize(("interval", "attempts"), [(0.1, {1, 2, 3}), (30, {2})])
def test_it_ends_when_the_time_is_up_and_has_asked_at_the_end(run, serve, interval, attempts):
    service = serve(bot_1={OPEN.ask: "I do not know."})
    report = run(service, "bot_1", [OPEN], wait=0.25, interval=interval)
    assert verdicts(report) == ["failed"]
    assert report.results[0].attempts in attempts
    assert report.duration < 20


PASSES_LATER = {
    "a lost answer": (lambda service: service.lose_next_answer(), Delivery.UNKNOWN),
    "a timeout": (lambda service: service.time_out_next(), Delivery.UNKNOWN),
    "a refused connection": (
        lambda service: service.refuse_next_connection(),
        Delivery.NOT_DELIVERED,
    ),
    **{
        str(status): (lambda service, status=status: service.fail_next(status), delivery)
        for status, delivery in (
            *((408, Delivery.REFUSED), (425, Delivery.REFUSED), (429, Delivery.REFUSED)),
            *((500, Delivery.UNKNOWN), (507, Delivery.UNKNOWN)),
        )
    },
}


@pytest.mark.parametrize("fault", PASSES_LATER)
def test_what_may_pass_is_asked_again_where_there_is_time(serve, run, fault):
    let, delivery = PASSES_LATER[fault]
    service = serve(bot_1=BOTH)
    let(service)
    report = run(service, "bot_1", [OPEN])
    assert verdicts(report) == ["unanswered"]
    assert report.results[0].error.delivery is delivery
    let(service)
    report = run(service, "bot_1", [OPEN], wait=20, interval=0.1)
    assert (verdicts(report), report.results[0].attempts) == (["passed"], 2)
    assert (report.results[0].reason, report.results[0].error) == ("", None)


@pytest.mark.parametrize("status", [400, 404, 409, 412, 413, 418, 423, 501, 200, 302])
def test_what_only_a_person_can_change_is_not_asked_again(serve, run, status):
    service = serve(bot_1=BOTH)
    service.answer_next(status, b"<p>no</p>", times=None, where=lambda one: one.path == "/messages")
    report = run(service, "bot_1", [OPEN, LEADS], wait=5, interval=0.1)
    assert verdicts(report) == ["unanswered", "unanswered"]
    assert [one.attempts for one in report.results] == [1, 1]
    assert not any(one.error.may_pass for one in report.results)
    # Whether the bot is there is looked up once, and only where that may be the reason.
    lists = sum(one.path == "/bots" for one in service.requests)
    assert lists == (status in (400, 404))


def test_a_bot_that_is_not_there_ends_it_and_is_named_beside_those_that_are(run, serve):
    service = serve(bot_guide={}, bot_shop={})
    many = [Question(ask=f"{number}?", contains="x") for number in range(50)]
    report = run(service, "bot_gone", many, wait=60, concurrency=1)  # others go on meanwhile
    assert report.stopped is CheckStop.BOT
    assert "bot_gone" in report.stop_reason
    assert "bot_guide, bot_shop" in report.stop_reason
    assert verdicts(report) == ["unanswered"] + ["unasked"] * 49
    assert not report.ok


def test_no_more_messages_are_sent_than_were_allowed(run, serve):
    service = serve(bot_1=lambda asked: "At ten.")
    many = [Question(ask=f"{number}?", contains="9:30") for number in range(4)]
    report = run(service, "bot_1", many, wait=60, interval=0.1, messages=10, concurrency=2)
    assert (report.stopped, len(service.asked), report.ok) == (CheckStop.MESSAGES, 10, False)
    assert verdicts(report) == ["failed"] * 4
    report = run(service, "bot_1", many, messages=3)
    assert (len(service.asked), verdicts(report).count("unasked")) == (13, 1)
    report = run(service, "bot_1", many, messages=4)
    assert (report.stopped, len(service.asked)) == (None, 17)


@pytest.mark.parametrize(
    ("status", "stop"),
    [(401, CheckStop.AUTHENTICATION), (403, CheckStop.AUTHENTICATION), (402, CheckStop.PAYMENT)],
)
def test_what_every_question_would_meet_ends_it_at_once(run, serve, status, stop):
    service = serve(bot_1={OPEN.ask: "Later."})
    service.fail_next(status, where=lambda one: one.value.get("content") == LEADS.ask)
    report = run(service, "bot_1", [OPEN, LEADS, WHY], concurrency=1, wait=60, interval=30)
    assert (report.stopped, report.ok) == (stop, False)
    assert str(status) in report.stop_reason
    assert verdicts(report) == ["failed", "unanswered", "unasked"]
    assert report.duration < 20  # those that wait are not waited for


def test_what_passed_before_is_not_asked_again(run, serve):
    service = serve(bot_1=BOTH)
    first = run(service, "bot_1", [OPEN, LEADS])
    passed = [one.id for one in first.results if one.passed]
    second = run(service, "bot_1", [OPEN, LEADS], passed_before=passed)
    assert verdicts(second) == ["passed", "failed"]
    assert [one.attempts for one in second.results] == [0, 1]
    assert len(service.times(OPEN.ask)) == 1
    assert run(service, "bot_1", [OPEN], passed_before=passed).ok


def test_what_a_callback_raises_is_raised(run, serve):
    def on_result(result):
        raise LookupError("of the caller")

    with pytest.raises(LookupError, match="of the caller"):
        run(serve(bot_1=BOTH), "bot_1", [OPEN, LEADS, WHY], wait=60, on_result=on_result)


def test_an_event_ends_it_with_what_is_known(run, serve):
    stop = threading.Event()

    def seen(result):
        if result.question == LEADS:
            stop.set()

    how = {"wait": 60, "interval": 30, "stop": stop, "on_result": seen, "concurrency": 1}
    report = run(serve(bot_1=BOTH), "bot_1", [OPEN, LEADS], **how)
    assert (report.stopped, verdicts(report)) == (CheckStop.REQUESTED, ["passed", "failed"])
    assert report.duration < 20


def test_a_check_says_that_it_waits_for_who_asks_for_it_and_nothing_is_under_way_then(run, serve):
    service, stop, waits = serve(bot_1=BOTH), threading.Event(), []
    service.fail_next(429, retry_after=60)

    def on_progress(progress):
        if progress.pause:
            waits.append(progress.pause)
            stop.set()

    how = {"on_progress": on_progress, "stop": stop, "client": {"max_retries": 2}}
    report = run(service, "bot_1", [OPEN], **how)
    assert (len(waits), 50 < waits[0] <= 60, len(service.asked)) == (1, True, 0)
    assert report.results[0].error.delivery is Delivery.REFUSED
    assert "may have" not in report.results[0].reason


@pytest.mark.parametrize(("extensions", "tries"), [({"idempotency"}, 2), (set(), 1)])
def test_a_lost_answer_is_fetched_where_that_cannot_ask_twice(run, serve, extensions, tries):
    service = serve(bot_1=BOTH, extensions=extensions)
    service.lose_next_answer()
    with no_waiting():
        report = run(service, "bot_1", [OPEN], client={"max_retries": 2})
    assert (report.results[0].attempts, report.passed) == (tries, tries - 1)
    assert len(service.asked) == 1


def test_an_answer_that_does_not_come_holds_up_no_end(run, serve, monkeypatch):
    monkeypatch.setattr("knowledge_bot.checks._run._GRACE", 0.1)
    stop = threading.Event()
    stop.set()
    service = serve(bot_1=BOTH)
    with service.holding_answers():
        report = run(service, "bot_1", [OPEN], stop=stop, client={"timeout": 1})
    assert verdicts(report) == ["unanswered"]
    assert (report.results[0].attempts, report.stopped) == (1, CheckStop.REQUESTED)


async def test_a_cancelled_check_ends_at_once(serve):
    service = serve(bot_1=lambda asked: "Later.")
    async with AsyncClient("key", URL, transport=service.async_transport) as client:
        before = asyncio.all_tasks()
        running = asyncio.create_task(acheck(client, "bot_1", [OPEN], wait=60))
        assert await until_awaited(lambda: service.asked)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert asyncio.all_tasks() == before


def test_ctrl_c_ends_it_with_what_is_known(serve):
    service = serve(bot_1=BOTH)
    program = """
import sys
from knowledge_bot import Client
from knowledge_bot.checks import Question, check

with Client("key", sys.argv[1]) as client:
    report = check(client, "bot_1", [
        Question(ask="When do you open?", contains="9:30"),
        Question(ask="Who leads it?", contains="Mia"),
    ], wait=600, interval=300, on_result=lambda one: print(one.verdict, flush=True))
    print(report.passed, report.failed, report.stopped)
"""
    with (
        served(service) as url,
        subprocess.Popen(
            [sys.executable, "-c", program, url], stdout=subprocess.PIPE, text=True
        ) as running,
    ):
        told = {running.stdout.readline(), running.stdout.readline()}
        assert told == {"passed\n", "failed\n"}
        running.send_signal(signal.SIGINT)
        assert running.communicate(timeout=20)[0] == "1 1 requested\n"
    assert running.returncode == 0


async def test_it_runs_while_an_event_loop_does(serve):
    with Client("key", URL, transport=serve(bot_1=BOTH).transport) as client:
        assert check(client, "bot_1", [OPEN]).ok


def test_an_expression_that_never_ends_does_not_hold_up_the_others(run, serve, monkeypatch):
    monkeypatch.setattr("knowledge_bot.checks._questions._SECONDS_TO_MATCH", 0.2)
    endless = Question(ask="Endless?", matches=r"(?:a{1,500}){1,500}b")
    others = [Question(ask=f"{number}?", contains="a") for number in range(20)]
    settled = []
    service = serve(bot_1=lambda asked: "a" * 3000)
    report = run(
        service,
        "bot_1",
        [endless, *others],
        concurrency=2,
        on_result=lambda one: settled.append(one.question.ask),
    )
    assert verdicts(report) == ["failed"] + ["passed"] * 20
    assert "0.2 s" in report.results[0].reason
    assert settled[-1] == "Endless?"


def test_a_long_answer_is_judged_whole_and_kept_in_part(run, serve):
    (result,) = run(serve(bot_1={OPEN.ask: "x" * 100_000 + " 9:30"}), "bot_1", [OPEN]).results
    assert result.passed
    assert len(result.answer) == 2000


@pytest.mark.parametrize(
    "wrong",
    [
        *({"questions": one} for one in ([], OPEN, "When?", ["When?"], [OPEN, OPEN])),
        *({"bot_id": one} for one in ("guide", [], None)),
        *({"wait": one} for one in (-1, "10m", float("nan"))),
        *({"concurrency": one} for one in (0, 2.0)),
        *({"min_pass": one} for one in (1.1, True)),
        *({"interval": 0}, {"passed_before": "abc"}, {"on_result": 1}, {"stop": 1}),
    ],
    ids=str,
)
def test_bad_arguments_are_refused_before_anything_is_sent(run, serve, wrong):
    service = serve(bot_1={})
    how = {"bot_id": "bot_1", "questions": [OPEN], **wrong}
    with refused(*wrong):
        run(service, how.pop("bot_id"), how.pop("questions"), **how)
    assert service.requests == []


def test_a_client_that_cannot_ask_is_refused(serve):
    service = serve(bot_1={})
    with Client(None, URL, transport=service.transport) as client, refused("api_key"):
        check(client, "bot_1", [OPEN])
    with pytest.raises(ConfigurationError, match="closed"):
        check(client, "bot_1", [OPEN])
    with pytest.raises(ConfigurationError, match="AsyncClient"):
        asyncio.run(acheck(client, "bot_1", [OPEN]))
    with pytest.raises(ConfigurationError, match="AsyncClient"):
        check(AsyncClient("key", URL, transport=service.async_transport), "bot_1", [OPEN])


# A service that asks for time


def test_a_busy_service_is_not_asked_before_it_says(serve, run):
    service = serve(bot_1=BOTH)
    service.fail_next(429, retry_after=1)
    began = time.monotonic()
    report = run(service, "bot_1", [OPEN], wait=20, interval=0.1, client={"max_retries": 2})
    assert (report.ok, report.results[0].attempts, len(service.requests)) == (True, 2, 2)
    assert time.monotonic() - began >= 1


def test_a_pause_that_is_longer_than_the_wait_ends_it(serve, run):
    service = serve(bot_1=BOTH)
    service.fail_next(503, retry_after=30)
    report = run(service, "bot_1", [OPEN], wait=0.5, interval=0.1, client={"max_retries": 2})
    assert (len(service.requests), report.ok) == (1, False)
    assert report.duration < 20


def test_without_a_wait_the_clients_own_retries_are_made(serve, run):
    service = serve(bot_1=BOTH)
    service.fail_next(429, retry_after=0)
    assert run(service, "bot_1", [OPEN], client={"max_retries": 2}).ok
    assert len(service.requests) == 2
