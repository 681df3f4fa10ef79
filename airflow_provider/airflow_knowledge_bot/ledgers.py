"""The ledger that an Airflow connection names."""

from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

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
    if connection.conn_type == "sqlite":
        # The form puts the file's path into the host; a connection URI, into the schema.
        path = connection.host or connection.schema
        if path:
            return path
    elif connection.conn_type in ("postgres", "postgresql"):
        return _postgresql_address(connection)
    raise AirflowFailException(
        f"The task's parameter 'ledger_conn_id' names the connection {conn_id!r}, which is of type "
        f"{connection.conn_type!r} or empty: a ledger needs one of type 'postgres', or of type "
        "'sqlite' with the file's path as its host. Nothing was sent."
    )


def _postgresql_address(connection: "Connection") -> str:
    """Return a connection as a URI of libpq (PostgreSQL, "Connection Strings", 34.1.1.2)."""
    user = quote(connection.login or "", safe="")
    if connection.password:
        user += f":{quote(connection.password, safe='')}"
    if user:
        user += "@"
    # A host is a name, an address, a folder of sockets, or several of these with commas between
    # them; libpq takes one port for each.
    hosts = [
        f"[{host}]" if ":" in host else quote(host, safe="")
        for host in (connection.host or "").split(",")
    ]
    port = f":{connection.port}" if connection.port else ""
    place = ",".join(f"{host}{port}" for host in hosts)
    database = quote(connection.schema or "", safe="")
    extra = connection.extra_dejson
    given = {name: extra[name] for name in _DRIVER_OPTIONS if name in extra}
    options = f"?{urlencode(given, quote_via=quote)}" if given else ""
    return f"postgresql://{user}{place}/{database}{options}"
