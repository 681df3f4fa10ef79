"""How many requests may be in flight, and what an error says about the service.

Adaptive limiter, rate limiter and circuit breaker. Only here are errors judged: what they say of an
item, whether it may be sent again, whether everything waits, and whether the run ends because the
fault is the service's and not the item's.
"""

import asyncio
import contextlib
import random
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from knowledge_bot._retries import LONGEST_RETRY_AFTER, seconds_to_wait
from knowledge_bot.errors import (
    _KEY_IN_USE,
    APIError,
    AuthenticationError,
    ConfigurationError,
    Delivery,
    KnowledgeBotError,
    PaymentRequiredError,
    PermissionDeniedError,
    UnexpectedResponseError,
    UnsupportedError,
)
from knowledge_bot.ingest._report import Kind, Stop

# How long to wait for a service that cannot be reached, or that puts everything off, in seconds; a
# restart takes less.
_LONGEST_OUTAGE = 60.0

# Statuses that a service answers once it has looked at the key, or at the source.
_DEFINITE = frozenset({400, 404, 413, 415, 422})

# How many times an item is sent that is put off.
_TRIES = 9

# Exponential backoff, in seconds.
_FIRST_BACKOFF = 0.25
_LONGEST_BACKOFF = 15.0
_LONGEST_WAIT = 8.0  # of one item
_LONGEST_PING_BACKOFF = 5.0

# After this many unknown outcomes in a row, beyond the requests in flight, the run stops.
_UNKNOWN_IN_A_ROW = 10

# After this many equal refusals in a row, and no fewer than there are successes, the run stops: a
# wrong collection is noticed after some dozens; some pictures among many texts do not end a run.
_SAME_REFUSALS = 50

# After this many answers in a row that are not the interface's, something else is at the address.
_FOREIGN_IN_A_ROW = 3

OnStop = Callable[[Stop, str], None]


class Outage:
    """Whether the service is there. While it is not, nothing is sent but pings.

    It calls `on_stop` with the reason when the service is away for too long.
    """

    def __init__(self, ping: Callable[[], Awaitable[object]], on_stop: OnStop) -> None:
        self._ping, self._on_stop = ping, on_stop
        self._since: float | None = None
        self._pings = 0

    def __bool__(self) -> bool:
        return self._since is not None

    def begin(self, at: float) -> None:
        """Note that the service was away at a time, by the monotonic clock."""
        if self._since is None:
            self._since, self._pings = at, 0

    def end(self) -> None:
        """Note that it answers."""
        self._since = None

    def too_long(self, error: KnowledgeBotError) -> tuple[Stop, str] | None:
        """Return why a run ends, where the service has been away for so long."""
        away = time.monotonic() - (self._since or time.monotonic())
        reason = f"the service was not reached for {away:.0f} s: {error}"
        return (Stop.UNAVAILABLE, reason) if away > _LONGEST_OUTAGE else None

    async def seconds_left(self) -> tuple[float, str] | None:
        """Ping the service; return for how long everything waits, and why: None once it is back."""
        self._pings += 1
        try:
            await self._ping()
        except KnowledgeBotError as error:
            if stop := self._meaning(error):
                self._on_stop(*stop)
            elif is_away(error):
                self.begin(time.monotonic())
                if stop := self.too_long(error):
                    self._on_stop(*stop)
                reason = f"the service does not answer ({type(error).__name__})"
                return _backoff(self._pings, _LONGEST_PING_BACKOFF), reason
        self.end()
        return None

    @staticmethod
    def _meaning(error: KnowledgeBotError) -> tuple[Stop, str] | None:
        """Return why a run ends at a ping's error.

        An address that redirects, answers with anything but a pong, speaks no TLS that is trusted,
        knows no such path, or does not accept the key.
        """
        if isinstance(error, AuthenticationError | PermissionDeniedError):
            return Stop.AUTHENTICATION, str(error)
        strange = _is_foreign(error) or _is_wrong_tls(error)
        return (Stop.UNAVAILABLE, str(error)) if strange else None


