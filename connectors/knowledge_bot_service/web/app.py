"""The interface over HTTP: every endpoint under `/public/v1` (interface section 4)."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Final, TypedDict

from fastapi import APIRouter, Depends, FastAPI, Request, Response, Security
from fastapi.security import APIKeyHeader

from knowledge_bot.models import Bot, Collection, Conversation
from knowledge_bot_service.answers.answerer import AnsweredMessage, NoAnswerError
from knowledge_bot_service.config.folder import DataFolder
from knowledge_bot_service.config.keys import Keys
from knowledge_bot_service.config.settings import Settings
from knowledge_bot_service.store.catalog import SourceDetails
from knowledge_bot_service.store.database import Database
from knowledge_bot_service.store.idempotency import Keyed
from knowledge_bot_service.web import description, managing, problems, searching
from knowledge_bot_service.web.endpoints import (
    PostOf,
    ServiceOf,
    create,
    described,
    once,
    sent_text,
    sent_upload,
    sent_webpage,
    takes,
)
from knowledge_bot_service.web.gate import KEY_HEADER, PREFIX, Admission, Gate
from knowledge_bot_service.web.middleware import Middleware, Step, protect
from knowledge_bot_service.web.monitoring import Health, Metrics
from knowledge_bot_service.web.monitoring import router as monitoring
from knowledge_bot_service.web.mounts import Beside, Mounts
from knowledge_bot_service.web.page import router as page
from knowledge_bot_service.web.requests import (
    UPLOAD_BODY,
    Listing,
    NewMessage,
    NewText,
    NewWebpage,
    Wrapped,
)
from knowledge_bot_service.work.knowledge_base import KnowledgeBase
from knowledge_bot_service.work.refetch import Refetcher

if TYPE_CHECKING:
    from knowledge_bot_service.answers.written_answers import Writer


def create_app(
    settings: Settings,
    folder: DataFolder,
    database: Database,
    keys: Keys,
    *,
    on_ready: Callable[[], None] = lambda: None,
    connections: Callable[[], int] = lambda: 0,
    mounts: Mounts | None = None,
) -> FastAPI:
    """Make the web application of a service.

    Args:
        settings: what the service offers and allows.
        folder: where it keeps everything.
        database: the folder's database; closed when the application ends.
        keys: who may use it.
        on_ready: called when the service has started and requests can be answered.
        connections: how many clients are connected now.
        mounts: what else is answered in the same process.

    Raises:
        SettingsError: the key of the language model is not in the environment.
    """
    writer = _writer(settings)
    metrics = Metrics(database, folder.database, connections)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[_State]:
        async with writer or nullcontext(), mounts or nullcontext():
            with (
                KnowledgeBase(settings, folder, database, writer) as service,
                Refetcher(
                    database,
                    settings.refetch.every if settings.refetch else None,
                    policy=settings.fetch_policy,
                    folder=folder.material,
                    count=lambda outcome: metrics.refetches.labels(outcome).inc(),
                ),
            ):
                health = Health(
                    database,
                    folder.database.parent,
                    service.workers,
                    settings.limits.min_free_bytes,
                )
                on_ready()
                yield {"service": service, "metrics": metrics, "health": health}

    # The usual documentation pages load scripts from other hosts; the description is enough.
    app = FastAPI(
        title="Knowledge-Bot Service",
        version="1",
        lifespan=lifespan,
        openapi_url=None,
        # It would redirect to a path that a proxy in front of the service may not have.
        redirect_slashes=False,
    )
    app.include_router(_open)
    app.include_router(_reading)
    app.include_router(_writing)
    app.include_router(managing.router)
    app.include_router(searching.router)
    app.include_router(page)
    app.include_router(monitoring)
    description.install(app, settings)
    problems.install(app)
    admission = Admission(keys)
    beside = [] if mounts is None else [Beside(mounts, admission)]
    steps: list[Step] = [*beside, protect, Gate(admission, settings.limits)]
    app.add_middleware(Middleware, steps=steps, on_answer=metrics.on_answer)
    return app


def _writer(settings: Settings) -> "Writer | None":
    if settings.answers is None:
        return None
    # Loaded only if needed: it costs a tenth of a second.
    from knowledge_bot_service.answers.written_answers import Writer

    return Writer.from_settings(settings.answers)


class _State(TypedDict):
    service: KnowledgeBase
    metrics: Metrics
    health: Health


_GET_ERRORS: Final = {401: "The key is missing or wrong"}
_MESSAGE_ERRORS: Final = {
    404: "There is no such conversation of this bot",
    424: "The language model that words the answers refused, or sent something else",
    503: "The language model that words the answers is down, overloaded or too slow",
}
_POST_ERRORS: Final = {
    **_GET_ERRORS,
    400: "The request does not follow the interface, or names an id that is not here",
    402: "A quota of the service is used up",
    409: "A request with the same idempotency key is still being handled",
    412: "The idempotency key is too old; nothing was done",
    413: "The request body is larger than the service takes",
    422: "The idempotency key was used with another request, which created `id`",
}

# The gate checks the key before the body is read. This only adds it to the description.
_key = Security(APIKeyHeader(name=KEY_HEADER, auto_error=False))
_json = Depends(takes("application/json"))
_form = Depends(takes("multipart/form-data"))


_open = APIRouter(prefix=PREFIX, responses=described({}))
_reading = APIRouter(prefix=PREFIX, dependencies=[_key], responses=described(_GET_ERRORS))
_writing = APIRouter(prefix=PREFIX, dependencies=[_key], responses=described(_POST_ERRORS))


@_open.get("/ping")
async def ping(request: Request, response: Response) -> str:
    """Answer, to show that the service runs, and announce what it can beyond the interface."""
    response.headers["Knowledge-Bot-Extensions"] = managing.announced(request)
    response.headers["Vary"] = KEY_HEADER
    return "pong"


@_reading.get("/collections")
async def list_collections(service: ServiceOf) -> Wrapped[Listing[Collection]]:
    """List the collections."""
    return Wrapped(value=Listing(data=service.collections()))


@_reading.get("/bots")
async def list_bots(service: ServiceOf) -> Wrapped[Listing[Bot]]:
    """List the bots."""
    return Wrapped(value=Listing(data=service.bots()))


@_reading.get("/bots/{id}/conversations", responses=described({404: "There is no such bot"}))
async def list_conversations(
    id: str,  # noqa: A002 - the interface's name for the parameter
    service: ServiceOf,
) -> Wrapped[Listing[Conversation]]:
    """List a bot's conversations, oldest first."""
    return Wrapped(value=Listing(data=await service.conversations(id)))


