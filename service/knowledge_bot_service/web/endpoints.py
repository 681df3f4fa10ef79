"""The interface's endpoints (section 4), and what those of the extensions and the page share.

That is the service that they call, and how they do what a request with an idempotency key asks for
once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Final, TypeVar

from fastapi import APIRouter, Depends, Request, Response
from fastapi import Path as InPath
from pydantic import BaseModel

from knowledge_bot.models import Bot, Collection, Conversation
from knowledge_bot_service.answers.answerer import AnsweredMessage
from knowledge_bot_service.config.keys import Key
from knowledge_bot_service.config.refusals import RefusedRequestError, invalid
from knowledge_bot_service.store.idempotency import (
    LIFETIME,
    Done,
    Keyed,
    fingerprint,
)
from knowledge_bot_service.store.sources import Material, StoredSource
from knowledge_bot_service.web.gate import KEY_HEADER, PREFIX, key_of, may_manage
from knowledge_bot_service.web.requests import (
    Id,
    ListBody,
    NewMessage,
    NewSource,
    NewText,
    NewWebpage,
    Wrapped,
)
from knowledge_bot_service.web.uploads import receive_upload
from knowledge_bot_service.work.knowledge_base import KnowledgeBase, Sent

IDEMPOTENCY_KEY: Final = "Idempotency-Key"
_LONGEST_KEY: Final = 255

_Answer = TypeVar("_Answer", bound=BaseModel)


async def _service(request: Request) -> KnowledgeBase:
    # async, since the framework would call a plain function in a thread, for each request.
    service: KnowledgeBase = request.state.service
    key = key_of(request.scope)
    return service if key is None else service.seen_by(key)


ServiceOf = Annotated[KnowledgeBase, Depends(_service)]
"""The running service, as a request's key sees it: a parameter of an endpoint."""


async def _key(request: Request) -> Key:
    key = key_of(request.scope)
    assert key is not None  # noqa: S101 - the gate admits no request without, for the type checker
    return key


KeyOf = Annotated[Key, Depends(_key)]
"""The request's key, as a parameter of an endpoint."""


async def _source(
    id: Annotated[Id, InPath()],  # noqa: A002 - the interface's name for the parameter
    service: ServiceOf,
    request: Request,
) -> str:
    await service.check_source(id, changes=request.method != "GET")
    return id


SourceId = Annotated[str, Depends(_source)]
"""The id in the path of an endpoint, of a source that the request's key may read or change.

It is checked before the body is read.
"""


def takes(content_type: str) -> Callable[[Request], Awaitable[None]]:
    """A dependency that refuses every other content type with 400."""

    async def check(request: Request) -> None:
        given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if given != content_type:
            # The interface documents 400 (section 7) and no 415.
            raise RefusedRequestError(
                HTTPStatus.BAD_REQUEST,
                "unsupported_media_type",
                f"The request's content type is {given or 'missing'}; it must be {content_type}.",
            )

    return check


JSON: Final = Depends(takes("application/json"))
FORM: Final = Depends(takes("multipart/form-data"))


def sent_webpage(new: NewWebpage) -> Sent:
    """A web page that a request sends."""
    return Sent(new.name, new.collections, Material(url=new.url), headers=new.headers or ())


def sent_text(new: NewText) -> Sent:
    """A text that a request sends."""
    return Sent(new.name, new.collections, Material(content=new.content))


@dataclass(frozen=True, slots=True)
class Post:
    """A request that creates something, and where headers of its answer go.

    Attributes:
        service: the service.
        request: the request.
        response: the answer, unless it is an earlier one.
    """

    service: ServiceOf
    request: Request
    response: Response


PostOf = Annotated[Post, Depends()]
"""The request, as a parameter of an endpoint that creates something."""


async def once(
    post: Post,
    parts: Mapping[str, Any],
    perform: Callable[[Keyed | None], Awaitable[_Answer]],
    sent: Sent | None = None,
) -> Wrapped[_Answer] | Response:
    """Do what a request asks for; with an idempotency key, once (docs/extensions.md).

    `perform` does it, and stores what was done with the key. The file of a source that was `sent`
    is removed if nothing is done with it.

    Raises:
        RefusedRequestError: 400, the key is none; or as `IdempotentRequests.do`.
    """
    request, service = post.request, post.service
    keys = request.headers.getlist(IDEMPOTENCY_KEY)
    if not keys:
        return Wrapped(value=await perform(None))
    echo = request.state.echo = {IDEMPOTENCY_KEY: keys[0]}
    performed = False

    async def do() -> _Answer | Done:
        async def first() -> _Answer:
            nonlocal performed
            performed = True
            return await perform(keyed)

        try:
            # Whoever sees something else shares no key: nothing is told of what was created.
            key = ",".join(filter(None, (_parsed_key(keys), service.scope)))
            keyed = Keyed(key, fingerprint(request.method, request.url.path, **parts))
            return await service.once.do(keyed, first)
        finally:
            if sent is not None and not performed:
                await service.forget(sent)

    # In a task of its own: what has begun is done to its end, also when the client hangs up.
    done = await asyncio.shield(asyncio.create_task(do()))
    post.response.headers.update(echo)
    if isinstance(done, Done):
        headers = {**echo, "Idempotent-Replayed": "true"}
        return Response(done.answer, media_type="application/json", headers=headers)
    return Wrapped(value=done)


