"""The folder that holds everything a service keeps; one service at a time uses it."""

import os
import secrets
import sqlite3
from pathlib import Path
from typing import Final, Self

DATABASE: Final = "knowledge.sqlite3"
MATERIAL: Final = "material"

_LOCK: Final = "in-use.sqlite3"
API_KEY: Final = "api-key"
KEYS: Final = "keys"
"""Where `kbot serve keys` keeps keys: a folder with a file for each."""

HEADS: Final = "heads.sqlite3"
"""What the mounted gateway keeps of its chats; it is not there before the first one."""

# A key may be made, and a start may fail, before there is a database. So neither keys nor the lock
# tell that a folder was used: this file does, which is made when the database is.
_USED: Final = "used.txt"
_USED_TEXT: Final = (
    f"This is the data folder of a Knowledge-Bot Service. Its sources are in {DATABASE}.\n"
    "Where that is missing, the service does not start, rather than begin with nothing.\n"
)


class FolderError(Exception):
    """A data folder cannot be used, or not as it was asked. str() says why, and what to do."""


def new_key() -> str:
    """Return a key that nobody can guess, and no command takes for an option."""
    return secrets.token_hex(24)


class DataFolder:
    """A locked data folder; a context manager that unlocks it at the end.

    Args:
        path: the folder; made, for its owner alone, when it is not there.

    Attributes:
        path: the folder.

    Raises:
        FolderError: another service uses the folder, it cannot be written to, or it was used before
            and its database is gone, or it holds somebody's documents.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        try:
            _refuse_lost_database(self.path)
            _refuse_documents(self.path)
            self.material.mkdir(parents=True, exist_ok=True)
            self.path.chmod(0o700)
            self._lock = _locked(self.path / _LOCK)
        except OSError as error:
            raise FolderError(f"cannot use the data folder {path}: {error.strerror}") from None
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise FolderError(
                    f"the data folder {path} is in use by another service; stop that one, or "
                    "choose another folder"
                ) from None
            raise FolderError(f"cannot use the data folder {path}: {error}") from None

    @property
    def material(self) -> Path:
        """Where uploads and long texts wait until their source is done."""
        return self.path / MATERIAL

    def api_key(self) -> str:
        """The folder's own key: generated once, kept in a file that its owner alone can read."""
        file = self.path / API_KEY
        if not file.exists():
            file.touch(mode=0o600)
        key = file.read_text(encoding="ascii").strip()
        if not key:
            key = new_key()
            file.write_text(key + "\n", encoding="ascii")
        return key

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()


def database_file(folder: Path) -> Path:
    """The database's file in a data folder that another process may be using."""
    return folder / DATABASE


def mark_used(folder: Path) -> None:
    """Remember in a data folder that it has a database: a start without it is refused then.

    Raises:
        OSError: the folder cannot be written to.
    """
    sign = folder / _USED
    if not sign.exists():
        sign.touch(mode=0o600)
        sign.write_text(_USED_TEXT, encoding="ascii")


def give_to_owner(folder: Path, *files: Path) -> None:
    """Give files that root has made in a data folder to whom the folder belongs.

    The service, which is not root's as a rule, has to read and write them. For anyone but root
    nothing is done.

    Raises:
        OSError: the owner cannot be changed.
    """
    if os.geteuid() == 0:
        owner = folder.stat()
        for file in files:
            os.chown(file, owner.st_uid, owner.st_gid)


def _refuse_documents(folder: Path) -> None:
    # What `--data` names becomes the owner's alone, and `kbot ingest` never sends it.
    if not folder.is_dir() or any((folder / one).exists() for one in (_LOCK, DATABASE, _USED)):
        return
    for one in sorted(folder.iterdir()):
        mine = one.name in (API_KEY, KEYS, MATERIAL, "lost+found") or one.name.startswith(".")
        if not mine and one.suffix != ".toml":
            raise FolderError(
                f"{folder} holds other files, such as {one.name}, and no data of a service; "
                f"choose a folder for the service alone. `--with {folder}` lets a bot know what "
                "is in it"
            )


def _refuse_lost_database(folder: Path) -> None:
    # An empty file is what a start leaves that dies before there are tables.
    database = folder / DATABASE
    if database.exists() and database.stat().st_size > 0:
        return
    if (folder / _USED).exists():
        raise FolderError(
            f"the data folder {folder} was used before: it has {_USED}. Its database {DATABASE} is "
            "missing or empty. The service was not started, and nothing was changed. Put the file "
            "back, or restore a backup into a new folder with `kbot serve restore`; to begin with "
            "nothing, name an empty folder"
        )


def _locked(file: Path) -> sqlite3.Connection:
    # SQLite's own lock works on every platform, and the system releases it when the process dies.
    file.touch(mode=0o600)
    connection = sqlite3.connect(file, timeout=0, isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN EXCLUSIVE")
    return connection
