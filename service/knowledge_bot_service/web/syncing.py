"""The extension `sync` (docs/extensions.md): the service is the book of what origins hold."""

import asyncio
import logging
from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from knowledge_bot_service.store.origins import (
    Completing,
    Completion,
    EntryPage,
    Key,
    KnownOrigin,
    ListedEntries,
    Overlap,
    Put,
    Sums,
)
from knowledge_bot_service.store.sources import StoredSource
from knowledge_bot_service.web.endpoints import (
    FORM,
    JSON,
    KEY,
    KeyOf,
    ServiceOf,
    sent_text,
    sent_webpage,
)
from knowledge_bot_service.web.gate import PREFIX
from knowledge_bot_service.web.problems import described
from knowledge_bot_service.web.requests import (
    AskedOverlap,
    ListBody,
    OriginName,
    PutText,
    PutUpload,
    PutWebpage,
    Touches,
    Wrapped,
    upload_body,
)
from knowledge_bot_service.web.uploads import receive_upload
from knowledge_bot_service.work.knowledge_base import KnowledgeBase, Sent

_log = logging.getLogger(__name__)

_Origin = Annotated[Key, Query()]


class PutSource(BaseModel):
    """What became of a put, and the source of the entry."""

    outcome: Literal["created", "adopted", "unchanged", "replaced"]
    source: StoredSource


class TouchedEntry(BaseModel):
    """What became of an entry that was to be touched."""

    key: str
    outcome: Literal["touched", "moved_on"]


class _Nothing(BaseModel):
    """An answer to a part of a completion that is not the last one."""


_syncing = APIRouter(
    prefix=f"{PREFIX}/sync",
    dependencies=[KEY],
    responses=described(400, 401, 402, 403, 404, 409, 412, 413),
)


@_syncing.get("")
def compare_origin(origin: _Origin, service: ServiceOf) -> Wrapped[Sums]:
    """Compare what there is of an origin: how many entries, and a sum for each of 256 buckets."""
    return Wrapped(value=service.origins.compare(origin))


@_syncing.get("/entries")
def list_entries(
    service: ServiceOf, listed: Annotated[ListedEntries, Query()]
) -> Wrapped[EntryPage]:
    """List the entries of an origin, in the order of their keys.

    `status` may be repeated, which means any of them. `after` takes the `next` of the page before.
    """
    return Wrapped(value=service.origins.entries(listed))


@_syncing.put("/write", dependencies=[JSON])
async def put_text(body: Wrapped[PutText], service: ServiceOf) -> Wrapped[PutSource]:
    """Make a text the source of a key."""
    return await _put(service, sent_text(body.value), body.value)


@_syncing.put("/webpage", dependencies=[JSON])
async def put_webpage(body: Wrapped[PutWebpage], service: ServiceOf) -> Wrapped[PutSource]:
    """Make a web page the source of a key."""
    return await _put(service, sent_webpage(body.value), body.value)


@_syncing.put("/upload", dependencies=[FORM], openapi_extra=upload_body(PutUpload))
async def put_upload(request: Request, service: ServiceOf) -> Wrapped[PutSource]:
    """Make a file the source of a key; the fields are in the form field `value`."""
    return await _put(
        service, *await receive_upload(request, service.new_material_path(), PutUpload)
    )


async def _put(service: KnowledgeBase, sent: Sent, put: Put) -> Wrapped[PutSource]:
    outcome, source = await service.put(sent, put)
    return Wrapped(value=PutSource.model_validate({"outcome": outcome, "source": source}))


@_syncing.post("/touch", dependencies=[JSON])
async def touch_entries(
    body: Wrapped[Touches], service: ServiceOf
) -> Wrapped[ListBody[TouchedEntry]]:
    """Give entries whose content is the same another version, name, key or other collections."""
    new = body.value
    outcomes = await service.touch(new.origin, new.entries)
    data = [
        TouchedEntry.model_validate({"key": one.key, "outcome": outcome})
        for one, outcome in zip(new.entries, outcomes, strict=True)
    ]
    return Wrapped(value=ListBody(data=data))


@_syncing.post(
    "/complete", dependencies=[JSON], response_model=Wrapped[Completion] | Wrapped[_Nothing]
)
async def complete_origin(body: Wrapped[Completing], service: ServiceOf, key: KeyOf) -> Response:
    """Say what an origin does not hold any more, after it was gone through to its end."""
    answer = await service.complete(body.value)
    _log.info("with the key %s an origin was completed: %s", key.name, answer)
    return Response(answer, media_type="application/json")


@_syncing.post("/overlap", dependencies=[JSON])
async def ask_overlap(
    body: Wrapped[AskedOverlap], service: ServiceOf
) -> Wrapped[ListBody[Overlap]]:
    """Ask how many of these names others hold: other origins, and sources without one."""
    new = body.value
    found = await service.overlap(new.origin, new.names, new.collections)
    return Wrapped(value=ListBody(data=found))


@_syncing.get("/origins")
def list_origins(service: ServiceOf) -> Wrapped[ListBody[KnownOrigin]]:
    """List the origins."""
    return Wrapped(value=ListBody(data=service.origins.known()))


@_syncing.patch("/origins", dependencies=[JSON])
async def rename_origin(
    origin: _Origin, body: Wrapped[OriginName], service: ServiceOf, key: KeyOf
) -> Wrapped[KnownOrigin]:
    """Give an origin another name; nothing is read again."""
    renamed = await asyncio.wrap_future(service.origins.rename(origin, body.value.name))
    _log.info("the origin %r was renamed to %r with the key %s", origin, renamed.name, key.name)
    return Wrapped(value=renamed)


@_syncing.delete("/origins", status_code=HTTPStatus.NO_CONTENT)
async def delete_origin(origin: _Origin, service: ServiceOf, key: KeyOf) -> None:
    """Delete an origin, and its sources with it: no question sees them from then on."""
    await service.delete_origin(origin)
    _log.info("the origin %r was deleted with the key %s", origin, key.name)


routers = (_syncing,)
