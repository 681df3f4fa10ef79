"""Claiming sources: those that are not done, however many are."""

from knowledge_bot.models import Collection
from knowledge_bot_service.store.sources import Material, SourceStore, StoredSource


def test_sources_are_claimed_without_going_through_those_that_are_done(database):
    store = SourceStore(database, ["col_one"])
    done = [(f"src_{number}",) for number in range(20_000)]
    database.write(
        lambda connection: connection.executemany(
            "INSERT INTO source (public_id, name, kind, status, created_at)"
            " VALUES (?, 'Done', 'text', 'ready', 0)",
            done,
        )
    ).result()
    for name in ("older", "newer"):
        source = StoredSource(
            id=f"src_{name}",
            name=name,
            collections=(Collection(id="col_one", name="One"),),
            status="pending",
            created_at=0,
            revision=name,
            kind="text",
        )
        store.accept(
            source=source, material=Material(content="Text."), public_id=source.id
        ).result()
    # Called once for every thousand instructions of SQLite's machine.
    thousands: list[None] = []
    database.write(
        lambda connection: connection.set_progress_handler(lambda: thousands.append(None), 1000)
    ).result()
    jobs = store.jobs(["src_newer", "src_7", "src_older"])
    assert [(job.name, job.begun) for job in jobs] == [("newer", False), ("older", False)]
    claimed = [store.claim("src_older"), store.claim("src_7")]
    assert [job and job.name for job in claimed] == ["older", None]
    assert len(thousands) < 5
