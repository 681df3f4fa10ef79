"""What an item says, as far as it can be read here: texts, files of text, and pages of HTML."""

import codecs
import contextlib
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from knowledge_bot.ingest._items import File, Item, Text, WebPage
from knowledge_bot.origins._documents import UnreadableError

if TYPE_CHECKING:
    from knowledge_bot.origins._fetching import PoliteFetcher

_LARGEST = 5_000_000  # bytes that are read of a file or a page
_RATE = 2.0  # pages a second

_PAGES = ("", "text/html", "application/xhtml+xml")
# Kinds that read as they are written; other texts, such as tables, a service shows otherwise.
_AS_WRITTEN = (None, "markdown", "text")


class TextReader:
    """Reads the items of an origin, one after the other; pages slowly, as the origin does."""

    def __init__(self, origin: object) -> None:
        self._origin: Any = origin
        self._fetcher: PoliteFetcher | None = None

    def close(self) -> None:
        """Close the connections."""
        if self._fetcher is not None:
            self._fetcher.close()

    def text(self, item: Item) -> str | None:
        """Return what an item says; None where that is not a kind of text.

        Raises:
            OSError: the file cannot be read.
            UnreadableError: the page cannot.
        """
        if isinstance(item, Text):
            return item.content
        if isinstance(item, WebPage):
            return self._of_page(item)
        from knowledge_bot_web.kinds import BY_SUFFIX

        suffix = PurePath(item.path).suffix.lower()
        kind = "xml" if suffix == ".svg" else BY_SUFFIX.get(suffix)
        content = _content(item)
        if kind == "html":
            return _of_html(content)
        is_marked = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        if (
            kind not in _AS_WRITTEN
            or content.startswith(b"%PDF")
            or (b"\0" in content and not is_marked)
        ):
            return None
        return _decoded(content)

    def _of_page(self, page: WebPage) -> str | None:
        from knowledge_bot.origins._fetching import PoliteFetcher

        origin, start = self._origin, page.url
        start = str(getattr(origin, "url", None) or getattr(origin, "address", start))
        if self._fetcher is None:
            self._fetcher = PoliteFetcher(
                start,
                getattr(origin, "rate", _RATE),
                allow_private=bool(getattr(origin, "allow_private", False)),
            )
        if start == page.url:
            self._fetcher.begin_at(start)
        headers = [(name, value.get_secret_value()) for name, value in page.headers]
        answer = self._fetcher.get(page.url, headers=headers, largest=_LARGEST)
        if answer.location is not None:
            answer = self._fetcher.follow(answer.location, largest=_LARGEST) or answer
        if answer.status != 200:
            raise UnreadableError(f"its server answered {answer.status}")
        return _of_html(answer.body) if answer.kind in _PAGES else None


def _content(file: File) -> bytes:
    if file.open is None:
        with open(file.path, "rb") as stream:  # noqa: PTH123 - as when it is sent
            return stream.read(_LARGEST)
    with contextlib.closing(file.open()) as stream:
        return stream.read(_LARGEST)


def _of_html(content: bytes) -> str:
    from knowledge_bot_web.charsets import declared_in
    from knowledge_bot_web.html import PageError, main_texts, parsed

    page = _decoded(content, *declared_in(content))
    try:
        return "\n\n".join(main_texts(page, parsed(page, deep=True)))
    except PageError as error:
        raise UnreadableError(str(error)) from None


def _decoded(content: bytes, *declared: str) -> str:
    from knowledge_bot_web.charsets import decoded

    return decoded(content, declared, guess=False)[0]
