"""When a run ends by itself: what an error says about the service, and not about the item."""

from knowledge_bot.errors import (
    AuthenticationError,
    Delivery,
    KnowledgeBotError,
    PaymentRequiredError,
    PermissionDeniedError,
)
from knowledge_bot.ingest.report import Stop
from knowledge_bot.ingest.sending import is_overloaded

# So many more failures in a row than requests in flight, and it is the service, not the items.
_FAILURES_IN_A_ROW = 10


class Verdicts:
    """Judges by a run's errors whether the service takes more items.

    Args:
        concurrency: how many requests may be in flight.
    """

    def __init__(self, concurrency: int) -> None:
        self._bound = concurrency + _FAILURES_IN_A_ROW
        self._failed_in_a_row = 0

    def succeeded(self) -> None:
        """Note that a source was created."""
        self._failed_in_a_row = 0

    def failed(self, error: KnowledgeBotError) -> tuple[Stop, str] | None:
        """Return why the run is to stop after this error, or None where it goes on."""
        if isinstance(error, AuthenticationError | PermissionDeniedError):
            return Stop.AUTHENTICATION, str(error)
        if isinstance(error, PaymentRequiredError):
            return Stop.PAYMENT, str(error)
        if error.delivery is Delivery.REFUSED and not is_overloaded(error):
            self._failed_in_a_row = 0  # it looked at the item, and is well
            return None
        self._failed_in_a_row += 1
        if self._failed_in_a_row < self._bound:
            return None
        told = f"{self._failed_in_a_row} requests failed in a row, the last with: {error}"
        return Stop.UNAVAILABLE, told
