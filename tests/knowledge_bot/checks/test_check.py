"""Checks over a real socket: what is asked, how often, and what is reported."""

import asyncio
import gc
import itertools
import signal
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calls import KEY
from knowledge_bot import AsyncClient, Client, ConfigurationError, Delivery
from knowledge_bot.checks import CheckStop, Question, acheck, check
from knowledge_bot.testing import MemoryService
from refusals import refused
from scripted_server import answer, close, silence
from waiting import until, until_awaited

OPEN = Question(ask="When do you open?", contains="9:30")
LEADS = Question(ask="Who leads it?", contains="Mia")
WHY = Question(ask="Why?", refuses=True)

FAST = {"max_retries": 0, "timeout": 5.0}


@pytest.fixture(params=["check", "acheck"])
def run(request):
    """`run(bots, bot, questions, …)`: either function, with a client of its own."""

    def blocking(bots, bot, questions, **how):
        with Client(KEY, bots.url, **FAST) as client:
            return check(client, bot, questions, **how)

    def awaiting(bots, bot, questions, **how):
        async def main():
            async with AsyncClient(KEY, bots.url, **FAST) as client:
                return await acheck(client, bot, questions, **how)

        return asyncio.run(main())

    return blocking if request.param == "check" else awaiting


def assert_an_interval_apart(times, began, interval):
    # A message may be late on its way, so the time between two arrivals says nothing.
    assert all(at - began >= number * interval for number, at in enumerate(times))


def verdicts(report):
    return [str(one.verdict) for one in report.results]


def test_each_question_is_asked_once_in_a_conversation_of_its_own(run, serve):
    bots = serve(bot_1={OPEN.ask: "At 9:30.", LEADS.ask: "Max.", WHY.ask: "I do not know."})
    report = run(bots, "bot_1", [OPEN, LEADS, WHY])
    assert verdicts(report) == ["passed", "failed", "passed"]
    assert (report.passed, report.failed, report.ok, report.stopped) == (2, 1, False, None)
    assert report.results[1].reason == 'The answer does not contain "Mia".'
    assert [one.attempts for one in report.results] == [1, 1, 1]
    assert report.results[0].answer == "At 9:30."
    assert report.results[0].message_id.startswith("msg_")
    assert len(bots.asked) == 3
    assert not any("conversation_id" in body for body in bots.bodies)


def test_a_share_may_be_enough(run, serve):
    bots = serve(bot_1={OPEN.ask: "At 9:30.", LEADS.ask: "Max."})
    assert run(bots, "bot_1", [OPEN, LEADS], min_pass=0.5).ok
    assert not run(bots, "bot_1", [OPEN, LEADS], min_pass=0.51).ok


def test_what_becomes_answerable_passes_at_the_next_asking(run, serve):
    began, count, told = time.monotonic(), itertools.count(1), []

    def answers(asked):
        return "At 9:30." if asked != OPEN.ask or next(count) >= 4 else "I do not know."

    bots = serve(bot_1=answers)
    others = [Question(ask=f"Question {number}?", contains="9:30") for number in range(5)]
    report = run(bots, "bot_1", [OPEN, *others], wait=60, interval=0.2, on_progress=told.append)
    assert report.ok
    assert 0 < max(one.pause for one in told) <= 0.2
    assert [one.attempts for one in report.results[1:]] == [1] * 5  # never again
    assert all(len(bots.times(one.ask)) == 1 for one in others)
    assert report.results[0].attempts == len(bots.times(OPEN.ask)) == 4
    assert_an_interval_apart(bots.times(OPEN.ask), began, 0.2)


@settings(max_examples=6)
@given(
    known_after=st.lists(st.floats(0, 0.4), min_size=1, max_size=12),
    concurrency=st.integers(1, 4),
    slow=st.floats(0, 0.02),
)
def test_no_question_is_asked_twice_in_an_interval_or_after_it_has_passed(
    known_after, concurrency, slow
):
    interval, asked = 0.1, {}
    began = time.monotonic()

    def answers(question):
        asked.setdefault(question, []).append(time.monotonic())
        time.sleep(slow)
        return "yes" if time.monotonic() - began >= known_after[int(question)] else "no"

    service = MemoryService(bots={"bot_1": answers})
    questions = [Question(ask=str(number), contains="yes") for number in range(len(known_after))]
    with Client("key", "https://service.test", transport=service.transport) as client:
        report = check(
            client, "bot_1", questions, wait=3, interval=interval, concurrency=concurrency
        )
    assert report.ok
    assert [len(asked[str(number)]) for number in range(len(questions))] == [
        one.attempts for one in report.results
    ]
    for times in asked.values():
        assert_an_interval_apart(times, began, interval)


