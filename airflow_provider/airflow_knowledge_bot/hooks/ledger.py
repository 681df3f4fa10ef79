"""The ledger that an Airflow connection names."""

from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from airflow_knowledge_bot._compat import AirflowNotFoundException

# isort: split
from airflow.sdk import BaseHook

from airflow_knowledge_bot.get_provider_info import ConnectionForm

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from knowledge_bot import ConfigurationError
    from knowledge_bot.ingest import Ledger

# The parts of a PostgreSQL connection's extra that are for the driver.
_DRIVER_OPTIONS = ("sslmode", "sslrootcert", "sslcert", "sslkey", "target_session_attrs", "options")


class KnowledgeBotLedgerHook(ConnectionForm, BaseHook):
    """Gives the ledger that a connection of type `knowledge_bot_ledger` names.

    Args:
        ledger_conn_id: id of the connection. With a database, host, port, login and password it is
            in PostgreSQL; with a path as the host and no database, in a SQLite file on the machine
            that runs the task. Connections of type `postgres` and `sqlite` work as well.
    """

    conn_name_attr = "ledger_conn_id"
    default_conn_name = "knowledge_bot_ledger_default"
    conn_type = "knowledge_bot_ledger"
    hook_name = "Knowledge-Bot ledger"

    def __init__(self, ledger_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.ledger_conn_id = ledger_conn_id

    def get_conn(self) -> "Ledger":
        """Return the ledger, which opens its database when it is used.

        Raises:
            ConfigurationError: there is no such connection, or it cannot hold a ledger.
        """
        from knowledge_bot.ingest import Ledger

        try:
            connection = self.get_connection(self.ledger_conn_id)
        except AirflowNotFoundException as error:
            missing = f"names a connection that does not exist: {self.ledger_conn_id!r}"
            raise _wrong(missing) from error
        return Ledger(_address(self.ledger_conn_id, connection))

    def test_connection(self) -> tuple[bool, str]:
        """Open the ledger, and count its items.

        Returns:
            Whether it worked, and a sentence for the person who pressed the button.
        """
        from knowledge_bot import ConfigurationError
        from knowledge_bot.ingest import LedgerError

        try:
            ledger = self.get_conn()
            file = ledger.database.file
            if file is not None and not file.parent.is_dir():
                return False, f"There is no folder {file.parent} on the machine of the API server."
            if not ledger.exists():
                return True, f"There is no ledger at {ledger} yet: the first run creates it."
            held = ledger.status()
        except (ConfigurationError, LedgerError) as error:
            return False, str(error)
        known = sum(each.created + each.claimed + each.refused + each.unknown for each in held)
        unknown = sum(each.unknown for each in held)
        return True, f"The ledger {ledger} knows {known} items, {unknown} of unknown outcome."


def _address(conn_id: str, connection: "Connection") -> str:
    if connection.conn_type == "sqlite":
        # The form puts the file's path into the host; a connection URI, into the schema.
        path = connection.host or connection.schema
        if path:
            return path
    elif connection.conn_type in ("postgres", "postgresql"):
        return _postgresql_address(connection)
    elif connection.conn_type == KnowledgeBotLedgerHook.conn_type and connection.host:
        return _postgresql_address(connection) if connection.schema else connection.host
    known = ("sqlite", KnowledgeBotLedgerHook.conn_type)
    reason = (
        "has no host" if connection.conn_type in known else f"is of type {connection.conn_type!r}"
    )
    raise _wrong(
        f"names the connection {conn_id!r}, which {reason}: a ledger needs one of type "
        "'knowledge_bot_ledger', 'postgres', or 'sqlite' with the file's path as its host"
    )


def _wrong(reason: str) -> "ConfigurationError":
    from knowledge_bot import ConfigurationError

    return ConfigurationError.of("ledger_conn_id", f"it {reason}")


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
