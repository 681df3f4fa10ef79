"""What is gone or superseded is removed, under guards; and a run waits until all is ready."""

import os
import shutil
import time
from pathlib import Path

import pytest

from knowledge_bot import Client, ConfigurationError, UnsupportedError
from knowledge_bot.ingest import Ledger, PrunePlan, Skipped, Text, ingest
from knowledge_bot.ingest._schema import LedgerError
from knowledge_bot.origins import Folder
from knowledge_bot.testing import MemoryService, no_waiting

pytestmark = pytest.mark.timeout(60)

URL = "https://service.test"
BOTH = "idempotency=1;lifetime=604800, sources=1;manage;rename"


@pytest.fixture
def service() -> MemoryService:
    return MemoryService(extensions={"sources", "idempotency"})


@pytest.fixture
def client(service):
    with no_waiting():
        yield Client("key", URL, transport=service.transport)


@pytest.fixture
def ledger(ledger_address: str) -> Ledger:
    return Ledger(ledger_address)


@pytest.fixture
def night(service, ledger):
    def go(items, **options):
        options = {"ledger": ledger, "origin": "handbook", "concurrency": 1, **options}  # in order
        options = {"collections": "col_default", **options}
        with no_waiting(), Client("key", URL, transport=service.transport) as client:
            return ingest(client, items, **options)

    return go


def texts(*names: object, content: str = "About {}.") -> list[Text]:
    return [Text(name=f"t{name}", content=content.format(name)) for name in names]


def names(service: MemoryService) -> list[str]:
    return sorted(one["name"] for one in service.sources)


def changed_by_hand(service: MemoryService, source: dict) -> None:
    client = Client("key", URL, transport=service.transport)
    client.replace_source(
        source["id"], name=source["name"], collections="col_default", content="by hand"
    )


# The guards ---------------------------------------------------------------------------------------


def test_what_is_gone_is_removed_and_leaves_the_ledger(night, service, ledger):
    night(texts(*range(10)))
    outcomes = []
    report = night(texts(*range(9)), prune=True, on_outcome=outcomes.append)
    assert (report.removed, report.gone, report.unchanged, report.ok) == (1, 0, 9, True)
    assert [(one.kind, one.name) for one in outcomes] == [("removed", "t9")]
    assert names(service) == [f"t{n}" for n in range(9)]
    (request,) = [one for one in service.requests if one.method == "DELETE"]
    assert request.headers["if-match"]
    assert len(list(ledger.entries())) == 9
    assert night(texts(*range(10)), prune=True).created == 1


def test_a_disk_in_the_folder_that_is_not_mounted_removes_nothing(night, folder, service):
    night(Folder(folder))
    shutil.rmtree(folder / "archive")
    (folder / "archive").mkdir()
    assert night(Folder(folder), prune=True).removed == 0
    assert len(service.sources) == 10


@pytest.mark.parametrize("exclude", [(), "archive/"])
def test_a_folder_that_turns_out_to_be_a_services_is_removed(night, folder, service, exclude):
    night(Folder(folder))
    (folder / "archive/knowledge.sqlite3").touch()
    assert night(Folder(folder, exclude=exclude), prune=True).removed == 4
    assert len(service.sources) == 6


def test_a_new_filter_removes_only_if_that_is_asked_for(night, folder, service, ledger):
    night(Folder(folder))
    for _ in range(3):
        report = night(Folder(folder, exclude=["archive/**"]), prune=True)
        assert (report.removed, report.gone) == (0, 4)
    assert {entry.gone_reason for entry in ledger.gone()} == {"excluded"}
    assert night(Folder(folder, exclude=["archive/**"]), prune="excluded").removed == 4
    assert len(service.sources) == 6


def test_many_go_only_when_a_second_complete_run_misses_them(night, service):
    night(texts(*range(40)))
    report = night(texts(*range(30)), prune=True)
    assert (report.removed, report.gone) == (0, 10)
    night([*texts(*range(30)), object()], prune=True)  # not complete
    assert len(service.sources) == 40
    report = night(texts(*range(30)), prune=True)
    assert (report.removed, report.gone) == (10, 0)


def test_what_is_back_in_the_second_run_stays(night, service):
    night(texts(*range(40)))
    night(texts(*range(30)), prune=True)
    assert night(texts(*range(40)), prune=True).unchanged == 40
    assert night(texts(*range(30)), prune=True).removed == 0


