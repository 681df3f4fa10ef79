"""The bodies of requests (interface section 4), and what makes one valid."""

from typing import Annotated, Final, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from knowledge_bot.models import Header
from knowledge_bot_service.answers.finding import LOOKED_AT
from knowledge_bot_service.store.origins import ASCII, Key, Put, Touch
from knowledge_bot_service.work.knowledge_base import QUESTION_LENGTH

T = TypeVar("T")

# RFC 9110 section 5.1: a field name is a token. Section 5.5: a field value has no CR, LF or NUL.
_FIELD_NAME: Final = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"
_FIELD_VALUE: Final = r"^[^\r\n\x00]*$"
_ID: Final = r"^[^\x00]*$"
_TEXT: Final = r"^[^\x00]*[^\s\x00][^\x00]*$"
_ADDRESS: Final = (
    r"^[Hh][Tt][Tt][Pp][Ss]?://"
    r"([^\s\x00-\x1f/?#@:\[\]\\]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?([/?#][^\s\x00-\x1f]*)?$"
)

# A name is shown on one line, in lists that others read. Characters that break the line or turn the
# direction of text could make one name look like another, or like two, so they are refused. Other
# invisible characters are allowed beside visible ones, as in Persian words and in emoji.
_NO_NAME: Final = r"\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufff9-\ufffb"
_UNSEEN: Final = (
    r"\s\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060-\u206f\u2800"
    r"\u3164\ufe00-\ufe0f\ufeff\uffa0"
)
_NAME: Final = rf"^[^{_NO_NAME}]*[^{_UNSEEN}{_NO_NAME}][^{_NO_NAME}]*$"

# How long a message may be that holds a question, in characters. Little of the turns before the
# question counts, so that they cost less.
_TRANSCRIPT_LENGTH: Final = 200_000


MOST_COLLECTIONS: Final = 1000
"""How many collections a source may be added to."""

SAID: Final = {
    ASCII: "must be of ASCII, without NUL",
    _ID: "must not contain NUL characters",
    _TEXT: "must not be blank, and must not contain NUL characters",
    _NAME: "must be one line with something to be seen in it, without control characters and "
    "characters that turn the direction of text",
    # The fetcher checks whether the address leads anywhere.
    _ADDRESS: "must be an http or https address without user and password",
    _FIELD_NAME: "must be the name of a header field (RFC 9110 section 5.1)",
    _FIELD_VALUE: "must be the value of a header field (RFC 9110 section 5.5)",
}
"""What is said of a text without a field's pattern."""


class Wrapped(BaseModel, Generic[T]):
    """The wrapper that the interface puts around JSON bodies."""

    model_config = ConfigDict(frozen=True)

    value: T


class ListBody(BaseModel, Generic[T]):
    """A list endpoint's answer."""

    model_config = ConfigDict(frozen=True)

    data: list[T]


Text = Annotated[str, Field(pattern=_TEXT)]
Id = Annotated[str, Field(pattern=_ID, max_length=200)]


Name = Annotated[str, Field(pattern=_NAME, max_length=1000)]
Collections = Annotated[tuple[Id, ...], Field(min_length=1, max_length=MOST_COLLECTIONS)]


class _RequestBody(BaseModel):
    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)


class NewSource(_RequestBody):
    """What every source is created with."""

    name: Name
    collections: Collections


class NewHeader(Header):
    """A request header to send while scraping."""

    name: Annotated[str, Field(pattern=_FIELD_NAME)]
    value: Annotated[str, Field(pattern=_FIELD_VALUE)]


class NewWebpage(NewSource):
    """`POST /sources/webpage`."""

    url: Annotated[str, Field(pattern=_ADDRESS, max_length=8192)]
    headers: Annotated[tuple[NewHeader, ...], Field(max_length=100)] | None = None


class NewText(NewSource):
    """`POST /sources/write`."""

    content: Text


class PutWebpage(NewWebpage, Put):
    """`PUT /sync/webpage`."""


class PutText(NewText, Put):
    """`PUT /sync/write`."""


class PutUpload(NewSource, Put):
    """The form field `value` of `PUT /sync/upload`."""


class NewTouch(Touch):
    """One of `POST /sync/touch`."""

    name: Name | None = None
    collections: Collections | None = None


class Touches(_RequestBody):
    """`POST /sync/touch`."""

    origin: Key
    entries: Annotated[tuple[NewTouch, ...], Field(min_length=1, max_length=500)]


class AskedOverlap(_RequestBody):
    """`POST /sync/overlap`."""

    origin: Key
    names: Annotated[tuple[Name, ...], Field(max_length=500)]
    collections: Collections


class OriginName(_RequestBody):
    """What an origin is renamed with."""

    name: Key


class NewSearch(_RequestBody):
    """`POST /search`."""

    query: Annotated[Text, Field(max_length=QUESTION_LENGTH)]
    bot_id: Id | None = None
    collections: Annotated[tuple[Id, ...], Field(max_length=MOST_COLLECTIONS)] = ()
    limit: Annotated[int, Field(ge=1, le=LOOKED_AT)] = 10


class NewMessage(_RequestBody):
    """`POST /messages`."""

    bot_id: Id
    content: Annotated[Text, Field(max_length=_TRANSCRIPT_LENGTH)]
    conversation_id: Id | None = None
