"""Reads web pages: their links, whether they may be sent, and a version that shows changes.

A page is read to find links and to compare; the service scrapes it itself. What is remembered of a
page lets its server answer that nothing changed, without sending it again.
"""

import hashlib
import json
import re
import zlib
from dataclasses import asdict, dataclass
from typing import Literal, Protocol, TypeAlias

from knowledge_bot.ingest.sources._addresses import cleaned
from knowledge_bot.ingest.sources._documents import UnreadableError
from knowledge_bot.ingest.sources._fetching import AGENT, PoliteFetcher
from knowledge_bot.ingest.sources._html import extractors, read_page, version_of
from knowledge_bot_web.charsets import declared_in, decoded
from knowledge_bot_web.fetching import Answer, Validators
from knowledge_bot_web.html import PageError

Compare: TypeAlias = Literal["content", "lastmod"]
"""What the version of a page is made of: its main text, or the time that its server states."""

_KINDS = ("text/html", "application/xhtml+xml")
_CANONICAL = re.compile(
    r"<([^>]*)>[^,]*;\s*rel\s*=\s*(?:\"(?:[^\"]*\s)?canonical(?:\s[^\"]*)?\"|canonical\b)",
    re.IGNORECASE,
)
_CHARSET = re.compile(r";\s*charset\s*=\s*[\"']?([^\s;\"']+)", re.IGNORECASE)
# Directives of `X-Robots-Tag` with a colon, before which there is no agent's name.
_WITH_A_VALUE = ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")


@dataclass(frozen=True, slots=True)
class Remembered:
    """What is kept of a page for the next run.

    Attributes:
        reader: the reader that found its version; see `extractors`.
        etag: its server's `ETag`.
        last_modified: its server's `Last-Modified`.
        version: changes when the page does.
        links: the pages that it links to, if they may be followed.
        canonical: the canonical address that it names.
        noindex: whether it asks to be left out.
        more_links: whether it has more links than are followed.
    """

    reader: str
    etag: str | None = None
    last_modified: str | None = None
    version: str | None = None
    links: tuple[str, ...] = ()
    canonical: str | None = None
    noindex: bool = False
    more_links: bool = False

    def packed(self) -> bytes:
        """Return all of it as a few bytes, for a database."""
        return zlib.compress(json.dumps(asdict(self), separators=(",", ":")).encode())

    @classmethod
    def unpacked(cls, packed: bytes) -> "Remembered":
        """Return what was packed.

        Raises:
            ValueError: it has another form.
        """
        try:
            fields = json.loads(zlib.decompress(packed))
            return cls(**fields | {"links": tuple(fields["links"])})
        except (zlib.error, TypeError, KeyError) as error:
            raise ValueError(f"these bytes are not a remembered page: {error}") from error


class Memory(Protocol):
    """Remembers pages from run to run, as a ledger does."""

    def recall(self, url: str) -> bytes | None:
        """Return what is remembered of a page; None if nothing is."""

    def remember(self, url: str, known: bytes) -> None:
        """Remember a page, in place of what was remembered before."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page that was read, or that is unchanged according to its server.

    Attributes:
        known: what to remember of it.
        cut: whether only its beginning was read.
        unchanged: whether it was not sent again.
    """

    known: Remembered
    cut: bool = False
    unchanged: bool = False


@dataclass(frozen=True, slots=True)
class Moved:
    """A redirect.

    Attributes:
        to: the address that it leads to.
        address: the same address, normalised; None if it is not a web page's.
    """

    to: str
    address: str | None


_GONE = {404: "404", 410: "410"}


class NoPageError(Exception):
    """An address without a page.

    Attributes:
        gone: why there certainly is none, as `Skipped.gone` says it; empty if that is not certain.
        failed: whether its server failed.
    """

    def __init__(self, reason: str, *, gone: str = "", failed: bool = False) -> None:
        super().__init__(reason)
        self.gone, self.failed = gone, failed


