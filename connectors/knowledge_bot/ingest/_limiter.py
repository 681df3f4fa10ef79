"""How many requests may be in flight, and what an error says about the service.

Adaptive limiter, rate limiter and circuit breaker in one. Only here are errors judged: what they
say of an item, whether it may be sent again, whether everything waits, and whether the run ends
because the fault is the service's and not the item's.
"""

import asyncio
import contextlib
import random
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from knowledge_bot._retries import seconds_to_wait
from knowledge_bot.errors import (
    _KEY_IN_USE,
    APIError,
    AuthenticationError,
    ConfigurationError,
    ConnectionLostError,
    Delivery,
    KnowledgeBotError,
    PaymentRequiredError,
    PermissionDeniedError,
    RequestTimeoutError,
    UnexpectedResponseError,
)
from knowledge_bot.ingest._report import Kind, Stop
from knowledge_bot.ingest._schema import LedgerError

# How long to wait for a service that cannot be reached, or that puts everything off, in seconds; a
# restart takes less.
_LONGEST_OUTAGE = 60.0

# Statuses that a service answers once it has looked at the key, or at the source.
_DEFINITE = frozenset({400, 404, 413, 415, 422})

# How many times an item is sent that is put off.
_TRIES = 9

# Exponential backoff, and the longest Retry-After that is honoured, in seconds.
_FIRST_BACKOFF = 0.25
_LONGEST_BACKOFF = 15.0
_LONGEST_WAIT = 8.0  # of one item
_LONGEST_PING_BACKOFF = 5.0
_LONGEST_RETRY_AFTER = 120.0

# After this many unknown outcomes in a row, beyond the requests in flight, the run stops.
_UNKNOWN_IN_A_ROW = 10

# After this many equal refusals in a row, and no fewer than there are successes, the run stops: a
# wrong collection is noticed after some dozens; some pictures among many texts do not end a run.
_SAME_REFUSALS = 50

TURNS_AHEAD = 0.25
"""How far ahead a run with a rate reserves turns, in seconds; at least one turn."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do after an error.

    Attributes:
        kind: what became of the item.
        retry_in: seconds after which the same item may be sent again; None if it may not.
        stop: why the run ends; None if it goes on.
    """

    kind: Kind
    retry_in: float | None = None
    stop: tuple[Stop, str] | None = None


class RateLimiter:
    """Gives turns to send, so that all runs together keep to a rate.

    Several turns are reserved at once, so that a run needs at most four statements a second.
    `reserve` gets the number of turns and returns the seconds until the first one; `rate` is in
    items per second.
    """

    def __init__(self, rate: float, reserve: Callable[[int], Awaitable[float]]) -> None:
        self._interval, self._reserve = 1 / rate, reserve
        self._most = max(1, int(rate * TURNS_AHEAD))
        self._turns: deque[float] = deque()
        self._reserving = asyncio.Lock()

    async def turn(self, waiting: int) -> float:
        """Return when the next item may be sent, by the monotonic clock.

        Args:
            waiting: how many items are known to wait; no more turns than that are reserved.

        Raises:
            LedgerError: the ledger, which holds the queue, cannot be written.
        """
        async with self._reserving:
            while self._turns and self._turns[0] < time.monotonic() - TURNS_AHEAD:
                self._turns.popleft()  # turns missed while the service was slow are lost
            if not self._turns:
                count = max(1, min(waiting, self._most))
                wait = await self._reserve(count)
                first = time.monotonic() + wait
                self._turns += (first + number * self._interval for number in range(count))
            return self._turns.popleft()


