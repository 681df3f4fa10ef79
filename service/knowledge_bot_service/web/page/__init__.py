"""The page for people: one static page, and the list of sources that the interface does not have.

The page itself holds no data, so it is served without the key; it asks a person for the key and
sends it with every call, as any client does.
"""

from pathlib import Path
from typing import Annotated, Final

from fastapi import APIRouter, Response
from fastapi import Path as InPath
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, ConfigDict

from knowledge_bot_service.answers.conversations import RowPage
from knowledge_bot_service.config.settings import Role
from knowledge_bot_service.store.catalog import Limit, Place
from knowledge_bot_service.web.endpoints import KeyOf, ServiceOf
from knowledge_bot_service.web.requests import Id

router = APIRouter()

_FILES: Final = Path(__file__).parent / "files"

_Id = Annotated[Id, InPath()]


class About(BaseModel):
    """What the page may offer.

    `role` says what the key may do.
    """

    model_config = ConfigDict(frozen=True)

    role: Role
    upload_bytes: int


@router.get("/")
async def page() -> Response:
    """The page."""
    return FileResponse(_FILES / "page.html")


# Its style and its scripts.
router.mount("/assets", StaticFiles(directory=_FILES))


@router.get("/page/about")
async def about(service: ServiceOf, key: KeyOf) -> About:
    """What the page may offer."""
    return About(role=key.role, upload_bytes=service.settings.limits.upload_bytes)


@router.get("/page/bots/{bot}/conversations")
def conversations(
    bot: _Id, service: ServiceOf, before: Place | None = None, limit: Limit = 50
) -> RowPage:
    """Some of a bot's conversations, newest first."""
    return service.conversations_of(bot).page_of_bot(bot, before, limit)


@router.get("/page/bots/{bot}/conversations/{id}")
def messages(
    bot: _Id,
    id: _Id,  # noqa: A002
    service: ServiceOf,
    before: Place | None = None,
    limit: Limit = 50,
) -> RowPage:
    """Some of a conversation's messages, newest first."""
    return service.conversations_of(bot).page_of_messages(bot, id, before, limit)
