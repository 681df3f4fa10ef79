"""The one body of every error: `{"code", "message"}` (interface section 7), whatever the status.

A key that was used before has an `id` beside them, of what its request created.
"""

import logging
import sqlite3
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from knowledge_bot_service.config.refusals import (
    RefusedRequestError,
    StorageError,
    UnknownError,
    invalid,
    log_storage_error,
    storage_error,
)
from knowledge_bot_service.config.settings import in_words
from knowledge_bot_service.web.requests import SAID

_log = logging.getLogger(__name__)


def response_to(error: RefusedRequestError) -> JSONResponse:
    """The answer to a request that is refused."""
    body = {"code": error.code, "message": error.detail} | ({"id": error.id} if error.id else {})
    return JSONResponse(body, error.status_code, error.headers)


def install(app: FastAPI) -> None:
    """Make the application answer every error with such a body."""
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(RequestValidationError, _of_validation)
    for kind in (StorageError, sqlite3.Error, OSError):
        app.add_exception_handler(kind, _of_storage)
    app.add_exception_handler(Exception, _of_fault)


def sentences(errors: Sequence[Any]) -> str:
    """Validation errors as one sentence. Never what was sent: it may be long, secret or binary."""
    return "; ".join(_sentence(error) for error in errors[:10])


def _sentence(error: Any) -> str:
    if error["type"] == "json_invalid":
        return f"the request body is not JSON: {error['ctx']['error']}, at {error['loc'][-1]}"
    place = ".".join(str(step) for step in error["loc"] if step != "body")
    said = SAID.get(error.get("ctx", {}).get("pattern")) or in_words(error)
    return f"{place or 'request body'}: {said}"


async def _of_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - Starlette hands over what it was registered for
    if isinstance(error, RefusedRequestError):
        if isinstance(error, UnknownError) and request.method == "GET":
            error.status_code = HTTPStatus.NOT_FOUND  # the path names it
        # A request whose idempotency key was taken in gets it back, whatever came of it.
        error.headers = {**(error.headers or {}), **getattr(request.state, "echo", {})}
        return response_to(error)
    status = HTTPStatus(error.status_code)
    code, message = _OF_FRAMEWORK.get(status, (status.name.lower(), error.detail))
    return response_to(RefusedRequestError(status, code, message, error.headers))


async def _of_validation(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - as above
    return response_to(invalid(sentences(error.errors())))


async def _of_storage(_request: Request, error: Exception) -> JSONResponse:
    trouble = storage_error(error)
    if trouble is None:
        raise error
    log_storage_error(trouble, "the data folder")
    return response_to(trouble)


async def _of_fault(request: Request, error: Exception) -> JSONResponse:
    _log.error("%s %s: %s", request.method, request.url.path, type(error).__name__)
    return response_to(
        RefusedRequestError(
            HTTPStatus.INTERNAL_SERVER_ERROR,
            "internal_error",
            "The service failed while it handled the request, and may have acted on it. "
            "Its log has the cause.",
            # Starlette raises the error again after this answer, and uvicorn ends the connection.
            {"Connection": "close"},
        )
    )


# What FastAPI and Starlette raise by themselves, in the interface's words.
_OF_FRAMEWORK: Final = {
    HTTPStatus.BAD_REQUEST: ("invalid_request", "The request body is not JSON in UTF-8."),
    HTTPStatus.NOT_FOUND: (
        "not_found",
        (
            "There is nothing at this path; the interface is under /public/v1, and with the extra "
            "`gateway` there are /v1 and /mcp."
        ),
    ),
    HTTPStatus.METHOD_NOT_ALLOWED: (
        "method_not_allowed",
        "This path does not have this method.",
    ),
}
