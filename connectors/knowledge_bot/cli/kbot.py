"""`kbot` itself: finds the command, and turns what goes wrong into a sentence and an exit code.

Each family of commands has a module of its own, loaded when one of its commands is named. None of
them loads the client, rich or the database at its top: every `kbot --help` imports them all.
"""

import errno
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

import click

from knowledge_bot import ConfigurationError, KnowledgeBotError, __version__
from knowledge_bot._extras import is_there
from knowledge_bot._profiles import FILE_VARIABLE, PROFILE_VARIABLE
from knowledge_bot.cli.exits import Exit, Failed, StdoutError, exit_of
from knowledge_bot.cli.settings import (
    API_KEY_VARIABLE,
    BASE_URL_VARIABLE,
    COLLECTION_VARIABLE,
    KBOT,
    ServiceOptions,
)
from knowledge_bot.cli.terminal import give_up, write_stderr
from knowledge_bot.cli.texts import Suggesting
from knowledge_bot.errors import MissingExtraError

_COMMANDS = {
    "login": "login:login",
    "doctor": "doctor:doctor",
    "ping": "calling:ping",
    "collections": "calling:collections",
    "bots": "calling:bots",
    "conversations": "calling:conversations",
    "ask": "asking:ask",
    "chat": "asking:chat",
    "check": "checking:check",
    "audit": "auditing:audit",
    "add": "adding:add",
    "sources": "calling:sources",
    "ingest": "ingesting:ingest",
    "ledger": "ledgers:ledger",
    "api": "calling:api",
}

# Commands of other packages, such as `kbot serve`, and the extra that brings each of ours.
PLUGINS = "knowledge_bot.commands"
_EXTRAS = {"gateway": "gateway", "mcp": "gateway", "serve": "serve"}

# What people type for commands of another name.
_WORDS = {
    "config": "doctor",
    "configure": "login",
    "delete": "sources delete",
    "help": "--help",
    "import": "ingest",
    "init": "login",
    "query": "ask",
    "run": "serve",
    "server": "serve",
    "start": "serve",
    "status": "doctor",
    "sync": "ingest folder",
    "upload": "add file",
    "version": "--version",
}

_NOT_WATCHED = "--watch goes with `kbot ingest folder` alone: run this one again, as by cron"
_INSTALL = "pip install 'knowledge-bot[cli]'"

# A full disk, a closed stream, a terminal that was hung up.
_STDOUT_CANNOT_BE_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EBADF, errno.EIO)

ENVIRONMENT = {
    BASE_URL_VARIABLE: "The service's address. An option wins over the environment, and that over "
    "the profile; `kbot doctor` shows where each setting comes from.",
    API_KEY_VARIABLE: "The API key. There is no option for it: other users can see command lines.",
    COLLECTION_VARIABLE: "Collections to add to, separated by spaces.",
    "KNOWLEDGE_BOT_LEDGER": "Where `kbot ingest` remembers what it sent: a file or a URL.",
    PROFILE_VARIABLE: "The profile of `kbot login` to use, where no --profile is given.",
    FILE_VARIABLE: "The file that `kbot login` writes.",
    "NO_COLOR": "Set to anything: no colours and no bold letters.",
}


class _Kbot(Suggesting):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        return [*_COMMANDS, *sorted(entry_points(group=PLUGINS).names)]

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's
        cmd_name: str,
    ) -> click.Command | None:
        if home := _COMMANDS.get(cmd_name):
            module, _, name = home.partition(":")
            return _command(getattr(import_module(f"knowledge_bot.cli.{module}"), name), home)
        for entry_point in entry_points(group=PLUGINS, name=cmd_name):
            try:
                return _command(entry_point.load(), entry_point.value)
            except Exception as error:  # noqa: BLE001 - another package, badly installed
                return _unavailable(cmd_name, why_not_loaded(error, cmd_name))
        return (
            _unavailable(cmd_name, _lacks("a package", cmd_name)) if cmd_name in _EXTRAS else None
        )

    def format_epilog(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's
        formatter: click.HelpFormatter,
    ) -> None:
        exits = [(str(code.value), code.meaning) for code in Exit]
        for title, rows in {
            "Environment": list(ENVIRONMENT.items()),
            "Exit codes": exits,
        }.items():
            with formatter.section(title):
                formatter.write_dl(rows)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        _survive_any_stream()
        with _help_on_stdout():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _help_on_stdout(), warnings.catch_warnings():
                warnings.showwarning = lambda text, *_, **__: write_stderr(f"Warning: {text}")
                return super().invoke(ctx)
        except KnowledgeBotError as error:
            if isinstance(error, ConfigurationError):
                error.said_in(KBOT)  # it met no client yet
            raise Failed(str(error), exit_of(error)) from None
        except click.NoSuchOption as error:
            raise self._misplaced(error, ctx) from None
        except (KeyboardInterrupt, click.Abort):  # Abort: Ctrl-C at a prompt
            if sys.stderr.isatty():
                write_stderr("")  # the terminal has written ^C
            raise Failed("Interrupted.", Exit.INTERRUPTED) from None
        except ModuleNotFoundError as error:
            if not error.name or error.name.startswith("knowledge_bot") or is_there(error.name):
                raise
            text = f"This needs {error.name}, which is not installed; {_INSTALL}"
            raise Failed(str(error) if isinstance(error, MissingExtraError) else text) from None
        except BrokenPipeError:
            give_up(sys.stdout)
            ctx.exit(Exit.INTERRUPTED)

    def _misplaced(self, error: click.NoSuchOption, ctx: click.Context) -> click.UsageError:
        """Return the error of an option that its command does not have, and another one has."""
        name = error.option_name
        said = _NOT_WATCHED if name == "--watch" else ""
        if any(name in option.opts for option in self.params):
            said = f"{name} stands before the command: kbot {name} … {ctx.invoked_subcommand}"
        return click.UsageError(said, error.ctx) if said else error


