"""Ids on the command line: named, or the only one that the service has."""

import re
import shlex
from typing import TYPE_CHECKING, Any, TypeVar

import click

from knowledge_bot.cli.exits import Exit, Failed
from knowledge_bot.cli.settings import ServiceOptions
from knowledge_bot.cli.terminal import one_line, write_stderr

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from knowledge_bot import Bot, Client, Collection

Command = TypeVar("Command", bound="Callable[..., Any] | click.Command")

# How many are listed where one has to be chosen.
_LISTED = 20


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
            raise click.UsageError(f"the bot stands first: {words[1]} {shlex.quote(words[0])}")
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
        help=text,
    )


adding_to = collections_option(
    "Add to this collection. Repeatable.  [default: KNOWLEDGE_BOT_COLLECTION, the ones of "
    "`kbot login`, or the only one there is]"
)


def check_collections(wanted: "Sequence[str]", found: "Sequence[Collection]") -> None:
    """Fail where one that is named is not among those that the service has."""
    there = [one.id for one in found]
    if missing := [one for one in wanted if one not in there]:
        raise Failed(
            f"The service has no collection {', '.join(missing)}; it has "
            f"{', '.join(there) or 'none'}.",
            Exit.USAGE,
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
