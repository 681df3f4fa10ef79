"""The extension `sources` (docs/extensions.md): what can be done to sources that are there."""

import logging
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Header, Query, Request, Response, Security
from fastapi.security import APIKeyHeader

from knowledge_bot_service.store.catalog import (
    Limit,
    Listed,
    Place,
    SourceDetails,
    SourcePage,
    SourceText,
)
from knowledge_bot_service.store.idempotency import LIFETIME, fingerprint
from knowledge_bot_service.store.sources import Replacing
from knowledge_bot_service.web.endpoints import (
    KeyOf,
    Sent,
    ServiceOf,
    SourceId,
    described,
    sent_text,
    sent_upload,
    sent_webpage,
    takes,
)
from knowledge_bot_service.web.gate import KEY_HEADER, PREFIX, may_manage
from knowledge_bot_service.web.problems import invalid
from knowledge_bot_service.web.requests import (
    UPLOAD_BODY,
    NewName,
    NewText,
    NewWebpage,
    Wrapped,
)

_log = logging.getLogger(__name__)

_ETAG: Final[dict[str, Any]] = {
    "ETag": {"description": "The revision, in quotes.", "schema": {"type": "string"}}
}
_WITH_ETAG: Final[dict[int | str, dict[str, Any]]] = {200: {"headers": _ETAG}}
_ERRORS: Final = {
    400: "The request does not follow the description",
    401: "The key is missing or wrong",
    404: "There is no such source",
}
_CHANGE_ERRORS: Final = {
    **_ERRORS,
    402: "A quota of the service is used up",
    403: "The key may not replace, rename or delete sources",
    412: "The source has another revision than If-Match names; nothing was done",
    413: "The request body is larger than the service takes",
}


def announced(request: Request) -> str:
    """What the service can beyond the interface, for the key of a request (RFC 9651)."""
    manage = ";manage" if may_manage(request.scope) else ""
    return f"idempotency=1;lifetime={LIFETIME}, sources=1{manage};rename, passages=1"


@dataclass(frozen=True, slots=True)
class _Change:
    """A request that changes a source if that is as it was, and where its answer's ETag goes."""

    id: SourceId
    key: KeyOf
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

    async def replace(self, sent: Sent, request: Request) -> Wrapped[SourceDetails]:
        """Have the service accept a text that takes the place of the source's."""
        same = fingerprint(request.method, request.url.path, **sent.parts)
        details = await sent.add(Replacing(self.id, self.expected, same))
        self.log("a replacement of source %s was accepted with the key %s")
        return _tagged(details, self.response)

    def log(self, line: str) -> None:
        """Log what was done, with the ids of the source and of who did it."""
        _log.info(line, self.id, self.key.name)


_key = Security(APIKeyHeader(name=KEY_HEADER, auto_error=False))
_json = Depends(takes("application/json"))
_ChangeOf = Annotated[_Change, Depends()]

router = APIRouter(prefix=f"{PREFIX}/sources", dependencies=[_key], responses=described(_ERRORS))
_changing = APIRouter(responses=described(_CHANGE_ERRORS))


def _once(request: Request) -> None:
    """Refuse a filter that is given twice and can have one value: which is meant, nobody knows."""
    for name in ("name", "search", "before", "limit", "counts"):
        if len(request.query_params.getlist(name)) > 1:
            raise invalid(f"{name} is there more than once.")


@router.get("", dependencies=[Depends(_once)])
async def list_sources(
    service: ServiceOf, listed: Annotated[Listed, Query()]
) -> Wrapped[SourcePage]:
    """List sources, newest first.

    `name` is the whole name, and `search` a part of it. `status` and `collection` may be repeated,
    which means any of them. `before` takes the `next` of the page before; `counts` asks how many
    there are of each status, whichever are listed.
    """
    return Wrapped(value=await service.source_page(listed))


@router.get("/{id}", responses=_WITH_ETAG)
async def read_source(
    id: SourceId,  # noqa: A002 - as in the interface's paths
    service: ServiceOf,
    response: Response,
) -> Wrapped[SourceDetails]:
    """Read where a source stands."""
    return _tagged(await service.source(id), response)


@router.get("/{id}/text")
async def read_text(
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
    reading = service.source_text(id, first=first, passage=passage, limit=limit)
    return Wrapped(value=await reading)


# Replacing a source takes what creating one takes: its name and collections may be others too.


@_changing.put("/{id}/webpage", dependencies=[_json], responses=_WITH_ETAG)
async def replace_with_webpage(
    body: Wrapped[NewWebpage], service: ServiceOf, change: _ChangeOf, request: Request
) -> Wrapped[SourceDetails]:
    """Replace a source with a web page, when that has been read."""
    return await change.replace(sent_webpage(service, body.value), request)


@_changing.put("/{id}/write", dependencies=[_json], responses=_WITH_ETAG)
async def replace_with_text(
    body: Wrapped[NewText], service: ServiceOf, change: _ChangeOf, request: Request
) -> Wrapped[SourceDetails]:
    """Replace a source with a text, when that has been read."""
    return await change.replace(sent_text(service, body.value), request)


@_changing.put(
    "/{id}/upload",
    dependencies=[Depends(takes("multipart/form-data"))],
    responses=_WITH_ETAG,
    openapi_extra=UPLOAD_BODY,
)
async def replace_with_upload(
    service: ServiceOf, change: _ChangeOf, request: Request
) -> Wrapped[SourceDetails]:
    """Replace a source with a file, when that has been read; the form is that of the POST."""
    return await change.replace(await sent_upload(service, request), request)


@_changing.patch("/{id}", dependencies=[_json], responses=_WITH_ETAG)
async def rename_source(
    body: Wrapped[NewName], service: ServiceOf, change: _ChangeOf
) -> Wrapped[SourceDetails]:
    """Give a source another name; its text is not read again, and its revision stays."""
    renaming = service.rename_source(change.id, body.value.name, expected=change.expected)
    details = await renaming
    change.log("source %s was renamed with the key %s")
    return _tagged(details, change.response)


@_changing.delete("/{id}", status_code=HTTPStatus.NO_CONTENT)
async def delete_source(service: ServiceOf, change: _ChangeOf) -> None:
    """Delete a source: no question sees it from then on."""
    await service.delete_source(change.id, expected=change.expected)
    change.log("source %s was deleted with the key %s")


def _tagged(details: SourceDetails, response: Response) -> Wrapped[SourceDetails]:
    response.headers["ETag"] = f'"{details.revision}"'
    return Wrapped(value=details)


router.include_router(_changing)
