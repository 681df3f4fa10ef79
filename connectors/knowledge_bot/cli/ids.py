"""Ids on the command line: named, the only one that the service has, or completed by the shell."""

import re
import threading
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import click

from knowledge_bot import ConfigurationError
from knowledge_bot._profiles import read_profiles
from knowledge_bot.cli.exits import Exit, Failed
from knowledge_bot.cli.settings import ServiceOptions
from knowledge_bot.cli.terminal import one_line, write_stderr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from click.shell_completion import CompletionItem

    from knowledge_bot import Bot, Client, Collection, Conversation

Command = TypeVar("Command", bound="Callable[..., Any] | click.Command")

# How many are listed where one has to be chosen.
_LISTED = 20

# Seconds that somebody who has pressed Tab waits for.
_SECONDS_TO_COMPLETE = 2.0

# The shell puts a completion into its command line unquoted.
_HARMLESS_WORD = re.compile(r"[\w.-]+", re.ASCII)


def collections_to_add_to(
    service: ServiceOptions, client: "Client", given: tuple[str, ...], *, quiet: bool = False
) -> tuple[str, ...]:
    """Return the ids of the collections that are named somewhere, or of the only one there is.

    Raises:
        Failed: none is named, and the service has several, or none.
    """
    if named := service.collections(given).value:
        return named
    only = _only(
        client.list_collections(),
        "collection",
        "Pass --collection ID, set KNOWLEDGE_BOT_COLLECTION, or keep one with `kbot login "
        "--collection ID`.",
    )
    if not quiet:
        write_stderr(f"(adding to {_label(only)}, the only collection)")
    return (only.id,)


def bot_to_ask(client: "Client", given: str | None, *, quiet: bool = False) -> str:
    """Return the id of the bot that is named, or of the only one there is; say which, or not.

    Raises:
        Failed: none is named, and the service has several, or none.
    """
    if given is not None:
        return given
    only = _only(
        client.list_bots(),
        "bot",
        "Name one: kbot ask BOT QUESTION, kbot chat BOT, kbot check BOT FILE or kbot audit BOT.",
    )
    if not quiet:
        write_stderr(f"(asking {_label(only)}, the only bot)")
    return only.id


def _completing(find: "Callable[[Client, click.Context], Sequence[Any]]") -> Any:
    """Make what completes ids of a function that finds them in the service.

    If that fails or takes long, nothing is completed and nothing said: the shell has no place.
    """

    def complete(
        ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        if param.nargs != 1 and ctx.params.get(str(param.name)):
            return []  # of several words, only the first can be an id
        options, found = ctx.find_root().params, list[Any]()
        service = ServiceOptions(
            options.get("base_url"), options.get("profile"), timeout=_SECONDS_TO_COMPLETE
        )

        def ask() -> None:
            with suppress(BaseException), service.client() as client:
                found.extend(find(client, ctx))

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # The client's own timeout is one for each step, and it would try again.
            asking = threading.Thread(target=ask, daemon=True)
            asking.start()
            asking.join(_SECONDS_TO_COMPLETE)
        return _items([(one.id, one.name) for one in list(found)], incomplete)

    return complete


def _conversations(client: "Client", ctx: click.Context) -> "Sequence[Conversation]":
    """Find those of the bot that is named, or of the only one."""
    words = ctx.params.get("words") or (ctx.params.get("bot"),)
    named = words[0] if words[0] and _is_a_bots(words[0]) else None
    bots = [named] if named else [one.id for one in client.list_bots()]
    return client.list_conversations(bots[0]) if len(bots) == 1 else []


bot_ids = _completing(lambda client, _: client.list_bots())
collection_ids = _completing(lambda client, _: client.list_collections())
conversation_ids = _completing(_conversations)


def profile_names(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Complete a profile's name."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            profiles = read_profiles().values()
    except ConfigurationError:
        return []
    return _items(((one.name, one.base_url) for one in profiles), incomplete)


def bot_and(what: str, words: tuple[str, ...], *, several: str) -> tuple[str | None, str]:
    """Return the bot that is named, if one is, and what comes after it.

    Raises:
        click.UsageError: there are `several` words too many, the first of two is no bot's id, or
            there is only a bot.
    """
    if len(words) > 2:
        raise click.UsageError(several)
    if len(words) == 2 and not _is_a_bots(words[0]):
        if _is_a_bots(words[1]):
            raise click.UsageError(f"the bot stands first: {words[1]} {words[0]}")
        raise click.UsageError(
            f"{words[0]!r} is not the id of a bot, bot_…: `kbot bots` lists them. And {several}"
        )
    if len(words) == 1 and _is_a_bots(words[0]):
        raise click.UsageError(f"there is no {what} for {words[0]}")
    return (words[0] if len(words) == 2 else None), words[-1]


def _is_a_bots(word: str) -> bool:
    """Return whether a word can only be meant as a bot's id."""
    return re.fullmatch(r"bot_\S*", word) is not None


def collections_option(text: str) -> "Callable[[Command], Command]":
    """Make the option that names collections, with its help."""
    return click.option(
        "--collection",
        "collections",
        multiple=True,
        metavar="ID",
        shell_complete=collection_ids,
        help=text,
    )


adding_to = collections_option(
    "Add to this collection. Repeatable.  [default: KNOWLEDGE_BOT_COLLECTION, the ones of "
    "`kbot login`, or the only one there is]"
)


def _only(found: "Sequence[Any]", kind: str, ways: str) -> "Bot | Collection":
    if not found:
        raise Failed(f"The service has no {kind}; one has to be created there first.")
    if len(found) > 1:
        width = max(len(one.id) for one in found[:_LISTED])
        listed = [
            f"  {one.id:{width}}  {one_line(one.name) * (one.name != one.id)}".rstrip()
            for one in found[:_LISTED]
        ]
        if len(found) > _LISTED:
            listed.append(f"  … and {len(found) - _LISTED} more, see `kbot {kind}s`")
        raise Failed(
            "\n".join([f"Which {kind}? The service has {len(found)}:", *listed, ways]), Exit.USAGE
        )
    only: Bot | Collection = found[0]
    return only


def _label(one: "Bot | Collection") -> str:
    return one.id if one.name in ("", one.id) else f"{one.id}, {one_line(one.name)!r}"


def _items(found: "Iterable[tuple[str, str]]", incomplete: str) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem

    return [
        CompletionItem(word, help=one_line(text) or None)
        for word, text in found
        if word.startswith(incomplete) and _HARMLESS_WORD.fullmatch(word)
    ]
