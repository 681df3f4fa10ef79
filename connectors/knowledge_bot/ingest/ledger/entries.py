"""The ledger's rows as values, and its error."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from knowledge_bot.errors import Delivery, KnowledgeBotError


class LedgerError(KnowledgeBotError):
    """The ledger cannot be opened, read or written. Nothing is sent without it."""

    def __init__(self, message: str) -> None:
        super().__init__(message, delivery=Delivery.NOT_DELIVERED)


class State(StrEnum):
    """What the ledger knows about an item."""

    CLAIMED = "claimed"
    """A worker is sending it."""
    CREATED = "created"
    """The service has it."""
    REFUSED = "refused"
    """The service does not have it: it refused, or was not reached."""
    UNKNOWN = "unknown"
    """The service may have it; nobody can tell from here."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What the ledger knows about one item.

    Attributes:
        id: the row's own id, a hash of service, collections and key.
        service: the base URL.
        collections: the ids of the collections, sorted.
        key: what the item is known by.
        name: the name it was last sent under.
        kind: `webpage`, `text` or `file`.
        state: what came of sending it last.
        source_id: the source that was last created of it; None without one.
        attempts: how many times it was claimed.
        error: what went wrong last; empty where nothing did.
        updated_at: when the state was written, in UTC.
    """

    id: str
    service: str
    collections: tuple[str, ...]
    key: str
    name: str
    kind: str
    state: State
    source_id: str | None
    attempts: int
    error: str
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class SupersededSource:
    """A source that a newer one replaced; the service offers no deletion, a person may remove it.

    Attributes:
        source_id: the older source.
        replaced_by: the newer source, None where it is not known.
        service: the base URL.
        collections: the ids of the collections, sorted.
        key: what the item is known by.
        name: the name that the older source was sent under.
        superseded_at: when the newer source was recorded, in UTC.
    """

    source_id: str
    replaced_by: str | None
    service: str
    collections: tuple[str, ...]
    key: str
    name: str
    superseded_at: datetime


@dataclass(frozen=True, slots=True)
class Holdings:
    """How many items a ledger knows for one service and set of collections, by state.

    Attributes:
        service: the base URL.
        collections: the ids of the collections, sorted.
        created: how many the service has.
        claimed: how many are being sent.
        refused: how many it does not have.
        unknown: how many it may have.
    """

    service: str
    collections: tuple[str, ...]
    created: int
    claimed: int
    refused: int
    unknown: int
