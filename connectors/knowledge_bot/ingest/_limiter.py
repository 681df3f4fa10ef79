"""How many requests may be in flight, and what an error says about the service.

The only place that judges errors: whether the same item may be sent again, whether everything
waits, and whether the run ends, since it is the service and not the item.
"""

import asyncio
import contextlib
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from knowledge_bot._retries import seconds_to_wait
from knowledge_bot.errors import (
    APIError,
    AuthenticationError,
    ConnectionLostError,
    Delivery,
    KnowledgeBotError,
    PaymentRequiredError,
    PermissionDeniedError,
    RequestTimeoutError,
)
from knowledge_bot.ingest._report import Stop
from knowledge_bot.ingest._schema import LedgerError

# Seconds that a service is waited for that cannot be reached; a restart takes less.
_PATIENCE = 60.0

# How often an item is sent that is refused for load.
_TRIES = 9

# Seconds of exponential backoff, and the longest that a service may ask for.
_FIRST_BACKOFF = 0.25
_LONGEST_BACKOFF = 30.0
_LONGEST_PING_BACKOFF = 5.0
_LONGEST_RETRY_AFTER = 120.0

# So many more unknown outcomes in a row than requests in flight, and it is not the items.
_UNKNOWN_IN_A_ROW = 10

# So many refusals in a row, all alike, and as many as there are items that went well: a wrong
# collection is told after some dozens, and a folder of pictures among texts does not end a run.
_ALIKE_IN_A_ROW = 50

TURNS_AHEAD = 0.25
"""Seconds of turns that a run reserves at once, where a rate is kept; one turn at least."""

