"""The one body of every error: `{"code", "message"}` (interface section 7), whatever the status."""

import logging
import sqlite3
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException as StarletteHTTPException

from knowledge_bot_service.settings import in_words
from knowledge_bot_service.storage import (
    DatabaseDamagedError,
    DatabaseLostError,
    DiskFullError,
    StorageError,
    log_storage_error,
    storage_error,
)

_log = logging.getLogger(__name__)


class Problem(BaseModel):
    """The body of an error (interface section 7)."""

    code: str
    message: str


class ProblemError(HTTPException):
    """A request that is answered with an error.

    Args:
        status: the answer's status.
        code: for programs; one for each condition.
        message: for people; what was wrong and what to do.
        headers: further headers of the answer.
    """

    def __init__(
        self,
        status: HTTPStatus,
        code: str,
        message: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, headers)
        self.code = code


def invalid(message: str) -> ProblemError:
    """The error for a request that does not follow the interface (400)."""
    return ProblemError(HTTPStatus.BAD_REQUEST, "invalid_request", message)


def install(app: FastAPI) -> None:
    """Make the application answer every error with a `Problem`."""
    app.add_exception_handler(StarletteHTTPException, _of_http)
    app.add_exception_handler(RequestValidationError, _of_validation)
    for kind in (StorageError, sqlite3.Error, OSError):
        app.add_exception_handler(kind, _of_storage)
    app.add_exception_handler(Exception, _of_fault)


def problem_response(
    status: int, code: str, message: str, headers: dict[str, str] | None = None
) -> JSONResponse:
    """A `Problem` as an answer."""
    return JSONResponse({"code": code, "message": message}, status, headers=headers)


def sentences(errors: Sequence[Any]) -> str:
    """Validation errors as one sentence. Never what was sent: it may be long, secret or binary."""
    return "; ".join(_sentence(error) for error in errors[:10])


def _sentence(error: Any) -> str:
    if error["type"] == "json_invalid":
        return f"the request body is not JSON: {error['ctx']['error']}, at {error['loc'][-1]}"
    place = ".".join(str(step) for step in error["loc"] if step != "body")
    said = _IN_JSON.get(error["type"]) or in_words(error)
    return f"{place or 'request body'}: {said}"


async def _of_http(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, StarletteHTTPException)  # noqa: S101 - Starlette hands over what it was registered for
    if isinstance(error, ProblemError):
        return problem_response(
            error.status_code, error.code, error.detail, dict(error.headers or {})
        )
    status = HTTPStatus(error.status_code)
    code, message = _OF_FRAMEWORK.get(status, (status.name.lower(), error.detail))
    return problem_response(status, code, message, dict(error.headers or {}))


async def _of_validation(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - as above
    return problem_response(HTTPStatus.BAD_REQUEST, "invalid_request", sentences(error.errors()))


async def _of_storage(_request: Request, error: Exception) -> JSONResponse:
    trouble = storage_error(error)
    if trouble is None:
        raise error
    log_storage_error(trouble, "the data folder")
    status, code, headers = _OF_STORAGE.get(type(trouble), _STORAGE_FAILED)
    return problem_response(status, code, str(trouble), headers)


async def _of_fault(request: Request, error: Exception) -> JSONResponse:
    _log.error("%s %s: %s", request.method, request.url.path, type(error).__name__)
    return problem_response(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "internal_error",
        "The service failed while it handled the request, and may have acted on it. "
        "Its log has the cause.",
        # Starlette raises the error again after this answer, and uvicorn ends the connection.
        headers={"Connection": "close"},
    )


# JSON's words, where they differ from those of a configuration file.
_OBJECT: Final = "must be an object"
_IN_JSON: Final = {
    "string_type": "must be a string",
    "model_type": _OBJECT,
    "dict_type": _OBJECT,
    "model_attributes_type": _OBJECT,
}

# Retry-After means that the service did not act.
_OF_STORAGE: Final[dict[type[StorageError], tuple[HTTPStatus, str, dict[str, str]]]] = {
    DiskFullError: (HTTPStatus.INSUFFICIENT_STORAGE, "disk_full", {"Retry-After": "60"}),
    DatabaseLostError: (HTTPStatus.SERVICE_UNAVAILABLE, "database_lost", {"Retry-After": "5"}),
    DatabaseDamagedError: (HTTPStatus.INTERNAL_SERVER_ERROR, "database_damaged", {}),
}
_STORAGE_FAILED: Final = (HTTPStatus.INTERNAL_SERVER_ERROR, "storage_failed", dict[str, str]())

# What FastAPI and Starlette raise by themselves, in the interface's words.
_OF_FRAMEWORK: Final = {
    HTTPStatus.BAD_REQUEST: ("invalid_request", "The request body is not JSON in UTF-8."),
    HTTPStatus.NOT_FOUND: (
        "not_found",
        "There is nothing at this path; the interface is under /public/v1.",
    ),
    HTTPStatus.METHOD_NOT_ALLOWED: (
        "method_not_allowed",
        "This path does not have this method; the Allow header names those it has.",
    ),
}
