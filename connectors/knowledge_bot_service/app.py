"""The interface over HTTP: every endpoint under `/public/v1` (interface section 4)."""

import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypedDict

from fastapi import APIRouter, Depends, FastAPI, Request, Security
from fastapi.security import APIKeyHeader

from knowledge_bot.models import Bot, Collection, Conversation, Source
from knowledge_bot_service import description, problems
from knowledge_bot_service.answers import AnsweredMessage, NoAnswerError
from knowledge_bot_service.database import Database
from knowledge_bot_service.endpoints import (
    ServiceOf,
    add_text,
    add_upload,
    add_webpage,
    takes,
    unknown,
)
from knowledge_bot_service.fetch import FetchPolicy
from knowledge_bot_service.folder import DataFolder
from knowledge_bot_service.gate import KEY_HEADER, PREFIX, Gate
from knowledge_bot_service.keys import Keys, reread_on_hangup
from knowledge_bot_service.monitoring import Health, Metrics, Monitored
from knowledge_bot_service.monitoring import router as monitoring
from knowledge_bot_service.mounts import Beside, Mounts
from knowledge_bot_service.page import ProtectiveHeaders
from knowledge_bot_service.page import router as page
from knowledge_bot_service.problems import Problem, ProblemError
from knowledge_bot_service.refetch import Refetcher
from knowledge_bot_service.requests import (
    CONVERSATION_ID,
    Listing,
    NewMessage,
    NewSource,
    NewText,
    NewWebpage,
    Wrapped,
)
from knowledge_bot_service.service import Service, UnknownBotError, UnknownConversationError
from knowledge_bot_service.settings import Settings

if TYPE_CHECKING:
    from knowledge_bot_service.written_answers import Writer

_Responses = dict[int | str, dict[str, Any]]


def create_app(
    settings: Settings,
    folder: DataFolder,
    database: Database,
    keys: Keys,
    *,
    on_ready: Callable[[], None],
    connections: Callable[[], int],
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
                reread_on_hangup(keys),
                Service(settings, folder, database, writer) as service,
                Refetcher(
                    database,
                    settings.refetch.every if settings.refetch else None,
                    policy=FetchPolicy(allow=settings.allow_fetch),
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
    app.include_router(page)
    app.include_router(monitoring)
    description.install(app, settings, keys)
    problems.install(app)
    app.add_middleware(Gate, keys=keys, limits=settings.limits)
    app.add_middleware(ProtectiveHeaders)
    if mounts is not None:
        app.add_middleware(Beside, mounts=mounts, keys=keys)
    app.add_middleware(Monitored, metrics=metrics)
    return app


def _writer(settings: Settings) -> "Writer | None":
    if settings.answers is None:
        return None
    # Loaded only if needed: it costs a tenth of a second.
    from knowledge_bot_service.written_answers import Writer

    return Writer.from_settings(settings.answers)


class _State(TypedDict):
    service: Service
    metrics: Metrics
    health: Health


def _described(descriptions: Mapping[int, str]) -> _Responses:
    # With `default`, FastAPI does not announce its 422, which never happens here.
    responses: _Responses = {
        status: {"model": Problem, "description": description}
        for status, description in descriptions.items()
    }
    return {**responses, "default": {"model": Problem, "description": "Any other error"}}


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
    413: "The request body is larger than the service takes",
}

# The gate checks the key before the body is read. This only adds it to the description.
_key = Security(APIKeyHeader(name=KEY_HEADER, auto_error=False))
_json = Depends(takes("application/json"))
_form = Depends(takes("multipart/form-data"))

_open = APIRouter(prefix=PREFIX, responses=_described({}))
_reading = APIRouter(prefix=PREFIX, dependencies=[_key], responses=_described(_GET_ERRORS))
_writing = APIRouter(prefix=PREFIX, dependencies=[_key], responses=_described(_POST_ERRORS))


@_open.get("/ping")
async def ping() -> str:
    """Answer, to show that the service runs."""
    return "pong"


@_reading.get("/collections")
async def list_collections(service: ServiceOf) -> Wrapped[Listing[Collection]]:
    """List the collections."""
    return Wrapped(value=Listing(data=service.collections()))


@_reading.get("/bots")
async def list_bots(service: ServiceOf) -> Wrapped[Listing[Bot]]:
    """List the bots."""
    return Wrapped(value=Listing(data=service.bots()))


@_reading.get("/bots/{id}/conversations", responses=_described({404: "There is no such bot"}))
async def list_conversations(
    id: str,  # noqa: A002 - the interface's name for the parameter
    service: ServiceOf,
) -> Wrapped[Listing[Conversation]]:
    """List a bot's conversations, oldest first."""
    try:
        return Wrapped(value=Listing(data=await service.conversations(id)))
    except UnknownBotError as error:
        raise unknown("bot", error, HTTPStatus.NOT_FOUND) from None


@_writing.post("/sources/webpage", dependencies=[_json])
async def create_webpage_source(body: Wrapped[NewWebpage], service: ServiceOf) -> Wrapped[Source]:
    """Create a source from a web page, which the service fetches later."""
    return Wrapped(value=await add_webpage(service, body.value))


@_writing.post("/sources/write", dependencies=[_json])
async def create_text_source(body: Wrapped[NewText], service: ServiceOf) -> Wrapped[Source]:
    """Create a source from a text."""
    return Wrapped(value=await add_text(service, body.value))


# The other notation, plain form fields, is in the operation's words alone: a schema cannot say that
# every value of a form is text.
_UPLOAD_BODY: Final = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "value": NewSource.model_json_schema(),
                        "file": {"type": "string", "format": "binary"},
                    },
                    "required": ["value", "file"],
                }
            }
        },
    }
}


