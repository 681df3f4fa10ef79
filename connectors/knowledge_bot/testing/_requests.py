"""What the service from memory refuses: what the interface does, and on demand more.

The interface shows no lengths and no forms of names (section 2). The embedded service has some,
which a test may want to meet: `MemoryService(strict=True)`.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from knowledge_bot.testing._extensions import RejectedError
from knowledge_bot.transcripts import read

_METHODS = {
    "GET": re.compile(r"/ping|/collections|/bots|/bots/[^/]+/conversations"),
    "POST": re.compile(r"/messages|/sources/(webpage|write|upload)"),
}


def invalid(message: str) -> RejectedError:
    """Return the refusal of a request that is not as the interface has it."""
    return RejectedError(400, "invalid_request", message)


def nothing_there(path: str) -> RejectedError:
    """Return the refusal of a path, or of a method at it."""
    if any(known.fullmatch(path) for known in _METHODS.values()):
        return RejectedError(405, "method_not_allowed", "this path does not have this method")
    return RejectedError(404, "not_found", "there is nothing at this address")


def fields_in(content_type: str, body: bytes) -> dict[str, Any]:
    """Return the fields of a request.

    Raises:
        RejectedError: they are not wrapped in `value`, or of another content type.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in ("application/json", "multipart/form-data"):
        raise RejectedError(400, "unsupported_media_type", f"{kind!r} is not the content type")
    try:
        if kind == "multipart/form-data":
            fields, _ = form_in(content_type, body)
            value = fields.get("value", fields)
        else:
            value = json.loads(body)["value"]
        return dict(value)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise invalid("the body is no JSON object, or it is not wrapped in `value`") from None


def form_in(content_type: str, body: bytes) -> tuple[dict[str, Any], tuple[str, bytes] | None]:
    """Read a multipart form (RFC 7578): its fields, a repeated one as a list, and its file.

    Nothing is altered: a file may be a mail, and look like a form itself.
    """
    boundary = re.search(r'boundary="?([^\s";]+)', content_type)
    if boundary is None:
        raise ValueError("there is no boundary")
    _, *parts, _ = (b"\r\n" + body).split(b"\r\n--" + boundary[1].encode())
    fields: dict[str, Any] = {}
    file = None
    for part in parts:
        head, _, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        named = dict(re.findall(r'\b(name|filename)="([^"]*)"', head.decode("utf-8", "replace")))
        name = named.get("name", "")
        if name == "file":
            file = _unquoted(named.get("filename", "")), content
        elif name == "value":
            fields[name] = json.loads(content)
        elif name == "collections":  # plain form fields, one for each
            fields.setdefault(name, []).append(content.decode())
        else:
            fields[name] = content.decode()
    return fields, file


def _unquoted(filename: str) -> str:
    # As browsers quote it (WHATWG HTML, multipart/form-data encoding).
    return re.sub("%(22|0D|0A)", lambda found: chr(int(found[1], 16)), filename)


def check_headers(value: Mapping[str, Any]) -> None:
    """Check that a page's headers are a list of names and values (section 2)."""
    headers = value.get("headers") or []
    if not isinstance(headers, list) or not all(map(_is_header, headers)):
        raise invalid("headers is not a list of names and values")


def _is_header(one: object) -> bool:
    return isinstance(one, dict) and all(
        isinstance(one.get(each), str) for each in ("name", "value")
    )


# What the embedded service takes ------------------------------------------------------------------

_CONTROLS = r"\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufff9-\ufffb"
_ADDRESS = (
    r"[Hh][Tt][Tt][Pp][Ss]?://"
    r"([^\s\x00-\x1f/?#@:\[\]\\]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?([/?#][^\s\x00-\x1f]*)?"
)

# By field: its form, and how many characters it may have.
_LIMITS = {
    "name": (re.compile(rf"[^{_CONTROLS}]*"), 1000),
    "url": (re.compile(_ADDRESS), 8192),
    "content": (re.compile(r"[^\x00]*"), None),
    "query": (re.compile(r"[^\x00]*"), 20_000),
    "bot_id": (re.compile(r"[^\x00]*"), 200),
    "conversation_id": (re.compile(r"[^\x00]*"), 200),
}
_LONGEST_MESSAGE = 200_000
_LONGEST_QUESTION = 20_000
_MOST = {"collections": 1000, "headers": 100}
_STATUSES = frozenset({"pending", "processing", "ready", "failed"})


def check_strictly(value: Mapping[str, Any]) -> None:
    """Refuse what the embedded service refuses beyond the interface."""
    for field, (form, longest) in _LIMITS.items():
        text = value.get(field)
        if not isinstance(text, str):
            continue
        if not form.fullmatch(text) or (longest is not None and len(text) > longest):
            raise invalid(f"{field}: it is too long, or has another form")
    for field, most in _MOST.items():
        if isinstance(value.get(field), list) and len(value[field]) > most:
            raise invalid(f"{field}: there are more than {most}")
    content = value.get("content")
    if "bot_id" in value and isinstance(content, str):
        asked = read(content).question
        if len(content) > _LONGEST_MESSAGE or len(asked) > _LONGEST_QUESTION:
            raise invalid("content: the message or its question is too long")


def check_query_strictly(query: Mapping[str, list[str]]) -> None:
    """Refuse filters of a list of sources that the embedded service refuses."""
    if unknown := set(query.get("status", ())) - _STATUSES:
        raise invalid(f"status: {', '.join(sorted(unknown))} is none")
