"""What all tries of a task have counted together.

An item that an earlier try created is unchanged to the next one. So each try writes its counts to
the task's state store (Airflow 3.3), where a person sees them while it runs. Airflow 3.1 and 3.2
have no such store: there the counts are those of the last try.
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

# Holds the `counts` of the tries until now, when the first of them `began`, and a `state`, which is
# `running` and, after a try that told what it had counted, `failed` or `done`.
_KEY = "knowledge_bot_ingest"

# What is counted when it happens. All else says how things are, and the newest count is right.
_EVENTS = ("created", "superseded", "same_content")


class Tries:
    """What the tries of one task instance tell each other, until one of them ends well.

    Args:
        context: the task's context.

    Attributes:
        began: Unix seconds when the first of these tries began.
        earlier: the counts of those before this one.
        all_known: whether no earlier try can have created what is not counted.
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

    def begin(self, ledger: "Ledger", *place: object) -> None:
        """Note that this try begins; a try that was killed is counted by what the ledger knows.

        Args:
            ledger: remembers what it created.
            place: what the items go to and come from, as an `Entry` of the ledger tells it: the
                service, the collections and the origin.
        """
        if self._was_killed:
            recorded = self._recorded(ledger, place)
            self.earlier["created"] = max(self.earlier.get("created", 0), recorded)
        self._note(self.earlier)

    def _recorded(self, ledger: "Ledger", place: tuple[object, ...]) -> int:
        try:
            return sum(
                entry.updated_at.timestamp() >= int(self.began)
                and (entry.service, entry.collections, entry.origin) == place
                for entry in ledger.entries(State.CREATED)
            )
        except LedgerError:  # told by the run itself, if it lasts
            return 0

    def total(self, report: "Report") -> "Report":
        """Return a report of this try with the counts of all tries."""
        return added(self.earlier, report)

    def note(self, report: "Report") -> None:
        """Write down what this try has counted so far."""
        self._note(self.total(report).counts, current=report.current[:200])

    def end(self, total: "Report", *, well: bool) -> None:
        """Write down what all tries have counted; after one that ends well the next begins anew."""
        self._note(total.counts, state="done" if well else "failed")

    def _note(self, counts: Mapping[str, int], state: str = "running", **more: str) -> None:
        if self._store is None:
            return
        told: dict[str, Any] = {name: count for name, count in counts.items() if count}
        try:
            self._store.set(_KEY, {"state": state, "began": self.began, "counts": told, **more})
        except Exception as error:  # noqa: BLE001 - Airflow's own; the ledger knows what was sent
            _log.warning("The task's state store did not take the counts: %s", error)


def added(earlier: Mapping[str, int], report: "Report") -> "Report":
    """Return a report that also counts what was created before it, of the same items."""
    counts = {name: earlier.get(name, 0) + getattr(report, name) for name in _EVENTS}
    counts["unchanged"] = max(report.unchanged - earlier.get("created", 0), 0)
    return replace(report, **counts)
