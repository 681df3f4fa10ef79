"""The keys of a service, each with a name and a role; they may change while it runs."""

import asyncio
import hashlib
import json
import logging
import os
import re
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final, get_args

from pydantic import Field, ValidationError

from knowledge_bot_service.config.folder import DataFolder, FolderError, give_to_owner, key_folder
from knowledge_bot_service.config.settings import (
    KEY_NAME,
    KeyRights,
    KeySettings,
    Role,
    Settings,
    SettingsError,
    in_words,
    wrong_with_key,
)

_log = logging.getLogger(__name__)

GENERATED: Final = "generated"
"""The name of the key that a service makes for itself when it is given none."""

_RIGHTS: Final = set(KeyRights.model_fields)

# Each may do what those before it may.
_ROLES: Final[tuple[Role, ...]] = get_args(Role)

# Two changes of a folder within one tick of the file system's clock look like one: what was read
# so soon after a change is read again, in nanoseconds.
_TICK: Final = 50_000_000


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
        return _ROLES.index(self.role) >= _ROLES.index(role)

    def limit(self, settings: Settings) -> Settings:
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


class Keys:
    """The keys of a running service: those that its settings name, and those of its data folder.

    A change in the data folder, by `kbot serve keys`, counts from the next request on. The settings
    are read again by `reread`.

    Args:
        folder: the service's data folder.
        settings: what the service starts with.
        configured: reads the settings again; None if they are not from a file.

    Attributes:
        generated: the folder's own key, where the settings name none; None otherwise.

    Raises:
        SettingsError: a key of the settings is not in its environment variable or file, or two of
            them are the same.
        FolderError: the data folder cannot be written to.
    """

    def __init__(
        self,
        folder: DataFolder,
        settings: Settings,
        configured: Callable[[], Settings] | None = None,
    ) -> None:
        self._folder, self._stored_in = folder, key_folder(folder.path)
        self._configured = configured
        self._named = self._of(settings)
        self.generated = None if settings.api_keys or settings.keys else folder.api_key()
        self._own: dict[str, Key] = {}
        self._stored: dict[str, Key] = {}
        self._seen: tuple[int, int] | None = None
        self._read_folder()

    def make_own(self, name: str) -> str:
        """Make a key for a client in this process. It manages, and ends with the process.

        Args:
            name: its name in the log; one that no other key can have.
        """
        made = secrets.token_urlsafe(24)
        own = Key.model_construct(name=name, role="manage", sha256=_digest(made))
        self._own |= _by_digest([own])
        return made

    def find(self, given: str) -> Key | None:
        """Return the key that a client sent, even if it has expired; None if it is unknown."""
        # By its digest, so that the time it takes reveals nothing about the key.
        digest = _digest(given)
        self._read_folder()
        return self._named.get(digest) or self._stored.get(digest) or self._own.get(digest)

    def reread(self) -> None:
        """Read the keys of the settings again. If they are wrong, the old ones stay.

        The log has the names of what is taken now, or why nothing has changed.
        """
        if self._configured is None:
            _log.info("the service was started without a configuration: no key has changed")
            return
        try:
            self._named = self._of(self._configured())
        except (SettingsError, FolderError) as error:
            _log.error("the keys were not read again, and the old ones are still taken: %s", error)
            return
        _log.info(
            "the keys were read again; taken are now: %s. Other settings need a restart",
            self._names(),
        )

    def _names(self) -> str:
        self._read_folder()
        found = [*self._named.values(), *self._stored.values()]
        return ", ".join(f"{key.name} ({key.role})" for key in found if not key.has_expired)

    def _of(self, settings: Settings) -> dict[str, Key]:
        found = self._configured_keys(settings)
        for key in found.values():
            if key.has_expired:
                _log.warning(
                    "the key %s of the configuration is not taken: it ended on %s",
                    key.name,
                    key.expires,
                )
        return found

    def _configured_keys(self, settings: Settings) -> dict[str, Key]:
        if not settings.api_keys and not settings.keys:
            found = [Key(name=GENERATED, role="manage", sha256=_digest(self._folder.api_key()))]
            return _by_digest(found)
        plain = (
            Key(name=f"api-key-{number}", role="manage", sha256=_digest(key.get_secret_value()))
            for number, key in enumerate(settings.api_keys, 1)
        )
        named = (
            Key(sha256=_digest(_secret_of(one)), **one.model_dump(include=_RIGHTS))
            for one in settings.keys
        )
        return _by_digest([*plain, *named])

    def _read_folder(self) -> None:
        folder = self._stored_in
        try:
            found = folder.stat()
        except FileNotFoundError:
            self._stored, self._seen = {}, None
            return
        seen = (found.st_ino, found.st_mtime_ns)
        if seen == self._seen:
            return
        stored = {}
        for file in _key_files(folder):
            # One that cannot be read must not keep the others, nor one that was revoked.
            try:
                key = _stored_key(file)
            except FolderError as error:
                _log.error("a key of the data folder is not taken: %s", error)
            else:
                stored[key.sha256] = key
        self._stored = stored
        self._seen = seen if time.time_ns() - found.st_mtime_ns > _TICK else None


