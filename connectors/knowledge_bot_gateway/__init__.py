"""Bots for agents and chat windows: an MCP server and OpenAI's API, in front of any service.

`kbot mcp` and `kbot gateway` run it, and `kbot serve` offers both beside its own interface. It
keeps the core's promise: no message is silently sent twice, and every error says whether the
service may have acted.

A name is loaded when it is first used, since every start of `kbot` imports this package, even if
the extra `gateway` is not installed.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from knowledge_bot._extras import require

if TYPE_CHECKING:
    from knowledge_bot_gateway._app import create_app
    from knowledge_bot_gateway._gate import Admission
    from knowledge_bot_gateway._mcp import create_mcp_server
    from knowledge_bot_gateway._service import Upstream

__all__ = ["Admission", "Upstream", "create_app", "create_mcp_server"]

_HOMES = {
    "Admission": "_gate",
    "Upstream": "_service",
    "create_app": "_app",
    "create_mcp_server": "_mcp",
}


def require_extra() -> None:
    """Check that the extra `gateway` is installed.

    Raises:
        ModuleNotFoundError: it is not installed; the text says what to install.
    """
    require(__name__, "gateway", "fastapi", "mcp", "uvicorn")


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_extra()
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
