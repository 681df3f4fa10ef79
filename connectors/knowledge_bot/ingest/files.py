"""How a file is recognised without being read."""

import os
import time
from typing import NamedTuple

# A file that was changed this recently may change again within the tick of its file system's clock
# and keep its time; git calls such a file racily clean. In seconds.
_SETTLED = 2.0


class Fingerprint(NamedTuple):
    """Size, times and inode of a file.

    Attributes:
        text: equal for a file that was not changed in between.
        settled: whether a later change certainly gives another text.
    """

    text: str
    settled: bool

    @classmethod
    def of(cls, status: os.stat_result) -> "Fingerprint":
        """Return the fingerprint of a file's status."""
        text = f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"
        return cls(text, time.time() - max(status.st_mtime, status.st_ctime) > _SETTLED)


def fingerprint_of(path: str) -> Fingerprint | None:
    """Return a file's fingerprint as it is now; None where it is gone."""
    try:
        return Fingerprint.of(os.stat(path))  # noqa: PTH116 - a `Path` costs more than the call
    except OSError:
        return None
