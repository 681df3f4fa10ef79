"""`kbot check`: questions to a bot, and whether its answers are as expected."""

import math
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from knowledge_bot.cli.exits import Exit, Failed, falling_back_to_stderr
from knowledge_bot.cli.ids import bot_and, bot_to_ask
from knowledge_bot.cli.output import (
    as_json_option,
    quiet_option,
    write_document,
    write_table,
    write_text,
)
from knowledge_bot.cli.progress import shown_line
from knowledge_bot.cli.settings import ServiceOptions
from knowledge_bot.cli.terminal import write_stderr
from knowledge_bot.cli.texts import CONCURRENCY, read_text, time_option

if TYPE_CHECKING:
    from knowledge_bot import Client
    from knowledge_bot.checks import Audit, CheckReport, Progress, Question

R = TypeVar("R", "Audit", "CheckReport")


def _writable(_: click.Context, __: click.Parameter, path: str | None) -> str | None:
    """Fail now rather than after minutes of asking."""
    folder = Path(path or "").absolute().parent
    if path and not Path(path).exists() and not os.access(folder, os.W_OK):
        raise click.BadParameter(f"{folder} is not there, or cannot be written")
    return path


JUNIT: dict[str, Any] = {
    "metavar": "FILE",
    "type": click.Path(dir_okay=False, writable=True),
    "callback": _writable,
    "help": "Write JUnit XML, which CI servers show.",
}


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="[BOT] FILE")
@time_option(
    "--wait",
    "0",
    "Repeat the questions that have not passed, up to this time: 600, 10m, 1h30m. A service that "
    "is away is tried again as well.  [default: ask once]",
)
@time_option("--interval", "15s", "Time between two attempts at a question.  [default: 15s]")
@click.option(
    "--min-pass",
    type=click.FloatRange(0, 1),
    default=1.0,
    metavar="SHARE",
    help="The share of the questions that must pass, 0 to 1.  [default: 1, all]",
)
@click.option(
    "--concurrency",
    default=4,
    **CONCURRENCY | {"help": "How many messages may be under way at once."},
)
@click.option(
    "--max-messages",
    "messages",
    type=click.IntRange(min=1),
    metavar="N",
    help="Send at most N messages in all, however long it waits. A question for which too few are "
    "left is not asked.  [default: as many as it takes]",
)
@click.option("--junit", **JUNIT)
@quiet_option
@as_json_option
@click.pass_obj
def check(
    service: ServiceOptions,
    /,
    *,
    words: tuple[str, ...],
    junit: str | None,
    quiet: bool,
    as_json: bool,
    **how: Any,
) -> None:
    """Ask BOT the questions of FILE, and check its answers.

    Without BOT, the service's only bot is asked. FILE is TOML or lines of JSON (`-` reads these
    from stdin). Each question is asked in a new conversation.

    The exit code is 0 if enough questions passed, otherwise 3. Without an answer, a question has
    not passed.

    \b
    [[questions]]
    ask = "When do you open on Saturday?"
    contains = "9:30"          # or contains_any, excludes, matches, equals, sources, refuses

    \b
    kbot check bot_guide questions.toml
    kbot check bot_guide questions.toml --wait 10m --junit report.xml
    kbot check bot_guide questions.toml --json > today.json
    """  # noqa: D301 - \b is for click
    named, file = bot_and("FILE of questions", words, several="name one BOT and one FILE")
    questions = _questions(file)
    with service.client(needs_key=True) as client:
        bot = bot_to_ask(client, named, quiet=quiet)
        report = _checked(client, bot, questions, quiet=quiet, **how)
    conclude(report, *_end(report), _show, junit=junit, as_json=as_json, quiet=quiet)


def _questions(file: str) -> "list[Question]":
    from knowledge_bot.checks import load_questions
    from knowledge_bot.checks._files import parse_questions

    if file == "-":
        return parse_questions(read_text("-"), ".jsonl", "stdin")
    return load_questions(file)


