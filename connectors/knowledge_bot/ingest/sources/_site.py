"""Pages of a whole site, found by its links."""

import logging
import re
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin, urlsplit

from knowledge_bot._endpoints import Headers, check_number, header_list
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest._items import Skipped, WebPage, holds_login
from knowledge_bot.ingest.sources._addresses import LONGEST, cleaned, site
from knowledge_bot.ingest.sources._documents import (
    UnreadableError,
    check_flag,
    patterns_of,
)
from knowledge_bot.ingest.sources._folder import matching
from knowledge_bot.ingest.sources._robots import LARGEST as LARGEST_ROBOTS
from knowledge_bot.ingest.sources._robots import Robots
from knowledge_bot.ingest.sources._sitemap import sitemap_pages
from knowledge_bot.models import Header

if TYPE_CHECKING:
    from knowledge_bot.ingest.sources._fetching import Fetcher
    from knowledge_bot.ingest.sources._pages import Compare, Memory, Moved, Page, PageReader

logger = logging.getLogger(__name__)

# Seconds between two requests that a robots.txt may ask for; what asks for more asks for nobody.
_LONGEST_DELAY = 30.0
# Requests in a row that a site leaves unanswered before the rest of it is left alone.
_FAILURES = 10
# What is no page by its name is not even asked for.
_NO_PAGE = re.compile(
    r"\.(?:7z|avi|avif|bin|bmp|bz2|css|csv|deb|dmg|docx?|eot|epub|exe|flac|gif|gz|ico|iso|jar|jpe?g"
    r"|js|json|m4[av]|mkv|mov|mp[34]|mpe?g|msi|od[pst]|og[agv]|otf|pdf|png|pptx?|rar|rpm|rss|svg"
    r"|tar|tgz|tiff?|ttf|wav|web[mp]|whl|wm[av]|woff2?|xlsx?|xz|zip|zst)$",
    re.IGNORECASE,
)


def from_site(
    url: str,
    *,
    depth: int = 10,
    pages: int = 10_000,
    include: str | Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    compare: "Compare" = "content",
    sitemaps: bool = True,
    rate: float = 2.0,
    seconds: float = 21_600.0,
    page_bytes: int = 5_000_000,
    total_bytes: int = 2_000_000_000,
    allow_private: bool = False,
    headers: Headers | None = None,
) -> "Site":
    """Find the pages of a site, by its links and its sitemaps.

    Pages are read to find links and to compare; the service scrapes them itself. A page is named by
    its address, without fragment, tracking parameters and session id, and its version is the hash
    of its main text: a new banner or a date below is no change. Only pages of the same host are
    read, one at a time. What robots.txt, `noindex` or `nofollow` ask for is done, and a page whose
    canonical address is another one of the site is taken from there.

    Args:
        url: where to begin; where it redirects to another host, that is the site.
        depth: how many links to follow from there, or from a page that a sitemap names less one.
        pages: how many addresses are read at most.
        include: what to take only, in the notation of a `.gitignore`, for the path or for the path
            with its query: `docs/`, `*.html`. Nothing else is read but the page to begin with.
        exclude: what to leave out, in the same notation.
        compare: what tells that a page changed: its main text (`content`), or what the sitemap or
            its server says (`lastmod`). A page without the one that is asked for has no version, so
            that no later change of it is seen.
        sitemaps: whether to begin with the pages of the sitemaps as well that robots.txt names,
            and of `/sitemap.xml`.
        rate: how many requests are made a second, at most; fewer where robots.txt asks for it.
        seconds: how long to look for pages.
        page_bytes: bytes of a page that are read.
        total_bytes: bytes that are read in all.
        allow_private: whether a site that is public may lead to addresses that are not, by
            redirects or by its name. One that begins in a private network may.
        headers: headers for reading the pages, and for the service's scraping; they are sent to the
            host of `url` only.

    Returns:
        An iterable of a `WebPage` for each page, and a `Skipped` for what is left out, is not
        there or cannot be read.

    Raises:
        ConfigurationError: the address or an option cannot be used.
    """
    if holds_login(str(url)):
        raise ConfigurationError("url: it holds a login, which is not kept; give headers instead")
    start = cleaned(str(url))
    if start is None:
        raise ConfigurationError(f"url: {str(url)[:500]!r} is no http:// or https:// address")
    check_number("depth", depth, 0, whole=True)
    check_number("pages", pages, 1, whole=True)
    check_number("rate", rate, 0.001)
    check_number("seconds", seconds, 0)
    check_number("page_bytes", page_bytes, 1, whole=True)
    check_number("total_bytes", total_bytes, 1, whole=True)
    check_flag("allow_private", allow_private)
    check_flag("sitemaps", sitemaps)
    if compare not in ("content", "lastmod"):
        raise ConfigurationError(f"compare: expected 'content' or 'lastmod', not {compare!r}")
    including, excluding = patterns_of("include", include), patterns_of("exclude", exclude)
    origin = start
    if including:  # another selection of the same site is another origin
        origin = f"{start} [{' '.join(sorted(including))}]"
    bounds = _Bounds(depth, pages, seconds, page_bytes, total_bytes, rate)
    return Site(
        origin,
        start,
        bounds,
        compare,
        sitemaps,
        matching(including, "include"),
        matching(excluding),
        allow_private,
        tuple((each["name"], each["value"]) for each in header_list(headers or ())),
    )


