"""`kbot ingest`: many items, each exactly once. Each command only says where they are found."""

import contextlib
import json
import os
from collections.abc import Callable
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from knowledge_bot.cli.exits import Exit, Failed
from knowledge_bot.cli.ids import adding_to, collections_to_add_to
from knowledge_bot.cli.ledgers import ledger_option, open_ledger
from knowledge_bot.cli.output import quiet_option
from knowledge_bot.cli.settings import ServiceOptions
from knowledge_bot.cli.texts import CONCURRENCY, Suggesting, time_option
from knowledge_bot.errors import ConfigurationError

if TYPE_CHECKING:
    from knowledge_bot.ingest import Ledger

# What a run writes itself, as in `> log.txt`.
_OUTPUTS = (Path("/dev/fd/1"), Path("/dev/fd/2"))

# What SQLite puts beside a file while it is open.
_BESIDE_A_LEDGER = ("-wal", "-shm", "-journal")


class Share(click.FloatRange):
    """A number from 0 to 1, or a percentage."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return it as a number."""
        text = str(value).strip()
        with contextlib.suppress(ValueError):
            value = float(text.removesuffix("%")) / 100 if text.endswith("%") else value
        return super().convert(value, param, ctx)


_OPTIONS = (
    adding_to,
    ledger_option,
    click.option("--concurrency", default=8, **CONCURRENCY),
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
    time_option(
        "--ledger-wait",
        "5m",
        "How long to wait, in one outage, for a ledger whose database is locked, restarts or fails "
        "over: 600, 10m, 1h30m.  [default: 5m]",
    ),
    click.option(
        "--origin",
        "name",
        metavar="NAME",
        help="A name for where the items come from, for use even if the place moves.  [default: "
        "the folder, address or file itself]",
    ),
    click.option(
        "--gone-limit",
        type=Share(0, 1),
        default=0.5,
        show_default=True,
        metavar="SHARE",
        help="If a larger share of the items vanishes at once, none is recorded as gone, since the "
        "place itself may be at fault: 0 to 1, or 50%.",
    ),
    click.option(
        "--prune",
        type=click.Choice(["gone", "excluded"]),
        is_flag=False,
        flag_value="gone",
        help="What is deleted in the service at the end: what is gone from the origin, which is "
        "the default, or with `--prune excluded` also what a filter leaves out by now. Many at "
        "once are deleted when the next complete run misses them too, and what --gone-limit "
        "withholds never.",
    ),
    click.option(
        "--allow-empty", is_flag=True, help="Take it for right where nothing at all is found."
    ),
    click.option("--no-prune", is_flag=True, help="Delete nothing; what is gone is counted."),
    click.option(
        "--anyway",
        is_flag=True,
        help="Send also what another origin, or sources without one, hold already.",
    ),
    time_option(
        "--wait-ready",
        "0",
        "How long to wait at the end until the service answers from all that was sent: 60, 10m. "
        "What it cannot read is reported as failed.  [default: 0]",
    ),
    click.option(
        "--dry-run",
        is_flag=True,
        help="List what would be created, replaced or removed, and send nothing.",
    ),
    quiet_option,
    click.option(
        "--json",
        "as_json",
        is_flag=True,
        help="Print lines of JSON: `progress` and `failure` as they come, `summary` at the end.",
    ),
)


def _with(*options: Callable[[Any], Any]) -> Callable[..., Any]:
    """Add options to a command, in this order."""

    def add(command: Callable[..., None]) -> Any:
        return reduce(lambda made, option: option(made), reversed(options), command)

    return add


FINDERS: dict[str, Callable[..., Any]] = {}
"""What makes the origin of each command from its own arguments."""

COMMON = frozenset(
    ["watch", *(str(one.name) for one in _with(*_OPTIONS)(click.Command("")).params)]
)
"""The names of the options that are not about where items come from."""


class Places(Suggesting):
    """A group with a command for each kind of origin."""

    def meant(self, typed: str) -> str:
        """Return the command for what can only be a folder or an address."""
        if typed.startswith(("http://", "https://")):
            return f"site {typed}"
        return f"folder {typed}" if Path(typed).is_dir() else ""


