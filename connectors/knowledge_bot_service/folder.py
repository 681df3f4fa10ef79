"""The folder that holds everything a service keeps; one service at a time uses it."""

import secrets
import sqlite3
from pathlib import Path
from typing import Final, Self

DATABASE: Final = "knowledge.sqlite3"
MATERIAL: Final = "material"
_LOCK: Final = "in-use.sqlite3"
API_KEY: Final = "api-key"
KEYS: Final = "keys"
HEADS: Final = "heads.sqlite3"
"""What the mounted gateway keeps of its chats; it is not there before the first one."""


class FolderError(Exception):
    """The data folder cannot be used. str() says why, and what to do."""


class DataFolder:
    """A locked data folder; a context manager that unlocks it at the end.

    Args:
        path: the folder; made, for its owner alone, when it is not there.

    Raises:
        FolderError: another service uses the folder, or it cannot be written to.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        try:
            self.material.mkdir(parents=True, exist_ok=True)
            self.keys.mkdir(exist_ok=True)
            self._path.chmod(0o700)
            self._lock = _locked(self._path / _LOCK)
        except OSError as error:
            raise FolderError(f"cannot use the data folder {path}: {error.strerror}") from None
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise FolderError(
                    f"the data folder {path} is in use by another service; stop that one, or "
                    "choose another folder"
                ) from None
            raise FolderError(f"cannot use the data folder {path}: {error}") from None

    @property
    def database(self) -> Path:
        """The database's file."""
        return database_file(self._path)

    @property
    def material(self) -> Path:
        """Where uploads and long texts wait until their source is done."""
        return self._path / MATERIAL

    @property
    def keys(self) -> Path:
        """Where the keys are that `kbot serve keys` made: a file for each, named as the key is."""
        return key_folder(self._path)

    def api_key(self) -> str:
        """The folder's own key: generated once, kept in a file that its owner alone can read."""
        file = self._path / API_KEY
        if not file.exists():
            file.touch(mode=0o600)
        key = file.read_text(encoding="ascii").strip()
        if not key:
            key = secrets.token_urlsafe(24)
            file.write_text(key + "\n", encoding="ascii")
        return key

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()


def database_file(folder: Path) -> Path:
    """The database's file in a data folder that another process may be using."""
    return folder / DATABASE


def key_folder(folder: Path) -> Path:
    """Where a data folder, which another process may be using, has its keys."""
    return folder / KEYS


def _locked(file: Path) -> sqlite3.Connection:
    # SQLite's own lock works on every platform, and the system releases it when the process dies.
    file.touch(mode=0o600)
    connection = sqlite3.connect(file, timeout=0, isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN EXCLUSIVE")
    return connection
