"""Whether the sources of an answer are what a ledger knows of them now, as plain data.

Every face that shows it, shows what is here: the field `freshness` of a message.
"""

import logging
from typing import TYPE_CHECKING, Any

from knowledge_bot.errors import ConfigurationError

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from knowledge_bot.ingest import Ledger
    from knowledge_bot.models import Message

logger: logging.Logger = logging.getLogger("knowledge_bot")


def ledger_of(given: "Ledger | str | os.PathLike[str]", *, made: bool = False) -> "Ledger":
    """Return a ledger whose address can be used.

    With `made` it must have been made already.

    Raises:
        ConfigurationError: its address cannot be used, or there is none.
        LedgerError: it cannot be read.
    """
    from knowledge_bot.ingest import Ledger, LedgerError

    ledger = given if isinstance(given, Ledger) else Ledger(given)
    try:
        _ = ledger.database
    except LedgerError as error:
        raise ConfigurationError.of("ledger", f"{error}") from error
    if made and not ledger.exists():
        raise ConfigurationError.of("ledger", f"there is none at {ledger}. Nothing was asked")
    return ledger


def with_freshness(message: "Message", ledger: "Ledger | None", service: str) -> "Message":
    """Return an answer with the freshness of its sources; without a ledger, the answer itself.

    Its field `freshness` then has for each source that it names a mapping of `name`, `source_id`,
    `verdict` and `as_of` (ISO 8601); see `Ledger.freshness`. The answer is not lost with the
    ledger: the field is None if that cannot be read, and the log says why.
    """
    if ledger is None:
        return message
    return message.model_copy(update={"freshness": freshness_of(message, ledger, service)})


def freshness_of(
    answer: "Message | Mapping[str, Any]", ledger: "Ledger", service: str
) -> list[dict[str, Any]] | None:
    """Return what the field `freshness` of an answer holds, for its fields too."""
    from knowledge_bot.ingest import LedgerError

    try:
        return [
            {
                "name": one.name,
                "source_id": one.source_id,
                "verdict": one.verdict,
                "as_of": one.as_of.isoformat(),
            }
            for one in ledger.freshness(answer, service=service)
        ]
    except LedgerError as error:
        logger.warning("It is not known whether an answer's sources are current: %s", error)
        return None


async def awith_freshness(message: "Message", ledger: "Ledger | None", service: str) -> "Message":
    """Do as `with_freshness` does, without blocking."""
    if ledger is None:
        return message
    import asyncio

    return await asyncio.to_thread(with_freshness, message, ledger, service)
