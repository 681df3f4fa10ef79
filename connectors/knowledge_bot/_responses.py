"""What an answer means: decoded within bounds, read into its result, or made into an error.

The API key and values of headers are cut out of whatever an error repeats. An answer that can be
read is not altered.
"""

import re
import time
import zlib
from typing import Any, TypeVar

from knowledge_bot._configuration import Configuration
from knowledge_bot._endpoints import UNKNOWN_ORIGIN, UNKNOWN_SOURCE, Request, unwrapped
from knowledge_bot._json import json_in
from knowledge_bot._texts import without_logins
from knowledge_bot._transports import Destination, HTTPResponse
from knowledge_bot.errors import (
    _KEY_IN_USE,
    Delivery,
    KnowledgeBotError,
    NotFoundError,
    UnexpectedResponseError,
    _class_of,
)

T = TypeVar("T")

ACCEPT_ENCODING = "gzip, deflate"

# Room for a long list of conversations; the largest documented answer is a bot's text. In bytes.
LARGEST_ANSWER = 16 * 1024 * 1024
_COMPRESSED_CUT = "its compressed body is cut short"
_TOO_LARGE = f"its body is larger than {LARGEST_ANSWER // 2**20} MiB"

# Bytes unpacked at a time, and bytes kept of a body that is too large.
_STEP = 256 * 1024
_START = 4000

# Lets zlib recognise gzip and zlib by their headers.
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32

_MESSAGE_LENGTH = 500

# Characters of a header's value from which it may be a secret.
_SECRET = 8

_ADVICE = {
    408: "No whole request arrived there in time: send it again, over a better line if it is large",
    407: "Check the proxy's address and login in HTTP_PROXY or HTTPS_PROXY",
    413: "It is larger than the service, or what stands before it, takes: send it in parts",
}

# `Retry-After` as people send it, and the longest one that is a number of seconds.
_SECONDS = re.compile(r"\+?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_FOR_EVER = 1e9

# Codes of docs/extensions.md.
KEY_REUSED = "idempotency_key_reused"

_ADVICE_BY_CODE = {
    _KEY_IN_USE: "An earlier request with its key is still being handled: send it again later",
    KEY_REUSED: "Its key was used for another request: look there for what that made",
    "idempotency_key_expired": "Its key is too old to tell whether it was used: look there first",
}

_CODES = frozenset(
    {*_ADVICE_BY_CODE, UNKNOWN_SOURCE, UNKNOWN_ORIGIN}
    | {"entry_moved_on", "digest_mismatch", "origin_exists"}
)

# Answers from before the key of idempotency is looked at.
_BEFORE_THE_KEY = frozenset({401, 403, 408, 429})


def read_result(
    request: Request[T], response: HTTPResponse, destination: Destination, settings: Configuration
) -> T:
    """Return the result that a response holds.

    Raises:
        KnowledgeBotError: an answer that says what went wrong, or that cannot be read.
    """
    if response.status >= 300:
        error = _error(request, response, destination, settings)
        if isinstance(error, NotFoundError) and error.code in request.done_if:
            return request.read(b"")
        raise error
    body, excess = _decoded(response)
    if excess:
        cut = excess == _COMPRESSED_CUT
        raise _unexpected(request, response, destination, settings, body=body, why=excess, cut=cut)
    try:
        return request.read(body)
    except ValueError as error:  # invalid JSON, invalid UTF-8, pydantic's ValidationError
        start = _without_secrets(body[:_START], request, settings)
        why = f"it cannot be read: {_parse_problem(error)}. {_beginning(response, start)}"
        raise _unexpected(
            request, response, destination, settings, body=body, why=why, cut=_is_cut_short(body)
        ) from None


def _is_cut_short(body: bytes) -> bool:
    """Return whether a body is the beginning of some JSON, of which the rest is missing."""
    from pydantic_core import from_json

    text = body.decode("utf-8-sig", "ignore")  # a character may be cut in two
    try:
        from_json(text)
    except ValueError:
        try:
            return from_json(text, allow_partial=True) is not None
        except ValueError:
            return False
    return False


def _parse_problem(error: ValueError) -> str:
    text = str(error)
    if hasattr(error, "errors"):  # pydantic's, much more than a person needs
        found = error.errors(include_url=False, include_input=False, include_context=False)
        text = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found)
    return " ".join(text.split())[:300]


