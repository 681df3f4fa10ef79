"""Checks of arguments: bad input is an error by name before anything is sent.

Each raises `ConfigurationError`. What the interface does not show, such as lengths and formats of
names (section 2), is left to the service to judge.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from knowledge_bot.errors import ConfigurationError
from knowledge_bot.models import Collection, Header

Collections: TypeAlias = str | Collection | Iterable[str | Collection]
"""One collection or several, as ids or as `Collection` objects."""

Headers: TypeAlias = Mapping[str, str] | Iterable[Header]
"""Request headers as a mapping or as `Header` objects."""

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2


def source_fields(name: str, collections: Collections) -> dict[str, Any]:
    """Return what every source is created with: `name`, and `collections` as a list of ids."""
    ids = collection_ids(collections)
    return {"name": non_empty_text("name", name), "collections": ids}


def collection_ids(collections: Collections) -> list[str]:
    """Return the ids of collections, each once."""
    several = [collections] if isinstance(collections, str | Collection) else collections
    if not isinstance(several, Iterable):
        raise ConfigurationError(f"collections: expected ids, not {type(several).__name__}")
    ids = [
        identifier("collections", item.id if isinstance(item, Collection) else item, "col_")
        for item in several
    ]
    if not ids:
        raise ConfigurationError("collections: name at least one collection")
    return list(dict.fromkeys(ids))


def identifier(argument: str, value: object, prefix: str) -> str:
    """Return an id, checked for its documented prefix."""
    # The prefixes are documented (section 2). What follows is not, so only what can never be part
    # of an address is refused.
    if not isinstance(value, str):
        raise ConfigurationError(f"{argument}: expected a string, not {type(value).__name__}")
    if not value.startswith(prefix) or value == prefix or not value.isprintable() or " " in value:
        raise ConfigurationError(f"{argument}: {value[:80]!r} is not an id of the form {prefix}…")
    return value


def non_empty_text(argument: str, value: object) -> str:
    """Return a text that holds more than white space."""
    if not isinstance(value, str):
        raise ConfigurationError(f"{argument}: expected a string, not {type(value).__name__}")
    if not value.strip():
        raise ConfigurationError(f"{argument}: is empty")
    return value


def absolute_address(url: object) -> str:
    """Return a page's address, checked for what no address can hold."""
    address = non_empty_text("url", url)
    if any(character <= " " or character == "\x7f" for character in address):
        raise ConfigurationError("url: holds a space or a control character; percent-encode it")
    # Which schemes the service takes is not shown (section 2), only that it is an address.
    try:
        scheme = urlsplit(address).scheme
    except ValueError as error:
        raise ConfigurationError(f"url: {address[:200]!r} is not an address: {error}") from None
    if not scheme:
        raise ConfigurationError(f"url: {address[:200]!r} is not an absolute address (https://…)")
    return address


def header_list(headers: Headers) -> list[dict[str, str]]:
    """Return headers as the interface lists them. An error names a header, never its value."""
    try:
        pairs: Sequence[tuple[Any, Any]] = (
            list(headers.items())
            if isinstance(headers, Mapping)
            else [(header.name, header.value) for header in headers]
        )
    except (AttributeError, TypeError):
        raise ConfigurationError("headers: expected a mapping or Header objects") from None
    for name, value in pairs:
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise ConfigurationError(f"headers: {name!r} is not a header name")
        if not isinstance(value, str):
            kind = type(value).__name__
            raise ConfigurationError(f"headers: the value of {name!r} is not a string but {kind}")
        if re.search(r"[\r\n\0]", value):
            raise ConfigurationError(f"headers: the value of {name!r} holds a line end or a NUL")
    return [{"name": name, "value": value} for name, value in pairs]
