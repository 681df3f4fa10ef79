"""What an origin is, and how the arguments of one are checked."""

import re
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar
from urllib.parse import urlsplit

from knowledge_bot._texts import holds_login, without_logins
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest._listings import Skipped

if TYPE_CHECKING:
    from knowledge_bot.ingest._items import Item

_T = TypeVar("_T")

# What Airflow renders on the worker; until then such a text cannot be checked.
_TEMPLATE = re.compile(r"\{[{%]")


class Memory(Protocol):
    """What is remembered of an origin between runs, as the origin itself reads it.

    Attributes:
        note: a text of at most 4 KiB about the origin as a whole; None if there is none. What is
            set while items are found is kept when the run completes.
        gone_limit: the share of the items that may be missing; where more are, nothing is gone.
    """

    note: str | None
    gone_limit: float

    def recall(self, key: str) -> str | None:
        """Return the `version` of the item last sent under a key; None if there is none."""

    def entries(self) -> Iterable[tuple[str, str | None]]:
        """Return the key and the version of each item of the origin."""


class NoMemory:
    """Remembers nothing, as in a first run."""

    def __init__(self) -> None:
        self.note: str | None = None
        self.gone_limit = 1.0

    def recall(self, key: str) -> str | None:  # noqa: ARG002 - the protocol's
        """Return None."""
        return None

    def entries(self) -> Iterable[tuple[str, str | None]]:
        """Return nothing."""
        return ()


@dataclass(frozen=True, repr=False)
class Origin:
    """A place that items come from.

    One of your own need not inherit from this: a `name`, and `items` or `aitems`, are enough. An
    item's key is unique within its origin, and does not hold the origin's name.

    Attributes:
        name: identifies the origin in the service or the ledger, and never holds a secret. By
            default it says which place this is, and in which store.
        allow_empty: whether it may be that there is nothing. Otherwise a run that finds nothing,
            or nothing that its patterns take, is not `ok`.
        template_fields: what Airflow renders.
    """

    name: str = field(default="", kw_only=True)
    allow_empty: bool = field(default=False, kw_only=True)

    template_fields: ClassVar[tuple[str, ...]] = ("name",)

    def __post_init__(self) -> None:
        given: object = self.name
        if not isinstance(given, str) or given.isspace():
            raise ConfigurationError.of("name", f"expected a name, not {given!r}")
        check_flag("allow_empty", self.allow_empty)
        self._check()
        if not self.name:
            self._set(name=self._default_name())

    def __repr__(self) -> str:
        """Return what it is, alike in every process: Airflow compares a DAG with its last one."""
        names = (each.name for each in fields(self) if each.repr)
        shown = (f"{name}={_shown(getattr(self, name))}" for name in names)
        return without_logins(f"{type(self).__name__}({', '.join(shown)})")

    @property
    def whole(self) -> bool:
        """Whether these are all items of the origin, so that what does not come is gone."""
        return True

    def items(self, memory: Memory | None = None) -> "Iterator[Item | Skipped]":
        """Yield the items, each time from the beginning, and a `Skipped` for what is left out."""
        raise NotImplementedError

    def gone_reason(self, key: str) -> str:  # noqa: ARG002 - others look at it
        """Return why the item with a key did not come: `missing`, or `excluded` by a filter."""
        return "missing"

    def rendered(self, render: Callable[[Any], Any]) -> Self:
        """Return the same origin with its templates rendered, and checked again.

        Those are its `template_fields`, and what another task gives, in whichever field.
        """
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        later = {
            name: render(value)
            for name, value in given.items()
            if name in self.template_fields or (is_template(value) and not isinstance(value, str))
        }
        if self.name == self._named_by_place():
            later["name"] = ""
        return replace(self, **later)

    def _named_by_place(self) -> str:
        try:
            return self._default_name()
        except ConfigurationError:
            return ""

    def _check(self) -> None:
        """Check the arguments, as far as that is possible without reading anything."""

    def _default_name(self) -> str:
        raise ConfigurationError.of("name", "expected a name, which cannot be told from the place")

    def _take_once(self, what: str) -> None:
        """Note that what can be read only once is read.

        Otherwise a second reading would yield nothing, and all items would seem to be gone.

        Raises:
            ConfigurationError: it was read before.
        """
        if getattr(self, "_is_taken", False):
            raise ConfigurationError.of(
                what, "they have been read already, and can be read only once"
            )
        self._set(_is_taken=True)

    def _set(self, **fields: object) -> None:
        """Set fields while the object is made."""
        for each, value in fields.items():
            object.__setattr__(self, each, value)