def _beginning(response: HTTPResponse, body: bytes) -> str:
    if not body:
        return "It is empty"
    start = _printable(body.decode("utf-8", "replace"))[:80]
    kind = _printable(response.headers.get("content-type", ""))[:80]
    return f"It begins with {start!r}" + (f", as {kind}" if kind else "")


def outcome_of(request: Request[T], delivery: Delivery) -> str:
    """Return the sentence that says what a failure means for the request."""
    if delivery is Delivery.NOT_DELIVERED:
        return "The service cannot have acted on it; sending it again is safe"
    if request.only_reads:
        return "Nothing was changed by asking"
    if delivery is Delivery.REFUSED:
        return "The service did not act on it"
    if request.repeatable:
        return "The service may have acted on it; sent again, it has no second effect"
    if request.idempotency_key is not None:
        return (
            "The service may have acted on it. Sent again with the same arguments and "
            f"idempotency_key={request.idempotency_key!r}, it has no second effect"
        )
    return (
        "The service may have acted on it, so it was not sent again: look there before sending it "
        "once more"
    )


def echoes_key(request: Request[T], response: HTTPResponse) -> bool:
    """Return whether an answer names the request's key of idempotency, so that it counted."""
    echo = response.headers.get("idempotency-key")
    return echo is not None and echo.strip().strip('"') == request.idempotency_key


def _decoded(response: HTTPResponse) -> tuple[bytes, str]:
    """Return the decompressed body, or its start and why the rest is missing."""
    body, excess = response.body, ""
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding in ("gzip", "x-gzip", "deflate"):
        body, excess = _unpacked(body, encoding)
    elif encoding not in ("", "identity"):
        excess = f"its body is encoded as {encoding[:40]!r}, which was not asked for"
    if not excess and len(body) > LARGEST_ANSWER:
        excess = _TOO_LARGE
    return (body[:_START], excess) if excess else (body, "")


def _unpacked(body: bytes, encoding: str) -> tuple[bytes, str]:
    if not body:
        return body, ""
    # Some servers mean raw DEFLATE by "deflate" (RFC 9110, section 8.4.1.2, note). The first byte
    # of the zlib form names its method, which is 8, and the first two are a multiple of 31.
    is_zlib = body[0] & 0x0F == 8 and int.from_bytes(body[:2], "big") % 31 == 0
    window = -zlib.MAX_WBITS if encoding == "deflate" and not is_zlib else _GZIP_OR_ZLIB
    unpacker = zlib.decompressobj(window)
    unpacked, part = bytearray(), b""
    try:
        # A full step may leave output behind although no input is left.
        while (body or len(part) == _STEP) and len(unpacked) <= LARGEST_ANSWER:
            part = unpacker.decompress(body, _STEP)
            body = unpacker.unconsumed_tail
            unpacked += part
    except zlib.error as error:
        return bytes(unpacked[:_START]), f"its compressed body is damaged: {error}"
    if len(unpacked) > LARGEST_ANSWER:
        return bytes(unpacked[:_START]), _TOO_LARGE
    return bytes(unpacked), "" if unpacker.eof else _COMPRESSED_CUT


