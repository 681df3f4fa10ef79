"""`kbot ping`, `collections`, `bots`, `conversations`, `sources` and `api`."""

import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from knowledge_bot.cli.exits import Exit, Failed, falling_back_to_stderr, posting
from knowledge_bot.cli.ids import check_collections, collections_option
from knowledge_bot.cli.output import listing, write_bytes, write_text
from knowledge_bot.cli.settings import ServiceOptions
from knowledge_bot.cli.terminal import write_stderr
from knowledge_bot.cli.texts import Suggesting, given_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from knowledge_bot import Bot, Collection, Conversation, SourceDetails, SyncOrigin
    from knowledge_bot._endpoints import Method

_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


@click.command()
@click.pass_obj
def ping(service: ServiceOptions) -> None:
    """Check that the service is alive.

    This says nothing about the key; `kbot bots` does, if the service requires one for reading.

    Example: kbot ping && echo "It is up."
    """
    with service.client() as client:
        client.ping()
    write_text("pong")


@click.command()
@listing("id", "name")
@click.pass_obj
def collections(service: ServiceOptions) -> "Sequence[Collection]":
    """List the collections.

    Example: kbot collections --json | jq -r '.[].id'
    """
    with service.client() as client:
        return client.list_collections()


@click.command()
@listing("id", "name")
@click.pass_obj
def bots(service: ServiceOptions) -> "Sequence[Bot]":
    """List the bots.

    Example: kbot bots | cut -f1
    """
    with service.client() as client:
        return client.list_bots()


@click.command()
@click.argument("bot")
@listing("id", "name")
@click.pass_obj
def conversations(service: ServiceOptions, bot: str) -> "Sequence[Conversation]":
    """List the conversations of BOT, an id as in `kbot bots`.

    Example: kbot conversations bot_guide
    """
    with service.client() as client:
        return client.list_conversations(bot)


def _detail(source: dict[str, Any]) -> str:
    return "; ".join(filter(None, (source["reason"], *source["warnings"])))


_listing = listing("id", "name", "status", detail=_detail)


@click.group(cls=Suggesting)
def sources() -> None:
    """List, show and delete sources, and the origins that they come from.

    Sources need a service that announces `sources`, origins one that announces `sync`.
    """


@sources.command("list")
@click.option("--name", help="Only those of exactly this name.")
@click.option(
    "--status",
    multiple=True,
    metavar="STATUS",
    help="Only those that are pending, processing, ready or failed. Repeatable.",
)
@collections_option("Only those in this collection. Repeatable.")
@_listing
@click.pass_obj
def list_(
    service: ServiceOptions,
    name: str | None,
    status: tuple[str, ...],
    collections: tuple[str, ...],
) -> "list[SourceDetails]":
    """List the sources, the newest first.

    Example: kbot sources list --status failed
    """
    with service.client() as client:
        found = client.list_sources(name, status or None, collections or None)
        if not found and collections:  # where a name with a typo has no sources either
            check_collections(collections, client.list_collections())
        return found


@sources.command()
@click.argument("source_id", metavar="ID")
@_listing
@click.pass_obj
def show(service: ServiceOptions, source_id: str) -> "SourceDetails":
    """Show a source, why it failed, and what was left out of it.

    Example: kbot sources show src_42 --json
    """
    with service.client() as client:
        return client.get_source(source_id)


@sources.command()
@click.argument("source_ids", nargs=-1, required=True, metavar="ID...")
@click.pass_obj
def delete(service: ServiceOptions, source_ids: tuple[str, ...]) -> None:
    """Delete sources; one that is not there is fine.

    What an origin still holds is sent again by its next run where the service announces `sync`;
    a ledger is not told, see `kbot ledger`.

    Example: kbot sources delete src_41 src_42
    """
    with service.client(needs_key=True) as client:
        for source_id in source_ids:
            with posting():
                client.delete_source(source_id)
            write_stderr(f"({source_id} is deleted, or was not there)")


def _completed(origin: dict[str, Any]) -> datetime | None:
    moment = origin["completed_at"]
    return None if moment is None else datetime.fromtimestamp(moment / 1000, UTC)


