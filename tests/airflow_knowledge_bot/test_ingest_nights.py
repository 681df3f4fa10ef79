"""Night after night: what is counted over tries and runs, what is reported, and to whom."""

import re
import threading
import time
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from answering_bot import URL
from calls import KEY
from knowledge_bot import Client
from knowledge_bot.ingest import Ledger, Text, ingest
from nightly import nightly

pytestmark = pytest.mark.usefixtures("ledger")


def named(*names):
    """Tell the requests that send texts of these names."""
    return lambda request: request.value.get("name") in names


def refuse(service, name):
    service.fail_next(400, message="Not like this.", times=None, where=named(name))


def elsewhere(service, ledger, items, before, **options):
    """Start an ingestion of another process, of which each request begins with `before()`."""

    def send(request):
        if request.method == "POST":
            before()
        return service.transport.send(request)

    def run():
        slow = SimpleNamespace(send=send, close=lambda: None)
        with Client(KEY, URL, transport=slow) as client:
            sent = [Text(**one) for one in items]
            report = ingest(client, sent, collections="col_1", ledger=Ledger(ledger), **options)
            running.created = report.created

    running = threading.Thread(target=run)
    running.start()
    return running


def texts(*names):
    return [{"name": name, "content": f"of {name}"} for name in names]


def posts(service):
    return sum(one.method == "POST" for one in service.requests)


def lines(log, level="warning"):
    return [
        line.split("] ", 1)[1].split(" [airflow")[0].strip()
        for line in log.splitlines()
        if f"[{level}" in line and "airflow_knowledge_bot" in line
    ]


def test_what_failed_is_reported_as_warnings_and_the_start_and_the_counts_too(dags, good):
    refuse(good, "b")
    good.time_out_next(times=None, where=named("c"))
    done = dags.run(dags.load(f"ingest(origin={texts('a', 'b', 'c')}, concurrency=1)"))
    assert done.state == "failed"
    warnings = lines(done.log)
    assert warnings[0].startswith("refused: b: ")
    assert warnings[1].startswith("unknown: c: ")
    first, *_, last = lines(done.log, "info")
    assert re.fullmatch(
        r"Ingesting 3 items into col_1 at https://\S+; ledger \S+ of the connection 'ledger'\.",
        first,
    )
    assert last.startswith("created 1, refused 1, unknown 1 in ")
    assert done.task.xcom["named"]["unknown"] == [{"name": "c", "key": "c"}]
    assert KEY not in done.log
    # What a red night asks of a person, who has Airflow and perhaps no `kbot`.
    assert "KnowledgeBotResolveOperator and the ledger connection 'ledger'" in done.log
    assert "unknown: c (key c)" in done.log


def test_what_is_left_out_is_reported_with_its_reason(dags, good):
    empty = [{"name": f"e{number}", "content": " "} for number in range(24)]
    done = dags.run(dags.load(f"ingest(origin={texts('a') + empty}, concurrency=1)"))
    assert done.state == "success"
    logged = [line for line in lines(done.log, "info") if line.startswith("skipped: ")]
    assert logged == [f"skipped: e{number}: it has no content" for number in range(20)]
    assert "… and 4 more skipped." in lines(done.log, "info")


def test_a_thousand_failures_are_twenty_lines_and_a_number(dags, good, caplog):
    items = [{"name": "", "content": "c"} for _ in range(1000)]
    done = dags.run(dags.load(f"ingest(origin={items})"))
    warnings = lines(done.log)
    assert len([line for line in warnings if line.startswith("invalid: ")]) == 20
    assert "… and 980 more failures." in warnings
    assert done.log.count("an item: name") < 30
    assert not [one for one in caplog.records if one.name == "knowledge_bot.ingest"]


def test_secrets_in_a_place_s_address_are_not_logged(dags, good):
    done = dags.run(dags.load("ingest(origin=Sitemap('https://127.0.0.1:9/m.xml?key=word-7'))"))
    start = next(line for line in lines(done.log, "info") if line.startswith("Ingesting"))
    assert "Sitemap https://127.0.0.1:9/m.xml into" in start
    assert "word-7" not in start


def test_counts_are_those_of_all_tries(dags, good):
    # The second try finds what the first one created, and sends what was not delivered.
    dag = dags.load(
        """
        import os
        def items():
            yield {"name": "a", "content": "c"}
            if not os.path.exists(TRIED):
                open(TRIED, "w").close()
                raise OSError("the database went away")
            yield {"name": "b", "content": "c"}
        ---
        ingest(origin=items, retries=1, retry_delay=timedelta(0))
        """.replace("TRIED", repr(f"{dags.folder}/tried-{time.time()}"))
    )
    done = dags.run(dag)
    assert (done.state, done.task.try_number) == ("success", 2)
    xcom = done.task.xcom
    assert (xcom["created"], xcom["unchanged"], posts(good)) == (2, 0, 2)
    # The next night begins anew.
    xcom = dags.run(dag).task.xcom
    assert (xcom["created"], xcom["unchanged"]) == (0, 2)