def test_more_than_the_limit_goes_only_by_a_plan(night, client, service, ledger):
    night(texts(*range(40)))
    for _ in range(3):
        report = night([], prune=True)
        assert (report.removed, report.gone, report.gone_withheld) == (0, 0, 40)
    plan = PrunePlan.from_json(ledger.prune_plan().to_json())
    assert len(plan.lines) == 40
    assert {line["reason"] for line in plan.lines} == {"missing"}
    changed_by_hand(service, service.sources[3])
    night(texts(0))  # one is back
    report = ingest(client, [], collections="col_default", ledger=ledger, prune=plan)
    assert (report.removed, report.unremoved) == (38, 2)
    assert names(service) == ["t0", "t3"]
    again = ingest(client, [], collections="col_default", ledger=ledger, prune=plan)
    assert (again.removed, again.unremoved) == (0, 2)  # what is removed is done


def test_a_plan_that_was_edited_is_refused(night, ledger):
    night(texts(*range(10)))
    night(texts(*range(8)))
    text = ledger.prune_plan().to_json()
    with pytest.raises(LedgerError):
        PrunePlan.from_json(text.replace('"t9"', '"t1"'))
    with pytest.raises(LedgerError):
        PrunePlan.from_json("{}")
    with pytest.raises(LedgerError):
        PrunePlan.from_json(b'{"service": "\xe9"}')


def test_a_plan_is_for_one_service_and_leaves_no_trace_at_another(night, service, ledger):
    night(texts(*range(10)))
    night(texts(*range(8)))
    plan = ledger.prune_plan()
    with Client("key", "https://other.test", transport=service.transport) as other:
        with pytest.raises(ConfigurationError, match="plan"):
            ingest(other, [], collections="col_default", ledger=ledger, prune=plan)
        assert ledger.prune_plan() == plan  # the only service's, still
        ingest(other, texts(1), collections="col_default", ledger=ledger)
    with pytest.raises(LedgerError, match="several"):
        ledger.prune_plan()
    assert ledger.prune_plan(service=plan.service) == plan
    assert len(service.sources) == 11


@pytest.mark.parametrize("how", ["partial", "limited", "raised"])
def test_a_run_that_did_not_see_all_removes_nothing(night, service, how):
    def items():
        yield from texts(*range(8))
        if how == "raised":
            raise OSError("the share is away")
        if how == "partial":
            yield Skipped("archive", "it cannot be read", invalid=True, partial=True)

    night(texts(*range(10)))
    try:
        report = night(items(), prune=True, limit=0 if how == "limited" else None)
    except OSError:
        assert how == "raised"
    else:
        assert report.removed == (2 if how == "limited" else 0)
    assert len(service.sources) == (8 if how == "limited" else 10)


def test_a_folder_without_its_marker_is_not_that_folder(night, folder, service):
    (folder / ".kbot-origin").write_text("handbook")
    report = night(Folder(folder, marker=".kbot-origin"))
    assert (report.created, report.skipped) == (10, 0)
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "local.md").write_text("What lies below the mount.")
    for _ in range(2):
        report = night(Folder(folder, marker=".kbot-origin"), prune=True)
        assert (report.created, report.removed, report.invalid) == (0, 0, 1)
        assert report.gone_unknown
        (folder / ".kbot-origin").mkdir(exist_ok=True)  # which is no file either


@pytest.mark.parametrize("place", ["archive", "."])
def test_a_folder_that_is_no_longer_another_file_system_makes_the_run_incomplete(
    night, folder, service, monkeypatch, place
):
    real, mounted, disk = os.stat, True, folder / place

    def stat(path, *arguments, **options):
        found = real(path, *arguments, **options)
        if not mounted or not Path(os.path.normpath(path)).is_relative_to(disk):
            return found
        fields = list(found)
        fields[2] += 1
        return os.stat_result(fields, {"st_mtime_ns": 1, "st_ctime_ns": 1})

    monkeypatch.setattr(os, "stat", stat)
    assert night(Folder(folder)).created == 10
    mounted = False
    shutil.rmtree(disk)
    disk.mkdir()
    for _ in range(2):
        report = night(Folder(folder), prune=True, gone_limit=1)
        assert (report.removed, report.gone, report.invalid) == (0, 0, 1)
    if place == ".":  # it is the folder now, since it has a file
        (disk / "new.md").write_text("New.")
        assert night(Folder(folder), prune=True, gone_limit=1).created == 1
    else:
        disk.rmdir()
    report = [night(Folder(folder), prune=True, gone_limit=1) for _ in range(2)]
    assert sum(one.removed for one in report) == (10 if place == "." else 4)