@click.group(cls=Places)
def ingest() -> None:
    """Add many items, each exactly once over any number of runs.

    A second run sends what is new or changed, and nothing twice: the service keeps the book, or
    else a ledger on this machine. Ctrl-C finishes what is under way.

    With --json each line has an "event": "failure" (kind, name, key, error), "progress" (the counts
    so far, once a second), in a dry run "would_create", "would_replace", "would_move" or
    "would_remove" (name, key), and, last, "summary" (the counts, ok, duration in seconds, stopped).
    """


def _ingestion(find: Callable[..., Any]) -> Callable[..., None]:
    """Make a command of a function that finds items: add the common options, and ingest."""

    def command(
        service: ServiceOptions,
        /,
        *,
        collections: tuple[str, ...],
        ledger_address: str | None,
        as_json: bool,
        quiet: bool,
        prune: str | None,
        no_prune: bool,
        ledger_wait: float,
        watch: bool = False,
        **given: Any,
    ) -> None:
        from knowledge_bot.cli.run import ReportedRuns
        from knowledge_bot.ingest import Ingestion, LedgerError

        how = {name: given.pop(name) for name in set(given) & set(Ingestion.__dataclass_fields__)}
        if no_prune and prune:
            raise click.UsageError("pass --prune or --no-prune, one of the two")
        how["prune"] = prune if prune == "excluded" else not no_prune
        try:
            ledger = open_ledger(ledger_address, for_writing=not how["dry_run"], wait=ledger_wait)
            if "exclude" in given and "path" in given:
                given["exclude"] += (*_OUTPUTS, *_files_of(ledger))
            if given["name"] == "":
                raise click.UsageError("--origin: expected a name")
            given["name"] = given["name"] or ""
            origin = _found(find, given)
            with service.client(needs_key=not how["dry_run"]) as client:
                wanted = collections_to_add_to(service, client, collections, quiet=quiet)
                options = Ingestion(collections=wanted, ledger=ledger, **how)
                runs = ReportedRuns(
                    client, options, as_json=as_json, quiet=quiet, ledger_address=ledger_address
                )
                if watch:
                    from knowledge_bot.cli.watching import watch_and_ingest

                    watch_and_ingest(runs, given["path"], partial(find, **given))
                else:
                    runs.end(runs.run(origin))
        except LedgerError as error:
            raise Failed(f"Nothing was sent: {error}", Exit.SOME_FAILED) from None

    FINDERS[find.__name__] = find
    command.__name__, command.__doc__ = find.__name__, find.__doc__
    made: Callable[..., None] = _with(*_OPTIONS)(click.pass_obj(command))
    return made


def _found(find: Callable[..., Any], given: dict[str, Any]) -> Any:
    """Return the origin that a command names."""
    try:
        return find(**given)
    except ConfigurationError as error:
        if error.argument != "name" or given["name"]:
            raise
        raise click.UsageError(
            "pass --origin NAME, such as --origin articles: what is read has no name of its own"
        ) from None


def _files_of(ledger: "Ledger") -> list[Path]:
    kept = ledger.database.file
    if kept is None:
        return []
    return [kept.resolve().with_name(kept.name + end) for end in ("", *_BESIDE_A_LEDGER)]


def _patterns(name: str, text: str) -> Callable[..., Any]:
    return click.option(name, multiple=True, metavar="PATTERN", help=f"{text} Repeatable.")


class _FolderType(click.Path):
    """A folder; of a file, it says which command takes it."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """Return the folder's path, or fail."""
        if Path(value).is_file():
            self.fail(f"{value} is a file; `kbot add file` adds it, once", param, ctx)
        return super().convert(value, param, ctx)


_hidden_option = click.option("--hidden", is_flag=True, help="Include names that begin with a dot.")


