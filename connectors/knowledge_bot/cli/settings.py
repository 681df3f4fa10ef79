"""Which service a command talks to: the options, what wins over what, and where it comes from.

An option wins over the environment, and the environment over the profile. A profile that is named
by an option wins over the environment as well: whoever names it means its service.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from knowledge_bot._profiles import (
    FILE_VARIABLE,
    PROFILE_VARIABLE,
    Profile,
    find,
    read_profiles,
    same_service,
    settings_file,
)
from knowledge_bot._words import Words
from knowledge_bot.cli.exits import Exit, Failed

if TYPE_CHECKING:
    from knowledge_bot import Client

T = TypeVar("T")

# As in _configuration, which loads more than a help text needs.
BASE_URL_VARIABLE = "KNOWLEDGE_BOT_BASE_URL"
API_KEY_VARIABLE = "KNOWLEDGE_BOT_API_KEY"
COLLECTION_VARIABLE = "KNOWLEDGE_BOT_COLLECTION"


_LISTS = {
    "bots": "`kbot bots` lists them",
    "collections": "`kbot collections` lists them",
    "conversations": "`kbot conversations BOT` lists those of a bot",
    "origins": "`kbot sources origins` lists them",
    "sources": "`kbot sources list` lists them",
}

KBOT = Words(
    key="of `kbot login`, or KNOWLEDGE_BOT_API_KEY",
    no_key="do `kbot login`, or set KNOWLEDGE_BOT_API_KEY",
    base_url="--base-url",
    verify="SSL_CERT_FILE",
    lists=_LISTS.__getitem__,
    option={
        "allow_empty": "--allow-empty",
        "anyway": "--anyway",
        "origin": "--origin",
        "rename_origin": "`kbot sources rename-origin`",
    }.__getitem__,
)
"""What errors call things where no setting is known."""


class Setting(NamedTuple, Generic[T]):
    """A value, and what it comes from; both are empty where nothing sets it."""

    value: T
    origin: str


@dataclass(frozen=True)
class ServiceOptions:
    """Which service a command talks to, with which key: the options before the command's name."""

    base_url: str | None
    profile: str | None
    timeout: float

    def client(self, *, needs_key: bool = False) -> "Client":
        """Return a client of the service.

        Raises:
            Failed: no service, or no key although it is needed; the text says how to set it.
            ConfigurationError: a value that cannot be used.
        """
        from knowledge_bot import Client

        base_url, key = self.service(), self.key.value
        # Without one, the client would take the environment's, which may be for another service.
        if not key and (needs_key or os.environ.get(API_KEY_VARIABLE)):
            raise Failed(self.no_key(), Exit.ACCOUNT)
        client = Client(key or None, base_url, timeout=self.timeout)
        return client._speaking(self.words())  # noqa: SLF001 - the core's own

    def words(self) -> Words:
        """Return what errors call the things that the user of a terminal can change."""
        return replace(KBOT, key=self.key.origin or KBOT.key, base_url=self.address.origin)

    def service(self) -> str:
        """Return the service's address.

        Raises:
            Failed: no service is named; the text says how to name one.
        """
        if not self.address.value:
            raise Failed(
                "No service is named. Do `kbot login`, set KNOWLEDGE_BOT_BASE_URL, or pass "
                "--base-url; `kbot serve` runs a service on this machine.",
                Exit.USAGE,
            )
        return self.address.value

    @cached_property
    def profile_name(self) -> str | None:
        """The name of the profile to use; None: the default one."""
        return self.profile or os.environ.get(PROFILE_VARIABLE) or None

    @cached_property
    def profiles(self) -> dict[str, Profile]:
        """What `kbot login` kept; raises `ConfigurationError` where the file cannot be used."""
        return read_profiles()

    @cached_property
    def saved(self) -> Profile | None:
        """The profile to use; None where none is kept, or an address chooses between several.

        Raises:
            ConfigurationError: there is no profile of that name, or the file cannot be used.
        """
        elsewhere = self.base_url or os.environ.get(BASE_URL_VARIABLE)
        return find(self.profiles, self.profile_name, needed=not elsewhere)

    @cached_property
    def address(self) -> Setting[str]:
        """The service's address."""
        if self.base_url:
            return Setting(self.base_url, "--base-url")
        named = os.environ.get(BASE_URL_VARIABLE)
        if named and not self.profile:
            return Setting(named, BASE_URL_VARIABLE)
        return Setting(self.saved.base_url, _label(self.saved)) if self.saved else Setting("", "")

    @cached_property
    def key(self) -> Setting[str]:
        """The key of the service; empty where none is known for it.

        Raises:
            ConfigurationError: the file cannot be used.
        """
        named = os.environ.get(API_KEY_VARIABLE, "")
        return self._of_the_service(named, API_KEY_VARIABLE, lambda saved: saved.api_key)

    def collections(self, given: tuple[str, ...]) -> Setting[tuple[str, ...]]:
        """Return the collections to add to: of the option, the environment, or the profile."""
        if given:
            return Setting(given, "--collection")
        named = tuple(os.environ.get(COLLECTION_VARIABLE, "").split())
        return self._of_the_service(named, COLLECTION_VARIABLE, lambda saved: saved.collections)

    def _of_the_service(self, named: T, variable: str, kept: Callable[[Profile], T]) -> Setting[T]:
        """Return what belongs to the service alone: of the environment, or of the profile."""
        # With all in the environment, a file that is broken does not matter.
        if named and not self.profile:
            return Setting(named, variable)
        if self.saved and self.saved.serves(self.address.value) and (found := kept(self.saved)):
            return Setting(found, _label(self.saved))
        # The environment's may belong to a service that it names as well.
        address = os.environ.get(BASE_URL_VARIABLE)
        if named and (not address or same_service(address, self.address.value)):
            return Setting(named, variable)
        return Setting(type(named)(), "")

    def no_key(self) -> str:
        """Say that there is no key for the service, and where there is one for another."""
        base_url = self.address.value
        ways = "Do `kbot login`, or set KNOWLEDGE_BOT_API_KEY. Nothing was sent."
        kept = self.profiles.values()
        if fitting := next((one for one in kept if one.serves(base_url)), None):
            if fitting != self.saved:
                return f"No API key for {base_url} here; --profile {fitting.name} has one. {ways}"
        elif self.saved is not None and self.saved.api_key:
            return (
                f"No API key for {base_url}: the one in {settings_file()} is for "
                f"{self.saved.base_url}. {ways}"
            )
        return f"No API key. {ways}"

    def explained(self) -> "Iterator[tuple[str, Callable[[], Setting[str]]]]":
        """Yield each setting's name and a function that returns its value and its origin.

        A value never shows the key; where the file cannot be used, the function raises
        `ConfigurationError`.
        """

        def profile() -> Setting[str]:
            if self.profile_name:
                return Setting(self.profile_name, "--profile" if self.profile else PROFILE_VARIABLE)
            return Setting(self.saved.name if self.saved else "", "default of the file")

        file = settings_file()
        shown = str(file) if file.exists() else f"{file} (not there)"
        named_by = FILE_VARIABLE if os.environ.get(FILE_VARIABLE) else "default"
        yield "file", lambda: Setting(shown, named_by)
        yield "profile", profile
        yield "address", lambda: self.address
        yield "key", lambda: Setting("set" * bool(self.key.value), self.key.origin)
        found = self.collections
        yield "collections", lambda: Setting(" ".join(found(()).value), found(()).origin)


def _label(profile: Profile) -> str:
    return f"profile {profile.name} in {settings_file()}"
