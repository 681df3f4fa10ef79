"""What the check operator and the answer sensor share: questions, what has passed, and reports."""

import hashlib
import logging
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, cast

from airflow_knowledge_bot._compat import AirflowException, AirflowFailException
from airflow_knowledge_bot.memory import TaskMemory, living
from airflow_knowledge_bot.tasks import (
    QuestionsTask,
    as_several,
    brief,
    check_filled,
    check_several,
)
from knowledge_bot import Client
from knowledge_bot.adapters import parse_questions, question_of, storable
from knowledge_bot.checks import (
    CheckReport,
    CheckStop,
    Progress,
    Question,
    Result,
    Verdict,
    check,
    load_questions,
)
from knowledge_bot.errors import ConfigurationError, KnowledgeBotError

if TYPE_CHECKING:
    from os import PathLike

    from airflow.sdk import ObjectStoragePath

    from airflow_knowledge_bot.hooks import KnowledgeBotHook

logger = logging.getLogger(__name__)

# Seconds between two writes, since each goes over the network. If the worker is killed, what passed
# since the last one is asked again.
_SAVE_AFTER = 0.5

_PING_TIMEOUT = 5.0

# Seconds between two lines of progress.
_LOG_EVERY = 10.0

# After so many questions in a row without an answer, the others are left to Airflow's next try or
# poke.
_GIVE_UP_AFTER = 10

# XCom is for small values, a log for a person who reads.
_FAILURES = 20
_QUOTED = 5
_SHOWN = 100


class CheckProgress:
    """What has become of the questions so far, over all tries and pokes of one task instance.

    It is kept in the task's memory, and without one only in this object. A task that a person
    cleared starts over. It also follows the check that is running, and stops it if nothing answers.

    Attributes:
        passed: the digests of the questions that have passed.
        newest: how far the check is that is running; None before it has begun.
    """

    def __init__(self, memory: TaskMemory, stop: threading.Event | None = None) -> None:
        self._memory, self._stop = memory, stop
        kept = {} if memory.is_cleared else memory.earlier
        self.passed: set[str] = set(kept.get("passed", ()))
        self._ended: int = kept.get("ended", 0)
        self.newest: Progress | None = None
        self._saved_at = time.monotonic()
        self.begin({}, gives_up=False)

    def begin(self, digests: Mapping[str, str], *, gives_up: bool) -> None:
        """Begin a check of questions, whose digests are given by their ids."""
        self._digests, self._gives_up = digests, gives_up
        self._unanswered, self._logged_at, self.gave_up = 0, time.monotonic(), False

    def is_set(self) -> bool:
        """Return whether the check has to end."""
        return self.gave_up or (self._stop is not None and self._stop.is_set())

    def on_result(self, result: Result) -> None:
        """Remember that a question has passed, or that no answer came."""
        self._unanswered = self._unanswered + 1 if _may_still_answer(result) else 0
        if self._gives_up and self._unanswered >= _GIVE_UP_AFTER:
            self.gave_up = True
        if result.passed:
            self.passed.add(self._digests[result.id])
            if time.monotonic() >= self._saved_at + _SAVE_AFTER:
                self.save()

    def key(self, client: Client) -> str | None:
        """Return an idempotency key that is another one once a check has ended, or None.

        A later answer may be a better one; that of a killed check is as good as any.
        """
        with suppress(KnowledgeBotError):  # a check waits for a service that is away
            quick = client.with_options(timeout=_PING_TIMEOUT, max_retries=0)
            made = self._memory.key(self._ended) if self._memory.is_kept else None
            return living(made, quick.extensions())
        return None

    def save(self, *, ended: bool = False) -> None:
        """Store what has passed."""
        self._saved_at = time.monotonic()
        self._ended += ended
        self._memory.keep(passed=sorted(self.passed), ended=self._ended)

    def on_progress(self, progress: Progress) -> None:
        """Log the progress now and then."""
        self.newest = progress
        if time.monotonic() >= self._logged_at + _LOG_EVERY:
            self._logged_at = time.monotonic()
            logger.info(
                "%d of %d have passed, %d are open; %d messages in %.0f s.",
                progress.passed,
                progress.total,
                progress.open,
                progress.asked,
                progress.elapsed,
            )


