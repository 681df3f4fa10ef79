"""What the service does not take, as answers of the interface and of the page."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus

from fastapi import Request

from knowledge_bot.models import Source
from knowledge_bot_service.problems import ProblemError
from knowledge_bot_service.service import UnknownCollectionError
from knowledge_bot_service.store import QuotaExceededError, UnknownSourceError


def takes(content_type: str) -> Callable[[Request], Awaitable[None]]:
    """A dependency that refuses every other content type with 400."""

    async def check(request: Request) -> None:
        given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if given != content_type:
            # The interface documents 400 (section 7); a client built on it knows no 415.
            raise ProblemError(
                HTTPStatus.BAD_REQUEST,
                "unsupported_media_type",
                f"The request's content type is {given or 'missing'}; it must be {content_type}.",
            )

    return check


async def accepted(source: Awaitable[Source]) -> Source:
    """The source that the service accepts.

    Raises:
        ProblemError: it accepted none; the status is 400, 402 or 404.
    """
    try:
        return await source
    except UnknownCollectionError as error:
        raise unknown("collection", error) from None
    except UnknownSourceError as error:
        raise unknown("source", error, HTTPStatus.NOT_FOUND) from None
    except QuotaExceededError as error:
        raise ProblemError(
            HTTPStatus.PAYMENT_REQUIRED, "quota_exceeded", f"Nothing was stored: {error}."
        ) from None


def unknown(
    kind: str, error: Exception, status: HTTPStatus = HTTPStatus.BAD_REQUEST
) -> ProblemError:
    """The error for an id that is not here; str(error) is the id."""
    whose = " of this bot" if kind == "conversation" else ""
    return ProblemError(status, f"unknown_{kind}", f"There is no {kind} {error}{whose}.")