class _Bounds(NamedTuple):
    depth: int
    pages: int
    seconds: float
    page_bytes: int
    total_bytes: int
    rate: float


@dataclass(frozen=True)
class Site:
    """The pages of a site; `from_site` makes it. Each iteration crawls it anew.

    Attributes:
        origin: what the ledger knows the site by.
        start: the address to begin with.
        bounds: how much is read at most.
        compare: what tells that a page changed.
        sitemaps: whether the pages of sitemaps are taken.
    """

    origin: str
    start: str
    bounds: _Bounds
    compare: "Compare"
    sitemaps: bool
    _included: Callable[[str], bool] | None
    _excluded: Callable[[str], bool] | None
    _allow_private: bool
    _headers: tuple[tuple[str, str], ...] = field(repr=False)
    _memory: "Memory | None" = None

    def named(self, origin: str) -> "Site":
        """Return the same site under another name of its origin."""
        return replace(self, origin=origin)

    def remembering(self, memory: "Memory") -> "Site":
        """Return the same site, whose pages are compared with what a memory knows of them."""
        return replace(self, _memory=memory)

    def takes(self, url: str) -> bool:
        """Tell whether a page is among those asked for, by `include` and `exclude`."""
        parts = urlsplit(url)
        path = parts.path.removeprefix("/")
        spellings = [path, f"{path}?{parts.query}"] if parts.query else [path]
        if self._excluded is not None and any(map(self._excluded, spellings)):
            return False
        return self._included is None or any(map(self._included, spellings))

    def headers_for(self, url: str) -> list[Header]:
        """Return what the service is to send while it scrapes a page: nothing to another host."""
        if site(url) != site(self.start):
            return []
        return [Header(name=name, value=value) for name, value in self._headers]

    def __iter__(self) -> Iterator[WebPage | Skipped]:
        from knowledge_bot.ingest.sources._fetching import Fetcher
        from knowledge_bot.ingest.sources._pages import PageReader

        fetcher = Fetcher(
            self.start,
            self.bounds.rate,
            allow_private=self._allow_private,
            headers=self._headers,
        )
        reader = PageReader(
            fetcher,
            compare=self.compare,
            memory=self._memory,
            largest=self.bounds.page_bytes,
        )
        with closing(fetcher):
            yield from _Crawl(self, fetcher, reader).run()


class _Entry(NamedTuple):
    """An address that waits to be read.

    Attributes:
        url: the address.
        depth: how many links lead to it.
        modified: when it was changed, as a sitemap says.
        linked_from: the page that links to it.
        via: the addresses that led here by redirects.
        asked_at: how its server spells it, where it insists on a spelling of its own.
    """

    url: str
    depth: int
    modified: str | None = None
    linked_from: str = ""
    via: tuple[str, ...] = ()
    asked_at: str | None = None


