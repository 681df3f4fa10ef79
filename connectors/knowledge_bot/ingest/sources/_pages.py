"""Reads web pages: their links, whether they may be sent, and a version that shows changes.

A page is read to find links and to compare; the service scrapes it itself. What is remembered of a
page lets its server answer that nothing changed, without sending it again.
"""

import contextlib
import hashlib
import json
import re
import zlib
from dataclasses import asdict, dataclass, field, replace
from typing import Literal, TypeAlias

from knowledge_bot.ingest.sources._addresses import cleaned
from knowledge_bot.ingest.sources._changes import (
    Places,
    as_noise,
    counted,
    differences,
    digest_of,
    hashed,
    is_noise,
)
from knowledge_bot.ingest.sources._fetching import AGENT, PoliteFetcher
from knowledge_bot.ingest.sources._found import Memory
from knowledge_bot.ingest.sources._html import blocks_of, extractors, read_page
from knowledge_bot.ingest.sources._unpacking import UnreadableError
from knowledge_bot_web.charsets import declared_in, decoded
from knowledge_bot_web.fetching import Headers, Validators, WebResponse
from knowledge_bot_web.html import PageError

Compare: TypeAlias = Literal["content", "lastmod"]
"""What the version of a page is made of: its main text, or the time that its server states."""

