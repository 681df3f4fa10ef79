"""`kbot ask` and `kbot chat`: questions to a bot."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from knowledge_bot import ConfigurationError, KnowledgeBotError
from knowledge_bot.cli.exits import (
    OutcomeUnknown,
    falling_back_to_stderr,
    is_account_error,
    posting,
)
from knowledge_bot.cli.ids import bot_and, bot_to_ask
from knowledge_bot.cli.output import (
    as_json_option,
    fields_of,
    write_document,
    write_line,
    write_text,
)
from knowledge_bot.cli.settings import ServiceOptions
from knowledge_bot.cli.terminal import printable
from knowledge_bot.cli.texts import given_question, read_lines

if TYPE_CHECKING:
    from knowledge_bot import Chat, Message

_conversation = click.option(
    "--conversation",
    metavar="ID",
    help="Go on in this conversation.  [default: a new one]",
)

_HINT = "Asking again is safe; the question may then be in the conversation twice."


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="[BOT] QUESTION")
@_conversation
@as_json_option
@click.pass_obj
def ask(
    service: ServiceOptions, words: tuple[str, ...], conversation: str | None, as_json: bool
) -> None:
    """Ask BOT a QUESTION and print the answer.

    Without BOT, the service's only bot is asked. QUESTION is `-` to read it from stdin. The
    conversation's id goes to stderr.

    \b
    kbot ask bot_guide "When do you open on Saturday?"
    kbot ask "And on Sunday?" --conversation conv_42
    git log -1 --format=%B | kbot ask bot_guide - --json | jq -r .answer
    """  # noqa: D301 - \b is for click
    given, question = bot_and(
        "QUESTION", words, several="a QUESTION is one argument: put it into quotes"
    )
    content = given_question(question)
    with service.client(needs_key=True) as client:
        bot = bot_to_ask(client, given)
        with posting(_HINT):
            message = client.send_message(bot_id=bot, content=content, conversation_id=conversation)
    with falling_back_to_stderr(_answered(message)):
        if as_json:
            write_document(fields_of(message))
            return
        write_text(message.answer)
    _show_conversation(message.conversation_id)


@click.command()
@click.argument("bot", required=False)
@_conversation
@as_json_option
@click.pass_obj
def chat(service: ServiceOptions, bot: str | None, conversation: str | None, as_json: bool) -> None:
    """Chat with BOT, one question per line; Ctrl-D ends it.

    Without BOT, the service's only bot is asked. Without a terminal, questions are read from stdin,
    up to the first that fails. With --json each answer is a line of JSON.

    \b
    kbot chat bot_guide
    kbot chat bot_guide --json < questions.txt | jq -r .answer
    """  # noqa: D301 - \b is for click
    with service.client(needs_key=True) as client:
        talk = client.chat(bot_to_ask(client, bot), conversation)
        try:
            for question in _questions():
                _turn(talk, question, as_json=as_json)
        finally:
            if talk.conversation_id is not None:
                _show_conversation(talk.conversation_id)


def _turn(talk: "Chat", question: str, *, as_json: bool) -> None:
    try:
        with posting(_HINT):
            message = talk.ask(question)
    except (KnowledgeBotError, OutcomeUnknown) as error:
        hopeless = isinstance(error, ConfigurationError) or is_account_error(error)
        if hopeless or not sys.stdin.isatty():
            raise
        click.echo(f"Error: {printable(str(error))}", err=True)  # a person reads it, and goes on
        return
    with falling_back_to_stderr(_answered(message)):
        if as_json:
            write_line(fields_of(message))
        else:
            write_text(f"\n{message.answer}\n" if _is_a_dialogue() else message.answer)


def _questions() -> Iterator[str]:
    if not sys.stdin.isatty():
        yield from filter(None, (line.strip() for line in read_lines("-")))
        return
    if _is_a_dialogue():
        with suppress(ImportError):  # not on Windows, whose console edits lines itself
            import readline  # noqa: F401 - input() edits lines and remembers them with it
    while True:
        try:
            # input() would print its prompt to stdout, even if that is a file.
            if not _is_a_dialogue():
                click.echo("you> ", nl=False, err=True)
            question = input("you> " if _is_a_dialogue() else "").strip()
        except (EOFError, KeyboardInterrupt):
            click.echo(err=True)
            return
        if question:
            yield question


def _answered(message: "Message") -> str:
    # The interface has no way to read an answer again.
    return f"The answer, in {message.conversation_id}:\n{message.answer}"


def _is_a_dialogue() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _show_conversation(conversation_id: str) -> None:
    click.echo(f"(--conversation {printable(conversation_id)} goes on from here)", err=True)
