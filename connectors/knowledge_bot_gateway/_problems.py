"""Errors in OpenAI's format, and the header that keeps its clients from resending a POST.

    {"error": {"message": …, "type": …, "param": …, "code": …, "delivery": …}}

`delivery` is our own field: whether the service may have acted. Clients retry after 408, 409, 429,
5xx and a lost connection; OpenAI's obey the header `x-should-retry`, which is `true` only if the
service has certainly not acted and the failure may pass. So where it may have acted, the status is
one that no client repeats.
"""

import logging
import math
from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.types import Scope

from knowledge_bot import (
    APIError,
    ConfigurationError,
    Delivery,
    KnowledgeBotError,
)
from knowledge_bot.conversations import HeadsError
from knowledge_bot_gateway._service import told

_log = logging.getLogger("knowledge_bot.gateway")

INVALID: Final = "invalid_request_error"

UNKNOWN_OUTCOME: Final = 424
"""The status (Failed Dependency, RFC 4918) where the service may have acted."""

_RETRY_AFTER: Final = 1  # seconds, unless the service says otherwise


class ErrorBody(BaseModel):
    """What went wrong, in OpenAI's fields and our own one."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None
    delivery: Delivery = Delivery.NOT_DELIVERED


class ErrorEnvelope(BaseModel):
    """The body of an error."""

    error: ErrorBody


class Problem(HTTPException):
    """A request that is answered with an error.

    Attributes:
        body: the content of the response.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = INVALID,  # noqa: A002 - OpenAI's word
        code: str | None = None,
        param: str | None = None,
        delivery: Delivery = Delivery.NOT_DELIVERED,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, dict(headers or {}))
        self.body = ErrorBody(message=message, type=type, param=param, code=code, delivery=delivery)

    @property
    def response(self) -> JSONResponse:
        """The HTTP response."""
        return JSONResponse(
            {"error": self.body.model_dump(mode="json")}, self.status_code, headers=self.headers
        )


def invalid(message: str, param: str | None = None, code: str | None = None) -> Problem:
    """A request that cannot be understood or met; nothing was sent."""
    return Problem(400, message, param=param, code=code)


def unsupported(param: str, what: str, code: str = "unsupported_value") -> Problem:
    """A parameter or a value that bots do not support; nothing was sent."""
    return Problem(400, f"{param}: {what}. Nothing was sent.", param=param, code=code)


def no_such_model(model: str) -> Problem:
    """There is no bot with this id."""
    return Problem(
        404,
        f"The model {model[:100]!r} does not exist: no bot of the service has this id. "
        "GET /v1/models lists the bots.",
        param="model",
        code="model_not_found",
    )


def problem_of(error: KnowledgeBotError, *, own_key: bool) -> Problem:
    """Return the response to an error of the core.

    Where the gateway's `own_key` was sent, a refused key is not the caller's.
    """
    status, kind, code = _status_type_and_code(error, own_key=own_key)
    again = error.may_pass and error.delivery is not Delivery.UNKNOWN
    headers = {"x-should-retry": "true" if again else "false"}
    if again:
        seconds = getattr(error, "retry_after", None) or _RETRY_AFTER
        headers["Retry-After"] = str(math.ceil(seconds))
    return Problem(
        status, told(error), type=kind, code=code, delivery=error.delivery, headers=headers
    )


def fault(scope: Scope, error: Exception) -> Problem:
    """Return the response where the gateway itself failed; the log says why."""
    _log.error("%s %s: %s", scope["method"], scope["path"], type(error).__name__, exc_info=error)
    return Problem(
        UNKNOWN_OUTCOME,
        "The gateway failed while it handled the request, and the service may have received it. "
        "The gateway's log names the error; look before you send it again.",
        type="server_error",
        code="outcome_unknown",
        delivery=Delivery.UNKNOWN,
        # Starlette may raise the error again after this answer, and uvicorn ends the connection.
        headers={"x-should-retry": "false", "Connection": "close"},
    )


def _status_type_and_code(error: KnowledgeBotError, *, own_key: bool) -> tuple[int, str, str]:
    """Return the status, the type and the code of an error."""
    if error.delivery is Delivery.UNKNOWN:
        return UNKNOWN_OUTCOME, "server_error", "outcome_unknown"
    if getattr(error, "argument", None) == "conversation_id":
        return 404, INVALID, "conversation_not_found"
    if isinstance(error, APIError):
        if error.status_code in (401, 403) and own_key:
            return 502, "server_error", "gateway_key_refused"
        kind, code = _OF_STATUS.get(error.status_code, (INVALID, error.code or "refused"))
        return error.status_code, kind, code
    for kind_of, answer in _NOTHING_SENT.items():
        if isinstance(error, kind_of):
            return answer
    return 503 if error.may_pass else 502, "server_error", "service_unreachable"


_NOTHING_SENT: Final[Mapping[type[KnowledgeBotError], tuple[int, str, str]]] = {
    ConfigurationError: (400, INVALID, "invalid_value"),
    HeadsError: (503, "server_error", "heads_unavailable"),
}

_OF_STATUS: Final = {
    401: ("authentication_error", "invalid_api_key"),
    402: ("insufficient_quota", "insufficient_quota"),
    403: ("permission_error", "permission_denied"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    503: ("server_error", "service_unavailable"),
}


def install(app: FastAPI, *, own_key: bool) -> None:
    """Make an application answer every error in this format; see `problem_of` for `own_key`."""

    async def answer(request: Request, error: Exception) -> JSONResponse:
        return problem_from(request, error).response

    app.state.own_key = own_key
    for kind in (KnowledgeBotError, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, answer)


def problem_from(request: Request, error: Exception) -> Problem:
    """Return the response to whatever a request ended in."""
    match error:
        case Problem():
            return error
        case KnowledgeBotError():
            return problem_of(error, own_key=request.app.state.own_key)
        case HTTPException():
            message = _OF_FRAMEWORK.get(error.status_code, error.detail)
            return Problem(error.status_code, message, headers=error.headers)
        case RequestValidationError():
            return _of_validation(request, error)
    return fault(request.scope, error)


def _of_validation(request: Request, error: RequestValidationError) -> Problem:
    if request.method == "POST" and "json" not in request.headers.get("content-type", "").lower():
        message = "The request body has to come with Content-Type: application/json."
        return Problem(415, f"{message} Nothing was sent.", code="invalid_content_type")
    first: Any = error.errors()[0]
    place = ".".join(str(step) for step in first["loc"] if step not in ("body", "query"))
    if first["type"] == "json_invalid":
        return invalid("The request body is not JSON. Nothing was sent.")
    # The value is never quoted: it may be long, secret or not text.
    message = f"{place or 'The request body'}: {first['msg']}. Nothing was sent."
    return invalid(message, place or None, "invalid_type")


# Errors that FastAPI and Starlette raise.
_OF_FRAMEWORK: Final = {
    400: "The request body is not JSON in UTF-8. Nothing was sent.",
    404: "There is nothing at this path. A gateway has /v1/models, /v1/chat/completions, "
    "/v1/responses and /mcp; `kbot mcp --http` has /mcp alone.",
    405: "This path does not have this method; the Allow header names those it has.",
}