def conclude(
    report: R,
    code: Exit,
    reason: str,
    show: Callable[[R], None],
    *,
    junit: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Write a report to its file and to stdout, as a table by `show`, and end as it says.

    Raises:
        Failed: it is not as wanted, for a `reason`, or cannot be written.
    """
    try:
        if junit is not None:
            Path(junit).write_text(report.junit(), encoding="utf-8")
    except OSError as error:
        code = code or Exit.FAILED
        reason = f"{junit}: cannot be written: {error.strerror}. {reason}"
    with falling_back_to_stderr(reason, code):
        if as_json:
            write_document(report.as_dict())
        else:
            show(report)
    if code is not Exit.DONE:
        raise Failed(reason, code)
    if not quiet:
        write_stderr(f"({report.summary().rstrip('.')})")


def _checked(
    client: "Client", bot: str, questions: "list[Question]", *, quiet: bool, **how: Any
) -> "CheckReport":
    from knowledge_bot._signals import stop_on_signals
    from knowledge_bot.checks import check as ask_and_judge

    stop = threading.Event()

    def end() -> None:
        stop.set()
        if not quiet:
            # The terminal has written ^C behind the line of progress.
            line_end = "\n" if sys.stderr.isatty() else ""
            write_stderr(
                f"{line_end}Stopping: waiting for the answers under way, 5 seconds at most."
            )

    with _shown_progress(quiet=quiet) as on_progress, stop_on_signals(end):
        return ask_and_judge(client, bot, questions, on_progress=on_progress, stop=stop, **how)


@contextmanager
def _shown_progress(*, quiet: bool) -> "Iterator[Callable[[Progress], None] | None]":
    """Show how far a check is on stderr; yields the callback for it."""
    seen = -1

    def log(progress: "Progress") -> None:  # only when it begins to wait, and more has passed
        nonlocal seen
        if progress.pause and progress.passed != seen:
            seen = progress.passed
            again = f"asked again, the next in {math.ceil(progress.pause)} s"
            write_stderr(f"{seen} of {progress.total} passed; the others are {again}.")

    with shown_line(_how_far, quiet=quiet) as on_progress:
        yield on_progress or (None if quiet else log)


def _how_far(progress: "Progress", ago: float) -> str:
    text = f"{progress.passed} of {progress.total} passed, {progress.open} open"
    text += f"  asked {progress.asked} times  {progress.elapsed + ago:.0f} s"
    left = progress.pause - ago
    return f"{text}  asking again in {left:.0f} s" if left > 0 else text


def _show(report: "CheckReport") -> None:
    if sys.stdout.isatty():
        write_text(report.table())
        return
    rows = (
        (one.verdict, one.attempts, f"{one.seconds:.2f}", one.bot_id, one.question.ask, one.reason)
        for one in report.results
    )
    write_table(("verdict", "tries", "seconds", "bot", "question", "reason"), rows)


def _end(report: "CheckReport") -> tuple[Exit, str]:
    """Return the exit code and the reason for it."""
    from knowledge_bot.checks import CheckStop

    counts = f"{report.passed} of {len(report.results)} passed."
    match report.stopped:
        case CheckStop.AUTHENTICATION | CheckStop.PAYMENT:
            return Exit.ACCOUNT, f"{report.stop_reason.rstrip('.')}. {counts}"
        case CheckStop.BOT:
            return Exit.FAILED, f"{report.stop_reason.rstrip('.')}. {counts}"
        case CheckStop.REQUESTED:
            return Exit.INTERRUPTED, f"Interrupted: {counts} The others were not waited for."
    if not any(one.answer or one.passed for one in report.results):
        return Exit.FAILED, f"No question was answered. {report.results[0].reason}"
    reasons = [report.stop_reason] if report.stopped else []
    if not report.ok:
        share = "" if report.min_pass == 1 else f", and {report.min_pass:.4g} of all have to"
        reasons.append(f"{report.failed} of {len(report.results)} did not pass{share}")
    return (Exit.SOME_FAILED, f"{'; '.join(reasons)}.") if reasons else (Exit.DONE, counts)