def test_a_long_run_says_how_far_it_is(dags, good, ledger, monkeypatch):
    monkeypatch.setattr("airflow_knowledge_bot.results._INTERVAL", 1.0)  # seconds
    dag = dags.load(
        f"""
        import itertools, time
        from knowledge_bot.ingest import Ledger

        def polls(context):
            kept, began = {{}}, time.monotonic()
            for number in itertools.count():
                yield {{"name": f"item {{number}}", "content": f"c{{number}}"}}
                kept = Ledger({str(ledger)!r}).note(NAME, lambda note: None)
                if any(run["counts"] for run in kept.values()):
                    context["ti"].xcom_push(key="kept", value=kept)
                    return
                assert time.monotonic() - began < 40, "no counts were kept"
                time.sleep(0.3)  # each look takes the ledger from the run for a moment

        @task
        def report(ti):
            return ti.xcom_pull(task_ids="ingest", key="kept")
        ---
        NAME = f"airflow/{{dag.dag_id}}/ingest/-1"
        ingest(origin=polls) >> report()
        """
    )
    done = dags.run(dag)
    assert done.state == "success", done.log
    assert done.tasks["ingest"].xcom["created"] == posts(good)
    progress = [line for line in lines(done.log, "info") if "/s: " in line]
    assert re.fullmatch(r"\d+ items, \d+/s: created \d+", progress[-1])
    (kept,) = done.tasks["report"].xcom.values()
    assert kept["state"] == "running"
    assert 0 < kept["counts"]["created"] <= posts(good)


def test_what_another_run_is_sending_is_waited_for_and_fails_nothing(dags, good, ledger):
    shared = {"concurrency": 2, "origin": "shared"}
    running = elsewhere(good, ledger, texts(*"abcdef"), lambda: time.sleep(0.3), **shared)
    how = "concurrency=2, origin_name='shared', wait_ready=60"
    done = dags.run(dags.load(f"ingest(origin={texts(*'abcdef')}, {how})"))
    running.join()
    xcom = done.task.xcom
    assert (done.state, done.task.try_number) == ("success", 1)
    assert xcom["created"] + running.created == posts(good) == 6
    assert xcom["created"] + xcom["unchanged"] == 6
    assert xcom["elsewhere"] == 0


def events():
    """Return what Airflow's assets got, the oldest first: URI and extra."""
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        found = session.scalars(select(AssetEvent).order_by(AssetEvent.id)).all()
        return [(one.asset.uri, one.extra) for one in found]


@pytest.fixture
def night(dags, good):
    """`night(names, …)`: one run with these texts, and the asset events that it caused."""

    def run(names, outlets, dag="fed", **options):
        given = "".join(f", {name}={value!r}" for name, value in options.items())
        given += f", outlets={outlets}"
        body = f"ingest(origin={texts(*names)}{given})"
        before = len(events())
        done = dags.run(dags.load(body, name=dag), logical_date=datetime.now(UTC))
        return done, events()[before:]

    return run


STATIC = "[Asset('knowledgebot://service.test/col_1'), Asset('x-house://handbook')]"
ALIAS = "[AssetAlias('fed')]"


@pytest.mark.parametrize("outlets", nightly([STATIC, ALIAS], but=1))
def test_only_a_night_with_a_change_gives_its_outlets_an_event(night, good, outlets):
    name = f"fed_{outlets[1:6].strip()}"
    _, first = night("ab", outlets, name)
    done, second = night("ab", outlets, name)
    _, third = night("abc", outlets, name)
    assert len(first) == len(third) == outlets.count("Asset")
    assert second == []
    assert done.state == "success"
    uri, extra = min(first)
    assert uri == "knowledgebot://service.test/col_1"
    assert extra == {
        "collections": ["col_1"],
        "created": 2,
        "replaced": 0,
        "moved": 0,
        "removed": 0,
        "unchanged": 0,
        "superseded": 0,
        "gone": 0,
        "changed_in_failed_runs": 0,
    }
    assert [one["created"] for _, one in third] == [1] * len(third)


@pytest.mark.parametrize("outlets", nightly([STATIC, ALIAS], but=1))
def test_what_red_nights_created_is_reported_by_the_first_green_one(night, good, outlets):
    name = f"red_{outlets[1:6].strip()}"
    refuse(good, "b")
    for names in ("ab", "abc", "abc"):
        done, xcom = night(names, outlets, name)
        assert (done.state, xcom) == ("failed", [])
    good.recover()
    done, xcom = night("ac", outlets, name)
    assert done.task.xcom["created"] == 0
    assert [one["changed_in_failed_runs"] for _, one in xcom] == [2] * outlets.count("Asset")
    assert night("ac", outlets, name)[1] == []