@ingest.command()
@click.argument("path", metavar="FOLDER", type=_FolderType(exists=True, file_okay=False))
@click.option(
    "--include",
    multiple=True,
    default=("*",),
    metavar="PATTERN",
    help="Only these files: *.md by name, docs/**/*.md by path. Repeatable.  [default: all]",
)
@_patterns("--exclude", "Not these files, in .gitignore syntax: *.tmp, drafts/.")
@_hidden_option
@click.option(
    "--marker",
    metavar="NAME",
    help="A file that must be in FOLDER, such as .kbot-origin; without it nothing is taken, and "
    "nothing is gone.",
)
@click.option(
    "--watch",
    is_flag=True,
    help="Keep running, and ingest again whenever a file changes, until Ctrl-C.",
)
@_ingestion
def folder(path: str, **how: Any) -> Any:
    """Upload the files in FOLDER and its subfolders.

    Links that leave the folder are skipped. Each source is named by the file's path in it. A file
    .kbotignore in FOLDER says what to leave out, in .gitignore syntax.

    \b
    kbot ingest folder handbook --collection col_handbook
    kbot ingest folder . --include '*.md' --exclude drafts/ --dry-run
    kbot ingest folder handbook --wait-ready 60
    kbot ingest folder handbook --watch
    """  # noqa: D301 - \b is for click
    from knowledge_bot.origins import Folder

    return Folder(path, **how)


def _set_option(argument: str, text: str) -> Callable[..., Any]:
    return click.option(
        "--set", argument, multiple=True, metavar="NAME=VALUE", callback=_settings, help=text
    )


def _settings(_: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, Any]:
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
@_patterns("--exclude", "Not these objects, in .gitignore syntax: *.tmp, drafts/.")
@_hidden_option
@_set_option(
    "storage_options",
    "An option of the store for fsspec: endpoint_url=https://…, anon=true. VALUE is JSON or "
    "plain text. Repeatable. Other users of the machine can see it; keep keys where the store's "
    "own tools look for them, such as ~/.aws.",
)
@_ingestion
def objects(address: str, **how: Any) -> Any:
    """Upload the objects at ADDRESS in a store such as S3.

    The store's listing says which are new or changed; only these are read. ADDRESS is a URL of
    fsspec: a folder, or a pattern with `*` for a part of a name and `**/` for any number of
    folders. Install the package that its protocol needs, such as s3fs.

    \b
    kbot ingest objects 's3://bucket/docs/**/*.pdf' --collection col_handbook
    kbot ingest objects sftp://host/srv/docs --set username=reader --dry-run
    """  # noqa: D301 - \b is for click
    from knowledge_bot.origins import Objects

    return Objects(address, **how)


@ingest.command()
@click.argument("of", metavar="MODULE:CLASS")
@_set_option(
    "arguments",
    "An argument of the class, or of its load_data. VALUE is JSON or plain text. Repeatable. "
    "Other users of the machine can see it; keep keys in the environment.",
)
@_ingestion
def loader(*, of: str, arguments: dict[str, Any], **how: Any) -> Any:
    """Add the documents of a loader of LangChain or a reader of LlamaIndex.

    The module is imported, so its code runs. With an --origin, documents that the loader no longer
    finds are gone.

    \b
    kbot ingest loader langchain_community.document_loaders:CSVLoader --set file_path=books.csv
    kbot ingest loader llama_index.core:SimpleDirectoryReader --set input_dir=notes --origin notes
    """  # noqa: D301 - \b is for click
    from knowledge_bot.cli.loaders import loader_of
    from knowledge_bot.origins import Loader

    return Loader(loader_of(of, arguments), **how)


@ingest.command()
@click.argument("database", metavar="DATABASE")
@click.argument("query", metavar="QUERY")
@click.option("--key", required=True, metavar="COLUMN", help="What identifies a row.")
@click.option("--text", required=True, metavar="COLUMN", help="What it says.")
@click.option("--title", metavar="COLUMN", help="What the source is called.  [default: the key]")
@click.option(
    "--version",
    metavar="COLUMN",
    help="What changes when the text does, such as a time.  [default: the text is compared]",
)
@_ingestion
def sql(*, query: str, **how: Any) -> Any:
    """Add the rows of QUERY, one text in each; --origin names the table.

    DATABASE is a file of SQLite or an address: postgresql://… (with the extra `postgresql`), or one
    that SQLAlchemy takes, where that and the driver are installed. Other users of the machine can
    see it; keep passwords where the driver looks for them, such as ~/.pgpass.

    \b
    kbot ingest sql library.db 'select id, title, body from article' \\
      --key id --text body --title title --origin articles
    kbot ingest sql postgresql://reader@db.example/library 'select * from article' \\
      --key id --text body --version changed_at --origin articles
    """  # noqa: D301 - \b is for click
    from knowledge_bot.origins import Sql

    return Sql(query, **how)


