"""The web application of a service, put together."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from typing import TypedDict

from fastapi import FastAPI

from knowledge_bot_service.config.folder import DataFolder
from knowledge_bot_service.config.keys import KeyList
from knowledge_bot_service.config.settings import ServiceConfiguration
from knowledge_bot_service.store.database import ServiceDatabase
from knowledge_bot_service.web import endpoints, extensions, problems
from knowledge_bot_service.web.gate import Mounts, RequestGate
from knowledge_bot_service.web.monitoring import Monitor
from knowledge_bot_service.web.monitoring import router as monitoring
from knowledge_bot_service.web.page import router as page
from knowledge_bot_service.work.knowledge_base import KnowledgeBase


def create_app(
    settings: ServiceConfiguration,
    folder: DataFolder,
    database: ServiceDatabase,
    keys: KeyList,
    *,
    on_ready: Callable[[], None] = lambda: None,
    mounts: Mounts | None = None,
) -> FastAPI:
    """Make the web application of a service.

    The database is closed when the application ends; `on_ready` is called when requests can be
    answered.

    Raises:
        SettingsError: the key of the language model is not in the environment.
    """
    writer = None
    if settings.answers is not None:
        # Loaded only if needed: it costs a tenth of a second.
        from knowledge_bot_service.answers.language_model import LanguageModel

        writer = LanguageModel(settings.answers)
    monitor = Monitor(database, folder.path)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[_State]:
        async with writer or nullcontext(), mounts or nullcontext():
            with KnowledgeBase(settings, folder, database, writer, monitor.on_question) as service:
                on_ready()
                yield {"service": service, "monitor": monitor}

    app = FastAPI(
        lifespan=lifespan,
        openapi_url=None,
        # It would redirect to a path that a proxy in front of the service may not have.
        redirect_slashes=False,
    )
    for router in (endpoints.router, extensions.router, page, monitoring):
        # As they are: `include_router` would make each of them once more, at every start.
        app.router.routes.extend(router.routes)
    problems.install(app)
    app.add_middleware(
        RequestGate, keys=keys, limits=settings.limits, mounts=mounts, on_answer=monitor.on_answer
    )
    return app


class _State(TypedDict):
    service: KnowledgeBase
    monitor: Monitor
