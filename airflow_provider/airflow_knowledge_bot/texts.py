"""Texts as Airflow can hold them, in XCom, events, logs and its state store."""

from collections.abc import Mapping
from typing import Any, TypeVar

from knowledge_bot.adapters import storable as storable_text
from knowledge_bot.adapters import without_logins

T = TypeVar("T")

# The length of a line in a log or XCom that quotes somebody.
_CHARACTERS = 500


def storable(value: T) -> T:
    """Return a text, or plain JSON, without what no database, log or reader should get.

    NUL and half an emoji become U+FFFD, and a login in a web address becomes `***`.
    """
    return _storable(value)  # type: ignore[no-any-return] # of the same shape


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return without_logins(storable_text(value))
    if isinstance(value, Mapping):
        return {_storable(name): _storable(one) for name, one in value.items()}
    return [_storable(one) for one in value] if isinstance(value, list | tuple) else value


def brief(text: str) -> str:
    """Return a text as one storable line of bounded length."""
    line = storable(" ".join(text.split()))
    return line if len(line) <= _CHARACTERS else f"{line[:_CHARACTERS]}…"
