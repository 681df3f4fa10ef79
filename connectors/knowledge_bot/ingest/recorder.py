"""How what happens to an item gets into the ledger, and into the counts."""

import asyncio
import time
from typing import TYPE_CHECKING, Any

from knowledge_bot.errors import ConfigurationError, Delivery, KnowledgeBotError
from knowledge_bot.ingest.files import fingerprint_of
from knowledge_bot.ingest.items import File
from knowledge_bot.ingest.ledger.entries import LedgerError, State
from knowledge_bot.ingest.ledger.rows import Row, replaced_by
from knowledge_bot.ingest.planning import Job
from knowledge_bot.ingest.report import Failure, Kind
from knowledge_bot.ingest.tally import Tally
from knowledge_bot.models import Source

if TYPE_CHECKING:
    from knowledge_bot.ingest.ledger.writer import Writer

_LAPSED = "the ledger was out of reach for too long before it was sent; the next run sends it"


class Recorder:
    """Claims items and records what came of them.

    Args:
        writer: writes to the ledger; without one, things are only counted.
        tally: counts.
    """

    def __init__(self, writer: "Writer | None", tally: Tally) -> None:
        self._writer, self._tally = writer, tally
        # The ledger tells the claims of two runs apart, not two claims of one run.
        self._claimed: set[str] = set()

    async def claim(self, job: Job) -> bool:
        """Claim an item; True when the claim is durable, False where it is somebody's already.

        Raises:
            LedgerError: the claim cannot be written, and so nothing may be sent.
        """
        if self._writer is None:
            return True
        claim = job.claim
        if claim.id in self._claimed:
            return False
        self._claimed.add(claim.id)
        try:
            won = await self._writer.claim(claim)
        except LedgerError as error:
            self._claimed.discard(claim.id)
            told = f"it was not sent: {error}"
            self._tally.failed(Failure("undelivered", claim.name, claim.key, told))
            raise
        except asyncio.CancelledError:
            self.release(job)
            raise
        if not won:
            self._claimed.discard(claim.id)
        return won

    def may_send(self, job: Job) -> bool:
        """Tell whether the claim still holds; if not, it is given back and counted.

        While the machine slept, or the database was away, others may have taken us for dead.
        """
        if self._writer is None or not self._writer.lapsed:
            return True
        self.release(job)
        self._tally.failed(Failure("undelivered", job.claim.name, job.claim.key, _LAPSED))
        return False

    async def created(self, job: Job, source: Source) -> None:
        """Record the source that was created."""
        replaced = replaced_by(job.claim, source.id)
        self._tally.created(len(replaced))
        if self._writer is None:
            return
        claim = job.claim
        digest, signature = claim.digest, claim.signature
        if isinstance(job.item, File):
            found = await asyncio.to_thread(fingerprint_of, job.item.path)
            # Which content the service got, nobody can tell: the next run compares it anew.
            if found is None or found.text != job.fingerprint:
                digest = "changed while it was sent"
            signature = found.text if found is not None and found.settled else None
        result = self._result(
            claim,
            State.CREATED,
            digest=digest,
            signature=signature,
            source_id=source.id,
            source_name=claim.name,
            source_digest=digest,
        )
        self._writer.record(result, replaced)
        self._claimed.discard(claim.id)

    def failed(self, job: Job, error: KnowledgeBotError) -> Kind:
        """Record that no source was created, or that nobody knows; return which."""
        if isinstance(error, ConfigurationError):  # the item cannot be sent as it is
            self.release(job)
            self._tally.failed(Failure("invalid", job.claim.name, job.claim.key, str(error)))
            return "invalid"
        if error.delivery is Delivery.UNKNOWN:
            self.unknown(job, str(error))
            return "unknown"
        kind: Kind = "refused" if error.delivery is Delivery.REFUSED else "undelivered"
        self._failed(job, kind, State.REFUSED, str(error))
        return kind

    def unknown(self, job: Job, error: str) -> None:
        """Record that the service may have the item."""
        self._failed(job, "unknown", State.UNKNOWN, error)

    def release(self, job: Job) -> None:
        """Give back a claim that was not sent: the row is as it was."""
        if self._writer is None:
            return
        claim = job.claim
        if job.before is None:
            self._writer.withdraw(claim)
        else:
            self._writer.record(job.before._replace(owner=claim.owner, version=claim.version + 2))
        self._claimed.discard(claim.id)

    def _failed(self, job: Job, kind: Kind, state: State, error: str) -> None:
        claim = job.claim
        self._tally.failed(Failure(kind, claim.name, claim.key, error))
        if self._writer is not None:
            self._writer.record(self._result(claim, state, error=error[:2000]))
        self._claimed.discard(claim.id)

    def _result(self, claim: Row, state: State, **values: Any) -> Row:
        # One version for the claim itself, and one for others who took its owner for dead.
        return claim._replace(
            state=state.value, version=claim.version + 2, updated_at=time.time(), **values
        )
