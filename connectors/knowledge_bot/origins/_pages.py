"""Reads web pages: their links, whether they may be sent, and whether what they say changed.

A page is read to find links and to compare; the service scrapes it itself. What is remembered of a
page is the version of its item, so that its server can answer that nothing changed, without sending
it again.
"""

import contextlib
import hashlib
import json
import logging
import re
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields, replace

from knowledge_bot.ingest._items import WebPage
from knowledge_bot.origins._addresses import cleaned
from knowledge_bot.origins._changes import Place, counting, digest_of, hashed, places_of, without
from knowledge_bot.origins._documents import UnreadableError
from knowledge_bot.origins._fetching import AGENT, PoliteFetcher
from knowledge_bot.origins._html import ParsedPage, blocks_of, extractors, read_page
from knowledge_bot.origins._origin import Memory
from knowledge_bot_web.charsets import declared_in, decoded
from knowledge_bot_web.fetching import Headers, Validators, WebResponse
from knowledge_bot_web.html import PageError

logger = logging.getLogger(__name__)

_KINDS = ("text/html", "application/xhtml+xml")
# Seconds for which a server is believed that a page is unchanged; some say it of any page.
_BELIEVED = 7 * 86_400
# The most bytes of a version, and characters of a validator.
_LONGEST = 2000
_LONGEST_VALIDATOR = 200
_CANONICAL = re.compile(
    r"<([^>]*)>[^,]*;\s*rel\s*=\s*(?:\"(?:[^\"]*\s)?canonical(?:\s[^\"]*)?\"|canonical\b)",
    re.IGNORECASE,
)
_CHARSET = re.compile(r";\s*charset\s*=\s*[\"']?([^\s;\"']+)", re.IGNORECASE)
# Directives of `X-Robots-Tag` with a colon, before which there is no agent's name.
_WITH_A_VALUE = ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")


@dataclass(frozen=True, slots=True)
class Known:
    """What is remembered of a page until the next run, in the version of its item.

    Attributes:
        digest: stands for what was sent; another one where the page changed.
        content: the hash of its main text, without what does not count; None if it was not read.
        text: the hash of all of its text; pages with the same are copies.
        modified: its server's `Last-Modified`.
        etag: its server's `ETag`.
        reader: the reader that found its main text; see `extractors`.
        read_at: when it was read last, in seconds since 1970.
        changes: in how many runs running it changed.
        lies: whether its server said that it was unchanged when it was not.
        places: what differs between two readings of the same minute.
    """

    digest: str | None = None
    content: str | None = None
    text: str | None = None
    modified: str | None = None
    etag: str | None = None
    reader: str = "plain"
    read_at: int = 0
    changes: int = 0
    lies: bool = False
    places: tuple[Place, ...] = ()

    @property
    def version(self) -> str:
        """It as a text, which `of` reads."""
        packed = _packed(astuple(self))
        if len(packed.encode()) > _LONGEST:
            packed = _packed(astuple(replace(self, places=(), etag=None)))
        return packed

    @classmethod
    def of(cls, version: str | None) -> "Known | None":
        """Return what a version says of a page; of one that is only a time, that time."""
        if version is None:
            return None
        try:
            if len(found := json.loads(version)) != len(fields(cls)):
                raise ValueError("it is a time")
            *values, places = found
            return cls(*[*values, tuple(map(tuple, places))])
        except (ValueError, TypeError):
            return cls(digest=version, modified=version)

    def followed_by(self, now: "Known") -> "Known":
        """Return what to remember of a page that was read again.

        What was never known says nothing of a change.
        """
        if None in (self.content, now.content) or self.content == now.content:
            return replace(now, digest=self.digest or now.content, lies=self.lies)
        same = (self.etag, self.modified) == (now.etag, now.modified)
        lies = self.lies or (same and bool(self.etag or self.modified))
        return replace(now, digest=now.content, changes=self.changes + 1, lies=lies)