@pytest.mark.parametrize("back", [False, True])
def test_a_source_that_somebody_changed_is_told_and_settled_by_the_next_run(night, service, back):
    night(texts(*range(10)))
    changed_by_hand(service, service.sources[9])
    report = night(texts(*range(9)), prune=True)
    assert (report.removed, report.unremoved, report.ok) == (0, 1, False)
    assert len(service.sources) == 10
    report = night(texts(*range(10 if back else 9)), prune=True)
    assert (report.removed, report.replaced) == (not back, back)
    assert not back or service.ready_content(service.sources[9]["id"]) == "About 9."


def test_a_source_that_is_not_there_any_more_is_removed(night, service):
    night(texts(*range(10)))
    del service.sources[9]
    assert night(texts(*range(9)), prune=True).removed == 1


@pytest.mark.parametrize("status", [403, 404, 405, 500, 501])
def test_what_cannot_be_removed_is_named_and_stays_listed(night, service, ledger, status):
    night(texts(*range(10)))
    service.fail_next(status, times=3 if status == 500 else 1)  # as often as it is tried
    report = night(texts(*range(8)), prune=True, concurrency=1)
    assert (report.removed, report.unremoved, report.gone) == (1, 1, 1)
    assert (report.stopped, report.ok) == (None, False)
    assert len(list(ledger.gone())) == 1
    assert night(texts(*range(8)), prune=True).removed == 1


@pytest.mark.parametrize("name", ["t9", "elsewhere"])
def test_what_may_be_removed_is_sent_when_it_comes_back(night, service, ledger, name):
    night(texts(*range(10)))
    service.lose_next_answer(times=3)
    report = night(texts(*range(9)), prune=True)
    assert (report.removed, report.unremoved, len(service.sources)) == (0, 1, 9)
    report = night([*texts(*range(9)), Text(name=name, content="About 9.")], prune=True)
    assert (report.created, report.unchanged, report.ok) == (1, 9, True)
    assert names(service) == sorted([f"t{n}" for n in range(9)] + [name])


def test_what_another_run_has_seen_again_meanwhile_is_not_removed(night, service, ledger):
    night(texts(*range(10)))
    outcomes = []

    def seen_again(outcome):  # while the first of them is being removed
        if outcome.kind == "unremoved" and not outcomes:
            night(texts(*range(10)))
        outcomes.append(outcome)

    service.fail_next(403)
    report = night(texts(*range(8)), prune=True, on_outcome=seen_again)
    assert (report.removed, report.unremoved) == (0, 2)
    assert len(service.sources) == 10
    assert night(texts(*range(10)), prune=True).unchanged == 10


def test_what_another_run_removes_while_it_comes_back_is_sent_by_the_next(night, service):
    night(texts(*range(10)))
    night(texts(*range(9)))

    def removed_meanwhile(outcome):  # after it was compared, and before that is written
        assert outcome.kind == "skipped"
        assert night(texts(*range(9)), prune=True).removed == 1

    night([*texts(*range(10)), Skipped("left out", "a filter")], on_outcome=removed_meanwhile)
    assert night(texts(*range(10))).created == 1
    assert len(service.sources) == 10


# What is unknown and gone -------------------------------------------------------------------------


@pytest.mark.parametrize("prune", [True, False])
def test_what_was_sent_nobody_knows_whether_and_is_gone_is_found(night, service, ledger, prune):
    night(texts(*range(9)))
    service.lose_next_answer(times=9)
    assert night(texts(*range(10))).unknown == 1
    report = night(texts(*range(9)), prune=prune)
    assert (report.removed, report.gone, report.ok) == ((1, 0, True) if prune else (0, 1, True))
    assert len(service.sources) == (9 if prune else 10)
    assert list(ledger.unknown()) == []
    if not prune:
        (entry,) = ledger.gone()
        assert entry.source_id == service.sources[9]["id"]
        assert night(texts(*range(10))).replaced == 1


def test_what_never_arrived_and_is_gone_is_forgotten(night, service, ledger):
    night(texts(*range(9)))
    service.time_out_next(times=9)
    assert night(texts(*range(10))).unknown == 1
    assert night(texts(*range(9)), prune=True).ok
    assert len(list(ledger.entries())) == 9
    assert night(texts(*range(10))).created == 1


def test_what_was_replaced_nobody_knows_whether_and_is_gone_is_removed(night, service, ledger):
    night(texts(*range(10)))
    service.lose_next_answer(times=9)
    changed = [*texts(*range(9)), *texts(9, content="New {}.")]
    assert night(changed).unknown == 1
    assert night(texts(*range(9)), prune=True).removed == 1
    assert names(service) == [f"t{n}" for n in range(9)]
    assert list(ledger.unknown()) == []


