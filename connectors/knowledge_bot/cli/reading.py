"""`kbot ping`, `collections`, `bots` and `conversations`: what changes nothing."""

import click

from knowledge_bot.cli.connection import Connection
from knowledge_bot.cli.ids import bot_ids
from knowledge_bot.cli.output import as_json_option, write_listing, write_text


@click.command()
@click.pass_obj
def ping(connection: Connection) -> None:
    """Check that the service is alive.

    It tells nothing about the key; `kbot bots` does, where the service asks for one to read.

    Example: kbot ping && echo "It is up."
    """
    with connection.client() as client:
        client.ping()
    write_text("pong")


@click.command()
@as_json_option
@click.pass_obj
def collections(connection: Connection, as_json: bool) -> None:
    """List the collections.

    Example: kbot collections --json | jq -r '.[].id'
    """
    with connection.client() as client:
        write_listing(client.list_collections(), as_json=as_json)


@click.command()
@as_json_option
@click.pass_obj
def bots(connection: Connection, as_json: bool) -> None:
    """List the bots.

    Example: kbot bots | cut -f1
    """
    with connection.client() as client:
        write_listing(client.list_bots(), as_json=as_json)


@click.command()
@click.argument("bot", shell_complete=bot_ids)
@as_json_option
@click.pass_obj
def conversations(connection: Connection, bot: str, as_json: bool) -> None:
    """List the conversations of BOT, an id as in `kbot bots`.

    Example: kbot conversations bot_guide
    """
    with connection.client() as client:
        write_listing(client.list_conversations(bot), as_json=as_json)
