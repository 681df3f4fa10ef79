"""How many requests may be in flight: fewer when the service asks for less, then more again."""

import asyncio
import random
import time

_LONGEST_PAUSE = 120.0
_FIRST_BACKOFF = 0.5
_LONGEST_BACKOFF = 30.0


class Pace:
    """Lets `concurrency` requests go at once, until the service says that it is too many.

    Additive increase, multiplicative decrease, as in TCP's congestion control: half as many after
    a refusal for load, one more for every round that went well.

    Args:
        concurrency: how many at most.
    """

    def __init__(self, concurrency: int) -> None:
        self._most = self._allowed = float(concurrency)
        self._in_flight = 0
        self._resume_at = 0.0
        self._slowed_at = 0.0
        self._slowed_in_a_row = 0
        self._unreached_since: float | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._ended = False

    async def enter(self) -> bool:
        """Wait for a turn; False when there will be none, since the run ends."""
        while not self._ended:
            pause = self._resume_at - time.monotonic()
            if pause <= 0 and self._in_flight < int(self._allowed):
                self._in_flight += 1
                return True
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            timer = turn.get_loop().call_later(pause, self._wake) if pause > 0 else None
            try:
                await turn
            finally:
                if timer is not None:
                    timer.cancel()
        return False

    def leave(self) -> None:
        """End a turn."""
        self._in_flight -= 1
        self._wake()

    def succeeded(self) -> None:
        """Note that the service keeps up."""
        self.answered()
        self._slowed_in_a_row = 0
        self._allowed = min(self._most, self._allowed + 1 / self._allowed)

    def answered(self) -> None:
        """Note that the service is there."""
        self._unreached_since = None

    def unreached(self, began: float) -> float:
        """Note that it was not reached; return for how many seconds it has not been.

        Args:
            began: when it was tried, by the monotonic clock.
        """
        if self._unreached_since is None:
            self._unreached_since = began
        return time.monotonic() - self._unreached_since

    def slow(self, began: float, retry_after: float | None) -> None:
        """Let the whole run wait, and then send fewer at once.

        Args:
            began: when the request that failed was sent, by the monotonic clock. All that were in
                flight together tell the same story, so it counts once.
            retry_after: seconds that the service asks for; by default an exponential backoff.
        """
        if began >= self._slowed_at:
            self._slowed_at = time.monotonic()
            self._slowed_in_a_row += 1
            self._allowed = max(1.0, self._allowed / 2)
        ceiling = min(_LONGEST_BACKOFF, _FIRST_BACKOFF * 2 ** min(self._slowed_in_a_row - 1, 10))
        pause = random.uniform(ceiling / 2, ceiling) if retry_after is None else retry_after  # noqa: S311
        self._resume_at = max(
            self._resume_at, time.monotonic() + min(max(0.0, pause), _LONGEST_PAUSE)
        )

    def end(self) -> None:
        """Give no more turns."""
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for turn in waiting:
            if not turn.done():
                turn.set_result(None)
