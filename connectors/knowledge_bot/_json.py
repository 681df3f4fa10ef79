"""The JSON of an answer, read although something in it is odd that nobody needs.

An answer that was given is paid for, and a source that was created is there: a byte order mark,
half an emoji or a field that nobody reads must not cost them.
"""

import json
import re
from typing import Any

# Bytes of an answer that is read piece by piece, which takes a second for as many pieces.
_LONGEST = 1024 * 1024

# Levels that are kept of what is nested; pydantic reads 200.
_DEEPEST = 100

# Strings, to the end where they have none, brackets, and what is between; none is read twice.
_PIECES = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[\]{}]|[^"\[\]{}]+', re.DOTALL)

# What stands in a string: two halves of an emoji, one half, any other escape, a bare control
# character.
_ESCAPES = re.compile(
    r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F]..)|\\.|([\x00-\x1f])", re.DOTALL
)

# A number of more digits than Python reads.
_ENDLESS = re.compile(r"-?\d{4000,}(?:\.\d*)?(?:[eE][-+]?\d+)?")


def storable(text: str) -> str:
    """Return a text as every database and log can hold it: NUL and half an emoji become U+FFFD."""
    encoded = text.replace("\0", "\ufffd").encode("utf-16", "surrogatepass")
    return encoded.decode("utf-16", "replace")


def json_in(body: bytes) -> Any:
    """Return what a body says.

    What no text can hold, such as half an emoji, becomes U+FFFD; an endless number, and what is
    nested deeper than anything of the interface, become None; what follows an object is left out.

    Raises:
        ValueError: it is no JSON.
    """
    from pydantic_core import from_json  # slow to load

    try:
        return from_json(body)
    except ValueError as error:
        if len(body) > _LONGEST:
            raise
        text = body.decode(json.detect_encoding(body), "replace")
        try:
            return from_json(_mended(text))
        except ValueError:
            raise error from None


def _mended(text: str) -> str:
    kept, depth = [], 0
    for piece in _PIECES.findall(text.lstrip("\ufeff")):
        depth += piece in ("[", "{")
        if depth <= _DEEPEST:
            in_string = piece.startswith('"')
            kept.append(_ESCAPES.sub(_escaped, piece) if in_string else _ENDLESS.sub("null", piece))
        elif depth == _DEEPEST + 1 and piece in ("[", "{"):
            kept.append("null")
        depth -= piece in ("]", "}")
        if depth == 0 and piece == "}":
            break
    return "".join(kept)


def _escaped(found: re.Match[str]) -> str:
    half, control = found.groups()
    if control:
        return f"\\u{ord(control):04x}"
    return "\\ufffd" if half else found.group()