def _shown(value: object) -> str:
    """Return a value as text, without its place in memory or the order of a set."""
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(repr, value)))}}}"
    if callable(value) or isinstance(value, Iterator):
        return str(getattr(value, "__qualname__", type(value).__qualname__))
    return repr(value)


# Arguments ------------------------------------------------------------------------------------


def is_template(value: object) -> bool:
    """Return whether this is rendered later: a text with a template, or what a task will give."""
    if isinstance(value, str):
        return bool(_TEMPLATE.search(value))
    return hasattr(value, "iter_references")


def check_flag(name: str, value: object) -> None:
    """Check an argument that is true or false.

    Raises:
        ConfigurationError: it is neither.
    """
    if not isinstance(value, bool):
        raise ConfigurationError.of(name, f"expected True or False, not {value!r}")


def check_expression(name: str, value: str | None) -> None:
    """Check a regular expression, or None.

    Raises:
        ConfigurationError: it is none.
    """
    try:
        re.compile("" if value is None else value)
    except (re.error, TypeError, RecursionError, OverflowError) as error:
        problem = f"{value!r} is not a regular expression: {error}"
        raise ConfigurationError.of(name, problem) from None


def patterns_of(name: str, given: Any, *kinds: type) -> Any:
    """Return one pattern or several as a tuple.

    Raises:
        ConfigurationError: it is something else.
    """
    several = [given] if isinstance(given, str) else given
    if is_template(given):
        return (given,) if isinstance(given, str) else given
    if not isinstance(several, Iterable):
        raise ConfigurationError.expected(name, "a pattern or a list of patterns", given)
    # A set has another order in each process.
    found = tuple(sorted(several, key=str) if isinstance(several, Set) else several)
    if not all(isinstance(pattern, (str, *kinds)) for pattern in found):
        raise ConfigurationError.of(name, "expected patterns as strings")
    return found


def is_web_address(address: str) -> bool:
    """Return whether this is an `http(s)://` address with a host."""
    try:
        parts = urlsplit(address)
    except ValueError:  # such as half of an IPv6 address
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)


def with_patterns(place: str, patterns: Iterable[str]) -> str:
    """Return the default name of a place: with other patterns it is another origin."""
    several = " ".join(sorted(patterns))
    return f"{place} [{several}]" if several else place


def to_the_end(
    items: Iterable[_T], place: str, hide: Callable[[str], str] = str
) -> "Iterator[_T | Skipped]":
    """Yield items; where an error ends them, the last one is a `Skipped` that tells it.

    What else there is, nobody knows then, so nothing is gone.

    Args:
        items: what is read from somewhere.
        place: where that is.
        hide: takes what is secret out of an error.

    Raises:
        ConfigurationError: an argument cannot be used.
    """
    count = 0
    try:
        for item in items:
            yield item
            count += 1
    except (GeneratorExit, KeyboardInterrupt, ConfigurationError):
        raise
    except BaseException as error:  # noqa: BLE001 - loaders and drivers raise anything, also SystemExit
        where = f"it ends after {count} items" if count else "it cannot be read"
        yield Skipped(place, f"{where}: {hide(detail_of(error))}", invalid=True, partial=True)


def detail_of(error: BaseException) -> str:
    """Return what an error says, in a line."""
    if hasattr(error, "errors"):  # pydantic's
        first = error.errors(include_input=False, include_url=False)[0]
        where, said = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            return f"there is no field {where!r}"
        # Our own checks name the field themselves.
        return said if said.startswith(f"{where}: ") else f"{where}: {said}"
    said = " ".join(str(getattr(error, "strerror", None) or error).split())[:500]
    kind = type(error).__name__
    return f"{kind}: {said}" if isinstance(error, LookupError) else said or kind


def skipped_address(address: str, place: str) -> "Skipped | None":
    """Return a `Skipped` for an address that cannot be a page's; None for one that can."""
    shown = address[:500]
    if holds_login(address):
        reason = f"{place}: it holds a login, which is never stored; use the headers of a Site"
        return Skipped(f"…@{shown.rpartition('@')[2]}", reason, invalid=True, partial=True)
    if not is_web_address(address):
        return Skipped(shown, f"{place}: it is not a web address", invalid=True)
    return None
