"""What can be ingested: a web page, a text, a file.

An item is known by its `key` within a service and a set of collections: the ledger compares an item
with what was last sent under the same key. A key should stay the same when the content changes.
"""

import hashlib
import os
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, BeforeValidator, Field, SecretStr

from knowledge_bot.arguments import collection_ids, header_list


def _collection_ids(value: Any) -> Any:
    return None if value is None else tuple(collection_ids(value))


def _secret_headers(value: Any) -> Any:
    if not value or (isinstance(value, tuple) and isinstance(value[0], tuple)):
        return value or ()
    return tuple((header["name"], SecretStr(header["value"])) for header in header_list(value))


CollectionIds = Annotated[tuple[str, ...] | None, BeforeValidator(_collection_ids)]


# An error of validation would quote a whole text, or a header's secret.
class _Item(BaseModel, frozen=True, extra="forbid", hide_input_in_errors=True):
    """What every item shares.

    Attributes:
        collections: the collections it belongs to, instead of the run's.
        key: what the item is known by from run to run.
    """

    collections: CollectionIds = None
    key: str | None = Field(default=None, min_length=1)


class WebPage(_Item):
    """A web page, which the service scrapes.

    The page itself is not read here, so a page that was created once counts as unchanged until its
    address, its headers or its `version` changes.

    Attributes:
        name: the source's name.
        url: the page's address; the default key.
        headers: headers that the service sends while it scrapes, as a mapping or as `Header`
            objects. Their values may be secret: neither `repr` nor the ledger shows them.
        version: what tells one state of the page from the next, such as a sitemap's `lastmod`.
    """

    name: str = Field(min_length=1)
    url: str = Field(min_length=1)
    headers: Annotated[tuple[tuple[str, SecretStr], ...], BeforeValidator(_secret_headers)] = Field(
        default=(), repr=False
    )
    version: str | None = None

    @property
    def identity(self) -> str:
        """The item's key."""
        return self.key or self.url

    def digest(self) -> str:
        """Return the hash of what would be sent, without the name."""
        parts = [self.url, self.version or ""]
        for name, value in self.headers:
            parts += [name, value.get_secret_value()]
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


class Text(_Item):
    """A text.

    Attributes:
        name: the source's name; the default key.
        content: the text.
    """

    name: str = Field(min_length=1)
    content: str

    @property
    def identity(self) -> str:
        """The item's key."""
        return self.key or self.name

    def digest(self) -> str:
        """Return the hash of what would be sent, without the name."""
        return hashlib.sha256(self.content.encode("utf-8", "surrogatepass")).hexdigest()


class File(_Item):
    """A file, which is uploaded.

    Attributes:
        path: where it is, as a string or any path; its resolved path is the default key.
        name: the source's name; by default the file's.
    """

    # Not a `Path`, which costs more to make than all else that is done for an unchanged file.
    path: Annotated[str, BeforeValidator(os.fspath)]
    name: str = ""

    @property
    def identity(self) -> str:
        """The item's key."""
        return self.key or os.path.realpath(self.path)


Item: TypeAlias = WebPage | Text | File
"""Anything that can be ingested."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that discovery came across and leaves out.

    Attributes:
        name: what it is, such as a path or an address.
        reason: why it is left out.
        invalid: whether it should have been an item and cannot be read as one; counted as
            `report.invalid`, not as `report.skipped`.
    """

    name: str
    reason: str
    invalid: bool = False
