"""A bar that shows how far a run is: in a notebook, on a terminal, and nowhere else."""

import sys
from importlib import import_module
from typing import Any

from knowledge_bot.ingest._report import Report

_CELLS = 30


class ProgressBar:
    """Draws a bar, again and again over the last one; used by one thread at a time."""

    def __init__(self) -> None:
        self._shown: Any = None  # the notebook's output, once there is one
        self._drawn = False

    def __call__(self, report: Report) -> None:
        """Show how far the run is, by the report so far."""
        if _in_a_notebook():
            self._show_in_the_notebook(report)
        elif sys.stderr is not None and sys.stderr.isatty():
            from shutil import get_terminal_size

            line = _line(report)[: get_terminal_size().columns - 1]
            sys.stderr.write(f"\r\x1b[2K{line}")
            sys.stderr.flush()
            self._drawn = True

    def close(self) -> None:
        """Leave the last bar where it is; the next run draws another one."""
        if self._drawn:
            sys.stderr.write("\n")
        self._shown, self._drawn = None, False

    def _show_in_the_notebook(self, report: Report) -> None:
        from html import escape

        notebook: Any = import_module("IPython.display")
        done, total = _done(report), report.total
        share = f' value="{done}" max="{total}"' if total else ""
        html = notebook.HTML(f"<progress{share}></progress> {escape(_counts(report))}")
        if self._shown is None:
            self._shown = notebook.display(html, display_id=True)
        else:
            self._shown.update(html)


def _in_a_notebook() -> bool:
    ipython: Any = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


def _line(report: Report) -> str:
    done, total = _done(report), report.total
    if not total:
        return _counts(report)
    full = _CELLS * min(done, total) // total
    return f"{'█' * full}{'░' * (_CELLS - full)}  {_counts(report)}"


def _done(report: Report) -> int:
    return report.items + report.skipped


def _counts(report: Report) -> str:
    done = f"{_done(report):,}"
    of_all = f"{done} of {report.total:,} items" if report.total else f"{done} items"
    named = [f"{name.replace('_', ' ')} {n:,}" for name, n in report.counts.items() if n]
    waiting = [f"waiting: {report.paused}"] if report.paused else []
    return ", ".join([of_all, *named, *waiting])