# After so many pings without an answer one item is tried instead: not every proxy lets a ping pass.
_PINGS = 4


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an error means.

    Attributes:
        again: seconds after which the same item may be sent again; None where it may not.
        stop: why the run ends; None where it goes on.
    """

    again: float | None = None
    stop: tuple[Stop, str] | None = None


class Pace:
    """When each item may be sent, so that all runs together keep to a rate.

    Turns are reserved ahead, some at a time, so that few statements are needed: four reservations
    a second at most, however many runs there are.

    Args:
        rate: how many items a second.
        reserve: takes so many turns, one after another, in the line that all runs share; returns
            the seconds until the first of them.
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
            LedgerError: the ledger, where the line is, cannot be written.
        """
        async with self._reserving:
            while self._turns and self._turns[0] < time.monotonic() - TURNS_AHEAD:
                self._turns.popleft()  # what was missed while the service was slow stays missed
            if not self._turns:
                count = max(1, min(waiting, self._most))
                wait = await self._reserve(count)
                first = time.monotonic() + wait
                self._turns += (first + number * self._interval for number in range(count))
            return self._turns.popleft()


class Limiter:
    """Lets at most `concurrency` requests go at once, and fewer when the service asks for less.

    Additive increase, multiplicative decrease, as in TCP's congestion control. While a service
    cannot be reached nothing is sent but pings, of which none can create anything.

    Args:
        concurrency: how many at most.
        pace: when each item may be sent; None where no rate is kept.
        ping: asks the service for a sign of life.
        on_stop: called with the reason when a service is away for too long, or the ledger is that
            the pace is kept in.
    """

    def __init__(
        self,
        concurrency: int,
        pace: Pace | None,
        ping: Callable[[], Awaitable[object]],
        on_stop: Callable[[Stop, str], None],
    ) -> None:
        self._most = self._allowed = float(concurrency)
        self._pace, self._ping, self._on_stop = pace, ping, on_stop
        self._in_flight = 0
        self._gates = asyncio.Lock(), asyncio.Lock()
        self._returning = self._rounds = 0
        self._round_began = 0.0
        self._changed = asyncio.Event()
        self._ended = False
        self._resume_at = self._slowed_at = 0.0
        self._reason = ""
        self._away_since: float | None = None
        self._pings = 0
        self._refused_in_a_row = self._unknown_in_a_row = self._alike_in_a_row = 0
        self._alike: tuple[int, str, str] | None = None

    async def enter(self, *, again: bool = False, waiting: int = 1) -> bool:
        """Wait for a turn; False when there will be none, since the run ends.

        Args:
            again: whether the item was sent before. Such go first: while the service refuses
                everything, no further items are offered to it.
            waiting: how many items are known to wait, this one included.
        """
        async with self._gates[again]:  # one after another: they wait for the same
            try:
                at = 0.0 if self._pace is None or self._ended else await self._pace.turn(waiting)
            except LedgerError as error:
                self._on_stop(Stop.LEDGER, str(error))
                return False
            while not self._ended:
                wait = max(self._resume_at, at) - time.monotonic()
                if self._in_flight >= int(self._allowed) or self._is_behind(again=again):
                    await self._wait(None)
                elif wait > 0:
                    await self._wait(wait)
                elif self._away_since is not None and not await self._is_back():
                    continue
                elif self._in_flight < int(self._allowed):  # it may have changed meanwhile
                    self._in_flight += 1
                    self._returning -= again
                    return True
        return False

    def _is_behind(self, *, again: bool) -> bool:
        return not again and self._returning > 0 and self._refused_in_a_row >= self._a_round

    @property
    def _a_round(self) -> int:
        return max(2, int(self._allowed))

    def leave(self) -> None:
        """End a turn."""
        self._in_flight -= 1
        self._changed.set()

    def end(self) -> None:
        """Give no more turns."""
        self._ended = True
        self._changed.set()

    @property
    def paused(self) -> str:
        """Why nothing is sent at this moment, as a phrase; empty while something may be."""
        left = self._resume_at - time.monotonic()
        if self._ended or left < 0.5 or not self._reason:
            return ""
        return f"{self._reason}, going on in {left:.0f} s"

    def succeeded(self) -> None:
        """Note that an item was created."""
        self._away_since = None
        self._refused_in_a_row = self._unknown_in_a_row = self._alike_in_a_row = self._rounds = 0
        self._allowed = min(self._most, self._allowed + 1 / self._allowed)

    def failed(  # noqa: PLR0911 - one return for each thing that an error may mean
        self, error: KnowledgeBotError, began: float, tries: int, well: int
    ) -> Verdict:
        """Judge an error.

        Args:
            error: what came of sending an item.
            began: when it was sent, by the monotonic clock.
            tries: how often the item was sent by now.
            well: how many items went well in this run.
        """
        if isinstance(error, AuthenticationError | PermissionDeniedError):
            return Verdict(stop=(Stop.AUTHENTICATION, str(error)))
        if isinstance(error, PaymentRequiredError):
            return Verdict(stop=(Stop.PAYMENT, str(error)))
        if error.delivery is Delivery.NOT_DELIVERED:
            return self._unreached(error, began, tries)
        if error.delivery is Delivery.REFUSED:
            self._away_since = None
            if isinstance(error, APIError) and error.status_code in (429, 503):
                return self._overloaded(error, began, tries)
            return self._refused(error, well)
        if _is_away(error):
            self._lose_sight(began)
            if isinstance(error, APIError):
                self._slow_down(error, began)
        self._unknown_in_a_row += 1
        if self._unknown_in_a_row < self._most + _UNKNOWN_IN_A_ROW:
            return Verdict()
        told = f"{self._unknown_in_a_row} requests failed in a row, the last with: {error}"
        return Verdict(stop=(Stop.UNAVAILABLE, told))

    def _unreached(self, error: KnowledgeBotError, began: float, tries: int) -> Verdict:
        self._lose_sight(began)
        if stop := self._out_of_patience(error):
            return Verdict(stop=stop)
        return self._again(0.0, tries)

    def _lose_sight(self, began: float) -> None:
        if self._away_since is None:
            self._away_since, self._pings = began, 0

    def _out_of_patience(self, error: KnowledgeBotError) -> tuple[Stop, str] | None:
        away = time.monotonic() - (self._away_since or time.monotonic())
        return (
            (Stop.UNAVAILABLE, f"not reached for {away:.0f} s: {error}")
            if away > _PATIENCE
            else None
        )

    async def _is_back(self) -> bool:
        """Ask for a sign of life; where there is none, everything waits a little."""
        self._pings += 1
        if self._pings % _PINGS == 0 and self._in_flight == 0:
            return True
        try:
            await self._ping()
        except KnowledgeBotError as error:
            if _is_away(error):
                if stop := self._out_of_patience(error):
                    self._on_stop(*stop)
                told = f"the service does not answer ({type(error).__name__})"
                self._pause(_backoff(self._pings, _LONGEST_PING_BACKOFF), told)
                return False
        self._away_since = None
        return True

    def _overloaded(self, error: APIError, began: float, tries: int) -> Verdict:
        self._slow_down(error, began)
        asked = seconds_to_wait(min(error.retry_after or 0.0, _LONGEST_RETRY_AFTER))
        # A rate is of all requests together; otherwise it may be about this one alone.
        if asked and (error.status_code == 429 or self._refused_in_a_row >= self._a_round):
            self._pause(asked, "the service asked for it")
        return self._again(seconds_to_wait(max(asked, _backoff(tries, 8.0))), tries)

    def _slow_down(self, error: APIError, began: float) -> None:
        now = time.monotonic()
        self._refused_in_a_row += 1
        if began < self._round_began:
            return  # all that were in flight together tell the same story, so it counts once
        self._round_began = now
        self._rounds += 1
        # Not more than once a second, or a service that refuses some of many gets one at a time.
        if now - self._slowed_at >= 1:
            self._slowed_at, self._allowed = now, max(1.0, self._allowed / 2)
        if self._refused_in_a_row >= self._a_round and error.retry_after is None:
            told = f"the service is overloaded ({error.status_code})"
            self._pause(seconds_to_wait(_backoff(self._rounds, _LONGEST_BACKOFF)), told)

    def _again(self, seconds: float, tries: int) -> Verdict:
        if tries >= _TRIES:
            return Verdict()
        self._returning += 1
        return Verdict(again=seconds)

    def _refused(self, error: KnowledgeBotError, well: int) -> Verdict:
        self._refused_in_a_row = self._unknown_in_a_row = self._rounds = 0  # it is well
        alike = (
            (error.status_code, error.code or "", error.message or "")
            if isinstance(error, APIError)
            else (0, "", str(error))
        )
        self._alike_in_a_row = self._alike_in_a_row + 1 if alike == self._alike else 1
        self._alike = alike
        if self._alike_in_a_row < max(_ALIKE_IN_A_ROW, well):
            return Verdict()
        told = f"{self._alike_in_a_row} items in a row were refused alike, the last with: {error}"
        return Verdict(stop=(Stop.REFUSED, told))

    def _pause(self, seconds: float, reason: str) -> None:
        self._resume_at = max(self._resume_at, time.monotonic() + max(0.0, seconds))
        self._reason = reason

    async def _wait(self, seconds: float | None) -> None:
        self._changed.clear()
        if seconds is None:
            await self._changed.wait()
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()


def _is_away(error: KnowledgeBotError) -> bool:
    """Tell whether a ping's error is no answer of the service, or one of what stands before it."""
    if isinstance(error, APIError):
        return error.status_code in (502, 503, 504)
    return error.delivery is Delivery.NOT_DELIVERED or isinstance(
        error, ConnectionLostError | RequestTimeoutError
    )


def _backoff(times: int, longest: float) -> float:
    ceiling: float = min(longest, _FIRST_BACKOFF * 2 ** min(times, 10))
    return random.uniform(ceiling / 2, ceiling)  # noqa: S311 - jitter, no secret
