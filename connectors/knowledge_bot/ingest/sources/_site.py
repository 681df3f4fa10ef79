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
from knowledge_bot.ingest._items import WebPage, holds_login
from knowledge_bot.ingest._listings import Skipped
from knowledge_bot.ingest.sources._addresses import LONGEST, cleaned, site
from knowledge_bot.ingest.sources._changes import alike
from knowledge_bot.ingest.sources._found import check_flag, pattern_of, patterns_of
from knowledge_bot.ingest.sources._sitemap import sitemap_pages
from knowledge_bot.ingest.sources._unpacking import UnreadableError
from knowledge_bot.models import Header
from knowledge_bot.origins._patterns import matching
from knowledge_bot_web.robots import LARGEST as LARGEST_ROBOTS
from knowledge_bot_web.robots import Robots

if TYPE_CHECKING:
    from knowledge_bot.ingest.sources._fetching import PoliteFetcher
    from knowledge_bot.ingest.sources._found import Memory
    from knowledge_bot.ingest.sources._pages import Compare, FetchedPage, Moved, PageReader

logger = logging.getLogger(__name__)

# The longest delay between two requests that a robots.txt may ask for, in seconds.
_LONGEST_DELAY = 30.0
# Unanswered requests in a row after which the rest of a site is left alone.
_FAILURES = 10
# Pages in a row with a text that another one has, whose links are still followed.
_COPIES = 3
# Runs running with a change after which a page is named, and how many are.
_ALWAYS = 5
_NAMED = 10
# What is read beside pages. Addresses with these endings are neither, and are not requested.
_DOCUMENTS = ("application/pdf",)
_NO_PAGE = re.compile(
    r"\.(?:7z|avi|avif|bin|bmp|bz2|css|csv|deb|dmg|docx?|eot|epub|exe|flac|gif|gz|ico|iso|jar|jpe?g"
    r"|js|json|m4[av]|mkv|mov|mp[34]|mpe?g|msi|od[pst]|og[agv]|otf|png|pptx?|rar|rpm|rss|svg"
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
    ignore: str | None = None,
    reread: bool = False,
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
    its address, without fragment, tracking parameters and session id. Its version changes with its
    main text, so a new banner or footer is no change, nor is what changes by itself: between two
    readings of the same minute, or on three runs running (two, if only numbers changed). Pages with
    the same text are one page, the first one, and a page that names another one of the site as
    canonical is a copy if nearly all of its text stands there. Only pages of the same host are
    read, one at a time, and PDF files. robots.txt, `noindex` and `nofollow` are obeyed.

    Args:
        url: where to begin. If it redirects to another host, that host is the site.
        depth: how many links to follow from there; pages of a sitemap count as one link away.
        pages: the most addresses that are read.
        include: the pages to take, written like a `.gitignore`, for the path or for the path with
            its query: `docs/`, `*.html`. Only these and the first page are read.
        exclude: the pages to leave out, written the same way.
        compare: what a page's version is made of: its main text (`content`), or the time in the
            sitemap or from its server (`lastmod`). Later changes of a page without one are not
            seen.
        ignore: a regular expression for what does not count in a main text, such as a date. A new
            one may show pages as changed, once.
        reread: whether to read all pages. Otherwise those that their servers say are unchanged are
            read every eighth time, since some say it of pages that changed.
        sitemaps: whether to begin with the pages of `/sitemap.xml` and of the sitemaps in
            robots.txt too.
        rate: the most requests per second; fewer if robots.txt asks for that.
        seconds: how long to look for pages, in seconds.
        page_bytes: the most bytes read of a page.
        total_bytes: the most bytes read in all.
        allow_private: whether a public site may lead to private addresses, by redirects or by its
            name. A site in a private network always may.
        headers: headers for reading the pages, and for the service's scraping; they are sent only
            to the host of `url`.

    Returns:
        An iterable of a `WebPage` for each page, and a `Skipped` for what is left out, missing or
        cannot be read.

    Raises:
        ConfigurationError: the address or an option cannot be used.
    """
    if holds_login(str(url)):
        raise ConfigurationError.of("url", "it holds a login, which is never stored; use headers")
    start = cleaned(str(url))
    if start is None:
        raise ConfigurationError.of(
            "url", f"{str(url)[:500]!r} is not an http:// or https:// address"
        )
    check_number("depth", depth, 0, whole=True)
    check_number("pages", pages, 1, whole=True)
    check_number("rate", rate, 0.001)
    check_number("seconds", seconds, 0)
    check_number("page_bytes", page_bytes, 1, whole=True)
    check_number("total_bytes", total_bytes, 1, whole=True)
    check_flag("allow_private", allow_private)
    check_flag("sitemaps", sitemaps)
    check_flag("reread", reread)
    if compare not in ("content", "lastmod"):
        raise ConfigurationError.of("compare", f"expected 'content' or 'lastmod', not {compare!r}")
    including, excluding = patterns_of("include", include), patterns_of("exclude", exclude)
    origin = start
    if including:  # the same site with other patterns is another origin
        origin = f"{start} [{' '.join(sorted(including))}]"
    return Site(
        origin=origin,
        start=start,
        depth=depth,
        pages=pages,
        compare=compare,
        ignore=pattern_of(ignore),
        reread=reread,
        sitemaps=sitemaps,
        rate=rate,
        seconds=seconds,
        page_bytes=page_bytes,
        total_bytes=total_bytes,
        _included=matching(including, "include"),
        _excluded=matching(excluding),
        _allow_private=allow_private,
        _headers=tuple((each["name"], each["value"]) for each in header_list(headers or ())),
    )


@dataclass(frozen=True, kw_only=True)
class Site:
    """The pages of a site; `from_site` makes it, and explains what it holds.

    Each iteration crawls it again. `origin` is its name in the ledger, `start` the address to begin
    with.
    """

    origin: str
    start: str
    depth: int
    pages: int
    compare: "Compare"
    ignore: "re.Pattern[str] | None"
    reread: bool
    sitemaps: bool
    rate: float
    seconds: float
    page_bytes: int
    total_bytes: int
    _included: Callable[[str], bool] | None
    _excluded: Callable[[str], bool] | None
    _allow_private: bool
    _headers: tuple[tuple[str, str], ...] = field(repr=False)
    _memory: "Memory | None" = None

    def named(self, origin: str) -> "Site":
        """Return the same site under another name of its origin."""
        return replace(self, origin=origin)

    def remembering(self, memory: "Memory") -> "Site":
        """Return the same site, its pages compared with what a memory holds of them."""
        return replace(self, _memory=memory)

    def takes(self, url: str) -> bool:
        """Return whether `include` and `exclude` select a page."""
        parts = urlsplit(url)
        path = parts.path.removeprefix("/")
        spellings = [path, f"{path}?{parts.query}"] if parts.query else [path]
        if self._excluded is not None and any(map(self._excluded, spellings)):
            return False
        return self._included is None or any(map(self._included, spellings))

    def gone_reason(self, key: str) -> str:
        """Return why the page with a key did not come."""
        return "missing" if self.takes(key) else "excluded"

    def headers_for(self, url: str) -> list[Header]:
        """Return the headers that the service sends to scrape a page; none for another host."""
        if site(url) != site(self.start):
            return []
        return [Header(name=name, value=value) for name, value in self._headers]

    def __iter__(self) -> Iterator[WebPage | Skipped]:
        from knowledge_bot.ingest.sources._fetching import PoliteFetcher
        from knowledge_bot.ingest.sources._pages import PageReader

        fetcher = PoliteFetcher(
            self.start, self.rate, allow_private=self._allow_private, headers=self._headers
        )
        reader = PageReader(
            fetcher,
            compare=self.compare,
            memory=self._memory,
            largest=self.page_bytes,
            documents=_DOCUMENTS,
            ignore=self.ignore,
            reread=self.reread,
        )
        with closing(fetcher):
            yield from _Crawl(self, fetcher, reader).run()


class _Entry(NamedTuple):
    """An address that waits to be read.

    Attributes:
        url: the address.
        depth: how many links lead to it.
        modified: the time of its last change in a sitemap.
        linked_from: the page that links to it.
        via: the addresses that redirected here.
        copies: how many pages in a row before it have a text that another page has.
        asked_at: the address to request, if the server insists on another spelling.
    """

    url: str
    depth: int
    modified: str | None = None
    linked_from: str = ""
    via: tuple[str, ...] = ()
    copies: int = 0
    asked_at: str | None = None


class _Held(NamedTuple):
    """A page that may be a copy.

    Attributes:
        entry: how it was found.
        page: the page.
        other: the address of the page that it may be a copy of.
        stated: whether it says so itself; otherwise it was one in the last run.
    """

    entry: _Entry
    page: "FetchedPage"
    other: str
    stated: bool


class _Crawl:
    """One crawl of a site, in the order of its links.

    No more addresses are queued than may still be read, and each one seen is kept as a hash of
    eight bytes, so the memory is bounded whatever the site links to. Of each page that is read, the
    blocks of its text are kept; one that is perhaps a copy waits for the end of the crawl.
    """

    def __init__(self, of: Site, fetcher: "PoliteFetcher", reader: "PageReader") -> None:
        self._site, self._fetcher, self._reader = of, fetcher, reader
        self._robots = Robots(b"", "")
        self._host, self._scheme = "", ""
        self._waiting: deque[_Entry] = deque()
        self._seen: set[int] = set()
        # The first address of each text, the blocks of each page, and pages that may be copies.
        self._texts: dict[str, str] = {}
        self._taken: dict[str, tuple[str | None, tuple[str, ...]]] = {}
        self._held: list[_Held] = []
        self._always: list[str] = []
        self._read = self._unanswered = 0
        self._began = monotonic()
        self._started = self._more = self._deeper = False

    def run(self) -> Iterator[WebPage | Skipped]:
        start = self._site.start
        if not (yield from self._enter(start)):
            return
        yield from self._enqueue(start, _Entry(start, 0))
        if not self._waiting:
            yield from self._read_sitemaps(start)
        while self._waiting and not self._bound():
            yield from self._visit(self._waiting.popleft())
            if self._unanswered >= _FAILURES:
                reason = f"the crawl ended early: {_FAILURES} requests in a row had no answer"
                yield Skipped(start, reason, invalid=True, partial=True)
                return
        yield from self._let_go()
        if self._always:
            logger.warning(
                "%d pages of %s changed in each of the last %d runs: %s; ignore= (--ignore) leaves "
                "out what does not count",
                len(self._always),
                start,
                _ALWAYS,
                ", ".join(self._always[:_NAMED]),
            )
        if self._waiting or self._more:
            reason = self._bound() or f"{self._site.pages} addresses are read"
            logger.warning("The crawl of %s ended early: %s; there are more", start, reason)
            yield Skipped(start, f"the crawl ended early: {reason}; there are more", partial=True)
        elif self._deeper:
            yield Skipped(start, f"pages more than {self._site.depth} links away were not read")

    # One address ----------------------------------------------------------------------------------

    def _visit(self, entry: _Entry) -> Iterator[WebPage | Skipped]:
        from knowledge_bot.ingest.sources._pages import Moved

        self._read += 1
        found = yield from self._attempt(entry)
        if isinstance(found, Moved) and (yield from self._move(entry, found)):
            return
        if not self._started:
            modified = yield from self._read_sitemaps(entry.url)
            entry = entry._replace(modified=modified)
        if found is not None and not isinstance(found, Moved):
            yield from self._take(entry, found)

    def _attempt(self, entry: _Entry) -> "Generator[Skipped, None, FetchedPage | Moved | None]":
        from knowledge_bot.ingest.sources._fetching import UnreachableError
        from knowledge_bot.ingest.sources._pages import NoPageError

        unanswered, self._unanswered = self._unanswered, 0
        try:
            return self._reader.read(entry.url, entry.asked_at)
        except NoPageError as error:
            link = f"; {entry.linked_from} links to it" if entry.linked_from else ""
            reason, gone, failed = f"{error}{link}", error.gone, error.failed
        except UnreadableError as error:
            if isinstance(error, UnreachableError):
                self._unanswered = unanswered + 1
            reason, gone, failed = str(error), "", True
        yield from self._unread(entry, reason, gone, failed=failed)
        return None

    def _unread(self, entry: _Entry, reason: str, gone: str, *, failed: bool) -> Iterator[Skipped]:
        """Skip a page that cannot be read, and follow the links that it had.

        It hides nothing else: a page of which nothing is remembered hid the same in the last run.
        """
        first = entry.depth == 0
        yield Skipped(
            entry.url, reason, invalid=failed or first, partial=first, gone=gone or "unread"
        )
        before = None if gone else self._reader.recalled(entry.url)
        if before is not None:
            yield from self._follow(entry, before.links)

    def _move(self, entry: _Entry, moved: "Moved") -> Generator[Skipped, None, bool]:
        """Follow a redirect; return whether there is an address to follow."""
        from knowledge_bot_web.fetching import REDIRECTS

        address, reason = moved.address, ""
        if address is None:
            reason = f"it redirects to {moved.to[:500]}, which is not a web page"
        elif len(entry.via) >= REDIRECTS:
            reason = f"it redirects more than {REDIRECTS} times"
        elif address == entry.url and moved.to not in (entry.url, entry.asked_at):
            # The server insists on a session, or on another spelling.
            via = (*entry.via, entry.url)
            self._waiting.appendleft(entry._replace(asked_at=moved.to, via=via))
            return True
        elif address == entry.url or address in entry.via:
            reason = "it redirects in a circle"
        elif not self._started:
            there = site(address), urlsplit(address).scheme
            if there != (self._host, self._scheme) and not (yield from self._enter(address)):
                self._started = True  # and there is nothing to read
                return False
        elif site(address) != self._host:
            reason = f"it redirects to another site, {address}"
        elif not self._site.takes(address):
            reason = f"it redirects to {address}, which is left out"
        if reason or address is None:
            yield Skipped(entry.url, reason, gone="excluded")
            return False
        next_one = entry._replace(url=address, asked_at=None, via=(*entry.via, entry.url))
        yield from self._enqueue(next_one.url, next_one, at_once=True)
        return bool(self._waiting) and self._waiting[0] is next_one

    def _take(self, entry: _Entry, page: "FetchedPage") -> Iterator[WebPage | Skipped]:
        """Yield a page that was read, or why it is left out, and queue its links."""
        known, copies = page.known, 0
        other = self._on_site(known.canonical or "") or ""
        if page.cut and not page.is_document:
            reason = f"it is larger than page_bytes, {self._site.page_bytes:,} bytes"
            yield from self._unread(entry, reason, "", failed=True)
        elif known.noindex:
            yield Skipped(entry.url, "it asks not to be indexed", gone="excluded")
        elif other not in ("", entry.url, *entry.via) and self._site.takes(other):
            self._held.append(_Held(entry, page, other, stated=True))
        elif not self._site.takes(entry.url):
            pass
        elif known.copy_of and known.copy_of != entry.url:
            other, copies = known.copy_of, entry.copies + 1
            self._held.append(_Held(entry, page, other, stated=False))
        else:
            first = self._texts.setdefault(known.text or entry.url, entry.url)
            copies = 0 if first == entry.url else entry.copies + 1
            yield self._page(entry, page) if first == entry.url else self._copy(entry, page, first)
        if copies <= _COPIES:
            yield from self._follow(entry, known.links, copies)
        if self._held and self._held[-1].entry is entry:
            yield from self._enqueue(other, _Entry(other, entry.depth, None, entry.url))

    def _page(self, entry: _Entry, page: "FetchedPage") -> WebPage:
        known = page.known
        self._taken[entry.url] = known.text, known.blocks
        if known.changes >= _ALWAYS:
            self._always.append(entry.url)
        by_sitemap = entry.modified if self._site.compare == "lastmod" else None
        headers = self._site.headers_for(entry.url)
        version = by_sitemap or known.version
        return WebPage(name=entry.url, url=entry.url, version=version, headers=headers)

    def _copy(self, entry: _Entry, page: "FetchedPage", of: str) -> Skipped:
        """Skip a page whose text another one has, which is remembered: it keeps its place."""
        if page.known.copy_of != of:
            self._reader.remember(entry.url, replace(page.known, copy_of=of))
        return Skipped(entry.url, f"it has the same text as {of}", gone="excluded")

    def _let_go(self) -> Iterator[WebPage | Skipped]:
        """Yield the pages that may be copies of others, now that those were read."""
        left = {each.entry.url: each.page.known for each in self._held}
        for entry, page, other, stated in self._held:
            known = left.pop(entry.url)
            there = left.get(other)
            text, blocks = (there.text, there.blocks) if there else self._taken.get(other, ("", ()))
            if (text and text == known.text) or (stated and alike(known.blocks, blocks)):
                yield self._copy(entry, page, other)
            elif (first := self._texts.setdefault(known.text or entry.url, entry.url)) != entry.url:
                yield self._copy(entry, page, first)
            else:
                yield self._page(entry, page)

    def _follow(self, entry: _Entry, links: Iterable[str], copies: int = 0) -> Iterator[Skipped]:
        for link in links:
            if (own := self._on_site(link)) is not None and self._site.takes(own):
                next_one = _Entry(own, entry.depth + 1, None, entry.url, copies=copies)
                yield from self._enqueue(own, next_one)

    def _enqueue(self, url: str, entry: _Entry, *, at_once: bool = False) -> Iterator[Skipped]:
        """Queue an address to be read, unless it was seen or may not be read."""
        hashed = _hashed(url)
        if hashed in self._seen:
            return
        if entry.depth > self._site.depth:
            self._deeper = True
            return
        reason = self._refused(url)
        if not at_once and self._read + len(self._waiting) >= self._site.pages:
            self._more = self._more or not reason
            return
        self._seen.add(hashed)
        if reason:
            yield Skipped(url[:LONGEST], reason, invalid=entry.depth == 0, gone="excluded")
        elif at_once:
            self._waiting.appendleft(entry)
        else:
            self._waiting.append(entry)

    def _refused(self, url: str) -> str:
        """Return why an address may not be requested; empty if it may."""
        if len(url) > LONGEST:
            return f"its address is longer than {LONGEST:,} characters"
        if _NO_PAGE.search(urlsplit(url).path):
            return "its name is not that of a page"
        return "" if self._robots.allows(url) else "robots.txt does not allow it"

    def _on_site(self, url: str) -> str | None:
        """Return an address of this site with the site's scheme; None for another site's."""
        if not url or site(url) != self._host:
            return None
        parts = urlsplit(url)
        return url if parts.port is not None else self._scheme + url[len(parts.scheme) :]

    def _bound(self) -> str:
        """Return which bound was reached; empty if none was."""
        if self._read >= self._site.pages:
            return f"{self._read:,} addresses were read"
        if monotonic() - self._began >= self._site.seconds:
            return f"it took {self._site.seconds:g} seconds"
        if self._fetcher.received >= self._site.total_bytes:
            return f"{self._fetcher.received:,} bytes were read"
        return ""

    # What a site says about itself ----------------------------------------------------------------

    def _enter(self, url: str) -> Generator[Skipped, None, bool]:
        """Make a host the site, and read its robots.txt; False if nothing may be read."""
        from knowledge_bot.ingest.sources._fetching import AGENT

        self._host, self._scheme = site(url), urlsplit(url).scheme
        address = urljoin(url, "/robots.txt")
        try:
            answer = self._fetcher.follow(address, largest=LARGEST_ROBOTS + 1)
        except UnreadableError as error:
            reason = f"{error}; without it nothing may be read (RFC 9309, section 2.3.1.4)"
            yield Skipped(address, reason, invalid=True, partial=True)
            return False
        if answer is not None and answer.status >= 500:
            reason = f"its server answered {answer.status}, so nothing may be read"
            reason += " (RFC 9309, section 2.3.1.4)"
            yield Skipped(address, reason, invalid=True, partial=True)
            return False
        content = answer.body if answer is not None and answer.status == 200 else b""
        if len(content) > LARGEST_ROBOTS:
            yield Skipped(address, f"only its first {LARGEST_ROBOTS:,} bytes are read")
        self._robots = Robots(content, AGENT)
        asked = self._robots.delay or 0.0
        if asked > _LONGEST_DELAY:
            logger.warning(
                "%s asks for %g seconds between two requests; it gets %g",
                address,
                asked,
                _LONGEST_DELAY,
            )
        self._fetcher.interval = max(1 / self._site.rate, min(asked, _LONGEST_DELAY))
        return True

    def _read_sitemaps(self, url: str) -> Generator[Skipped, None, str | None]:
        """Queue the pages of the sitemaps; return the time that they give for the first page."""
        self._started = True
        if not self._site.sitemaps or self._site.depth == 0:
            return None
        guessed = urljoin(url, "/sitemap.xml")
        named = [found for each in self._robots.sitemaps if (found := cleaned(each, url))]
        modified, seen = None, set[str]()
        for address in dict.fromkeys((*named, guessed)):
            pages = sitemap_pages(
                address, self._fetcher.opened, seen=seen, on_read=self._reader.remember_list
            )
            for item in pages:
                if self._bound() or self._more:
                    return modified
                if isinstance(item, Skipped):
                    # One that never was read hid the same pages in the last run.
                    hides = item.partial and self._reader.recalled(item.name) is not None
                    if hides or guessed in named or not address == guessed == item.name:
                        yield replace(item, partial=hides)
                elif (own := self._on_site(cleaned(item.url) or "")) == url:
                    modified = item.version
                elif own is not None and self._site.takes(own):
                    yield from self._enqueue(own, _Entry(own, 1, item.version, address))
        return modified


def _hashed(url: str) -> int:
    return int.from_bytes(blake2b(url.encode(), digest_size=8).digest())
