"""The services that `kbot login` keeps: a file of profiles, and keys in it or in a keyring.

`kbot` and `Client.from_profile` read it, `kbot login` writes it.
"""

import json
import os
import re
import stat
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from knowledge_bot.errors import ConfigurationError

PROFILE_VARIABLE: Final = "KBOT_PROFILE"
FILE_VARIABLE: Final = "KBOT_CONFIG"

# The profile of a login without a name, and of a file that was written before there were profiles.
UNNAMED: Final = "default"

# What the keys are filed under in the operating system's keyring.
_KEYRING_SERVICE = "kbot"

_WITHOUT = "With --no-keyring the key is kept in a file that only you can read."


class ProfileError(ConfigurationError):
    """A profile, its file or its key cannot be used.

    Attributes:
        about: the `setting`, the `key`, or the `disk`.
    """

    def __init__(self, message: str, about: Literal["setting", "key", "disk"] = "setting") -> None:
        super().__init__(message)
        self.about = about


def selected(name: str | None = None) -> "Profile":
    """Return the profile of this name, that of KBOT_PROFILE, or the default one.

    Raises:
        ProfileError: there is none, or the file cannot be used.
    """
    found = read_settings().find(name or os.environ.get(PROFILE_VARIABLE) or None)
    if found is None:
        raise ProfileError(f"There is no profile in {settings_file()}: `kbot login` makes one")
    return found


@dataclass(frozen=True, slots=True)
class Profile:
    """A service and how it is used, as a table of the file; its `repr` never shows the key.

    Attributes:
        name: what it is called.
        base_url: the service's address.
        api_key: the key, if it is in the file.
        keyring: whether the key is in the operating system's keyring instead.
        collections: what to add to.
    """

    name: str
    base_url: str
    api_key: str = field(default="", repr=False)
    keyring: bool = False
    collections: tuple[str, ...] = ()

    def serves(self, base_url: str) -> bool:
        """Return whether the key and the collections are those of the service at this address.

        A key is shown to the service that it was given for, and to no other.
        """
        return same_service(base_url, self.base_url)

    def key(self) -> str:
        """Return the key from where it is kept; empty where the profile has none.

        Raises:
            ProfileError: the keyring does not give it.
        """
        if not self.keyring:
            return self.api_key
        again = f"Do `kbot login --profile {self.name}` again."
        found: str | None = _in_keyring("get_password", self, f"It holds the key. {again}")
        if not found:
            raise ProfileError(
                f"The keyring has no key for the profile {self.name} and {self.base_url}. {again}",
                "key",
            )
        return found

    def check_keyring(self) -> None:
        """Raise `ProfileError` where there is no keyring to keep the key in."""
        _in_keyring("get_password", self, _WITHOUT)

    def put_into_keyring(self, key: str) -> None:
        """Keep the key in the operating system's keyring; raises `ProfileError` if it does not."""
        _in_keyring("set_password", self, _WITHOUT, key)
        if _in_keyring("get_password", self, _WITHOUT) != key:
            raise ProfileError(f"The keyring took the key and does not give it back. {_WITHOUT}")

    def remove_from_keyring(self) -> None:
        """Let the keyring, if it has the key, forget it; raises `ProfileError` if it does not."""
        left = f"The key of the profile {self.name} is still in it."
        if self.keyring and _in_keyring("get_password", self, left) is not None:
            _in_keyring("delete_password", self, left)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the file holds.

    Attributes:
        profiles: by their names.
        default: the profile that is used where none is named; None: it was not chosen.
    """

    profiles: Mapping[str, Profile] = field(default_factory=dict)
    default: str | None = None

    def find(self, name: str | None) -> Profile | None:
        """Return the profile of this name, or the default one; None where nothing is kept at all.

        Raises:
            ProfileError: there is no such profile, or none is named and there is no default.
        """
        if name is None and not self.profiles:
            return None
        if name is None and self.default is None:
            raise ProfileError(
                f"Which profile? There are {self._named()}. Pass --profile NAME, set KBOT_PROFILE, "
                "or do `kbot profiles --default NAME`."
            )
        wanted = name or self.default or ""
        if wanted not in self.profiles:
            raise ProfileError(self._unknown(wanted))
        return self.profiles[wanted]

    def having(self, profiles: Mapping[str, Profile]) -> "Settings":
        """Return the settings with these profiles; the only one is the default."""
        kept = self.default if self.default in profiles else _first_choice(profiles)
        return Settings(profiles, kept)

    def _named(self) -> str:
        return ", ".join(sorted(self.profiles))

    def _unknown(self, name: str) -> str:
        if not self.profiles:
            return f"There is no profile {name!r}; `kbot login --profile {name}` makes it."
        near = get_close_matches(name, self.profiles, cutoff=0.5)
        meant = f" Did you mean {' or '.join(near)}?" if near else ""
        return f"There is no profile {name!r}.{meant} There are {self._named()}."


def _first_choice(profiles: Mapping[str, Profile]) -> str | None:
    """Return the profile to use where no default was chosen."""
    if UNNAMED in profiles:
        return UNNAMED
    return next(iter(profiles)) if len(profiles) == 1 else None


def same_service(one: str, other: str) -> bool:
    """Return whether two addresses are of one service: scheme, host and port are the same."""
    return _origin(one) == _origin(other)


def check_name(name: str) -> None:
    """Check what a new profile is to be called.

    Raises:
        ProfileError: it cannot be typed without quotes.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise ProfileError(
            f"{name!r} cannot name a profile; use letters, digits, dots, dashes and underscores."
        )


