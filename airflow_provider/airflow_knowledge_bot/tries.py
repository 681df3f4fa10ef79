"""Counts over all tries of a task.

An item that an earlier try created is unchanged to the next one. So each try writes its counts to
the task's state store (Airflow 3.3), where they can be read while it runs. Airflow 3.1 and 3.2 have
no such store: there the counts are those of the last try.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from knowledge_bot.ingest import LedgerError, State

if TYPE_CHECKING:
    from airflow.sdk import Context

    from knowledge_bot.ingest import Ledger, Report

_log = logging.getLogger(__name__)

# Holds the `counts` of the tries so far, when the first of them `began`, and a `state`: `running`,
# and `failed` or `done` once a try has stored its final counts.
_KEY = "knowledge_bot_ingest"

# Counts of events, which add up over tries. The other counts are states: the newest one holds.
_EVENTS = ("created", "superseded", "same_content")


class Tries:
    """Counts that the tries of one task instance share, until one of them succeeds.

    Args:
        context: the task's context.

    Attributes:
        began: when the first of these tries began, in Unix seconds.
        earlier: the counts of the tries before this one.
        all_known: whether the counts hold all that earlier tries created.
    """

    def __init__(self, context: "Context") -> None:
        self._store = context.get("task_state_store")
        found = None if self._store is None else self._store.get(_KEY)
        earlier = cast("dict[str, Any]", found or {})
        if earlier.get("state") == "done":
            earlier = {}
        self._was_killed = earlier.get("state") == "running"
        self.began: float = earlier.get("began", time.time())
        self.earlier: dict[str, int] = dict(earlier.get("counts", {}))
        instance = context["ti"]
        self.all_known = self._store is not None or getattr(instance, "try_number", 1) <= 1

    def begin(self, ledger: "Ledger", *route: object) -> None:
        """Store that this try begins; what a killed try created is counted from the ledger.

        Args:
            ledger: knows what the killed try created.
            route: where the items go and come from, as an `Entry` of the ledger holds it: the
                service, the collections and the origin.
        """
        if self._was_killed:
            recorded = self._recorded(ledger, route)
            self.earlier["created"] = max(self.earlier.get("created", 0), recorded)
        self._note(self.earlier)

    def _recorded(self, ledger: "Ledger", route: tuple[object, ...]) -> int:
        try:
            return sum(
                entry.updated_at.timestamp() >= int(self.began)
                and (entry.service, entry.collections, entry.origin) == route
                for entry in ledger.entries(State.CREATED)
            )
        except LedgerError:  # if it lasts, the run itself reports it
            return 0

    def total(self, report: "Report") -> "Report":
        """Return a report of this try with the counts of all tries."""
        return added(self.earlier, report)

    def note(self, report: "Report") -> None:
        """Store the counts of this try so far."""
        self._note(self.total(report).counts, current=report.current[:200])

    def end(self, total: "Report", *, succeeded: bool) -> None:
        """Store the counts of all tries; after a success, the next try starts from zero."""
        self._note(total.counts, state="done" if succeeded else "failed")

    def _note(self, counts: Mapping[str, int], state: str = "running", **more: str) -> None:
        if self._store is None:
            return
        found: dict[str, Any] = {name: count for name, count in counts.items() if count}
        try:
            self._store.set(_KEY, {"state": state, "began": self.began, "counts": found, **more})
        except Exception as error:  # noqa: BLE001 - Airflow's own; the ledger knows what was sent
            _log.warning("The counts could not be written to the task's state store: %s", error)


def added(earlier: Mapping[str, int], report: "Report") -> "Report":
    """Return a report that includes the counts of earlier tries over the same items."""
    counts = {name: earlier.get(name, 0) + getattr(report, name) for name in _EVENTS}
    counts["unchanged"] = max(report.unchanged - earlier.get("created", 0), 0)
    return replace(report, **counts)