def ask(
    task: QuestionsTask,
    hook: "KnowledgeBotHook",
    progress: CheckProgress,
    *,
    wait: float = 0.0,
    interval: float = 15.0,
) -> CheckReport:
    """Ask the questions that have not passed yet, and remember those that do.

    What comes of it is added to `progress`. With a `wait` of 0 seconds each is asked once.

    Returns:
        The results of all questions; those that passed earlier have no attempts.

    Raises:
        AirflowFailException: a parameter cannot be used. Nothing was sent.
        AirflowNotFoundException: there is no such connection.
        ConfigurationError: the connection or a question cannot be used. Nothing was sent.
    """
    base_url = hook.settings.base_url
    bot_id: Any = hook.settings.default("bot_id", task.bot_id)
    check_filled(bot_id=bot_id)
    questions = questions_of(task)
    digests = {one.id: _digest(base_url, bot_id, one) for one in questions}
    passed = [one.id for one in questions if digests[one.id] in progress.passed]
    still = len(questions) - len(passed)
    logger.info("Asking %s %d of %d questions at %s", bot_id, still, len(questions), base_url)
    progress.begin(digests, gives_up=wait == 0)
    try:
        with hook.get_conn() as client:
            report = check(
                client,
                bot_id,
                questions,
                wait=wait,
                interval=interval,
                concurrency=task.concurrency,
                min_pass=task.min_pass,
                passed_before=passed,
                on_result=progress.on_result,
                on_progress=progress.on_progress,
                key=progress.key(client),
                stop=progress,
            )
    finally:
        progress.save(ended=True)
    if progress.gave_up and report.stopped is CheckStop.REQUESTED:
        # For the check a person stopped it; for the task the service is down.
        return replace(report, stopped=None, stop_reason="")
    return report


def questions_of(task: QuestionsTask) -> list[Question]:
    """Return the questions of a task's rendered parameters.

    Raises:
        AirflowFailException: none or both are given, one is empty, or the file cannot be read.
        ConfigurationError: a question cannot be used; the message says which.
    """
    file = task.file
    if (task.questions is None) == (file is None):
        raise AirflowFailException(
            "The task takes exactly one of the parameters 'questions' and 'file', and "
            f"{'none' if file is None else 'both'} of them are given. Nothing was sent."
        )
    if file is not None:
        check_filled(file=file)
        return _read(file)
    questions: Any = as_several(task.questions)
    check_several("questions", questions, Question, "questions")
    given = list(questions)
    check_filled(questions=given)
    where = "The task's parameter 'questions', question"
    return [
        one if isinstance(one, Question) else question_of(one, f"{where} {number}")
        for number, one in enumerate(given, 1)
    ]


def _read(file: "str | PathLike[str] | ObjectStoragePath") -> list[Question]:
    from airflow_knowledge_bot.objects import is_object, opened

    try:
        if not is_object(file):
            return load_questions(cast("str | PathLike[str]", file))
        with opened(cast("str | ObjectStoragePath", file)) as (stream, name):
            text = stream.read().decode("utf-8-sig")
        return parse_questions(text, PurePosixPath(name).suffix.lower(), str(file))
    except UnicodeDecodeError:
        raise AirflowFailException(
            f"The task's parameter 'file' is not UTF-8 text: {file}. Nothing was sent."
        ) from None
    except ConfigurationError as error:
        raise AirflowFailException(
            f"The task's parameter 'file' cannot be used: {error} Nothing was sent."
        ) from error


def _digest(base_url: str, bot_id: str, question: Question) -> str:
    # Not the id alone, which an author may keep while the question changes between two tries.
    written = f"{base_url}\n{bot_id}\n{question.model_dump_json()}"
    return hashlib.sha256(written.encode()).hexdigest()[:16]


def _may_still_answer(result: Result) -> bool:
    """Return whether there is no answer, and a later attempt may get one."""
    if result.verdict is Verdict.UNASKED:
        return True
    return isinstance(result.error, KnowledgeBotError) and result.error.may_pass


def log_report(report: CheckReport) -> None:
    """Write the result of each question to the task's log, one fact a line.

    There are no columns, because the levels' names before them differ in width.
    """
    shown = report.results
    if len(shown) > _SHOWN:  # then only those that need attention
        shown = tuple(one for one in shown if not one.passed)[:_SHOWN]
    for one in shown:
        level = logging.INFO if one.passed else logging.WARNING
        logger.log(level, "%s: %s", _how(one), brief(one.question.ask))
        if not one.passed:
            logger.log(level, "    %s", _reason(one))
            if one.answer:
                logger.log(level, "    Answer: %s", brief(one.answer))
    if len(report.results) > len(shown):
        logger.info("… and %d more.", len(report.results) - len(shown))
    logger.info("%s", report.summary())


