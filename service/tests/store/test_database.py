"""One writer for many clients: what shares a transaction, what an error undoes, what waits."""

import secrets
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from knowledge_bot_service.store.database import DatabaseClosedError, ServiceDatabase


def add(name):
    return lambda connection: (
        connection.execute("INSERT INTO collection (public_id) VALUES (?)", (name,)).lastrowid
    )


def names(database):
    rows = database.reader().execute("SELECT public_id FROM collection ORDER BY id")
    return [row["public_id"] for row in rows]


def hold(database):
    """Keep the writer busy until the event is set."""
    release, holding = threading.Event(), threading.Event()

    def wait(connection):
        holding.set()
        release.wait(10)

    database.write(wait)
    assert holding.wait(10)
    return release


def test_what_waits_is_committed_together(database, tmp_path):
    commits: list[str] = []
    database.write(lambda connection: connection.set_trace_callback(commits.append)).result()
    commits.clear()
    release = hold(database)
    with ThreadPoolExecutor(8) as pool:
        futures = list(pool.map(lambda number: database.write(add(str(number))), range(100)))
    release.set()
    assert sorted(future.result(10) for future in futures) == list(range(1, 101))
    assert commits.count("COMMIT") <= 2
    assert len(names(database)) == 100


def test_an_error_undoes_its_own_work_alone(database):
    def half(connection):
        add("half")(connection)
        raise KeyError("broken")

    release = hold(database)
    before, broken, after = (database.write(work) for work in (add("a"), half, add("b")))
    release.set()
    assert (before.result(10), after.result(10)) == (1, 2)
    with pytest.raises(KeyError, match="broken"):
        broken.result(10)
    assert names(database) == ["a", "b"]


def test_clients_go_before_background_work(database):
    release = hold(database)
    database.write(add("background"), background=1)
    database.write(add("more background"), background=1)
    last = database.write(add("client"))
    release.set()
    last.result(10)
    database.write(add("end"), background=1).result(10)
    assert names(database) == ["client", "background", "more background", "end"]


def test_a_client_waits_for_one_background_operation_at_most(database):
    release, holding = threading.Event(), threading.Event()

    def first(connection):
        add("first")(connection)
        holding.set()
        release.wait(10)

    database.write(first, background=1)
    assert holding.wait(10)
    last = [database.write(add(name), background=1) for name in ("second", "third")][-1]
    database.write(add("client"))
    release.set()
    last.result(10)
    assert names(database) == ["first", "client", "second", "third"]


def test_clients_without_end_leave_background_work_its_turns(database):
    ended = threading.Event()

    def client(connection):
        add(secrets.token_hex())(connection)
        if not ended.is_set():
            database.write(client)

    database.write(client)
    try:
        database.write(lambda _: None, background=1).result(10)
    finally:
        ended.set()


def test_closing_finishes_what_waits_and_refuses_the_rest(tmp_path):
    database = ServiceDatabase(tmp_path / "test.sqlite3")
    release = hold(database)
    futures = [database.write(add(str(number)), background=number % 2 == 0) for number in range(9)]
    release.set()
    database.close()
    assert all(future.done() for future in futures)
    with pytest.raises(DatabaseClosedError):
        database.write(add("late"))
