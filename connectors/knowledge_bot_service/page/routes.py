"""What the page consists of: its files, and its list of sources, which needs the key."""

from http import HTTPStatus
from importlib.resources import files
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, HTTPException, Request, Response

from knowledge_bot_service.overview import Overview
from knowledge_bot_service.service import Service

# None of this is of the interface, so its description does not name it.
router = APIRouter(include_in_schema=False)

_FILES: Final = files("knowledge_bot_service.page") / "files"
_ASSETS: Final = {
    "calls.js": "text/javascript",
    "chat.js": "text/javascript",
    "elements.js": "text/javascript",
    "page.css": "text/css",
    "page.js": "text/javascript",
    "sources.js": "text/javascript",
}

Status = Literal["pending", "processing", "ready", "failed"]


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


async def _service(request: Request) -> Service:
    service: Service = request.state.service
    return service


@router.get("/page/sources")
async def sources(
    service: Annotated[Service, Depends(_service)], status: Status | None = None
) -> Overview:
    """How many sources there are of each status, and the newest of them, or those of one status."""
    return await service.overview(status)


def _read(name: str) -> bytes:
    return (_FILES / name).read_bytes()