class Pressure:
    """Lets at most `concurrency` requests go at once, and fewer when the service asks for less.

    How many is as in TCP: additive increase, multiplicative decrease.

    Attributes:
        most: how many may ever go at once.
        allowed: how many may go now.
        outage: whether the service is there.
    """

    def __init__(self, concurrency: int, rate: float | None, outage: Outage) -> None:
        self.most = self.allowed = float(concurrency)
        self.outage = outage
        self._interval = 0.0 if rate is None else 1 / rate
        self._next = 0.0  # when the next turn is, with a rate
        self._in_flight = 0
        self._entering = asyncio.Lock()
        self._changed, self._over = asyncio.Event(), asyncio.Event()
        self._paused_until, self._reason = 0.0, ""
        self._slowed_at = 0.0

    def grow(self) -> None:
        """Allow more."""
        self.allowed = min(self.most, self.allowed + 1 / self.allowed)

    def shrink(self, began: float) -> bool:
        """Allow fewer; False where a request that was in flight together with this one did so.

        At most once a second, or a service that refuses a few of many would get one at a time.
        """
        now = time.monotonic()
        if began < self._slowed_at or now - self._slowed_at < 1:
            return False
        self._slowed_at, self.allowed = now, max(1.0, self.allowed / 2)
        return True

    async def begin(self) -> None:
        """Wait until the service answers a ping, by which it also says what it can."""
        while not self._over.is_set():
            left = await self.outage.seconds_left()
            if left is None:
                return
            self.pause(*left)
            await self._wait(left[0])

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[bool]:
        """Wait for a turn, which lasts until what is inside ends; False if the run ends first."""
        mine = await self._enter()
        try:
            yield mine
        finally:
            if mine:
                self._in_flight -= 1
                self._changed.set()

    async def _enter(self) -> bool:
        async with self._entering:  # first come, first served
            at = self._next = max(time.monotonic(), self._next + self._interval)
            while not self._over.is_set():
                wait = max(self._paused_until, at) - time.monotonic()
                if self._in_flight >= int(self.allowed):
                    await self._wait(None)
                elif wait > 0:
                    await self._wait(wait)
                elif self.outage:
                    if left := await self.outage.seconds_left():
                        self.pause(*left)
                else:
                    self._in_flight += 1
                    return True
        return False

    async def rest(self, seconds: float) -> None:
        """Wait before an item is sent again, unless the run ends."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()

    def end(self) -> None:
        """Give no more turns."""
        self._over.set()
        self._changed.set()

    def pause(self, seconds: float, reason: str) -> None:
        """Let everything wait."""
        self._paused_until = max(self._paused_until, time.monotonic() + max(0.0, seconds))
        self._reason = reason

    @property
    def paused(self) -> str:
        """Why nothing is sent at this moment, as a phrase; empty while something may be."""
        left = self._paused_until - time.monotonic()
        if self._over.is_set() or left < 0.5 or not self._reason:
            return ""
        return f"{self._reason}, going on in {left:.0f} s"

    async def _wait(self, seconds: float | None) -> None:
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do after an error.

    Attributes:
        kind: what became of the item; None where that is found out later.
        retry_in: seconds after which the same item may be sent again; None if it may not.
        stop: why the run ends; None if it goes on.
    """

    kind: Kind | None
    retry_in: float | None = None
    stop: tuple[Stop, str] | None = None


