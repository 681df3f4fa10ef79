"""`kbot man` and `kbot completion`: the manual page and the shell's part of `kbot`."""

import re
from collections.abc import Iterable, Iterator
from inspect import cleandoc

import click

from knowledge_bot import __version__
from knowledge_bot.cli.exits import Exit
from knowledge_bot.cli.kbot import ENVIRONMENT
from knowledge_bot.cli.output import write_text

# In their usual places, so that the page is the same for everybody.
_FILES = {
    "~/.config/kbot/config.toml": "The profiles of kbot login, with mode 600; KBOT_CONFIG names "
    "another file.",
    "~/.local/share/kbot/ledger.db": "The ledger of kbot ingest, unless --ledger or "
    "KNOWLEDGE_BOT_LEDGER names another one. XDG_DATA_HOME moves it.",
    ".kbotignore": "In a folder that is ingested: what to leave out, in .gitignore syntax.",
}


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script with which SHELL completes `kbot`.

    It completes commands, options and files, and the ids of bots, collections and conversations,
    for which it asks the service, for two seconds at most. If that fails, it completes no ids.
    There is none for PowerShell.

    \b
    kbot completion bash > ~/.local/share/bash-completion/completions/kbot
    kbot completion zsh > "${fpath[1]}/_kbot"
    kbot completion fish > ~/.config/fish/completions/kbot.fish
    """  # noqa: D301 - \b is for click
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    if script is None:
        raise TypeError(f"click knows no completion for {shell}")
    write_text(script(ctx.find_root().command, {}, "kbot", "_KBOT_COMPLETE").source())


@click.command()
@click.pass_context
def man(ctx: click.Context) -> None:
    """Print the manual page, in roff.

    \b
    kbot man | man -l -
    kbot man > ~/.local/share/man/man1/kbot.1
    """  # noqa: D301 - \b is for click
    root = ctx.find_root()
    write_text("\n".join(_page(click.Context(root.command, info_name="kbot"))))


def _page(root: click.Context) -> Iterator[str]:
    yield f'.TH KBOT 1 "" "kbot {_escaped(__version__)}" "Knowledge-Bot connectors"'
    yield from (".nh", ".ad l")  # hyphens and stretched spaces would go into what is copied
    yield from (".SH NAME", r"kbot \- feed and ask a Knowledge\-Bot Service")
    yield from (".SH SYNOPSIS", *_usage(root))
    yield from (".SH DESCRIPTION", *_described(root.command))
    yield from (".SH OPTIONS", *_options(root))
    yield ".SH COMMANDS"
    yield from _commands(root)
    yield from (".SH ENVIRONMENT", *_listed(ENVIRONMENT.items()))
    yield from (".SH FILES", *_listed(_FILES.items()))
    yield from (".SH EXIT STATUS", *_listed((str(code.value), code.meaning) for code in Exit))


def _commands(above: click.Context) -> Iterator[str]:
    group = above.command
    if not isinstance(group, click.Group):
        return
    for name in group.list_commands(above):
        command = group.get_command(above, name)
        if command is None or command.hidden:
            continue
        context = click.Context(command, info_name=name, parent=above)
        yield f'.SS "{_escaped(context.command_path)}"'
        yield from (*_usage(context), ".PP", *_described(command), *_options(context))
        yield from _commands(context)


def _usage(context: click.Context) -> Iterator[str]:
    pieces = " ".join(context.command.collect_usage_pieces(context))
    yield rf"\fB{_escaped(context.command_path)}\fR {_escaped(pieces)}"


def _described(command: click.Command) -> Iterator[str]:
    """Yield the help text; a paragraph that click does not wrap keeps its lines."""
    text = cleandoc(command.help or command.short_help or "")
    for number, paragraph in enumerate(re.split(r"\n\s*\n", text)):
        if number:
            yield ".PP"
        if paragraph.startswith("\b"):
            yield from (".nf", ".RS 4")
            yield from (_line(line) for line in paragraph.lstrip("\b\n").splitlines())
            yield from (".RE", ".fi")
        else:
            yield _line(" ".join(paragraph.split()))


def _options(context: click.Context) -> Iterator[str]:
    options = context.command.get_params(context)
    if context.parent is not None:  # `--help` is the same everywhere
        options = [option for option in options if option.name != "help"]
    records = (option.get_help_record(context) for option in options)
    return _listed(record for record in records if record)


def _listed(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for term, meaning in rows:
        yield ".TP"
        yield rf"\fB{_escaped(term)}\fR"
        yield _line(" ".join(meaning.split()))


def _line(text: str) -> str:
    # A dot or a quote at the beginning would be a request to roff.
    return rf"\&{_escaped(text)}" if text[:1] in (".", "'") else _escaped(text)


def _escaped(text: str) -> str:
    """Escape a text for roff, in ASCII: not every roff reads UTF-8."""
    text = text.replace("\\", r"\e").replace("-", r"\-").replace("`", r"\(ga").replace('"', r"\(dq")
    return "".join(one if one.isascii() else f"\\[u{ord(one):04X}]" for one in text)
