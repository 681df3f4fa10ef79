"""Names that moved between Airflow 3.1 and 3.3, and other differences between their releases.

The public modules import this one before Airflow, so that a missing Airflow is reported in one
sentence. `airflow.providers.common.compat` is not used: managed Airflow services pin releases of it
that lack the newer names.
"""

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import Connection
    from airflow.sdk.configuration import conf
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSensorTimeout,
    )
else:
    try:  # 3.2 and later
        from airflow.sdk.configuration import conf
        from airflow.sdk.exceptions import (
            AirflowException,
            AirflowFailException,
            AirflowNotFoundException,
            AirflowSensorTimeout,
        )
    except ImportError:
        try:  # 3.1
            from airflow.configuration import conf
            from airflow.exceptions import (
                AirflowException,
                AirflowFailException,
                AirflowNotFoundException,
                AirflowSensorTimeout,
            )
        except ImportError:
            from knowledge_bot.adapters import require

            require("airflow_knowledge_bot", "airflow", "airflow")
            raise

__all__ = [
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowSensorTimeout",
    "aget_connection",
    "conf",
]


async def aget_connection(conn_id: str) -> "tuple[Connection, dict[str, Any]]":
    """Return a connection and its extra without blocking the event loop.

    Before Airflow 3.3.2 `BaseHook.aget_connection` masks the connection's secrets with a blocking
    call, which may raise `DeadlockImminentError`. `Connection.aextra_dejson` came with the fix;
    where it is missing, the synchronous calls run in a thread.

    Raises:
        AirflowNotFoundException: there is no connection with this id.
    """
    from airflow.sdk import BaseHook, Connection

    if hasattr(Connection, "aextra_dejson"):
        connection = await BaseHook.aget_connection(conn_id)
        return connection, await connection.aextra_dejson()

    def looked_up() -> "tuple[Connection, dict[str, Any]]":
        found = BaseHook.get_connection(conn_id)
        return found, found.extra_dejson

    return await asyncio.to_thread(looked_up)
