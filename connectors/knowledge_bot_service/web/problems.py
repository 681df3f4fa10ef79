"""The one body of every error: `{"code", "message"}` (interface section 7), whatever the status."""

import logging
import re
import sqlite3
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from itertools import chain
from typing import Any, Final, NamedTuple

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.routing import Match

from knowledge_bot_service.answers.answerer import NoAnswerError
from knowledge_bot_service.config.settings import in_words
from knowledge_bot_service.config.storage import (
    DatabaseDamagedError,
    DatabaseLostError,
    DiskFullError,
    StorageError,
    log_storage_error,
    storage_error,
)
from knowledge_bot_service.index.search import UnknownPassageError
from knowledge_bot_service.store.idempotency import (
    LIFETIME,
    KeyExpiredError,
    KeyInUseError,
    KeyReusedError,
)
from knowledge_bot_service.store.sources import (
    QuotaExceededError,
    RevisionChangedError,
    UnknownSourceError,
)
from knowledge_bot_service.web.requests import CONVERSATION_ID, SAID
from knowledge_bot_service.work.knowledge_base import (
    HiddenCollectionError,
    QuestionTooLongError,
    UnknownBotError,
    UnknownCollectionError,
    UnknownConversationError,
    UnknownIdError,
)

_log = logging.getLogger(__name__)


class Problem(BaseModel):
    """The body of an error (interface section 7); `id` is of what a request created before."""

    code: str
    message: str
    id: str | None = None


class ProblemError(HTTPException):
    """A request that is answered with an error.

    Args:
        status: the answer's status.
        code: for programs; one for each condition.
        message: for people; what was wrong and what to do.
        headers: further headers of the answer.
        id: what was created before; left out of the body otherwise.
    """

    def __init__(
        self,
        status: HTTPStatus,
        code: str,
        message: str,
        headers: Mapping[str, str] | None = None,
        *,
        id: str | None = None,  # noqa: A002 - the field's name
    ) -> None:
        super().__init__(status, message, headers)
        self.code = code
        self.id = id

    def response(self) -> JSONResponse:
        """The answer."""
        body = Problem(code=self.code, message=self.detail, id=self.id)
        return JSONResponse(body.model_dump(exclude_none=True), self.status_code, self.headers)


def invalid(message: str) -> ProblemError:
    """The error for a request that does not follow the interface (400)."""
    return ProblemError(HTTPStatus.BAD_REQUEST, "invalid_request", message)


def too_large(limit: int) -> ProblemError:
    """The error for a request whose body is larger than `limit` bytes (413)."""
    return ProblemError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "too_large",
        f"The request body is larger than {limit:,} bytes, the limit here. Nothing was stored.",
    )


def install(app: FastAPI) -> None:
    """Make the application answer every error with a `Problem`."""
    app.add_exception_handler(StarletteHTTPException, _of_http)
    app.add_exception_handler(RequestValidationError, _of_validation)
    for kind in (StorageError, sqlite3.Error, OSError):
        app.add_exception_handler(kind, _of_storage)
    for refusal in _REFUSALS:
        app.add_exception_handler(refusal, _of_refusal)
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
    assert isinstance(error, StarletteHTTPException)  # noqa: S101 - Starlette hands over what it was registered for
    if isinstance(error, ProblemError):
        # A request whose idempotency key was taken in gets it back, whatever came of it.
        error.headers = {**(error.headers or {}), **getattr(request.state, "echo", {})}
        return error.response()
    status = HTTPStatus(error.status_code)
    code, message = _OF_FRAMEWORK.get(status, (status.name.lower(), error.detail))
    headers = dict(error.headers or {})
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        # The framework names that of the first route alone, and there is a route for each method
        # (RFC 9110, section 15.5.6).
        routes = [one for one in request.app.routes if one.matches(request.scope)[0] != Match.NONE]
        methods = [one.methods for one in routes if one.path == routes[0].path]
        headers["Allow"] = ", ".join(sorted({*chain(*methods)}))
    return ProblemError(status, code, message, headers).response()


