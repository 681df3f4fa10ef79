"""`check` and `acheck`: ask, judge, and ask again what has not passed.

`Schedule` decides which question is due and what an outcome means, without I/O. `Runner` carries it
out in tasks of an event loop, for blocking callers in a loop of its own.
"""

import asyncio
import contextlib
import hashlib
import heapq
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeAlias, TypedDict, TypeVar, Unpack

from knowledge_bot._answers import Answer
from knowledge_bot._client import AsyncClient, Client
from knowledge_bot._endpoints import check_number, identifier
from knowledge_bot._retries import pause_after
from knowledge_bot._signals import Event
from knowledge_bot._threads import in_own_loop, in_thread
from knowledge_bot.checks._bots import NoSuchBotError, check_bot, check_client
from knowledge_bot.checks._questions import Question
from knowledge_bot.checks._report import (
    CheckReport,
    CheckStop,
    OnProgress,
    Progress,
    Result,
    Verdict,
    shortened,
)
from knowledge_bot.errors import (
    APIError,
    BadRequestError,
    ConfigurationError,
    Delivery,
    KnowledgeBotError,
    NotFoundError,
    UnsupportedError,
)
from knowledge_bot.models import Message

# Seconds to wait for answers under way when a check ends early, and between two looks at whether it
# should.
_GRACE = 5.0
_POLL = 0.2

# What every other question would be answered with as well, by its status.
_STOPS = {
    401: CheckStop.AUTHENTICATION,
    402: CheckStop.PAYMENT,
    403: CheckStop.AUTHENTICATION,
}


OnResult = Callable[[Result], object]
"""Called with what came of each attempt, one call at a time, in another thread or in the loop's."""

C = TypeVar("C", Client, AsyncClient)
T = TypeVar("T")

Asking: TypeAlias = Callable[[Result], Awaitable[Answer]]
"""Takes what is known of a question, and awaits the answer."""


