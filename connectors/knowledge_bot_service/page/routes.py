"""What the page consists of: its files, and its data, which need the key."""

import logging
from http import HTTPStatus
from importlib.resources import files
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from fastapi import Path as InPath
from pydantic import BaseModel, ConfigDict

from knowledge_bot.models import Source
from knowledge_bot_service.catalog import Limit, Listed, Place, SourcePage, SourceText
from knowledge_bot_service.endpoints import (
    ServiceOf,
    add_text,
    add_upload,
    add_webpage,
    takes,
    unknown,
)
from knowledge_bot_service.gate import KEY_NAME, KEY_ROLE
from knowledge_bot_service.problems import ProblemError
from knowledge_bot_service.requests import Id, NewText, NewWebpage, Wrapped
from knowledge_bot_service.service import (
    UnknownBotError,
    UnknownCollectionError,
    UnknownConversationError,
)
from knowledge_bot_service.settings import Role
from knowledge_bot_service.store import UnknownSourceError

_log = logging.getLogger(__name__)

# None of this is of the interface, so its description does not name it.
router = APIRouter(include_in_schema=False)

_FILES: Final = files("knowledge_bot_service.page") / "files"
_ASSETS: Final = {
    "answer.js": "text/javascript",
    "calls.js": "text/javascript",
    "chat.js": "text/javascript",
    "elements.js": "text/javascript",
    "form.js": "text/javascript",
    "page.css": "text/css",
    "page.js": "text/javascript",
    "source.js": "text/javascript",
    "sources.js": "text/javascript",
}

_Id = Annotated[Id, InPath()]


class About(BaseModel):
    """What the page may offer.

    `admin` says whether sources can be deleted and replaced here, and `role` whether the key may
    change anything at all.
    """

    model_config = ConfigDict(frozen=True)

    admin: bool
    role: Role
    upload_bytes: int


class Rows(BaseModel):
    """Some rows of a list; `next` is the `before` of those that follow, None at the end."""

    model_config = ConfigDict(frozen=True)

    rows: list[dict[str, Any]]
    next: int | None


class Deleted(BaseModel):
    """The source that was deleted."""

    model_config = ConfigDict(frozen=True)

    id: str
    name: str


@router.get("/")
async def page() -> Response:
    """The page."""
    return Response(_read("page.html"), media_type="text/html")


@router.get("/assets/{name}")
async def asset(name: str) -> Response:
    """A file of the page: its style, or one of its scripts."""
    if name not in _ASSETS:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    return Response(_read(name), media_type=_ASSETS[name])


async def _admin(service: ServiceOf) -> None:
    if not service.settings.admin:
        raise ProblemError(
            HTTPStatus.FORBIDDEN,
            "admin_is_off",
            "Nothing was changed: sources can be deleted and replaced only where the service was "
            "started with `kbot serve --admin`, or with `admin = true` in its configuration file.",
        )


@router.get("/page/about")
async def about(service: ServiceOf, request: Request) -> About:
    """What the page may offer."""
    settings = service.settings
    return About(
        admin=settings.admin,
        role=request.scope[KEY_ROLE],
        upload_bytes=settings.limits.upload_bytes,
    )


@router.get("/page/sources")
async def sources(service: ServiceOf, listed: Annotated[Listed, Query()]) -> SourcePage:
    """How many sources there are of each status, and some of them, newest first."""
    try:
        return await service.source_page(listed)
    except UnknownCollectionError as error:
        raise unknown("collection", error, HTTPStatus.NOT_FOUND) from None


@router.get("/page/sources/{id}")
async def source(
    id: _Id,  # noqa: A002 - as in the interface's paths
    service: ServiceOf,
    first: Place | None = None,
    passage: Place | None = None,
    limit: Limit = 50,
) -> SourceText:
    """A source with its text, from the beginning, a place in it, or around a passage."""
    try:
        return await service.source_text(id, first=first, passage=passage, limit=limit)
    except UnknownSourceError as error:
        raise unknown("source", error, HTTPStatus.NOT_FOUND) from None


@router.delete("/page/sources/{id}", dependencies=[Depends(_admin)])
async def delete_source(
    id: _Id,  # noqa: A002
    service: ServiceOf,
    request: Request,
) -> Deleted:
    """Delete a source."""
    try:
        name = await service.delete_source(id)
    except UnknownSourceError as error:
        raise unknown("source", error, HTTPStatus.NOT_FOUND) from None
    _log.info("source %s was deleted with the key %s", id, _key_of(request))
    return Deleted(id=id, name=name)


# Replacing a source takes what creating one takes: its name and collections may be others too.


@router.put(
    "/page/sources/{id}/webpage",
    dependencies=[Depends(_admin), Depends(takes("application/json"))],
)
async def replace_with_webpage(
    id: _Id,  # noqa: A002
    body: Wrapped[NewWebpage],
    service: ServiceOf,
    request: Request,
) -> Wrapped[Source]:
    """Replace a source with a web page, when that has been read."""
    return _replaced(await add_webpage(service, body.value, replaces=id), request)


@router.put(
    "/page/sources/{id}/write",
    dependencies=[Depends(_admin), Depends(takes("application/json"))],
)
async def replace_with_text(
    id: _Id,  # noqa: A002
    body: Wrapped[NewText],
    service: ServiceOf,
    request: Request,
) -> Wrapped[Source]:
    """Replace a source with a text, when that has been read."""
    return _replaced(await add_text(service, body.value, replaces=id), request)


@router.put(
    "/page/sources/{id}/upload",
    dependencies=[Depends(_admin), Depends(takes("multipart/form-data"))],
)
async def replace_with_upload(
    id: _Id,  # noqa: A002
    service: ServiceOf,
    request: Request,
) -> Wrapped[Source]:
    """Replace a source with a file, when that has been read."""
    return _replaced(await add_upload(service, request, replaces=id), request)


@router.get("/page/bots/{bot}/conversations")
async def conversations(
    bot: _Id, service: ServiceOf, before: Place | None = None, limit: Limit = 50
) -> Rows:
    """Some of a bot's conversations, newest first."""
    try:
        found = await service.conversation_page(bot, before=before, limit=limit)
    except UnknownBotError as error:
        raise unknown("bot", error, HTTPStatus.NOT_FOUND) from None
    return Rows(rows=found.rows, next=found.next)


@router.get("/page/bots/{bot}/conversations/{id}")
async def messages(
    bot: _Id,
    id: _Id,  # noqa: A002
    service: ServiceOf,
    before: Place | None = None,
    limit: Limit = 50,
) -> Rows:
    """Some of a conversation's messages, newest first."""
    try:
        found = await service.message_page(bot, id, before=before, limit=limit)
    except UnknownBotError as error:
        raise unknown("bot", error, HTTPStatus.NOT_FOUND) from None
    except UnknownConversationError as error:
        raise unknown("conversation", error, HTTPStatus.NOT_FOUND) from None
    return Rows(rows=found.rows, next=found.next)


def _replaced(source: Source, request: Request) -> Wrapped[Source]:
    _log.info(
        "a replacement of source %s was accepted with the key %s", source.id, _key_of(request)
    )
    return Wrapped(value=source)


def _key_of(request: Request) -> str:
    """The name of the request's key."""
    return str(request.scope[KEY_NAME])


def _read(name: str) -> bytes:
    return (_FILES / name).read_bytes()
