"""The interface's resources as frozen pydantic models.

Field names are the interface's own (section 2). Fields it does not name are kept, so that an answer
of a newer service loses nothing on its way through. A field that an answer leaves out, or whose
value is odd, is empty: what else it says is not lost for that. Only `answer` of a message and `id`
of anything else have to be there.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal, Self, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, PlainSerializer

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _in_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _as_milliseconds(given: object) -> object:
    # Python and Go have microseconds and nanoseconds at hand; milliseconds of this size are of the
    # year 5138.
    while isinstance(given, int | float) and 1e14 <= abs(given) < 1e20:
        given /= 1000
    return given


def _to_milliseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)


Timestamp = Annotated[
    datetime,
    BeforeValidator(_as_milliseconds),
    AfterValidator(_in_utc),
    PlainSerializer(_to_milliseconds, return_type=int, when_used="json"),
]
"""An aware UTC `datetime`; in JSON an integer of Unix milliseconds, as the interface shows it."""


class Model(BaseModel, frozen=True, extra="allow"):
    """What every resource shares: frozen, and unknown fields are kept.

    Each says `frozen` again, for type checkers that do not inherit it.
    """


class Collection(Model, frozen=True, coerce_numbers_to_str=True):
    """A collection of sources."""

    id: str
    """`col_…`."""
    name: str = ""


class Bot(Model, frozen=True, coerce_numbers_to_str=True):
    """A bot that answers from the collections it reads."""

    id: str
    """`bot_…`."""
    name: str = ""


class Conversation(Model, frozen=True, coerce_numbers_to_str=True):
    """A conversation with a bot."""

    id: str
    """`conv_…`."""
    name: str = ""


class Source(Model, frozen=True, coerce_numbers_to_str=True):
    """A knowledge source, as the service returns it when it is created.

    `status` is an open string: the interface shows `pending` and no other value.
    """

    id: str
    """`src_…`."""
    name: str = ""
    collections: tuple[Collection, ...] = ()
    """The collections it belongs to."""
    status: str = ""
    created_at: Timestamp | None = None
    """When it was created, in UTC; None: that is not said."""


class SourceDetails(Source, frozen=True):
    """A source with its state, from a service that announces `sources`.

    `status` is that of `revision`: `pending`, `processing`, `ready` or `failed`.
    """

    revision: str | None = None
    """Opaque, a new one with each replacement."""
    ready_revision: str | None = None
    """The revision that questions are answered from; None: there is none yet."""
    reason: str | None = None
    """Why `revision` failed."""
    warnings: Annotated[tuple[str, ...], BeforeValidator(lambda given: given or ())] = ()
    """What was left out of it, such as pages without text."""
    ready_at: Timestamp | None = None
    """When `ready_revision` became ready, in UTC."""


class Passage(Model, frozen=True):
    """A passage of a source's text, from a service that announces `passages`."""

    id: str
    """Stays the same until its source is replaced or deleted."""
    source_id: str
    """`src_…`."""
    name: str
    """The source's."""
    text: str
    """What it says."""
    url: str | None = None
    """The source's, if it is a web page."""
    revision: str | None = None
    """Of the source, which the passage is of."""
    score: float | None = None
    """Higher for what fits better, among the passages of one search; None for one looked up."""
    found: bool | None = None
    """False where none of the search is about the question's subject; None: that is not said."""


_DIGITS = 16


def _sums(given: object) -> object:
    """Read the sums of the 256 buckets, each 16 hexadecimal digits."""
    if not isinstance(given, list) or len(given) != 256:
        raise ValueError("expected the sums of 256 buckets")
    several = all(isinstance(one, str) and len(one) == _DIGITS for one in given)
    if not several or not re.fullmatch("[0-9a-f]*", "".join(given)):
        raise ValueError("expected sums of 16 hexadecimal digits")
    return tuple(int(one, 16) for one in given)


_Count = Annotated[int, Field(ge=0)]


class SyncSums(Model, frozen=True):
    """What a service that announces `sync` holds of an origin, in short."""

    known: bool
    """Whether it knows the origin."""
    count: _Count
    """How many entries it has of it."""
    sums: Annotated[tuple[int, ...], BeforeValidator(_sums)]
    """The sum of the marks of each of 256 buckets, modulo 2^64."""
    pending: _Count = 0
    """How many of its sources are not read yet."""
    failed: _Count = 0
    """How many of them could not be read."""
    untold: _Count = 0
    """How many of the latter have a reason that nobody was told."""
    completed_at: Timestamp | None = None
    """When the origin was completed last, in UTC."""
    note: str | None = None
    """What the last completion left for the next run."""


class SyncEntry(Model, frozen=True):
    """An item of an origin as the service holds it."""

    key: str
    """Names the item within its origin."""
    version: str | None = None
    """The client's own; opaque."""
    digest: str
    """The client's own, of the content."""
    source_id: str
    """`src_…`."""
    status: str
    """The source's: `pending`, `processing`, `ready` or `failed`."""
    reason: str | None = None
    """Why it failed."""
    told: bool = False
    """Whether that reason was told."""


class SyncPut(Model, frozen=True):
    """What a put came to."""

    outcome: Literal["created", "adopted", "unchanged", "replaced"]
    """What became of the entry."""
    source: SourceDetails


class SyncOrigin(Model, frozen=True):
    """An origin that the service knows."""

    name: str
    count: _Count
    """How many entries it has."""
    completed_at: Timestamp | None = None
    """When it was completed last, in UTC."""


class SyncCompletion(Model, frozen=True):
    """What the service decided of what an origin does not hold any more."""

    removed: _Count
    """How many sources were deleted."""
    waiting: _Count
    """How many wait for another run to miss them."""
    withheld: _Count
    """How many stay since they are more than the limit allows."""
    keys: tuple[str, ...] = ()
    """The keys that were removed, at most 1,000."""


class Message(Model, frozen=True, coerce_numbers_to_str=True):
    """A bot's answer to a message."""

    id: str = ""
    """`msg_…`."""
    answer: str
    """The bot's reply."""
    conversation_id: str = ""
    """The conversation that the next message can go on in, `conv_…`."""
    created_at: Timestamp | None = None
    """When it was given, in UTC; None: that is not said."""


class _ByName:
    """A model that says what its fields are called to whoever gives them by their place."""

    def __new__(cls, *given: object, **_: object) -> Self:
        """Make one; `BaseModel` fills it.

        Raises:
            TypeError: fields are given by their place.
        """
        if given:
            model = cast("type[BaseModel]", cls)
            needed = [name for name, field in model.model_fields.items() if field.is_required()]
            named = ", ".join(f"{name}=…" for name in needed)
            raise TypeError(f"{cls.__name__} takes its fields by name: {cls.__name__}({named})")
        return super().__new__(cls)


class Header(_ByName, BaseModel, frozen=True, hide_input_in_errors=True):
    """A request header that the service sends while it scrapes a page; its value may be secret."""

    name: str
    value: str

    def __repr__(self) -> str:
        return f"Header(name={self.name!r}, value='**********')"

    __str__ = __repr__
