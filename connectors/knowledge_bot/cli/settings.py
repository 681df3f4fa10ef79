"""The file that `kbot login` writes: the service, the key, and the collections to add to."""

import json
import os
import stat
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from knowledge_bot.cli.exits import Exit, Failed

if TYPE_CHECKING:
    from pydantic import SecretStr

FILE_VARIABLE = "KBOT_CONFIG"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the file holds; its `repr` never shows the key."""

    base_url: str | None = None
    api_key: "SecretStr | None" = None
    collections: tuple[str, ...] = ()

    def serves(self, base_url: str | None) -> bool:
        """Tell whether the key and the collections are those of the service at this address.

        A key is shown to the service that it was given for, and to no other. None is the address
        in the file.
        """
        return base_url is None or (
            self.base_url is not None and _origin(base_url) == _origin(self.base_url)
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


def read_settings() -> Settings:
    """Read the file; where there is none, nothing is set.

    Raises:
        Failed: it cannot be read, is not valid, or holds a key that other users can read.
    """
    import tomllib

    from pydantic import SecretStr

    file = settings_file()
    try:
        with file.open("rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            found = tomllib.load(stream)
    except FileNotFoundError:
        return Settings()
    except OSError as error:
        raise Failed(f"{file}: cannot be read: {error.strerror}.", Exit.USAGE) from None
    except ValueError as error:  # invalid TOML or UTF-8
        raise Failed(f"{file}: is not valid TOML: {error}.", Exit.USAGE) from None
    _check(found, file)
    key = found.get("api_key")
    if key and os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise Failed(
            f"{file}: other users can read the API key in it (mode {stat.S_IMODE(mode):o}). "
            f"Do `chmod 600 {file}`, and ask for another key if somebody may have read it.",
            Exit.USAGE,
        )
    return Settings(
        base_url=found.get("base_url"),
        api_key=SecretStr(key) if key else None,
        collections=tuple(found.get("collections", ())),
    )


def write_settings(settings: Settings) -> Path:
    """Write the file, readable by its owner alone, and at once: never half of it.

    Returns:
        The file's path.

    Raises:
        Failed: it cannot be written.
    """
    file = settings_file()
    key = settings.api_key
    values = {
        "base_url": settings.base_url,
        "api_key": None if key is None else key.get_secret_value(),
        "collections": list(settings.collections) or None,
    }
    # JSON's strings and arrays are TOML's as well, once characters are written as they are.
    lines = [
        f"{name} = {json.dumps(value, ensure_ascii=False)}\n"
        for name, value in values.items()
        if value is not None
    ]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # mkstemp makes it with mode 600.
        descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        try:
            with open(descriptor, "w", encoding="utf-8") as stream:  # noqa: PTH123 - a descriptor
                stream.writelines(lines)
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
    try:
        file.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise Failed(f"{file}: cannot be removed: {error.strerror}.") from None
    return True


def _check(found: dict[str, Any], file: Path) -> None:
    # Told by name alone: a value may be the key in the wrong place.
    wanted: dict[str, type] = {"base_url": str, "api_key": str, "collections": list}
    for name, value in found.items():
        if name not in wanted:
            raise Failed(
                f"{file}: {name!r} is not a setting; there are {', '.join(wanted)}.", Exit.USAGE
            )
        strings = value if isinstance(value, list) else [value]
        if not isinstance(value, wanted[name]) or not all(isinstance(one, str) for one in strings):
            kind = "an array of strings" if wanted[name] is list else "a string"
            raise Failed(f"{file}: {name} is not {kind}.", Exit.USAGE)


def _origin(url: str) -> tuple[str, str | None, int | None] | str:
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return url  # the client will say what is wrong with it
    return parts.scheme, parts.hostname, port