def _error(
    request: Request[T], response: HTTPResponse, destination: Destination, settings: Configuration
) -> KnowledgeBotError:
    def printable(text: str) -> str:
        told = _without_secrets(text.encode("utf-8", "replace"), request, settings)
        return _printable(told.decode())

    body, _ = _decoded(response)
    headers, status = response.headers, response.status
    if status < 400:
        target = printable(headers.get("location", "nowhere").partition("?")[0])[:200]
        why = (
            f"it redirects to {target}. Redirects are never followed, since the API key would go "
            "along"
        )
        to_do = "Set {base_url} to the service's own address"
        return _unexpected(
            request, response, destination, settings, body=body, why=why, advice=to_do
        )
    retry_after = retry_after_seconds(headers.get("retry-after"))
    code, message, _ = _problem_in(_without_secrets(body, request, settings))
    plain, _, created_id = _problem_in(body)
    if plain in _CODES:
        code = plain  # though a test's short key may be a part of it
    refused = status < 500 or (status in {503, 507} and retry_after is not None)
    # Had an earlier attempt been acted on, its key would have brought its answer.
    settled = (
        status not in _BEFORE_THE_KEY
        and code not in _ADVICE_BY_CODE
        and echoes_key(request, response)
    )
    in_doubt = code == _KEY_IN_USE or (request.in_doubt and not settled)
    delivery = Delivery.REFUSED if refused and not in_doubt else Delivery.UNKNOWN
    request_id = headers.get("x-request-id")
    advice = _ADVICE_BY_CODE.get(code or "", _ADVICE.get(status))
    if status == 401 and settings.api_key is None:
        advice = "There is no API key: {no_key}"
    error = _class_of(status)(
        status,
        code,
        message,
        request_id if request_id is None else printable(request_id),
        retry_after=retry_after,
        delivery=delivery,
        outcome=outcome_of(request, delivery),
        request=f"{request} to {destination}",
        advice=advice,
    )
    if code == KEY_REUSED:
        error.created_id = created_id
    return error


def _unexpected(
    request: Request[T],
    response: HTTPResponse,
    destination: Destination,
    settings: Configuration,
    *,
    body: bytes,
    why: str,
    cut: bool = False,
    advice: str | None = None,
) -> UnexpectedResponseError:
    return UnexpectedResponseError(
        f"{request} to {destination} was answered with {response.status}, but {why}",
        status_code=response.status,
        body=_without_secrets(body, request, settings),
        may_pass=cut,
        outcome=outcome_of(request, Delivery.UNKNOWN),
        advice=advice,
    )


def _problem_in(body: bytes) -> tuple[str | None, str, str | None]:
    """Read `code` and `message` (interface section 7), and `id`, or the start of what came instead.

    A proxy or a framework before the service may refuse in words of its own.
    """
    import json

    try:
        found = unwrapped(json_in(body), "code")
        code, message, named = found.get("code"), found.get("message"), found.get("id")
        if found and code is None and message is None:
            message = json.dumps(found, ensure_ascii=False)
    except (ValueError, AttributeError, RecursionError):
        text = re.sub(r"<[^>]*>|\s+", " ", body[:_START].decode("utf-8", "replace"))
        return None, _printable(" ".join(text.split()))[:_MESSAGE_LENGTH], None
    return (
        _printable(str(code))[:_MESSAGE_LENGTH] if code is not None else None,
        _printable(str(message))[:_MESSAGE_LENGTH] if message is not None else "",
        named if isinstance(named, str) and named.isprintable() else None,
    )


def _printable(text: str) -> str:
    """Return text that is safe in any terminal and log; the service may have sent anything."""
    spaced = " ".join(without_logins(text).splitlines())
    return "".join(each if each.isprintable() else "\ufffd" for each in spaced)


def _without_secrets(body: bytes, request: Request[Any], settings: Configuration) -> bytes:
    """Return a body without the key and values of headers, plain or as JSON spells them.

    Of a value such as "Bearer …" each word, but for short ones: "1" names a tenant, and stands in
    many a text.
    """
    import json

    key = [settings.api_key.get_secret_value()] if settings.api_key else []
    values = [*request.secrets, *(value.get_secret_value() for _, value in settings.headers)]
    words = (word for value in values for word in value.split() if len(word) >= _SECRET)
    for plain in [*key, *words]:
        escaped = json.dumps(plain)[1:-1]
        # PHP, for one, escapes slashes too.
        for spelling in {plain, escaped, escaped.replace("/", "\\/")}:
            body = body.replace(spelling.encode(), b"***")
    return body


def retry_after_seconds(value: str | None) -> float | None:
    """Return the seconds of a `Retry-After` (RFC 9110, section 10.2.3); None where it has none.

    A fraction and a date of ISO 8601 are understood too.
    """
    if value is None:
        return None
    text = value.strip()
    if _SECONDS.fullmatch(text):
        return min(float(text), _FOR_EVER)
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    try:
        moment = datetime.fromisoformat(text) if text[:1].isdigit() else parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:  # asctime's format, which stands for UTC (section 5.6.7)
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, moment.timestamp() - time.time())
