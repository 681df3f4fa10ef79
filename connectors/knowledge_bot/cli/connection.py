"""Which service a command talks to, and with which key: option, then environment, then profile."""

import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from knowledge_bot.cli.exits import Exit, Failed
from knowledge_bot.cli.settings import (
    Profile,
    Settings,
    read_settings,
    same_service,
    settings_file,
)

if TYPE_CHECKING:
    from pydantic import SecretStr

    from knowledge_bot import Client

ADDRESS_VARIABLE = "KNOWLEDGE_BOT_BASE_URL"
KEY_VARIABLE = "KNOWLEDGE_BOT_API_KEY"
COLLECTION_VARIABLE = "KNOWLEDGE_BOT_COLLECTION"
PROFILE_VARIABLE = "KBOT_PROFILE"


class Address(NamedTuple):
    """The service's address, and what names it; both are empty where nothing does."""

    base_url: str
    origin: str


class Key(NamedTuple):
    """The key, and what it comes from."""

    secret: "SecretStr | str"
    origin: str


class Collections(NamedTuple):
    """The ids of the collections to add to, and what names them; empty where nothing does."""

    ids: tuple[str, ...]
    origin: str


@dataclass(frozen=True)
class Connection:
    """The options before the command's name, completed from the environment and the profile.

    An option wins over the environment, and the environment over the profile. A profile that is
    named by an option wins over the environment as well: whoever names it means its service.

    Args:
        base_url: the address of `--base-url`.
        profile: the name of `--profile`.
        timeout: seconds.
    """

    base_url: str | None
    profile: str | None
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

        base_url, key = self.service(), self.key
        # Without one, the client would take the environment's, which may be for another service.
        if key is None and (needs_key or os.environ.get(KEY_VARIABLE)):
            raise Failed(self.no_key(), Exit.ACCOUNT)
        return Client(None if key is None else key.secret, base_url, timeout=self.timeout)

    def service(self) -> str:
        """Return the service's address.

        Raises:
            Failed: no service is named; the text says how to name one.
        """
        if not self.address.base_url:
            raise Failed(
                "No service is named. Do `kbot login`, set KNOWLEDGE_BOT_BASE_URL, or pass "
                "--base-url; `kbot serve` runs a service on this machine.",
                Exit.USAGE,
            )
        return self.address.base_url

    @cached_property
    def profile_name(self) -> str | None:
        """The name of the profile to use; None: the default one."""
        return self.profile or os.environ.get(PROFILE_VARIABLE) or None

    @cached_property
    def settings(self) -> Settings:
        """What `kbot login` kept.

        Raises:
            Failed: the file cannot be used.
        """
        return read_settings()

    @cached_property
    def saved(self) -> Profile | None:
        """The profile to use; None where none is kept.

        Raises:
            Failed: there is no profile of that name, or the file cannot be used.
        """
        return self.settings.find(self.profile_name)

    @cached_property
    def address(self) -> Address:
        """The service's address."""
        variable = os.environ.get(ADDRESS_VARIABLE)
        if self.base_url:
            return Address(self.base_url, "--base-url")
        if variable and not self.profile:
            return Address(variable, ADDRESS_VARIABLE)
        return Address(self.saved.base_url, _label(self.saved)) if self.saved else Address("", "")

    @cached_property
    def key(self) -> Key | None:
        """The key of the service; None where none is known for it.

        Raises:
            Failed: the file or the keyring cannot be used.
        """
        variable = os.environ.get(KEY_VARIABLE)
        # With both set, a file that is broken or unsafe does not matter.
        if variable and not self.profile:
            return Key(variable, KEY_VARIABLE)
        if self.saved and self.saved.serves(self.address.base_url) and (key := self.saved.key()):
            return Key(key, f"{'keyring, ' if self.saved.in_keyring else ''}{_label(self.saved)}")
        return Key(variable, KEY_VARIABLE) if variable and self._environment_fits() else None

    def collections(self, given: tuple[str, ...]) -> Collections:
        """Return the collections to add to: of the option, the environment, or the profile.

        Args:
            given: those of `--collection`.
        """
        variable = Collections(
            tuple(os.environ.get(COLLECTION_VARIABLE, "").split()), COLLECTION_VARIABLE
        )
        if given:
            return Collections(given, "--collection")
        if variable.ids and not self.profile:
            return variable
        if self.saved and self.saved.collections and self.saved.serves(self.address.base_url):
            return Collections(self.saved.collections, _label(self.saved))
        return variable if variable.ids and self._environment_fits() else Collections((), "")

    def no_key(self) -> str:
        """Say that there is no key for the service, and where there is one for another."""
        base_url = self.address.base_url
        ways = "Do `kbot login`, or set KNOWLEDGE_BOT_API_KEY. Nothing was sent."
        kept = self.settings.profiles.values()
        if fitting := next((one for one in kept if one.serves(base_url)), None):
            if fitting != self.saved:
                return f"No API key for {base_url} here; --profile {fitting.name} has one. {ways}"
        elif self.saved is not None and (self.saved.api_key or self.saved.in_keyring):
            return (
                f"No API key for {base_url}: the one in {settings_file()} is for "
                f"{self.saved.base_url}. {ways}"
            )
        return f"No API key. {ways}"

    def _environment_fits(self) -> bool:
        """Return whether the environment's key and collections may belong to the service."""
        variable = os.environ.get(ADDRESS_VARIABLE)
        return not variable or same_service(variable, self.address.base_url)


def _label(profile: Profile) -> str:
    return f"profile {profile.name} in {settings_file()}"
