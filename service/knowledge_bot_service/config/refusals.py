"""What the service answers when it does not do what was asked: a status, a code, and why."""

import errno
import logging
import sqlite3
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

# FastAPI passes on no other error that is raised while a body is read.
from starlette.exceptions import HTTPException

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


class RefusedRequestError(HTTPException):
    """A request that is answered with an error. str() is the message.

    Args:
        status: the answer's status.
        code: for programs; one for each condition.
        message: for people; what was wrong and what to do.
        headers: further headers of the answer.
        id: what was created before; left out of the body otherwise.
    """

    def __init__(
        self,
        status: HTTPStatus,
        code: str,
        message: str,
        headers: Mapping[str, str] | None = None,
        *,
        id: str | None = None,  # noqa: A002 - the field's name
    ) -> None:
        super().__init__(status, message, headers)
        self.code = code
        self.id = id

    def __str__(self) -> str:
        return self.detail


class UnknownError(RefusedRequestError):
    """There is nothing of a kind with this id, or nothing that the request's key sees.

    Args:
        kind: bot, collection, conversation, passage or source.
        id: the id.
        status: 400 for what the body names; a path always gets 404.
    """

    def __init__(
        self,
        kind: str,
        id: str,  # noqa: A002 - the field's name
        status: HTTPStatus = HTTPStatus.NOT_FOUND,
    ) -> None:
        of = " of this bot" if kind == "conversation" else ""
        super().__init__(status, f"unknown_{kind}", f"There is no {kind} {id}{of}.")


def invalid(message: str) -> RefusedRequestError:
    """The error for a request that does not follow the interface (400)."""
    return RefusedRequestError(HTTPStatus.BAD_REQUEST, "invalid_request", message)


def too_large(limit: int) -> RefusedRequestError:
    """The error for a request whose body is larger than `limit` bytes (413)."""
    return RefusedRequestError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "too_large",
        f"The request body is larger than {limit:,} bytes, the limit here. Nothing was stored.",
    )


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
