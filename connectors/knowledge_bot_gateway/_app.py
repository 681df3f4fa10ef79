"""The gateway as a web application, by itself or beside a service in the same process."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Security
from fastapi.security import HTTPBearer
from mcp.server import MCPServer
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route
from starlette.types import ASGIApp

from knowledge_bot import Bot, __version__
from knowledge_bot.conversations import Heads
from knowledge_bot_gateway import _chat, _problems, _responses
from knowledge_bot_gateway._gate import Admission, Gate
from knowledge_bot_gateway._mcp import create_mcp_server, sessions_of
from knowledge_bot_gateway._messages import ERRORS, bots
from knowledge_bot_gateway._once import Once
from knowledge_bot_gateway._problems import no_such_model
from knowledge_bot_gateway._service import Upstream

# The gate checks the key before the body is read. This only documents it.
_KEY = Security(HTTPBearer(auto_error=False))


def create_app(
    upstream: Upstream,
    admission: Admission,
    mcp: MCPServer[Any] | None = None,
    *,
    openai: bool = True,
) -> FastAPI:
    """Make the web application.

    Args:
        upstream: the service behind it; closed with the application.
        admission: who may use it.
        mcp: the server for `/mcp`, from `create_mcp_server`. None: there is no such path.
        openai: whether there is `/v1`.

    Returns:
        An ASGI application with `/v1/models`, `/v1/chat/completions`, `/v1/responses` and `/mcp`.
    """
    sessions = None if mcp is None else sessions_of(mcp, admission.most_bytes)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(upstream.aclose)
            if sessions is not None:
                await stack.enter_async_context(sessions.run())
            yield

    # The usual documentation pages load scripts from other hosts.
    app = FastAPI(
        title="Knowledge-Bot gateway",
        version=__version__,
        lifespan=lifespan,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    if openai:
        for routes in (_models(upstream), _chat.router(upstream), _responses.router(upstream)):
            app.include_router(routes, dependencies=[_KEY])
    if sessions is not None:
        app.router.routes.append(Route("/mcp", sessions.asgi_app))
    _problems.install(app, own_key=not upstream.passes_keys_through)
    app.add_middleware(Once)
    app.add_middleware(Gate, admission=admission)
    if admission.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=admission.origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=["mcp-session-id", "retry-after", "x-should-retry"],
        )
    return app


def _models(upstream: Upstream) -> APIRouter:
    routes = APIRouter()

    @routes.get("/v1/models", responses=ERRORS)
    async def list_models(request: Request) -> dict[str, Any]:
        """List the bots."""
        found = await bots(upstream, request)
        return {"object": "list", "data": [_model(upstream, one) for one in found]}

    @routes.get("/v1/models/{id}", responses={**ERRORS, 404: {"model": _problems.ErrorEnvelope}})
    async def get_model(
        id: str,  # noqa: A002 - OpenAI's name for the parameter
        request: Request,
    ) -> dict[str, Any]:
        """Describe one bot."""
        found = {one.id: one for one in await bots(upstream, request)}
        if id not in found:
            raise no_such_model(id)
        return _model(upstream, found[id])

    return routes


@asynccontextmanager
async def mount_openai(base_url: str, data: Path) -> AsyncIterator[ASGIApp]:
    """Run `/v1` beside a service in the same process; each caller brings the service's key.

    Args:
        base_url: the service's address.
        data: its data folder, which keeps the last answer of each conversation, so that chats
            continue after a restart.

    Yields:
        The application.
    """
    app = create_app(_upstream(base_url, data), Admission())
    async with app.router.lifespan_context(app):
        yield app


@asynccontextmanager
async def mount_mcp(base_url: str, data: Path) -> AsyncIterator[ASGIApp]:
    """Run `/mcp` as `mount_openai` runs `/v1`; arguments and result are the same."""
    upstream = _upstream(base_url, data)
    app = create_app(upstream, Admission(), create_mcp_server(upstream), openai=False)
    async with app.router.lifespan_context(app):
        yield app


def _upstream(base_url: str, data: Path) -> Upstream:
    file = data / "heads.sqlite3"
    # Only for the folder's owner, like everything in it.
    file.touch(mode=0o600)
    return Upstream(base_url, heads=Heads(file))


def _model(upstream: Upstream, bot: Bot) -> dict[str, Any]:
    # The field is required, but the service does not say when a bot was created.
    return {
        "id": bot.id,
        "object": "model",
        "created": 0,
        "owned_by": "knowledge-bot",
        "name": bot.name,
        "description": upstream.description_of(bot),
    }
