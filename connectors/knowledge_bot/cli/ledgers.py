"""`kbot ledger`: what was sent, what is uncertain, and what a person found out about it."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from knowledge_bot.cli.output import F, as_json_option, write_document, write_table, write_text
from knowledge_bot.cli.settings import data_folder
from knowledge_bot.cli.texts import read_lines

if TYPE_CHECKING:
    from knowledge_bot.ingest import Ledger


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
        LedgerError: the address is none, or the folder of the usual ledger cannot be made, which is
            tried for writing only.
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
        write_document([asdict(one) for one in held])
        return
    states = ("created", "claimed", "refused", "unknown")
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
    service, then tell the ledger with `kbot ledger resolve`.

    Example: kbot ledger unknown --json | jq -r '.[].key'
    """
    entries = open_ledger(ledger_address).unknown()
    if as_json:
        write_document([asdict(entry) for entry in entries])
        return
    write_table(
        ("key", "name", "collections", "since", "what happened"),
        (
            (
                entry.key,
                entry.name,
                _joined(entry.collections),
                f"{entry.updated_at:%Y-%m-%d %H:%M}Z",
                entry.error,
            )
            for entry in entries
        ),
    )


@ledger.command()
@ledger_option
@as_json_option
def superseded(ledger_address: str | None, as_json: bool) -> None:
    """List the sources that newer ones replaced.

    The service's interface offers no deletion: a person may remove them there.

    Example: kbot ledger superseded | cut -f1
    """
    sources = open_ledger(ledger_address).superseded()
    if as_json:
        write_document([asdict(source) for source in sources])
        return
    write_table(
        ("source", "name", "collections", "replaced by", "since"),
        (
            (
                source.source_id,
                source.name,
                _joined(source.collections),
                source.replaced_by or "",
                f"{source.superseded_at:%Y-%m-%d %H:%M}Z",
            )
            for source in sources
        ),
    )


@ledger.command()
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@click.option(
    "--created",
    metavar="ID",
    help="The service has it as source ID, or `unknown` where no id is to be seen.",
)
@click.option("--not-created", is_flag=True, help="The service does not have it.")
@ledger_option
def resolve(
    keys: tuple[str, ...], created: str | None, not_created: bool, ledger_address: str | None
) -> None:
    """Tell what became of an unknown item, after a look at the service.

    What was not created is sent by the next `kbot ingest`. KEY is `-` to read keys from stdin, one
    a line.

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


def _keys(given: Iterable[str]) -> Iterator[str]:
    for key in given:
        if key == "-":
            yield from filter(None, read_lines("-"))
        else:
            yield key


def _joined(collections: Iterable[str]) -> str:
    return ", ".join(collections)
