"""What the endpoints of the interface, of its extensions and of the page share.

The service that they call, how they add or replace a source, do what a request with an idempotency
key asks for once, and how they answer what the service refuses.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from fastapi import Depends, Header, Request, Response
from fastapi import Path as InPath
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from knowledge_bot_service.config.keys import Key
from knowledge_bot_service.store.catalog import SourceDetails
from knowledge_bot_service.store.idempotency import Done, Keyed, KeyReusedError, fingerprint
from knowledge_bot_service.store.sources import (
    Replacing,
)
from knowledge_bot_service.web.gate import key_of
from knowledge_bot_service.web.problems import Problem, ProblemError, invalid
from knowledge_bot_service.web.requests import Id, NewSource, NewText, NewWebpage, Wrapped
from knowledge_bot_service.web.uploads import receive_upload
from knowledge_bot_service.work.knowledge_base import (
    KnowledgeBase,
)

IDEMPOTENCY_KEY: Final = "Idempotency-Key"
_LONGEST_KEY: Final = 255

T = TypeVar("T")
_Answer = TypeVar("_Answer", bound=BaseModel)


def described(descriptions: Mapping[int, str]) -> dict[int | str, dict[str, Any]]:
    """Errors as the description has them, by their status."""
    # With `default`, FastAPI does not announce its 422, which never happens here.
    responses: dict[int | str, dict[str, Any]] = {
        status: {"model": Problem, "description": description}
        for status, description in descriptions.items()
    }
    return {**responses, "default": {"model": Problem, "description": "Any other error"}}


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
            raise ProblemError(
                HTTPStatus.BAD_REQUEST,
                "unsupported_media_type",
                f"The request's content type is {given or 'missing'}; it must be {content_type}.",
            )

    return check


What = Replacing | Keyed | None
"""What a source that is sent replaces, or the key of the request that sends it."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A source that a request sends.

    Attributes:
        parts: what tells it from others, as `fingerprint` takes it.
        add: has the service accept it.
        file: what was received for it; `add` takes it over.
    """

    parts: Mapping[str, object]
    add: Callable[[What], Awaitable[SourceDetails]]
    file: Path | None = None


def sent_webpage(service: KnowledgeBase, new: NewWebpage) -> Sent:
    """A web page that a request sends."""
    headers = new.headers or ()
    said = [(header.name, header.value) for header in headers]

    def add(what: What) -> Awaitable[SourceDetails]:
        return service.add_webpage(
            name=new.name, collections=new.collections, url=new.url, headers=headers, what=what
        )

    return Sent(_parts_of(new, url=new.url, headers=said), add)


def sent_text(service: KnowledgeBase, new: NewText) -> Sent:
    """A text that a request sends."""
    digest = hashlib.sha256(new.content.encode()).hexdigest()

    def add(what: What) -> Awaitable[SourceDetails]:
        return service.add_text(
            name=new.name, collections=new.collections, content=new.content, what=what
        )

    return Sent(_parts_of(new, content=digest), add)


async def sent_upload(service: KnowledgeBase, request: Request) -> Sent:
    """Receive the file that a request sends.

    Raises:
        ProblemError: 400, the form is not what the interface asks for.
    """
    path = service.new_material_path()
    upload = await receive_upload(request, path)

    def add(what: What) -> Awaitable[SourceDetails]:
        return service.add_upload(
            name=upload.source.name,
            collections=upload.source.collections,
            path=path,
            filename=upload.filename,
            content_type=upload.content_type,
            what=what,
        )

    parts = _parts_of(upload.source, content=upload.digest, filename=upload.filename)
    return Sent(parts, add, path)


def _parts_of(new: NewSource, **more: object) -> dict[str, object]:
    return {"name": new.name, "collections": sorted(set(new.collections)), **more}


@dataclass(frozen=True, slots=True)
class Post:
    """A request that creates something, and where headers of its answer go.

    Attributes:
        service: the service.
        request: the request.
        response: the answer, unless it is an earlier one.
        idempotency_key: for the description; the request has all of them.
    """

    service: ServiceOf
    request: Request
    response: Response
    idempotency_key: Annotated[
        str | None,
        Header(
            description="A UUIDv7 as a rule. The same request with the same key gets the first "
            "answer again, and nothing is done twice.",
            json_schema_extra={
                "minLength": 1,
                "maxLength": _LONGEST_KEY,
                "pattern": r'^(?!""$)[^,]+$',
            },
        ),
    ] = None


PostOf = Annotated[Post, Depends()]
"""The request, as a parameter of an endpoint that creates something."""


async def create(post: Post, sent: Sent) -> Wrapped[SourceDetails] | Response:
    """Have the service accept a source as a new one, `once`.

    Raises:
        ProblemError: as `once`.
    """
    return await once(post, sent.parts, sent.add, sent.file)


async def once(
    post: Post,
    parts: Mapping[str, Any],
    perform: Callable[[Keyed | None], Awaitable[_Answer]],
    file: Path | None = None,
) -> Wrapped[_Answer] | Response:
    """Do what a request asks for; with an idempotency key, once (docs/extensions.md).

    Args:
        post: the request.
        parts: what was parsed from its body, as `fingerprint` takes it.
        perform: does it, and stores what was done with the key.
        file: what was received; removed if nothing is done with it.

    Raises:
        ProblemError: 400, the key is none.
        KeyReusedError, KeyInUseError, KeyExpiredError: as `Once.do`.
    """
    request, service = post.request, post.service
    sent = request.headers.getlist(IDEMPOTENCY_KEY)
    if not sent:
        return Wrapped(value=await perform(None))
    echo = request.state.echo = {IDEMPOTENCY_KEY: sent[0]}
    performed = False

    async def do() -> _Answer | Done:
        async def first() -> _Answer:
            nonlocal performed
            performed = True
            return await perform(keyed)

        try:
            service.check_ids(bot=parts.get("bot_id"), collections=parts.get("collections", ()))
            keyed = Keyed(_parsed_key(sent), fingerprint(request.method, request.url.path, **parts))
            return await service.once.do(keyed, first)
        except KeyReusedError as error:
            # Whoever does not see what was created is not told of it.
            raise KeyReusedError(*error.args if await service.sees(str(error)) else ()) from None
        finally:
            if file is not None and not performed:
                await run_in_threadpool(file.unlink)

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