@click.group(cls=_Kbot, words=_WORDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kbot")
@click.option(
    "--profile",
    metavar="NAME",
    help="Use this profile of `kbot login`, whatever the environment says.  [default: "
    "KBOT_PROFILE, or default]",
)
@click.option(
    "--base-url",
    metavar="URL",
    help="The service's address.  [default: KNOWLEDGE_BOT_BASE_URL, or the profile's]",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for a connection, and again for an answer.",
)
@click.option("-v", "--verbose", is_flag=True, help="Log every request to stderr.")
@click.pass_context
def main(
    ctx: click.Context,
    *,
    profile: str | None,
    base_url: str | None,
    timeout: float,
    verbose: bool,
) -> None:
    """Feed and ask a Knowledge-Bot Service.

    Begin with `kbot login`, or set KNOWLEDGE_BOT_BASE_URL and KNOWLEDGE_BOT_API_KEY.

    \b
    kbot ask "When do you open on Saturday?"
    kbot ingest folder handbook --collection col_handbook
    kbot bots --json | jq -r '.[].id'

    Data goes to stdout, everything else to stderr. Lists are tables on a terminal and lines of
    tab-separated values in a pipe; --json prints JSON. `-` stands for stdin.
    """  # noqa: D301 - \b is for click
    ctx.obj = ServiceOptions(base_url, profile, timeout)
    if verbose:
        _log_to_stderr(ctx)


def _command(loaded: object, home: str) -> click.Command:
    if not isinstance(loaded, click.Command):
        raise TypeError(f"{home} is not a click command")
    return loaded


def why_not_loaded(error: Exception, command: str) -> str:
    """Say why a command of another package cannot be loaded, and what to do where that is known.

    Only what is really not there is called not installed: not a mistake in what is.
    """
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing and not missing.startswith("knowledge_bot") and not is_there(missing):
        return _lacks(missing, command)
    return f"cannot be loaded: {type(error).__name__}: {error}"


def _lacks(module: str, command: str) -> str:
    extra = _EXTRAS.get(command, command)
    return f"needs {module}, which is not installed; pip install 'knowledge-bot[{extra}]'"


def _unavailable(name: str, why: str) -> click.Command:
    """Return what stands for a command: whatever it is given, `--help` as well, it says why."""

    @click.command(
        name,
        short_help=f"({why.partition(';')[0]})",
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    def command() -> None:
        raise Failed(f"`kbot {name}` {why}")

    return command


def _survive_any_stream() -> None:
    if sys.stdin is None:  # closed, as by `<&-` and by some daemons: nothing comes from it
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY), encoding="utf-8")
    for name, mode in (("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:  # closed, as by `>&-`
            # This takes its number, so that no other file gets it. Text for stderr is dropped;
            # writing to stdout is an error.
            closed = os.open(os.devnull, mode)
            setattr(sys, name, os.fdopen(closed, "w", encoding="utf-8"))
        # A name that the terminal's encoding does not have is shown escaped, not as a traceback.
        reconfigure = getattr(getattr(sys, name), "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


@contextmanager
def _help_on_stdout() -> Iterator[None]:
    """Surround the printing of a help text, which click does by itself."""
    try:
        yield
    except OSError as error:
        if error.errno not in _STDOUT_CANNOT_BE_WRITTEN:
            raise
        give_up(sys.stdout)
        raise StdoutError(f"stdout cannot be written: {error.strerror}.") from None


def _log_to_stderr(ctx: click.Context) -> None:
    import logging

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("knowledge_bot")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    ctx.call_on_close(lambda: logger.removeHandler(handler))
    ctx.call_on_close(lambda: logger.setLevel(logging.NOTSET))
