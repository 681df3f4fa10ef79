"""`kbot ledger`: what was sent, what is uncertain, and what a person found out about it."""

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any, TextIO

import click

from knowledge_bot._profiles import data_folder
from knowledge_bot.cli.exits import Exit, Failed
from knowledge_bot.cli.output import (
    as_json_option,
    listing,
    write_document,
    write_table,
    write_text,
)
from knowledge_bot.cli.terminal import write_stderr
from knowledge_bot.cli.texts import Suggesting, read_lines

if TYPE_CHECKING:
    from knowledge_bot.ingest import Entry, Ledger, LedgerCounts, SupersededSource


ledger_option = click.option(
    "--ledger",
    "ledger_address",
    envvar="KNOWLEDGE_BOT_LEDGER",
    metavar="FILE|URL",
    help="For a service without the extension `sync`: SQLite file, or postgresql://… (best in "
    "KNOWLEDGE_BOT_LEDGER, since it holds a password).  [default: kbot/ledger.db where your system "
    "keeps data]",
)


def open_ledger(address: str | None, *, for_writing: bool = False, wait: float = 300.0) -> "Ledger":
    """Return the ledger of `--ledger`, or the one that is used without it.

    Raises:
        LedgerError: the address cannot be used, or the folder of the usual ledger cannot be
            created (for writing only).
    """
    from knowledge_bot.ingest import Ledger, LedgerError

    if address is not None:
        return Ledger(address, wait=wait)
    folder = data_folder()
    try:
        if for_writing:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LedgerError(f"{folder} cannot be made for the ledger: {error.strerror}") from None
    return Ledger(folder / "ledger.db", wait=wait)


@click.group(cls=Suggesting)
def ledger() -> None:
    """Read and settle the ledger that `kbot ingest` keeps.

    It remembers what was sent to which service and collections, so that nothing is sent twice.
    """


def _listing(
    *columns: str, advice: str = ""
) -> Callable[[Callable[["Ledger"], Any]], click.Command]:
    """Make a command of a function that finds records in the ledger; advice goes into its help."""

    def decorate(find: Callable[["Ledger"], Any]) -> click.Command:
        find.__doc__ = f"{find.__doc__ or ''}{advice.format(find.__name__)}"

        @wraps(find)
        def command(ledger_address: str | None) -> Any:
            return find(open_ledger(ledger_address))

        return ledger.command()(ledger_option(listing(*columns)(command)))

    return decorate


@_listing("service", "collections", "created", "claimed", "refused", "unknown", "gone")
def status(kept: "Ledger") -> "Iterable[LedgerCounts]":
    """Count what the ledger knows, by service and collections.

    Example: kbot ledger status
    """
    return kept.status()


@_listing("key", "name", "collections", "since=updated_at", "what happened=error")
def unknown(kept: "Ledger") -> "Iterable[Entry]":
    """List the items that the service may or may not have.

    Each was being sent when its worker was killed, or when no answer came. Look for it in the
    service, then record what you found with `kbot ledger resolve`.

    Example: kbot ledger unknown --json | jq -r '.[].key'
    """
    return kept.unknown()


# Both begin alike, so that a script takes the same column of each. A key is not in them: it may
# also stand for an item in other collections that is still there.
_SOURCE = ("source=source_id", "name", "collections")

_TO_REMOVE = """

`kbot ingest` deletes them where the service can. Elsewhere remove them there by hand,
then drop them from the ledger with `kbot ledger forget`.

\b
kbot ledger {0}
kbot ledger {0} | cut -f1 | kbot ledger forget -
"""


@_listing(*_SOURCE, "since=gone_at", "why=gone_reason", "origin", "id", advice=_TO_REMOVE)
def gone(kept: "Ledger") -> "Iterable[Entry]":
    """List the items that the service has, but that are gone from where they came from."""
    return kept.gone()


@_listing(*_SOURCE, "since=superseded_at", "replaced by=replaced_by", advice=_TO_REMOVE)
def superseded(kept: "Ledger") -> "Iterable[SupersededSource]":
    """List the sources that newer ones replaced."""
    return kept.superseded()


@ledger.command()
@ledger_option
def export(ledger_address: str | None) -> None:
    """Print all that the ledger knows as lines of JSON, for `kbot ledger import` elsewhere.

    Nothing is printed while a run is using it. From then on use one of the two ledgers alone:
    neither knows what is sent with the other.

    Example: kbot ledger export > ledger.jsonl
    """
    for line in open_ledger(ledger_address).export():
        write_text(line)


