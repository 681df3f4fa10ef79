"""Objects in a storage that Airflow reaches: listed, and opened for an upload."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

from airflow.sdk import ObjectStoragePath
from airflow.sdk.io import get_fs

from airflow_knowledge_bot._compat import AirflowFailException, AirflowNotFoundException

if TYPE_CHECKING:
    from knowledge_bot.origins import Objects

# Raised for an object that does not exist or may not be read; the last three, for a missing
# connection or a protocol without an installed package. A retry may help against other failures.
_NOT_THERE = (
    FileNotFoundError,
    IsADirectoryError,
    PermissionError,
    AirflowNotFoundException,
    ImportError,
    ValueError,
)

_WILDCARDS = frozenset("*?[")


def is_object(file: object) -> bool:
    """Return whether this is an object or its address (`s3://…`), and not a local path."""
    return isinstance(file, ObjectStoragePath) or "://" in str(file)


@contextmanager
def opened(file: str | ObjectStoragePath) -> Iterator[tuple[BinaryIO, str]]:
    """Open an object; gives its stream and its name.

    Raises:
        AirflowFailException: it does not exist, or nothing is installed for its protocol.
    """
    try:
        path = file if isinstance(file, ObjectStoragePath) else ObjectStoragePath(file)
        stream = path.open("rb")  # type: ignore[no-untyped-call] # Airflow leaves it untyped
    except _NOT_THERE as error:
        raise AirflowFailException(
            f"The task's parameter 'file' cannot be read: {error} ({file}). Nothing was sent."
        ) from error
    with stream:
        yield stream, path.name


def store_of(objects: "Objects") -> "Objects":
    """Return objects as Airflow reaches them, by a connection's id before the `@` if there is one.

    Their default name says which store the connection leads to.

    Raises:
        AirflowFailException: there is no such folder, or nothing is installed for its protocol.
    """
    base, pattern = _split(objects.address)
    given = dict(objects.storage_options or {})
    try:
        start = ObjectStoragePath(base)
        if not start.exists():
            raise FileNotFoundError("it is not there")
        storage = get_fs(start.protocol, start.conn_id, given) if given else start.fs
    except _NOT_THERE as error:
        raise AirflowFailException(
            f"The task's origin cannot be read: {error} ({base}). Nothing was sent."
        ) from error
    address = f"{start.protocol}://{start.bucket}/{start.key}".rstrip("/")
    is_named = objects.name != type(objects)(objects.address, storage_options=given).name
    return replace(
        objects,
        address=f"{address}/{pattern}" if pattern else address,
        name=objects.name if is_named else "",
        storage_options={**getattr(storage, "storage_options", {}), **given},
        connect=lambda: (storage, start.path),
    )


def _split(address: str) -> tuple[str, str]:
    """Cut an address before its first part with a wildcard."""
    parts = address.split("/")
    first = next((i for i, part in enumerate(parts) if _WILDCARDS & set(part)), len(parts))
    return "/".join(parts[:first]), "/".join(parts[first:])
