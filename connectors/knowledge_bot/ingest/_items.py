"""What can be ingested: a web page, a text, a file.

Within its origin an item is identified by its `key`: a run compares it with what was last sent
under the same key. A key should stay the same when the content changes.
"""

import hashlib
import os
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import wait
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, SecretStr

from knowledge_bot._endpoints import Collections, Headers, collection_ids, header_list
from knowledge_bot._texts import holds_login, storable
from knowledge_bot._threads import begun
from knowledge_bot.models import _ByName

_PIECE = 1024 * 1024

# Seconds that a piece is waited for, once or twice.
_PATIENCE = 30.0
_UNSAID = bytes(8)


def _collection_ids(value: Any) -> Any:
    return None if value is None else tuple(collection_ids(value))


def _secret_headers(value: Any) -> Any:
    if not value or (isinstance(value, tuple) and isinstance(value[0], tuple)):
        return value or ()
    return tuple((header["name"], SecretStr(header["value"])) for header in header_list(value))


def _without_login(url: str) -> str:
    if holds_login(url):
        raise ValueError("url: it holds a login, which is never stored; use a header")
    return url


CollectionIds = Annotated[tuple[str, ...] | None, BeforeValidator(_collection_ids)]


# A validation error would quote a whole text, or a secret header.
class _Item(_ByName, BaseModel, frozen=True, extra="forbid", hide_input_in_errors=True):
    """What all items have in common.

    Attributes:
        collections: the collections it belongs to, instead of the run's.
        key: identifies the item within its origin, from run to run.
        version: a token that changes when the content does, such as an ETag or the time of the last
            change, of at most 2,000 bytes. An item with the version that was sent last is
            unchanged, and is not read.
    """

    collections: CollectionIds = None
    key: str | None = Field(default=None, min_length=1)
    version: Annotated[str, AfterValidator(storable)] | None = None

    @property
    def identity(self) -> str:
        """The item's key."""
        return self.key or self._default_key()

    @abstractmethod
    def _default_key(self) -> str: ...


class WebPage(_Item):
    """A web page, which the service scrapes.

    The page itself is not read here, so once created it counts as unchanged until its address, its
    `digest` or `version`, or the names of its headers change. One that appears or disappears is no
    change. Nor is a new value of a header, such as a token.

    Attributes:
        name: the source's name.
        url: the page's address; the default key. It may not hold a login, which everybody with
            access to the service or the ledger would see; use a header.
        headers: headers that the service sends while it scrapes, as a mapping or as `Header`
            objects. Their values may be secret: neither `repr` nor the ledger shows them.
        digest: stands for what the page says, where somebody has read it. The `version` may then
            differ from night to night, and the page is unchanged.
    """

    name: str = Field(min_length=1)
    url: Annotated[str, AfterValidator(_without_login)] = Field(min_length=1)
    headers: Annotated[tuple[tuple[str, SecretStr], ...], BeforeValidator(_secret_headers)] = Field(
        default=(), repr=False
    )
    digest: str | None = None

    if TYPE_CHECKING:  # it takes more types than it stores

        def __init__(
            self,
            *,
            name: str,
            url: str,
            headers: Headers | None = None,
            digest: str | None = None,
            collections: Collections | None = None,
            key: str | None = None,
            version: str | None = None,
        ) -> None: ...

    def _default_key(self) -> str:
        return self.url

    def content_digest(self) -> bytes:
        """Return the hash of what would be sent, without the name.

        The first half stands for the address and the headers, the second one for what the page
        says: zeros, where nobody knows that.
        """
        names = sorted(name.lower() for name, _ in self.headers)
        said = self.digest or self.version
        return _digest("\0".join([self.url, *names]))[:8] + (_digest(said)[:8] if said else _UNSAID)


class Text(_Item):
    """A text.

    Attributes:
        name: the source's name; the default key.
        content: the text.
    """

    name: str = Field(min_length=1)
    content: str

    if TYPE_CHECKING:  # as above

        def __init__(
            self,
            *,
            name: str,
            content: str,
            collections: Collections | None = None,
            key: str | None = None,
            version: str | None = None,
        ) -> None: ...

    def _default_key(self) -> str:
        return self.name

    def content_digest(self) -> bytes:
        """Return the SHA-256 of what would be sent, without the name."""
        return _digest(self.content)


def _path_as_text(path: object) -> object:
    return os.fspath(path) if isinstance(path, os.PathLike) else path


class File(_Item):
    """A file, which is uploaded.

    Attributes:
        path: where it is, as a string or any path; the resolved path is the default key. With
            `open` it is just a name, such as an object's address, and the default key.
        name: the source's name; by default the file's.
        open: returns the content as an open binary file, each time it is called; by default the
            file at `path` is opened. Set a `version` too, or the content is read in every run.
    """

    # Not a `Path`: making one costs more than everything else about an unchanged file.
    path: Annotated[str, BeforeValidator(_path_as_text)]
    name: Annotated[str, BeforeValidator(lambda given: given or "")] = ""
    open: Callable[[], BinaryIO] | None = Field(default=None, repr=False, exclude=True)

    if TYPE_CHECKING:  # as above

        def __init__(
            self,
            *,
            path: str | os.PathLike[str],
            name: str | None = None,
            open: Callable[[], BinaryIO] | None = None,  # noqa: A002 - the field
            collections: Collections | None = None,
            key: str | None = None,
            version: str | None = None,
        ) -> None: ...

    def _default_key(self) -> str:
        return os.path.realpath(self.path) if self.open is None else self.path

    def content_digest(self) -> bytes:
        """Read the content and return its SHA-256; of an object of blanks, that of nothing.

        Raises:
            OSError: it cannot be read, or what `open` returned gives nothing for a minute.
        """
        if self.open is None:
            with open(self.path, "rb") as stream:  # noqa: PTH123 - as for `path`
                return hashlib.file_digest(stream, "sha256").digest()
        return _digest_of(self.open)


def _digest_of(opened: Callable[[], BinaryIO]) -> bytes:
    """Return the SHA-256 of what is opened, which may be a pipe that gives nothing for ever."""
    pieces = 0

    def read() -> bytes:
        nonlocal pieces
        with opened() as stream:
            found, blank = hashlib.sha256(), True
            while piece := stream.read(_PIECE):
                found.update(piece)
                blank = blank and not piece.strip()
                pieces += 1
            return (hashlib.sha256() if blank else found).digest()

    reading, before = begun("hash", read), -1
    while not wait([reading], _PATIENCE).done:
        if pieces == before:
            raise TimeoutError(f"it gave nothing for {_PATIENCE:g} s")
        before = pieces
    return reading.result()


Item: TypeAlias = File | Text | WebPage
"""Anything that can be ingested."""


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