def _compare(default: str | None, *ways: str, by: str) -> Callable[[Callable[..., None]], Any]:
    """Add the option that says how a change of a page is seen."""
    return click.option(
        "--compare",
        type=click.Choice(ways),
        default=default,
        show_default=default is not None,
        help=f"How to see that a page changed: {by}",
    )


def _reading() -> Callable[[Callable[..., None]], Any]:
    """Add the options of commands that read pages to compare them."""
    return _with(
        click.option(
            "--ignore",
            metavar="REGEX",
            help="What does not count in a main text, such as 'Today is .*'.",
        ),
        click.option(
            "--reread",
            is_flag=True,
            help="Read all pages. Otherwise those that are said to be unchanged are read about "
            "once a week.",
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
            "--allow-private", is_flag=True, help="Let public pages lead to private addresses."
        ),
    )


@ingest.command()
@click.argument("url", metavar="URL")
@click.option("--depth", default=10, show_default=True, help="How many links to follow from URL.")
@click.option("--pages", default=10_000, show_default=True, help="How many pages to read at most.")
@_patterns("--include", "Only these pages, in .gitignore syntax: docs/, *.html.")
@_patterns("--exclude", "Not these pages, in the same notation.")
@_reading()
@click.option("--no-sitemaps", is_flag=True, help="Follow links only.")
@_ingestion
def site(*, url: str, requests: float, no_sitemaps: bool, **how: Any) -> Any:
    """Add the pages of a whole site, found by its links and its sitemaps.

    Pages on the host of URL are read, slowly and one at a time, to find links and to compare their
    main text with the last run's; the service itself scrapes what is added. robots.txt, noindex and
    nofollow are obeyed. --dry-run lists the pages that would be sent.

    \b
    kbot ingest site https://library.example/ --dry-run
    kbot ingest site https://library.example/docs/ --include docs/ --collection col_docs
    """  # noqa: D301 - \b is for click
    from knowledge_bot.origins import Site

    return Site(url, rate=requests, sitemaps=not no_sitemaps, **how)


@ingest.command()
@click.argument("address", metavar="URL|FILE")
@_compare("lastmod", "content", "lastmod", by="by its main text, for which it is read, or lastmod.")
@_reading()
@_ingestion
def sitemap(*, address: str, requests: float, **how: Any) -> Any:
    """Add the pages of a sitemap, nested and compressed ones included.

    A page that changed since the last run is added again: by its `lastmod` or, with --compare
    content, by its main text.

    Example: kbot ingest sitemap https://library.example/sitemap.xml
    """
    from knowledge_bot.origins import Sitemap

    return Sitemap(address, rate=requests, **how)


@ingest.command()
@click.argument("address", metavar="URL|FILE")
@_compare(
    "lastmod",
    "content",
    "lastmod",
    by="by its main text, for which it is read, or by the time in the feed.",
)
@_reading()
@_ingestion
def feed(*, address: str, requests: float, **how: Any) -> Any:
    """Add the pages that an RSS or Atom feed links to.

    Example: kbot ingest feed https://library.example/news.xml
    """
    from knowledge_bot.origins import Feed

    return Feed(address, rate=requests, **how)


@ingest.command()
@click.argument("source", metavar="FILE")
@_compare(None, "content", by="by its main text, for which it is read.  [default: not at all]")
@_reading()
@_ingestion
def urls(*, source: str, requests: float, **how: Any) -> Any:
    """Add the pages of a list of addresses.

    There is one address per line; `-` reads them from stdin.

    \b
    grep ^https pages.txt | kbot ingest urls -
    kbot ingest urls pages.txt --compare content
    """  # noqa: D301 - \b is for click
    from knowledge_bot.origins import Urls

    return Urls(source, rate=requests, **how)


@ingest.command()
@click.argument("source", metavar="FILE")
@_ingestion
def jsonl(*, source: str, **how: Any) -> Any:
    """Add items from lines of JSON.

    `-` reads them from stdin. Each line is an object with `url`, with `name` and `content`, or with
    `path`; all may have `name`, `collections` and `key`.

    \b
    kbot ingest jsonl items.jsonl
    sqlite3 -json shop.db 'select name, text as content from product' |
      jq -c '.[]' | kbot ingest jsonl -
    """  # noqa: D301 - \b is for click
    from knowledge_bot.origins import JsonLines

    return JsonLines(source, **how)
