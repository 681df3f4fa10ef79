"""What a source of items finds that is no item: things left out, and files that may be unchanged.

Nothing here needs pydantic: a night without changes makes no item.
"""

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


# What breaks a line, and what else no name may hold: controls, and what turns the direction.
_BREAKS = re.compile(r"[\t-\r\x1c-\x1f\x85\u2028\u2029]+")
_NOT_SHOWN = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufff9-\ufffb]")
_LONGEST_NAME = 1000


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that a source of items found and leaves out.

    Attributes:
        name: what it is, such as a path or an address.
        reason: why it is left out.
        invalid: whether it should have been an item but cannot be read; counted in
            `report.invalid`, not in `report.skipped`.
        partial: whether it may hide further items, as a folder does that cannot be read; then
            nothing can be marked as gone.
        gone: why the item with `name` as its key is no longer there, if one was sent before:
            `excluded` (it is there, and left out), `404` or `410`; `unread` if it may be there, so
            that it is not gone; empty if that says nothing.
    """

    name: str
    reason: str
    invalid: bool = False
    partial: bool = False
    gone: str = ""


class ListedFile(NamedTuple):
    """A file that a folder lists: what a `File` is, where nothing has to be checked.

    Attributes:
        path: the file, resolved.
        name: the source's name.
        key: identifies the file from run to run.
    """

    path: str
    name: str
    key: str
    collections: None = None
    version: None = None
    open: None = None


class Listing(NamedTuple):
    """Files as a folder lists them; only those that may have changed become items.

    Attributes:
        keys: their keys, in the order in which the folder is read; anything for what is left out.
        versions: what stands for their contents, as `version_of_stat` returns it.
        item: makes the item of the file at a place in these lists.
    """

    keys: list[str]
    versions: list[str]
    item: "Callable[[int], ListedFile | Skipped]"


def version_of_stat(status: os.stat_result) -> str:
    """Return what stands for a file's content without reading it: size, times and inode.

    A change so soon after the last one that the file may keep its time may not show in it.
    """
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


def version_of_file(path: str) -> str:
    """Return `version_of_stat` of a file as it is now; empty if there is none."""
    try:
        return version_of_stat(os.stat(path))  # noqa: PTH116 - a `Path` costs more than the call
    except (OSError, ValueError):
        return ""


def name_to_send(name: str) -> str:
    """Return a name as services take it: of one line, and of at most 1,000 characters.

    Only the name is changed; the key stays as it is.
    """
    shown = _NOT_SHOWN.sub("", _BREAKS.sub(" ", name)).strip() or "(no name)"
    return shown if len(shown) <= _LONGEST_NAME else f"{shown[: _LONGEST_NAME - 1]}…"
