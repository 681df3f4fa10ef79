"""Objects in a storage that Airflow reaches, opened for an upload."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from airflow.sdk import ObjectStoragePath

from airflow_knowledge_bot._compat import AirflowFailException

# What tells of an object that is not there for us; the last two, of a protocol that nothing is
# installed for. Other failures of a storage pass, and Airflow may try the task again.
_NOT_THERE = (FileNotFoundError, IsADirectoryError, PermissionError, ImportError, ValueError)


def is_object(file: object) -> bool:
    """Tell an object or its address (`s3://…`) from a path on this machine."""
    return isinstance(file, ObjectStoragePath) or "://" in str(file)


@contextmanager
def opened(file: str | ObjectStoragePath) -> Iterator[tuple[BinaryIO, str]]:
    """Open an object, and give its stream and its name.

    Args:
        file: the value of the operator's parameter `file`.

    Raises:
        AirflowFailException: it is not there, or nothing is installed for its protocol.
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
