"""Where a service can replace sources, a changed item keeps its source."""

import time

import pytest

from knowledge_bot import Client
from knowledge_bot.ingest import Text, WebPage, ingest
from knowledge_bot.origins import Folder
from knowledge_bot.testing import MemoryService, no_waiting
from knowledge_bot.testing._extensions import ANNOUNCED

pytestmark = pytest.mark.timeout(60)

URL = "https://service.test"


@pytest.fixture
def service() -> MemoryService:
    return MemoryService(extensions={"sources", "idempotency"})


@pytest.fixture
def client(service):
    with no_waiting():
        yield Client("key", URL, transport=service.transport)


@pytest.fixture
def night(service, ledger):
    def go(items, transport=service.transport, **options):
        options = {"ledger": ledger, "concurrency": 1, **options}  # sources in order
        with no_waiting(), Client("key", URL, transport=transport) as client:
            return ingest(client, items, **{"collections": "col_default", **options})

    return go


def texts(*contents: str) -> list[Text]:
    return [Text(name=f"t{n}", content=content) for n, content in enumerate(contents)]


def contents(service: MemoryService) -> dict[str, object]:
    return {one["name"]: service.ready_content(one["id"]) for one in service.sources}


def test_a_changed_item_replaces_its_source(night, service, ledger, tmp_path):
    (tmp_path / "a.md").write_text("A file.")
    page = WebPage(name="page", url="https://a.test/", version="1")
    first = night([*texts("one", "two"), page, *Folder(tmp_path).items()])
    assert (first.created, first.replaced) == (4, 0)
    ids = {one["id"] for one in service.sources}
    (tmp_path / "a.md").write_text("A file, changed.")
    changed = [*texts("one", "new"), page.model_copy(update={"version": "2"})]
    outcomes = []
    report = night([*changed, *Folder(tmp_path).items()], on_outcome=outcomes.append)
    assert (report.created, report.replaced, report.superseded, report.unchanged) == (0, 3, 0, 1)
    assert report.ok
    assert [one.kind for one in outcomes if one.source_id] == ["replaced"] * 3
    assert {one["id"] for one in service.sources} == ids
    assert contents(service)["t1"] == "new"
    assert contents(service)["a.md"] == b"A file, changed."
    assert list(ledger.superseded()) == []
    assert night([*changed, *Folder(tmp_path).items()]).unchanged == 4


@pytest.mark.parametrize("extensions", [(), ("sources",), ("sources", "idempotency")])
def test_a_dry_run_counts_what_the_run_does(night, service, extensions):
    service.announcement = ", ".join(ANNOUNCED[one] for one in extensions)
    night(texts("one", "two", "three"))
    changed, said = texts("one", "new", "newer", "four"), []
    dry = night(changed, dry_run=True, on_outcome=said.append)
    assert len(service.sources) == 3
    done = night(changed)
    assert dry.counts == done.counts
    assert (done.replaced, done.superseded) == ((2, 0) if extensions else (0, 2))
    assert [one.kind for one in said] == (["replaced"] * 2 if extensions else ["created"] * 2) + [
        "created"
    ]


def test_a_dry_run_asks_the_service_only_about_what_is_there(night, service):
    night(texts("one"), dry_run=True)
    assert service.pings == []
    night(texts("one"))
    before = len(service.pings)
    night(texts("one"), dry_run=True)
    assert len(service.pings) == before


def test_a_source_that_somebody_deleted_is_created_anew(night, service, ledger):
    night(texts("one", "two"))
    del service.sources[1]
    report = night(texts("one", "new"))
    assert (report.created, report.replaced, report.superseded) == (1, 0, 0)
    assert contents(service) == {"t0": "one", "t1": "new"}
    assert list(ledger.superseded()) == list(ledger.unknown()) == []


def test_a_404_of_a_proxy_creates_nothing(night, service, ledger):
    night(texts("one", "two"))
    service.answer_next(404, b"<html>no such page</html>")
    report = night(texts("one", "new"))
    assert (report.created, report.replaced, report.refused) == (0, 0, 1)
    assert len(service.sources) == 2
    assert night(texts("one", "new")).replaced == 1