class Limiter:
    """Lets at most `concurrency` requests go at once, and fewer when the service asks for less.

    Additive increase, multiplicative decrease, as in TCP's congestion control. While the service
    cannot be reached, nothing is sent but pings, which create nothing. It calls `on_stop` with the
    reason when the service, or the ledger that holds the rate, is away for too long.

    Attributes:
        in_flight: how many turns are taken.
        ended: whether no more turns are given.
    """

    def __init__(
        self,
        concurrency: int,
        rate_limiter: RateLimiter | None,
        ping: Callable[[], Awaitable[object]],
        on_stop: Callable[[Stop, str], None],
    ) -> None:
        self._most = self._allowed = float(concurrency)
        self._rate_limiter, self._ping, self._on_stop = rate_limiter, ping, on_stop
        self.in_flight: int = 0
        self._entering = asyncio.Lock()
        self._rounds = 0
        self._round_began = 0.0
        self._changed = asyncio.Event()
        self.ended: bool = False
        self._resume_at = self._slowed_at = 0.0
        self._reason = ""
        self._outage_since: float | None = None
        self._put_off_since: float | None = None
        self._pings, self._tried = 0, False
        self._put_off_in_a_row = self._unknown_in_a_row = self._same_refusals = self._given_up = 0
        self._last_refusal: tuple[int, str, str] | None = None

    async def begin(self) -> None:
        """Ask the service whether it is there, before anything is claimed.

        An address that redirects, answers with a page of HTML, speaks no TLS that is trusted, or
        does not accept the key ends the run. A proxy that lets no ping through does not.
        """
        try:
            await self._ping()
        except (AuthenticationError, PermissionDeniedError) as error:
            self._on_stop(Stop.AUTHENTICATION, str(error))
        except UnexpectedResponseError as error:
            if error.status_code >= 300 or error.body.lstrip().startswith(b"<"):
                self._on_stop(Stop.UNAVAILABLE, str(error))
        except KnowledgeBotError as error:
            if _is_wrong_tls(error):
                self._on_stop(Stop.UNAVAILABLE, str(error))
            elif is_away(error):
                self._note_outage(time.monotonic())

    @asynccontextmanager
    async def turn(self, *, waiting: int = 1) -> AsyncIterator[bool]:
        """Wait for a turn, which lasts until what is inside ends; False if the run ends first.

        Args:
            waiting: how many items are known to wait, this one included.
        """
        mine = await self._enter(waiting)
        try:
            yield mine
        finally:
            if mine:
                self.in_flight -= 1
                self._changed.set()

    async def _enter(self, waiting: int) -> bool:
        if self._is_free and not self._entering.locked():
            self.in_flight += 1
            return True
        async with self._entering:  # first come, first served
            at = 0.0
            if self._rate_limiter is not None and not self.ended:
                try:
                    at = await self._rate_limiter.turn(waiting)
                except LedgerError as error:
                    self._on_stop(Stop.LEDGER, str(error))
            while not self.ended:
                wait = max(self._resume_at, at) - time.monotonic()
                if self.in_flight >= int(self._allowed):
                    await self._wait(None)
                elif wait > 0:
                    await self._wait(wait)
                elif self._outage_since is not None and not await self._is_back():
                    continue
                elif self.in_flight < int(self._allowed):  # it may have changed meanwhile
                    self.in_flight += 1
                    return True
        return False

    @property
    def _is_free(self) -> bool:
        """Whether the next item may be sent at once."""
        return (
            self.in_flight < int(self._allowed)
            and self._outage_since is None
            and self._rate_limiter is None
            and not self.ended
            and self._resume_at <= time.monotonic()
        )

    @property
    def _is_put_off(self) -> bool:
        """Whether the service puts everything off."""
        return self._put_off_in_a_row >= max(2, int(self._allowed))

    def end(self) -> None:
        """Give no more turns."""
        self.ended = True
        self._changed.set()

    @property
    def paused(self) -> str:
        """Why nothing is sent at this moment, as a phrase; empty while something may be."""
        left = self._resume_at - time.monotonic()
        if self.ended or left < 0.5 or not self._reason:
            return ""
        return f"{self._reason}, going on in {left:.0f} s"

    def succeeded(self) -> None:
        """Record that an item was created."""
        self._outage_since = None
        self._works()
        self._given_up = self._same_refusals = 0
        self._allowed = min(self._most, self._allowed + 1 / self._allowed)

    def _works(self) -> None:
        """Record that the service handles requests, whatever it says to them."""
        self._put_off_since = None
        self._put_off_in_a_row = self._unknown_in_a_row = self._rounds = 0

    def failed(  # noqa: C901, PLR0911 - one return for each meaning of an error
        self,
        error: KnowledgeBotError,
        began: float,
        tries: int,
        succeeded: int,
        *,
        keyed: bool,
        replacing: bool,
    ) -> Decision:
        """Decide what to do after an error.

        The item was sent at `began`, by the monotonic clock. A `keyed` one the service acts on
        once, however often it is sent; fewer API keys may send one that is `replacing` a source.
        """
        if isinstance(error, ConfigurationError):
            return Decision("invalid")  # the item cannot be sent as it is
        if isinstance(error, PermissionDeniedError) and replacing:
            return self._refused(error, succeeded)
        if isinstance(error, AuthenticationError | PermissionDeniedError):
            return Decision("refused", stop=(Stop.AUTHENTICATION, str(error)))
        if isinstance(error, PaymentRequiredError):
            return Decision("refused", stop=(Stop.PAYMENT, str(error)))
        if error.delivery is Delivery.NOT_DELIVERED:
            self._note_outage(began)
            lasting = None if error.may_pass else (Stop.UNAVAILABLE, str(error))
            stop = lasting or self._outage_too_long(error)
            again = stop is None and tries < _TRIES
            return Decision("undelivered", 0.0 if again else None, stop)
        if error.delivery is Delivery.REFUSED:
            self._outage_since = None
            if isinstance(error, APIError) and error.may_pass:
                return self._put_off(error, began, tries)
            return self._refused(error, succeeded)
        if isinstance(error, APIError) and error.code == _KEY_IN_USE:
            return replace(self._put_off(error, began, tries), kind="unknown")
        if isinstance(error, UnexpectedResponseError) and 300 <= error.status_code < 400:
            return Decision("unknown", stop=(Stop.UNAVAILABLE, str(error)))
        if _is_unavailable(error):
            self._note_outage(began)
            if isinstance(error, APIError):
                self._slow_down(error, began)
        self._unknown_in_a_row += 1
        if self._unknown_in_a_row < self._most + _UNKNOWN_IN_A_ROW:
            again = (keyed or replacing) and tries < _TRIES
            wait = seconds_to_wait(_backoff(tries, _LONGEST_WAIT)) if again else None
            return Decision("unknown", retry_in=wait)
        reason = f"{self._unknown_in_a_row} requests failed in a row, the last with: {error}"
        return Decision("unknown", stop=(Stop.UNAVAILABLE, reason))

    def _note_outage(self, began: float) -> None:
        if self._outage_since is None:
            self._outage_since, self._pings, self._tried = began, 0, False

    def _outage_too_long(self, error: KnowledgeBotError) -> tuple[Stop, str] | None:
        away = time.monotonic() - (self._outage_since or time.monotonic())
        return (
            (Stop.UNAVAILABLE, f"the service was not reached for {away:.0f} s: {error}")
            if away > _LONGEST_OUTAGE
            else None
        )

    async def _is_back(self) -> bool:
        """Ping the service, which tells what it can, too; while it is away, everything waits.

        Some proxies let no ping through. So at last one item is tried, unless what answers there
        only takes requests, and says nothing to them.
        """
        self._pings += 1
        try:
            await self._ping()
        except KnowledgeBotError as error:
            if is_away(error):
                if stop := self._outage_too_long(error):
                    silent = isinstance(error, ConnectionLostError | RequestTimeoutError)
                    if self.in_flight == 0 and not (self._tried or silent):
                        self._tried = True
                        return True
                    self._on_stop(*stop)
                reason = f"the service does not answer ({type(error).__name__})"
                self._pause(_backoff(self._pings, _LONGEST_PING_BACKOFF), reason)
                return False
        self._outage_since = None
        return True

    def _put_off(self, error: APIError, began: float, tries: int) -> Decision:
        """Decide about an item that the service does not take now."""
        now = time.monotonic()
        since = self._put_off_since = self._put_off_since or began
        self._slow_down(error, began)
        asked = seconds_to_wait(min(error.retry_after or 0.0, _LONGEST_RETRY_AFTER))
        # A 429 is about all requests together; others may be about this one alone.
        if asked and (error.status_code == 429 or self._is_put_off):
            self._pause(asked, "the service asked for it")
        if tries < _TRIES and now - since <= _LONGEST_OUTAGE:
            wait = seconds_to_wait(max(asked, _backoff(tries, _LONGEST_WAIT)))
            return Decision("undelivered", retry_in=wait)
        self._given_up += 1
        if self._given_up < 2:
            return Decision("undelivered")
        reason = f"{self._given_up} items in a row were put off to the end, the last with: {error}"
        return Decision("undelivered", stop=(Stop.UNAVAILABLE, reason))

    def _slow_down(self, error: APIError, began: float) -> None:
        now = time.monotonic()
        self._put_off_in_a_row += 1
        if began < self._round_began:
            return  # requests that were in flight together count once
        self._round_began = now
        self._rounds += 1
        # At most once a second, or a service that refuses a few of many would get one at a time.
        if now - self._slowed_at >= 1:
            self._slowed_at, self._allowed = now, max(1.0, self._allowed / 2)
        if self._is_put_off and error.retry_after is None:
            reason = f"the service is overloaded ({error.status_code})"
            self._pause(seconds_to_wait(_backoff(self._rounds, _LONGEST_BACKOFF)), reason)

    def _refused(self, error: KnowledgeBotError, succeeded: int) -> Decision:
        self._works()
        refusal = (
            (error.status_code, error.code or "", error.message or "")
            if isinstance(error, APIError)
            else (0, "", str(error))
        )
        self._same_refusals = self._same_refusals + 1 if refusal == self._last_refusal else 1
        self._last_refusal = refusal
        if self._same_refusals < max(_SAME_REFUSALS, succeeded):
            return Decision("refused")
        reason = (
            f"{self._same_refusals} items in a row were refused for the same reason, the last "
            f"with: {error}"
        )
        return Decision("refused", stop=(Stop.REFUSED, reason))

    def _pause(self, seconds: float, reason: str) -> None:
        self._resume_at = max(self._resume_at, time.monotonic() + max(0.0, seconds))
        self._reason = reason

    async def _wait(self, seconds: float | None) -> None:
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()


def settles(error: KnowledgeBotError) -> bool:
    """Return whether the service says by an error that no earlier attempt was acted on."""
    return isinstance(error, APIError) and bool(error.code) and error.status_code in _DEFINITE


def _is_unavailable(error: KnowledgeBotError) -> bool:
    """Return whether an error means that nothing answered, or only a proxy before the service."""
    if isinstance(error, APIError):
        return error.status_code in (502, 503, 504)
    return error.may_pass and not isinstance(error, UnexpectedResponseError)


def _is_wrong_tls(error: BaseException) -> bool:
    """Return whether what answers speaks no TLS, or shows a certificate that is not trusted.

    A connection that breaks off in the handshake says neither: a service that starts does so, too.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__  # which httpcore hides
    return cause is not None and not isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError)


def is_away(error: KnowledgeBotError) -> bool:
    """Return whether an error means that the service is not there, or not able to answer."""
    return error.may_pass and (not isinstance(error, APIError) or error.status_code >= 500)


def _backoff(times: int, longest: float) -> float:
    ceiling: float = min(longest, _FIRST_BACKOFF * 2 ** min(times, 10))
    return random.uniform(ceiling / 2, ceiling)  # noqa: S311 - jitter, no secret