_Created = Wrapped[SourceDetails]


@_writing.post("/sources/webpage", dependencies=[_json], response_model=_Created)
async def create_webpage_source(
    body: Wrapped[NewWebpage], service: ServiceOf, post: PostOf
) -> _Created | Response:
    """Create a source from a web page, which the service fetches later."""
    return await create(post, sent_webpage(service, body.value))


@_writing.post("/sources/write", dependencies=[_json], response_model=_Created)
async def create_text_source(
    body: Wrapped[NewText], service: ServiceOf, post: PostOf
) -> _Created | Response:
    """Create a source from a text."""
    return await create(post, sent_text(service, body.value))


@_writing.post(
    "/sources/upload", dependencies=[_form], openapi_extra=UPLOAD_BODY, response_model=_Created
)
async def upload_source(post: PostOf) -> _Created | Response:
    """Create a source from a file.

    `value` is a JSON object. In its place the form may have its fields as they are: `name`, and
    `collections`, repeated or as one JSON array.
    """
    return await create(post, await sent_upload(post.service, post.request))


@_writing.post(
    "/messages",
    dependencies=[_json],
    responses=described(_MESSAGE_ERRORS),
    response_model=Wrapped[AnsweredMessage],
    response_model_exclude_none=True,
)
async def send_message(
    body: Wrapped[NewMessage], post: PostOf
) -> Wrapped[AnsweredMessage] | Response:
    """Ask a bot, in a conversation or as the first message of a new one.

    Beside the documented fields, `sources` lists the sources that the answer names, and `found`
    says whether anything was found; it is left out if nothing was looked for.
    """
    new, outcomes = body.value, post.request.state.metrics.questions

    async def answered(keyed: Keyed | None) -> AnsweredMessage:
        try:
            message = await post.service.ask(
                bot=new.bot_id,
                content=new.content,
                conversation=new.conversation_id,
                keyed=keyed,
            )
        except NoAnswerError:
            outcomes.labels("failed").inc()
            raise
        outcomes.labels("not_found" if message.found is False else "answered").inc()
        return message

    return await once(post, new.model_dump(), answered)
