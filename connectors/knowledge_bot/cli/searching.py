"""`kbot search`: the passages that fit a question, where the service announces `passages`."""

from typing import TYPE_CHECKING

import click

from knowledge_bot.cli.ids import bot_ids, collection_ids
from knowledge_bot.cli.output import listing
from knowledge_bot.cli.settings import Connection
from knowledge_bot.cli.texts import given_text

if TYPE_CHECKING:
    from knowledge_bot import Passage


@click.command()
@click.argument("query", metavar="QUESTION")
@click.option("--bot", metavar="ID", shell_complete=bot_ids, help="In this bot's collections.")
@click.option(
    "--collection",
    "collections",
    multiple=True,
    metavar="ID",
    shell_complete=collection_ids,
    help="In this collection. Repeatable.  [default: in all]",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 40),
    default=10,
    show_default=True,
    help="How many passages at most.",
)
@listing("name", "text", "id")
@click.pass_obj
def search(
    connection: Connection, query: str, bot: str | None, collections: tuple[str, ...], limit: int
) -> "list[Passage]":
    """Find the passages that fit a QUESTION best; no bot is asked.

    QUESTION is `-` to read it from stdin. With --json a passage also has the id and the revision of
    its source, its url and its score.

    \b
    kbot search "What does a reminder cost?"
    kbot search "opening hours" --bot bot_guide --limit 3 --json | jq -r '.[].text'
    """  # noqa: D301 - \b is for click
    content = given_text(query)
    with connection.client(needs_key=True) as client:
        return client.search(content, bot_id=bot, collections=collections or None, limit=limit)
