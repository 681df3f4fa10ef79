"""A ledger in PostgreSQL behind a connection pooler."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import pytest

from ingest_texts import texts
from knowledge_bot.ingest import Ledger

pytestmark = pytest.mark.integration

PREPARED = "SELECT count(*) FROM pg_prepared_statements"
KEY_DATA = b"K\0\0\0\x0c"  # of the protocol's BackendKeyData, before the id and the secret


@pytest.fixture
def pooled(postgresql: str) -> Iterator[str]:
    """The address of a proxy that names an id of its own, as a pooler does."""
    parts = urlsplit(postgresql)
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                server = socket.create_connection((parts.hostname, parts.port))
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=pass_on, args=(one, other), daemon=True).start()

    def pass_on(one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                before, key, after = data.partition(KEY_DATA)
                other.sendall(before + key + (b"\0\0\0\1" + after[4:] if key else after))
            other.shutdown(socket.SHUT_WR)

    threading.Thread(target=serve, daemon=True).start()
    yield postgresql.replace(f":{parts.port}/", f":{listening.getsockname()[1]}/")
    listening.close()


@pytest.mark.parametrize(("address", "prepares"), [("postgresql", True), ("pooled", False)])
def test_nothing_is_prepared_where_a_pooler_stands_between(
    request, address, prepares, send, service
):
    ledger = Ledger(request.getfixturevalue(address))
    assert send(texts(20), ledger=ledger).created == 20
    connection = ledger.database.open(reading=False)
    assert connection is not None
    for _ in range(10):
        connection.rows("SELECT 1")
    assert bool(connection.rows(PREPARED)[0][0]) is prepares
    connection.close()
