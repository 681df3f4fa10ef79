"""An origin as the present engine takes it: items whose keys begin with the origin's name."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from knowledge_bot.ingest._items import WebPage
from knowledge_bot.ingest._listings import Listing, Skipped
from knowledge_bot.ingest._store import Store


def is_origin(given: object) -> bool:
    """Return whether this is an origin: it has a name, and finds items."""
    finds = callable(getattr(given, "items", None)) or callable(getattr(given, "aitems", None))
    return finds and isinstance(getattr(given, "name", None), str)


def taken(origin: Any) -> "OriginItems":
    """Return the items of an origin, as listings where it has these."""
    return (Listings if hasattr(origin, "listings") else OriginItems)(origin)


@dataclass(frozen=True)
class OriginItems(Iterable[Any]):
    """The items of an origin, to be iterated over."""

    of: Any
    store: Store | None = None

    @property
    def origin(self) -> str | None:
        """The origin's name; None if not all of its items come."""
        name: str = self.of.name
        return name if getattr(self.of, "whole", True) else None

    def named(self, origin: str) -> "OriginItems":
        """Return the same items under another name of their origin."""
        return replace(self, of=replace(self.of, name=origin))

    def remembering(self, store: Store) -> "OriginItems":
        """Return the same items, compared with what is remembered in a ledger."""
        return replace(self, store=store)

    def gone_reason(self, key: str) -> str:
        """Return why the item with a key did not come."""
        known = getattr(self.of, "gone_reason", None)
        return "missing" if known is None else str(known(key.removeprefix(self._prefix)))

    def doubts(self, key: str) -> bool:
        """Return whether an item that did not come may come back."""
        known = getattr(self.of, "doubts", None)
        return known is not None and bool(known(key.removeprefix(self._prefix)))

    def __iter__(self) -> Iterator[Any]:
        memory = _Memory(self.store, self.of.name)
        for item in self.of.items(memory):
            if isinstance(item, WebPage):
                memory.remember(item)
            yield self._with_origin(item)

    @property
    def _prefix(self) -> str:
        return "" if self.origin is None else f"{self.of.name}/"

    def _with_origin(self, item: Any) -> Any:
        if isinstance(item, WebPage):
            return item
        if isinstance(item, Skipped):
            is_key = item.gone and "://" not in item.name
            return replace(item, name=self._prefix + item.name) if is_key else item
        return item.model_copy(update={"key": self._prefix + item.identity})


class Listings(OriginItems):
    """The same for an origin that lists files."""

    def listings(self) -> Iterator[Listing]:
        """Yield the files, a few hundred at a time."""
        for keys, versions, item in self.of.listings(_Memory(self.store, self.of.name)):
            prefixed = [self._prefix + key for key in keys]

            def made(place: int, item: Any = item, prefixed: list[str] = prefixed) -> Any:
                found = item(place)
                return found if isinstance(found, Skipped) else found._replace(key=prefixed[place])

            yield Listing(prefixed, versions, made)


class _Memory:
    """What a ledger remembers of an origin."""

    def __init__(self, store: Store | None, name: str) -> None:
        self._store, self._about = store, f"the note of {name}"

    @property
    def note(self) -> str | None:
        found = self._store.recall(self._about) if self._store is not None else None
        return found.decode() if found else None

    @note.setter
    def note(self, note: str | None) -> None:
        if self._store is not None and note != self.note:
            self._store.remember(self._about, (note or "").encode())

    def recall(self, key: str) -> str | None:
        found = self._store.recall(key) if self._store is not None else None
        return found.decode("utf-8", "replace") if found else None

    def remember(self, page: WebPage) -> None:
        if self._store is not None and page.version:
            self._store.remember(page.identity, page.version.encode())

    def entries(self) -> Iterable[tuple[str, str | None]]:
        return () if self._store is None else self._store.versions()
