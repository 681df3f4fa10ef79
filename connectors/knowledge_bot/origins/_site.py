"""Pages of a whole site, found by its links."""

import json
import logging
import re
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from hashlib import blake2b
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from urllib.parse import urljoin, urlsplit

from knowledge_bot._endpoints import check_number
from knowledge_bot._texts import holds_login
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest._listings import Skipped
from knowledge_bot.origins._addresses import LONGEST, cleaned, site
from knowledge_bot.origins._changes import alike
from knowledge_bot.origins._documents import UnreadableError
from knowledge_bot.origins._lists import ComparedPages
from knowledge_bot.origins._origin import (
    Memory,
    NoMemory,
    check_flag,
    is_template,
    patterns_of,
    with_patterns,
)
from knowledge_bot.origins._patterns import matching

if TYPE_CHECKING:
    from knowledge_bot.ingest._items import WebPage
    from knowledge_bot.models import Header
    from knowledge_bot.origins._fetching import PoliteFetcher
    from knowledge_bot.origins._pages import FetchedPage, Moved, PageReader

logger = logging.getLogger(__name__)

# For how long pages are looked for, in seconds, and the most bytes of a page, and in all.
_SECONDS = 21_600.0
_PAGE_BYTES, _TOTAL_BYTES = 5_000_000, 2_000_000_000
# The longest delay between two requests that a robots.txt may ask for, in seconds.
_LONGEST_DELAY = 30.0
# Unanswered requests in a row after which the rest of a site is left alone.
_FAILURES = 10
# Pages in a row with a text that another one has, whose links are still followed.
_COPIES = 3
# Runs running with a change after which a page is named, and how many are.
_ALWAYS = 5
_NAMED = 10
# The most characters of the note about a site.
_LONGEST_NOTE = 3000
# Addresses with these endings are no pages, nor documents that are read, and are not requested.
_NO_PAGE = re.compile(
    r"\.(?:7z|avi|avif|bin|bmp|bz2|css|deb|dmg|doc|eot|exe|flac|gif|gz|ico|iso|jar|jpe?g"
    r"|js|json|m4[av]|mkv|mov|mp[34]|mpe?g|msi|og[agv]|otf|png|ppt|rar|rpm|rss|svg"
    r"|tar|tgz|tiff?|ttf|wav|web[mp]|whl|wm[av]|woff2?|xz|zip|zst)$",
    re.IGNORECASE,
)


