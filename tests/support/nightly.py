"""Tables of which a part runs nightly: what starts a process for each of its rows."""

from collections.abc import Iterable
from typing import Any

import pytest


def nightly(rows: Iterable[Any], *, but: int) -> list[Any]:
    """Return a table's rows, of which all but the first so many are slow.

    A row that is a tuple has several values.
    """
    return [
        row if number < but else pytest.param(*_values(row), marks=pytest.mark.slow)
        for number, row in enumerate(rows)
    ]


def _values(row: Any) -> tuple[Any, ...]:
    return row if isinstance(row, tuple) else (row,)
