"""Copies a data folder, even while its service runs. A backup is a data folder like any other."""

import os
import shutil
import sqlite3
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

from knowledge_bot_service.config.folder import (
    API_KEY,
    DATABASE,
    HEADS,
    KEYS,
    MATERIAL,
    FolderError,
    give_to_owner,
    mark_used,
)
from knowledge_bot_service.store.material import synchronise_folder
from knowledge_bot_service.store.schema import check_version

# How long a copy waits for whoever writes to a database, in seconds.
_PATIENCE: Final = 30.0


def copy_folder(source: Path, target: Path) -> str:
    """Copy all that a data folder holds into another one, as it is at one moment.

    The service of the source may run: its writes wait while that moment is held, which is as long
    as it takes to copy the files of sources that are not read yet. What it had accepted before is
    in the copy. The target is new or empty, and may be a mounted volume; what root copies belongs
    to the target's owner. The database comes last: without it no service starts.

    Returns:
        What the copy holds, in words.

    Raises:
        FolderError: there is no service's data in the source, the target is not empty or cannot be
            written, or the database is damaged or of another version. Nothing stays of the copy.
    """
    if not (source / DATABASE).is_file():
        raise FolderError(
            f"there is no database of a service in {source}; nothing was copied. Name the data "
            "folder of a service (`--data`), or what a backup made"
        )
    is_there = target.exists()
    if is_there and (not target.is_dir() or any(target.iterdir())):
        raise FolderError(
            f"{target} is not an empty folder; name another one, or move it away after the service "
            "that uses it has stopped. Nothing was copied"
        )
    with ExitStack() as undone:
        if not is_there:
            undone.callback(shutil.rmtree, target, ignore_errors=True)
        try:
            held = _copied(source, target)
        except (OSError, sqlite3.Error) as error:
            why = getattr(error, "strerror", None) or error
            told = f"cannot copy {source} to {target}: {why}. Nothing was copied"
            raise FolderError(told) from None
        undone.pop_all()
    return held


def _copied(source: Path, target: Path) -> str:
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target, prefix=".kbot-copy-") as staging:
        made = Path(staging)
        _copy(source, made)
        held = _checked(made / DATABASE)
        mark_used(made)
        give_to_owner(target, *made.rglob("*"))
        for path in sorted(made.iterdir(), key=lambda one: one.name == DATABASE):
            path.rename(target / path.name)
    target.chmod(0o700)
    synchronise_folder(target)
    return held


def _copy(source: Path, made: Path) -> None:
    (made / MATERIAL).mkdir(mode=0o700)
    database = source / DATABASE
    with closing(_connected(database)) as lock, closing(_connected(database)) as reader:
        # While nothing is written, the files of sources that are not read yet stay.
        lock.execute("BEGIN IMMEDIATE")
        reader.execute("BEGIN")  # what is read from here on is of this moment
        check_version(reader)
        for (name,) in reader.execute("SELECT json_extract(material, '$.file') FROM job"):
            if name is not None:
                shutil.copy(source / MATERIAL / name, made / MATERIAL / name)
        lock.execute("ROLLBACK")
        _copy_database(reader, made / DATABASE)
    if (source / HEADS).is_file():
        with closing(_connected(source / HEADS)) as heads:
            _copy_database(heads, made / HEADS)
    if (source / API_KEY).is_file():
        shutil.copy(source / API_KEY, made / API_KEY)
    if (source / KEYS).is_dir():
        shutil.copytree(source / KEYS, made / KEYS, ignore=shutil.ignore_patterns(".*"))
    for path in made.rglob("*"):
        if path.is_file():
            with path.open("rb") as written:
                os.fsync(written.fileno())


def _copy_database(connection: sqlite3.Connection, file: Path) -> None:
    """Write all that a connection sees into one new file, which its owner alone may read."""
    file.touch(mode=0o600)
    with closing(sqlite3.connect(file)) as copy:
        connection.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")


def _checked(database: Path) -> str:
    with closing(_connected(database)) as connection:
        found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":
            raise sqlite3.DatabaseError(f"the database is damaged: {' '.join(found.split())}")
        counts = {
            name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]  # noqa: S608 - constants
            for name in ("source", "conversation")
        }
    return ", ".join(f"{count:,} {name}{'s' * (count != 1)}" for name, count in counts.items())


def _connected(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(file, timeout=_PATIENCE, isolation_level=None)
