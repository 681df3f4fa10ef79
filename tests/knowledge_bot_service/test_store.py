"""Claiming sources: the oldest that is pending, however many are done."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge_bot_service.database import Database
from knowledge_bot_service.store import Kind, Material, Store


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "test.sqlite3")
    yield database
    database.close()


def test_the_next_source_is_found_without_going_through_those_that_are_done(
    database: Database,
) -> None:
    store = Store(database, ["col_one"])
    done = [(f"src_{number}",) for number in range(20_000)]
    database.write(
        lambda connection: connection.executemany(
            "INSERT INTO source (public_id, name, kind, status, created_at)"
            " VALUES (?, 'Done', 'text', 'ready', 0)",
            done,
        )
    ).result()
    for name in ("older", "newer"):
        store.accept(
            public_id=f"src_{name}",
            name=name,
            kind=Kind.TEXT,
            collections=["col_one"],
            material=Material(content="Text."),
            created_at=0,
        ).result()
    # Called once for every thousand instructions of SQLite's machine.
    thousands: list[None] = []
    database.write(
        lambda connection: connection.set_progress_handler(lambda: thousands.append(None), 1000)
    ).result()
    claimed = [store.claim(), store.claim(), store.claim()]
    assert [job and job.name for job in claimed] == ["older", "newer", None]
    assert len(thousands) < 5
