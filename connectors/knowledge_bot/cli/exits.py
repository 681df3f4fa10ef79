"""How a command ends: its exit codes, and the sentence on stderr."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import IO, Any

import click

from knowledge_bot import ConfigurationError, Delivery, KnowledgeBotError
from knowledge_bot.cli.terminal import give_up, write_stderr


class Exit(IntEnum):
    """The exit codes of every command. Of 3, 4 and 8 the highest that fits is taken."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    SOME_FAILED = 3
    ACCOUNT = 4
    UNKNOWN = 8
    INTERRUPTED = 130

    @property
    def meaning(self) -> str:
        """What the code means, for `kbot --help`."""
        return _MEANINGS[self]


_MEANINGS = {
    Exit.DONE: "Done.",
    Exit.FAILED: "Failed: the service, the network or this machine.",
    Exit.USAGE: "The command line or a setting is wrong; nothing was added or asked.",
    Exit.SOME_FAILED: "Some items are not done (all, if the ledger cannot be used); a next run "
    "tries them again.",
    Exit.ACCOUNT: "The key is missing or not accepted (401), or may not do this (403), or the "
    "account's quota is used up (402).",
    Exit.UNKNOWN: "Some outcomes are unknown: the service may have acted on a request that has no "
    "answer. The next `kbot ingest` settles it where the service announces `idempotency`; "
    "elsewhere look in the service before sending it again. Or the service acted, and the answer "
    "could not be written to stdout; stderr has it.",
    Exit.INTERRUPTED: "Ctrl-C, SIGTERM, a closed terminal, or a reader of stdout that went away; "
    "nothing is left uncertain.",
}


class Failed(click.ClickException):
    """Ends a command with a sentence on stderr and an exit code."""

    def __init__(self, message: str, code: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc] # click has it per class; here it is per error

    def show(self, file: IO[Any] | None = None) -> None:  # noqa: ARG002 - click's
        """Write the sentence to stderr; what a service wrote into it cannot steer the terminal."""
        write_stderr(f"Error: {self.message}")


class StdoutError(Failed):
    """stdout cannot be written, for example because the disk is full."""


class AnswerLost(Failed):
    """The service has acted, but what it did, which the text holds, cannot be written to stdout."""


class OutcomeUnknown(Failed):
    """The service may have acted on a request that has no answer."""


@contextmanager
def falling_back_to_stderr(text: str, code: Exit = Exit.UNKNOWN) -> Iterator[None]:
    """Surround the writing of what was done to stdout: where that fails, it goes to stderr.

    Args:
        text: sentences with what was done, for stderr.
        code: the exit code then; where it says that all is done, it says what happened to stdout.

    Raises:
        AnswerLost: stdout cannot be written, or its reader has gone.
    """
    try:
        yield
    except StdoutError as error:
        raise AnswerLost(f"{error.message} {text}", code or Exit.FAILED) from None
    except BrokenPipeError:
        give_up(sys.stdout)
        text = f"The reader of stdout has gone away. {text}"
        raise AnswerLost(text, code or Exit.INTERRUPTED) from None


def exit_of(error: KnowledgeBotError) -> Exit:
    """Return the exit code for an error of a call that created nothing."""
    if is_account_error(error):
        return Exit.ACCOUNT
    return Exit.USAGE if isinstance(error, ConfigurationError) else Exit.FAILED


def is_account_error(error: BaseException) -> bool:
    """Return whether every other call would be refused for the same reason."""
    return getattr(error, "status_code", None) in (401, 402, 403)


@contextmanager
def posting(hint: str = "") -> Iterator[None]:
    """Surround a call that creates something: an unknown outcome has an exit code of its own.

    The `hint` says what to do then, after what the error itself says.

    Raises:
        OutcomeUnknown: the service may have acted.
        Failed: Ctrl-C while the request was under way, with the same exit code.
        KnowledgeBotError: any other error, as it was.
    """
    try:
        yield
    except KnowledgeBotError as error:
        if error.delivery is not Delivery.UNKNOWN:
            raise
        raise OutcomeUnknown(f"{error} {hint}".rstrip(), Exit.UNKNOWN) from None
    except KeyboardInterrupt as interruption:
        # The client notes on it what was under way; without a note nothing was.
        notes = getattr(interruption, "__notes__", [])
        if not notes:
            raise
        unknown = getattr(interruption, "delivery", Delivery.UNKNOWN) is Delivery.UNKNOWN
        text = " ".join(["Interrupted.", *notes, hint * unknown]).rstrip()
        raise Failed(text, Exit.UNKNOWN if unknown else Exit.INTERRUPTED) from None
