"""What can be said about a run: the options of `ingest`, of a face of it, and their checks."""

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Required, TypedDict, Unpack, cast, get_args

from knowledge_bot._endpoints import Collections, check_number, collection_ids
from knowledge_bot._signals import Event
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest._ledger import Entry, Ledger, PrunePlan, SupersededSource
from knowledge_bot.ingest._plan import OnUnknown
from knowledge_bot.ingest._report import Outcome, Report

Prune = bool | Literal["excluded"] | Callable[[Entry | SupersededSource], object] | PrunePlan
"""What happens to sources that are gone or superseded; see `IngestionOptions`."""

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
    ("wait", 0, math.inf),
    ("ledger_wait", 0, math.inf),
    ("wait_ready", 0, math.inf),
)


class SharedOptions(TypedDict, total=False):
    """The options of `IngestionOptions` that frameworks and the operator take as well."""

    concurrency: int
    on_unknown: OnUnknown
    rate: float | None
    wait: float
    ledger_wait: float
    prune: Prune
    wait_ready: float


class IngestionOptions(SharedOptions, total=False):
    """The options of a run; only `collections` is required. `Ingestion` has the defaults.

    Attributes:
        collections: where items go that name no collections of their own: ids, or `Collection`
            objects.
        ledger: remembers what was ingested: a `Ledger`, its address or a SQLite file's path.
            Without one, every run sends every item.
        concurrency: the most requests in flight, and so the most unknown outcomes after a crash.
        on_unknown: `hold` reports items of unknown outcome and does not send them, so that nothing
            is created twice; `resend` sends them again, so that nothing is missing.
        on_progress: called a few times a second with the report so far, in another thread.
        on_outcome: called with each item that is created (in a dry run: would be) or fails.
        dry_run: compare only: send nothing, write nothing, and make no ledger.
        origin: a name for where the items come from, such as `handbook`. After a complete run,
            items that it no longer yields are reported as `gone`. A folder, objects of a store, a
            sitemap and a file of lines have a default name; a folder with a name stays the same
            origin when it moves. A feed has none, since its old entries are not gone; a loader and
            a table have none unless they are given one.
        gone_limit: the share of an origin's items that may disappear at once, 0 to 1. If more do,
            none is marked as gone.
        limit: the most items that this run sends.
        rate: the most items per second, over all runs that use this ledger, this service and a
            rate.
        wait: seconds to wait at the end for the outcome of items that other runs are sending; after
            90 a dead worker is certainly noticed.
        ledger_wait: seconds to wait, in one outage, for a ledger's database that is locked,
            restarts, fails over or has lost its sessions; then the run ends.
        prune: what happens at the end to sources that are gone or superseded. False: they stay, and
            the ledger lists them. True: the service deletes what was superseded, once the newer
            source is ready, and what its origin has no more, under the guards that
            `docs/how-to/ingest.md` explains; `"excluded"`: what filters leave out by now, too. Both
            need a service with the extension `sources`. A function is called with each of them (an
            `Entry` or a `SupersededSource`), in a thread, and may be called again; unless it
            raises, the ledger forgets the source. A `PrunePlan` is removed as it stands.
        wait_ready: seconds to wait at the end until the service answers from all that was sent of
            this origin, now or in earlier runs; needs the extension `sources`. What it could not
            read is reported as `failed`. A service that restarts meanwhile is waited for.
        share: whether runs that feed the same collections at once divide the items among them.
            True suits runs with the same items, False runs that each have their own.
        stop: when this is set, the run ends early.
        handle_signals: end early on SIGTERM, SIGHUP and Ctrl-C, if this is the main thread and
            nobody else handles them. In a worker process of `multiprocessing` SIGTERM then ends the
            process, as its pool expects.
    """

    collections: Required[Collections]
    ledger: Ledger | str | os.PathLike[str] | None
    on_progress: OnProgress | None
    on_outcome: OnOutcome | None
    dry_run: bool
    origin: str | None
    gone_limit: float
    limit: int | None
    share: bool
    stop: Event | None
    handle_signals: bool


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
    ledger: Ledger | None = None
    concurrency: int = 8
    on_unknown: OnUnknown = "hold"
    on_progress: OnProgress | None = None
    on_outcome: OnOutcome | None = None
    dry_run: bool = False
    origin: str | None = None
    gone_limit: float = 0.5
    limit: int | None = None
    rate: float | None = None
    wait: float = 0.0
    ledger_wait: float = 300.0
    prune: Prune = False
    wait_ready: float = 0.0
    share: bool = True
    stop: Event | None = None
    handle_signals: bool = True

    if TYPE_CHECKING:

        def __init__(self, **options: Unpack[IngestionOptions]) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "collections", tuple(collection_ids(self.collections)))
        if isinstance(self.ledger, str | os.PathLike):
            object.__setattr__(self, "ledger", Ledger(self.ledger))
        for name, least, most in _NUMBERS:
            if (value := getattr(self, name)) is not None or name not in ("limit", "rate"):
                check_number(name, value, least, most, whole=name in ("concurrency", "limit"))
        known = isinstance(self.prune, bool | PrunePlan) or self.prune == "excluded"
        if not (known or callable(self.prune)):
            raise ConfigurationError.of(
                "prune",
                f"expected True, False, 'excluded', a function or a plan, not {self.prune!r}",
            )
        if self.ledger is None and (self.prune or self.wait_ready):
            needs = "prune" if self.prune else "wait_ready"
            raise ConfigurationError.of(needs, "needs a ledger, which knows the sources")
        if self.on_unknown not in get_args(OnUnknown):
            raise ConfigurationError.of(
                "on_unknown", f"expected 'hold' or 'resend', not {self.on_unknown!r}"
            )
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
                kind = type(getattr(self, name)).__name__
                raise ConfigurationError.of(name, f"expected {wanted}, not {kind}")


def check_names(options: Mapping[str, object], known: type) -> None:
    """Raise a `TypeError` for an option that is not in a typed dictionary; it names the nearest."""
    for name in options.keys() - known.__annotations__.keys():
        import difflib

        near = difflib.get_close_matches(name, known.__annotations__, 1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        raise TypeError(f"there is no option {name!r} here. {hint}Nothing was sent")