def test_a_source_that_somebody_changed_is_told_and_replaced_by_the_next_run(
    night, client, service, ledger
):
    night(texts("one", "two", "three"))
    (_, changed, _) = service.sources
    client.replace_source(changed["id"], name="t1", collections="col_default", content="by hand")
    report = night(texts("one", "new", "newer"))
    assert (report.refused, report.replaced) == (1, 1)
    (failure,) = report.failures
    assert changed["id"] in failure.error
    assert contents(service) == {"t0": "one", "t1": "by hand", "t2": "newer"}
    assert night(texts("one", "two", "newer")).replaced == 1, "what it had is not what it has"
    assert contents(service)["t1"] == "two"


def test_a_lost_answer_to_a_replacement_is_known(night, service):
    night(texts("one", "two"))
    service.lose_next_answer(times=2)
    report = night(texts("one", "new"))
    assert (report.replaced, report.unknown, report.ok) == (1, 0, True)
    assert contents(service) == {"t0": "one", "t1": "new"}


def test_a_run_that_begins_while_the_service_is_away_replaces_too(night, service, ledger):
    night(texts("one", "two"))
    away = iter(range(3))  # as long as a run only pings

    class Transport:
        def send(self, request):
            if next(away, None) is not None:
                raise ConnectionRefusedError
            return service.transport.send(request)

        def close(self):
            pass

    report = night(texts("one", "new"), transport=Transport())
    assert (report.created, report.replaced, report.ok) == (0, 1, True)
    assert list(ledger.superseded()) == []


def test_a_run_without_a_manager_key_creates_anew(night, service, ledger):
    night(texts("one", "two"))
    service.announcement = "sources=1, idempotency=1;lifetime=604800"
    report = night(texts("one", "new"))
    assert (report.created, report.replaced, report.superseded) == (1, 0, 1)
    (old,) = ledger.superseded()
    assert old.source_id == service.sources[1]["id"]


@pytest.mark.parametrize("status", [403, 405, 501])
def test_a_service_that_announces_and_refuses_is_told_by_name_and_the_rest_goes_on(
    night, service, ledger, status
):
    night(texts("one", "two"))
    service.fail_next(status, code="not_here", times=1 if status < 500 else 9)
    report = night([*texts("new", "newer"), Text(name="another", content="one")])
    assert (report.refused + report.unknown, report.replaced, report.created) == (1, 1, 1)
    assert [one.name for one in report.failures if one.kind != "same_content"] == ["t0"]
    assert report.stopped is None
    report = night([*texts("new", "newer"), Text(name="another", content="one")])
    assert (report.replaced, report.unchanged, report.ok) == (1, 2, True)
    assert contents(service) == {"t0": "new", "t1": "newer", "another": "one"}
    assert list(ledger.unknown()) == list(ledger.superseded()) == []


@pytest.mark.parametrize("there", [True, False])
def test_a_moved_item_is_renamed_if_its_source_is_there(night, service, tmp_path, there):
    for name in "abcdef":
        (tmp_path / f"{name}.md").write_text(f"About {name}.")
    night(Folder(tmp_path, name="handbook"))
    before = {one["id"]: one["revision"] for one in service.sources}
    del service.sources[6 if there else 5 :]
    (tmp_path / "f.md").rename(tmp_path / "z.md")
    report = night(Folder(tmp_path, name="handbook"))
    assert (report.moved, report.created, report.unchanged) == (there, not there, 5)
    assert ({one["id"]: one["revision"] for one in service.sources} == before) is there
    assert contents(service)["z.md"] == b"About f."
    assert [one.method for one in service.requests[6:]] == ["PATCH", "POST"][: 2 - there]


# Keys ---------------------------------------------------------------------------------------------


def test_a_lost_answer_is_asked_for_again_with_the_same_key(night, service, ledger):
    service.lose_next_answer(times=3)
    report = night(texts("one"))
    assert (report.created, report.unknown, report.ok) == (1, 0, True)
    assert len(service.sources) == 1
    assert len({one.headers["idempotency-key"] for one in service.requests}) == 1
    assert len(service.requests) == 4


