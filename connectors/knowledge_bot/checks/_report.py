"""The result of a check: as an object, as text, and as JUnit XML."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from statistics import median, quantiles
from typing import Any

from knowledge_bot.checks._junit import Case, junit
from knowledge_bot.checks._questions import Question
from knowledge_bot.errors import KnowledgeBotError

# Characters of an answer that a report keeps: enough to see what is wrong.
_ANSWER_KEPT = 2000


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a check or an audit is.

    Attributes:
        total: how many questions, or documents, there are.
        passed: how many have passed, or were found.
        open: how many may still be: not asked yet, or to be asked again.
        asked: how often a bot was asked, whatever came of it.
        elapsed: seconds since it began.
        pause: seconds until a check's next question is due, while none is under way; otherwise 0.
        most: how often an audit asks at most; None of a check.
    """

    total: int
    passed: int
    open: int
    asked: int
    elapsed: float
    pause: float = 0.0
    most: int | None = None


OnProgress = Callable[[Progress], object]
"""Called whenever something changes, one call at a time, in another thread or in the loop's."""


class Verdict(StrEnum):
    """What became of a question."""

    PASSED = "passed"
    """The answer holds what is expected."""
    FAILED = "failed"
    """There is an answer, and it does not."""
    UNANSWERED = "unanswered"
    """No answer came; the reason says whether the message may have been sent."""
    UNASKED = "unasked"
    """The check ended before it was asked."""


class CheckStop(StrEnum):
    """Why a check ended early."""

    AUTHENTICATION = "authentication"
    """The service does not accept the API key (401, 403)."""
    PAYMENT = "payment"
    """The service asks for payment, for example because a quota is used up (402)."""
    BOT = "bot"
    """The service has no such bot."""
    MESSAGES = "messages"
    """As many messages were sent as it may send."""
    REQUESTED = "requested"
    """The caller asked for it, or Ctrl-C did."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one question to one bot.

    Attributes:
        id: the question's id.
        question: what was asked, and what is expected.
        bot_id: the bot that was asked.
        verdict: what became of it, after the last attempt.
        reason: why it did not pass, as a sentence; empty where it did.
        answer: the last answer, its first 2,000 characters; empty where none came.
        attempts: how many times it was asked.
        seconds: how long the last attempt took.
        message_id: the answer's id, `msg_…`; None where none came.
        conversation_id: the conversation that it was asked in, `conv_…`; None likewise.
        error: what was raised instead of an answer; None where one came.
    """

    id: str
    question: Question
    bot_id: str
    verdict: Verdict = Verdict.UNASKED
    reason: str = ""
    answer: str = ""
    attempts: int = 0
    seconds: float = 0.0
    message_id: str | None = None
    conversation_id: str | None = None
    error: KnowledgeBotError | None = field(default=None, compare=False, repr=False)

    @property
    def passed(self) -> bool:
        """Whether the answer holds what is expected."""
        return self.verdict is Verdict.PASSED

    def as_dict(self) -> dict[str, Any]:
        """Return the result as plain values, for JSON; of the question, what was asked."""
        return {
            "id": self.id,
            "ask": self.question.ask,
            "bot_id": self.bot_id,
            "verdict": str(self.verdict),
            "reason": self.reason,
            "answer": self.answer,
            "attempts": self.attempts,
            "seconds": round(self.seconds, 6),
            "message_id": self.message_id,
            "conversation_id": self.conversation_id,
        }


@dataclass(frozen=True, slots=True, repr=False)
class CheckReport:
    """What came of a check.

    Attributes:
        results: one for each question, in their order.
        min_pass: the share of them that has to pass, 0 to 1.
        began: when it began, in UTC.
        duration: seconds it took.
        stopped: why it ended early; None where every question was asked.
        stop_reason: the same as a sentence.
    """

    results: tuple[Result, ...]
    min_pass: float
    began: datetime
    duration: float
    stopped: CheckStop | None = None
    stop_reason: str = ""

    @property
    def passed(self) -> int:
        """How many passed."""
        return sum(one.passed for one in self.results)

    @property
    def failed(self) -> int:
        """How many did not, for whatever reason."""
        return len(self.results) - self.passed

    @property
    def ok(self) -> bool:
        """Whether as many passed as have to, and it did not end early."""
        # Shares such as 0.7 have no exact form.
        enough = self.passed >= self.min_pass * len(self.results) - 1e-9
        return enough and self.stopped is None

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        return {
            "ok": self.ok,
            "passed": self.passed,
            "failed": self.failed,
            "min_pass": self.min_pass,
            "began": self.began.isoformat(timespec="milliseconds"),
            "duration": round(self.duration, 3),
            "stopped": None if self.stopped is None else str(self.stopped),
            "stop_reason": self.stop_reason,
            "results": [one.as_dict() for one in self.results],
        }

    def __repr__(self) -> str:
        return f"<CheckReport: {self.summary()}>"

    def table(self) -> str:
        """Return the results as a table, with reason and answer below what did not pass."""
        head = f"{'verdict':10}  tries  seconds  question"
        lines = [head, "─" * 80]
        for one in self.results:
            row = f"{one.verdict:10}  {one.attempts:5}  {one.seconds:7.2f}  "
            lines.append(f"{row}{_line(one.question.ask)}")
            details = [] if one.passed else [one.reason, one.answer and f"Answer: {one.answer}"]
            lines += [" " * len(row) + _line(text) for text in details if text]
        return "\n".join(lines)

    def summary(self) -> str:
        """Return the counts as one sentence."""
        total = len(self.results)
        taken = [one.seconds for one in self.results if one.answer]
        text = f"{self.passed} of {total} passed"
        if self.min_pass < 1:
            text += f", {self.min_pass:.4g} of all wanted"
        if taken:
            text += f"; an answer took {median(taken):.2f} s (median)"
        if len(taken) >= 20:
            text += f", {quantiles(taken, n=20)[-1]:.2f} s (95 of 100)"
        end = f". Stopped: {self.stop_reason.rstrip('.')}" if self.stopped else ""
        return f"{text}; {self.duration:.1f} s in all{end}."

    def __str__(self) -> str:
        return f"{self.table()}\n{self.summary()}"

    def junit(self) -> str:
        """Return the results as JUnit XML, which CI servers show, in one suite."""
        cases = [
            Case(
                one.question.ask,
                _ENDED.get(one.verdict, ""),
                str(one.verdict),
                one.reason,
                one.answer,
                one.seconds,
            )
            for one in self.results
        ]
        facts = {"began": self.began.isoformat(timespec="seconds")}
        return junit("kbot check", self.results[0].bot_id, facts, cases)


_ENDED = {Verdict.FAILED: "failure", Verdict.UNANSWERED: "error", Verdict.UNASKED: "skipped"}


def shortened(answer: str) -> str:
    """Return as much of an answer as a report keeps."""
    return answer if len(answer) <= _ANSWER_KEPT else f"{answer[: _ANSWER_KEPT - 1]}…"


def _line(text: str) -> str:
    """Return a text on one line, without what could steer a terminal: it may be a service's."""
    line = " ".join(text.split())
    return line if line.isprintable() else repr(line)[1:-1]
