"""The extensions `sources` and `passages` (docs/extensions.md).

What can be done to sources that are there, and what answers are given from, for programs.
"""

import logging
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Final, Self

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict

from knowledge_bot_service.index.search import Hit
from knowledge_bot_service.store.catalog import (
    Limit,
    Listed,
    Place,
    SourcePage,
    SourceText,
)
from knowledge_bot_service.store.idempotency import fingerprint
from knowledge_bot_service.store.sources import Replacing, StoredSource
from knowledge_bot_service.web.endpoints import (
    FORM,
    JSON,
    KEY,
    PLAIN_QUERY,
    KeyOf,
    ServiceOf,
    SourceId,
    sent_text,
    sent_webpage,
)
from knowledge_bot_service.web.gate import PREFIX
from knowledge_bot_service.web.problems import described
from knowledge_bot_service.web.requests import (
    Id,
    ListBody,
    NewName,
    NewSearch,
    NewSource,
    NewText,
    NewWebpage,
    Wrapped,
    upload_body,
)
from knowledge_bot_service.web.uploads import receive_upload
from knowledge_bot_service.work.knowledge_base import Sent

_log = logging.getLogger(__name__)

_ETAG: Final[dict[str, Any]] = {
    "ETag": {"description": "The revision, in quotes.", "schema": {"type": "string"}}
}
_WITH_ETAG: Final[dict[int | str, dict[str, Any]]] = {200: {"headers": _ETAG}}


@dataclass(frozen=True, slots=True)
class _Change:
    """A request that changes a source if that is as it was, and where its answer's ETag goes."""

    id: SourceId
    key: KeyOf
    service: ServiceOf
    request: Request
    response: Response
    if_match: Annotated[
        str | None,
        Header(description="`*`, or the ETag of what is meant; another revision is a 412."),
    ] = None

    @property
    def expected(self) -> frozenset[str] | None:
        """The revisions that are meant; None for any."""
        if self.if_match is None or self.if_match.strip() == "*":
            return None
        # A tag that is weak or has no quotes is that of no revision (RFC 9110, section 13.1.1).
        tags = (tag.strip() for tag in self.if_match.split(","))
        return frozenset(tag[1:-1] for tag in tags if len(tag) > 1 and tag[0] == tag[-1] == '"')

    async def replace(self, sent: Sent) -> Wrapped[StoredSource]:
        """Have the service accept a text that takes the place of the source's."""
        same = fingerprint(self.request.method, self.request.url.path, **sent.parts)
        details = await self.service.add(sent, Replacing(self.id, self.expected, same))
        self.log("a replacement of source %s was accepted with the key %s")
        return _tagged(details, self.response)

    def log(self, line: str) -> None:
        """Log what was done, with the ids of the source and of who did it."""
        _log.info(line, self.id, self.key.name)


_ChangeOf = Annotated[_Change, Depends()]

_sources = APIRouter(
    prefix=f"{PREFIX}/sources", dependencies=[KEY], responses=described(400, 401, 404)
)
_changing = APIRouter(
    prefix=f"{PREFIX}/sources",
    dependencies=[KEY],
    responses=described(400, 401, 402, 403, 404, 412, 413),
)


@_sources.get("", dependencies=[PLAIN_QUERY])
def list_sources(service: ServiceOf, listed: Annotated[Listed, Query()]) -> Wrapped[SourcePage]:
    """List sources, newest first.

    `name` is the whole name, and `search` a part of it. `status` and `collection` may be repeated,
    which means any of them. `before` takes the `next` of the page before; `counts` asks how many
    there are of each status, whichever are listed.
    """
    return Wrapped(value=service.catalog.page(listed))


@_sources.get("/{id}", responses=_WITH_ETAG)
def read_source(
    id: SourceId,  # noqa: A002 - as in the interface's paths
    service: ServiceOf,
    response: Response,
) -> Wrapped[StoredSource]:
    """Read where a source stands."""
    return _tagged(service.catalog.details(id), response)


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


# Replacing a source takes what creating one takes: its name and collections may be others too.


@_changing.put("/{id}/webpage", dependencies=[JSON], responses=_WITH_ETAG)
async def replace_with_webpage(
    body: Wrapped[NewWebpage], change: _ChangeOf
) -> Wrapped[StoredSource]:
    """Replace a source with a web page, when that has been read."""
    return await change.replace(sent_webpage(body.value))


@_changing.put("/{id}/write", dependencies=[JSON], responses=_WITH_ETAG)
async def replace_with_text(body: Wrapped[NewText], change: _ChangeOf) -> Wrapped[StoredSource]:
    """Replace a source with a text, when that has been read."""
    return await change.replace(sent_text(body.value))


@_changing.put(
    "/{id}/upload",
    dependencies=[FORM],
    responses=_WITH_ETAG,
    openapi_extra=upload_body(NewSource),
)
async def replace_with_upload(change: _ChangeOf) -> Wrapped[StoredSource]:
    """Replace a source with a file, when that has been read; the form is that of the POST."""
    path = change.service.new_material_path()
    sent, _ = await receive_upload(change.request, path, NewSource)
    return await change.replace(sent)


@_changing.patch("/{id}", dependencies=[JSON], responses=_WITH_ETAG)
async def rename_source(body: Wrapped[NewName], change: _ChangeOf) -> Wrapped[StoredSource]:
    """Give a source another name; its text is not read again, and its revision stays."""
    details = await change.service.rename_source(change.id, body.value.name, change.expected)
    change.log("source %s was renamed with the key %s")
    return _tagged(details, change.response)


@_changing.delete("/{id}", status_code=HTTPStatus.NO_CONTENT)
async def delete_source(change: _ChangeOf) -> None:
    """Delete a source: no question sees it from then on."""
    await change.service.delete_source(change.id, change.expected)
    change.log("source %s was deleted with the key %s")


def _tagged(details: StoredSource, response: Response) -> Wrapped[StoredSource]:
    response.headers["ETag"] = f'"{details.revision}"'
    return Wrapped(value=details)


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


routers = (_sources, _changing, _passages)
