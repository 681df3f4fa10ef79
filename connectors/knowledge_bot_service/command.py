"""`kbot serve`. What serving needs is loaded when it is called: every `kbot` start imports this."""

import signal
import sys
from importlib.metadata import entry_points
from pathlib import Path
from urllib.parse import urljoin

import click

from knowledge_bot_service import require_extra

# What other packages answer beside the service, by the first segment of its path.
MOUNTS = "knowledge_bot.mounts"


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8700,
    show_default=True,
    help="Port; 0 takes a free one.",
)
@click.option("--data", type=click.Path(path_type=Path), help="Data folder.  [default: kbot-data]")
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="TOML file with collections, bots, keys and limits.",
)
@click.option(
    "--api-key",
    envvar="KNOWLEDGE_BOT_API_KEY",
    help="Key that clients send.  [default: one is generated, and kept in the data folder]",
)
@click.option(
    "--allow-fetch",
    multiple=True,
    metavar="CIDR",
    help="Network that web pages may be fetched from although it is not public. Repeatable.",
)
def serve(  # noqa: PLR0917 - click passes every option by name
    host: str,
    port: int,
    data: Path | None,
    config: Path | None,
    api_key: str | None,
    allow_fetch: tuple[str, ...],
) -> None:
    """Run a Knowledge-Bot Service on this machine.

    It starts with the collection col_default and the bot bot_default over it; a configuration file
    declares others. With the extra `gateway`, /v1 speaks OpenAI's API and /mcp the Model Context
    Protocol, both with the service's key as a bearer token. Example:

        kbot serve --data ./knowledge --port 8700
    """
    try:
        require_extra()
    except ModuleNotFoundError as error:
        raise click.ClickException(str(error)) from None
    from knowledge_bot_service.folder import DataFolder, FolderError
    from knowledge_bot_service.schema import SchemaError
    from knowledge_bot_service.server import AddressError, run
    from knowledge_bot_service.settings import Settings, SettingsError, overridden, read_settings

    # The server raises the signal that stopped it once more. Having stopped is no failure.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        settings = read_settings(config) if config is not None else Settings()
        settings = overridden(
            settings, data=data, api_keys=(api_key,) if api_key else (), allow_fetch=allow_fetch
        )
        with DataFolder(settings.data) as folder:
            generated = None
            if not settings.api_keys:
                generated = folder.api_key()
                settings = overridden(settings, api_keys=(generated,))
            run(
                settings,
                folder,
                host=host,
                port=port,
                on_ready=lambda base_url, _port: _announce(base_url, settings.data, generated),
                mounts={one.name: one.load for one in entry_points(group=MOUNTS)},
            )
    except (SettingsError, FolderError, AddressError, SchemaError) as error:
        raise click.ClickException(str(error)) from None


def _announce(base_url: str, data: Path, generated_key: str | None) -> None:
    click.echo(f"Base URL: {base_url}")
    click.echo(f"Page:     {urljoin(base_url, '/')}")
    if generated_key is not None:
        click.echo(f"API key:  {generated_key}")
    click.echo(f"Data:     {data.absolute()}", err=True)
    click.echo("Stop with Ctrl-C.", err=True)


if __name__ == "__main__":
    serve()