def reread_on_hangup(keys: Keys) -> None:
    """Let SIGHUP read the keys of a service again, as long as the running event loop does.

    A service whose terminal was closed gets the same signal; it ends, as it does without this.
    """
    if not hasattr(signal, "SIGHUP"):  # Windows
        return
    had_terminal = _has_terminal()

    def on_hangup() -> None:
        if had_terminal and not _has_terminal():
            signal.raise_signal(signal.SIGTERM)
        else:
            keys.reread()

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, on_hangup)


def stored_keys(data: Path) -> list[Key]:
    """Return the keys that `kbot serve keys` has put in a data folder, by name.

    Raises:
        FolderError: there is no such folder, or one of them cannot be read.
    """
    if not data.is_dir():
        raise FolderError(f"there is no data folder {data}; name the service's with --data")
    return [_stored_key(file) for file in _key_files(key_folder(data))]


def _key_files(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.glob("*")) if _is_name(file.name)]


def add_key(
    data: Path,
    name: str,
    role: Role,
    expires: date | None = None,
    *,
    bots: Sequence[str] | None = None,
    collections: Sequence[str] | None = None,
) -> str:
    """Make a key and keep its digest in a data folder, whose service takes it at once.

    Args:
        data: the data folder; made when it is not there.
        name: its name in the log: letters, digits, `.`, `_` and `-`.
        role: what it may do.
        expires: the first day, in UTC, on which it is no longer valid; None if it does not expire.
        bots: the ids of the bots that it is limited to; None if it is not.
        collections: the ids of the collections that it is limited to; None if it is not.

    Returns:
        The key itself, which cannot be read again.

    Raises:
        FolderError: the name is not valid or taken in the folder, its last day is over, an id is
            none of a bot or a collection, or the folder cannot be written to.
    """
    key = secrets.token_urlsafe(24)
    try:
        made = Key.model_validate(
            {
                "name": name,
                "role": role,
                "sha256": _digest(key),
                "expires": expires,
                "bots": bots,
                "collections": collections,
            }
        )
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        raise FolderError(
            f"no key was made: {wrong['input']!r} in {wrong['loc'][0]} {in_words(wrong)}"
        ) from None
    if made.has_expired:
        raise FolderError(
            f"the key {name} would have ended already: {expires} is the first day, in UTC, on "
            "which it is refused. No key was made"
        )
    folder = key_folder(data)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        data.chmod(0o700)
        # Linked when it is whole, and only if the name is free: nobody reads half a key, and the
        # second of two with the same name fails.
        with tempfile.NamedTemporaryFile("w", dir=folder, prefix=".", encoding="utf-8") as file:
            file.write(made.model_dump_json(exclude={"name", "requests_per_minute"}))
            file.flush()
            os.fsync(file.fileno())
            give_to_owner(data, folder, Path(file.name))
            os.link(file.name, folder / name)
    except FileExistsError:
        raise FolderError(
            f"there is a key {name} already; revoke it first, or choose another name"
        ) from None
    except OSError as error:
        raise FolderError(f"cannot write to {folder}: {error.strerror}") from None
    return key


def revoke_key(data: Path, name: str) -> None:
    """Remove a key from a data folder; its service refuses it from the next request on.

    Raises:
        FolderError: the folder has no key of this name, or cannot be written to.
    """
    try:
        if not _is_name(name):
            raise FileNotFoundError
        (key_folder(data) / name).unlink()
    except FileNotFoundError:
        known = ", ".join(key.name for key in stored_keys(data)) or "none"
        raise FolderError(
            f"the folder {data} has no key {name}; those that it has: {known}. Keys of the "
            "configuration are taken out there, and SIGHUP has the service read them again"
        ) from None
    except OSError as error:
        raise FolderError(f"cannot write to {key_folder(data)}: {error.strerror}") from None


def _is_name(name: str) -> bool:
    return re.fullmatch(KEY_NAME, name) is not None


def _stored_key(file: Path) -> Key:
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        return Key(name=file.name, **values)
    except OSError as error:
        raise FolderError(f"cannot read the key {file}: {error.strerror}") from None
    except (ValueError, TypeError):
        raise FolderError(
            f"{file} is not a key; revoke it with `kbot serve keys revoke {file.name}`"
        ) from None


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


def _by_digest(keys: Iterable[Key]) -> dict[str, Key]:
    found: dict[str, Key] = {}
    for key in keys:
        other = found.setdefault(key.sha256, key)
        if other is not key:
            raise SettingsError(f"keys: {other.name} and {key.name} are the same key")
    return found


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def _has_terminal() -> bool:
    try:
        return sys.stdin is not None and os.isatty(sys.stdin.fileno())
    except (OSError, ValueError):
        return False
