"""What was answered, kept for a while for whose it is."""

import time
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class CallerMemory(Generic[V]):
    """The newest values, each of a caller, so that nobody is given what is another's.

    Args:
        most: how many are kept.
        seconds: for how long.
    """

    def __init__(self, most: int, seconds: float) -> None:
        self._most, self._seconds = most, seconds
        self._kept: OrderedDict[tuple[str, Hashable], tuple[float, V]] = OrderedDict()

    def find(self, whose: str, key: Hashable) -> V | None:
        """Return a caller's value; None where there is none any more."""
        self._tidy()
        return self._kept.get((whose, key), (0.0, None))[1]

    def keep(self, whose: str, key: Hashable, value: V) -> None:
        """Keep a caller's value, as the newest."""
        self._kept[whose, key] = time.monotonic() + self._seconds, value
        self._kept.move_to_end((whose, key))
        self._tidy()

    def _tidy(self) -> None:
        now = time.monotonic()
        while self._kept and (
            len(self._kept) > self._most or next(iter(self._kept.values()))[0] < now
        ):
            self._kept.popitem(last=False)