@ledger.command("import")
@click.argument("file", type=click.File("r", encoding="utf-8-sig"))
@ledger_option
@as_json_option
def import_(file: TextIO, ledger_address: str | None, as_json: bool) -> None:
    """Make a ledger from what `kbot ledger export` printed: all of it, or nothing is there.

    There is no ledger at that address yet. FILE is `-` for stdin.

    \b
    kbot ledger export --ledger kbot.db | \\
      kbot ledger import - --ledger postgresql://kbot@db.example/kbot
    """  # noqa: D301 - \b is for click
    counts = open_ledger(ledger_address, for_writing=True).import_from(file)
    if as_json:
        write_document(counts)
        return
    write_table(("table", "rows"), counts.items())


@ledger.command()
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@click.option(
    "--created",
    metavar="ID",
    help="The service has it as source ID, or `unknown` if no id can be seen.",
)
@click.option("--not-created", is_flag=True, help="The service does not have it.")
@ledger_option
def resolve(
    keys: tuple[str, ...], created: str | None, not_created: bool, ledger_address: str | None
) -> None:
    """Record what became of an unknown item, after looking in the service.

    What was not created is sent by the next `kbot ingest`. KEY is `-` to read keys from stdin, one
    per line.

    \b
    kbot ledger resolve /srv/handbook/hours.md --created src_42
    kbot ledger unknown | cut -f1 | kbot ledger resolve - --not-created
    """  # noqa: D301 - \b is for click
    if (created is not None) == not_created:
        raise click.UsageError("pass --created ID or --not-created, one of the two")
    wanted = list(_keys(keys))
    source_id = None if created == "unknown" else created
    if source_id is not None and (not source_id.startswith("src_") or len(wanted) > 1):
        raise click.BadParameter(
            f"{created!r} is not the id src_… of one item", param_hint="--created"
        )
    kept = open_ledger(ledger_address)
    for key in wanted:
        entry = kept.resolve(key, created=not not_created, source_id=source_id)
        write_text(f"{entry.key}\t{'created' if entry.state == 'created' else 'not created'}")


@ledger.command()
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@click.option(
    "--collection",
    metavar="ID",
    help="Items in this collection; with a KEY, only there.",
)
@click.option(
    "--origin", metavar="NAME", help="Items from this origin, as `kbot ledger gone` shows it."
)
@click.option("--all", "everything", is_flag=True, help="All items of the ledger.")
@click.option("--yes", is_flag=True, help="Do not ask; needed if there is no terminal.")
@ledger_option
def forget(
    *,
    keys: tuple[str, ...],
    collection: str | None,
    origin: str | None,
    everything: bool,
    yes: bool,
    ledger_address: str | None,
) -> None:
    """Forget items whose sources somebody removed from the service.

    What is forgotten and found again is sent again, even if the service still has it. KEY is an
    item's key, its id, or a source of `kbot ledger gone` or `kbot ledger superseded`; `-` reads
    them from stdin, one per line.

    \b
    kbot ledger forget /srv/handbook/hours.md
    kbot ledger gone | cut -f1 | kbot ledger forget -
    kbot ledger forget --collection col_old
    """  # noqa: D301 - \b is for click
    if everything and (keys or collection or origin):
        raise click.UsageError("--all goes with no KEY, --collection or --origin")
    kept = open_ledger(ledger_address)
    if keys:
        _forget_keys(kept, _keys(keys), collection, origin)
        return
    if not (everything or collection or origin):
        raise click.UsageError("name a KEY, a --collection or an --origin, or pass --all")
    if not yes:
        _confirm(kept, collection, origin)
    count = kept.forget(collection=collection, origin=origin, everything=everything)
    write_text(f"{count}\tforgotten")


def _forget_keys(
    kept: "Ledger", keys: Iterable[str], collection: str | None, origin: str | None
) -> None:
    missing = 0
    for key in keys:
        if kept.forget(key, collection=collection, origin=origin):
            write_text(f"{key}\tforgotten")
        else:
            missing += 1
            write_stderr(f"The ledger knows no such item: {key}")
    if missing:
        raise Failed(f"{missing} not forgotten; see above.", Exit.SOME_FAILED)


def _confirm(kept: "Ledger", collection: str | None, origin: str | None) -> None:
    """Ask whether to forget; return if the answer is yes.

    Raises:
        Failed: the answer is no.
        click.UsageError: there is no terminal to ask at.
    """
    if not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask at: pass --yes")
    entries = list(kept.entries())
    count = sum(
        collection in (None, *entry.collections) and origin in (None, entry.origin)
        for entry in entries
    )
    question = (
        f"Forget {count} of the ledger's {len(entries)} items? What is found again is sent again, "
        "whatever the service has."
    )
    if not click.confirm(question, err=True):
        raise Failed("Nothing is forgotten.")


def _keys(given: Iterable[str]) -> Iterator[str]:
    for key in given:
        if key == "-":
            yield from filter(None, read_lines("-"))
        else:
            yield key
