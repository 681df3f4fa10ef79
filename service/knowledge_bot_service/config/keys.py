"""The keys of a service: one list, of which each says what it may do, with what, and until when."""

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path

from pydantic import Field, ValidationError

from knowledge_bot_service.config.folder import (
    KEYS,
    DataFolder,
    FolderError,
    give_to_owner,
    new_key,
)
from knowledge_bot_service.config.settings import (
    ROLES,
    KeyRights,
    KeySettings,
    Role,
    ServiceConfiguration,
    SettingsError,
    in_words,
    wrong_with_key,
)

_log = logging.getLogger(__name__)


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
    """The keys of a running service: those of its settings, and those that its data folder keeps.

    The folder's are looked up for each request.

    Args:
        folder: the service's data folder.
        settings: what the service starts with.

    Attributes:
        generated: the folder's own key, where the settings have none; None otherwise.

    Raises:
        SettingsError: a key is not in its environment variable or file, or two of them are the
            same.
    """

    def __init__(self, folder: DataFolder, settings: ServiceConfiguration) -> None:
        self._stored = StoredKeys(folder.path)
        self._taken = _configured_keys(settings)
        self.generated = None if settings.keys else self.take("generated", folder.api_key())

    def take(self, name: str, key: str) -> str:
        """Take a key that manages, until this process ends; returns it."""
        # Its name may be one that no configured key can have.
        made = Key.model_construct(name=name, role="manage", sha256=_digest(key))
        self._taken[made.sha256] = made
        return key

    def find(self, given: str) -> Key | None:
        """Return the key that a client sent, even if it has expired; None if it is unknown."""
        # By its digest, so that the time it takes reveals nothing about the key.
        digest = _digest(given)
        return self._taken.get(digest) or self._stored.find(digest)


class StoredKeys:
    """The keys that `kbot serve keys` makes for a data folder, which its service may be using.

    Each is a file that is named by the key's digest. The key itself is kept nowhere.

    Args:
        data: the data folder; it need not be there yet.
    """

    def __init__(self, data: Path) -> None:
        self._data, self._folder = data, data / KEYS

    def find(self, digest: str) -> Key | None:
        """Return the key of a digest, even if it has expired; None if the folder has none."""
        return _read(self._folder / digest)

    def all(self) -> list[Key]:
        """Return every key by name. The log names files that are none."""
        found = (_read(file) for file in self._folder.glob("[!.]*"))
        return sorted((key for key in found if key is not None), key=lambda key: key.name)

    def add(
        self,
        name: str,
        role: Role,
        *,
        expires: date | None = None,
        bots: Sequence[str] | None = None,
        collections: Sequence[str] | None = None,
    ) -> str:
        """Make a key, and keep its digest with what it may (see `KeyRights`).

        Returns:
            The key itself, which cannot be read again.

        Raises:
            FolderError: a value is not valid, the name is taken in the folder, its last day is
                over, or the folder cannot be written to.
        """
        key = new_key()
        rights = {"role": role, "expires": expires, "bots": bots, "collections": collections}
        try:
            made = Key.model_validate({"name": name, "sha256": _digest(key), **rights})
        except ValidationError as error:
            wrong = error.errors(include_url=False)[0]
            raise FolderError(f"no key was made: {wrong['loc'][0]} {in_words(wrong)}") from None
        if made.has_expired:
            raise FolderError(f"no key was made: on {made.expires} (in UTC) {name} is over already")
        if any(one.name == name for one in self.all()):
            raise FolderError(f"there is a key {name} already; revoke it, or choose another name")
        with _writing(self._folder):
            self._write(made)
        return key

    def revoke(self, name: str) -> None:
        """Remove a key; the service refuses it from the next request on.

        Raises:
            FolderError: the folder has no key of this name, or cannot be written to.
        """
        keys = self.all()
        meant = [key for key in keys if key.name == name]
        if not meant:
            known = ", ".join(key.name for key in keys) or "none"
            raise FolderError(f"{self._data} keeps no key {name}; those that it keeps: {known}")
        with _writing(self._folder):
            for key in meant:
                (self._folder / key.sha256).unlink(missing_ok=True)

    def _write(self, key: Key) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._data.chmod(0o700)
        # Its owner alone may read it. Linked when it is whole: nobody reads half a key.
        with tempfile.NamedTemporaryFile(
            "w", dir=self._folder, prefix=".", encoding="utf-8"
        ) as one:
            one.write(key.model_dump_json(exclude={"sha256"}))
            one.flush()
            os.fsync(one.fileno())
            give_to_owner(self._data, self._folder, Path(one.name))
            os.link(one.name, self._folder / key.sha256)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FolderError(f"cannot write to {folder}: {error.strerror}") from None


def _read(file: Path) -> Key | None:
    try:
        return Key(sha256=file.name, **json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except OSError as error:
        _log.error("a key of the data folder is not taken: %s: %s", file, error.strerror)
    except (ValueError, TypeError):
        _log.error("a key of the data folder is not taken: %s is not a key", file)
    return None


def _configured_keys(settings: ServiceConfiguration) -> dict[str, Key]:
    found: dict[str, Key] = {}
    for one in settings.keys:
        key = Key(
            sha256=_digest(_secret_of(one)), **one.model_dump(include={*KeyRights.model_fields})
        )
        other = found.setdefault(key.sha256, key)
        if other is not key:
            raise SettingsError(f"keys: {other.name} and {key.name} are the same key")
        if key.has_expired:
            told = "the key %s of the configuration is not taken: it ended on %s"
            _log.warning(told, key.name, key.expires)
    return found


def _secret_of(settings: KeySettings) -> str:
    if settings.key is not None:
        return settings.key.get_secret_value()
    origin = f"the environment variable {settings.key_env}"
    key = os.environ.get(settings.key_env or "", "")
    if settings.key_file is not None:
        origin = f"the file {settings.key_file}"
        try:
            key = settings.key_file.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            told = f"key {settings.name}: cannot read {settings.key_file}: {error.strerror}"
            raise SettingsError(told) from None
    if wrong := wrong_with_key(key.strip()):
        raise SettingsError(f"key {settings.name}: {origin} must hold a key, which {wrong}")
    return key.strip()


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