class _Crawl:
    """One way through a site, in the order of its links.

    No more addresses wait than may still be read, and of those that were seen a hash of eight bytes
    is kept, until no more may wait: the memory is bounded, whatever the site links to.
    """

    def __init__(self, of: Site, fetcher: "Fetcher", reader: "PageReader") -> None:
        self._of, self._bounds = of, of.bounds
        self._fetcher, self._reader = fetcher, reader
        self._robots = Robots(b"", "")
        self._site, self._scheme = "", ""
        self._waiting: deque[_Entry] = deque()
        self._seen: set[int] = set()
        self._read = self._unanswered = 0
        self._began = monotonic()
        self._landed = self._more = self._deeper = False

    def run(self) -> Iterator[WebPage | Skipped]:
        start = self._of.start
        if not (yield from self._enter(start)):
            return
        yield from self._offer(start, _Entry(start, 0))
        if not self._waiting:
            yield from self._land(start)
        while self._waiting and not self._bound():
            yield from self._visit(self._waiting.popleft())
            if self._unanswered >= _FAILURES:
                told = f"{_FAILURES} requests in a row were not answered; the rest is left alone"
                yield Skipped(start, told, invalid=True, partial=True)
                return
        if self._waiting or self._more:
            told = self._bound() or f"{self._bounds.pages} addresses are read"
            logger.warning("The crawl of %s ended early: %s; there are more", start, told)
            yield Skipped(start, f"the crawl ended early: {told}; there are more", partial=True)
        elif self._deeper:
            yield Skipped(start, f"what more than {self._bounds.depth} links lead to was not read")

    # One address ----------------------------------------------------------------------------------

    def _visit(self, entry: _Entry) -> Iterator[WebPage | Skipped]:
        from knowledge_bot.ingest.sources._pages import Moved

        self._read += 1
        found = yield from self._attempt(entry)
        if isinstance(found, Moved) and (yield from self._move(entry, found)):
            return
        if not self._landed:
            modified = yield from self._land(entry.url)
            entry = entry._replace(modified=modified)
        if found is not None and not isinstance(found, Moved):
            yield from self._take(entry, found)

    def _attempt(self, entry: _Entry) -> "Generator[Skipped, None, Page | Moved | None]":
        from knowledge_bot.ingest.sources._fetching import UnreachableError
        from knowledge_bot.ingest.sources._pages import NoPageError

        unanswered, self._unanswered = self._unanswered, 0
        try:
            return self._reader.read(entry.url, entry.asked_at)
        except NoPageError as error:
            told = f"{error}; {entry.linked_from} links to it" if entry.linked_from else str(error)
            failed = error.failed or entry.depth == 0
            yield Skipped(entry.url, told, invalid=failed, partial=failed or not error.gone)
        except UnreadableError as error:
            if isinstance(error, UnreachableError):
                self._unanswered = unanswered + 1
            yield Skipped(entry.url, str(error), invalid=True, partial=True)
        return None

    def _move(self, entry: _Entry, moved: "Moved") -> Generator[Skipped, None, bool]:
        """Follow a redirect; return whether there is something to follow."""
        from knowledge_bot.ingest.sources._fetching import REDIRECTS

        address, reason = moved.address, ""
        if address is None:
            reason = f"it redirects to {moved.to[:500]}, which is no web page"
        elif len(entry.via) >= REDIRECTS:
            reason = f"it redirects more than {REDIRECTS} times"
        elif address == entry.url and moved.to not in (entry.url, entry.asked_at):
            # Its server insists on a session, or on another spelling.
            via = (*entry.via, entry.url)
            self._waiting.appendleft(entry._replace(asked_at=moved.to, via=via))
            return True
        elif address == entry.url or address in entry.via:
            reason = "it redirects in a circle"
        elif not self._landed:
            there = site(address), urlsplit(address).scheme
            if there != (self._site, self._scheme) and not (yield from self._enter(address)):
                self._landed = True  # and there is nothing to be read
                return False
        elif site(address) != self._site:
            reason = f"it redirects to another site, {address}"
        elif not self._of.takes(address):
            reason = f"it redirects to {address}, which is left out"
        if reason or address is None:
            yield Skipped(entry.url, reason)
            return False
        next_one = entry._replace(url=address, asked_at=None, via=(*entry.via, entry.url))
        yield from self._offer(next_one.url, next_one, at_once=True)
        return bool(self._waiting) and self._waiting[0] is next_one

    def _take(self, entry: _Entry, page: "Page") -> Iterator[WebPage | Skipped]:
        """Yield a page that was read, or why it is left out, and go on to what it links to."""
        known, canonical = page.known, self._own(page.known.canonical or "")
        if page.cut:
            told = f"it is larger than {self._bounds.page_bytes:,} bytes, which are read of a page"
            yield Skipped(entry.url, told, invalid=True, partial=True)
        elif known.noindex:
            yield Skipped(entry.url, "it asks not to be indexed")
        elif canonical not in (None, entry.url, *entry.via) and self._of.takes(canonical or ""):
            yield Skipped(entry.url, f"it is a copy of {canonical}")
            copy = _Entry(canonical or "", entry.depth, None, entry.url, (*entry.via, entry.url))
            yield from self._offer(copy.url, copy)
        elif self._of.takes(entry.url):
            by_sitemap = entry.modified if self._of.compare == "lastmod" else None
            version = by_sitemap or known.version
            headers = self._of.headers_for(entry.url)
            yield WebPage(name=entry.url, url=entry.url, version=version, headers=headers)
        if known.more_links:
            yield Skipped(entry.url, "only its first 5,000 links are followed", partial=True)
        for link in known.links:
            if (own := self._own(link)) is not None and self._of.takes(own):
                yield from self._offer(own, _Entry(own, entry.depth + 1, None, entry.url))

    def _offer(self, url: str, entry: _Entry, *, at_once: bool = False) -> Iterator[Skipped]:
        """Have an address wait to be read, unless it was seen or may not be."""
        hashed = _hashed(url)
        if hashed in self._seen:
            return
        if entry.depth > self._bounds.depth:
            self._deeper = True
            return
        reason = self._refused(url)
        if not at_once and self._read + len(self._waiting) >= self._bounds.pages:
            self._more = self._more or not reason
            return
        self._seen.add(hashed)
        if reason:
            yield Skipped(url[:LONGEST], reason, invalid=entry.depth == 0)
        elif at_once:
            self._waiting.appendleft(entry)
        else:
            self._waiting.append(entry)

    def _refused(self, url: str) -> str:
        """Return why an address is not even asked for; empty where it may be."""
        if len(url) > LONGEST:
            return f"its address is longer than {LONGEST:,} characters"
        if _NO_PAGE.search(urlsplit(url).path):
            return "it is no page, by its name"
        return "" if self._robots.allows(url) else "robots.txt does not allow it"

    def _own(self, url: str) -> str | None:
        """Return an address of this site, in its scheme; None for another site's."""
        if not url or site(url) != self._site:
            return None
        parts = urlsplit(url)
        return url if parts.port is not None else self._scheme + url[len(parts.scheme) :]

    def _bound(self) -> str:
        """Return which bound was reached; empty where none was."""
        if self._read >= self._bounds.pages:
            return f"{self._read:,} addresses were read"
        if monotonic() - self._began >= self._bounds.seconds:
            return f"it took {self._bounds.seconds:g} seconds"
        if self._fetcher.received >= self._bounds.total_bytes:
            return f"{self._fetcher.received:,} bytes were read"
        return ""

    # What a site says of itself -------------------------------------------------------------------

    def _enter(self, url: str) -> Generator[Skipped, None, bool]:
        """Take an address's host for the site; return whether anything of it may be read."""
        from knowledge_bot.ingest.sources._fetching import AGENT

        self._site, self._scheme = site(url), urlsplit(url).scheme
        address = urljoin(url, "/robots.txt")
        try:
            answer, _ = self._fetcher.follow(address, largest=LARGEST_ROBOTS + 1)
        except UnreadableError as error:
            told = f"{error}, and without it nothing may be read (RFC 9309, section 2.3.1.4)"
            yield Skipped(address, told, invalid=True, partial=True)
            return False
        if answer is not None and answer.status >= 500:
            told = f"it was answered with {answer.status}, so nothing may be read"
            yield Skipped(
                address, f"{told} (RFC 9309, section 2.3.1.4)", invalid=True, partial=True
            )
            return False
        content = answer.body if answer is not None and answer.status == 200 else b""
        if len(content) > LARGEST_ROBOTS:
            yield Skipped(address, f"only its first {LARGEST_ROBOTS:,} bytes are read")
        self._robots = Robots(content, AGENT)
        asked = self._robots.delay or 0.0
        if asked > _LONGEST_DELAY:
            logger.warning(
                "%s asks for %g seconds between two requests; %g are kept",
                address,
                asked,
                _LONGEST_DELAY,
            )
        self._fetcher.interval = max(1 / self._bounds.rate, min(asked, _LONGEST_DELAY))
        return True

    def _land(self, url: str) -> Generator[Skipped, None, str | None]:
        """Begin with the sitemaps too; return when they say that the first page was changed."""
        self._landed = True
        if not self._of.sitemaps or self._bounds.depth == 0:
            return None
        guessed = urljoin(url, "/sitemap.xml")
        named = [found for each in self._robots.sitemaps if (found := cleaned(each, url))]
        modified, seen = None, set[str]()
        for address in dict.fromkeys((*named, guessed)):
            for item in sitemap_pages(address, self._fetcher.opened, seen=seen):
                if self._bound() or self._more:
                    return modified
                if isinstance(item, Skipped):
                    if address != guessed or guessed in named or item.name != guessed:
                        yield item
                elif (own := self._own(cleaned(item.url) or "")) == url:
                    modified = item.version
                elif own is not None and self._of.takes(own):
                    yield from self._offer(own, _Entry(own, 1, item.version, address))
        return modified


def _hashed(url: str) -> int:
    return int.from_bytes(blake2b(url.encode(), digest_size=8).digest())