def _parsed_key(sent: list[str]) -> str:
    key = sent[0]
    if len(key) > 1 and key[0] == key[-1] == '"':
        key = key[1:-1]
    # Proxies join a header that was sent twice with a comma (RFC 9110, section 5.2).
    if len(sent) > 1 or "," in key or not 0 < len(key) <= _LONGEST_KEY:
        raise invalid(
            f"the header {IDEMPOTENCY_KEY} must be sent once, with 1 to {_LONGEST_KEY} characters, "
            "none of them a comma"
        )
    return key


router = APIRouter(prefix=PREFIX)


@router.get("/ping")
async def ping(request: Request, response: Response) -> str:
    """Answer, to show that the service runs, and announce what it can beyond the interface."""
    manage = ";manage" if may_manage(request.scope) else ""
    # RFC 9651 has the form.
    sync = ", sync=1" if manage else ""
    announced = f"idempotency=1;lifetime={LIFETIME}, sources=1{manage}{sync}, passages=1"
    response.headers["Knowledge-Bot-Extensions"] = announced
    response.headers["Vary"] = KEY_HEADER
    return "pong"


@router.get("/collections")
async def list_collections(service: ServiceOf) -> Wrapped[ListBody[Collection]]:
    """List the collections."""
    return Wrapped(value=ListBody(data=[*service.collections.values()]))


@router.get("/bots")
async def list_bots(service: ServiceOf) -> Wrapped[ListBody[Bot]]:
    """List the bots."""
    return Wrapped(value=ListBody(data=service.bots))


@router.get("/bots/{id}/conversations")
def list_conversations(
    id: str,  # noqa: A002 - the interface's name for the parameter
    service: ServiceOf,
) -> Wrapped[ListBody[Conversation]]:
    """List a bot's conversations, oldest first."""
    found = service.conversations_of(id).of_bot(id)
    return Wrapped(value=ListBody(data=[Conversation(id=one, name=name) for one, name in found]))


_Created = Wrapped[StoredSource]


@router.post("/sources/webpage", dependencies=[JSON], response_model=_Created)
async def create_webpage_source(body: Wrapped[NewWebpage], post: PostOf) -> _Created | Response:
    """Create a source from a web page, which the service fetches later."""
    return await _create(post, sent_webpage(body.value))


@router.post("/sources/write", dependencies=[JSON], response_model=_Created)
async def create_text_source(body: Wrapped[NewText], post: PostOf) -> _Created | Response:
    """Create a source from a text."""
    return await _create(post, sent_text(body.value))


@router.post(
    "/sources/upload",
    dependencies=[FORM],
    response_model=_Created,
)
async def upload_source(post: PostOf) -> _Created | Response:
    """Create a source from a file.

    `value` is a JSON object. In its place the form may have its fields as they are: `name`, and
    `collections`, repeated or as one JSON array.
    """
    path = post.service.new_material_path()
    sent, _ = await receive_upload(post.request, path, NewSource)
    return await _create(post, sent)


@router.post(
    "/messages",
    dependencies=[JSON],
    response_model=Wrapped[AnsweredMessage],
)
async def send_message(
    body: Wrapped[NewMessage], post: PostOf
) -> Wrapped[AnsweredMessage] | Response:
    """Ask a bot, in a conversation or as the first message of a new one.

    Beside the documented fields, `sources` lists the sources that the answer names, and `found`
    says whether anything was found; it is null if nothing was looked for.
    """
    new = body.value

    def ask(keyed: Keyed | None) -> Awaitable[AnsweredMessage]:
        return post.service.ask(new.bot_id, new.content, new.conversation_id, keyed)

    return await once(post, new.model_dump(), ask)


async def _create(post: Post, sent: Sent) -> _Created | Response:
    """Have the service accept a source as a new one, `once`."""

    def add(keyed: Keyed | None) -> Awaitable[StoredSource]:
        return post.service.add(sent, keyed)

    return await once(post, sent.parts, add, sent)