def test_it_ends_when_the_time_is_up(run, serve):
    bots = serve(bot_1={OPEN.ask: "I do not know."})
    report = run(bots, "bot_1", [OPEN], wait=0.5, interval=0.2)
    assert verdicts(report) == ["failed"]
    assert 1 <= report.results[0].attempts <= 3  # at 0, 0.2 and 0.4 seconds
    began = time.monotonic()
    report = run(bots, "bot_1", [OPEN], wait=0.5, interval=30)
    # At 0 seconds, and once more at the end.
    assert (verdicts(report), report.results[0].attempts) == (["failed"], 2)
    assert time.monotonic() - began < 20


def test_a_service_that_is_away_is_reported(run, serve):
    bots = serve(bot_1={})
    bots.server.stop()
    report = run(bots, "bot_1", [OPEN, LEADS])
    assert verdicts(report) == ["unanswered", "unanswered"]
    assert report.results[0].error.delivery is Delivery.NOT_DELIVERED
    assert (report.ok, report.stopped) == (False, None)


@pytest.mark.parametrize(
    ("reply", "delivery"),
    [
        *((close, Delivery.UNKNOWN), (silence, Delivery.UNKNOWN)),
        *((answer(500), Delivery.UNKNOWN), (answer(200, b"junk"), Delivery.UNKNOWN)),
        *((answer(429), Delivery.REFUSED), (answer(409), Delivery.REFUSED)),
    ],
)
def test_a_lost_answer_has_not_passed_and_is_asked_again_where_there_is_time(
    serve, reply, delivery
):
    replies = iter([reply])
    bots = serve(bot_1=lambda asked: next(replies, "At 9:30."))
    with Client(KEY, bots.url, max_retries=0, timeout=0.5) as client:
        report = check(client, "bot_1", [OPEN])
        assert verdicts(report) == ["unanswered"]
        assert report.results[0].error.delivery is delivery
        replies = iter([reply])
        report = check(client, "bot_1", [OPEN], wait=20, interval=0.2)
    assert (verdicts(report), report.results[0].attempts) == (["passed"], 2)
    assert report.results[0].reason == ""


def test_a_question_that_is_refused_is_not_asked_again(run, serve):
    bots = serve(bot_1=lambda asked: answer(400, {"message": "too long"}))
    report = run(bots, "bot_1", [OPEN, LEADS], wait=5, interval=0.1)
    assert verdicts(report) == ["unanswered", "unanswered"]
    assert "too long" in report.results[0].reason
    assert (report.stopped, len(bots.asked)) == (None, 2)
    assert bots.listed == 1


def test_a_bot_that_is_not_there_ends_it_and_is_named_beside_those_that_are(run, serve):
    bots = serve(bot_guide={}, bot_shop={})
    many = [Question(ask=f"{number}?", contains="x") for number in range(50)]
    report = run(bots, "bot_gone", many, wait=60, concurrency=1)  # others go on meanwhile
    assert report.stopped is CheckStop.BOT
    assert "bot_gone" in report.stop_reason
    assert "bot_guide, bot_shop" in report.stop_reason
    assert len(bots.asked) == 1
    assert verdicts(report).count("unasked") == 49
    assert not report.ok


def test_no_more_messages_are_sent_than_were_allowed(run, serve):
    bots = serve(bot_1=lambda asked: "At ten.")
    many = [Question(ask=f"{number}?", contains="9:30") for number in range(4)]
    report = run(bots, "bot_1", many, wait=60, interval=0.1, messages=10, concurrency=2)
    assert (report.stopped, len(bots.asked), report.ok) == (CheckStop.MESSAGES, 10, False)
    assert verdicts(report) == ["failed"] * 4
    report = run(bots, "bot_1", many, messages=3)
    assert (len(bots.asked), verdicts(report).count("unasked")) == (13, 1)
    report = run(bots, "bot_1", many, messages=4)
    assert (report.stopped, len(bots.asked)) == (None, 17)


@pytest.mark.parametrize(
    ("status", "stop"),
    [(401, CheckStop.AUTHENTICATION), (403, CheckStop.AUTHENTICATION), (402, CheckStop.PAYMENT)],
)
def test_what_every_question_would_meet_ends_it(run, serve, status, stop):
    count = itertools.count()
    bots = serve(
        bot_1=lambda asked: answer(status, {"message": "no"}) if next(count) > 1 else "At 9:30."
    )
    many = [Question(ask=f"{number}?", contains="9:30") for number in range(20)]
    report = run(bots, "bot_1", many, concurrency=1, wait=60)
    assert (report.stopped, report.passed, report.ok) == (stop, 2, False)
    assert str(status) in report.stop_reason
    assert verdicts(report) == ["passed"] * 2 + ["unanswered"] + ["unasked"] * 17


