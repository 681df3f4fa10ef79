"""Objects in a storage that Airflow reaches: listed, and opened for an upload."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

from airflow.sdk import ObjectStoragePath
from airflow.sdk.io import get_fs

from airflow_knowledge_bot._compat import AirflowFailException, AirflowNotFoundException
from knowledge_bot.adapters import objects_in

if TYPE_CHECKING:
    from knowledge_bot.adapters import Objects

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


def found(
    objects: str | ObjectStoragePath,
    *,
    exclude: str | Iterable[str] = (),
    hidden: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> "Objects":
    """Find objects by an address with wildcards, or all of them below a folder.

    Each is known by its address, without the connection's id, and has a version from the listing.
    The options are those of `from_objects`; `storage_options` come beside the connection's.

    Raises:
        AirflowFailException: there is no such folder, or nothing is installed for its protocol.
    """
    base, pattern = _split(str(objects))
    try:
        start = ObjectStoragePath(base)
        if not start.exists():
            raise FileNotFoundError("it is not there")
        storage = start.fs
        if storage_options:
            storage = get_fs(start.protocol, start.conn_id, dict(storage_options))
    except _NOT_THERE as error:
        raise AirflowFailException(
            f"The task's parameter 'objects' cannot be read: {error} ({base}). Nothing was sent."
        ) from error
    address = f"{start.protocol}://{start.bucket}/{start.key}".rstrip("/")
    return objects_in(
        lambda: (storage, start.path), address, pattern, exclude=exclude, hidden=hidden
    )


def _split(address: str) -> tuple[str, str]:
    """Cut an address before its first part with a wildcard."""
    parts = address.split("/")
    first = next((i for i, part in enumerate(parts) if _WILDCARDS & set(part)), len(parts))
    return "/".join(parts[:first]), "/".join(parts[first:])
