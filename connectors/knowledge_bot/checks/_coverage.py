"""The result of an audit: which documents a bot finds, as an object, as text and as JUnit XML."""

from collections import Counter
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Literal

from knowledge_bot.checks._junit import Case, junit


class Finding(StrEnum):
    """What became of a document."""

    FOUND = "found"
    """The bot finds what it says."""
    OLD = "old"
    """The bot finds another version of it."""
    MISSING = "missing"
    """The bot does not find it."""
    UNREADABLE = "unreadable"
    """Nobody can read it: not the service, which says why, or nothing here, and it does not say."""


@dataclass(frozen=True, slots=True)
class AuditedDocument:
    """A document of the origin, and whether the bot finds it.

    Attributes:
        key: names it within its origin.
        name: the name of its source.
        outcome: whether it was found.
        reason: how that shows, as a sentence; empty where the bot said what the document says.
    """

    key: str
    name: str
    outcome: Finding
    reason: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return it as plain values, for JSON."""
        return {name: str(value) for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True, repr=False)
class Audit:
    """What came of an audit.

    Attributes:
        documents: those that were judged, in the order of the origin; of several that say the same,
            the first.
        bot_id: the bot that was asked.
        origin: the name of the origin.
        total: how many documents the origin has.
        ways: how the bot was asked: by `search`, or by `messages`, each of which leaves a
            conversation.
        asked: how many times.
        min_coverage: the share of the documents that has to be found, 0 to 1.
        duration: seconds it took.
    """

    documents: tuple[AuditedDocument, ...]
    bot_id: str
    origin: str
    total: int
    ways: Literal["search", "messages"]
    asked: int
    min_coverage: float
    duration: float

    @property
    def counts(self) -> dict[str, int]:
        """How many documents have each outcome."""
        found = Counter(one.outcome for one in self.documents)
        return {str(outcome): found[outcome] for outcome in Finding}

    @property
    def coverage(self) -> float:
        """The share of the documents that are found as they are now, 0 to 1."""
        return self.counts["found"] / len(self.documents) if self.documents else 0.0

    @property
    def lacking(self) -> tuple[AuditedDocument, ...]:
        """Those that are not found as they are now, for whatever reason."""
        return tuple(one for one in self.documents if one.outcome is not Finding.FOUND)

    @property
    def ok(self) -> bool:
        """Whether as many are found as have to be."""
        return self.coverage >= self.min_coverage - 1e-9  # shares have no exact form

    def as_dict(self) -> dict[str, Any]:
        """Return the audit as plain values, for JSON."""
        return {
            "ok": self.ok,
            "coverage": round(self.coverage, 6),
            "min_coverage": self.min_coverage,
            "counts": self.counts,
            "bot_id": self.bot_id,
            "origin": self.origin,
            "total": self.total,
            "ways": self.ways,
            "asked": self.asked,
            "duration": round(self.duration, 3),
            "documents": [one.as_dict() for one in self.documents],
        }

    def __repr__(self) -> str:
        return f"<Audit: {self.summary()}>"

    def summary(self) -> str:
        """Return the counts as one sentence."""
        said = ", ".join(f"{name} {count}" for name, count in self.counts.items() if count)
        share = f" of the {self.total:,}" if self.total > len(self.documents) else ""
        return (
            f"{self.bot_id} finds {self.coverage:.1%} of {len(self.documents):,} documents{share}"
            f" ({said or 'there are none'}), asked {self.asked:,} times by {self.ways}"
        )

    def junit(self) -> str:
        """Return the documents as JUnit XML, which CI servers show, in one suite."""
        facts = {"origin": self.origin, "coverage": f"{self.coverage:.4f}"}
        cases = [
            Case(
                one.name,
                "failure" * (one.outcome is not Finding.FOUND),
                str(one.outcome),
                one.reason,
            )
            for one in self.documents
        ]
        return junit("kbot audit", self.bot_id, facts, cases)