def settings_file() -> Path:
    """Return the file's path: KBOT_CONFIG, or `kbot/config.toml` where settings belong."""
    named = os.environ.get(FILE_VARIABLE)
    return (
        Path(named) if named else _folder("APPDATA", "XDG_CONFIG_HOME", ".config") / "config.toml"
    )


def data_folder() -> Path:
    """Return the folder for what `kbot` keeps by itself, such as the ledger."""
    return _folder("APPDATA", "XDG_DATA_HOME", ".local/share")


def _folder(on_windows: str, elsewhere: str, below_home: str) -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get(on_windows) or Path.home()) / "kbot"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "kbot"
    named = os.environ.get(elsewhere)
    return (Path(named) if named else Path.home() / below_home) / "kbot"


def read_settings(*, to_replace: bool = False) -> Settings:
    """Read the file; where there is none, nothing is set.

    Args:
        to_replace: it will be written anew or removed, so it may be unsafe until then.

    Raises:
        ProfileError: it cannot be read, is not valid, or holds a key that other users can read.
    """
    import tomllib

    file = _replaceable_file() if to_replace else settings_file()
    try:
        with file.open("rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            found = tomllib.load(stream)
    except (FileNotFoundError, NotADirectoryError):
        return Settings()
    except OSError as error:
        raise ProfileError(f"{file}: cannot be read: {error.strerror}.") from None
    except ValueError as error:  # invalid TOML or UTF-8
        raise ProfileError(
            f"{file}: is not valid TOML: {error}. Fix it, or remove it with `kbot logout --all`."
        ) from None
    try:
        settings = _parsed(found)
    except ValueError as error:
        raise ProfileError(f"{file}: {error}.") from None
    has_key = any(profile.api_key for profile in settings.profiles.values())
    others = mode & (stat.S_IRWXG | stat.S_IRWXO)
    if has_key and others and os.name == "posix" and not to_replace:
        raise ProfileError(
            f"{file}: other users can read the API key in it (mode {stat.S_IMODE(mode):o}). "
            f"Do `chmod 600 {file}`, and get a new key if somebody may have read this one."
        )
    return settings


def write_settings(settings: Settings) -> Path:
    """Write the file atomically, readable by its owner alone.

    Returns:
        The file's path.

    Raises:
        ProfileError: it cannot be written.
    """
    file = _replaceable_file()
    try:
        file = file.resolve()  # a link to it stays one
        file.parent.mkdir(parents=True, exist_ok=True)
        # mkstemp makes it with mode 600.
        descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        try:
            with open(descriptor, "w", encoding="utf-8") as stream:  # noqa: PTH123 - a descriptor
                stream.write(_as_toml(settings))
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, file)  # noqa: PTH105 - a string from mkstemp
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ProfileError(f"{file}: cannot be written: {error.strerror}.", "disk") from None
    return file


