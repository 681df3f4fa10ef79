"""`kbot sources`: what is there, where the service announces `sources`."""

from typing import TYPE_CHECKING, Any

import click

from knowledge_bot.cli.exits import posting
from knowledge_bot.cli.ids import collection_ids
from knowledge_bot.cli.output import listing
from knowledge_bot.cli.settings import Connection

if TYPE_CHECKING:
    from knowledge_bot import SourceDetails


def _detail(source: dict[str, Any]) -> str:
    return "; ".join(filter(None, (source["reason"], *source["warnings"])))


_listing = listing("id", "name", "status", detail=_detail)


@click.group()
def sources() -> None:
    """List, show and delete sources, where the service announces that it can."""


@sources.command("list")
@click.option("--name", help="Only those of exactly this name.")
@click.option(
    "--status",
    multiple=True,
    metavar="STATUS",
    help="Only those that are pending, processing, ready or failed. Repeatable.",
)
@click.option(
    "--collection",
    "collections",
    multiple=True,
    metavar="ID",
    shell_complete=collection_ids,
    help="Only those in this collection. Repeatable.",
)
@_listing
@click.pass_obj
def list_(
    connection: Connection, name: str | None, status: tuple[str, ...], collections: tuple[str, ...]
) -> "list[SourceDetails]":
    """List the sources, the newest first.

    Example: kbot sources list --status failed
    """
    with connection.client() as client:
        return [*client.list_sources(name, status or None, collections or None)]


@sources.command()
@click.argument("source_id", metavar="ID")
@_listing
@click.pass_obj
def show(connection: Connection, source_id: str) -> "SourceDetails":
    """Show a source, why it failed, and what was left out of it.

    Example: kbot sources show src_42 --json
    """
    with connection.client() as client:
        return client.get_source(source_id)


@sources.command()
@click.argument("source_ids", nargs=-1, required=True, metavar="ID...")
@click.pass_obj
def delete(connection: Connection, source_ids: tuple[str, ...]) -> None:
    """Delete sources; one that is not there is fine. A ledger is not told: see `kbot ledger`.

    Example: kbot sources delete src_41 src_42
    """
    with connection.client(needs_key=True) as client:
        for source_id in source_ids:
            with posting():
                client.delete_source(source_id)