def test_what_is_unknown_and_moved_is_one_source(night, service, ledger):
    night(texts(*range(9)))
    service.lose_next_answer(times=9)
    night(texts(*range(10)))
    moved = [*texts(*range(9)), Text(name="elsewhere", content="About 9.")]
    assert night(moved, prune=True).removed == 1
    assert names(service) == ["elsewhere", *(f"t{n}" for n in range(9))]
    assert night(moved, prune=True).unchanged == 10


@pytest.mark.parametrize("arrived", [True, False])
def test_what_a_person_created_meanwhile_is_not_taken_for_it(
    night, client, service, ledger, arrived
):
    night(texts(*range(9)))
    service.lose_next_answer(times=9) if arrived else service.time_out_next(times=9)
    night(texts(*range(10)))
    client.create_text_source(name="t9", collections="col_default", content="By hand.")
    assert night(texts(*range(9)), prune=True).removed == arrived
    assert [entry.key for entry in ledger.unknown()] == ([] if arrived else ["t9"])
    assert len(service.sources) == 10
    assert service.ready_content(service.sources[-1]["id"]) == "By hand."


# What was superseded ------------------------------------------------------------------------------


def test_many_nights_without_the_extension_are_put_right_by_one(night, service, ledger):
    service.announcement = ""
    night(texts(*range(10)))
    night([*texts(*range(8)), *texts(8, content="Changed {}.")])
    night([*texts(*range(7)), *texts(8, content="Again {}.")])
    assert (len(service.sources), len(list(ledger.superseded()))) == (12, 2)
    assert len(list(ledger.gone())) == 2
    service.announcement = BOTH
    report = night([*texts(*range(7)), *texts(8, content="Again {}.")], prune=True)
    assert (report.removed, report.unremoved, report.unchanged, report.gone) == (4, 0, 8, 0)
    assert names(service) == sorted(["t8", *(f"t{n}" for n in range(7))])
    assert service.ready_content(service.sources[-1]["id"]) == "Again 8."
    assert list(ledger.superseded()) == list(ledger.gone()) == []


def test_a_superseded_source_stays_until_the_newer_one_is_ready(night, service):
    service.announcement = ""
    night(texts(*range(3)))
    service.hold_sources()
    night([*texts(0, 1), *texts(2, content="New {}.")])
    service.announcement = BOTH
    report = night([], prune=True, origin=None)
    assert (report.removed, report.unremoved, len(service.sources)) == (0, 0, 4)
    service.finish_sources()
    assert night([], prune=True, origin=None).removed == 1
    assert len(service.sources) == 3


def test_a_superseded_source_stays_if_the_newer_one_was_deleted(night, service):
    service.announcement = ""
    night(texts(0))
    night(texts(0, content="New {}."))
    service.announcement = BOTH
    del service.sources[1]
    report = night([], prune=True, origin=None)
    assert (report.removed, report.unremoved, len(service.sources)) == (0, 1, 1)


# Other services -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("announced", "wish"),
    [
        *((one, {"prune": True}) for one in ("", "sources=1", "idempotency=1;lifetime=9")),
        ("", {"wait_ready": 5}),
    ],
)
def test_a_service_that_cannot_is_told_before_anything_is_sent(night, service, announced, wish):
    service.announcement = announced
    with pytest.raises(UnsupportedError):
        night(texts(1), **wish)
    assert service.requests == []


def test_a_function_removes_on_other_services(night, service, ledger, monkeypatch):
    service.announcement, now = "", time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    night(texts(*range(10)))
    night([*texts(*range(8)), *texts(8, content="Changed {}.")])
    called = []

    def remove(entry):
        called.append((entry.source_id, entry.key))
        if len(called) == 1:
            raise OSError("not now")

    rows = [*texts(*range(8)), *texts(8, content="Changed {}.")]
    report = night(rows, prune=remove)
    assert (report.removed, report.unremoved, report.ok) == (0, 1, False)
    monkeypatch.setattr(time, "time", lambda: now + 1)
    report = night(rows, prune=remove)
    assert (report.removed, report.unremoved) == (2, 0)
    assert called == [("src_10", "t9"), ("src_10", "t9"), ("src_9", "t8")]
    assert list(ledger.gone()) == list(ledger.superseded()) == []


def test_a_function_removes_nothing_that_its_own_run_superseded(night, service, monkeypatch):
    service.announcement, now = "", time.time()
    night(texts(*range(2)))

    def slow():
        yield from texts(0, content="New {}.")
        monkeypatch.setattr(time, "time", lambda: now + 1000)
        yield from texts(1)

    removed = []
    report = night(slow(), prune=removed.append)
    assert (report.superseded, report.removed, removed) == (1, 0, [])
    monkeypatch.setattr(time, "time", lambda: now + 2000)
    assert night(slow(), prune=removed.append).removed == 1


