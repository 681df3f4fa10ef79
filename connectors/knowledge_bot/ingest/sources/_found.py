"""What every source of items returns, and how its options are checked."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol
from urllib.parse import urlsplit

from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest._listings import Skipped


class Memory(Protocol):
    """Remembers pages from run to run, as a ledger does."""

    def recall(self, url: str) -> bytes | None:
        """Return what is remembered of a page; None if nothing is."""

    def remember(self, url: str, known: bytes) -> None:
        """Remember a page, in place of what was remembered before."""


@dataclass(frozen=True)
class FoundItems:
    """The items of one source.

    Attributes:
        take: yields the items, each time from the beginning.
        origin: the source's name in the ledger; None if it does not yield all its items.
        local_keys: whether keys are unique within the source only, as those of a table's rows are;
            then they are prefixed with the origin.
        compare: compares pages with what a memory holds of them; None: they are taken as listed.
    """

    take: Callable[[], Iterator[Any]]
    origin: str | None
    local_keys: bool = False
    compare: Callable[[Iterator[Any], Memory | None], Iterator[Any]] | None = None
    _memory: Memory | None = None

    def named(self, origin: str) -> "FoundItems":
        """Return the same items under another name of their origin."""
        return replace(self, origin=origin)

    def remembering(self, memory: Memory) -> "FoundItems":
        """Return the same items, pages among them compared with what a memory holds of them."""
        return replace(self, _memory=memory)

    def __iter__(self) -> Iterator[Any]:
        items = self.take() if self.compare is None else self.compare(self.take(), self._memory)
        if self.origin is None or not self.local_keys:
            return items
        return (self._with_origin(item) for item in items)

    def _with_origin(self, item: Any) -> Any:
        if not isinstance(item, Skipped):
            return item.model_copy(update={"key": f"{self.origin}/{item.identity}"})
        return replace(item, name=f"{self.origin}/{item.name}") if item.gone else item


def once(items: Iterator[Any], what: str) -> Callable[[], Iterator[Any]]:
    """Return a function that yields items once and raises when it is called again.

    Otherwise the second call would yield nothing, and all items would seem to be gone.
    """
    left = [items]

    def take() -> Iterator[Any]:
        if not left:
            raise ConfigurationError(
                f"{what}: they have been read already, and can be read only once"
            )
        return left.pop()

    return take


def check_flag(name: str, value: object) -> None:
    """Check an option that is true or false.

    Raises:
        ConfigurationError: it is neither.
    """
    if not isinstance(value, bool):
        raise ConfigurationError.of(name, f"expected True or False, not {value!r}")


def patterns_of(name: str, given: str | Iterable[str]) -> list[str]:
    """Return one pattern or several as a list.

    Raises:
        ConfigurationError: it is something else.
    """
    several = [given] if isinstance(given, str) else given
    if not isinstance(several, Iterable):
        raise ConfigurationError.expected(name, "a pattern or a list of patterns", given)
    found = list(several)
    if not all(isinstance(pattern, str) for pattern in found):
        raise ConfigurationError.of(name, "expected patterns as strings")
    return found


def pattern_of(ignore: str | None) -> "re.Pattern[str] | None":
    """Return the expression for what does not count in a page's main text.

    Raises:
        ConfigurationError: it is none.
    """
    if ignore is None:
        return None
    try:
        return re.compile(ignore)
    except (re.error, TypeError, RecursionError, OverflowError) as error:
        problem = f"{ignore!r} is not a regular expression: {error}"
        raise ConfigurationError.of("ignore", problem) from None


def skipped_address(address: str, place: str) -> Skipped | None:
    """Return a `Skipped` for an address that cannot be a page's; None for one that can."""
    shown = address[:500]
    from knowledge_bot.ingest._items import holds_login  # with pydantic, which a folder is spared

    if holds_login(address):
        reason = f"{place}: it holds a login, which is never stored; use headers of `from_site`"
        return Skipped(f"…@{shown.rpartition('@')[2]}", reason, invalid=True, partial=True)
    if not is_web_address(address):
        return Skipped(shown, f"{place}: it is not a web address", invalid=True)
    return None


def is_web_address(address: str) -> bool:
    """Return whether this is an `http(s)://` address with a host."""
    try:
        parts = urlsplit(address)
    except ValueError:  # such as half of an IPv6 address
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)
