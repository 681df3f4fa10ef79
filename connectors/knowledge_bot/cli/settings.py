"""The settings of `kbot`: what `kbot login` keeps, what wins over it, and what each comes from.

An option wins over the environment, and the environment over the profile. A profile that is named
by an option wins over the environment as well: whoever names it means its service.
"""

import json
import os
import re
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

import click

from knowledge_bot.cli.exits import Exit, Failed

if TYPE_CHECKING:
    from knowledge_bot import Client

T = TypeVar("T")

ADDRESS_VARIABLE = "KNOWLEDGE_BOT_BASE_URL"
KEY_VARIABLE = "KNOWLEDGE_BOT_API_KEY"
COLLECTION_VARIABLE = "KNOWLEDGE_BOT_COLLECTION"
PROFILE_VARIABLE = "KBOT_PROFILE"
FILE_VARIABLE = "KBOT_CONFIG"

# The profile of a login without a name, and of a file that was written before there were profiles.
UNNAMED = "default"

# What the keys are filed under in the operating system's keyring.
_KEYRING_SERVICE = "kbot"

_WITHOUT = "With --no-keyring the key is kept in a file that only you can read."


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
            Failed: the keyring does not give it.
        """
        if not self.keyring:
            return self.api_key
        again = f"Do `kbot login --profile {self.name}` again."
        found: str | None = _in_keyring("get_password", self, f"It holds the key. {again}")
        if not found:
            raise Failed(
                f"The keyring has no key for the profile {self.name} and {self.base_url}. {again}",
                Exit.ACCOUNT,
            )
        return found

    def check_keyring(self) -> None:
        """Raise `Failed` where there is no keyring to keep the key in."""
        _in_keyring("get_password", self, _WITHOUT)

    def put_into_keyring(self, key: str) -> None:
        """Keep the key in the operating system's keyring; raises `Failed` if it does not."""
        _in_keyring("set_password", self, _WITHOUT, key)
        if _in_keyring("get_password", self, _WITHOUT) != key:
            raise Failed(f"The keyring took the key and does not give it back. {_WITHOUT}")

    def remove_from_keyring(self) -> None:
        """Let the keyring, if it has the key, forget it; raises `Failed` if it does not."""
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

    file = _replaceable_file() if to_replace else settings_file()
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
    try:
        settings = _parsed(found)
    except ValueError as error:
        raise Failed(f"{file}: {error}.", Exit.USAGE) from None
    has_key = any(profile.api_key for profile in settings.profiles.values())
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
        raise Failed(f"{file}: cannot be written: {error.strerror}.") from None
    return file


def remove_settings() -> str:
    """Remove the file; return a sentence on what became of it.

    Raises:
        Failed: it cannot be removed.
    """
    file = _replaceable_file()
    try:
        file.unlink()
    except FileNotFoundError:
        return f"There is no {file}."
    except OSError as error:
        raise Failed(f"{file}: cannot be removed: {error.strerror}.") from None
    return f"{file} is removed."


class Setting(NamedTuple, Generic[T]):
    """A value, and what it comes from; both are empty where nothing sets it."""

    value: T
    origin: str


