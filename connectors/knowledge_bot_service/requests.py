"""The bodies of requests (interface section 4), and what makes one valid."""

import re
from typing import Annotated, Final, Generic, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from knowledge_bot.models import Header

T = TypeVar("T")

# RFC 9110 section 5.1: a field name is a token. Section 5.5: a field value has no CR, LF or NUL.
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NO_FIELD_VALUE: Final = re.compile(r"[\r\n\x00]")


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


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


def _web_address(url: str) -> str:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        valid = False
    if not valid or re.search(r"[\s\x00-\x1f]", url) or not _is_unicode(url):
        raise ValueError("must be an http or https address")
    return url


def _field(header: Header) -> Header:
    # The value may be a secret, so the message names neither.
    if not _TOKEN.fullmatch(header.name) or not _is_field_value(header.value):
        raise ValueError("must be a header field's name and value (RFC 9110 section 5)")
    return header


def _is_field_value(value: str) -> bool:
    return _is_unicode(value) and not _NO_FIELD_VALUE.search(value)


Text = Annotated[
    str,
    AfterValidator(_storable),
    AfterValidator(_not_blank),
    Field(json_schema_extra={"pattern": r"\S"}),
]
Id = Annotated[str, Field(max_length=200), AfterValidator(_storable)]


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)


class NewSource(_Body):
    """What every source is created with."""

    name: Annotated[Text, Field(max_length=1000)]
    collections: Annotated[tuple[Id, ...], Field(min_length=1, max_length=1000)]


class NewWebpage(NewSource):
    """`POST /sources/webpage`."""

    url: Annotated[
        str,
        Field(max_length=8192, json_schema_extra={"format": "uri", "pattern": "^https?://"}),
        AfterValidator(_web_address),
    ]
    headers: (
        Annotated[tuple[Annotated[Header, AfterValidator(_field)], ...], Field(max_length=100)]
        | None
    ) = None


class NewText(NewSource):
    """`POST /sources/write`."""

    content: Text


class NewMessage(_Body):
    """`POST /messages`."""

    bot_id: Id
    content: Annotated[Text, Field(max_length=20_000)]
    conversation_id: Id | None = None