@sources.command()
@listing("origin=name", "sources=count", completed=_completed)
@click.pass_obj
def origins(service: ServiceOptions) -> "Sequence[SyncOrigin]":
    """List the origins that the service knows, and when each was enumerated to its end.

    An origin is what `kbot ingest` feeds from, such as a folder, under its --origin.

    Example: kbot sources origins --json | jq -r '.[].name'
    """
    with service.client() as client:
        return client.list_origins()


@sources.command("rename-origin")
@click.argument("origin")
@click.argument("name")
@click.pass_obj
def rename_origin(service: ServiceOptions, origin: str, name: str) -> None:
    """Give ORIGIN another NAME, so that what is fed under that name is the same; nothing is sent.

    Example: kbot sources rename-origin /home/ada/handbook /srv/handbook
    """
    with service.client(needs_key=True) as client, posting():
        renamed = client.rename_origin(origin, name)
    write_stderr(f"({origin} is {renamed.name} now; it has {renamed.count} sources)")


@sources.command("delete-origin")
@click.argument("origin")
@click.option("--yes", is_flag=True, help="Do not ask; needed if there is no terminal.")
@click.pass_obj
def delete_origin(service: ServiceOptions, origin: str, *, yes: bool) -> None:
    """Delete ORIGIN with all its sources; one that is not there is fine.

    Example: kbot sources delete-origin /home/ada/handbook --yes
    """
    if not (yes or sys.stdin.isatty()):
        raise click.UsageError("there is no terminal to ask at: pass --yes")
    with service.client(needs_key=True) as client:
        if not yes:
            count = client.compare_origin(origin).count
            if not click.confirm(f"Delete the {count} sources of {origin}?", err=True):
                raise Failed("Nothing is deleted.")
        with posting():
            client.delete_origin(origin)
    write_stderr(f"({origin} is deleted, or was not there)")


@click.command()
@click.argument("method", type=click.Choice(_METHODS, case_sensitive=False))
@click.argument("path")
@click.option("--data", metavar="JSON", help="The body, sent as it is; `-` reads it from stdin.")
@click.pass_obj
def api(service: ServiceOptions, method: "Method", path: str, data: str | None) -> None:
    """Send one request and print the answer's body as it came.

    PATH is relative to the base URL. Bodies are sent as given: wrap them in "value", as the
    interface does. A POST is retried only if that cannot duplicate anything, as everywhere else.

    \b
    kbot api GET /bots | jq .value.data
    kbot api POST /messages --data '{"value": {"bot_id": "bot_guide", "content": "Hello"}}'
    """  # noqa: D301 - \b is for click
    _check_path(path)
    body = None if data is None else _json_body(given_text(data))
    if method in ("GET", "DELETE") and body is not None:
        raise click.UsageError(f"a {method} has no body: leave --data out, or send a POST")

    from knowledge_bot._endpoints import Request

    with service.client(needs_key=method != "GET") as client:
        if method == "GET":
            write_bytes(client._call(Request("GET", path, bytes)))  # noqa: SLF001 - the core's own
            return
        sent = None if method == "DELETE" else body or b"{}"
        with posting():
            answer = client._call(Request(method, path, bytes, sent))  # noqa: SLF001
    with falling_back_to_stderr(f"The answer:\n{answer.decode('utf-8', 'replace')}"):
        write_bytes(answer)


def _check_path(path: str) -> None:
    # The path is put behind the base URL, so it can lead to no other host; dot segments could lead
    # out of the base URL's own path.
    if not path.startswith("/") or re.search(r"[\x00-\x20\x7f#\\]", path):
        raise click.BadParameter(
            f"{path!r} is not a path such as /bots; percent-encode spaces", param_hint="PATH"
        )
    if any(re.fullmatch(r"(\.|%2e){1,2}", part, re.IGNORECASE) for part in path.split("/")):
        raise click.BadParameter(f"{path!r} holds a . or .. segment", param_hint="PATH")


def _json_body(text: str) -> bytes:
    from json import JSONDecodeError, loads

    try:
        loads(text)
        return text.encode("utf-8")
    except JSONDecodeError as error:
        raise Failed(f"--data: is not JSON: {error}.", Exit.USAGE) from None
    except UnicodeEncodeError:
        raise Failed("--data: is not UTF-8 text.", Exit.USAGE) from None
