"""Pages of a list: a sitemap, a feed, or addresses in lines."""

import hashlib
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from knowledge_bot._endpoints import check_number
from knowledge_bot._texts import holds_login
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest._listings import Skipped
from knowledge_bot.origins._lines import OfLines
from knowledge_bot.origins._origin import (
    Memory,
    NoMemory,
    Origin,
    check_expression,
    check_flag,
    is_template,
    is_web_address,
    skipped_address,
    to_the_end,
)

if TYPE_CHECKING:
    from knowledge_bot.ingest._items import WebPage
    from knowledge_bot.origins._pages import FetchedPage, PageReader

logger = logging.getLogger(__name__)

# Days after which a page of a list is read again that its list says did not change.
_DAYS = 8
# Bytes that are read of a page.
_LARGEST = 5_000_000
# Unanswered requests in a row after which the other pages of a host are left alone.
_FAILURES = 10


@dataclass(frozen=True, repr=False)
class ComparedPages(Origin):
    """Pages that are read, if that is wanted, to see whether they changed.

    Attributes:
        ignore: a regular expression for what does not count in a main text.
        reread: whether to read pages that their servers say are unchanged.
        rate: the most requests per second.
        allow_private: whether public pages may lead to private addresses.
    """

    _: KW_ONLY
    ignore: str | None = None
    reread: bool = False
    rate: float = 2.0
    allow_private: bool = False

    def _check(self) -> None:
        super()._check()
        check_number("rate", self.rate, 0.001)
        check_flag("allow_private", self.allow_private)
        check_flag("reread", self.reread)
        check_expression("ignore", self.ignore)

    def _compared(
        self, pages: "Iterator[WebPage | Skipped]", named_by: str, memory: Memory | None
    ) -> "Iterator[WebPage | Skipped]":
        """Yield pages with their versions, each once it was read.

        `named_by` is the address of the list; what stands in the caller's own file or list is as
        good as given by the caller.
        """
        with self._reading(named_by, memory or NoMemory()) as compared:
            for page in pages:
                yield page if isinstance(page, Skipped) else compared(page)

    @contextmanager
    def _reading(
        self, named_by: str, memory: Memory
    ) -> "Iterator[Callable[[WebPage], WebPage | Skipped]]":
        """Return what reads a page."""
        from knowledge_bot.origins._fetching import PoliteFetcher
        from knowledge_bot.origins._pages import PageReader

        fetcher = PoliteFetcher(named_by, self.rate, allow_private=self.allow_private)
        reader = PageReader(
            fetcher,
            memory=memory,
            largest=_LARGEST,
            also=lambda _: True,
            ignore=self.ignore,
            reread=self.reread,
        )
        unanswered = Counter[str]()

        def compared(page: "WebPage") -> "WebPage | Skipped":
            if not named_by:
                fetcher.begin_at(page.url)
            return _compared(page, reader, unanswered)

        with closing(fetcher):
            yield compared