@dataclass(frozen=True)
class Connection:
    """Which service a command talks to, with which key: the options before the command's name.

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

        base_url, key = self.service(), self.key.value
        # Without one, the client would take the environment's, which may be for another service.
        if not key and (needs_key or os.environ.get(KEY_VARIABLE)):
            raise Failed(self.no_key(), Exit.ACCOUNT)
        return Client(key or None, base_url, timeout=self.timeout)

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
    def settings(self) -> Settings:
        """What `kbot login` kept; raises `Failed` where the file cannot be used."""
        return read_settings()

    @cached_property
    def saved(self) -> Profile | None:
        """The profile to use; None where none is kept.

        Raises:
            Failed: there is no profile of that name, or the file cannot be used.
        """
        return self.settings.find(self.profile_name)

    @cached_property
    def address(self) -> Setting[str]:
        """The service's address."""
        if self.base_url:
            return Setting(self.base_url, "--base-url")
        named = os.environ.get(ADDRESS_VARIABLE)
        if named and not self.profile:
            return Setting(named, ADDRESS_VARIABLE)
        return Setting(self.saved.base_url, _label(self.saved)) if self.saved else Setting("", "")

    @cached_property
    def key(self) -> Setting[str]:
        """The key of the service; empty where none is known for it.

        Raises:
            Failed: the file or the keyring cannot be used.
        """
        return self._of_the_service(os.environ.get(KEY_VARIABLE, ""), KEY_VARIABLE, Profile.key)

    def collections(self, given: tuple[str, ...]) -> Setting[tuple[str, ...]]:
        """Return the collections to add to: of the option, the environment, or the profile.

        Args:
            given: those of `--collection`.
        """
        if given:
            return Setting(given, "--collection")
        named = tuple(os.environ.get(COLLECTION_VARIABLE, "").split())
        return self._of_the_service(named, COLLECTION_VARIABLE, lambda saved: saved.collections)

    def _of_the_service(self, named: T, variable: str, kept: Callable[[Profile], T]) -> Setting[T]:
        """Return what belongs to the service alone: of the environment, or of the profile."""
        # With all in the environment, a file that is broken or unsafe does not matter.
        if named and not self.profile:
            return Setting(named, variable)
        if self.saved and self.saved.serves(self.address.value) and (found := kept(self.saved)):
            return Setting(found, _label(self.saved))
        # The environment's may belong to a service that it names as well.
        address = os.environ.get(ADDRESS_VARIABLE)
        if named and (not address or same_service(address, self.address.value)):
            return Setting(named, variable)
        return Setting(type(named)(), "")

    def no_key(self) -> str:
        """Say that there is no key for the service, and where there is one for another."""
        base_url = self.address.value
        ways = "Do `kbot login`, or set KNOWLEDGE_BOT_API_KEY. Nothing was sent."
        kept = self.settings.profiles.values()
        if fitting := next((one for one in kept if one.serves(base_url)), None):
            if fitting != self.saved:
                return f"No API key for {base_url} here; --profile {fitting.name} has one. {ways}"
        elif self.saved is not None and (self.saved.api_key or self.saved.keyring):
            return (
                f"No API key for {base_url}: the one in {settings_file()} is for "
                f"{self.saved.base_url}. {ways}"
            )
        return f"No API key. {ways}"

    def explained(self) -> "Iterator[tuple[str, Callable[[], tuple[str | None, str | None]]]]":
        """Yield each setting's name and a function that returns its value and its origin.

        A value never shows the key; where the file or the keyring cannot be used, the function
        raises `Failed`.
        """

        def file() -> tuple[str, str]:
            file, there = settings_file(), settings_file().exists()
            named = FILE_VARIABLE if os.environ.get(FILE_VARIABLE) else "default"
            return str(file) if there else f"{file} (not there)", named

        def profile() -> tuple[str | None, str | None]:
            if self.profile_name:
                return self.profile_name, "--profile" if self.profile else PROFILE_VARIABLE
            return (self.saved.name, "default of the file") if self.saved else (None, None)

        def key() -> tuple[str | None, str | None]:
            kept = self.key.origin.startswith("profile") and self.saved and self.saved.keyring
            return "set" * bool(self.key.value), f"{'keyring, ' * bool(kept)}{self.key.origin}"

        def collections() -> tuple[str, str]:
            return " ".join(self.collections(()).value), self.collections(()).origin

        yield "file", file
        yield "profile", profile
        yield "address", lambda: self.address
        yield "key", key
        yield "collections", collections


def _label(profile: Profile) -> str:
    return f"profile {profile.name} in {settings_file()}"


def _replaceable_file() -> Path:
    file = settings_file()
    # Root could replace or remove a device, such as /dev/null, for everybody.
    if file.exists() and not file.is_file():
        raise Failed(
            f"{file}: is not a file that can be replaced; set KBOT_CONFIG to another.", Exit.USAGE
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
