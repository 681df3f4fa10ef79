"""Bots for agents and chat windows: an MCP server and OpenAI's API, in front of any service.

`kbot mcp` and `kbot gateway` run it, and `kbot serve` offers both beside its own interface. It
keeps the core's promise: no message is silently sent twice, and every error says whether the
service may have acted.

A name is loaded when it is first used, since every start of `kbot` imports this package, even if
the extra `gateway` is not installed.
"""

from typing import TYPE_CHECKING

from knowledge_bot.adapters import lazy_names, require

if TYPE_CHECKING:
    from knowledge_bot_gateway._app import create_app
    from knowledge_bot_gateway._gate import Admission
    from knowledge_bot_gateway._mcp import create_mcp_server
    from knowledge_bot_gateway._service import Upstream

__all__ = ["Admission", "Upstream", "create_app", "create_mcp_server"]

_HOMES = {
    "_app": ("create_app",),
    "_gate": ("Admission",),
    "_mcp": ("create_mcp_server",),
    "_service": ("Upstream",),
}


def require_extra() -> None:
    """Check that the extra `gateway` is installed.

    Raises:
        MissingExtraError: it is not installed.
    """
    require(__name__, "gateway", "fastapi", "mcp", "uvicorn")


__getattr__, __dir__ = lazy_names(__name__, _HOMES, require_extra)
