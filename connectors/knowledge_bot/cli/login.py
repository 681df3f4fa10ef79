"""`kbot login` and `kbot logout`: the service and the key, kept in a file of yours."""

import os
import sys
from typing import TYPE_CHECKING

import click

from knowledge_bot.cli.connection import Connection
from knowledge_bot.cli.exits import Exit, Failed
from knowledge_bot.cli.settings import (
    Settings,
    read_settings,
    remove_settings,
    settings_file,
    write_settings,
)
from knowledge_bot.cli.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from knowledge_bot import Collection


@click.command()
@click.option("--key-stdin", is_flag=True, help="Read the key from stdin instead of asking for it.")
@click.option(
    "--collection",
    "wanted",
    multiple=True,
    metavar="ID",
    help="Add to this collection from now on. Repeatable.  [default: the only one, if it is]",
)
@click.pass_obj
def login(connection: Connection, key_stdin: bool, wanted: tuple[str, ...]) -> None:
    """Keep the service's address and your key in a file.

    Both are tried by listing the collections, then written with mode 600. Whether the service
    looks at the key for that is its own affair; if it does not, the first `ask` or `add` will tell.

    \b
    kbot login
    pass show kbot | kbot --base-url https://service.example login --key-stdin
    """  # noqa: D301 - \b is for click
    base_url = connection.base_url or _asked_address(key_stdin)
    key = _piped_key() if key_stdin else _asked_key()

    from pydantic import SecretStr

    from knowledge_bot import Client

    with Client(key, base_url, timeout=connection.timeout) as client:
        found = client.list_collections()
    chosen = _collections(wanted, found)
    file = write_settings(Settings(base_url, SecretStr(key), chosen))
    click.echo(f"The service answers. Written to {file}, for you alone to read.", err=True)
    if chosen:
        click.echo(f"Sources are added to {printable(', '.join(chosen))}.", err=True)
    else:
        click.echo("`kbot collections` lists the collections to choose from.", err=True)
    if os.environ.get("KNOWLEDGE_BOT_API_KEY"):
        click.echo("KNOWLEDGE_BOT_API_KEY is set, and wins over the file.", err=True)


@click.command()
def logout() -> None:
    """Remove the file that `kbot login` wrote.

    The key stays valid; only this machine forgets it.

    Example: kbot logout
    """
    if remove_settings():
        click.echo(f"{settings_file()} is removed.", err=True)
    else:
        click.echo(f"There is no {settings_file()}.", err=True)


def _asked_address(key_stdin: bool) -> str:
    if key_stdin or not sys.stdin.isatty():
        raise Failed("No service is named: kbot --base-url URL login …", Exit.USAGE)
    try:
        known = read_settings().base_url
    except Failed:  # a broken file is what a new login repairs
        known = None
    return str(click.prompt("Base URL", default=known, err=True))


def _asked_key() -> str:
    if not sys.stdin.isatty():
        raise Failed("There is no terminal to ask for the key; pipe it to --key-stdin.", Exit.USAGE)
    return str(click.prompt("API key (not shown)", hide_input=True, err=True)).strip()


def _piped_key() -> str:
    key = sys.stdin.readline().strip()
    if not key:
        raise Failed("stdin held no key.", Exit.USAGE)
    return key


def _collections(wanted: tuple[str, ...], found: "Sequence[Collection]") -> tuple[str, ...]:
    there = [one.id for one in found]
    if missing := [one for one in wanted if one not in there]:
        raise Failed(
            f"The service has no collection {', '.join(missing)}; it has "
            f"{', '.join(there) or 'none'}.",
            Exit.USAGE,
        )
    return wanted or (tuple(there) if len(there) == 1 else ())
