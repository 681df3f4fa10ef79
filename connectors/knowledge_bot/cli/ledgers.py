"""`kbot ledger`: what was sent, what is uncertain, and what a person found out about it."""

import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import click

from knowledge_bot.cli.exits import Exit, Failed
from knowledge_bot.cli.ids import collection_ids
from knowledge_bot.cli.output import F, as_json_option, write_document, write_table, write_text
from knowledge_bot.cli.settings import data_folder
from knowledge_bot.cli.terminal import write_stderr
from knowledge_bot.cli.texts import read_lines

if TYPE_CHECKING:
    from knowledge_bot.ingest import Entry, Ledger


def ledger_option(command: F) -> F:
    """Add the option `--ledger`."""
    return click.option(
        "--ledger",
        "ledger_address",
        envvar="KNOWLEDGE_BOT_LEDGER",
        metavar="FILE|URL",
        help="SQLite file, or postgresql://… (best in KNOWLEDGE_BOT_LEDGER, since it holds a "
        "password).  [default: kbot/ledger.db where your system keeps data]",
    )(command)


def open_ledger(address: str | None, *, for_writing: bool = False) -> "Ledger":
    """Return the ledger of `--ledger`, or the one that is used without it.

    Raises:
        LedgerError: the address cannot be used, or the folder of the usual ledger cannot be
            created (for writing only).
    """
    from knowledge_bot.ingest import Ledger, LedgerError

    if address is not None:
        return Ledger(address)
    folder = data_folder()
    try:
        if for_writing:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LedgerError(f"{folder} cannot be made for the ledger: {error.strerror}") from None
    return Ledger(folder / "ledger.db")


@click.group()
def ledger() -> None:
    """Read and settle the ledger that `kbot ingest` keeps.

    It remembers what was sent to which service and collections, so that nothing is sent twice.
    """


@ledger.command()
@ledger_option
@as_json_option
def status(ledger_address: str | None, as_json: bool) -> None:
    """Count what the ledger knows, by service and collections.

    Example: kbot ledger status
    """
    held = open_ledger(ledger_address).status()
    if as_json:
        write_document([one._asdict() for one in held])
        return
    states = ("created", "claimed", "refused", "unknown", "gone")
    write_table(
        ("service", "collections", *states),
        (
            (one.service, _joined(one.collections), *(getattr(one, state) for state in states))
            for one in held
        ),
    )


@ledger.command()
@ledger_option
@as_json_option
def unknown(ledger_address: str | None, as_json: bool) -> None:
    """List the items that the service may or may not have.

    Each was being sent when its worker was killed, or when no answer came. Look for it in the
    service, then record what you found with `kbot ledger resolve`.

    Example: kbot ledger unknown --json | jq -r '.[].key'
    """
    _write_troubled(open_ledger(ledger_address).unknown(), as_json=as_json)


@ledger.command()
@ledger_option
@as_json_option
def refused(ledger_address: str | None, as_json: bool) -> None:
    """List the items that the service refused, or that did not reach it.

    The next `kbot ingest` that finds them tries them again.

    Example: kbot ledger refused | cut -f5 | sort | uniq -c
    """
    _write_troubled(open_ledger(ledger_address).refused(), as_json=as_json)


@ledger.command()
@ledger_option
@as_json_option
def gone(ledger_address: str | None, as_json: bool) -> None:
    """List the items that the service has, but that are gone from where they came from.

    The interface cannot delete sources: remove them in the service by hand, then drop them from the
    ledger with `kbot ledger forget`.

    \b
    kbot ledger gone
    kbot ledger gone | cut -f1 | kbot ledger forget -
    """  # noqa: D301 - \b is for click
    entries = open_ledger(ledger_address).gone()
    if as_json:
        write_document([entry._asdict() for entry in entries])
        return
    # By their ids: the same key may stand for an item in other collections that is still there.
    write_table(
        ("id", "source", "name", "collections", "origin", "since"),
        (
            (
                entry.id,
                entry.source_id or "",
                entry.name,
                _joined(entry.collections),
                entry.origin or "",
                _minute(entry.gone_at),
            )
            for entry in entries
        ),
    )


@ledger.command()
@ledger_option
@as_json_option
def superseded(ledger_address: str | None, as_json: bool) -> None:
    """List the sources that newer ones replaced.

    The interface cannot delete sources: remove them in the service by hand, then drop them from the
    ledger with `kbot ledger forget`.

    \b
    kbot ledger superseded
    kbot ledger superseded | cut -f1 | kbot ledger forget -
    """  # noqa: D301 - \b is for click
    sources = open_ledger(ledger_address).superseded()
    if as_json:
        write_document([source._asdict() for source in sources])
        return
    write_table(
        ("source", "name", "collections", "replaced by", "since"),
        (
            (
                source.source_id,
                source.name,
                _joined(source.collections),
                source.replaced_by or "",
                _minute(source.superseded_at),
            )
            for source in sources
        ),
    )


@ledger.command()
@ledger_option
def export(ledger_address: str | None) -> None:
    """Print the refused items as lines of JSON, as `kbot ingest jsonl` takes them.

    The ledger keeps no content and no headers: texts are left out, and pages come without headers.

    Example: kbot ledger export | jq -c 'select(.url)' | kbot ingest jsonl -
    """
    kept = open_ledger(ledger_address)
    for line in kept.export():
        write_text(line)
    if texts := sum(entry.kind == "text" for entry in kept.refused()):
        write_stderr(
            f"Texts left out: {texts}. The ledger keeps no content; give them from their source."
        )


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
    shell_complete=collection_ids,
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
    item's key, an id of `kbot ledger gone`, or a source of `kbot ledger superseded`; `-` reads them
    from stdin, one per line.

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


@ledger.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@as_json_option
def copy(source: str, target: str, as_json: bool) -> None:
    """Copy a ledger, such as from a SQLite file to PostgreSQL.

    FROM and TO are SQLite files or postgresql://… addresses; TO holds no ledger yet. All is copied
    or nothing, and nothing while a run is using FROM. Afterwards use TO alone: neither ledger knows
    what is sent with the other. A password may come from PGPASSWORD or ~/.pgpass.

    Example: kbot ledger copy kbot.db postgresql://kbot@db.example/kbot
    """
    copied = open_ledger(source).copy_to(target)
    if as_json:
        write_document(copied)
        return
    write_table(("table", "rows"), copied.items())


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
        (collection is None or collection in entry.collections)
        and (origin is None or origin == entry.origin)
        for entry in entries
    )
    question = (
        f"Forget {count} of the ledger's {len(entries)} items? What is found again is sent again, "
        "whatever the service has."
    )
    if not click.confirm(question, err=True):
        raise Failed("Nothing is forgotten.")


def _write_troubled(entries: Iterable["Entry"], *, as_json: bool) -> None:
    if as_json:
        write_document([entry._asdict() for entry in entries])
        return
    write_table(
        ("key", "name", "collections", "since", "what happened"),
        (
            (
                entry.key,
                entry.name,
                _joined(entry.collections),
                _minute(entry.updated_at),
                entry.error,
            )
            for entry in entries
        ),
    )


def _keys(given: Iterable[str]) -> Iterator[str]:
    for key in given:
        if key == "-":
            yield from filter(None, read_lines("-"))
        else:
            yield key


def _joined(collections: Iterable[str]) -> str:
    return ", ".join(collections)


def _minute(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M}Z" if moment else ""
