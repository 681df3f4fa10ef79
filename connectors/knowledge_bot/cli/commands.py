"""The commands of `kbot`: data goes to stdout, everything else to stderr."""

from importlib.metadata import entry_points
from typing import Any

import click

from knowledge_bot import AuthenticationError, KnowledgeBotError, __version__

_PLUGINS = "knowledge_bot.commands"

# Exit codes: 0 done, 1 failed, 2 usage (click's own), 4 the API key is missing or not accepted.
_FAILED = 1
_AUTHENTICATION = 4


class _Group(click.Group):
    """A group that other packages add commands to by entry point, such as `kbot serve`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *entry_points(group=_PLUGINS).names})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            return command
        for entry_point in entry_points(group=_PLUGINS, name=cmd_name):
            try:
                loaded = entry_point.load()
            except ModuleNotFoundError as error:
                return _unavailable(cmd_name, error.name or "a package")
            if not isinstance(loaded, click.Command):
                raise TypeError(f"{entry_point.value} is not a click command")
            return loaded
        return None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KnowledgeBotError as error:
            click.echo(f"Error: {error}", err=True)
            ctx.exit(_AUTHENTICATION if isinstance(error, AuthenticationError) else _FAILED)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kbot")
def main() -> None:
    """Feed and ask a Knowledge-Bot Service.

    KNOWLEDGE_BOT_BASE_URL and KNOWLEDGE_BOT_API_KEY name the service and your key.
    """


@main.command()
def ping() -> None:
    """Check that the service is alive.

    Example: kbot ping
    """
    from knowledge_bot import Client

    with Client() as client:
        client.ping()
    click.echo("pong")


def _unavailable(name: str, module: str) -> click.Command:
    @click.command(name, short_help=f"(needs {module}, which is not installed)")
    def command() -> None:
        raise click.ClickException(
            f"`kbot {name}` needs {module}, which is not installed; "
            f"pip install 'knowledge-bot[{name}]'"
        )

    return command