def test_an_end_for_all_is_not_waited_for_by_those_that_wait(run, serve):
    def answers(asked):
        if asked == OPEN.ask:
            return "Later."
        time.sleep(0.2)
        return answer(402, {"message": "used up"})

    bots = serve(bot_1=answers)
    began = time.monotonic()
    report = run(bots, "bot_1", [OPEN, LEADS], wait=60, interval=30)
    assert (report.stopped, verdicts(report)) == (CheckStop.PAYMENT, ["failed", "unanswered"])
    assert time.monotonic() - began < 20


def test_several_bots_are_asked_the_same(run, serve):
    bots = serve(bot_a={OPEN.ask: "At 9:30."}, bot_b={OPEN.ask: "At ten."})
    report = run(bots, ["bot_a", "bot_b"], [OPEN])
    assert [(one.bot_id, str(one.verdict)) for one in report.results] == [
        ("bot_a", "passed"),
        ("bot_b", "failed"),
    ]
    assert [one.id for one in report.results] == [f"bot_a/{OPEN.id}", f"bot_b/{OPEN.id}"]


def test_what_passed_before_is_not_asked_again(run, serve):
    bots = serve(bot_1={OPEN.ask: "At 9:30.", LEADS.ask: "Max."})
    first = run(bots, "bot_1", [OPEN, LEADS])
    passed = [one.id for one in first.results if one.passed]
    second = run(bots, "bot_1", [OPEN, LEADS], passed_before=passed)
    assert verdicts(second) == ["passed", "failed"]
    assert [one.attempts for one in second.results] == [0, 1]
    assert len(bots.times(OPEN.ask)) == 1
    assert run(bots, "bot_1", [OPEN], passed_before=passed).ok


def test_it_reports_each_attempt_and_how_far_it_is(run, serve):
    count = itertools.count()
    bots = serve(bot_1=lambda asked: "At 9:30." if next(count) else "Later.")
    results, progress = [], []
    run(
        bots,
        "bot_1",
        [OPEN],
        wait=5,
        interval=0.3,
        on_result=results.append,
        on_progress=progress.append,
    )
    assert [(str(one.verdict), one.attempts) for one in results] == [("failed", 1), ("passed", 2)]
    assert (progress[0].total, progress[0].passed, progress[0].open) == (1, 0, 1)
    assert any(0 < one.pause <= 0.3 for one in progress)
    assert (progress[-1].passed, progress[-1].open, progress[-1].asked) == (1, 0, 2)


def test_what_a_callback_raises_is_raised(run, serve):
    bots = serve(bot_1=lambda asked: "At ten.")

    def on_result(result):
        raise LookupError("of the caller")

    with pytest.raises(LookupError, match="of the caller"):
        run(bots, "bot_1", [OPEN, LEADS, WHY], wait=60, on_result=on_result)


def test_an_event_ends_it_with_what_is_known(run, serve):
    stop = threading.Event()
    bots = serve(bot_1={OPEN.ask: "At 9:30.", LEADS.ask: "Max."})
    timer = threading.Timer(0.3, stop.set)
    timer.start()
    began = time.monotonic()
    report = run(bots, "bot_1", [OPEN, LEADS], wait=60, interval=30, stop=stop)
    assert time.monotonic() - began < 20
    assert (report.stopped, verdicts(report)) == (CheckStop.REQUESTED, ["passed", "failed"])


def test_an_answer_that_does_not_come_holds_up_no_end(run, serve, monkeypatch):
    monkeypatch.setattr("knowledge_bot.checks._run._GRACE", 0.3)
    stop = threading.Event()
    bots = serve(bot_1=lambda asked: silence if asked == OPEN.ask else "Mia.")
    threading.Timer(0.3, stop.set).start()
    began = time.monotonic()
    report = run(bots, "bot_1", [OPEN, LEADS], stop=stop)
    assert time.monotonic() - began < 20
    assert verdicts(report) == ["unanswered", "passed"]
    assert report.results[0].attempts == 1


def test_a_cancelled_check_ends_at_once(serve):
    bots = serve(bot_1=lambda asked: "Later.")

    async def main():
        async with AsyncClient(KEY, bots.url, **FAST) as client:
            running = asyncio.create_task(acheck(client, "bot_1", [OPEN], wait=60))
            assert await until_awaited(lambda: bots.asked)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


