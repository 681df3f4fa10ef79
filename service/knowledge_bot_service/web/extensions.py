"""The extensions `sources` and `passages` (docs/extensions.md).

What can be done to sources that are there, and what answers are given from, for programs.
"""

import logging
from http import HTTPStatus
from typing import Annotated, Self

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict

from knowledge_bot_service.index.search import Hit
from knowledge_bot_service.store.catalog import (
    Limit,
    Listed,
    Place,
    SourcePage,
    SourceText,
)
from knowledge_bot_service.store.sources import StoredSource
from knowledge_bot_service.web.endpoints import (
    JSON,
    KEY,
    KeyOf,
    ServiceOf,
    SourceId,
)
from knowledge_bot_service.web.gate import PREFIX
from knowledge_bot_service.web.problems import described
from knowledge_bot_service.web.requests import (
    Id,
    ListBody,
    NewSearch,
    Wrapped,
)

_log = logging.getLogger(__name__)

_sources = APIRouter(
    prefix=f"{PREFIX}/sources", dependencies=[KEY], responses=described(400, 401, 404)
)


@_sources.get("")
def list_sources(service: ServiceOf, listed: Annotated[Listed, Query()]) -> Wrapped[SourcePage]:
    """List sources, newest first.

    `name` is the whole name, and `search` a part of it. `status` and `collection` may be repeated,
    which means any of them. `before` takes the `next` of the page before; `counts` asks how many
    there are of each status, whichever are listed.
    """
    return Wrapped(value=service.catalog.page(listed))


@_sources.get("/{id}")
def read_source(
    id: SourceId,  # noqa: A002 - as in the interface's paths
    service: ServiceOf,
) -> Wrapped[StoredSource]:
    """Read where a source stands."""
    return Wrapped(value=service.catalog.details(id))


@_sources.get("/{id}/text")
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


@_sources.delete("/{id}", status_code=HTTPStatus.NO_CONTENT, responses=described(403))
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


_passages = APIRouter(prefix=PREFIX, dependencies=[KEY])


@_passages.post("/search", dependencies=[JSON], responses=described(400, 401, 413))
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


@_passages.get("/passages/{id}", responses=described(401, 404))
async def read_passage(
    id: Annotated[Id, "as a search has it"],  # noqa: A002 - as in the interface's paths
    service: ServiceOf,
) -> Wrapped[FoundPassage]:
    """Read a passage. It is gone when its source is replaced or deleted."""
    return Wrapped(value=FoundPassage.of(await service.passage(id)))


routers = (_sources, _passages)