async def _of_validation(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - as above
    return invalid(sentences(error.errors())).response()


async def _of_storage(_request: Request, error: Exception) -> JSONResponse:
    trouble = storage_error(error)
    if trouble is None:
        raise error
    log_storage_error(trouble, "the data folder")
    status, code, headers = _OF_STORAGE.get(type(trouble), _STORAGE_FAILED)
    return ProblemError(status, code, str(trouble), headers).response()


async def _of_fault(request: Request, error: Exception) -> JSONResponse:
    _log.error("%s %s: %s", request.method, request.url.path, type(error).__name__)
    return ProblemError(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "internal_error",
        "The service failed while it handled the request, and may have acted on it. "
        "Its log has the cause.",
        # Starlette raises the error again after this answer, and uvicorn ends the connection.
        {"Connection": "close"},
    ).response()


async def _of_refusal(request: Request, error: Exception) -> JSONResponse:
    status, code, message, headers = _REFUSALS[type(error)]
    if isinstance(error, UnknownConversationError) and not re.fullmatch(
        CONVERSATION_ID, str(error)
    ):
        # What was never an id of a conversation is a bad request; an id may have been one, of a bot
        # or a data folder that is another.
        status = HTTPStatus.BAD_REQUEST
    if isinstance(error, UnknownIdError) and request.method == "GET":
        status = HTTPStatus.NOT_FOUND  # the path names it
    if isinstance(error, NoAnswerError) and error.retry_after is not None:
        # Only 503 with Retry-After invites a client to send the question again by itself.
        status, code = HTTPStatus.SERVICE_UNAVAILABLE, "model_unavailable"
        message = "{0} The question was not stored; ask it again later."
        headers = {"Retry-After": str(error.retry_after)}
    created = str(error) if isinstance(error, KeyReusedError) else None
    if created:
        message += ", which created {0}"
    said = ProblemError(
        status,
        code,
        message.format(error),
        {name: value.format(error) for name, value in headers.items()},
        id=created or None,
    )
    return await _of_http(request, said)


# Seconds after which a request may be sent again, whose key is in use.
_AGAIN: Final = "2"

_FAILED: Final = HTTPStatus.PRECONDITION_FAILED


class _Refusal(NamedTuple):
    """An answer; in its message and headers, {0} is what the error says."""

    status: HTTPStatus
    code: str
    message: str
    headers: Mapping[str, str] = {}


# What the service refuses.
_REFUSALS: Final[dict[type[Exception], _Refusal]] = {
    UnknownBotError: _Refusal(HTTPStatus.BAD_REQUEST, "unknown_bot", "There is no bot {0}."),
    UnknownCollectionError: _Refusal(
        HTTPStatus.BAD_REQUEST,
        "unknown_collection",
        "There is no collection {0}.",
    ),
    UnknownConversationError: _Refusal(
        HTTPStatus.NOT_FOUND,
        "unknown_conversation",
        "There is no conversation {0} of this bot.",
    ),
    UnknownSourceError: _Refusal(HTTPStatus.NOT_FOUND, "unknown_source", "There is no source {0}."),
    UnknownPassageError: _Refusal(
        HTTPStatus.NOT_FOUND, "unknown_passage", "There is no passage {0}."
    ),
    QuestionTooLongError: _Refusal(HTTPStatus.BAD_REQUEST, "invalid_request", "{0}"),
    # Not a 404: a client would take the source for deleted.
    HiddenCollectionError: _Refusal(
        HTTPStatus.FORBIDDEN,
        "key_may_not_manage",
        "The source {0} is also in a collection that the request's key does not see. Nothing was "
        "done. Use a key that sees all of its collections.",
    ),
    RevisionChangedError: _Refusal(
        _FAILED,
        "revision_changed",
        "Nothing was done: the source's revision is {0}, and not one that If-Match names. Somebody "
        "else has replaced it; read it again.",
        {"ETag": '"{0}"'},
    ),
    QuotaExceededError: _Refusal(
        HTTPStatus.PAYMENT_REQUIRED,
        "quota_exceeded",
        "Nothing was stored: {0}.",
    ),
    # That the service did not act: the conversation is unchanged.
    NoAnswerError: _Refusal(
        HTTPStatus.FAILED_DEPENDENCY,
        "model_failed",
        "{0} The question was not stored. The service's log has the cause; asking again helps when "
        "that is mended.",
    ),
    KeyReusedError: _Refusal(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "idempotency_key_reused",
        "Nothing was done: the idempotency key was used with another request",
    ),
    KeyInUseError: _Refusal(
        HTTPStatus.CONFLICT,
        "idempotency_key_in_use",
        "Nothing was done: an earlier request with this idempotency key is still being handled. "
        f"Send it again in {_AGAIN} s.",
        {"Retry-After": _AGAIN},
    ),
    KeyExpiredError: _Refusal(
        _FAILED,
        "idempotency_key_expired",
        f"Nothing was done: the idempotency key was made more than {LIFETIME:,} s ago, and whether "
        "an earlier request with it was done may be forgotten. Look for what it was to create.",
    ),
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
