"""What the endpoints of the interface and of the page share.

The service that they call, how they add or replace a source, and how they answer what it refuses.
"""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Request

from knowledge_bot.models import Source
from knowledge_bot_service.problems import ProblemError
from knowledge_bot_service.requests import NewText, NewWebpage
from knowledge_bot_service.service import Service, UnknownCollectionError
from knowledge_bot_service.store import QuotaExceededError, UnknownSourceError
from knowledge_bot_service.uploads import receive_upload


async def _service(request: Request) -> Service:
    # async, since the framework would call a plain function in a thread, for each request.
    service: Service = request.state.service
    return service


ServiceOf = Annotated[Service, Depends(_service)]
"""The running service, as a parameter of an endpoint."""


def takes(content_type: str) -> Callable[[Request], Awaitable[None]]:
    """A dependency that refuses every other content type with 400."""

    async def check(request: Request) -> None:
        given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if given != content_type:
            # The interface documents 400 (section 7) and no 415.
            raise ProblemError(
                HTTPStatus.BAD_REQUEST,
                "unsupported_media_type",
                f"The request's content type is {given or 'missing'}; it must be {content_type}.",
            )

    return check


async def add_webpage(service: Service, new: NewWebpage, *, replaces: str | None = None) -> Source:
    """Have the service accept a web page; `replaces` is the id of the source whose place it takes.

    Raises:
        ProblemError: it accepted none; the status is 400, 402 or 404.
    """
    return await _accepted(
        service.add_webpage(
            name=new.name,
            collections=new.collections,
            url=new.url,
            headers=new.headers or (),
            replaces=replaces,
        )
    )


async def add_text(service: Service, new: NewText, *, replaces: str | None = None) -> Source:
    """Have the service accept a text, as `add_webpage` a page."""
    return await _accepted(
        service.add_text(
            name=new.name, collections=new.collections, content=new.content, replaces=replaces
        )
    )


async def add_upload(service: Service, request: Request, *, replaces: str | None = None) -> Source:
    """Receive a form and have the service accept its file, as `add_webpage` a page."""
    path = service.new_material_path()
    upload = await receive_upload(request, path)
    return await _accepted(
        service.add_upload(
            name=upload.source.name,
            collections=upload.source.collections,
            path=path,
            filename=upload.filename,
            content_type=upload.content_type,
            replaces=replaces,
        )
    )


async def _accepted(source: Awaitable[Source]) -> Source:
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
