"""The extensions `sources`, `passages` and `sync` (docs/extensions.md).

What can be done to sources that are there, what answers are given from, and the book of what
origins hold, which the service is.
"""

import asyncio
import logging
from http import HTTPStatus
from typing import Annotated, Self
from urllib.parse import unquote_to_bytes

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, ConfigDict

from knowledge_bot_service.config.refusals import invalid
from knowledge_bot_service.index.search import Hit
from knowledge_bot_service.store.catalog import (
    Limit,
    Listed,
    Place,
    SourcePage,
    SourceText,
)
from knowledge_bot_service.store.origins import (
    Completing,
    EntryPage,
    Key,
    KnownOrigin,
    ListedEntries,
    Overlap,
    Put,
    Sums,
    TouchedEntry,
)
from knowledge_bot_service.store.sources import Outcome, StoredSource
from knowledge_bot_service.web.endpoints import (
    FORM,
    JSON,
    KeyOf,
    ServiceOf,
    SourceId,
    sent_text,
    sent_webpage,
)
from knowledge_bot_service.web.gate import PREFIX
from knowledge_bot_service.web.requests import (
    AskedOverlap,
    Id,
    ListBody,
    NewSearch,
    OriginName,
    PutText,
    PutUpload,
    PutWebpage,
    Touches,
    Wrapped,
)
from knowledge_bot_service.web.uploads import receive_upload
from knowledge_bot_service.work.knowledge_base import KnowledgeBase, Sent

_log = logging.getLogger(__name__)


async def _check_query(request: Request) -> None:
    # The framework would put another character for what is no text.
    try:
        unquote_to_bytes(request.scope["query_string"]).decode()
    except UnicodeDecodeError:
        raise invalid("the query is not UTF-8.") from None


router = APIRouter(prefix=PREFIX, dependencies=[Depends(_check_query)])


@router.get("/sources")
def list_sources(service: ServiceOf, listed: Annotated[Listed, Query()]) -> Wrapped[SourcePage]:
    """List sources, newest first.

    `name` is the whole name, and `search` a part of it. `status` and `collection` may be repeated,
    which means any of them. `before` takes the `next` of the page before; `counts` asks how many
    there are of each status, whichever are listed.
    """
    return Wrapped(value=service.catalog.page(listed))


@router.get("/sources/{id}")
def read_source(
    id: SourceId,  # noqa: A002 - as in the interface's paths
    service: ServiceOf,
) -> Wrapped[StoredSource]:
    """Read where a source stands."""
    return Wrapped(value=service.catalog.details(id))


@router.get("/sources/{id}/text")
def read_text(
    id: SourceId,  # noqa: A002
    service: ServiceOf,
    first: Place | None = None,
    passage: Place | None = None,
    limit: Limit = 50,
) -> Wrapped[SourceText]:
    """Read the text of a source that questions are answered from, in passages.

    From the beginning, from `first` on, the `previous` or `next` of another answer, or from a
    little before a `passage` that an answer names.
    """
    text = service.catalog.text(id, first=first, passage=passage, limit=limit)
    return Wrapped(value=text)


@router.delete("/sources/{id}", status_code=HTTPStatus.NO_CONTENT)
async def delete_source(
    id: SourceId,  # noqa: A002 - as in the interface's paths
    service: ServiceOf,
    key: KeyOf,
) -> None:
    """Delete a source: no question sees it from then on."""
    await service.delete_source(id)
    _log.info("source %s was deleted with the key %s", id, key.name)