def _packed(values: object) -> str:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """A page that was read, or that is unchanged according to its server.

    Attributes:
        known: what to remember of it.
        links: the pages that it links to, if they may be followed; None if it was not read.
        canonical: the canonical address that it names.
        noindex: whether it asks to be left out.
        blocks: hashes of the blocks of its main text.
        cut: whether only its beginning was read.
        is_document: whether it is no page but a document, such as a PDF file.
        is_empty: whether it has no text, as a page of frames.
        hollow: why there is nothing to read in it, and
        gate: what it may ask for before others are shown; see `ParsedPage`.
    """

    known: Known
    links: tuple[str, ...] | None = ()
    canonical: str | None = None
    noindex: bool = False
    blocks: tuple[str, ...] = ()
    cut: bool = False
    is_document: bool = False
    is_empty: bool = False
    hollow: str = ""
    gate: str = ""

    def item(self, url: str, name: str | None = None, **more: object) -> WebPage:
        """Return the page as what is sent."""
        nothing = self.cut or self.known.digest is None
        known = {} if nothing else {"version": self.known.version, "digest": self.known.digest}
        return WebPage.model_validate({"name": name or url, "url": url, **known, **more})


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

    `also` says what is read beside pages, such as PDF files.
    Its attribute `trusted` is the time after which what was read is read again; a crawl sets it.
    """

    trusted: float = float("inf")

    def __init__(
        self,
        fetcher: PoliteFetcher,
        *,
        memory: Memory,
        largest: int,
        also: Callable[[WebResponse], bool],
        ignore: str | None = None,
        reread: bool = False,
    ) -> None:
        self._fetcher, self._memory = fetcher, memory
        self._largest, self._also = largest, also
        self._ignore = re.compile(ignore) if ignore is not None else None
        self._reread = reread
        self._readers = extractors()

    def read(self, url: str, at: str | None = None, *, whole: bool = False) -> FetchedPage | Moved:
        """Read a page.

        Args:
            url: its address.
            at: the address to request, if the server insists on another spelling.
            whole: whether to read it even if it is unchanged.

        Raises:
            NoPageError: there is no page.
            UnreadableError: it cannot be read, at least not now.
        """
        before = self._recalled(url)
        known = Validators()
        if before is not None and not whole and self._may_ask(url, before):
            known = Validators(before.etag, before.modified)
        address = at or url
        answer = self._get(address, known.headers())
        if answer.status == 304 and before is not None:
            asked = _asked_by_header(answer)
            return FetchedPage(
                replace(before, changes=0) if before.changes else before,
                links=() if asked & {"nofollow", "none"} else None,
                noindex=bool(asked & {"noindex", "none"}),
            )
        if answer.location is not None:
            return Moved(answer.location, cleaned(answer.location))
        if answer.status != 200:
            gone, failed = _GONE.get(answer.status, ""), answer.status >= 500
            raise NoPageError(f"its server answered {answer.status}", gone=gone, failed=failed)
        if not self._wanted(answer):
            raise NoPageError(f"it is not a page but {answer.kind[:80]}", gone="excluded")
        return self._read(url, address, answer, before)

    def _may_ask(self, url: str, before: Known) -> bool:
        """Return whether to ask if a page changed, instead of reading it."""
        # Pages of one night are not all read anew in the same later one.
        spread = int.from_bytes(hashlib.sha256(url.encode()).digest()[:2]) % (_BELIEVED // 2)
        recent = time.time() - before.read_at < _BELIEVED - spread
        return recent and before.read_at <= self.trusted and not (self._reread or before.lies)

    def _get(self, address: str, headers: Headers = ()) -> WebResponse:
        return self._fetcher.get(
            address, headers=headers, largest=self._largest, wanted=self._wanted
        )

    def _wanted(self, answer: WebResponse) -> bool:
        return answer.status == 200 and (_is_page(answer) or self._also(answer))

    def _recalled(self, url: str) -> Known | None:
        """Return what is remembered of a page, the reader included.

        The same reader must read it again, even if a better one is installed by now: with another
        one every page would seem to have changed, and be sent again.
        """
        before = Known.of(self._memory.recall(url))
        if before is None or before.reader in self._readers:
            return before
        raise UnreadableError(
            f"it was compared with {before.reader[:40]} before, which is not installed here: "
            "install it, or forget the page in the ledger, so that it is sent again"
        )

    def _read(
        self, url: str, address: str, answer: WebResponse, before: Known | None
    ) -> FetchedPage:
        """Read a page; one that seems changed is fetched once more, to see what does not count."""
        known = Known(
            modified=_short(answer.first("last-modified")),
            etag=_short(answer.first("etag")),
            reader=before.reader if before is not None and before.content else self._readers[0],
            read_at=int(time.time()),
            places=before.places if before is not None else (),
        )
        if not _is_page(answer):
            digest = None if answer.cut else hashlib.sha256(answer.body).hexdigest()[:32]
            known = replace(known, content=digest, text=digest)
            page = FetchedPage(known, cut=answer.cut, is_document=True)
        else:
            document, blocks = self._blocks(address, answer, known.reader)
            content = digest_of(without(blocks, known.places))
            if before is not None and before.content not in (None, content) and not answer.cut:
                more = places_of(blocks, self._once_more(address, known.reader))
                known = replace(known, places=tuple(dict.fromkeys((*known.places, *more))))
                content = digest_of(without(blocks, known.places))
            known = replace(known, content=content, text=digest_of(document.texts))
            page = self._page(address, answer, document, blocks=hashed(blocks), known=known)
        if before is None:
            return replace(page, known=replace(page.known, digest=known.content))
        after = before.followed_by(page.known)
        if after.lies > before.lies:
            logger.warning("The server of %s said that it is unchanged, and it is not", url)
        return replace(page, known=after)

    def _page(
        self,
        url: str,
        answer: WebResponse,
        document: ParsedPage,
        *,
        blocks: tuple[str, ...],
        known: Known,
    ) -> FetchedPage:
        asked = _asked_by_header(answer)
        for name, content in document.robots:
            if name in ("robots", AGENT):
                asked |= _directives(content)
        return FetchedPage(
            known,
            links=() if asked & {"nofollow", "none"} else document.links,
            canonical=_canonical_by_header(answer, url) or document.canonical,
            noindex=bool(asked & {"noindex", "none"}),
            blocks=blocks,
            cut=answer.cut,
            is_empty=not document.texts,
            hollow=document.hollow,
            gate=document.gate,
        )

    def _once_more(self, url: str, reader: str) -> list[str]:
        """Return the blocks of a page at once after it was read; none if it is not there now."""
        with contextlib.suppress(UnreadableError):
            answer = self._get(url)
            if _is_page(answer):
                return self._blocks(url, answer, reader)[1]
        return []

    def _blocks(self, url: str, answer: WebResponse, reader: str) -> tuple[ParsedPage, list[str]]:
        """Return a page, and those of its blocks that count."""
        charset = _CHARSET.search(answer.first("content-type") or "")
        declared = [charset[1]] if charset else []
        text, encoding = decoded(answer.body, declared + declared_in(answer.body), guess=False)
        try:
            document = read_page(text, url, encoding)
        except PageError as error:
            raise UnreadableError(str(error)) from None
        blocks = blocks_of(text, document, reader)
        if self._ignore is not None:
            blocks = [self._ignore.sub("", each) for each in blocks]
        return document, counting(blocks)


def _short(validator: str | None) -> str | None:
    return validator if validator and len(validator) <= _LONGEST_VALIDATOR else None


def _is_page(answer: WebResponse) -> bool:
    return answer.status == 200 and (not answer.kind or answer.kind in _KINDS)


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