class PageReader:
    """Reads pages one after the other.

    Args:
        fetcher: fetches them.
        compare: what their versions are made of.
        memory: remembers them from run to run.
        largest: the most bytes that are read of one.
        documents: whether other documents are read too, such as PDF files.
    """

    def __init__(
        self,
        fetcher: PoliteFetcher,
        *,
        compare: Compare,
        memory: Memory | None,
        largest: int,
        documents: bool = False,
    ) -> None:
        self._fetcher, self._compare, self._memory = fetcher, compare, memory
        self._largest, self._wanted = largest, _is_there if documents else _is_page
        self._readers = extractors() if compare == "content" else ["lastmod"]

    def read(self, url: str, at: str | None = None) -> Page | Moved:
        """Read a page.

        Args:
            url: its address.
            at: the address to request, if the server insists on another spelling.

        Raises:
            NoPageError: there is no page.
            UnreadableError: it cannot be read, at least not now.
        """
        before = self._recalled(url)
        reader = before.reader if before is not None else self._readers[0]
        known = (
            Validators(before.etag, before.last_modified) if before is not None else Validators()
        )
        address = at or url
        answer = self._fetcher.get(
            address, headers=known.headers(), largest=self._largest, wanted=self._wanted
        )
        if answer.status == 304 and before is not None:
            return Page(_confirmed(before, answer), unchanged=True)
        if answer.location is not None:
            return Moved(answer.location, cleaned(answer.location))
        if answer.status != 200:
            gone, failed = _GONE.get(answer.status, ""), answer.status >= 500
            raise NoPageError(f"its server answered {answer.status}", gone=gone, failed=failed)
        if not self._wanted(answer):
            raise NoPageError(f"it is not a page but {answer.kind[:80]}", gone="excluded")
        read = self._read if _is_page(answer) else self._read_document
        page = read(address, answer, reader)
        if self._memory is not None and not page.cut and page.known != before:
            self._memory.remember(url, page.known.packed())
        return page

    def _recalled(self, url: str) -> Remembered | None:
        """Return what is remembered of a page, the reader included.

        The same reader must read it again, even if a better one is installed by now: with another
        one every page would seem to have changed, and be sent again.
        """
        packed = self._memory.recall(url) if self._memory is not None else None
        try:
            before = Remembered.unpacked(packed) if packed is not None else None
        except ValueError:  # written by another version of this module
            return None
        if before is None or (self._compare == "lastmod") != (before.reader == "lastmod"):
            return None
        if before.reader not in self._readers:
            raise UnreadableError(
                f"it was compared with {before.reader[:40]} before, which is not installed here: "
                "install it, or forget the page in the ledger, so that it is sent again"
            )
        return before

    def _read(self, url: str, answer: Answer, reader: str) -> Page:
        charset = _CHARSET.search(answer.first("content-type") or "")
        declared = [charset[1]] if charset else []
        text, encoding = decoded(answer.body, declared + declared_in(answer.body), guess=False)
        try:
            document = read_page(text, url, encoding)
        except PageError as error:
            raise UnreadableError(str(error)) from None
        asked = _asked_by_header(answer)
        for name, content in document.robots:
            if name in ("robots", AGENT):
                asked |= _directives(content)
        modified = answer.first("last-modified")
        version = modified
        if self._compare == "content":
            version = None if answer.cut else version_of(text, document, reader)
        known = Remembered(
            reader=reader,
            etag=answer.first("etag"),
            last_modified=modified,
            version=version,
            links=() if asked & {"nofollow", "none"} else document.links,
            canonical=_canonical_by_header(answer, url) or document.canonical,
            noindex=bool(asked & {"noindex", "none"}),
            more_links=document.more_links,
        )
        return Page(known, cut=answer.cut)

    def _read_document(self, url: str, answer: Answer, reader: str) -> Page:  # noqa: ARG002 - as `_read`
        modified = answer.first("last-modified")
        version = modified
        if self._compare == "content":
            digest = hashlib.sha256(answer.body).hexdigest()[:32]
            version = None if answer.cut else f"sha256:{digest}"
        known = Remembered(
            reader=reader,
            etag=answer.first("etag"),
            last_modified=modified,
            version=version,
        )
        return Page(known, cut=answer.cut)


def _is_there(answer: Answer) -> bool:
    return answer.status == 200


def _is_page(answer: Answer) -> bool:
    return answer.status == 200 and (not answer.kind or answer.kind in _KINDS)


def _confirmed(before: Remembered, answer: Answer) -> Remembered:
    """Return what was remembered of a page, with the directives of a 304 answer."""
    asked = _asked_by_header(answer)
    if not asked & {"noindex", "nofollow", "none"}:
        return before
    fields = asdict(before)
    fields["noindex"] = before.noindex or bool(asked & {"noindex", "none"})
    if asked & {"nofollow", "none"}:
        fields["links"] = ()
    return Remembered(**fields)


def _asked_by_header(answer: Answer) -> set[str]:
    """Return the directives in `X-Robots-Tag` for all crawlers, and for this one."""
    asked: set[str] = set()
    for value in answer.all("x-robots-tag"):
        ours = True
        for part in value.split(","):
            name, colon, rest = part.partition(":")
            directive = part
            if colon and name.strip().lower() not in _WITH_A_VALUE:
                ours, directive = name.strip().lower() == AGENT, rest
            if ours:
                asked |= _directives(directive)
    return asked


def _directives(content: str) -> set[str]:
    return {each.strip().lower() for each in content.split(",")}


def _canonical_by_header(answer: Answer, url: str) -> str | None:
    for value in answer.all("link"):
        if found := _CANONICAL.search(value):
            return cleaned(found[1], url)
    return None
