"""Backs up a data folder into one file, even while its service runs, and restores it."""

import contextlib
import hashlib
import json
import os
import shutil
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from knowledge_bot_service.config.folder import (
    API_KEY,
    DATABASE,
    HEADS,
    KEYS,
    LEDGERS,
    MATERIAL,
    FolderError,
    give_to_owner,
    mark_used,
)
from knowledge_bot_service.config.storage import DiskFullError, storage_error
from knowledge_bot_service.store.material import synchronise_folder
from knowledge_bot_service.store.schema import check_version, copy_database

# The first member says what the file is, so that other tar archives are refused, and holds the
# SHA-256 of each other member. The first format had no checksums, the second no ledgers.
_MANIFEST: Final = "kbot-backup.json"
_FORMAT: Final = 3

# Attempts if files are removed while they are copied. Files that an earlier attempt saw are kept,
# so one more attempt is nearly always enough.
_ATTEMPTS: Final = 100

_BINARY: Final = getattr(os, "O_BINARY", 0)  # Windows


class BackupError(Exception):
    """A backup was not made or not restored. str() says why, and what to do."""


def write_backup(data: Path, file: Path) -> str:
    """Write all that a data folder holds into one file, which its owner alone may read.

    The service may run: it is neither stopped nor slowed by more than the reading of its disk. What
    it had accepted before is in the backup, with the files of sources that are not read yet.
    Returns what it holds, in words.

    Raises:
        BackupError: there is no service's data in the folder, the file is there already, it cannot
            be written, or the database is damaged. No file was made.
    """
    if not (data / DATABASE).is_file():
        raise BackupError(f"there is no database of a service in {data}; nothing was written")
    if file.exists():
        raise BackupError(f"{file} is there already; choose another name, or remove it first")
    try:
        # Beside the file, since the disk of the data folder may have no room for a copy.
        with tempfile.TemporaryDirectory(dir=file.parent, prefix=".kbot-backup-") as staging:
            whole = Path(staging, "backup")
            held = _write(data, Path(staging, DATABASE), whole)
            # Only where nothing is: not even a file that came in the meantime is written over.
            _link(whole, file)
            synchronise_folder(file.parent)
    except FileExistsError:
        raise BackupError(f"{file} is there already; nothing was written") from None
    except OSError as error:
        raise BackupError(f"cannot write {file}: {error.strerror}; nothing was written") from None
    except sqlite3.Error as error:
        # What reads the database is what writes its copy.
        if isinstance(storage_error(error), DiskFullError):
            raise BackupError(
                f"cannot write {file}: the disk of {file.parent.absolute()} is full. It needs room "
                "for the database twice; nothing was written"
            ) from None
        raise BackupError(
            f"cannot read the database of {data}: {error}; nothing was written"
        ) from None
    return held


def restore_backup(file: Path, data: Path) -> str:
    """Make a data folder from a backup. The database comes last: without it no service starts.

    What root restores belongs to the owner of the folder. The folder is new or empty, and may be a
    mounted volume. Returns what it holds, in words.

    Raises:
        BackupError: the folder is not empty, the file is no backup, is damaged, or was made by a
            later release. Nothing was changed.
    """
    data = data.absolute()
    is_there = data.exists()
    if is_there and (not data.is_dir() or any(data.iterdir())):
        raise BackupError(
            f"{data} is not an empty folder. Stop the service that uses it, and move it away or "
            "name another one; nothing was changed"
        )
    restored = False
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=data, prefix=".kbot-restore-") as staging:
            made = Path(staging)
            if not tarfile.is_tarfile(file):
                raise BackupError(f"{file} is not a backup of a service; nothing was changed")
            held = _extract(file, made)
            mark_used(made)
            give_to_owner(data, *made.rglob("*"))
            for path in sorted(made.iterdir(), key=lambda one: one.name == DATABASE):
                path.rename(data / path.name)
        data.chmod(0o700)
        synchronise_folder(data)
        synchronise_folder(data.parent)
        restored = True
    except (tarfile.TarError, EOFError, ValueError, KeyError, TypeError) as error:
        raise BackupError(
            f"{file} is not a backup, or is damaged: {error}; nothing was changed"
        ) from None
    except (sqlite3.Error, FolderError) as error:
        raise BackupError(f"the database in {file} cannot be used: {error}") from None
    except OSError as error:
        raise BackupError(
            f"cannot restore {file} to {data}: {error.strerror}; nothing was changed"
        ) from None
    finally:
        if not restored and not is_there:
            with contextlib.suppress(OSError):
                data.rmdir()
    return held


