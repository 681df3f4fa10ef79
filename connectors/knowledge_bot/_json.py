"""The JSON of an answer, read although something in it is odd that nobody needs.

An answer that was given is paid for, and a source that was created is there: a byte order mark,
half an emoji or a field that nobody reads must not cost them.
"""

import json
import math
from typing import Any

from knowledge_bot._texts import whole

# Levels that are kept of what is nested; pydantic writes some more than 200.
_DEEPEST = 100

# Digits of a number that Python reads.
_LONGEST = 4000


def plain(value: Any, levels: int = _DEEPEST) -> Any:
    """Return a value of JSON as any reader takes it.

    Half an emoji becomes U+FFFD; an infinite number, and what is nested deeper than anything of the
    interface, None.
    """
    match value:
        case str():
            return whole(value)
        case dict() | list() if not levels:
            return None
        case dict():
            return {whole(key): plain(one, levels - 1) for key, one in value.items()}
        case list():
            return [plain(one, levels - 1) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_in(body: bytes) -> Any:
    """Return what a body says, where it is odd as `plain` returns it, without what follows it.

    Raises:
        ValueError: it is no JSON.
    """
    from pydantic_core import from_json  # slow to load

    try:
        return from_json(body)
    except ValueError as error:
        text = body.decode(json.detect_encoding(body), "replace").lstrip("\ufeff \t\r\n")
        try:
            return plain(_LENIENT.raw_decode(text)[0])
        except (ValueError, RecursionError):
            raise error from None


_LENIENT = json.JSONDecoder(
    strict=False, parse_int=lambda digits: int(digits) if len(digits) < _LONGEST else None
)
