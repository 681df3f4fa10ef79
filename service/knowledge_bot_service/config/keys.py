"""The keys of a service: one list, of which each says what it may do, with what, and until when."""

import hashlib
import logging
import os
import secrets
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final

from pydantic import Field

from knowledge_bot_service.config.folder import DataFolder
from knowledge_bot_service.config.settings import (
    ROLES,
    KeyRights,
    KeySettings,
    Role,
    ServiceConfiguration,
    SettingsError,
    wrong_with_key,
)

_log = logging.getLogger(__name__)

_RIGHTS: Final = set(KeyRights.model_fields)


class Key(KeyRights):
    """A key that is taken.

    Attributes:
        sha256: the digest of the key itself, in hexadecimal; the key is kept nowhere.
    """

    sha256: str = Field(repr=False)

    @property
    def has_expired(self) -> bool:
        """Whether its last day is over."""
        return self.expires is not None and datetime.now(UTC).date() >= self.expires

    @property
    def is_limited(self) -> bool:
        """Whether there may be bots or collections that it does not see."""
        return self.bots is not None or self.collections is not None

    def may(self, role: Role) -> bool:
        """Whether it may do what a role may."""
        roles = list(ROLES)
        return roles.index(self.role) >= roles.index(role)

    def limit(self, settings: ServiceConfiguration) -> ServiceConfiguration:
        """The settings as it sees them: its bots and collections alone.

        Limited to collections alone, it sees the bots that read nothing else; limited to bots
        alone, the collections that these read.
        """
        bots, collections = settings.bots, self.collections
        if self.bots is not None:
            bots = tuple(bot for bot in bots if bot.id in self.bots)
            if collections is None:
                collections = tuple(one for bot in bots for one in bot.collections)
        elif collections is not None:
            bots = tuple(bot for bot in bots if set(collections).issuperset(bot.collections))
        else:
            return settings
        seen = tuple(one for one in settings.collections if one.id in collections)
        return settings.model_copy(update={"bots": bots, "collections": seen})


class KeyList:
    """The keys of a running service: those of its settings, or one that its data folder keeps.

    Args:
        folder: the service's data folder.
        settings: what the service starts with.
        configured: reads the settings again; None if they are not from a file.

    Attributes:
        generated: the folder's own key, where the settings have none; None otherwise.

    Raises:
        SettingsError: a key is not in its environment variable or file, or two of them are the
            same.
    """

    def __init__(
        self,
        folder: DataFolder,
        settings: ServiceConfiguration,
        configured: Callable[[], ServiceConfiguration] | None = None,
    ) -> None:
        self._configured = configured
        self.generated = None if settings.keys else folder.api_key()
        self._own: dict[str, Key] = {}
        if self.generated is not None:
            self._add_own("generated", self.generated)
        self._taken = _configured_keys(settings)

    def make_own(self, name: str) -> str:
        """Make a key for a client in this process. It manages, and ends with the process."""
        made = secrets.token_urlsafe(24)
        self._add_own(name, made)
        return made

    def find(self, given: str) -> Key | None:
        """Return the key that a client sent, even if it has expired; None if it is unknown."""
        # By its digest, so that the time it takes reveals nothing about the key.
        digest = _digest(given)
        return self._taken.get(digest) or self._own.get(digest)

    def reread(self) -> None:
        """Read the keys of the settings again. If they are wrong, the old ones stay.

        The log has the names of what is taken now, or why nothing has changed.
        """
        if self._configured is None:
            _log.info("the service was started without a configuration: no key has changed")
            return
        try:
            self._taken = _configured_keys(self._configured())
        except SettingsError as error:
            _log.error("the keys were not read again, and the old ones are still taken: %s", error)
            return
        names = (f"{key.name} ({key.role})" for key in self._taken.values() if not key.has_expired)
        _log.info(
            "the keys were read again; taken are now: %s. Other settings need a restart",
            ", ".join(names) or "none of them",
        )

    def _add_own(self, name: str, key: str) -> None:
        # Its name may be one that no configured key can have.
        made = Key.model_construct(name=name, role="manage", sha256=_digest(key))
        self._own[made.sha256] = made


def _configured_keys(settings: ServiceConfiguration) -> dict[str, Key]:
    found: dict[str, Key] = {}
    for one in settings.keys:
        key = Key(sha256=_digest(_secret_of(one)), **one.model_dump(include=_RIGHTS))
        other = found.setdefault(key.sha256, key)
        if other is not key:
            raise SettingsError(f"keys: {other.name} and {key.name} are the same key")
    _warn_of_expired(found.values())
    return found


def _warn_of_expired(keys: Iterable[Key]) -> None:
    for key in keys:
        if key.has_expired:
            told = "the key %s of the configuration is not taken: it ended on %s"
            _log.warning(told, key.name, key.expires)


def _secret_of(settings: KeySettings) -> str:
    if settings.key is not None:
        key, origin = settings.key.get_secret_value(), "the configuration"
    elif settings.key_env is not None:
        key = os.environ.get(settings.key_env, "").strip()
        origin = f"the environment variable {settings.key_env}"
    else:
        assert settings.key_file is not None  # noqa: S101 - the settings have one of the three
        origin = f"the file {settings.key_file}"
        try:
            key = settings.key_file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise SettingsError(
                f"key {settings.name}: cannot read {settings.key_file}: {error.strerror}"
            ) from None
        except UnicodeDecodeError:
            key = ""
    if wrong := wrong_with_key(key):
        raise SettingsError(f"key {settings.name}: {origin} must hold a key, which {wrong}")
    return key


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