class Judge:
    """Decides what an error says of an item and of the service.

    Args:
        gate: is slowed down, paused, and told of outages.
        repeatable: whether a request has no second effect, however often it is sent.
    """

    def __init__(self, gate: Pressure, *, repeatable: bool) -> None:
        self._gate, self._repeatable = gate, repeatable
        self._put_off_since: float | None = None
        self._put_off_in_a_row = self._unknown_in_a_row = self._given_up = 0
        self._refusals: tuple[int, object] = 0, None  # in a row, for this reason
        self._foreign_in_a_row = 0

    def succeeded(self) -> None:
        """Record that the service took an item."""
        self._gate.outage.end()
        self._works()
        self._given_up, self._refusals, self._foreign_in_a_row = 0, (0, None), 0
        self._gate.grow()

    def _works(self) -> None:
        """Record that the service handles requests, whatever it says to them."""
        self._put_off_since = None
        self._put_off_in_a_row = self._unknown_in_a_row = 0

    def failed(
        self, error: KnowledgeBotError, began: float, tries: int, succeeded: int, *, keyed: bool
    ) -> Decision:
        """Decide what to do after an error.

        The item was sent at `began`, by the monotonic clock. A `keyed` one the service acts on
        once, however often it is sent.
        """
        self._foreign_in_a_row = self._foreign_in_a_row + 1 if _is_foreign(error) else 0
        decision = self._decided(error, began, tries, succeeded, keyed=keyed)
        if self._foreign_in_a_row < _FOREIGN_IN_A_ROW or decision.stop is not None:
            return decision
        reason = f"something else answers at its address: {error}"
        return Decision(decision.kind, stop=(Stop.UNAVAILABLE, reason))

    def _decided(  # noqa: PLR0911 - one return for each meaning of an error
        self, error: KnowledgeBotError, began: float, tries: int, succeeded: int, *, keyed: bool
    ) -> Decision:
        if isinstance(error, UnsupportedError):
            return Decision("undelivered", stop=(Stop.UNSUPPORTED, str(error)))
        if isinstance(error, ConfigurationError):
            return Decision("invalid")  # the item cannot be sent as it is
        if isinstance(error, PermissionDeniedError) and self._repeatable:
            return self._refused(error, succeeded)  # it is about this one alone
        if isinstance(error, AuthenticationError | PermissionDeniedError):
            return Decision("refused", stop=(Stop.AUTHENTICATION, str(error)))
        if isinstance(error, PaymentRequiredError):
            return Decision("refused", stop=(Stop.PAYMENT, str(error)))
        if error.delivery is Delivery.NOT_DELIVERED:
            self._gate.outage.begin(began)
            lasting = None if error.may_pass else (Stop.UNAVAILABLE, str(error))
            stop = lasting or self._gate.outage.too_long(error)
            again = stop is None and tries < _TRIES
            return Decision("undelivered", 0.0 if again else None, stop)
        if error.delivery is Delivery.REFUSED:
            self._gate.outage.end()
            if isinstance(error, APIError) and error.may_pass:
                return self._put_off(error, began, tries)
            return self._refused(error, succeeded)
        return self._unknown(error, began, tries, keyed=keyed)

    def _unknown(
        self, error: KnowledgeBotError, began: float, tries: int, *, keyed: bool
    ) -> Decision:
        """Decide about an item of which nobody knows whether the service acted on it."""
        kind: Kind = "undelivered" if self._repeatable else "unknown"
        if isinstance(error, APIError) and error.code == _KEY_IN_USE:
            return replace(self._put_off(error, began, tries), kind=kind)
        if isinstance(error, UnexpectedResponseError) and 300 <= error.status_code < 400:
            return Decision(kind, stop=(Stop.UNAVAILABLE, str(error)))
        if _is_unavailable(error):
            self._gate.outage.begin(began)
            if isinstance(error, APIError):
                self._slow_down(error, began)
        self._unknown_in_a_row += 1
        if self._unknown_in_a_row < self._gate.most + _UNKNOWN_IN_A_ROW:
            again = (keyed or self._repeatable) and tries < _TRIES
            wait = seconds_to_wait(_backoff(tries, _LONGEST_WAIT)) if again else None
            return Decision(kind, retry_in=wait)
        reason = f"{self._unknown_in_a_row} requests failed in a row, the last with: {error}"
        return Decision(kind, stop=(Stop.UNAVAILABLE, reason))

    @property
    def _is_put_off(self) -> bool:
        """Whether the service puts everything off."""
        return self._put_off_in_a_row >= max(2, int(self._gate.allowed))

    def _put_off(self, error: APIError, began: float, tries: int) -> Decision:
        """Decide about an item that the service does not take now."""
        now = time.monotonic()
        since = self._put_off_since = self._put_off_since or began
        self._slow_down(error, began)
        wanted = error.retry_after or 0.0
        is_soon = wanted <= LONGEST_RETRY_AFTER  # it is asked no earlier than it wants to be
        asked = seconds_to_wait(wanted if is_soon else 0.0)
        # A 429 is about all requests together; others may be about this one alone.
        if asked and (error.status_code == 429 or self._is_put_off):
            self._gate.pause(asked, "the service asked for it")
        if is_soon and tries < _TRIES and now - since <= _LONGEST_OUTAGE:
            wait = seconds_to_wait(max(asked, _backoff(tries, _LONGEST_WAIT)))
            return Decision("undelivered", retry_in=wait)
        self._given_up += 1
        if self._given_up < 2:
            return Decision("undelivered")
        reason = f"{self._given_up} items in a row were put off to the end, the last with: {error}"
        return Decision("undelivered", stop=(Stop.UNAVAILABLE, reason))

    def _slow_down(self, error: APIError, began: float) -> None:
        self._put_off_in_a_row += 1
        if self._gate.shrink(began) and self._is_put_off and error.retry_after is None:
            reason = f"the service is overloaded ({error.status_code})"
            rounds = self._put_off_in_a_row // int(self._gate.most)
            self._gate.pause(seconds_to_wait(_backoff(rounds, _LONGEST_BACKOFF)), reason)

    def _refused(self, error: KnowledgeBotError, succeeded: int) -> Decision:
        self._works()
        refusal = (
            (error.status_code, error.code or "", error.message or "")
            if isinstance(error, APIError)
            else (0, "", str(error))
        )
        count, before = self._refusals
        count = count + 1 if refusal == before else 1
        self._refusals = count, refusal
        if count < max(_SAME_REFUSALS, succeeded):
            return Decision("refused")
        reason = f"{count} items in a row were refused for the same reason, the last with: {error}"
        return Decision("refused", stop=(Stop.REFUSED, reason))


def stop_of(error: KnowledgeBotError) -> tuple[Stop, str]:
    """Return why a run ends at an error that is about no item, after all that was tried again."""
    stop = Stop.UNAVAILABLE
    if isinstance(error, AuthenticationError | PermissionDeniedError):
        stop = Stop.AUTHENTICATION
    elif isinstance(error, PaymentRequiredError):
        stop = Stop.PAYMENT
    elif isinstance(error, APIError) and not (error.may_pass or _is_foreign(error)):
        stop = Stop.REFUSED  # such as a collection that is not there
    elif not error.may_pass:
        stop = Stop.UNSUPPORTED
    return stop, str(error)


def _is_foreign(error: KnowledgeBotError) -> bool:
    """Return whether an answer is not the interface's: there is another server at the address."""
    if isinstance(error, APIError):
        return error.status_code in (404, 405, 501) and not error.code
    return isinstance(error, UnexpectedResponseError) and not error.may_pass


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
