"""Progress bars: on stderr, and only where that is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from knowledge_bot.cli.terminal import printable


@contextmanager
def upload_progress(name: str) -> Iterator[Callable[[int, int | None], None] | None]:
    """Show how much of a file was sent; gives what the client calls with the bytes so far."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(printable(name), total=None)
        yield lambda sent, total: bar.update(task, completed=sent, total=total)
