"""`kbot ingest`: many items, each exactly once. Each command only says where they are found."""

import json
import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from knowledge_bot.cli.connection import Connection
from knowledge_bot.cli.exits import Exit, Failed
from knowledge_bot.cli.ids import collections_option, collections_to_add_to
from knowledge_bot.cli.ledgers import ledger_option, open_ledger
from knowledge_bot.cli.texts import seconds

if TYPE_CHECKING:
    from knowledge_bot.ingest import Ledger

# What SQLite puts beside a file while it is open.
_BESIDE_A_LEDGER = ("-wal", "-shm", "-journal")

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
    click.option(
        "--limit",
        type=click.IntRange(min=1),
        metavar="N",
        help="Send at most N items; the next run goes on.  [default: all]",
    ),
    click.option(
        "--rate",
        type=click.FloatRange(min=0, min_open=True),
        metavar="N",
        help="Send at most N items per second.  [default: as fast as the service takes them]",
    ),
    click.option(
        "--ledger-wait",
        callback=seconds,
        default="5m",
        metavar="TIME",
        help="How long to wait, in one outage, for a ledger whose database is locked, restarts or "
        "fails over: 600, 10m, 1h30m.  [default: 5m]",
    ),
    click.option(
        "--origin",
        metavar="NAME",
        help="A name for where the items come from, for use even if the place moves. Items that it "
        "no longer has are reported as gone.  [default: the folder, address or file itself]",
    ),
    click.option(
        "--gone-limit",
        type=click.FloatRange(0, 1),
        default=0.5,
        show_default=True,
        metavar="SHARE",
        help="If a larger share of the items vanishes at once, none is recorded as gone, since the "
        "place itself may be at fault: 0 to 1.",
    ),
    click.option(
        "--dry-run",
        is_flag=True,
        help="Compare with the ledger, list what would be created, and send nothing.",
    ),
    click.option("--quiet", is_flag=True, help="Write only errors to stderr."),
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
    so far, once a second), in a dry run "would_create" (name, key), and, last, "summary" (the
    counts, ok, duration in seconds, stopped).
    """


def _ingestion(find: Callable[..., Iterable[object]]) -> Callable[..., None]:
    """Make a command of a function that finds items: add the common options, and ingest."""

    def command(
        connection: Connection,
        /,
        *,
        collections: tuple[str, ...],
        ledger_address: str | None,
        as_json: bool,
        quiet: bool,
        watch: bool = False,
        **given: Any,
    ) -> None:
        from knowledge_bot.cli.run import Session
        from knowledge_bot.ingest import Ingestion, LedgerError

        how = {name: given.pop(name) for name in set(given) & set(Ingestion.__dataclass_fields__)}
        try:
            ledger = open_ledger(ledger_address, for_writing=not how["dry_run"])
            if "exclude" in given and "path" in given:
                given["exclude"] += _own_files(ledger, given["path"])
            with connection.client(needs_key=not how["dry_run"]) as client:
                wanted = collections_to_add_to(connection, client, collections, quiet=quiet)
                options = Ingestion(collections=wanted, ledger=ledger, **how)
                session = Session(client, options, as_json=as_json, quiet=quiet)
                if watch:
                    from knowledge_bot.cli.watching import watch_and_ingest

                    watch_and_ingest(session, given["path"], partial(find, **given))
                else:
                    session.end(session.run(find(**given)))
        except LedgerError as error:
            raise Failed(f"Nothing was sent: {error}", Exit.SOME_FAILED) from None

    command.__name__, command.__doc__ = find.__name__, find.__doc__
    made = click.pass_obj(command)
    for option in reversed(_OPTIONS):
        made = option(made)
    return made


def _own_files(ledger: "Ledger", folder: str) -> tuple[str, ...]:
    """Return patterns for the files in a folder that every run writes: its ledger, its output."""
    root, kept = Path(folder).resolve(), ledger.database.file
    files = [Path(f"/dev/fd/{number}").resolve() for number in (1, 2)]  # as in `> log.txt`
    if kept is not None:
        files += [kept.resolve().with_name(kept.name + end) for end in ("", *_BESIDE_A_LEDGER)]
    below = [file.relative_to(root).as_posix() for file in files if file.is_relative_to(root)]
    return tuple("/" + re.sub(r"([\\*?\[\] ])", r"\\\1", path) for path in below)


@ingest.command()
@click.argument("path", metavar="FOLDER", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--include",
    multiple=True,
    default=("*",),
    metavar="PATTERN",
    help="Only these files: *.md by name, docs/**/*.md by path. Repeatable.  [default: all]",
)
@click.option(
    "--exclude",
    multiple=True,
    metavar="PATTERN",
    help="Not these files, in .gitignore syntax: *.tmp, drafts/. Repeatable.",
)
@click.option("--hidden", is_flag=True, help="Include names that begin with a dot.")
@click.option(
    "--watch",
    is_flag=True,
    help="Keep running, and ingest again whenever a file changes, until Ctrl-C.",
)
@_ingestion
def folder(
    *, path: str, include: tuple[str, ...], exclude: tuple[str, ...], hidden: bool
) -> Iterable[object]:
    """Upload the files in FOLDER and its subfolders.

    Links that leave the folder are skipped. Each source is named by the file's path in it. A file
    .kbotignore in FOLDER says what to leave out, in .gitignore syntax.

    \b
    kbot ingest folder handbook --collection col_handbook
    kbot ingest folder . --include '*.md' --exclude drafts/ --dry-run
    kbot ingest folder handbook --watch
    """  # noqa: D301 - \b is for click
    from knowledge_bot.ingest import from_folder

    return from_folder(path, include, exclude=exclude, hidden=hidden)


def _settings(
    context: click.Context,  # noqa: ARG001 - click's
    option: click.Parameter,
    given: tuple[str, ...],
) -> dict[str, Any]:
    """Read `key=value` pairs; a value is JSON, or else a text."""
    settings: dict[str, Any] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name.isidentifier():
            # Without its value, which may be a secret.
            raise click.BadParameter(f"expected NAME=VALUE, not {name!r}", param=option)
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings


@ingest.command()
@click.argument("address", metavar="ADDRESS")
@click.option(
    "--exclude",
    multiple=True,
    metavar="PATTERN",
    help="Not these objects, in .gitignore syntax: *.tmp, drafts/. Repeatable.",
)
@click.option("--hidden", is_flag=True, help="Include names that begin with a dot.")
@click.option(
    "--set",
    "storage_options",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_settings,
    help="An option of the store for fsspec: endpoint_url=https://…, anon=true. VALUE is JSON or "
    "plain text. Repeatable. Other users of the machine can see it; keep keys where the store's "
    "own tools look for them, such as ~/.aws.",
)
@_ingestion
def objects(
    *, address: str, exclude: tuple[str, ...], hidden: bool, storage_options: dict[str, Any]
) -> Iterable[object]:
    """Upload the objects at ADDRESS in a store such as S3.

    The store's listing says which are new or changed; only these are read. ADDRESS is a URL of
    fsspec: a folder, or a pattern with `*` for a part of a name and `**/` for any number of
    folders. Install the package that its protocol needs, such as s3fs.

    \b
    kbot ingest objects 's3://bucket/docs/**/*.pdf' --collection col_handbook
    kbot ingest objects sftp://host/srv/docs --set username=reader --dry-run
    """  # noqa: D301 - \b is for click
    from knowledge_bot.ingest import from_objects

    return from_objects(address, exclude=exclude, hidden=hidden, storage_options=storage_options)


@ingest.command()
@click.argument("name", metavar="MODULE:CLASS")
@click.option(
    "--set",
    "arguments",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_settings,
    help="An argument of the class, or of its load_data. VALUE is JSON or plain text. Repeatable. "
    "Other users of the machine can see it; keep keys in the environment.",
)
@_ingestion
def loader(*, name: str, arguments: dict[str, Any]) -> Iterable[object]:
    """Add the documents of a loader of LangChain or a reader of LlamaIndex.

    The module is imported, so its code runs. With an --origin, documents that the loader no longer
    finds are reported as gone.

    \b
    kbot ingest loader langchain_community.document_loaders:CSVLoader --set file_path=books.csv
    kbot ingest loader llama_index.core:SimpleDirectoryReader --set input_dir=notes --origin notes
    """  # noqa: D301 - \b is for click
    from knowledge_bot.cli.loaders import loader_of
    from knowledge_bot.ingest import from_loader

    return from_loader(loader_of(name, arguments))


def _compared(default: str | None, ways: str) -> Callable[[Callable[..., None]], Any]:
    """Add the options of commands that read pages to compare them."""

    def add(command: Callable[..., None]) -> Any:
        for option in (
            click.option(
                "--allow-private",
                is_flag=True,
                help="Let public pages lead to private addresses.",
            ),
            click.option(
                "--requests",
                type=click.FloatRange(min=0.001),
                default=2.0,
                show_default=True,
                metavar="N",
                help="Request at most N pages per second.",
            ),
            click.option(
                "--compare",
                type=click.Choice(["content", "lastmod"]),
                default=default,
                show_default=default is not None,
                help=f"How to see that a page changed: {ways}",
            ),
        ):
            command = option(command)
        return command

    return add


@ingest.command()
@click.argument("url", metavar="URL")
@click.option("--depth", default=10, show_default=True, help="How many links to follow from URL.")
@click.option("--pages", default=10_000, show_default=True, help="How many pages to read at most.")
@click.option(
    "--include",
    multiple=True,
    metavar="PATTERN",
    help="Only these pages, in .gitignore syntax: docs/, *.html. Repeatable.",
)
@click.option(
    "--exclude",
    multiple=True,
    metavar="PATTERN",
    help="Not these pages, in the same notation. Repeatable.",
)
@_compared("content", "by its main text, or by what the sitemap or its server says.")
@click.option("--no-sitemaps", is_flag=True, help="Follow links only.")
@_ingestion
def site(*, url: str, requests: float, no_sitemaps: bool, **how: Any) -> Iterable[object]:
    """Add the pages of a whole site, found by its links and its sitemaps.

    Pages on the host of URL are read, slowly and one at a time, to find links and to compare their
    main text with the last run's; the service itself scrapes what is added. robots.txt, noindex and
    nofollow are obeyed. --dry-run lists the pages that would be sent.

    \b
    kbot ingest site https://library.example/ --dry-run
    kbot ingest site https://library.example/docs/ --include docs/ --collection col_docs
    """  # noqa: D301 - \b is for click
    from knowledge_bot.ingest import from_site

    return from_site(url, rate=requests, sitemaps=not no_sitemaps, **how)


@ingest.command()
@click.argument("address", metavar="URL|FILE")
@_compared("lastmod", "by its main text, for which it is read, or by its lastmod.")
@_ingestion
def sitemap(*, address: str, requests: float, **how: Any) -> Iterable[object]:
    """Add the pages of a sitemap, nested and compressed ones included.

    A page that changed since the last run is added again: by its `lastmod` or, with --compare
    content, by its main text.

    Example: kbot ingest sitemap https://library.example/sitemap.xml
    """
    from knowledge_bot.ingest import from_sitemap

    return from_sitemap(address, rate=requests, **how)


@ingest.command()
@click.argument("address", metavar="URL|FILE")
@_compared("lastmod", "by its main text, for which it is read, or by the time in the feed.")
@_ingestion
def feed(*, address: str, requests: float, **how: Any) -> Iterable[object]:
    """Add the pages that an RSS or Atom feed links to.

    Example: kbot ingest feed https://library.example/news.xml
    """
    from knowledge_bot.ingest import from_feed

    return from_feed(address, rate=requests, **how)


@ingest.command()
@click.argument("source", metavar="FILE")
@_compared(
    None,
    "by its main text, or by the time that its server names; it is read for both.  [default: not "
    "at all]",
)
@_ingestion
def urls(*, source: str, requests: float, **how: Any) -> Iterable[object]:
    """Add the pages of a list of addresses.

    There is one address per line; `-` reads them from stdin.

    \b
    grep ^https pages.txt | kbot ingest urls -
    kbot ingest urls pages.txt --compare content
    """  # noqa: D301 - \b is for click
    from knowledge_bot.ingest import from_urls

    return from_urls(source, rate=requests, **how)


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