class FoundPassage(BaseModel):
    """A passage of a source's text, as its `revision` has it.

    `score` is higher for what fits better, among the passages of one search, and `found` is false
    where none of these is about the question's subject; both are null elsewhere.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    source_id: str
    name: str
    url: str | None
    revision: str
    text: str
    score: float | None
    found: bool | None

    @classmethod
    def of(cls, hit: Hit, *, score: float | None = None, found: bool | None = None) -> Self:
        """A passage that a search returned, or that was looked up."""
        return cls(
            id=hit.public_id,
            source_id=hit.source_id,
            name=hit.source_name,
            url=hit.source_url,
            revision=hit.source_revision,
            text=hit.text,
            score=score,
            found=found,
        )


@router.post("/search", dependencies=[JSON])
async def search(body: Wrapped[NewSearch], service: ServiceOf) -> Wrapped[ListBody[FoundPassage]]:
    """Find the passages that fit a question best, best first; nothing is asked and nothing stored.

    In the collections of the bot, or in `collections`; with both in those of the bot that are
    named, with neither in all that the key sees.
    """
    new = body.value
    found = await service.search(
        new.query, bot=new.bot_id, collections=new.collections, limit=new.limit
    )
    passages = [
        FoundPassage.of(one.hit, score=one.score, found=found.is_found) for one in found.passages
    ]
    return Wrapped(value=ListBody(data=passages))


@router.get("/passages/{id}")
async def read_passage(
    id: Id,  # noqa: A002 - as in the interface's paths
    service: ServiceOf,
) -> Wrapped[FoundPassage]:
    """Read a passage. It is gone when its source is replaced or deleted."""
    return Wrapped(value=FoundPassage.of(await service.passage(id)))


_Origin = Annotated[Key, Query()]


class PutSource(BaseModel):
    """What became of a put, and the source of the entry."""

    outcome: Outcome
    source: StoredSource


@router.get("/sync")
def compare_origin(origin: _Origin, service: ServiceOf) -> Wrapped[Sums]:
    """Compare what there is of an origin: how many entries, and a sum for each of 256 buckets."""
    return Wrapped(value=service.origins.compare(origin))


@router.get("/sync/entries", response_model_exclude_defaults=True)  # there may be millions
def list_entries(
    service: ServiceOf, listed: Annotated[ListedEntries, Query()]
) -> Wrapped[EntryPage]:
    """List the entries of an origin, in the order of their keys.

    `status` may be repeated, which means any of them. `after` takes the `next` of the page before.
    """
    return Wrapped(value=service.origins.entries(listed))


@router.put("/sync/write", dependencies=[JSON])
async def put_text(body: Wrapped[PutText], service: ServiceOf) -> Wrapped[PutSource]:
    """Make a text the source of a key."""
    return await _put(service, sent_text(body.value), body.value)


@router.put("/sync/webpage", dependencies=[JSON])
async def put_webpage(body: Wrapped[PutWebpage], service: ServiceOf) -> Wrapped[PutSource]:
    """Make a web page the source of a key."""
    return await _put(service, sent_webpage(body.value), body.value)


@router.put("/sync/upload", dependencies=[FORM])
async def put_upload(request: Request, service: ServiceOf) -> Wrapped[PutSource]:
    """Make a file the source of a key; the fields are in the form field `value`."""
    return await _put(
        service, *await receive_upload(request, service.new_material_path(), PutUpload)
    )


async def _put(service: KnowledgeBase, sent: Sent, put: Put) -> Wrapped[PutSource]:
    outcome, source = await service.put(sent, put)
    return Wrapped(value=PutSource(outcome=outcome, source=source))


@router.post("/sync/touch", dependencies=[JSON])
async def touch_entries(
    body: Wrapped[Touches], service: ServiceOf
) -> Wrapped[ListBody[TouchedEntry]]:
    """Give entries whose content is the same another version, name, key or other collections."""
    new = body.value
    return Wrapped(value=ListBody(data=await service.touch(new.origin, new.entries)))


@router.post("/sync/complete", dependencies=[JSON])
async def complete_origin(body: Wrapped[Completing], service: ServiceOf, key: KeyOf) -> Response:
    """Say what an origin does not hold any more, after it was gone through to its end."""
    answer = await service.complete(body.value)
    _log.info("with the key %s an origin was completed: %s", key.name, answer)
    return Response(answer, media_type="application/json")


@router.post("/sync/overlap", dependencies=[JSON])
async def ask_overlap(
    body: Wrapped[AskedOverlap], service: ServiceOf
) -> Wrapped[ListBody[Overlap]]:
    """Ask how many of these names others hold: other origins, and sources without one."""
    new = body.value
    found = await service.overlap(new.origin, new.names, new.collections)
    return Wrapped(value=ListBody(data=found))


@router.get("/sync/origins")
def list_origins(service: ServiceOf) -> Wrapped[ListBody[KnownOrigin]]:
    """List the origins."""
    return Wrapped(value=ListBody(data=service.origins.known()))


@router.patch("/sync/origins", dependencies=[JSON])
async def rename_origin(
    origin: _Origin, body: Wrapped[OriginName], service: ServiceOf, key: KeyOf
) -> Wrapped[KnownOrigin]:
    """Give an origin another name; nothing is read again."""
    renamed = await asyncio.wrap_future(service.origins.rename(origin, body.value.name))
    _log.info("the origin %r was renamed to %r with the key %s", origin, renamed.name, key.name)
    return Wrapped(value=renamed)


@router.delete("/sync/origins", status_code=HTTPStatus.NO_CONTENT)
async def delete_origin(origin: _Origin, service: ServiceOf, key: KeyOf) -> None:
    """Delete an origin, and its sources with it: no question sees them from then on."""
    await service.delete_origin(origin)
    _log.info("the origin %r was deleted with the key %s", origin, key.name)