NIGHTS = """
def items(params):
    for name in params["names"]:
        if name == "!":
            raise KeyError("shop")
        yield {"name": name, "content": "c"}

def fails(context, result):
    if context["params"]["fails"] >= context["ti"].try_number:
        raise RuntimeError("the worker had a bad day")
---
dag.params["names"], dag.params["fails"] = "", 0
ingest(origin=items, outlets=[AssetAlias("fed")], post_execute=fails, retries=RETRIES,
    retry_delay=timedelta(0))
"""


@pytest.fixture
def dated(dags, good):
    """`dated(dag, names, date, …)`: how a run with these texts ended, and its events' changes."""

    def run(dag, names, date=True, **params):
        before = len(events())
        when = datetime.now(UTC) if date else None
        done = dags.run(dag, logical_date=when, run_conf={"names": names, **params})
        counted = ("created", "changed_in_failed_runs")
        return done.state, [tuple(map(extra.get, counted)) for _, extra in events()[before:]]

    run.load = lambda retries=0: dags.load(NIGHTS.replace("RETRIES", str(retries)))
    return run


# Each two of the three runs are once with, and once without, a date as the other one.
@pytest.mark.parametrize(
    "dates",
    nightly([[True, False, False], [True] * 3, [False, True, False], [False, False, True]], but=1),
)
def test_what_a_red_run_changed_has_one_event_whichever_runs_have_a_date(dated, good, dates):
    dag = dated.load()
    first, red, green = dates
    assert dated(dag, "a", first) == ("success", [(1, 0)])
    refuse(good, "c")
    assert dated(dag, "abc", red) == ("failed", [])
    assert dated(dag, "ab", green) == ("success", [(0, 1)])
    for date in (False, True):
        assert dated(dag, "ab", date) == ("success", [])


def test_what_a_function_that_raised_had_created_is_told_and_has_an_event(dated, dags):
    dag = dated.load()
    done = dags.run(dag, run_conf={"names": "a!"})
    assert done.state == "failed"
    assert (done.task.xcom["created"], done.task.xcom["duration"] > 0) == (1, True)
    assert any(line.startswith("Ingestion until then: created 1") for line in lines(done.log))
    assert dated(dag, "a") == ("success", [(0, 1)])
    assert dated(dag, "a") == ("success", [])


def test_a_try_that_failed_after_its_ingestion_loses_no_event(dated, good):
    dag = dated.load(retries=1)
    refuse(good, "b")
    assert dated(dag, "ab") == ("failed", [])
    assert dated(dag, "ac", fails=1) == ("success", [(1, 1)])
    assert dated(dag, "ac", fails=1) == ("success", [])


def test_what_a_killed_run_created_has_an_event(dated, dags, good, ledger):
    dag = dated.load()
    began = time.time() - 1000
    with Client(KEY, URL) as client:
        item = Text(name="a", content="c")
        where = {"collections": "col_1", "origin": f"{dag.dag_id}.ingest"}
        ingest(client, [item], **where, ledger=Ledger(ledger))
    entry = {"state": "running", "counts": {}, "began": began, "start": 0}
    name = f"airflow/{dag.dag_id}/ingest/-1"
    Ledger(ledger).note(name, lambda note: note.update(killed={**entry, "at": time.time()}))
    assert dated(dag, "a") == ("success", [])  # for all that is known, it still runs
    Ledger(ledger).note(name, lambda note: note["killed"].update(at=began))
    assert dated(dag, "a") == ("success", [(0, 1)])
    assert dated(dag, "a") == ("success", [])


def test_a_task_that_hands_nothing_on_does_not_when_it_fails_either(dags, good):
    refuse(good, "b")
    done = dags.run(dags.load(f"ingest(origin={texts('a', 'b')}, do_xcom_push=False)"))
    assert (done.state, done.task.xcom) == ("failed", None)


def test_a_collection_that_was_not_fed_gets_no_event_and_another_host_a_warning(
    night, good, caplog
):
    outlets = "[Asset('knowledgebot://service.test/col_9'), Asset('knowledgebot://other/col_1')]"
    _, result = night("ab", outlets, "other")
    assert [uri for uri, _ in result] == ["knowledgebot://other/col_1"]
    warnings = [one.getMessage() for one in caplog.records if "The outlet" in one.getMessage()]
    assert "col_9 gets no event" in warnings[0]
    assert "knowledgebot://other/col_1 has another host" in warnings[1]


def test_collections_that_items_name_themselves_are_fed_too(dags, good):
    items = [{"name": "a", "content": "c", "collections": "col_2"}]
    before = len(events())
    done = dags.run(dags.load(f"ingest(origin={items}, outlets={ALIAS})"))
    assert done.state == "success", done.log
    assert {uri for uri, _ in events()[before:]} == {
        f"knowledgebot://service.test/{one}" for one in ("col_1", "col_2")
    }
