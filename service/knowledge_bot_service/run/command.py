"""`kbot serve`. It imports the service only when called, since every `kbot` imports this."""

import os
import signal
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from datetime import date
from functools import wraps
from importlib.metadata import entry_points
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

import click
from click.core import ParameterSource

from knowledge_bot_service import require_extra

if TYPE_CHECKING:
    from knowledge_bot_service.config.settings import Role, ServiceConfiguration
    from knowledge_bot_service.run.feeding import Feeding

# What other packages answer beside the service, by the first segment of its path.
MOUNTS = "knowledge_bot.mounts"

_KEY_VARIABLE = "KNOWLEDGE_BOT_API_KEY"

_data = click.option(
    "--data", type=click.Path(path_type=Path), help="Data folder.  [default: kbot-data]"
)
_config = click.option(
    "--config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="TOML file with collections, bots, keys and limits.",
)


def _on_folder(command: Callable[..., None]) -> Callable[..., None]:
    """Call a command with the settings of the folder that it, or `kbot serve` itself, was given.

    Its errors are one sentence for the terminal.
    """

    @_data
    @_config
    @wraps(command)
    def called(**options: Any) -> None:
        from knowledge_bot_service.config.folder import FolderError
        from knowledge_bot_service.config.settings import (
            ServiceConfiguration,
            SettingsError,
            read_settings,
        )

        del options["data"], options["config"]
        try:
            config = _given("config")
            settings = ServiceConfiguration() if config is None else read_settings(config)
            data = _given("data") or settings.data
            command(settings.model_copy(update={"data": data}), **options)
        except (FolderError, SettingsError) as error:
            raise click.ClickException(str(error)) from None

    return called


