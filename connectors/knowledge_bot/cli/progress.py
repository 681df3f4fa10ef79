"""Progress: on stderr, and only where that is a terminal."""

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from knowledge_bot.cli.terminal import console, give_up, one_line, printable

if TYPE_CHECKING:
    from knowledge_bot.ingest import Report

T = TypeVar("T")

_REDRAWN_EVERY = 0.25

# Seconds that the rate of an ingestion is measured over.
_WINDOW = 30.0


@contextmanager
def upload_progress(name: str) -> Iterator[Callable[[int, int | None], None] | None]:
    """Show how much of a file was sent; yields the client's `on_progress`."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(printable(name), total=None)
        yield lambda sent, total: bar.update(task, completed=sent, total=total)


class BottomLines:
    """Lines at the bottom of a terminal; one that is closed does not end the run.

    Used by one thread.
    """

    def __init__(self) -> None:
        from rich.live import Live

        # What is printed elsewhere stays where it belongs: stdout may be a file.
        self._live = Live(
            console=console(stderr=True),
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def show(self, *lines: str) -> None:
        """Write the lines anew."""
        from rich.text import Text

        text = Text("\n".join(map(one_line, lines)), no_wrap=True, overflow="ellipsis")
        try:
            self._live.start()
            self._live.update(text, refresh=True)
        except OSError:
            give_up(sys.stderr)

    def close(self) -> None:
        """Take the lines away."""
        try:
            self._live.stop()
        except OSError:
            give_up(sys.stderr)


@contextmanager
def shown_line(
    text: Callable[[T, float], str], *, quiet: bool
) -> Iterator[Callable[[T], None] | None]:
    """Show one line at the bottom of a terminal: how far something is.

    It is drawn in a thread of its own: a terminal that is stopped (Ctrl-S) holds up nothing else.

    Args:
        text: returns the line of what was reported last, so many seconds ago.
        quiet: show nothing.

    Yields:
        What takes a report; None where nothing is shown.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    seen: list[tuple[T, float]] = []
    closed = threading.Event()

    def draw() -> None:
        lines = BottomLines()
        while not closed.wait(_REDRAWN_EVERY):
            if seen:
                lines.show(text(seen[-1][0], time.monotonic() - seen[-1][1]))
        lines.close()

    thread = threading.Thread(target=draw, name="progress", daemon=True)
    thread.start()
    try:
        yield lambda report: seen.__setitem__(slice(None), [(report, time.monotonic())])
    finally:
        closed.set()
        thread.join()


class IngestionProgress:
    """Two lines: how far an ingestion is, and what it does now."""

    def __init__(self) -> None:
        self._lines = BottomLines()
        self._began = time.monotonic()
        self._samples = deque([(self._began, 0)])
        self.close = self._lines.close

    def show(self, report: "Report") -> None:
        """Write both lines anew."""
        self._lines.show(self._how_far(report), self._what_now(report))

    def _how_far(self, report: "Report") -> str:
        done = report.items + report.skipped
        rate = self._rate(done)
        of_all = "" if report.total is None else f" of {report.total:,}"
        parts = [f"{done:,}{of_all} items"]
        if rate:
            parts.append(f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s")
        if report.total is not None and rate:
            left = timedelta(seconds=round((report.total - done) / rate))
            parts.append(f"{left} left")
        else:
            parts.append(f"{timedelta(seconds=round(time.monotonic() - self._began))}")
        counts = (f"{name.replace('_', ' ')} {count:,}" for name, count in report.counts.items())
        return "  ".join([*parts, ", ".join(one for one in counts if not one.endswith(" 0"))])

    @staticmethod
    def _what_now(report: "Report") -> str:
        if report.paused:
            return f"waiting: {report.paused}"
        return report.current or "comparing with the ledger"

    def _rate(self, done: int) -> float:
        """Return the items per second, of late."""
        now = time.monotonic()
        self._samples.append((now, done))
        while now - self._samples[0][0] > _WINDOW and len(self._samples) > 2:
            self._samples.popleft()
        since, before = self._samples[0]
        return (done - before) / (now - since) if now > since else 0.0
