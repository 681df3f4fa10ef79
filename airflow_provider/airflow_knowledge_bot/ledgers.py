"""The ledger that an Airflow connection names."""

from typing import TYPE_CHECKING

from airflow.sdk import BaseHook

from airflow_knowledge_bot._compat import AirflowFailException, AirflowNotFoundException

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from knowledge_bot.ingest import Ledger

# What of a PostgreSQL connection's extra is meant for the driver: Airflow keeps other things there.
_DRIVER_OPTIONS = ("sslmode", "sslrootcert", "sslcert", "sslkey", "target_session_attrs", "options")


def ledger_of(conn_id: str) -> "Ledger":
    """Return the ledger of a connection of type `postgres` or `sqlite`.

    Raises:
        AirflowFailException: there is no such connection, or it is none for a ledger.
    """
    from knowledge_bot.ingest import Ledger

    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise AirflowFailException(
            f"The task's parameter 'ledger_conn_id' names a connection that there is not: "
            f"{conn_id!r}. Nothing was sent."
        ) from error
    return Ledger(_address(conn_id, connection))


def _address(conn_id: str, connection: "Connection") -> str:
    from sqlalchemy.engine import URL

    if connection.conn_type == "sqlite":
        # The form puts the file's path into the host; a connection URI, into the schema.
        path = connection.host or connection.schema
        if path:
            return path
    elif connection.conn_type in ("postgres", "postgresql"):
        extra = connection.extra_dejson
        url = URL.create(
            "postgresql",
            username=connection.login or None,
            password=connection.password or None,
            host=connection.host or None,
            port=connection.port,
            database=connection.schema or None,
            query={name: str(extra[name]) for name in _DRIVER_OPTIONS if name in extra},
        )
        return url.render_as_string(hide_password=False)
    raise AirflowFailException(
        f"The task's parameter 'ledger_conn_id' names the connection {conn_id!r}, which is of type "
        f"{connection.conn_type!r} or empty: a ledger needs one of type 'postgres', or of type "
        "'sqlite' with the file's path as its host. Nothing was sent."
    )
