"""What `kbot login` keeps: for each profile a service, its key, and the collections to add to."""

import json
import os
import re
import stat
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

import click

from knowledge_bot.cli.exits import Exit, Failed

if TYPE_CHECKING:
    from pydantic import SecretStr

FILE_VARIABLE = "KBOT_CONFIG"

# The profile of a login without a name, and of a file that was written before there were profiles.
UNNAMED = "default"

# What the keys are filed under in the operating system's keyring.
_KEYRING_SERVICE = "kbot"

_WITHOUT = "With --no-keyring the key is kept in a file that only you can read."


@dataclass(frozen=True, slots=True)
class Profile:
    """A service and how it is used; its `repr` never shows the key.

    Attributes:
        name: what it is called.
        base_url: the service's address.
        api_key: the key, if it is in the file.
        in_keyring: whether the key is in the operating system's keyring instead.
        collections: what to add to.
    """

    name: str
    base_url: str
    api_key: "SecretStr | None" = None
    in_keyring: bool = False
    collections: tuple[str, ...] = ()

    def serves(self, base_url: str) -> bool:
        """Return whether the key and the collections are those of the service at this address.

        A key is shown to the service that it was given for, and to no other.
        """
        return same_service(base_url, self.base_url)

    def key(self) -> "SecretStr | None":
        """Return the key from where it is kept; None where the profile has none.

        Raises:
            Failed: the keyring does not give it.
        """
        if not self.in_keyring:
            return self.api_key
        from pydantic import SecretStr

        again = f"Do `kbot login --profile {self.name}` again."
        found = _in_keyring("get_password", self, f"It holds the key. {again}")
        if not found:
            raise Failed(
                f"The keyring has no key for the profile {self.name} and {self.base_url}. {again}",
                Exit.ACCOUNT,
            )
        return SecretStr(found)

    def check_keyring(self) -> None:
        """Check that there is a keyring to keep the key in.

        Raises:
            Failed: there is none that can be used.
        """
        _in_keyring("get_password", self, _WITHOUT)

    def put_into_keyring(self, key: str) -> None:
        """Keep the key in the operating system's keyring.

        Raises:
            Failed: it does not take the key.
        """
        _in_keyring("set_password", self, _WITHOUT, key)
        if _in_keyring("get_password", self, _WITHOUT) != key:
            raise Failed(f"The keyring took the key and does not give it back. {_WITHOUT}")

    def remove_from_keyring(self) -> None:
        """Let the keyring forget the key.

        Raises:
            Failed: it cannot; the text says what is left there.
        """
        left = f"The key of the profile {self.name} is still in it."
        if _in_keyring("get_password", self, left) is not None:
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
            Failed: there is no such profile, or none is named and there is no default.
        """
        if name is None and not self.profiles:
            return None
        if name is None and self.default is None:
            raise Failed(
                f"Which profile? There are {self._named()}. Pass --profile NAME, set KBOT_PROFILE, "
                "or do `kbot profiles --default NAME`.",
                Exit.USAGE,
            )
        wanted = name or self.default or ""
        if wanted not in self.profiles:
            raise Failed(self._unknown(wanted), Exit.USAGE)
        return self.profiles[wanted]

    def with_profile(self, profile: Profile) -> "Settings":
        """Return the settings with this profile; the first one is the default."""
        profiles = {**self.profiles, profile.name: profile}
        return Settings(profiles, self.default or _first_choice(profiles))

    def without_profile(self, name: str) -> "Settings":
        """Return the settings without this profile; a single one that is left is the default."""
        left = {one: profile for one, profile in self.profiles.items() if one != name}
        return Settings(left, self.default if self.default in left else _first_choice(left))

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
        Failed: it cannot be typed without quotes.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise Failed(
            f"{name!r} cannot name a profile; use letters, digits, dots, dashes and underscores.",
            Exit.USAGE,
        )


def settings_file() -> Path:
    """Return the file's path: KBOT_CONFIG, or `kbot/config.toml` where settings belong."""
    named = os.environ.get(FILE_VARIABLE)
    return Path(named) if named else Path(click.get_app_dir("kbot")) / "config.toml"


def data_folder() -> Path:
    """Return the folder for what `kbot` keeps by itself, such as the ledger."""
    if sys.platform in ("win32", "darwin"):
        return Path(click.get_app_dir("kbot"))
    home = os.environ.get("XDG_DATA_HOME")
    return (Path(home) if home else Path.home() / ".local" / "share") / "kbot"


