"""Fetches politely: slowly, with patience for a busy server, and through the user's proxy.

The addresses come from strangers, so a public site cannot lead to private ones; `knowledge_bot_web`
sees to that, and to the bounds of each answer.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

import httpcore

from knowledge_bot import __version__
from knowledge_bot._responses import retry_after_seconds
from knowledge_bot._retries import seconds_to_wait
from knowledge_bot._transports import Proxy, proxy_for, ssl_context
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.origins._documents import TOO_LARGE, Opening, UnreadableError, unpacked
from knowledge_bot.origins._origin import is_web_address
from knowledge_bot_web.errors import FetchError, NoAnswerError
from knowledge_bot_web.fetching import REDIRECTS, Fetcher, FetchPolicy, Headers, WebResponse
from knowledge_bot_web.networks import ANYWHERE, is_public, resolve, resolve_within
from knowledge_bot_web.targets import Target

AGENT = "knowledge-bot"
"""The name of this crawler in a robots.txt."""

_SILENCE = 30.0
# Seconds that one answer may take in all, however steadily its bytes arrive.
_LONGEST_ANSWER = 120.0
_ATTEMPTS = 3
_BACKOFF = 2.0  # seconds before the second attempt, twice as many before the third
_LONGEST_WAIT = 120.0
_TRY_AGAIN = (429, 502, 503, 504)
# The most documents fetched per second, such as the sitemaps of a sitemap index.
_DOCUMENTS = 20.0


class UnreachableError(UnreadableError):
    """A server that did not answer, or asked to be left alone for now."""


class PoliteFetcher:
    """Fetches one address after the other, and keeps connections open.

    Attributes:
        interval: seconds from one request to the next.
    """

    def __init__(
        self, start: str, rate: float, *, allow_private: bool, headers: Headers = ()
    ) -> None:
        self.interval = 1 / rate
        self._headers, self._always = tuple(headers), allow_private
        self._next = 0.0
        self._fetchers: dict[tuple[Proxy | None, bool], Fetcher] = {}
        self._start: Target | None = None
        self._allow_private: bool | None = None
        self.begin_at(start)

    @property
    def received(self) -> int:
        """How many bytes were received."""
        return sum(fetcher.received for fetcher in self._fetchers.values())

    def begin_at(self, start: str) -> None:
        """Trust an address as given by a person: if it is private, it may lead to private ones."""
        before, self._start = self._start, None
        with suppress(UnreadableError):  # which is told when it is fetched
            self._start = _target(start)
        if before is None or self._start is None or before.host != self._start.host:
            self._allow_private = self._always or None

    def close(self) -> None:
        """Close the connections."""
        for fetcher in self._fetchers.values():
            fetcher.close()

    def get(
        self,
        url: str,
        *,
        headers: Headers = (),
        largest: int,
        wanted: Callable[[WebResponse], bool] = lambda answer: answer.status == 200,
    ) -> WebResponse:
        """Fetch an address, with patience; the arguments are those of `Fetcher.get`.

        Raises:
            UnreachableError: the server cannot be reached, or is too busy.
            UnreadableError: its address is not allowed, or its answer cannot be read.
        """
        target = _target(url)
        own = self._headers if self._start and target.takes_headers_of(self._start) else ()
        sent = (("User-Agent", f"{AGENT}/{__version__}"), *own, *headers)
        reason, pause = "", 0.0
        for attempt in range(_ATTEMPTS):
            if attempt:
                sleep(seconds_to_wait(pause))
            pause = _BACKOFF * 2**attempt
            fetcher = self._fetcher(target)
            self._wait()
            try:
                answer = fetcher.get(target, sent, wanted=wanted, largest=largest)
            except NoAnswerError as error:
                reason = str(error)
                if not error.may_pass:
                    break
            except FetchError as error:
                raise UnreadableError(str(error)) from None
            else:
                if answer.status not in _TRY_AGAIN:
                    return answer
                reason = f"its server answered {answer.status}"
                asked = retry_after_seconds(answer.first("retry-after"))
                if asked is not None and asked > _LONGEST_WAIT:
                    raise UnreachableError(f"{reason}, and to try again in {asked:.0f} seconds")
                pause = max(pause, asked or 0.0)
        raise UnreachableError(reason)

    def follow(self, url: str, *, largest: int) -> WebResponse | None:
        """Fetch an address and follow its redirects, to any host; None if there are too many.

        Raises:
            UnreadableError: as by `get`.
        """
        for _ in range(REDIRECTS + 1):
            answer = self.get(url, largest=largest)
            if answer.location is None:
                return answer
            url = answer.location
        return None

    def document(self, url: str) -> bytes:
        """Fetch a document, following redirects, and unpack it.

        Raises:
            UnreadableError: it cannot be fetched, or is larger than `TOO_LARGE`.
        """
        answer = self.follow(url, largest=TOO_LARGE + 1)
        if answer is None:
            raise UnreadableError("it redirects too often")
        if answer.status != 200:
            raise UnreadableError(f"its server answered {answer.status}")
        return unpacked(answer.body)

    def _wait(self) -> None:
        now = monotonic()
        if now < self._next:
            sleep(self._next - now)
        self._next = monotonic() + self.interval

    def _fetcher(self, target: Target) -> Fetcher:
        """The fetcher for an address, by the proxy before it and by where it may lead."""
        if self._allow_private is None:
            self._allow_private = self._start is not None and _is_private(self._start)
        try:
            proxy = proxy_for(target.full)
        except ConfigurationError as error:
            raise UnreadableError(str(error)) from error
        if (proxy, self._allow_private) not in self._fetchers:
            self._fetchers[proxy, self._allow_private] = Fetcher(
                FetchPolicy(
                    allow=ANYWHERE if self._allow_private else (),
                    advice="; allow_private allows it",
                    timeout=_LONGEST_ANSWER,
                    silence=_SILENCE,
                ),
                ssl_context=ssl_context(verify=True),
                proxy=httpcore.Proxy(proxy.url, auth=proxy.login) if proxy else None,
            )
        return self._fetchers[proxy, self._allow_private]


@contextmanager
def opening(start: str, *, allow_private: bool) -> Iterator[Opening]:
    """Read documents by their `http(s)://` addresses or paths.

    They are fetched without the API key, and redirects are followed. If the first one is public, no
    private one is read, unless that is allowed.
    """
    named_by = start if is_web_address(start) else ""
    allowed = allow_private or not named_by  # the caller's own file may name any address
    with closing(PoliteFetcher(named_by, _DOCUMENTS, allow_private=allowed)) as fetcher:
        yield lambda address: fetcher.document(address) if _is_fetched(address) else _file(address)


def _is_fetched(address: str) -> bool:
    return address.lower().startswith(("http://", "https://"))


def _file(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return unpacked(file.read(TOO_LARGE + 1))
    except OSError as error:
        raise UnreadableError(f"it cannot be read: {error.strerror or error}") from error


def _target(url: str) -> Target:
    try:
        return Target.parse(url.strip().replace(" ", "%20"))
    except FetchError as error:
        raise UnreadableError(str(error)) from None


def _is_private(start: Target) -> bool:
    try:
        addresses = resolve_within(resolve, start.host, start.port, _SILENCE)
    except (OSError, ValueError):
        return False
    return not all(map(is_public, addresses))
