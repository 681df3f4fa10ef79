"""The services that `kbot login` keeps, in one file that only its owner can read.

The file is TOML, with a table for each service, called by the name of its profile:

    [default]
    base_url = "https://bots.example.com"
    api_key = "…"
    collections = ["col_handbook"]

`kbot` and `Client.from_profile` read it, `kbot login` writes it.
"""

import os
import stat
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from knowledge_bot.errors import ConfigurationError

PROFILE_VARIABLE: Final = "KBOT_PROFILE"
FILE_VARIABLE: Final = "KBOT_CONFIG"

# The profile of a login without a name.
UNNAMED: Final = "default"


@dataclass(frozen=True, slots=True)
class Profile:
    """A service and how it is used; its `repr` never shows the key.

    Attributes:
        name: what it is called.
        base_url: the service's address.
        api_key: the key; empty where the service needs none, or it is in the environment.
        collections: what to add to.
    """

    name: str
    base_url: str
    api_key: str = field(default="", repr=False)
    collections: tuple[str, ...] = ()

    def serves(self, base_url: str) -> bool:
        """Return whether the key and the collections are those of the service at this address.

        A key is shown to the service that it was given for, and to no other.
        """
        return same_service(base_url, self.base_url)


def selected(name: str | None = None) -> Profile:
    """Return the profile of this name, that of KBOT_PROFILE, or the default one.

    Raises:
        ConfigurationError: there is none, or the file cannot be used.
    """
    found = find(read_profiles(), name or os.environ.get(PROFILE_VARIABLE) or None)
    if found is None:
        raise ConfigurationError(
            f"There is no profile in {settings_file()}: `kbot login` makes one"
        )
    return found


def find(
    profiles: Mapping[str, Profile], name: str | None, *, needed: bool = True
) -> Profile | None:
    """Return the profile of this name; without one, `default` or the only one there is.

    Returns:
        None where no name is given and nothing is kept at all, or none of several is the default
        and it is not `needed`, since the service is named elsewhere.

    Raises:
        ConfigurationError: there is no such profile, or none of several is the default.
    """
    if name is None and not profiles:
        return None
    wanted = name or (next(iter(profiles)) if len(profiles) == 1 else UNNAMED)
    if wanted in profiles:
        return profiles[wanted]
    known = ", ".join(sorted(profiles))
    if name is None:
        if not needed:
            return None
        raise ConfigurationError(
            f"Which profile? There are {known}. Pass --profile NAME, or set {PROFILE_VARIABLE}"
        )
    near = get_close_matches(name, profiles, cutoff=0.5)
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    there = f"{meant} There are {known}" if known else ""
    raise ConfigurationError(
        f"There is no profile {name!r}; `kbot login --profile {name}` makes it.{there}"
    )


def same_service(one: str, other: str) -> bool:
    """Return whether two addresses are of one service: scheme, host and port are the same."""
    return _service_of(one) == _service_of(other)


def settings_file() -> Path:
    """Return the file's path: KBOT_CONFIG, or `kbot/config.toml` where settings belong."""
    named = os.environ.get(FILE_VARIABLE)
    return Path(named) if named else _folder("XDG_CONFIG_HOME", ".config") / "config.toml"


def data_folder() -> Path:
    """Return the folder for what `kbot` keeps by itself, such as the ledger."""
    return _folder("XDG_DATA_HOME", ".local/share")


def _folder(variable: str, below_home: str) -> Path:
    named = os.environ.get(variable)
    return (Path(named) if named else Path.home() / below_home) / "kbot"


def read_profiles() -> dict[str, Profile]:
    """Read the file; where there is none, there are no profiles.

    A key that other users can read leads to a warning.

    Raises:
        ConfigurationError: it cannot be read, or is not valid. Its values are not shown: one may be
            a misplaced key.
    """
    import tomllib

    file = settings_file()
    try:
        with file.open("rb") as stream:
            mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
            found = tomllib.loads(stream.read().decode("utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be read: {error.strerror}") from None
    except ValueError as error:  # invalid TOML or UTF-8
        raise ConfigurationError(f"{file}: is not valid TOML: {error}. Fix or remove it") from None
    profiles = {name: _profile(name, table, file) for name, table in found.items()}
    if mode & 0o077 and os.name == "posix" and any(one.api_key for one in profiles.values()):
        warnings.warn(
            f"{file}: other users can read the API key in it (mode {mode:o}). Do `chmod 600 {file}`"
            ", and get a new key if somebody may have read this one.",
            stacklevel=2,
        )
    return profiles


_KINDS: dict[str, tuple[type, str]] = {
    "base_url": (str, "a string"),
    "api_key": (str, "a string"),
    "collections": (list, "an array of strings"),
}


def _profile(name: str, table: Any, file: Path) -> Profile:
    if not isinstance(table, dict):
        raise ConfigurationError(
            f"{file}: {name} stands outside of a profile; write [{UNNAMED}] above it"
        )
    for key, value in table.items():
        if key not in _KINDS:
            raise ConfigurationError(
                f"{file}: {name}.{key} is not a setting; there are {', '.join(_KINDS)}"
            )
        kind, called = _KINDS[key]
        texts = value if isinstance(value, list) else [value]
        if not (isinstance(value, kind) and all(isinstance(one, str) for one in texts)):
            raise ConfigurationError(f"{file}: {name}.{key} is not {called}")
    if not table.get("base_url"):
        raise ConfigurationError(f"{file}: {name}.base_url is missing")
    return Profile(name, **{**table, "collections": tuple(table.get("collections", ()))})


def _service_of(url: str) -> tuple[str, str | None, int | None] | str:
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return url  # the client will say what is wrong with it
    return parts.scheme, parts.hostname, port
