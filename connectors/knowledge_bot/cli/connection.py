"""Which service a command talks to, and with which key: option, then environment, then file."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import click

from knowledge_bot.cli.exits import Exit, Failed
from knowledge_bot.cli.output import F
from knowledge_bot.cli.settings import read_settings, settings_file

if TYPE_CHECKING:
    from knowledge_bot import Client
    from knowledge_bot.cli.settings import Settings

    C = TypeVar("C", bound=Client)


def collections_option(command: F) -> F:
    """Add the option `--collection`, which may be given several times."""
    return click.option(
        "--collection",
        "collections",
        multiple=True,
        envvar="KNOWLEDGE_BOT_COLLECTION",
        metavar="ID",
        help="Add to this collection. Repeatable.  [default: the ones of `kbot login`]",
    )(command)


@dataclass(frozen=True, slots=True)
class Connection:
    """What the options before the command's name say, and the rest from where it is kept.

    Args:
        base_url: the service's address, from the option or the environment; None: from the file.
        timeout: seconds.
    """

    base_url: str | None
    timeout: float

    def client(self, *, needs_key: bool = False) -> "Client":
        """Return a client of the service.

        Args:
            needs_key: the command cannot do anything without a key.

        Raises:
            Failed: no service, or no key although it is needed; the text says how to set it.
            ConfigurationError: a value that cannot be used.
        """
        from knowledge_bot import Client

        return self.open(Client, needs_key=needs_key)

    def collections(self, given: tuple[str, ...]) -> tuple[str, ...]:
        """Return the collections to add to: those given, or those kept by `kbot login`.

        Raises:
            Failed: none is named anywhere.
        """
        if given:
            return given
        saved = read_settings()
        if saved.collections and saved.serves(self.base_url):
            return saved.collections
        raise Failed(
            "No collection is named. Pass --collection ID, or set KNOWLEDGE_BOT_COLLECTION; "
            "`kbot collections` lists them, and `kbot login --collection ID` keeps one.",
            Exit.USAGE,
        )

    def open(self, kind: "type[C]", *, needs_key: bool) -> "C":
        """Return a client as `client` does, of a class of the caller's."""
        environment_key = os.environ.get("KNOWLEDGE_BOT_API_KEY")
        # With both at hand, a file that is broken or unsafe is none of this command's business.
        saved = None if self.base_url and environment_key else read_settings()
        base_url = self.base_url or (saved.base_url if saved else None)
        if not base_url:
            raise Failed(
                "No service is named. Do `kbot login`, set KNOWLEDGE_BOT_BASE_URL, or pass "
                "--base-url; `kbot serve` runs a service on this machine.",
                Exit.USAGE,
            )
        key = None
        if saved is not None and not environment_key and saved.serves(base_url):
            key = saved.api_key
        if needs_key and not environment_key and key is None:
            raise Failed(_no_key(base_url, saved), Exit.ACCOUNT)
        return kind(key, base_url, timeout=self.timeout)


def _no_key(base_url: str, saved: "Settings | None") -> str:
    ways = "Do `kbot login`, or set KNOWLEDGE_BOT_API_KEY. Nothing was sent."
    if saved is not None and saved.api_key is not None:
        return (
            f"No API key for {base_url}: the one in {settings_file()} is for {saved.base_url}. "
            f"{ways}"
        )
    return f"No API key. {ways}"
