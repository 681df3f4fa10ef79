"""Removal of items by their keys: of their sources from the service, and from the ledger."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from knowledge_bot._extensions import check_announced
from knowledge_bot.ingest._ledger import withdraw
from knowledge_bot.ingest._schema import LedgerError
from knowledge_bot.ingest._store import State

if TYPE_CHECKING:
    from knowledge_bot._client import Client
    from knowledge_bot.ingest._ledger import Ledger


def remove(
    client: "Client", ledger: "Ledger", collections: Iterable[str], keys: Iterable[str]
) -> list[str]:
    """Delete the sources of items, superseded ones included, and forget the items.

    Args:
        client: deletes the sources.
        ledger: knows them.
        collections: the collections that the items were sent to, all of them.
        keys: the items' keys.

    Returns:
        The keys that were removed: those that the ledger knew.

    Raises:
        UnsupportedError: the service does not announce `sources` with `manage` to this key.
        LedgerError: the ledger cannot be used, or does not know what became of an item when it was
            sent last; in this case nothing was deleted.
        KnowledgeBotError: the service did not delete a source; the items before it are removed.
    """
    if not ledger.exists():
        return []
    entries = ledger.of_keys(keys, service=client.base_url, collections=collections)
    unsettled = [one.key for one in entries if one.state in (State.UNKNOWN, State.CLAIMED)]
    if unsettled:
        raise LedgerError(
            f"{', '.join(map(repr, unsettled[:10]))}: being sent right now, or of unknown outcome, "
            "so nothing was deleted. Try again when the run has ended; `kbot ledger unknown` lists "
            "what a person settles"
        )
    sources = {(one.key, one.collections): [one.source_id] for one in entries}
    for older in ledger.superseded(service=client.base_url):
        sources.get((older.key, older.collections), []).append(older.source_id)
    call = f"a deletion at {client.base_url}"
    check_announced(("sources", "manage"), call, client.extensions())
    with ledger._writing() as connection:  # noqa: SLF001 - of this package
        entries = withdraw(connection, entries)
    for entry in entries:
        for source_id in filter(None, sources[entry.key, entry.collections]):
            client.delete_source(source_id)
        ledger.forget(entry.id)
    return [entry.key for entry in entries]