def remove_settings() -> str:
    """Remove the file; return a sentence on what became of it.

    Raises:
        ProfileError: it cannot be removed.
    """
    file = _replaceable_file()
    try:
        file.unlink()
    except FileNotFoundError:
        return f"There is no {file}."
    except OSError as error:
        raise ProfileError(f"{file}: cannot be removed: {error.strerror}.", "disk") from None
    return f"{file} is removed."


def _replaceable_file() -> Path:
    file = settings_file()
    # Root could replace or remove a device, such as /dev/null, for everybody.
    if file.exists() and not file.is_file():
        raise ProfileError(
            f"{file}: is not a file that can be replaced; set KBOT_CONFIG to another."
        )
    return file


_KINDS = {str: "a string", bool: "true or false", list: "an array of strings", dict: "a table"}
_OF_A_PROFILE = {"base_url": str, "api_key": str, "keyring": bool, "collections": list}
_OF_ALL = {"default": str, "profiles": dict}


def _parsed(found: dict[str, Any]) -> Settings:
    """Return the file's settings.

    Raises:
        ValueError: what is not valid. Names are shown but no values: one may be a misplaced key.
    """
    _check(found, {**_OF_ALL, **_OF_A_PROFILE}, "")
    tables = dict(found.get("profiles", {}))
    # Written before there were profiles, or by a person with one service.
    if flat := {name: value for name, value in found.items() if name not in _OF_ALL}:
        tables.setdefault(UNNAMED, flat)
    profiles = {}
    for name, table in tables.items():
        _check({name: table}, {name: dict}, "profiles.")
        _check(table, _OF_A_PROFILE, f"profiles.{name}.")
        if not table.get("base_url"):
            raise ValueError(f"profiles.{name}.base_url is missing")
        collections = tuple(table.get("collections", ()))
        profiles[name] = Profile(name, **{**table, "collections": collections})
    return Settings(profiles, found.get("default") or _first_choice(profiles))


def _check(found: dict[str, Any], wanted: Mapping[str, type], of: str) -> None:
    for name, value in found.items():
        if name not in wanted:
            raise ValueError(f"{of + name!r} is not a setting; there are {', '.join(wanted)}")
        whole = not isinstance(value, list) or all(isinstance(one, str) for one in value)
        if not (isinstance(value, wanted[name]) and whole):
            raise ValueError(f"{of}{name} is not {_KINDS[wanted[name]]}")


def _as_toml(settings: Settings) -> str:
    lines = [f"default = {_string(settings.default)}\n"] if settings.default is not None else []
    for profile in settings.profiles.values():
        values = asdict(profile)
        name = values.pop("name")
        bare = re.fullmatch(r"[A-Za-z0-9_-]+", name)
        lines.append(f"\n[profiles.{name if bare else _string(name)}]\n")
        lines += [f"{name} = {_string(value)}\n" for name, value in values.items() if value]
    return "".join(lines).lstrip()


def _string(value: object) -> str:
    # JSON's strings and arrays are TOML's as well, once characters are written as they are.
    return json.dumps(value, ensure_ascii=False)


def _in_keyring(call: str, profile: Profile, hint: str, *more: str) -> Any:
    """Call one of the keyring's functions for a profile's key.

    Raises:
        ProfileError: the package is not installed, there is no keyring, or it fails.
    """
    try:
        keyring: Any = import_module("keyring")  # optional, so not a dependency
    except ImportError:
        raise ProfileError(
            f"The package keyring is not installed: pip install 'knowledge-bot[keyring]'. {hint}",
            "key",
        ) from None
    # The address is a part of the key's name, so an edited file cannot send it elsewhere.
    user = f"{profile.name} at {profile.base_url}"
    try:
        backend = keyring.get_keyring()
        if getattr(backend, "priority", 1) <= 0:  # the ones that refuse, or keep nothing
            raise ProfileError(
                f"This machine has no keyring that can be used ({type(backend).__module__}). "
                f"{hint}",
                "key",
            )
        return getattr(keyring, call)(_KEYRING_SERVICE, user, *more)
    except ProfileError:
        raise
    except Exception as error:  # noqa: BLE001 - each backend raises what its system does
        raise ProfileError(f"The keyring failed: {error}. {hint}", "key") from None


def _origin(url: str) -> tuple[str, str | None, int | None] | str:
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return url  # the client will say what is wrong with it
    return parts.scheme, parts.hostname, port
