"""`kbot ingest`: many items, each exactly once. Each command only says where they are found."""

from collections.abc import Callable, Iterable
from typing import Any, Literal

import click

from knowledge_bot.cli.connection import Connection, collections_option
from knowledge_bot.cli.exits import Exit, Failed
from knowledge_bot.cli.ledgers import ledger_option, open_ledger

_OPTIONS = (
    collections_option,
    ledger_option,
    click.option(
        "--concurrency",
        type=click.IntRange(1, 100),
        default=8,
        show_default=True,
        help="How many requests may be under way at once.",
    ),
    click.option(
        "--on-unknown",
        type=click.Choice(["hold", "resend"]),
        default="hold",
        show_default=True,
        help="What to do with items that the service may or may not have: leave and report them "
        "(never twice), or send them again (never lost).",
    ),
    click.option("--dry-run", is_flag=True, help="Compare with the ledger, and send nothing."),
    click.option(
        "--json",
        "as_json",
        is_flag=True,
        help="Print lines of JSON: `progress` and `failure` as they come, `summary` at the end.",
    ),
)


@click.group()
def ingest() -> None:
    """Add many items, each exactly once over any number of runs.

    A ledger remembers what was sent: a second run sends what is new or changed, and what a killed
    run left uncertain is reported, not guessed about. Ctrl-C finishes what is under way.

    With --json each line has an "event": "failure" (kind, name, key, error), "progress" (the counts
    so far, once a second) and, last, "summary" (the counts, ok, duration in seconds, stopped).
    """


def _ingestion(find: Callable[..., Iterable[object]]) -> Callable[..., None]:
    """Make a command of a function that finds items: add the common options, and ingest."""

    def command(
        connection: Connection,
        /,
        *,
        collections: tuple[str, ...],
        ledger_address: str | None,
        concurrency: int,
        on_unknown: Literal["hold", "resend"],
        dry_run: bool,
        as_json: bool,
        **where: Any,
    ) -> None:
        from knowledge_bot.cli.run import ingest_and_report
        from knowledge_bot.ingest import LedgerError

        wanted = connection.collections(collections)
        try:
            with connection.client(needs_key=not dry_run) as client:
                ingest_and_report(
                    client,
                    find(**where),
                    collections=wanted,
                    ledger=open_ledger(ledger_address, for_writing=not dry_run),
                    concurrency=concurrency,
                    on_unknown=on_unknown,
                    dry_run=dry_run,
                    as_json=as_json,
                )
        except LedgerError as error:
            raise Failed(f"Nothing was sent: {error}", Exit.SOME_FAILED) from None

    command.__name__, command.__doc__ = find.__name__, find.__doc__
    made = click.pass_obj(command)
    for option in reversed(_OPTIONS):
        made = option(made)
    return made


@ingest.command()
@click.argument("path", metavar="FOLDER", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--glob",
    "patterns",
    multiple=True,
    default=("*",),
    metavar="PATTERN",
    help="Only these files: *.md by name, docs/**/*.md by path. Repeatable.  [default: all]",
)
@click.option("--hidden", is_flag=True, help="Take names that begin with a dot as well.")
@_ingestion
def folder(*, path: str, patterns: tuple[str, ...], hidden: bool) -> Iterable[object]:
    """Upload the files below FOLDER.

    Links that leave the folder are skipped. Each source is named by the file's path below it.

    \b
    kbot ingest folder handbook --collection col_handbook
    kbot ingest folder . --glob '*.md' --glob '*.pdf' --dry-run
    """  # noqa: D301 - \b is for click
    from knowledge_bot.ingest import from_folder

    return from_folder(path, patterns, hidden=hidden)


@ingest.command()
@click.argument("address", metavar="URL|FILE")
@_ingestion
def sitemap(*, address: str) -> Iterable[object]:
    """Add the pages of a sitemap, nested and compressed ones included.

    A page whose `lastmod` is newer than at the last run is added again.

    Example: kbot ingest sitemap https://library.example/sitemap.xml
    """
    from knowledge_bot.ingest import from_sitemap

    return from_sitemap(address)


@ingest.command()
@click.argument("address", metavar="URL|FILE")
@_ingestion
def feed(*, address: str) -> Iterable[object]:
    """Add the pages that an RSS or Atom feed links to.

    Example: kbot ingest feed https://library.example/news.xml
    """
    from knowledge_bot.ingest import from_feed

    return from_feed(address)


@ingest.command()
@click.argument("source", metavar="FILE")
@_ingestion
def urls(*, source: str) -> Iterable[object]:
    """Add the pages of a list of addresses.

    There is one address a line; `-` reads them from stdin.

    Example: grep ^https pages.txt | kbot ingest urls -
    """
    from knowledge_bot.ingest import from_urls

    return from_urls(source)


@ingest.command()
@click.argument("source", metavar="FILE")
@_ingestion
def jsonl(*, source: str) -> Iterable[object]:
    """Add items from lines of JSON.

    `-` reads them from stdin. Each line is an object with `url`, with `name` and `content`, or with
    `path`; all may have `name`, `collections` and `key`.

    \b
    kbot ingest jsonl items.jsonl
    sqlite3 -json shop.db 'select name, text as content from product' |
      jq -c '.[]' | kbot ingest jsonl -
    """  # noqa: D301 - \b is for click
    from knowledge_bot.ingest import from_jsonl

    return from_jsonl(source)