@dataclass(frozen=True, repr=False)
class _ListedPages(ComparedPages):
    """A document that lists pages."""

    address: str
    _: KW_ONLY
    compare: Literal["content", "lastmod"] = "lastmod"

    template_fields: ClassVar[tuple[str, ...]] = ("address", "name")

    def _check(self) -> None:
        super()._check()
        _check_way(self.compare, "lastmod")
        if isinstance(self.address, os.PathLike):
            self._set(address=os.fspath(self.address))
        given: object = self.address
        if is_template(given):
            return
        if not isinstance(given, str) or not given.strip():
            raise ConfigurationError.of("address", f"expected an address or a path, not {given!r}")
        if holds_login(given):
            raise ConfigurationError.of("address", "it holds a login, which is never stored")
        if "://" in given and not is_web_address(given):
            raise ConfigurationError.of("address", f"{given} is not an http:// or https:// address")

    def _default_name(self) -> str:
        is_address = is_template(self.address) or is_web_address(self.address)
        return self.address if is_address else os.path.abspath(self.address)  # noqa: PTH100 - no IO

    def items(self, memory: Memory | None = None) -> "Iterator[WebPage | Skipped]":
        """Yield a `WebPage` for each page, and a `Skipped` for what cannot be read."""
        is_address = is_web_address(self.address)
        if not is_address and not Path(self.address).is_file():
            raise ConfigurationError.of("address", f"there is no file {self.address}")
        named_by = self.address if is_address else ""
        with_versions = self._believed if self.compare == "lastmod" else self._compared
        return with_versions(self._pages(), named_by, memory or NoMemory())

    def _believed(
        self, pages: "Iterator[WebPage | Skipped]", named_by: str, memory: Memory
    ) -> "Iterator[WebPage | Skipped]":
        """Yield pages by the times that the list gives; each is read every eighth day all the same.

        A page that changed while its time did not is sent, named, and read in each run after that.
        """
        from knowledge_bot.origins._pages import Known

        with self._reading(named_by, memory) as compared:
            for page in pages:
                if isinstance(page, Skipped) or page.version is None:
                    yield page
                    continue
                stated, said = page.version, memory.recall(page.url)
                before = Known.of(said)
                if before is None or (before.modified != stated and not before.lies):
                    yield page
                elif self.reread or before.lies or _is_due(page.url, before.read_at):
                    read = Known.of(getattr(compared(page), "version", None)) or before
                    is_other = stated == before.modified and read.digest != before.digest
                    if is_other and not before.lies:
                        logger.warning("%s changed; its time in %s did not", page.url, self.name)
                    digest = read.digest if stated == before.modified else stated
                    lies = before.lies or is_other
                    known = replace(read, digest=digest, modified=stated, lies=lies)
                    yield page.model_copy(update={"version": known.version, "digest": digest})
                else:
                    yield page.model_copy(update={"version": said, "digest": before.digest})

    def _pages(self) -> "Iterator[WebPage | Skipped]":
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class Sitemap(_ListedPages):
    """The pages of a sitemap, and of the sitemaps that it names.

    A page is named by its address. Sitemaps may be compressed. They are fetched without the API
    key. One over 50 MiB, or with entity declarations, is not read. A public one does not lead to
    private addresses.

    Attributes:
        address: the sitemap's `https://` address, or the path of a file.
        name: by default the same.
        compare: what a change of a page is seen by: the `lastmod` in the sitemap (`lastmod`), or
            the page's main text (`content`; each page is read, as by `Site`). What did not change
            by its `lastmod` is read every eighth day; later changes of a page without one are not
            seen.
        ignore: what does not count in a main text, and
        reread: whether to read pages that their servers say are unchanged; see `Site`.
        rate: the most pages read per second.
        allow_private: whether a public sitemap or page may lead to private addresses.

    Raises:
        ConfigurationError: an argument cannot be used; from `items`, that there is no such file.
    """

    def _pages(self) -> "Iterator[WebPage | Skipped]":
        from knowledge_bot.origins._fetching import opening
        from knowledge_bot.origins._sitemap import sitemap_pages

        with opening(self.address, allow_private=self.allow_private) as open_document:
            yield from sitemap_pages(self.address, open_document)


@dataclass(frozen=True, repr=False)
class Feed(_ListedPages):
    """The pages that a feed links to (RSS, Atom, RDF or JSON Feed), in its order.

    A page is named by its title. The feed is fetched without the API key. One over 50 MiB, or with
    entity declarations, is not read. Its old entries are not gone.

    Attributes:
        address: the feed's `https://` address, or the path of a file.
        name: by default the same.
        compare: what a change of a page is seen by: the time in the feed (`lastmod`), or the page's
            main text (`content`; each page is read, as by `Site`). What did not change by its time
            is read every eighth day; later changes of a page without one are not seen.
        ignore: what does not count in a main text, and
        reread: whether to read pages that their servers say are unchanged; see `Site`.
        rate: the most pages read per second.
        allow_private: whether a public feed or page may lead to private addresses.

    Raises:
        ConfigurationError: an argument cannot be used; from `items`, that there is no such file.
    """

    @property
    def whole(self) -> bool:
        """False: a feed has its latest entries only."""
        return False

    remembers: ClassVar[bool] = True

    def _pages(self) -> "Iterator[WebPage | Skipped]":
        from knowledge_bot.origins._feed import feed_pages

        return feed_pages(self.address, allow_private=self.allow_private)