@dataclass(frozen=True, repr=False)
class Site(ComparedPages):
    """The pages of a site, found by its links and its sitemaps.

    Pages are read to find links and to compare; the service scrapes them itself. A page is named by
    its address, without fragment, tracking parameters and session id, which is its key. It is sent
    again when its main text changes, so a new banner or footer is no change, nor is the present
    date or time, or what differs between two readings of the same minute. Pages with the same text
    are one page, the first one, and a page that names another one of the site as canonical is a
    copy if nearly all of its text stands there. Only pages of the same host are read, one at a
    time, and the documents that they link to. robots.txt, `noindex` and `nofollow` are obeyed.

    Attributes:
        url: where to begin. If it redirects to the same name with or without `www.`, that is the
            site; any other host may be one to sign in at, and nothing is read there.
        name: by default the address, with the patterns of `include`.
        depth: how many links to follow from there; pages of a sitemap count as one link away.
        pages: the most addresses that are read.
        include: the pages to take, written like a `.gitignore`, for the path or for the path with
            its query: `docs/`, `*.html`. Only these and the first page are read.
        exclude: the pages to leave out, written the same way.
        ignore: a regular expression for what does not count in a main text, such as a date. A new
            one may show pages as changed, once.
        reread: whether to read all pages. Otherwise those that their servers say are unchanged are
            read once a week, since some say it of pages that changed.
        sitemaps: whether to begin with the pages of `/sitemap.xml` and of the sitemaps in
            robots.txt too.
        rate: the most requests per second; fewer if robots.txt asks for that.
        allow_private: whether a public site may lead to private addresses, by redirects or by its
            name. A site in a private network always may.
        headers: headers for reading the pages, and for the service's scraping; they are sent only
            to the host of `url`, and never shown.

    Raises:
        ConfigurationError: the address or an argument cannot be used.
    """

    url: str
    _: KW_ONLY
    depth: int = 10
    pages: int = 10_000
    include: str | Iterable[str] = ()
    exclude: str | Iterable[str] = ()
    sitemaps: bool = True
    headers: "Mapping[str, str] | Iterable[Header] | None" = field(default=None, repr=False)

    template_fields: ClassVar[tuple[str, ...]] = ("url", "name", "include", "exclude", "headers")

    def _check(self) -> None:
        super()._check()
        self._set(
            include=patterns_of("include", self.include),
            exclude=patterns_of("exclude", self.exclude),
        )
        if not is_template(self.url):
            self._set(url=self._start)
        check_number("depth", self.depth, 0, whole=True)
        check_number("pages", self.pages, 1, whole=True)
        check_flag("sitemaps", self.sitemaps)
        matching(self.include, "include")
        matching(self.exclude)
        if self.headers and not is_template(self.headers):
            _ = self._headers

    def _default_name(self) -> str:
        return with_patterns(self.url, map(str, self.include))

    @property
    def _start(self) -> str:
        """The address to begin with, in its normal form."""
        if holds_login(str(self.url)):
            raise ConfigurationError.of(
                "url", "it holds a login, which is never stored; use headers"
            )
        start = cleaned(str(self.url))
        if start is None:
            raise ConfigurationError.of(
                "url", f"{str(self.url)[:500]!r} is not an http:// or https:// address"
            )
        return start

    @property
    def _headers(self) -> tuple[tuple[str, str], ...]:
        if not self.headers:
            return ()
        from knowledge_bot._endpoints import header_list

        given: Any = self.headers
        return tuple((each["name"], each["value"]) for each in header_list(given))

    def gone_reason(self, key: str) -> str:
        """Return why the page with a key did not come."""
        return "missing" if self._taking()(key) else "excluded"

    def _taking(self) -> Callable[[str], bool]:
        """Return a function that says whether `include` and `exclude` select a page."""
        included, excluded = matching(self.include, "include"), matching(self.exclude)

        def takes(url: str) -> bool:
            parts = urlsplit(url)
            path = parts.path.removeprefix("/")
            spellings = [path, f"{path}?{parts.query}"] if parts.query else [path]
            if excluded is not None and any(map(excluded, spellings)):
                return False
            return included is None or any(map(included, spellings))

        return takes

    def headers_for(self, url: str) -> dict[str, str]:
        """Return the headers that the service sends to scrape a page; none for another host."""
        return dict(self._headers) if site(url) == site(self.url) else {}

    def items(self, memory: Memory | None = None) -> "Iterator[WebPage | Skipped]":
        """Crawl the site: yield a `WebPage` for each page, and a `Skipped` for what is left out."""
        from knowledge_bot.origins._fetching import PoliteFetcher
        from knowledge_bot.origins._pages import PageReader
        from knowledge_bot_web.kinds import is_linked_document

        memory = memory or NoMemory()
        fetcher = PoliteFetcher(
            self._start, self.rate, allow_private=self.allow_private, headers=self._headers
        )
        reader = PageReader(
            fetcher,
            memory=memory,
            largest=_PAGE_BYTES,
            also=lambda answer: is_linked_document(answer.kind, answer.filename),
            ignore=self.ignore,
            reread=self.reread,
        )
        with closing(fetcher):
            yield from _Crawl(self, fetcher, reader, memory).run()


