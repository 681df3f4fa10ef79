"""The extension `passages` (docs/extensions.md): what answers are given from, for programs."""

from typing import Annotated, Final, Self

from fastapi import APIRouter, Depends, Security
from fastapi.security import APIKeyHeader
from pydantic import BaseModel, ConfigDict

from knowledge_bot_service.index.search import Hit
from knowledge_bot_service.web.endpoints import ServiceOf, described, takes
from knowledge_bot_service.web.gate import KEY_HEADER, PREFIX
from knowledge_bot_service.web.requests import Id, Listing, NewSearch, Wrapped

_ERRORS: Final = {401: "The key is missing or wrong"}
_SEARCH_ERRORS: Final = {
    **_ERRORS,
    400: "The request does not follow the interface, or names an id that is not here",
    413: "The request body is larger than the service takes",
}


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
    def of(cls, hit: Hit, *, found: bool | None = None) -> Self:
        """A passage that a search returned, or that was looked up."""
        return cls(
            id=hit.public_id,
            source_id=hit.source_id,
            name=hit.source_name,
            url=hit.source_url,
            revision=hit.source_revision,
            text=hit.text,
            score=None if found is None else hit.score,
            found=found,
        )


router = APIRouter(
    prefix=PREFIX, dependencies=[Security(APIKeyHeader(name=KEY_HEADER, auto_error=False))]
)


@router.post(
    "/search",
    dependencies=[Depends(takes("application/json"))],
    responses=described(_SEARCH_ERRORS),
)
async def search(body: Wrapped[NewSearch], service: ServiceOf) -> Wrapped[Listing[FoundPassage]]:
    """Find the passages that fit a question best, best first; nothing is asked and nothing stored.

    In the collections of the bot, or in `collections`; with both in those of the bot that are
    named, with neither in all that the key sees.
    """
    new = body.value
    found = await service.search(
        new.query, bot=new.bot_id, collections=new.collections, limit=new.limit
    )
    passages = [FoundPassage.of(hit, found=found.is_about_it) for hit in found.hits]
    return Wrapped(value=Listing(data=passages))


@router.get(
    "/passages/{id}",
    responses=described({**_ERRORS, 404: "There is no such passage, or not any more"}),
)
async def read_passage(
    id: Annotated[Id, "as a search has it"],  # noqa: A002 - as in the interface's paths
    service: ServiceOf,
) -> Wrapped[FoundPassage]:
    """Read a passage. It is gone when its source is replaced or deleted."""
    return Wrapped(value=FoundPassage.of(await service.passage(id)))
