"""Deletes the sources of documents, where the service keeps the book of them."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from knowledge_bot._client import Client
from knowledge_bot._extensions import check_announced
from knowledge_bot._sync import bucket_of
from knowledge_bot.errors import NotFoundError

if TYPE_CHECKING:
    from knowledge_bot.models import SyncEntry


def remove(client: Client, collections: Iterable[str], keys: Iterable[str]) -> list[str]:
    """Delete the sources of items, of whichever origin.

    The collections are all those that the items were sent to.

    Returns:
        The keys that were removed: those that the service knew.

    Raises:
        UnsupportedError: the service does not announce `sync`, or `sources` with `manage` to this
            key.
        KnowledgeBotError: the service did not delete a source; the items before it are removed.
    """
    wanted = list(dict.fromkeys(keys))
    for needs in (("sync",), ("sources", "manage")):
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
