"""What the service from memory refuses: what the interface does, and nothing more."""

import json
import re
from collections.abc import Mapping
from typing import Any

from knowledge_bot.testing._extensions import RejectedError

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