def test_ctrl_c_ends_it_with_what_is_known(serve, tmp_path):
    bots = serve(bot_1={OPEN.ask: "At 9:30.", LEADS.ask: "Max."})
    program = f"""
from knowledge_bot import Client
from knowledge_bot.checks import Question, check

with Client({KEY!r}, {bots.url!r}) as client:
    print("asking", flush=True)
    report = check(client, "bot_1", [
        Question(ask={OPEN.ask!r}, contains="9:30"), Question(ask={LEADS.ask!r}, contains="Mia")
    ], wait=600, interval=300)
    print(report.passed, report.failed, report.stopped)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert until(lambda: len(bots.asked) == 2)
        time.sleep(0.3)
        running.send_signal(signal.SIGINT)
        stdout, stderr = running.communicate(timeout=20)
    assert (running.returncode, stderr) == (0, "")
    assert stdout == "asking\n1 1 requested\n"


def test_many_questions_leave_nothing_behind(serve):
    bots = serve(bot_1=lambda asked: "At 9:30.")
    many = [Question(ask=f"{number}?", contains="9:30") for number in range(300)]
    with Client(KEY, bots.url, **FAST) as client:
        check(client, "bot_1", many[:20], concurrency=8)
        gc.collect()
        threads = threading.active_count()
        report = check(client, "bot_1", many, concurrency=8)
    assert report.ok
    # The service runs in this process too, and its threads end once they see that their
    # connections were closed.
    assert until(lambda: threading.active_count() <= threads)


def test_it_runs_while_an_event_loop_does(serve, client_of):
    bots = serve(bot_1={OPEN.ask: "At 9:30."})

    async def main():
        return check(client_of(bots), "bot_1", [OPEN])

    assert asyncio.run(main()).ok


def test_an_expression_that_never_ends_does_not_hold_up_the_others(run, serve, monkeypatch):
    monkeypatch.setattr("knowledge_bot.checks._questions._SECONDS_TO_MATCH", 0.5)
    endless = Question(ask="Endless?", matches=r"(?:a{1,500}){1,500}b")
    others = [Question(ask=f"{number}?", contains="a") for number in range(20)]
    bots = serve(bot_1=lambda asked: "a" * 3000)
    settled = {}
    began = time.monotonic()
    report = run(
        bots,
        "bot_1",
        [endless, *others],
        concurrency=2,
        on_result=lambda one: settled.setdefault(one.question.ask, time.monotonic() - began),
    )
    assert verdicts(report) == ["failed"] + ["passed"] * 20
    assert "0.5 s" in report.results[0].reason
    assert max(settled[one.ask] for one in others) < settled["Endless?"]


def test_a_long_answer_is_judged_whole_and_kept_in_part(run, serve):
    bots = serve(bot_1={OPEN.ask: "x" * 100_000 + " 9:30"})
    (result,) = run(bots, "bot_1", [OPEN]).results
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
    bots = serve(bot_1={})
    how = {"bot_id": "bot_1", "questions": [OPEN], **wrong}
    with refused(*wrong):
        run(bots, how.pop("bot_id"), how.pop("questions"), **how)
    assert bots.server.requests == []


def test_a_client_that_cannot_ask_is_refused(serve, client_of):
    bots = serve(bot_1={})
    with Client(None, bots.url) as client, refused("api_key"):
        check(client, "bot_1", [OPEN])
    with pytest.raises(ConfigurationError, match="closed"):
        check(client, "bot_1", [OPEN])
    with pytest.raises(ConfigurationError, match="AsyncClient"):
        asyncio.run(acheck(client_of(bots), "bot_1", [OPEN]))
    with pytest.raises(ConfigurationError, match="AsyncClient"):
        check(AsyncClient(KEY, bots.url), "bot_1", [OPEN])


# A service that asks for time ---------------------------------------------------------------------


def test_a_busy_service_is_asked_once_an_interval_and_not_before_it_says(serve, client_of):
    bots = serve(bot_1=lambda asked: answer(429, headers={"Retry-After": "1"}))
    began = time.monotonic()
    with client_of(bots, max_retries=2) as client:
        report = check(client, "bot_1", [OPEN], wait=2.5, interval=0.4)
    times = bots.times(OPEN.ask)
    assert len(times) <= 3
    assert all(after - before > 0.9 for before, after in itertools.pairwise(times))
    assert report.results[0].attempts == len(times)
    assert time.monotonic() - began < 20


def test_a_pause_that_is_longer_than_the_wait_ends_it(serve, client_of):
    bots = serve(bot_1=lambda asked: answer(503, headers={"Retry-After": "30"}))
    began = time.monotonic()
    with client_of(bots, max_retries=2) as client:
        report = check(client, "bot_1", [OPEN], wait=0.5, interval=0.2)
    assert (len(bots.asked), report.ok) == (1, False)
    assert time.monotonic() - began < 20


def test_without_a_wait_the_client_s_own_retries_are_made(serve, client_of):
    replies = iter([answer(429, headers={"Retry-After": "0.1"}), "At 9:30."])
    bots = serve(bot_1=lambda asked: next(replies))
    with client_of(bots, max_retries=2) as client:
        assert check(client, "bot_1", [OPEN]).ok
    assert len(bots.asked) == 2