def _how(one: Result) -> str:
    if one.attempts == 0:
        return f"{one.verdict} in an earlier try" if one.passed else f"{one.verdict}"
    tries = f", {one.attempts} messages" if one.attempts > 1 else ""
    return f"{one.verdict} ({one.seconds:.2f} s{tries})"


def log_open(report: CheckReport) -> str:
    """Write to the task's log what has not passed yet, and return it as one text."""
    lines = _sentences(report)
    for line in lines:
        logger.info("Not yet: %s", line)
    return " ".join(lines)


def summary(report: CheckReport) -> dict[str, Any]:
    """Return the report as a small plain dict."""
    missing = (Verdict.UNANSWERED, Verdict.UNASKED)
    facts = report.as_dict()
    return {
        **{name: facts[name] for name in ("ok", "passed", "failed")},
        "unanswered": sum(one.verdict in missing for one in report.results),
        "messages": sum(one.attempts for one in report.results),
        **{name: facts[name] for name in ("min_pass", "duration", "stopped")},
        "failures": [
            {
                "id": one.id,
                "question": brief(one.question.ask),
                "reason": _reason(one),
                "answer": brief(one.answer),
            }
            for one in report.results
            if not one.passed
        ][:_FAILURES],
    }


def so_far(progress: Progress, task: QuestionsTask) -> dict[str, Any]:
    """Return what is known of a check that was interrupted, in the form of a summary."""
    return {
        "ok": False,
        "passed": progress.passed,
        "failed": progress.total - progress.passed,
        "unanswered": progress.open,
        "messages": progress.asked,
        "min_pass": task.min_pass,
        "duration": round(progress.elapsed, 3),
        "stopped": "interrupted",
        "failures": [],
    }


def failure_of(report: CheckReport, *, waiting: bool = False) -> Exception | None:
    """Return the error that fails the task if too few questions have passed, or None.

    While `waiting`, a wrong answer may still become right: then it is None as well if waiting may
    help.

    Returns:
        `AirflowFailException` if a retry cannot help, with what a person must do;
        `AirflowException` if the missing answers could make the difference.
    """
    if report.ok:
        return None
    if report.stopped is None:
        again = _may_become_ok(report, waiting=waiting)
        if again and waiting:
            return None
    else:
        again = report.stopped is CheckStop.REQUESTED
    lines = [*_sentences(report), _AGAIN if again else _ADVICE.get(report.stopped, _FOR_GOOD)]
    text = storable("\n".join(lines))
    return AirflowException(text) if again else AirflowFailException(text)


_AGAIN = (
    "The next try asks again what has not passed; a question that is asked twice changes nothing "
    "in the service."
)
_FOR_GOOD = (
    "Airflow does not retry this task. Check whether the bot's sources say what is expected, "
    "correct them or the questions, and clear the task: then all questions are asked again."
)
_ADVICE: dict[CheckStop | None, str] = {
    CheckStop.AUTHENTICATION: "Clear the task once the key is good.",
    CheckStop.PAYMENT: "Clear the task once the service's quota allows more.",
    CheckStop.BOT: "The refusal is about the task's parameter 'bot_id'.",
}


def _may_become_ok(report: CheckReport, *, waiting: bool) -> bool:
    """Return whether enough would pass if every answer that may still come were right."""
    results = tuple(
        replace(one, verdict=Verdict.PASSED)
        if _may_still_answer(one) or (waiting and one.verdict is Verdict.FAILED)
        else one
        for one in report.results
    )
    return replace(report, results=results).ok


def _sentences(report: CheckReport) -> list[str]:
    wanted = "all" if report.min_pass == 1 else f"{report.min_pass:.4g} of all"
    lines = [f"{report.passed} of {len(report.results)} questions passed, and {wanted} must."]
    if report.stopped is not None:
        return [*lines, f"The check was stopped: {report.stop_reason.rstrip('.')}."]
    failures = [one for one in report.results if not one.passed]
    lines += [
        f'{one.verdict}: "{brief(one.question.ask)}": {_reason(one)}' for one in failures[:_QUOTED]
    ]
    if len(failures) > _QUOTED:
        lines.append(f"And {len(failures) - _QUOTED} more.")
    return lines


def _reason(one: Result) -> str:
    if one.verdict is Verdict.UNASKED:
        return "It was not asked."
    return brief(one.reason)
