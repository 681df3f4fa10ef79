"""`kbot mcp` and `kbot gateway`; their dependencies are loaded when one of them is called."""

import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from knowledge_bot.cli.exits import Exit, Failed
from knowledge_bot.cli.settings import ServiceOptions
from knowledge_bot_gateway import require_extra

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from knowledge_bot import Client
    from knowledge_bot_gateway import Upstream

C = TypeVar("C", bound=Callable[..., Any])

_GRACE = 5  # seconds for open requests to end when the gateway is stopped
_IDLE = 20  # seconds until an idle connection is closed: later than clients give theirs up (5, 15)

_KEYS = "KBOT_GATEWAY_KEY"


# In the order of the help.
_SHARED = (
    click.option("--allow-writes", is_flag=True, help="Offer MCP tools that add pages and texts."),
    click.option(
        "--heads",
        metavar="ADDRESS",
        help="Database with the last answer of each conversation, shared by several gateways: "
        "a SQLite file or postgresql://….  [default: kept in this process]",
    ),
    click.option(
        "--describe",
        "descriptions",
        multiple=True,
        metavar="BOT=TEXT",
        callback=lambda _context, _option, given: _descriptions(given),
        help="What a bot is for, by its id or name; agents choose a bot's tool by it. Repeatable.",
    ),
    click.option(
        "--key",
        "keys",
        multiple=True,
        envvar=_KEYS,
        metavar="KEY",
        help="A key that callers send as a bearer token; the environment hides it from other "
        "users. The service then gets kbot's own key. Repeatable. "
        " [default: callers send the service's key, which is passed through]",
    ),
    click.option(
        "--no-key",
        is_flag=True,
        help="Admit everyone on this machine without a key; only on a loopback address.",
    ),
    click.option(
        "--allow-origin",
        "origins",
        multiple=True,
        metavar="ORIGIN",
        help="Let web pages of this origin call it from a browser (CORS): "
        "https://chat.example. Repeatable.",
    ),
    click.option(
        "--allow-host",
        "hosts",
        multiple=True,
        metavar="NAME",
        help="Another host name under which it may be called, as behind a proxy. Repeatable.",
    ),
)


def _shared(command: C) -> C:
    """Add the options that both commands have."""
    for option in reversed(_SHARED):
        command = option(command)
    return command


@click.command()
@click.option(
    "--http",
    "address",
    metavar="HOST:PORT",
    help="Serve over HTTP at /mcp there, instead of over stdin and stdout.",
)
@_shared
@click.pass_obj
def mcp(
    connection: ServiceOptions, /, address: str | None, allow_writes: bool, **options: Any
) -> None:
    """Offer the bots to agents: a server of the Model Context Protocol.

    An editor or an agent starts it, and talks to it over stdin and stdout; with --http it serves
    several clients. It adds sources only with --allow-writes.

    \b
    kbot mcp
    KBOT_GATEWAY_KEY=a-long-secret kbot mcp --http 127.0.0.1:8711
    """  # noqa: D301 - \b is for click
    if address is not None:
        host, port = _host_and_port(address)
        _serve(connection, host, port, allow_writes=allow_writes, openai=False, **options)
        return
    given = [options.pop(name) for name in ("keys", "no_key", "hosts", "origins")]
    if any(given):
        raise click.UsageError("--key, --no-key, --allow-host and --allow-origin are for --http.")
    import anyio

    from knowledge_bot_gateway import create_mcp_server

    # A thread reads standard input, and an orderly exit would wait for it. Everything is stored
    # after each answer, so nothing is lost.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    upstream = _upstream(connection, own_key=True, **options)
    anyio.run(_over_stdio, upstream, create_mcp_server(upstream, allow_writes=allow_writes))


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8710,
    show_default=True,
    help="Port; 0 takes a free one.",
)
@_shared
@click.option(
    "--parallel",
    type=click.IntRange(1),
    default=256,
    show_default=True,
    help="How many requests to the service may be in flight; more wait.",
)
@click.pass_obj
def gateway(connection: ServiceOptions, /, host: str, port: int, **options: Any) -> None:
    """Offer the bots to chat windows and agents: OpenAI's API at /v1, and MCP at /mcp.

    Each bot is a model. A chat continues in its own conversation, and no message is sent twice.

    \b
    kbot gateway
    KBOT_GATEWAY_KEY=a-long-secret kbot gateway --host 0.0.0.0 --heads heads.db
    """  # noqa: D301 - \b is for click
    _serve(connection, host, port, openai=True, **options)


