"""Texts as databases, logs and their readers may have them."""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


# What is in a text that may not be stored as it is: NUL, half an emoji, the end of a login.
_SUSPECT = re.compile("[\0@\ud800-\udfff]")


def storable(value: T) -> T:
    """Return a text, or plain JSON, without what no database, log or reader should get.

    NUL and half an emoji become U+FFFD, and a login in a web address becomes `***`.
    """
    given: Any = value
    if isinstance(given, str):
        if _SUSPECT.search(given):
            given = without_logins(whole(given.replace("\0", "\ufffd")))
    elif isinstance(given, Mapping):
        given = {storable(name): storable(one) for name, one in given.items()}
    elif isinstance(given, list | tuple):
        given = [storable(one) for one in given]
    return given  # type: ignore[no-any-return] # of the same shape


def whole(text: str) -> str:
    """Return a text as any reader takes it: half an emoji becomes U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# Of any address, also one whose scheme was forgotten.
_LOGIN = re.compile(r"((?::|(?<![^\s'\"(]))//)[^\s/?#]*@")


def without_logins(text: str) -> str:
    """Return a text with the user names and passwords of its web addresses cut out."""
    return _LOGIN.sub(r"\1***@", text) if "@" in text else text


def holds_login(address: str) -> bool:
    """Return whether an address has a user name or a password before its host."""
    return without_logins(address) != address
