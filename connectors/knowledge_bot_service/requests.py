"""The bodies of requests (interface section 4), and what makes one valid."""

import re
from typing import Annotated, Final, Generic, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from knowledge_bot.models import Header
from knowledge_bot.transcripts import read

T = TypeVar("T")

# What is checked is also what the OpenAPI page says, as patterns of JSON Schema.
# RFC 9110 section 5.1: a field name is a token. Section 5.5: a field value has no CR, LF or NUL.
_FIELD_NAME: Final = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+(?!\n)$"
_FIELD_VALUE: Final = r"^[^\r\n\x00]*(?!\n)$"
_TEXT: Final = r"^[^\x00]*[^\s\x00][^\x00]*$"
_ADDRESS: Final = (
    r"^[Hh][Tt][Tt][Pp][Ss]?://"
    r"([^\s\x00-\x1f/?#@:\[\]\\]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?([/?#][^\s\x00-\x1f]*)?(?!\n)$"
)

# A name is shown on one line, in lists that others read. Characters that break the line or turn the
# direction of text could make one name look like another, or like two, so they are refused. Other
# invisible characters are allowed beside visible ones, as in Persian words and in emoji.
_NO_NAME: Final = r"\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufff9-\ufffb"
_UNSEEN: Final = (
    r"\s\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060-\u206f\u2800"
    r"\u3164\ufe00-\ufe0f\ufeff\uffa0"
)
_NAME: Final = rf"^[^{_NO_NAME}]*[^{_UNSEEN}{_NO_NAME}][^{_NO_NAME}]*(?!\n)$"

# How long a message's question may be, and a transcript that ends with it, in characters. Little of
# the turns before a question counts, so that they cost less.
_QUESTION_LENGTH: Final = 20_000
_TRANSCRIPT_LENGTH: Final = 200_000


MOST_COLLECTIONS: Final = 1000
"""How many collections a source may be added to."""

CONVERSATION_ID: Final = r"^conv_[0-9a-f]{24}$"
"""What the ids of conversations look like; see `store.new_id`."""


class Wrapped(BaseModel, Generic[T]):
    """The wrapper that the interface puts around JSON bodies."""

    model_config = ConfigDict(frozen=True)

    value: T


class Listing(BaseModel, Generic[T]):
    """A list endpoint's answer."""

    model_config = ConfigDict(frozen=True)

    data: list[T]


def _storable(text: str) -> str:
    if "\x00" in text:
        raise ValueError("must not contain NUL characters")
    if not _is_unicode(text):
        raise ValueError("must not contain half a surrogate pair")
    return text


def _is_unicode(text: str) -> bool:
    # JSON can escape what UTF-8 cannot carry, such as a lone "\ud800".
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _showable(name: str) -> str:
    if not re.match(_NAME, name):
        raise ValueError(
            "must be one line with something to be seen in it, without control characters and "
            "characters that turn the direction of text"
        )
    return name


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


def _web_address(url: str) -> str:
    # The fetcher checks whether the address leads anywhere.
    if not re.match(_ADDRESS, url) or not _is_unicode(url):
        raise ValueError("must be an http or https address")
    return url


def _field_name(name: str) -> str:
    if not re.match(_FIELD_NAME, name):
        raise ValueError("must be the name of a header field (RFC 9110 section 5.1)")
    return name


def _field_value(value: str) -> str:
    # The value may be a secret, so the message has nothing of it.
    if not re.match(_FIELD_VALUE, value) or not _is_unicode(value):
        raise ValueError("must be the value of a header field (RFC 9110 section 5.5)")
    return value


def _askable(content: str) -> str:
    is_short = len(content) <= _TRANSCRIPT_LENGTH
    if not is_short or len(read(content).question) > _QUESTION_LENGTH:
        raise ValueError(
            f"must have at most {_QUESTION_LENGTH:,} characters, as a transcript at most "
            f"{_TRANSCRIPT_LENGTH:,} and its question {_QUESTION_LENGTH:,}"
        )
    return content


Text = Annotated[
    str,
    AfterValidator(_storable),
    AfterValidator(_not_blank),
    Field(json_schema_extra={"pattern": _TEXT}),
]
Id = Annotated[str, Field(max_length=200), AfterValidator(_storable)]


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)


class NewSource(_Body):
    """What every source is created with."""

    name: Annotated[
        str,
        Field(max_length=1000, json_schema_extra={"pattern": _NAME}),
        AfterValidator(_storable),
        AfterValidator(_showable),
    ]
    collections: Annotated[tuple[Id, ...], Field(min_length=1, max_length=MOST_COLLECTIONS)]


class NewHeader(Header):
    """A request header to send while scraping."""

    name: Annotated[
        str, AfterValidator(_field_name), Field(json_schema_extra={"pattern": _FIELD_NAME})
    ]
    value: Annotated[
        str, AfterValidator(_field_value), Field(json_schema_extra={"pattern": _FIELD_VALUE})
    ]


class NewWebpage(NewSource):
    """`POST /sources/webpage`."""

    url: Annotated[
        str,
        Field(max_length=8192, json_schema_extra={"pattern": _ADDRESS}),
        AfterValidator(_web_address),
    ]
    headers: Annotated[tuple[NewHeader, ...], Field(max_length=100)] | None = None


class NewText(NewSource):
    """`POST /sources/write`."""

    content: Text


class NewMessage(_Body):
    """`POST /messages`."""

    bot_id: Id
    content: Annotated[
        Text,
        AfterValidator(_askable),
        Field(
            description="The question, of at most 20,000 characters, or a transcript that ends "
            "with it.",
            json_schema_extra={"maxLength": _TRANSCRIPT_LENGTH},
        ),
    ]
    conversation_id: Annotated[Id, Field(json_schema_extra={"pattern": CONVERSATION_ID})] | None = (
        None
    )