class _Serve(click.Group):
    """Says what is meant by a word that is no command: a folder is fed, by an option."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None:
            commands = ", ".join(self.list_commands(ctx))
            if Path(args[0]).is_dir():
                said = f"Did you mean `{ctx.command_path} --with {args[0]}`?"
            else:
                said = f"`{ctx.command_path}` alone starts the service, and has {commands}."
            ctx.fail(f"There is no command {args[0]!r}. {said}")
        return super().resolve_command(ctx, args)


@click.group(cls=_Serve, invoke_without_command=True)
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Port; 0 takes a free one.  [default: 8700]"
)
@_data
@_config
@click.option(
    "--api-key",
    envvar=_KEY_VARIABLE,
    help="Key that clients send, beside those of the configuration.  [default: one is generated, "
    "and kept in the data folder]",
)
@click.option(
    "--with",
    "fed",
    metavar="FOLDER",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    callback=lambda _context, option, given: _the_only(option, given),
    help="Feed this folder to the service, now and whenever something in it changes: what is "
    "replaced or removed there, is so here.",
)
@click.option(
    "--allow-fetch",
    multiple=True,
    metavar="CIDR",
    help="Network that web pages may be fetched from although it is not public. Repeatable.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="What is logged on stderr; from info on, a line for each request. With --with it is "
    "warning if nothing is chosen.",
)
@click.pass_context
def serve(  # noqa: PLR0917 - click passes every option by name
    context: click.Context,
    host: str | None,
    port: int | None,
    data: Path | None,
    config: Path | None,
    api_key: str | None,
    fed: Path | None,
    allow_fetch: tuple[str, ...],
    log_level: str,
) -> None:
    """Run a Knowledge-Bot Service on this machine.

    It starts with the collection col_default and the bot bot_default over it; a configuration file
    declares others. With the extra `gateway`, /v1 speaks OpenAI's API and /mcp the Model Context
    Protocol, both with the service's key as a bearer token.

    \b
    kbot serve --with handbook
    kbot serve --data ./knowledge --port 8700
    """  # noqa: D301 - \b is for click
    try:
        require_extra()
    except ModuleNotFoundError as error:
        raise click.ClickException(str(error)) from None
    if context.invoked_subcommand is not None:
        return
    from knowledge_bot_service.config import logs
    from knowledge_bot_service.config.folder import DataFolder, FolderError, new_key
    from knowledge_bot_service.config.keys import KeyList
    from knowledge_bot_service.config.settings import (
        GIVEN_KEY,
        ServiceConfiguration,
        SettingsError,
        overridden,
        read_settings,
    )
    from knowledge_bot_service.run.server import base_url_at, listen, run

    # The server raises the signal that stopped it again. That is not a failure.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())

    is_given = context.get_parameter_source("api_key") is ParameterSource.COMMANDLINE

    # A line for each file that is fed would hide what is said to the person at the terminal.
    chosen = context.get_parameter_source("log_level") is not ParameterSource.DEFAULT
    logs.configure(log_level if chosen or fed is None else "warning")
    try:
        settings = read_settings(config) if config is not None else ServiceConfiguration()
        # The variable is also the client's, perhaps for another service.
        is_taken = is_given or not settings.keys
        if api_key and not is_taken:
            click.echo(f"{_KEY_VARIABLE} is set, and not used: {config} has keys.", err=True)
        own = {"name": GIVEN_KEY, "role": "manage", "key": api_key}
        settings = overridden(
            settings,
            {
                "host": host,
                "port": port,
                "data": data,
                "keys": (own,) if is_taken and api_key else (),
                "allow_fetch": allow_fetch,
            },
        )
        is_new = not settings.data.exists()
        with listen(settings.host, settings.port) as listener:
            base_url = base_url_at(settings.host, listener)
            feeding = None if fed is None else _feeding(fed, settings, config, base_url)
            mounts = {one.name: one.load for one in entry_points(group=MOUNTS)}
            with DataFolder(settings.data) as folder, feeding or nullcontext():
                keys = KeyList(folder, settings)

                def announce() -> None:
                    _announce(base_url, settings, keys.generated, mounts, is_new=is_new)
                    if not is_given and any(one.name == GIVEN_KEY for one in settings.keys):
                        click.echo(f"API key:  that of {_KEY_VARIABLE}, which is set", err=True)
                    if feeding is not None:
                        _tell_what_is_next(base_url, keys.generated, fed)
                        feeding.start(keys.take("--with", new_key()))
                    click.echo("Stop with Ctrl-C.", err=True)

                run(
                    settings,
                    folder,
                    keys,
                    listener,
                    on_ready=announce,
                    on_stop=None if feeding is None else feeding.stop,
                    mounts=mounts,
                )
    except (SettingsError, FolderError) as error:
        raise click.ClickException(str(error)) from None


@serve.group()
def keys() -> None:
    """Make, list and revoke keys that the data folder keeps. Its service takes a change at once."""


@keys.command("add")
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(["read", "write", "manage"]),
    required=True,
    help="read: list and ask. write: also add. manage: also replace and delete.",
)
@click.option(
    "--bot",
    "bots",
    multiple=True,
    metavar="BOT",
    help="Limit it to this bot; without --collection, to what the bot reads as well. Repeatable.",
)
@click.option(
    "--collection",
    "collections",
    multiple=True,
    metavar="COLLECTION",
    help="Limit it to this collection; without --bot, to bots that read nothing else. Repeatable.",
)
@click.option(
    "--expires",
    metavar="YYYY-MM-DD",
    callback=lambda _context, option, given: None if given is None else _day(option, given),
    help="First day, in UTC, on which it is no longer taken.",
)
@_on_folder
def add_key(
    settings: "ServiceConfiguration",
    *,
    name: str,
    role: "Role",
    bots: tuple[str, ...],
    collections: tuple[str, ...],
    expires: date | None,
) -> None:
    """Make a key and print it. The data folder keeps its digest alone, so it is shown once.

    A service that runs takes it at once. Example:

        kbot serve keys add wiki --role read --bot bot_wiki --config kbot.toml
    """
    from knowledge_bot_service.config.folder import FolderError
    from knowledge_bot_service.config.keys import StoredKeys

    if missing := settings.unknown_in(bots, collections):
        without = "" if _given("config") else "; --config names the one that declares others"
        raise FolderError(f"no key was made: the configuration has no {missing}{without}")
    if name in {key.name for key in settings.keys}:
        raise FolderError(f"no key was made: the configuration has a key {name}")
    stored = StoredKeys(settings.data)
    limits = {"bots": bots or None, "collections": collections or None}
    click.echo(stored.add(name, role, expires=expires, **limits))
    folder = settings.data.absolute()
    click.echo(
        f"The service of {folder} takes it from now on, and it is not shown again.", err=True
    )


@keys.command("list")
@_on_folder
def list_keys(settings: "ServiceConfiguration") -> None:
    """List the keys of the data folder: name, role, when each ends, its bots and its collections.

    Those of a configuration file are not listed. Example:

        kbot serve keys list --data ./knowledge
    """
    from knowledge_bot_service.config.folder import FolderError
    from knowledge_bot_service.config.keys import StoredKeys

    if not settings.data.is_dir():
        raise FolderError(f"there is no data folder {settings.data}; --data names the service's")
    found = StoredKeys(settings.data).all()
    if not found:
        click.echo(f"{settings.data} keeps no keys: `kbot serve keys add` makes one", err=True)
    for key in found:
        ends = f"{'expired ' * key.has_expired}{key.expires or 'never'}"
        limits = ("all" if ids is None else ",".join(ids) for ids in (key.bots, key.collections))
        click.echo("\t".join((key.name, key.role, ends, *limits)))


@keys.command("revoke")
@click.argument("name")
@_on_folder
def revoke_key(settings: "ServiceConfiguration", name: str) -> None:
    """Refuse a key of the data folder from now on.

    Those of a configuration file end where they stand, and with a restart. Example:

        kbot serve keys revoke wiki --data ./knowledge
    """
    from knowledge_bot_service.config.keys import StoredKeys

    StoredKeys(settings.data).revoke(name)
    click.echo(f"The key {name} is refused from now on.", err=True)


@serve.command()
@click.argument("target", metavar="FOLDER", type=click.Path(path_type=Path))
@_on_folder
def backup(settings: "ServiceConfiguration", target: Path) -> None:
    """Copy everything of a data folder into a new FOLDER, also while its service runs.

    Nothing that the service had accepted before is missing in it. It is a data folder itself, and
    may hold keys: its owner alone may read it. Example:

        kbot serve backup /backups/kbot-2026-11-22 --data ./knowledge
    """
    _copied(settings.data, target)


@serve.command()
@click.argument("source", metavar="FOLDER", type=click.Path(path_type=Path))
@_on_folder
def restore(settings: "ServiceConfiguration", source: Path) -> None:
    """Make a data folder from the FOLDER of a backup. The data folder must be new or empty.

    What root restores belongs to the owner of the folder. Example:

        kbot serve restore /backups/kbot-2026-11-22 --data ./knowledge
    """
    _copied(source, settings.data)


def _copied(source: Path, target: Path) -> None:
    from knowledge_bot_service.run.backup import copy_folder

    click.echo(f"{target}: {copy_folder(source, target)}", err=True)


def _feeding(
    folder: Path, settings: "ServiceConfiguration", config: Path | None, base_url: str
) -> "Feeding":
    from knowledge_bot_service.run.feeding import Feeding

    # They hold keys.
    secret = [config, *(key.key_file for key in settings.keys)]
    return Feeding(folder, settings, base_url, leave_out=[one for one in secret if one])


def _given(option: str) -> Path | None:
    """What a command was given for an option, or else `kbot serve` itself."""
    context: click.Context | None = click.get_current_context()
    found: Path | None = None
    while context is not None and found is None:
        found = context.params.get(option)
        context = None if context.command is serve else context.parent
    return found


def _announce(
    base_url: str,
    settings: "ServiceConfiguration",
    generated_key: str | None,
    mounts: Iterable[str],
    *,
    is_new: bool,
) -> None:
    click.echo(f"Base URL: {base_url}")
    click.echo(f"Page:     {urljoin(base_url, '/')}")
    for name in sorted(mounts, reverse=True):
        click.echo(f"{'OpenAI:' if name == 'v1' else 'MCP:':9} {urljoin(base_url, f'/{name}')}")
    if generated_key is not None:
        click.echo(f"API key:  {generated_key}")
    made = " (new: it was made now, and is empty)" if is_new else ""
    click.echo(f"Data:     {settings.data.absolute()}{made}", err=True)
    if not _is_loopback(settings.host):
        click.echo(
            "Others reach it by this machine's name or address. Keys and texts go over the network "
            "in plain text: put a proxy with TLS before it.",
            err=True,
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _day(option: click.Parameter, given: str) -> date:
    try:
        return date.fromisoformat(given)
    except ValueError:
        said = f"{given!r} is no day that can be read: write year, month and day as in 2027-11-30"
        raise click.BadParameter(said, param=option) from None


def _the_only(option: click.Parameter, given: tuple[Path, ...]) -> Path | None:
    if len(given) > 1:
        raise click.BadParameter("it feeds one folder; put several below one", param=option)
    return given[0] if given else None


def _tell_what_is_next(base_url: str, key: str | None, fed: Path | None) -> None:
    given = "" if os.environ.get(_KEY_VARIABLE) else f" {_KEY_VARIABLE}={key or 'YOUR-KEY'}"
    click.echo(
        f"Feeding:  {fed}, and again whenever something in it changes\n\n"
        "Open the page, enter the key and ask; or in another terminal:\n"
        f"  export KNOWLEDGE_BOT_BASE_URL={base_url}{given}\n"
        '  kbot ask "What would you like to know?"\n',
        err=True,
    )


if __name__ == "__main__":
    serve()
