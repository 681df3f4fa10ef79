"""Errors of the disk and the files of a data folder, as sentences."""

import errno
import logging
import sqlite3
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from knowledge_bot_service.config.refusals import RefusedRequestError

# The errors of the system, and of SQLite, that mean a full disk. A quota and a limit of a file's
# size count too; SQLite calls them write errors.
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_SQLITE_FULL: Final = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE}
)
_SQLITE_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_SQLITE_FAILED: Final = frozenset(
    {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}
)

# Seconds between two log lines about the same error, which every request may meet.
_LOGGED_EVERY: Final = 60.0

_log = logging.getLogger(__name__)


class StorageError(RefusedRequestError):
    """The data folder cannot be used as it should. str() says why, and what to do.

    Nothing was stored. An answer with `Retry-After` says that the service did not act.
    """

    def __init__(
        self,
        message: str,
        code: str = "storage_failed",
        status: HTTPStatus = HTTPStatus.INTERNAL_SERVER_ERROR,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, code, message, headers)


class DiskFullError(StorageError):
    """The disk is full."""

    def __init__(self) -> None:
        super().__init__(
            "The service's disk is full. Nothing was stored. Send it again when there is space; "
            "the service needs no restart.",
            "disk_full",
            HTTPStatus.INSUFFICIENT_STORAGE,
            {"Retry-After": "60"},
        )


def storage_error(error: BaseException | None) -> StorageError | None:
    """Return the storage error behind an error of SQLite or the system; None if there is none."""
    if isinstance(error, StorageError):
        return error
    if isinstance(error, OSError):
        return DiskFullError() if error.errno in _FULL else None
    return _of_sqlite(error) if isinstance(error, sqlite3.Error) else None


def _of_sqlite(error: sqlite3.Error) -> StorageError | None:
    # What Python's module itself raises has no code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    if code in _SQLITE_FULL:
        return DiskFullError()
    if code & 0xFF in _SQLITE_DAMAGED:
        return StorageError(
            f"The service's database is damaged ({error}). Nothing was stored. Whoever runs the "
            "service stops it, restores a backup, and starts it again.",
            "database_damaged",
        )
    if code & 0xFF in _SQLITE_FAILED:
        return StorageError(
            f"The service's disk failed ({error}). Nothing was stored. Send it again when whoever "
            "runs the service has looked at the disk."
        )
    return None


_logged: dict[str, float] = {}


def log_storage_error(error: StorageError, where: object) -> None:
    """Write an error into the log, at most once a minute for each kind."""
    now = time.monotonic()
    if now - _logged.get(error.code, float("-inf")) >= _LOGGED_EVERY:
        _logged[error.code] = now
        _log.error("%s: %s (logged once a minute)", where, error)