@_writing.post("/sources/upload", dependencies=[_form], openapi_extra=_UPLOAD_BODY)
async def upload_source(request: Request, service: ServiceOf) -> Wrapped[Source]:
    """Create a source from a file.

    `value` is a JSON object. In its place the form may have its fields as they are: `name`, and
    `collections`, repeated or as one JSON array.
    """
    return Wrapped(value=await add_upload(service, request))


@_writing.post(
    "/messages",
    dependencies=[_json],
    responses=_described(_MESSAGE_ERRORS),
    response_model_exclude_none=True,
)
async def send_message(
    body: Wrapped[NewMessage], service: ServiceOf, request: Request
) -> Wrapped[AnsweredMessage]:
    """Ask a bot, in a conversation or as the first message of a new one.

    Beside the documented fields, `sources` lists the sources that the answer names, and `found`
    says whether anything was found; it is left out if nothing was looked for.
    """
    new = body.value
    metrics: Metrics = request.state.metrics
    try:
        message = await service.ask(
            bot=new.bot_id, content=new.content, conversation=new.conversation_id
        )
    except UnknownBotError as error:
        raise unknown("bot", error) from None
    except UnknownConversationError as error:
        # What was never an id is a bad request; an id may have been one, of a bot or a data folder
        # that is another.
        is_id = re.fullmatch(CONVERSATION_ID, str(error))
        status = HTTPStatus.NOT_FOUND if is_id else HTTPStatus.BAD_REQUEST
        raise unknown("conversation", error, status) from None
    except NoAnswerError as error:
        metrics.questions.labels("failed").inc()
        raise _no_answer(error) from None
    metrics.questions.labels("not_found" if message.found is False else "answered").inc()
    return Wrapped(value=message)


def _no_answer(error: NoAnswerError) -> ProblemError:
    # Both answers mean that the service did not act: the conversation is unchanged. Only
    # 503 with Retry-After invites it to send the question again by itself.
    if error.retry_after is None:
        return ProblemError(
            HTTPStatus.FAILED_DEPENDENCY,
            "model_failed",
            f"{error} The question was not stored. The service's log has the cause; asking again "
            "helps when that is mended.",
        )
    return ProblemError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "model_unavailable",
        f"{error} The question was not stored; ask it again later.",
        {"Retry-After": str(error.retry_after)},
    )
