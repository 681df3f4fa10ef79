"""The service's log: one line per event, with its time, on standard error."""

import logging
from datetime import datetime
from ipaddress import ip_address
from typing import Final
from urllib.parse import quote

from starlette.types import Scope

# A path may be as long as all headers together; its beginning is enough.
_PATH_LENGTH: Final = 300


def configure(level: str) -> None:
    """Send what this process logs to standard error.

    Args:
        level: "debug", "info", "warning" or "error". Up to "info" each request is a line.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines())
    # Libraries log only warnings and errors, whatever the service's own level.
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("knowledge_bot_service").setLevel(level.upper())


def client_of(scope: Scope) -> str:
    """Return a client's address for the log; "-" if it is not an address.

    A trusted proxy may pass on whatever a client wrote into `X-Forwarded-For`.
    """
    address = scope["client"][0] if scope.get("client") else ""
    try:
        return str(ip_address(address.partition("%")[0]))  # a zone may be any text
    except ValueError:
        return "-"


def path_of(scope: Scope) -> str:
    """Return a request's path for the log: without query, in ASCII without spaces, not too long."""
    path = quote(scope["path"], safe="/:@!$&'()*+,;=~-._", errors="replace")
    return path if len(path) <= _PATH_LENGTH else f"{path[:_PATH_LENGTH]}..."


class _Lines(logging.Formatter):
    """`2026-11-22T17:41:21.123+01:00 info what happened`; a traceback follows on further lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        time = datetime.fromtimestamp(record.created).astimezone()
        # It may hold text from a client, which must neither end the line nor move the cursor.
        message = "".join(
            one if one.isprintable() else one.encode("unicode_escape").decode("ascii")
            for one in record.message
        )
        return f"{time.isoformat(timespec='milliseconds')} {record.levelname.lower()} {message}"