@dataclass(frozen=True, repr=False)
class Urls(OfLines, ComparedPages):
    """The pages of a list with one address per line; a page is named by its address.

    Empty lines and lines that begin with `#` are left out. A line that is not a web address, or
    cannot be read, is a `Skipped`.

    Attributes:
        source: a path, `-` for standard input, an open file, or the addresses themselves.
        name: by default the file's path. Without one, nothing of a pipe or a list is ever gone.
        compare: what a change of a page is seen by: its main text (`content`), for which it is
            read, as by `Site`. By default no page is read, and later changes are not seen.
        ignore: what does not count in a main text, and
        reread: whether to read pages that their servers say are unchanged; see `Site`.
        rate: the most pages read per second.
        allow_private: whether a public page may redirect to a private address.

    Raises:
        ConfigurationError: an argument cannot be used; from `items`, that the file cannot be
            opened, or that the lines can be read only once and have been.
    """

    _: KW_ONLY
    compare: Literal["content"] | None = None

    def _check(self) -> None:
        super()._check()
        _check_way(self.compare, None)

    def items(self, memory: Memory | None = None) -> "Iterator[WebPage | Skipped]":
        """Yield a `WebPage` for each line."""
        pages = to_the_end(self._pages(self._numbered()), self._label)
        return pages if self.compare is None else self._compared(pages, "", memory)

    def _pages(self, lines: Iterator[tuple[int, bytes]]) -> "Iterator[WebPage | Skipped]":
        from knowledge_bot.ingest._items import WebPage

        for number, line in lines:
            address = line.decode("utf-8", "replace").strip()
            if not address.startswith("#"):
                wrong = skipped_address(address, f"{self._label}, line {number}")
                # Which page it was, nobody can tell, so none of before is gone.
                yield replace(wrong, partial=True) if wrong else WebPage(name=address, url=address)


def _check_way(given: object, other: str | None) -> None:
    if given not in ("content", other):
        raise ConfigurationError.of("compare", f"expected 'content' or {other!r}, not {given!r}")


def _is_due(url: str, read_at: int) -> bool:
    """Return whether a page is read today, whatever is said of it.

    For the first time on one day of eight, and on another of the next eight: a run may skip days.
    """
    today = int(time.time() // 86_400)
    if read_at:
        return today - read_at // 86_400 >= _DAYS
    eight, day = divmod(today, _DAYS)
    return hashlib.sha256(f"{eight} {url}".encode()).digest()[0] % _DAYS == day


def _compared(
    page: "WebPage", reader: "PageReader", unanswered: Counter[str]
) -> "WebPage | Skipped":
    """Return a page with its version, or a `Skipped` with the reason why it cannot be read.

    Without its version the page would count as changed, so it is not sent.
    """
    from knowledge_bot.origins._addresses import site
    from knowledge_bot.origins._documents import UnreadableError
    from knowledge_bot.origins._fetching import UnreachableError
    from knowledge_bot.origins._pages import NoPageError

    host = site(page.url)
    if unanswered[host] >= _FAILURES:
        reason = f"it was not read, since {_FAILURES} requests in a row to its host had no answer"
        return Skipped(page.url, reason, invalid=True, gone="unread")
    before, unanswered[host] = unanswered[host], 0
    try:
        found, is_first = _followed(page.url, reader)
        if reason := found.hollow or ("" if is_first else found.gate):
            raise NoPageError(reason)
        return found.item(page.url, page.name)
    except NoPageError as error:
        return Skipped(page.url, str(error), invalid=True, gone=error.gone or "unread")
    except UnreadableError as error:
        if isinstance(error, UnreachableError):
            unanswered[host] = before + 1
        return Skipped(page.url, str(error), invalid=True, gone="unread")


def _followed(url: str, reader: "PageReader") -> "tuple[FetchedPage, bool]":
    """Return a page, following redirects, and whether there was none.

    What is remembered is the first address's.
    """
    from knowledge_bot.origins._pages import Moved, NoPageError
    from knowledge_bot_web.fetching import REDIRECTS

    at: Any = None
    for _ in range(REDIRECTS + 1):
        found = reader.read(url, at)
        if not isinstance(found, Moved):
            return found, at is None
        at = found.to
    raise NoPageError(f"it redirects more than {REDIRECTS} times")