def test_a_dry_run_tells_what_would_be_removed(night, service, ledger):
    night(texts(*range(10)))
    outcomes = []
    report = night(texts(*range(9)), prune=True, dry_run=True, on_outcome=outcomes.append)
    assert (report.removed, report.gone, [one.name for one in outcomes]) == (1, 0, ["t9"])
    assert (len(service.sources), list(ledger.gone())) == (10, [])


# Ready --------------------------------------------------------------------------------------------


def test_a_run_waits_until_all_is_ready(night, service, ledger):
    assert night(texts(1, 2), wait_ready=10).ok
    assert all(entry.ready_at for entry in ledger.entries())
    listed = [one for one in service.requests if one.method == "GET"]
    assert [one.path for one in listed] == ["/sources"]


def test_a_service_that_is_never_ready_holds_nobody_up(night, service, ledger):
    night(texts(1, 2), prune=True)
    service.hold_sources()
    report = night(texts(1, 3), prune=True, wait_ready=0.3)
    assert (report.created, report.removed, report.unready, report.ok) == (1, 1, 1, True)
    assert [entry.key for entry in ledger.entries() if entry.ready_at is None] == ["t3"]
    service.finish_sources()
    assert night(texts(1, 3), wait_ready=1).unready == 0
    assert all(entry.ready_at for entry in ledger.entries())


def test_what_cannot_be_read_fails_by_name_until_it_is_replaced(night, service, ledger):
    service.fail_source("t2", "it is encrypted")
    for _ in range(2):
        report = night(texts(1, 2), wait_ready=10)
        assert (report.failed, report.ok) == (1, False)
        (failure,) = report.failures
        assert (failure.kind, failure.name, failure.error) == ("failed", "t2", "it is encrypted")
        assert failure.source_id == service.sources[1]["id"]
    assert next(one for one in ledger.entries() if one.key == "t2").error == "it is encrypted"
    report = night([*texts(1), *texts(2, content="New {}.")], wait_ready=10)
    assert (report.failed, report.replaced, report.ok) == (0, 1, True)
    assert [one.error for one in ledger.entries()] == ["", ""]


def test_what_another_origin_feeds_is_not_waited_for_and_not_told(night, service):
    service.fail_source("t2", "it is encrypted")
    assert night(texts(2), origin="broken", wait_ready=10).failed == 1
    assert night(texts(1), origin="good", wait_ready=10).ok
    assert night(texts(3), origin=None, wait_ready=10).ok
    assert night(texts(2), origin="broken", wait_ready=10).failed == 1


def test_what_a_run_sends_without_an_origin_is_waited_for(night, service):
    service.hold_sources()
    night(texts(1))
    report = night(texts(1, content="New {}."), origin=None, wait_ready=0.3)
    assert (report.replaced, report.unready) == (1, 1)


@pytest.mark.parametrize("away", ["fail_next", "refuse_next_connection"])
def test_a_service_that_restarts_meanwhile_is_waited_for(night, service, away):
    service.hold_sources()
    night(texts(1, 2))
    service.finish_sources()
    getattr(service, away)(times=5)
    assert night(texts(1, 2), wait_ready=30).unready == 0


def test_a_service_that_lists_nothing_any_more_is_not_waited_for(night, service):
    service.hold_sources()
    night(texts(1, 2))
    service.fail_next(403, times=1)
    before = len(service.requests)
    assert night(texts(1, 2), wait_ready=30).unready == 2
    assert len(service.requests) == before + 1


def test_what_cannot_be_read_and_is_gone_is_no_longer_told(night, service):
    service.fail_source("t2", "it is encrypted")
    assert night(texts(1, 2), wait_ready=10).failed == 1
    report = night(texts(1), wait_ready=10)
    assert (report.gone, report.failed, report.ok) == (1, 0, True)


def test_a_run_that_waits_for_nothing_asks_for_nothing(night, service):
    night(texts(1, 2), wait_ready=10)
    before = len(service.requests)
    night(texts(1, 2), wait_ready=10)
    assert len(service.requests) == before


def test_a_source_that_somebody_else_replaced_is_not_waited_for(night, service):
    service.hold_sources()
    night(texts(1))
    changed_by_hand(service, service.sources[0])
    assert night(texts(1), wait_ready=50).ok
    assert sum(one.path == "/sources" for one in service.requests if one.method == "GET") == 1