def test_what_stays_unknown_is_known_in_the_next_run(night, service, ledger):
    service.lose_next_answer(times=9)
    report = night(texts("one"))
    assert (report.created, report.unknown) == (0, 1)
    report = night(texts("one"))
    assert (report.created, report.unknown, report.ok) == (1, 0, True)
    assert len(service.sources) == 1
    assert list(ledger.unknown()) == []


def test_what_was_refused_has_a_new_key_next_time(night, service):
    service.fail_next(400)
    assert night(texts("one")).refused == 1
    assert night(texts("one")).created == 1
    first, second = (one.headers["idempotency-key"] for one in service.requests)
    assert first != second


@pytest.mark.parametrize("manages", [True, False])
def test_an_unknown_item_that_changed_is_found_and_replaced(night, service, ledger, manages):
    if not manages:
        service.announcement = "idempotency=1;lifetime=604800"
    service.lose_next_answer(times=9)
    assert night(texts("one")).unknown == 1
    report = night(texts("new"))
    assert (report.created, report.replaced) == ((0, 1) if manages else (1, 0))
    assert report.ok
    assert report.superseded == (not manages)
    assert len(service.sources) == (1 if manages else 2)
    (entry,) = ledger.entries()
    assert service.ready_content(entry.source_id) == "new"


def test_an_unknown_item_that_changed_and_never_arrived_is_created(night, service, ledger):
    service.time_out_next(times=9)
    assert night(texts("one")).unknown == 1
    report = night(texts("new"))
    assert (report.created, report.ok) == (1, True)
    assert contents(service) == {"t0": "new"}


def test_past_the_lifetime_it_is_unknown(night, service, ledger):
    service.lose_next_answer(times=9)
    assert night(texts("one")).unknown == 1
    service.announcement = "idempotency=1;lifetime=0"
    report = night(texts("one"))
    assert (report.created, report.unknown) == (0, 1)
    assert len(service.requests) == 9


def test_a_key_that_the_service_calls_expired_leaves_it_unknown(night, service, ledger):
    service.lose_next_answer(times=9)
    night(texts("one"))
    service.fail_next(412, code="idempotency_key_expired")
    assert night(texts("one", "two")).unknown == 1
    assert len(service.sources) == 2
    assert night(texts("one", "two")).created == 1, "it was asked for again"


def test_a_reused_key_that_names_nothing_is_looked_for_by_name(night, service, ledger, monkeypatch):
    service.lose_next_answer(times=9)
    assert night(texts("one")).unknown == 1
    service.answer_next(422, b'{"code": "idempotency_key_reused", "message": "used"}')
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 86400)  # a night later
    report = night(texts("new"))
    assert (report.replaced, report.ok) == (1, True)
    assert contents(service) == {"t0": "new"}


def test_what_is_in_use_is_not_now(night, service):
    service.fail_next(409, code="idempotency_key_in_use", retry_after=1, times=2)
    report = night(texts("one"))
    assert (report.created, report.ok) == (1, True)
    assert len({one.headers["idempotency-key"] for one in service.requests}) == 1


def test_an_error_that_says_nothing_of_an_earlier_attempt_leaves_it_unknown(night, service, ledger):
    service.lose_next_answer()
    service.fail_next(401)
    report = night(texts("one"))
    assert (report.unknown, report.refused) == (1, 0)
    assert night(texts("one")).created == 1
    assert len(service.sources) == 1


def test_a_client_sends_no_more_keys_to_a_service_that_ignores_them(client, service, ledger):
    service.extensions = frozenset({"sources"})  # but still announces both
    options = {"collections": "col_default", "ledger": ledger}
    assert ingest(client, texts("one"), **options).created == 1
    service.lose_next_answer()
    report = ingest(client, texts("one", "two"), **options)
    assert (report.unknown, len(service.sources)) == (1, 2)
    assert "idempotency-key" not in service.requests[-1].headers
