"""What the service answers when it does not do what was asked: a status, a code, and why."""

from collections.abc import Mapping
from http import HTTPStatus

# FastAPI passes on no other error that is raised while a body is read.
from starlette.exceptions import HTTPException


class RefusedRequestError(HTTPException):
    """A request that is answered with an error. str() is the message.

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

    def __str__(self) -> str:
        return self.detail


class UnknownError(RefusedRequestError):
    """There is nothing of a kind with this id, or nothing that the request's key sees.

    Args:
        kind: bot, collection, conversation, passage or source.
        id: the id.
        status: 400 for what the body names; a path always gets 404.
    """

    def __init__(
        self,
        kind: str,
        id: str,  # noqa: A002 - the field's name
        status: HTTPStatus = HTTPStatus.NOT_FOUND,
    ) -> None:
        of = " of this bot" if kind == "conversation" else ""
        super().__init__(status, f"unknown_{kind}", f"There is no {kind} {id}{of}.")


def invalid(message: str) -> RefusedRequestError:
    """The error for a request that does not follow the interface (400)."""
    return RefusedRequestError(HTTPStatus.BAD_REQUEST, "invalid_request", message)


def too_large(limit: int) -> RefusedRequestError:
    """The error for a request whose body is larger than `limit` bytes (413)."""
    return RefusedRequestError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "too_large",
        f"The request body is larger than {limit:,} bytes, the limit here. Nothing was stored.",
    )