def _descriptions(given: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for one in given:
        bot, equals, text = (part.strip() for part in one.partition("="))
        if not (bot and equals and text):
            raise click.BadParameter(f"expected BOT=TEXT, not {one!r}", param_hint="--describe")
        found[bot] = text
    return found


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise click.BadParameter("expected HOST:PORT, as in 127.0.0.1:8711", param_hint="--http")
    return host.strip("[]"), int(port)


def _upstream(
    connection: ServiceOptions,
    *,
    own_key: bool,
    heads: str | None,
    descriptions: dict[str, str],
    **more: Any,
) -> "Upstream":
    from knowledge_bot.conversations import Heads
    from knowledge_bot_gateway import Upstream

    if own_key:
        # Raises an error that says how to set an address and a key.
        with connection.client(needs_key=True) as client:
            base_url = client.base_url
            _check_described(client, descriptions)
    else:
        base_url = connection.service()
    known = Heads(heads)
    known.check()  # fails now rather than for each caller
    return Upstream(
        base_url,
        connection.key.value or None if own_key else None,
        heads=known,
        timeout=connection.timeout,
        descriptions=descriptions,
        **more,
    )


def _check_described(client: "Client", descriptions: dict[str, str]) -> None:
    """Warn of descriptions for bots that the service does not list."""
    from knowledge_bot import KnowledgeBotError

    if not descriptions:
        return
    try:
        bots = client.list_bots()
    except KnowledgeBotError as error:
        click.echo(f"--describe: the bots are not known yet: {error}", err=True)
        return
    known = {name.casefold() for bot in bots for name in (bot.id, bot.name)}
    for name in descriptions:
        if name.casefold() not in known:
            there = ", ".join(bot.id for bot in bots) or "none"
            click.echo(f"--describe: there is no bot {name!r}; there are {there}", err=True)


def _serve(
    connection: ServiceOptions,
    host: str,
    port: int,
    *,
    keys: tuple[str, ...],
    no_key: bool,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    allow_writes: bool,
    openai: bool,
    **options: Any,
) -> None:
    require_extra()
    # The server raises the signal that stopped it again; stopping is not a failure.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    import uvicorn

    from knowledge_bot_gateway import Admission, create_app, create_mcp_server
    from knowledge_bot_gateway._gate import loopback_names

    names = loopback_names(host)
    if no_key and (names is None or keys):
        raise click.UsageError(
            "--no-key is for a loopback address, such as 127.0.0.1, and without --key."
        )
    named = None if names is None and not hosts else (*(names or (host,)), *hosts)
    upstream = _upstream(connection, own_key=bool(keys) or no_key, **options)
    server = create_mcp_server(upstream, allow_writes=allow_writes)
    admission = Admission(keys, open=no_key, hosts=named, origins=origins)
    app = create_app(upstream, admission, server, openai=openai)
    with _listener(host, port) as listener:
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listener.getsockname()[1]}"
        if openai:
            click.echo(f"OpenAI:   {address}/v1")
        click.echo(f"MCP:      {address}/mcp")
        click.echo("Stop with Ctrl-C.", err=True)
        config = uvicorn.Config(
            app,
            http="h11",  # bounds a request's headers, which httptools does not
            ws="none",
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_keep_alive=_IDLE,
            timeout_graceful_shutdown=_GRACE,
        )
        uvicorn.Server(config).run(sockets=[listener])


def _listener(host: str, port: int) -> Any:
    import socket

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise Failed(
            f"cannot listen on {host}, port {port}: {error.strerror}. Take another port.",
            Exit.FAILED,
        ) from None


async def _over_stdio(upstream: "Upstream", server: "MCPServer[None]") -> None:
    from knowledge_bot_gateway._mcp import run_over_stdio

    try:
        await run_over_stdio(server)
    finally:
        await upstream.aclose()
