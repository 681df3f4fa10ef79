"""Deletes the sources of documents, whoever keeps the book of them."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from knowledge_bot._client import Client
from knowledge_bot._extensions import check_announced
from knowledge_bot._sync import bucket_of
from knowledge_bot.errors import ConfigurationError, NotFoundError

if TYPE_CHECKING:
    from knowledge_bot.ingest import Ledger
    from knowledge_bot.models import SyncEntry


def remove(
    client: Client, ledger: "Ledger | None", collections: Iterable[str], keys: Iterable[str]
) -> list[str]:
    """Delete the sources of items, of whichever origin, and forget the items.

    The collections are all those that the items were sent to.

    Returns:
        The keys that were removed: those that the service or the ledger knew.

    Raises:
        UnsupportedError: the service does not announce `sources` with `manage` to this key.
        ConfigurationError: the service does not announce `sync`, and there is no ledger.
        LedgerError: the ledger cannot be used, or does not know what became of an item when it was
            sent last; in this case nothing was deleted.
        KnowledgeBotError: the service did not delete a source; the items before it are removed.
    """
    wanted = list(dict.fromkeys(keys))
    if "sync" not in client.extensions():
        if ledger is None:
            raise ConfigurationError.of(
                "ledger",
                f"{client.base_url} does not announce `sync`, so only a ledger knows which sources "
                "these are. Nothing was deleted",
            )
        from knowledge_bot.ingest._ledger import remove as remove_by_ledger

        return remove_by_ledger(client, ledger, collections, wanted)
    needs = ("sources", "manage")
    check_announced(needs, f"a deletion at {client.base_url}", client.extensions())
    places, removed = {*collections}, set[str]()
    for entry in _entries(client, {*wanted}):
        try:
            source = client.get_source(entry.source_id)
        except NotFoundError:  # somebody was faster
            continue
        if {one.id for one in source.collections} == places:
            client.delete_source(source.id)
            removed.add(entry.key)
    return [key for key in wanted if key in removed]


def _entries(client: Client, keys: set[str]) -> "Iterator[SyncEntry]":
    """Yield the entries of keys, of all origins."""
    for origin in client.list_origins():
        for bucket in sorted({bucket_of(key) for key in keys}):
            for entry in client.list_entries(origin.name, bucket=bucket):
                if entry.key in keys:
                    yield entry