class _Note(NamedTuple):
    """What is noted of a site between runs.

    Attributes:
        at: when the last crawl that saw all of it ended, in seconds since 1970. Pages that were
            read after that are read again, since their links may not have been followed.
        lists: the sitemaps that were read; None: too many to be noted.
        again: pages that could not be read, and are not known.
    """

    at: float = 0
    lists: tuple[str, ...] | None = ()
    again: tuple[str, ...] = ()

    @classmethod
    def of(cls, note: str | None) -> "_Note":
        try:
            at, lists, again = json.loads(note or "")
            return cls(at, lists if lists is None else tuple(lists), tuple(again))
        except (ValueError, TypeError):
            return cls()

    def packed(self) -> str:
        """Return it as a text that is short enough."""
        for each in (self, self._replace(lists=None), _Note(0, None)):
            if len(text := json.dumps(each)) <= _LONGEST_NOTE:
                return text
        raise AssertionError("the last one is short")


class _Entry(NamedTuple):
    """An address that waits to be read.

    Attributes:
        url: the address.
        depth: how many links lead to it.
        linked_from: the page that links to it.
        via: the addresses that redirected here.
        copies: how many pages in a row before it have a text that another page has.
        asked_at: the address to request, if the server insists on another spelling.
    """

    url: str
    depth: int
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

    A page whose server says that it is unchanged is not read, so its links are not known: it is
    quiet. If at the end a page of before was not met, quiet ones are read after all, until it is.

    No more addresses are queued than may still be read, and each one seen is kept as a hash of
    eight bytes, so the memory is bounded whatever the site links to. Of each page that is read, the
    blocks of its text are kept; one that is perhaps a copy waits for the end of the crawl.
    """

    def __init__(
        self, of: Site, fetcher: "PoliteFetcher", reader: "PageReader", memory: Memory
    ) -> None:
        from knowledge_bot.origins._pages import Known
        from knowledge_bot_web.robots import Robots

        self._site, self._fetcher, self._reader, self._memory = of, fetcher, reader, memory
        self._takes = of._taking()  # noqa: SLF001 - its own
        self._robots = Robots(b"", "")
        self._note = _Note.of(memory.note)
        reader.trusted = self._note.at
        # What is known of the pages of before, and which of them has a text.
        self._known: dict[str, Known] = {
            key: known for key, version in memory.entries() if (known := Known.of(version))
        }
        self._first = {each.text: key for key, each in self._known.items() if each.text}
        self._quiet: deque[_Entry] = deque()
        self._lists: list[str] = []
        self._again: list[str] = []  # what could not be read, and is not known
        self._failed = False  # something that was known could not be read
        self._gates: dict[str, str] = {}  # what pages ask for to which others may redirect
        self._is_cut_short = False  # by a bound of its own
        # Of the pages of before that are still taken: how many there are, and how many came.
        self._before = sum(map(self._takes, self._known))
        self._met = 0
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

    def run(self) -> "Iterator[WebPage | Skipped]":
        """Yield what is found; what is new or changed waits until the site is surely itself.

        Where a page of maintenance stands at its address, or one to sign in, the pages of before
        are missing, and no text of theirs may be replaced by that.
        """
        waiting: list[WebPage] = []
        for item in self._crawled():
            key = item.name if isinstance(item, Skipped) else item.url
            known = self._known.get(key)
            if known is not None and self._takes(key):
                self._met += not isinstance(item, Skipped) or item.gone == "excluded"
            if isinstance(item, Skipped) or (known and known.digest == item.digest):
                yield item
            else:
                waiting.append(item)
            if waiting and self._is_itself():
                yield from waiting
                waiting.clear()
        if self._is_cut_short:  # too little was seen to say so
            yield from waiting
            return
        missing = f"{self._before - self._met} of {self._before} pages of before did not come"
        reason = f"it is new or changed, and waits: {missing}; gone_limit=1 takes that for right"
        for page in waiting:
            yield Skipped(page.url, reason, invalid=True, gone="unread")

    def _is_itself(self) -> bool:
        """Return whether enough pages of before came by now."""
        return self._before - self._met <= self._memory.gone_limit * self._before

    def _crawled(self) -> "Iterator[WebPage | Skipped]":
        start = self._site._start  # noqa: SLF001 - its own
        if not (yield from self._enter(start)):
            return
        yield from self._enqueue(start, _Entry(start, 0))
        if not self._waiting:
            yield from self._read_sitemaps(start)
        for url in self._note.again:
            yield from self._enqueue(url, _Entry(url, 1))
        while not self._bound() and (self._waiting or (yield from self._look_further())):
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
            self._is_cut_short = True
            yield Skipped(start, f"the crawl ended early: {reason}; there are more", partial=True)
            return
        if self._deeper:
            yield Skipped(start, f"pages more than {self._site.depth} links away were not read")
        if self._is_itself():
            noted = _Note(time.time(), tuple(self._lists), tuple(self._again))
            self._memory.note = noted.packed()

    def _look_further(self) -> Generator[Skipped, None, bool]:
        """Look for pages of before that were not met; return whether one waits to be read."""
        from knowledge_bot.origins._pages import FetchedPage

        unmet = [url for url in self._known if _hashed(url) not in self._seen]
        while unmet and self._quiet and not self._waiting:
            entry = self._quiet.popleft()
            self._read += 1
            found = yield from self._attempt(entry, whole=True)
            if isinstance(found, FetchedPage) and found.links is not None:
                yield from self._follow(entry, found.links)
        if not self._waiting and self._failed:  # whose links are not known
            for url in unmet:
                yield from self._enqueue(url, _Entry(url, 1))
        return bool(self._waiting)

    # One address ----------------------------------------------------------------------------------

    def _visit(self, entry: _Entry) -> "Iterator[WebPage | Skipped]":
        from knowledge_bot.origins._pages import Moved

        self._read += 1
        found = yield from self._attempt(entry)
        if isinstance(found, Moved) and (yield from self._move(entry, found)):
            return
        if not self._started:
            yield from self._read_sitemaps(entry.url)
        if found is not None and not isinstance(found, Moved):
            yield from self._take(entry, found)

    def _attempt(
        self, entry: _Entry, *, whole: bool = False
    ) -> "Generator[Skipped, None, FetchedPage | Moved | None]":
        from knowledge_bot.origins._fetching import UnreachableError
        from knowledge_bot.origins._pages import NoPageError

        unanswered, self._unanswered = self._unanswered, 0
        try:
            return self._reader.read(entry.url, entry.asked_at, whole=whole)
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
        """Skip a page that cannot be read; what it linked to is looked for at the end.

        It hides nothing else: a page of which nothing is known hid the same in the last run.
        """
        first = entry.depth == 0
        yield Skipped(
            entry.url, reason, invalid=failed or first, partial=first, gone=gone or "unread"
        )
        if not gone and entry.url in self._known:
            self._failed = True
        elif not gone:
            self._again.append(entry.url)

    def _move(self, entry: _Entry, moved: "Moved") -> Generator[Skipped, None, bool]:
        """Follow a redirect; return whether there is an address to follow."""
        address, first = moved.address, entry.depth == 0
        reason = self._not_followed(entry, moved)
        if reason or address is None:
            gone = "unread" if first else "excluded"
            yield Skipped(entry.url, reason, invalid=first, partial=first, gone=gone)
            return False
        if address in self._gates:
            yield self._barred(entry, self._gates[address])
            return False
        via = (*entry.via, entry.url)
        if address == entry.url:  # the server insists on a session, or on another spelling
            self._waiting.appendleft(entry._replace(asked_at=moved.to, via=via))
            return True
        there = site(address), urlsplit(address).scheme
        is_new = not self._started and there != (self._host, self._scheme)
        if is_new and not (yield from self._enter(address)):
            self._started = True  # and there is nothing to read
            return False
        next_one = entry._replace(url=address, asked_at=None, via=via)
        yield from self._enqueue(next_one.url, next_one, at_once=True)
        return bool(self._waiting) and self._waiting[0] is next_one

    def _not_followed(self, entry: _Entry, moved: "Moved") -> str:
        """Return why a redirect is not followed; empty if it is."""
        from knowledge_bot_web.fetching import REDIRECTS

        address = moved.address
        if address is None:
            return f"it redirects to {moved.to[:500]}, which is not a web page"
        if len(entry.via) >= REDIRECTS:
            return f"it redirects more than {REDIRECTS} times"
        is_other_spelling = moved.to not in (entry.url, entry.asked_at)
        if address in entry.via or (address == entry.url and not is_other_spelling):
            return "it redirects in a circle"
        bare = site(address).removeprefix("www.")
        if not self._started and bare != self._host.removeprefix("www."):
            return f"it redirects to another site, {address}; begin there, if that is meant"
        if self._started and site(address) != self._host:
            return f"it redirects to another site, {address}"
        left_out = self._started and address != entry.url and not self._takes(address)
        return f"it redirects to {address}, which is left out" if left_out else ""

    def _take(self, entry: _Entry, page: "FetchedPage") -> "Iterator[WebPage | Skipped]":
        """Yield a page that was read, or why it is left out, and queue its links."""
        known, copies = page.known, 0
        other = self._on_site(page.canonical or "") or ""
        before = self._first.get(known.text or "", "") if entry.url not in self._known else ""
        if skipped := list(self._says_nothing(entry, page)):
            yield from skipped
        elif other not in ("", entry.url, *entry.via) and self._takes(other):
            self._held.append(_Held(entry, page, other, stated=True))
        elif not self._takes(entry.url):
            pass
        elif before and before not in self._taken and self._takes(before):
            other, copies = before, entry.copies + 1
            self._held.append(_Held(entry, page, other, stated=False))
        else:
            first = self._texts.setdefault(known.text or entry.url, entry.url)
            copies = 0 if first == entry.url else entry.copies + 1
            yield self._page(entry, page) if first == entry.url else self._copy(entry, first)
        if page.links is None:
            self._quiet.append(entry)
        elif copies <= _COPIES:
            yield from self._follow(entry, page.links, copies)
        if self._held and self._held[-1].entry is entry:
            yield from self._enqueue(other, _Entry(other, entry.depth, entry.url))

    def _says_nothing(self, entry: _Entry, page: "FetchedPage") -> Iterator[Skipped]:
        """Skip a page that cannot be sent, or that is not what its address stands for."""
        first, links = entry.depth == 0, page.links or ()
        if page.gate:
            self._gates[entry.url] = page.gate
        if page.cut and not page.is_document:
            reason = f"it is larger than {_PAGE_BYTES:,} bytes"
            yield from self._unread(entry, reason, "", failed=True)
        elif page.hollow:
            yield from self._unread(entry, page.hollow, "", failed=True)
        elif page.gate and (entry.via or (first and not self._leads_on(links))):
            for url in (*entry.via, entry.url):
                yield self._barred(entry._replace(url=url), page.gate)
        elif page.is_empty:
            nothing = first and not links
            wrong, gone = nothing or entry.url in self._known, "unread" if nothing else "excluded"
            yield Skipped(entry.url, "there is no text in it", wrong, partial=nothing, gone=gone)
        elif page.noindex:
            yield Skipped(entry.url, "it asks not to be indexed", gone="excluded")

    def _leads_on(self, links: Iterable[str]) -> bool:
        """Return whether there is more than the first page."""
        on_site = filter(None, map(self._on_site, links))
        return bool(self._waiting) or any(_hashed(link) not in self._seen for link in on_site)

    def _barred(self, entry: _Entry, gate: str) -> Skipped:
        """Skip a page in whose place another one asks for something."""
        first = entry.depth == 0
        known = entry.url in self._known
        return Skipped(entry.url, gate, invalid=first or known, partial=first, gone="unread")

    def _page(self, entry: _Entry, page: "FetchedPage") -> "WebPage":
        known = page.known
        self._taken[entry.url] = known.text, page.blocks
        if known.changes >= _ALWAYS:
            self._always.append(entry.url)
        return page.item(entry.url, headers=self._site.headers_for(entry.url))

    def _copy(self, entry: _Entry, of: str) -> Skipped:
        """Skip a page with the text of another; what was sent of it before is gone."""
        gone = "" if entry.url in self._known else "excluded"
        return Skipped(entry.url, f"it has the same text as {of}", gone=gone)

    def _let_go(self) -> "Iterator[WebPage | Skipped]":
        """Yield the pages that may be copies of others, now that those were read."""
        left = {each.entry.url: each.page for each in self._held}
        for entry, page, other, stated in self._held:
            known = left.pop(entry.url).known
            text, blocks = self._taken.get(other, ("", ()))
            if (there := left.get(other)) is not None:
                text, blocks = there.known.text, there.blocks
            elif stated and text and not blocks:  # it was quiet
                blocks = self._blocks_of(other)
            if (text and text == known.text) or (stated and alike(page.blocks, blocks)):
                yield self._copy(entry, other)
            elif (first := self._texts.setdefault(known.text or entry.url, entry.url)) != entry.url:
                yield self._copy(entry, first)
            else:
                yield self._page(entry, page)

    def _blocks_of(self, url: str) -> tuple[str, ...]:
        from knowledge_bot.origins._pages import NoPageError

        with suppress(UnreadableError, NoPageError):
            found = self._reader.read(url, whole=True)
            return getattr(found, "blocks", ())
        return ()

    def _follow(self, entry: _Entry, links: Iterable[str], copies: int = 0) -> Iterator[Skipped]:
        for link in links:
            if (own := self._on_site(link)) is not None and self._takes(own):
                next_one = _Entry(own, entry.depth + 1, entry.url, copies=copies)
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
        if monotonic() - self._began >= _SECONDS:
            return f"it took {_SECONDS:g} seconds"
        if self._fetcher.received >= _TOTAL_BYTES:
            return f"{self._fetcher.received:,} bytes were read"
        return ""

    # What a site says about itself ----------------------------------------------------------------

    def _enter(self, url: str) -> Generator[Skipped, None, bool]:
        """Make a host the site, and read its robots.txt; False if nothing may be read."""
        from knowledge_bot.origins._fetching import AGENT
        from knowledge_bot_web.robots import LARGEST as LARGEST_ROBOTS
        from knowledge_bot_web.robots import Robots

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

    def _read_sitemaps(self, url: str) -> Iterator[Skipped]:
        """Queue the pages of the sitemaps."""
        self._started = True
        if not self._site.sitemaps or self._site.depth == 0:
            return
        guessed = urljoin(url, "/sitemap.xml")
        named = [found for each in self._robots.sitemaps if (found := cleaned(each, url))]
        seen, known = set[str](), self._note.lists
        from knowledge_bot.origins._sitemap import sitemap_pages

        for address in dict.fromkeys((*named, guessed)):
            pages = sitemap_pages(
                address, self._fetcher.document, seen=seen, on_read=self._lists.append
            )
            for item in pages:
                if self._bound() or self._more:
                    return
                if isinstance(item, Skipped):
                    # One that never was read hid the same pages in the last run.
                    hides = item.partial and (known is None or item.name in known)
                    if hides or guessed in named or not address == guessed == item.name:
                        yield replace(item, partial=hides)
                elif (own := self._on_site(cleaned(item.url) or "")) and self._takes(own):
                    yield from self._enqueue(own, _Entry(own, 1, address))


def _hashed(url: str) -> int:
    return int.from_bytes(blake2b(url.encode(), digest_size=8).digest())