_KINDS = ("text/html", "application/xhtml+xml")
# Answers of "not modified" running that a server is believed; some say it of pages that changed.
_BELIEVED = 7
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
        text: a hash of all of its main text, noise included.
        blocks: hashes of the blocks that its version stands for.
        last: those of the last reading, where noise made them differ.
        places: how often each place changed in the last runs; see `_changes`.
        changes: how many runs running it changed.
        confirmed: how many runs running its server said that it is unchanged.
        copy_of: the address of another page, which had the same text.
    """

    reader: str
    etag: str | None = None
    last_modified: str | None = None
    version: str | None = None
    links: tuple[str, ...] = ()
    canonical: str | None = None
    noindex: bool = False
    text: str | None = None
    blocks: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    places: Places = field(default_factory=dict)
    changes: int = 0
    confirmed: int = 0
    copy_of: str | None = None

    def packed(self) -> bytes:
        """Return all of it as a few bytes, for a database."""
        return zlib.compress(json.dumps(asdict(self), separators=(",", ":")).encode())

    @classmethod
    def unpacked(cls, packed: bytes) -> "Remembered":
        """Return what was packed, by an older version of this module too.

        Raises:
            ValueError: it has another form.
        """
        try:
            fields = json.loads(zlib.decompress(packed))
            fields.pop("more_links", None)  # of versions before 0.3
            for name in ("links", "blocks", "last"):
                fields[name] = tuple(fields.get(name, ()))
            places = {place: tuple(runs) for place, runs in fields.get("places", {}).items()}
            return cls(**fields | {"places": places})
        except (zlib.error, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"these bytes are not a remembered page: {error}") from error

    def followed_by(self, now: "Remembered") -> "Remembered":
        """Return what to remember of the page as it is now; its version, if only noise changed."""
        now = replace(now, copy_of=self.copy_of)
        if now.reader == "lastmod":
            return now
        if not self.last and (now.version == self.version or now.text == self.text):
            return replace(now, version=self.version, places=counted(self.places, {}))
        last = self.last or self.blocks
        run = differences(last, now.blocks, (self.blocks,)) or {}
        since = differences(self.blocks, now.blocks, (last,))
        places = counted(self.places, run)
        if self.blocks and now.blocks and since is not None and is_noise(places, since):
            last = now.blocks if since else ()
            kept = replace(now, version=self.version, blocks=self.blocks)
            return replace(kept, last=last, places=places)
        return replace(now, places=places, changes=self.changes + 1)


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """A page that was read, or that is unchanged according to its server.

    Attributes:
        known: what to remember of it.
        cut: whether only its beginning was read.
        is_document: whether it is no page but a document, such as a PDF file.
    """

    known: Remembered
    cut: bool = False
    is_document: bool = False


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

    `documents` are the types of other documents that are read too, such as PDF files; None: all.
    """

    def __init__(
        self,
        fetcher: PoliteFetcher,
        *,
        compare: Compare,
        memory: Memory | None,
        largest: int,
        documents: tuple[str, ...] | None = (),
        ignore: "re.Pattern[str] | None" = None,
        reread: bool = False,
    ) -> None:
        self._fetcher, self._compare, self._memory = fetcher, compare, memory
        self._largest, self._documents = largest, documents
        self._ignore, self._reread = ignore, reread
        self._readers = extractors() if compare == "content" else ["lastmod"]

    def read(self, url: str, at: str | None = None) -> FetchedPage | Moved:
        """Read a page.

        Args:
            url: its address.
            at: the address to request, if the server insists on another spelling.

        Raises:
            NoPageError: there is no page.
            UnreadableError: it cannot be read, at least not now.
        """
        before = self._recalled(url)
        known = Validators()
        if before is not None and before.confirmed < _BELIEVED and not self._reread:
            known = Validators(before.etag, before.last_modified)
        address = at or url
        answer = self._get(address, known.headers())
        if answer.status == 304 and before is not None:
            page = FetchedPage(_confirmed(before, answer))
        elif answer.location is not None:
            return Moved(answer.location, cleaned(answer.location))
        elif answer.status != 200:
            gone, failed = _GONE.get(answer.status, ""), answer.status >= 500
            raise NoPageError(f"its server answered {answer.status}", gone=gone, failed=failed)
        elif not self._wanted(answer):
            raise NoPageError(f"it is not a page but {answer.kind[:80]}", gone="excluded")
        else:
            page = self._read(address, answer, before)
        if not page.cut and page.known != before:
            self.remember(url, page.known)
        return page

    def recalled(self, url: str) -> Remembered | None:
        """Return what is remembered of a page; None if nothing is."""
        packed = self._memory.recall(url) if self._memory is not None else None
        try:
            return Remembered.unpacked(packed) if packed is not None else None
        except ValueError:  # written by another version of this module
            return None

    def remember(self, url: str, known: Remembered) -> None:
        """Remember a page, if there is a memory."""
        if self._memory is not None:
            self._memory.remember(url, known.packed())

    def remember_list(self, address: str) -> None:
        """Remember that a list of pages, such as a sitemap, was there."""
        if self.recalled(address) is None:
            self.remember(address, Remembered("list"))

    def _get(self, address: str, headers: Headers = ()) -> WebResponse:
        return self._fetcher.get(
            address, headers=headers, largest=self._largest, wanted=self._wanted
        )

    def _wanted(self, answer: WebResponse) -> bool:
        if answer.status != 200:
            return False
        return _is_page(answer) or self._documents is None or answer.kind in self._documents

    def _recalled(self, url: str) -> Remembered | None:
        """Return what is remembered of a page, the reader included.

        The same reader must read it again, even if a better one is installed by now: with another
        one every page would seem to have changed, and be sent again.
        """
        before = self.recalled(url)
        if before is None or (self._compare == "lastmod") != (before.reader == "lastmod"):
            return None
        if before.reader not in self._readers:
            raise UnreadableError(
                f"it was compared with {before.reader[:40]} before, which is not installed here: "
                "install it, or forget the page in the ledger, so that it is sent again"
            )
        return before

    def _read(self, url: str, answer: WebResponse, before: Remembered | None) -> FetchedPage:
        """Read a page; one that seems changed is fetched once more, to see what is noise."""
        reader = before.reader if before is not None else self._readers[0]
        if not _is_page(answer):
            return self._read_document(answer, reader)
        known = self._read_page(url, answer, reader)
        if before is None or answer.cut:
            # Pages of one night are not all read anew in the same later one.
            spread = int(known.text or "0", 16) % _BELIEVED
            return FetchedPage(replace(known, confirmed=spread), cut=answer.cut)
        page = before.followed_by(known)
        if page.version != before.version and known.blocks and before.blocks:
            both = before.blocks, before.last or before.blocks
            noise = as_noise(differences(known.blocks, self._once_more(url, reader), both) or {})
            page = replace(before, places=before.places | noise).followed_by(known)
        return FetchedPage(page)

    def _once_more(self, url: str, reader: str) -> tuple[str, ...]:
        """Return the blocks of a page at once after it was read; none if it is not there now."""
        with contextlib.suppress(UnreadableError):
            answer = self._get(url)
            if _is_page(answer):
                return self._read_page(url, answer, reader).blocks
        return ()

    def _read_page(self, url: str, answer: WebResponse, reader: str) -> Remembered:
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
        version, blocks = modified, list[str]()
        if self._compare == "content":
            blocks = blocks_of(text, document, reader)
            if self._ignore is not None:
                blocks = [self._ignore.sub("", each) for each in blocks]
            digest = None if answer.cut else digest_of(blocks)
            version = None if digest is None else f"{reader}:{digest}"
        return Remembered(
            reader=reader,
            etag=answer.first("etag"),
            last_modified=modified,
            version=version,
            links=() if asked & {"nofollow", "none"} else document.links,
            canonical=_canonical_by_header(answer, url) or document.canonical,
            noindex=bool(asked & {"noindex", "none"}),
            text=digest_of(document.texts),
            blocks=hashed(blocks),
        )

    def _read_document(self, answer: WebResponse, reader: str) -> FetchedPage:
        etag, modified = answer.first("etag"), answer.first("last-modified")
        digest = None if answer.cut else hashlib.sha256(answer.body).hexdigest()[:32]
        version = modified
        if self._compare == "content":
            version = None if digest is None else f"sha256:{digest}"
        known = Remembered(reader, etag, modified, version, text=digest)
        return FetchedPage(known, cut=answer.cut, is_document=True)


def _is_page(answer: WebResponse) -> bool:
    return answer.status == 200 and (not answer.kind or answer.kind in _KINDS)


def _confirmed(before: Remembered, answer: WebResponse) -> Remembered:
    """Return what was remembered of a page, with the directives of a 304 answer."""
    asked = _asked_by_header(answer)
    return replace(
        before,
        noindex=before.noindex or bool(asked & {"noindex", "none"}),
        links=() if asked & {"nofollow", "none"} else before.links,
        changes=0,
        confirmed=before.confirmed + 1,
    )


def _asked_by_header(answer: WebResponse) -> set[str]:
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


def _canonical_by_header(answer: WebResponse, url: str) -> str | None:
    for value in answer.all("link"):
        if found := _CANONICAL.search(value):
            return cleaned(found[1], url)
    return None
