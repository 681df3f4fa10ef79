"""What can be said about a run: the options of `ingest`, of a face of it, and their checks."""

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Required, TypedDict, Unpack, cast, get_args

from knowledge_bot._endpoints import Collections, check_number, collection_ids
from knowledge_bot._signals import Event
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest._ledger import Ledger
from knowledge_bot.ingest._report import Outcome, Report

OnUnknown = Literal["hold", "resend"]
"""What to do with an item whose outcome is unknown: report it, or send it again."""

Prune = bool | Literal["excluded"]
"""What happens to sources of items that are gone; see `IngestionOptions`."""

OnProgress = Callable[[Report], object]
"""Called a few times a second and at the end with the report, in the engine's thread."""

OnOutcome = Callable[[Outcome], object]
"""Called with the outcome of each item that is created or fails, in the engine's thread."""

# The options that are numbers, and what they are between.
_NUMBERS = (
    ("concurrency", 1, math.inf),
    ("gone_limit", 0, 1),
    ("limit", 0, math.inf),
    ("rate", 0.001, 1e6),
    ("wait_ready", 0, math.inf),
)
_FLAG = (True, False)
_CHOICES = (
    ("on_unknown", get_args(OnUnknown)),
    ("prune", (*_FLAG, "excluded")),
    ("anyway", _FLAG),
    ("complete", _FLAG),
    ("dry_run", _FLAG),
)


class SharedOptions(TypedDict, total=False):
    """The options of `IngestionOptions` that frameworks and the operator take as well."""

    concurrency: int
    on_unknown: OnUnknown
    anyway: bool
    rate: float | None
    prune: Prune
    wait_ready: float


class IngestionOptions(SharedOptions, total=False):
    """The options of a run; only `collections` is required. `Ingestion` has the defaults.

    Attributes:
        collections: where items go that name no collections of their own: ids, or `Collection`
            objects.
        origin: a name for where the items come from, such as `crm`, in place of the origin's own.
            Items without one are never gone.
        ledger: remembers what was ingested, for services that do not announce `sync`: a `Ledger`,
            its address or a SQLite file's path. It is not used where the service keeps the book.
        prune: what the service does at the end with sources of items that are gone. True: it
            deletes them, under the guards that `docs/how-to/ingest.md` explains; `"excluded"`: also
            those of what filters leave out by now; False: they stay. A service without `sync`
            cannot: the ledger lists what is gone, and what was superseded.
        wait_ready: seconds to wait at the end until the service has read all that it has of this
            origin, or, with a ledger, until other runs have sent what they were sending.
        on_unknown: with a ledger, `hold` reports items of unknown outcome and does not send them,
            so that nothing is created twice; `resend` sends them again, so that nothing is missing.
        gone_limit: the share of an origin's items that may disappear at once, 0 to 1. If more do,
            they are withheld: none is removed, or marked as gone.
        concurrency: the most requests in flight, and so the most unknown outcomes after a crash.
        anyway: send also what another origin, or sources without one, hold already, and take what
            the origin holds out of other collections.
        complete: whether these are all items of the origin. Several runs that each have a part of
            them say False; then `complete` tells what is gone.
        rate: the most items per second.
        limit: the most items that this run sends.
        on_progress: called a few times a second with the report so far, in another thread.
        on_outcome: called with each item that is created (in a dry run: would be) or fails.
        dry_run: compare only: send nothing, write nothing, and make no ledger.
        stop: when this is set, the run ends early. It also does on SIGTERM, SIGHUP and Ctrl-C, if
            this is the main thread and nobody else handles them. In a worker process of
            `multiprocessing` SIGTERM then ends the process, as its pool expects.
    """

    collections: Required[Collections]
    origin: str | None
    ledger: Ledger | str | os.PathLike[str] | None
    gone_limit: float
    complete: bool
    limit: int | None
    on_progress: OnProgress | None
    on_outcome: OnOutcome | None
    dry_run: bool
    stop: Event | None


def shared_options(face: object) -> SharedOptions:
    """Return the values that an object has for them, as attributes of these names."""
    names = SharedOptions.__annotations__
    values = {name: getattr(face, name) for name in names if hasattr(face, name)}
    return cast("SharedOptions", values)


@dataclass(frozen=True, kw_only=True)
class CheckedOptions:
    """The options of a run, checked.

    Raises:
        ConfigurationError: an option cannot be used.
    """

    collections: tuple[str, ...]
    origin: str | None = None
    ledger: Ledger | None = None
    prune: Prune = True
    wait_ready: float = 0.0
    on_unknown: OnUnknown = "hold"
    gone_limit: float = 0.5
    concurrency: int = 8
    anyway: bool = False
    complete: bool = True
    rate: float | None = None
    limit: int | None = None
    on_progress: OnProgress | None = None
    on_outcome: OnOutcome | None = None
    dry_run: bool = False
    stop: Event | None = None

    if TYPE_CHECKING:

        def __init__(self, **options: Unpack[IngestionOptions]) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "collections", tuple(collection_ids(self.collections)))
        if isinstance(self.ledger, str | os.PathLike):
            object.__setattr__(self, "ledger", Ledger(self.ledger))
        for name, least, most in _NUMBERS:
            if (value := getattr(self, name)) is not None or name not in ("limit", "rate"):
                check_number(name, value, least, most, whole=name in ("concurrency", "limit"))
        for name, choices in _CHOICES:
            if (value := getattr(self, name)) not in choices or type(value) is int:
                several = " or ".join(map(repr, choices))
                raise ConfigurationError.of(name, f"expected {several}, not {value!r}")
        origin: object = self.origin
        if origin is not None and not (isinstance(origin, str) and origin.strip()):
            raise ConfigurationError.of("origin", f"expected a name, not {self.origin!r}")
        for name, fits, wanted in (
            ("ledger", self.ledger is None or isinstance(self.ledger, Ledger), "a Ledger"),
            ("on_progress", self.on_progress is None or callable(self.on_progress), "a function"),
            ("on_outcome", self.on_outcome is None or callable(self.on_outcome), "a function"),
            ("stop", self.stop is None or hasattr(self.stop, "is_set"), "an Event"),
        ):
            if not fits:
                raise ConfigurationError.expected(name, wanted, getattr(self, name))


def check_names(options: Mapping[str, object], known: type) -> None:
    """Raise a `TypeError` for an option that is not in a typed dictionary; it names the nearest."""
    for name in options.keys() - known.__annotations__.keys():
        import difflib

        near = difflib.get_close_matches(name, known.__annotations__, 1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        raise TypeError(f"there is no option {name!r} here. {hint}Nothing was sent")