def _write(data: Path, copy: Path, whole: Path) -> str:
    with _kept_material(data) as kept:
        for _ in range(_ATTEMPTS):
            if _copied(data, copy, kept):
                break
            copy.unlink(missing_ok=True)
        else:
            raise BackupError(
                f"the service finished with files faster than {_ATTEMPTS} attempts could copy "
                "them; try again later. Nothing was written"
            )
        with closing(_reader(copy)) as connection:
            needed = _files_of(connection)
            held = _checked(connection, copy)
        members = {DATABASE: copy, **{f"{MATERIAL}/{name}": kept / name for name in sorted(needed)}}
        members |= {ledger.name: ledger for ledger in copy.parent.glob(LEDGERS)}
        if (data / HEADS).is_file():
            members[HEADS] = copy.with_name(HEADS)
            with closing(_reader(data / HEADS)) as connection:
                copy_database(connection, members[HEADS])
        if (data / API_KEY).is_file():
            members[API_KEY] = data / API_KEY
        for key in sorted((data / KEYS).glob("[!.]*")):
            with contextlib.suppress(FileNotFoundError):  # revoked a moment ago
                members[f"{KEYS}/{key.name}"] = Path(
                    shutil.copy(key, copy.with_name(f"key-{key.name}"))
                )
        manifest = copy.with_name(_MANIFEST)
        manifest.write_text(
            json.dumps(
                {
                    "format": _FORMAT,
                    "made": datetime.now(UTC).isoformat(),
                    "sha256": {name: _digest(path) for name, path in members.items()},
                }
            ),
            encoding="utf-8",
        )
        whole.touch(mode=0o600)
        with tarfile.open(whole, "w") as archive:
            for name, path in {_MANIFEST: manifest, **members}.items():
                archive.add(path, name)
        with whole.open("rb") as written:
            os.fsync(written.fileno())
    return held


@contextlib.contextmanager
def _kept_material(data: Path) -> Iterator[Path]:
    # A service that starts in the middle removes it as it removes all that it does not know.
    with tempfile.TemporaryDirectory(dir=data / MATERIAL, prefix="backup-") as folder:
        yield Path(folder)


def _copied(data: Path, copy: Path, kept: Path) -> bool:
    """Copy the database, and keep the files that it needs; False where one is gone by then."""
    _keep(data, kept, [path.name for path in (data / MATERIAL).iterdir() if path.is_file()])
    files = sorted(data.glob(LEDGERS))
    with contextlib.ExitStack() as opened:
        source, *ledgers = [
            opened.enter_context(closing(_reader(file))) for file in (data / DATABASE, *files)
        ]
        # A ledger claims what it sends before that is sent, and says that it is here when it is. So
        # where none is written at the moment of the database, they agree with it.
        with contextlib.ExitStack() as held:
            for file in files:
                lock = sqlite3.connect(file, timeout=30, isolation_level=None)
                held.enter_context(closing(lock))
                lock.execute("BEGIN IMMEDIATE")
            # What is read from here on is of one moment, the copies included.
            for connection in (source, *ledgers):
                connection.execute("BEGIN")
                connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        needed = _files_of(source)
        _keep(data, kept, needed)
        if any(not (kept / name).exists() for name in needed):
            return False
        copies = (copy, *(copy.with_name(file.name) for file in files))
        for connection, file in zip((source, *ledgers), copies, strict=True):
            copy_database(connection, file)
            connection.execute("ROLLBACK")
    return True