class CheckOptions(TypedDict, total=False):
    """How a check runs: the options of `check` and `acheck`.

    Attributes:
        wait: seconds within which questions that have not passed are asked again; 0: each is asked
            once. A service that is away is tried again as well, not before its `Retry-After`; the
            client's own retries apply with `wait=0` only.
        interval: seconds between two attempts at a question, at least. Where `wait` is shorter,
            each is asked at the beginning and at the end of it.
        concurrency: how many messages may be under way.
        min_pass: the share of the questions that has to pass for `CheckReport.ok`, 0 to 1.
        passed_before: ids of results of an earlier check that passed. They are not asked again and
            count as passed, with no attempts.
        on_result: called with what came of each attempt.
        on_progress: called with how far the check is.
        messages: the most messages that are sent in all; questions for which too few of them are
            left are not asked. None: as many as it takes.
        key: an idempotency key from which each message gets its own, where the service takes keys:
            a check that is made again with it, as after a kill, gets the answers of the first one.
        stop: ends the check early when it is set.
    """

    wait: float
    interval: float
    concurrency: int
    min_pass: float
    messages: int | None
    passed_before: Collection[str]
    on_result: OnResult | None
    on_progress: OnProgress | None
    key: str | None
    stop: Event | None


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a check, with their defaults, checked. `CheckOptions` explains them."""

    wait: float = 0.0
    interval: float = 15.0
    concurrency: int = 4
    min_pass: float = 1.0
    messages: int | None = None
    passed_before: Collection[str] = ()
    on_result: OnResult | None = None
    on_progress: OnProgress | None = None
    key: str | None = None
    stop: Event | None = None

    def __post_init__(self) -> None:
        check_number("wait", self.wait, 0)
        check_number("interval", self.interval, 0.1)
        check_number("concurrency", self.concurrency, 1, whole=True)
        check_number("min_pass", self.min_pass, 0, 1)
        if self.messages is not None:
            check_number("messages", self.messages, 1, whole=True)
        if isinstance(self.passed_before, str):
            raise ConfigurationError.of("passed_before", "expected several ids, not a string")
        for name in ("on_result", "on_progress"):
            given = getattr(self, name)
            if given is not None and not callable(given):
                raise ConfigurationError.expected(name, "a function", given)
        if self.stop is not None and not hasattr(self.stop, "is_set"):
            raise ConfigurationError.expected("stop", "an Event", self.stop)


def check(
    client: Client,
    bot_id: str,
    questions: Iterable[Question],
    **options: Unpack[CheckOptions],
) -> CheckReport:
    """Ask a bot questions, each in a new conversation, and judge its answers.

    What a question comes `after` is asked before it, in its conversation.

    It blocks, and may be called from a running event loop's thread. Ctrl-C ends it with what is
    known: the report says so. An error of a single question is a result and not raised; one that
    every other question would meet as well (the key, the account, a bot that is not there) ends the
    check, and the report's `stopped` says which.

    Args:
        client: sends the messages.
        bot_id: the bot that is asked, `bot_…`.
        questions: what is asked, and what is expected; see `load_questions`.
        options: `wait`, `interval` and the others of `CheckOptions`: for their meaning, see
            `help(knowledge_bot.checks.CheckOptions)`.

    Returns:
        What came of each question.

    Raises:
        TypeError: there is no such option. Nothing was sent.
        ConfigurationError: there are no questions, two of them have the same id, or an argument
            cannot be used. Nothing was sent.
        Exception: what a callback raised.
    """
    schedule, client = _prepared(Client, client, bot_id, questions, options)
    with client._run_span("check") as counted:  # noqa: SLF001 - the core's own
        report = _waited_for(Runner(schedule, _asking(client, in_thread, schedule.options.key)))
        counted(Counter(str(one.verdict) for one in report.results))
    return report


async def acheck(
    client: AsyncClient,
    bot_id: str,
    questions: Iterable[Question],
    **options: Unpack[CheckOptions],
) -> CheckReport:
    """Check as `check` does, without blocking.

    Cancelling it, which is also what Ctrl-C does under `asyncio.run`, gives up what is under way
    and raises `CancelledError`; `stop` ends it with a report. Callbacks are called in the event
    loop's thread. Arguments, result and errors are those of `check`.
    """
    schedule, client = _prepared(AsyncClient, client, bot_id, questions, options)
    with client._run_span("check") as counted:  # noqa: SLF001 - the core's own
        asking = _asking(client, lambda function: function(), schedule.options.key)
        report = await Runner(schedule, asking).run()
        counted(Counter(str(one.verdict) for one in report.results))
    return report


def _prepared(
    kind: type[C], client: C, bot_id: str, questions: Iterable[Question], options: CheckOptions
) -> "tuple[Schedule, C]":
    """Return what to do, and with which client."""
    check_client(kind, client, "check takes a Client, acheck an AsyncClient")
    retries = client._configuration.max_retries  # noqa: SLF001 - the core's own, not a user's
    bot = identifier("bot_id", bot_id, "bot_")
    schedule = Schedule(bot, questions, Options(**options), retries)
    client._check("check")  # noqa: SLF001 - as above
    return schedule, client.with_options(max_retries=0)  # the schedule asks again itself


def _asking(client: Client | AsyncClient, call: Any, key: str | None) -> Asking:
    """Return what asks a bot of a service.

    `call` calls a function that uses the client, and awaits what it returns.
    """
    is_looked_up = False
    turn = asyncio.Lock()

    async def send(one: Result, content: str, conversation: str | None, place: int) -> Message:
        given: Any = {"bot_id": one.bot_id, "content": content, "conversation_id": conversation}
        made = _lost_key(one) or (key and _key_of(key, one, place))
        try:
            sent: Message = await call(partial(client.send_message, **given, idempotency_key=made))
        except UnsupportedError:  # by now the service takes none
            sent = await call(partial(client.send_message, **given))
        return sent

    async def send_all(one: Result) -> Message:
        conversation = None
        for place, earlier in enumerate(one.question.after):
            conversation = (await send(one, earlier, conversation, place)).conversation_id
        return await send(one, one.question.ask, conversation, len(one.question.after))

    async def ask(one: Result) -> Answer:
        nonlocal is_looked_up
        try:
            return Answer.of(await send_all(one))
        except (BadRequestError, NotFoundError) as error:
            async with turn:  # the others wait for what the first one finds out
                if not is_looked_up:
                    is_looked_up = True
                    await check_bot(one.bot_id, client, call, error)
            raise

    return ask


class Schedule:
    """Which question is due when, and what came of each. Used by one thread at a time.

    What did not reach its bot is asked again, as a client does it: so the check knows that it waits
    and can say so, and that it may be ended then with nothing under way.

    Args:
        bot: who is asked.
        questions: what it is asked.
        options: how.
        retries: how many times a question is asked again that got no answer, without `wait`.

    Raises:
        ConfigurationError: there are no questions, or two have the same id.
    """

    def __init__(
        self,
        bot: str,
        questions: Iterable[Question],
        options: Options,
        retries: int = 0,
    ) -> None:
        self.options, self._retries = options, retries
        self._began, self._began_at = time.monotonic(), datetime.now(UTC)
        self._results = _unasked(bot, questions)
        known = set(options.passed_before)
        self._due: list[tuple[float, int]] = []
        for number, one in enumerate(self._results):
            if one.id in known:
                self._results[number] = replace(one, verdict=Verdict.PASSED)
            else:
                self._due.append((self._began, number))
        self._passed = sum(one.passed for one in self._results)
        self._asked = self._left_out = 0
        self._asked_at: dict[int, float] = {}
        self._stopped: CheckStop | None = None
        self._stop_reason = ""
        self._closed = False

    @property
    def concurrency(self) -> int:
        """How many questions may be under way."""
        return max(1, min(self.options.concurrency, len(self._due)))

    @property
    def stopped(self) -> bool:
        """Whether the check ends early."""
        return self._stopped is not None

    def take(self) -> "int | float | None":
        """Return the number of a question to ask now, seconds to wait, or None at the end."""
        while self._due and not self.stopped:
            pause = self._due[0][0] - time.monotonic()
            if pause > 0:
                if not self._asked_at:
                    self._report_progress(pause)
                return float(pause)
            _, number = heapq.heappop(self._due)
            asked = self._asked + 1 + len(self._results[number].question.after)
            if asked <= (self.options.messages or math.inf):
                self._asked, self._asked_at[number] = asked, time.monotonic()
                self._report_progress(0.0)  # the answer may take long, or never come
                return number
            self._left_out += 1
        if self._left_out:
            self.stop(CheckStop.MESSAGES, f"{self._asked:,} messages were sent, the most it may")
        return None

    def __getitem__(self, number: int) -> Result:
        """Return what is known of a question."""
        return self._results[number]

    def answered(self, number: int, answer: Answer, unmet: str, seconds: float) -> None:
        """Note an answer, and what is missing in it."""
        self._end(
            number,
            seconds,
            again=bool(unmet),
            verdict=Verdict.FAILED if unmet else Verdict.PASSED,
            reason=unmet and f"The answer {unmet}.",
            answer=shortened(answer.text),
            message_id=answer.message and answer.message.id,
            conversation_id=answer.message and answer.message.conversation_id,
        )

    def failed(self, number: int, error: KnowledgeBotError, seconds: float) -> None:
        """Note that there is no answer, and stop where no other question would get one either."""
        stop = _STOPS.get(error.status_code) if isinstance(error, APIError) else None
        if isinstance(error, NoSuchBotError):
            stop = CheckStop.BOT
        if stop is not None:
            self.stop(stop, str(error))
        self._end(
            number,
            seconds,
            again=error.may_pass,
            verdict=Verdict.UNANSWERED,
            reason=_unanswered(error),
            error=error,
        )

    def stop(self, stop: CheckStop, reason: str) -> None:
        """Ask nothing more."""
        if self._stopped is None:
            self._stopped, self._stop_reason = stop, reason

    def report(self) -> CheckReport:
        """Return what came of it; what is still under way is given up."""
        self._closed = True
        for number, asked_at in self._asked_at.items():
            self._results[number] = replace(
                self._results[number],
                verdict=Verdict.UNANSWERED,
                attempts=self._results[number].attempts + 1,
                seconds=time.monotonic() - asked_at,
                reason="The check ended before an answer came. The message may have been sent.",
            )
        return CheckReport(
            results=tuple(self._results),
            min_pass=self.options.min_pass,
            began=self._began_at,
            duration=time.monotonic() - self._began,
            stopped=self._stopped,
            stop_reason=self._stop_reason,
        )

    def _end(self, number: int, seconds: float, *, again: bool, **found: Any) -> None:
        if self._closed:  # nobody waits for it any more
            return
        asked_at, one = self._asked_at.pop(number), self._results[number]
        result = self._results[number] = Result(
            one.id, one.question, one.bot_id, attempts=one.attempts + 1, seconds=seconds, **found
        )
        self._passed += result.passed
        options, until = self.options, self._began + self.options.wait
        # Where the wait is the shorter one, each is asked at its beginning and at its end.
        short = options.wait < options.interval and result.attempts == 1
        due = until if short else asked_at + options.interval
        if isinstance(result.error, APIError) and result.error.retry_after:
            due = max(due, time.monotonic() + result.error.retry_after)
        if not options.wait and (pause := self._pause_after(result)) is not None:
            heapq.heappush(self._due, (time.monotonic() + pause, number))
        elif again and options.wait and time.monotonic() < until and due <= until:
            heapq.heappush(self._due, (due, number))
        if options.on_result is not None:
            options.on_result(result)
        self._report_progress(0.0)

    def _pause_after(self, one: Result) -> float | None:
        """Return the seconds after which a client would send this again; None: it would not."""
        if (error := one.error) is None or one.attempts > self._retries or not error.may_pass:
            return None
        is_safe = error.delivery is not Delivery.UNKNOWN or _lost_key(one) is not None
        return pause_after(error, one.attempts) if is_safe else None

    def _report_progress(self, pause: float) -> None:
        if self.options.on_progress is None or self._closed:
            return
        self.options.on_progress(
            Progress(
                total=len(self._results),
                passed=self._passed,
                open=len(self._due) + len(self._asked_at),
                asked=self._asked,
                elapsed=time.monotonic() - self._began,
                pause=pause,
            )
        )


def _unasked(bot: str, questions: Iterable[Question]) -> list[Result]:
    if isinstance(questions, str | bytes | dict | Question) or not isinstance(questions, Iterable):
        raise ConfigurationError.expected("questions", "several Questions", questions)
    given = list(questions)
    if not given:
        raise ConfigurationError.of("questions", "there are none. Nothing was asked")
    by_id: dict[str, Question] = {}
    for one in given:
        if not isinstance(one, Question):
            raise ConfigurationError.expected("questions", "Questions", one)
        if one.id in by_id:
            raise ConfigurationError.of(
                "questions",
                f"two have the id {one.id!r}: {by_id[one.id].ask!r} and {one.ask!r}. "
                "Leave one out, or give each an id of its own. Nothing was asked",
            )
        by_id[one.id] = one
    return [Result(one.id, one, bot) for one in given]


def _key_of(key: str, one: Result, place: int) -> str:
    of = hashlib.sha256(repr((key, one.id, one.attempts, place)).encode()).hexdigest()
    return f"{key[:24]}{of[:12]}"


def _lost_key(one: Result) -> str | None:
    """Return the key of a message whose answer may be there, of a question without others."""
    return None if one.error is None or one.question.after else one.error.idempotency_key


def _unanswered(error: KnowledgeBotError) -> str:
    text = f"No answer: {str(error).rstrip('.')}."
    if error.delivery is Delivery.UNKNOWN:
        text += " The message may have been sent."
    return text


class Runner:
    """Carries out a schedule in tasks of the running event loop.

    A `KnowledgeBotError` is what came of a single question; anything else ends the check.
    """

    def __init__(self, schedule: Schedule, ask: "Asking") -> None:
        self._schedule, self._ask = schedule, ask
        self._wake = asyncio.Event()
        self.interrupted = 0
        """Set by another thread: 1 ends the check as `stop` does, 2 without its last answers."""

    async def run(self) -> CheckReport:
        """Ask until all have passed, time is up, or the check is stopped.

        Raises:
            Exception: what `ask` or a callback raised.
        """
        stop, until = self._schedule.options.stop, math.inf
        tasks = {asyncio.create_task(self._work()) for _ in range(self._schedule.concurrency)}
        try:
            while tasks and time.monotonic() < until and self.interrupted < 2:
                done, tasks = await asyncio.wait(
                    tasks, timeout=_POLL, return_when=asyncio.FIRST_EXCEPTION
                )
                for task in done:
                    task.result()
                asked = stop is not None and stop.is_set()
                if until == math.inf and (asked or self.interrupted):
                    reason = "it was interrupted" if self.interrupted else "it was asked to"
                    self._schedule.stop(CheckStop.REQUESTED, reason)
                    self._wake.set()
                    until = time.monotonic() + _GRACE
            return self._schedule.report()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def is_ending(self) -> bool:
        """Whether only the last answers are waited for."""
        return self._schedule.stopped

    async def _work(self) -> None:
        while (step := self._schedule.take()) is not None:
            if isinstance(step, float):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), step)
            else:
                await self._settle(step)
        if self._schedule.stopped:
            self._wake.set()  # the others need not wait

    async def _settle(self, number: int) -> None:
        one = self._schedule[number]
        began = time.monotonic()
        try:
            answer = await self._ask(one)
        except KnowledgeBotError as error:
            self._schedule.failed(number, error, time.monotonic() - began)
            return
        seconds = time.monotonic() - began
        if one.question.matches:  # which may take its two seconds
            unmet = await asyncio.to_thread(one.question.unmet, answer)
        else:
            unmet = one.question.unmet(answer)
        self._schedule.answered(number, answer, unmet, seconds)


def _waited_for(runner: Runner) -> CheckReport:
    """Run, and wait for the report.

    Ctrl-C ends the check with what is known; the second one does so at once.

    Raises:
        BaseException: what the runner raised, or a signal's handler in this thread.
    """

    def interrupted(error: BaseException, _: object) -> None:
        if not isinstance(error, KeyboardInterrupt):  # such as a signal's handler raises
            runner.interrupted = 2
            raise error
        runner.interrupted += 2 if runner.is_ending else 1

    return in_own_loop(runner.run, "check", interrupted)