def read_settings(*, to_replace: bool = False) -> Settings:
    """Read the file; where there is none, nothing is set.

    Args:
        to_replace: it will be written anew or removed, so it may be unsafe until then.

    Raises:
        Failed: it cannot be read, is not valid, or holds a key that other users can read.
    """
    import tomllib

    file = settings_file()
    if to_replace:
        _check_that_it_is_a_file(file)
    try:
        with file.open("rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            found = tomllib.load(stream)
    except (FileNotFoundError, NotADirectoryError):
        return Settings()
    except OSError as error:
        raise Failed(f"{file}: cannot be read: {error.strerror}.", Exit.USAGE) from None
    except ValueError as error:  # invalid TOML or UTF-8
        raise Failed(
            f"{file}: is not valid TOML: {error}. Fix it, or remove it with `kbot logout --all`.",
            Exit.USAGE,
        ) from None
    settings = _Reader(file).settings(found)
    has_key = any(profile.api_key is not None for profile in settings.profiles.values())
    others = mode & (stat.S_IRWXG | stat.S_IRWXO)
    if has_key and others and os.name == "posix" and not to_replace:
        raise Failed(
            f"{file}: other users can read the API key in it (mode {stat.S_IMODE(mode):o}). "
            f"Do `chmod 600 {file}`, and get a new key if somebody may have read this one.",
            Exit.USAGE,
        )
    return settings


def write_settings(settings: Settings) -> Path:
    """Write the file atomically, readable by its owner alone.

    Returns:
        The file's path.

    Raises:
        Failed: it cannot be written.
    """
    file = settings_file()
    _check_that_it_is_a_file(file)
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
        raise Failed(f"{file}: cannot be written: {error.strerror}.") from None
    return file


def remove_settings() -> bool:
    """Remove the file; return whether there was one.

    Raises:
        Failed: it cannot be removed.
    """
    file = settings_file()
    _check_that_it_is_a_file(file)
    try:
        file.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise Failed(f"{file}: cannot be removed: {error.strerror}.") from None
    return True


def _check_that_it_is_a_file(file: Path) -> None:
    # Root could replace or remove a device, such as /dev/null, for everybody.
    if file.exists() and not file.is_file():
        raise Failed(
            f"{file}: is not a file that can be replaced; set KBOT_CONFIG to another.", Exit.USAGE
        )


class _Reader:
    """Parses the file. Its errors show names but no values: a value may be a misplaced key."""

    _OF_A_PROFILE: Mapping[str, type] = {
        "base_url": str,
        "api_key": str,
        "keyring": bool,
        "collections": list,
    }

    def __init__(self, file: Path) -> None:
        self._file = file

    def settings(self, found: dict[str, Any]) -> Settings:
        of_all = {"default": str, "profiles": dict}
        self._check(found, {**of_all, **self._OF_A_PROFILE}, "")
        tables = dict(found.get("profiles", {}))
        # Written before there were profiles, or by a person with one service.
        flat = {name: value for name, value in found.items() if name not in of_all}
        if flat:
            tables.setdefault(UNNAMED, flat)
        profiles = {name: self._profile(name, table) for name, table in tables.items()}
        return Settings(profiles, found.get("default") or _first_choice(profiles))

    def _profile(self, name: str, found: object) -> Profile:
        from pydantic import SecretStr

        of = f"profiles.{name}."
        if not isinstance(found, dict):
            self._fail(f"profiles.{name} is not a table")
        self._check(found, self._OF_A_PROFILE, of)
        if not found.get("base_url"):
            self._fail(f"{of}base_url is missing")
        key = found.get("api_key")
        return Profile(
            name=name,
            base_url=found["base_url"],
            api_key=SecretStr(key) if key else None,
            in_keyring=found.get("keyring", False),
            collections=tuple(found.get("collections", ())),
        )

    def _check(self, found: dict[str, Any], wanted: Mapping[str, type], of: str) -> None:
        kinds = {str: "a string", list: "an array of strings", bool: "true or false"}
        for name, value in found.items():
            if name not in wanted:
                self._fail(f"{of + name!r} is not a setting; there are {', '.join(wanted)}")
            fits = isinstance(value, wanted[name])
            if fits and isinstance(value, list):
                fits = all(isinstance(one, str) for one in value)
            if not fits:
                self._fail(f"{of}{name} is not {kinds.get(wanted[name], 'a table')}")

    def _fail(self, what: str) -> NoReturn:
        raise Failed(f"{self._file}: {what}.", Exit.USAGE)


def _as_toml(settings: Settings) -> str:
    lines = []
    if settings.default is not None:
        lines.append(f"default = {_string(settings.default)}\n")
    for profile in settings.profiles.values():
        key = profile.api_key
        values = {
            "base_url": profile.base_url,
            "api_key": None if key is None else key.get_secret_value(),
            "keyring": profile.in_keyring or None,
            "collections": list(profile.collections) or None,
        }
        bare = re.fullmatch(r"[A-Za-z0-9_-]+", profile.name)
        lines.append(f"\n[profiles.{profile.name if bare else _string(profile.name)}]\n")
        lines += [
            f"{name} = {_string(value)}\n" for name, value in values.items() if value is not None
        ]
    return "".join(lines).lstrip()


def _string(value: object) -> str:
    # JSON's strings and arrays are TOML's as well, once characters are written as they are.
    return json.dumps(value, ensure_ascii=False)


def _in_keyring(call: str, profile: Profile, hint: str, *more: str) -> Any:
    """Call one of the keyring's functions for a profile's key.

    Raises:
        Failed: the package is not installed, there is no keyring, or it fails.
    """
    try:
        keyring: Any = import_module("keyring")  # optional, so not a dependency
    except ImportError:
        raise Failed(
            f"The package keyring is not installed: pip install 'knowledge-bot[keyring]'. {hint}",
            Exit.ACCOUNT,
        ) from None
    # The address is a part of the key's name, so an edited file cannot send it elsewhere.
    user = f"{profile.name} at {profile.base_url}"
    try:
        backend = keyring.get_keyring()
        if getattr(backend, "priority", 1) <= 0:  # the ones that refuse, or keep nothing
            raise Failed(
                f"This machine has no keyring that can be used ({type(backend).__module__}). "
                f"{hint}",
                Exit.ACCOUNT,
            )
        return getattr(keyring, call)(_KEYRING_SERVICE, user, *more)
    except Failed:
        raise
    except Exception as error:  # noqa: BLE001 - each backend raises what its system does
        raise Failed(f"The keyring failed: {error}. {hint}", Exit.ACCOUNT) from None


def _origin(url: str) -> tuple[str, str | None, int | None] | str:
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return url  # the client will say what is wrong with it
    return parts.scheme, parts.hostname, port