def _keep(data: Path, kept: Path, names: Iterable[str]) -> None:
    """Give files a second name, so that they stay when the service removes the first."""
    for name in names:
        with contextlib.suppress(FileNotFoundError, FileExistsError):
            _link(data / MATERIAL / name, kept / name)


def _link(file: Path, name: Path) -> None:
    """Give a file one more name, which nothing has yet."""
    try:
        os.link(file, name)
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError:  # a file system without links
        if name.exists():
            raise FileExistsError from None
        shutil.copy(file, name)


def _extract(file: Path, folder: Path) -> str:
    with tarfile.open(file) as archive:
        members = archive.getmembers()
        first = members[0] if members else None
        manifest = archive.extractfile(first) if first and first.name == _MANIFEST else None
        if manifest is None:
            raise BackupError(f"{file} is not a backup of a service; nothing was changed")
        listed = json.load(manifest)
        if listed["format"] > _FORMAT:
            raise BackupError(
                f"a later release of knowledge-bot made {file}; install that one. Nothing was "
                "changed"
            )
        digests: dict[str, str] | None = listed["sha256"] if listed["format"] > 1 else None
        if digests is not None and (lost := digests.keys() - {member.name for member in members}):
            raise BackupError(
                f"{file} lacks {', '.join(sorted(lost))}; it is damaged. Nothing was changed"
            )
        for name in (MATERIAL, KEYS):
            (folder / name).mkdir(mode=0o700)
        for member in members[1:]:
            if not member.isfile() or not _belongs(member.name):
                raise BackupError(f"{file} has {member.name!r}, which no backup has")
            content = archive.extractfile(member)
            assert content is not None  # noqa: S101 - a regular file has content
            created = os.open(
                folder / member.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o600
            )
            with os.fdopen(created, "wb") as target:
                shutil.copyfileobj(content, target)
                target.flush()
                os.fsync(target.fileno())
            if digests is not None and digests.get(member.name) != _digest(folder / member.name):
                raise BackupError(
                    f"{file} was changed or damaged after it was made: {member.name} is not what "
                    "was written. Nothing was changed. Restore another backup"
                )
    if not (folder / DATABASE).exists():
        raise BackupError(f"{file} has no database; it is damaged. Nothing was changed")
    with closing(_reader(folder / DATABASE)) as connection:
        check_version(connection)
        missing = [
            name for name in _files_of(connection) if not (folder / MATERIAL / name).exists()
        ]
        if missing:
            raise BackupError(f"{file} lacks {len(missing)} files of sources; it is damaged")
        return _checked(connection, file)


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _belongs(name: str) -> bool:
    folder, _, rest = name.rpartition("/")
    if folder:
        return folder in {MATERIAL, KEYS} and rest not in {"", ".", ".."}
    return name in {DATABASE, HEADS, API_KEY} or fnmatchcase(name, LEDGERS)


def _checked(connection: sqlite3.Connection, file: Path) -> str:
    """Read the whole database; returns what it holds."""
    found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if found != "ok":
        raise BackupError(f"the database in {file} is damaged: {found}. Nothing was changed")
    sources = connection.execute("SELECT count(*) FROM source").fetchone()[0]
    conversations = connection.execute("SELECT count(*) FROM conversation").fetchone()[0]
    return f"{_counted(sources, 'source')}, {_counted(conversations, 'conversation')}"


def _counted(number: int, name: str) -> str:
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def _files_of(connection: sqlite3.Connection) -> set[str]:
    rows = connection.execute("SELECT json_extract(material, '$.file') FROM job")
    return {row[0] for row in rows if row[0] is not None}


def _reader(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, timeout=30, isolation_level=None)
    connection.execute("PRAGMA query_only = ON")
    return connection
