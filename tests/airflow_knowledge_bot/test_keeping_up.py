"""Tasks that wait until the bot knows, and let it know what is true today, on the real service."""

import itertools
import time
from collections import Counter
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from airflow_knowledge_bot._compat import AirflowFailException
from airflow_knowledge_bot.hooks import KnowledgeBotHook
from airflow_knowledge_bot.operators import KnowledgeBotIngestOperator
from airflow_knowledge_bot.results import RunCounts
from answering_bot import TaskInstance
from in_process import OnAPort
from knowledge_bot import Client
from knowledge_bot.ingest import Ledger, Report, Text, ingest
from scripted_server import answer

BROKEN = b"%PDF-1.4\nThis is no PDF."


@pytest.fixture
def real(connect):
    """A service of the test's own: what others have sent would answer, too."""
    with OnAPort(
        collections={"col_1": "House"}, bots={"bot_1": ["col_1"]}, allow_fetch=("127.0.0.1/32",)
    ) as running:
        connect(
            running.base_url,
            password=running.api_key,
            default_bot_id="bot_1",
            default_collection_id="col_1",
        )
        yield running


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "documents"
    folder.mkdir()
    for name, hour in (("bakery", "seven"), ("desk", "nine"), ("ferry", "ten")):
        (folder / f"{name}.txt").write_text(f"The {name} opens at {hour} o'clock.")
    return folder


def asked(question):
    return KnowledgeBotHook().send_message(question)["answer"]


def names(real):
    return Counter(source.name for source in real.sources())


@pytest.mark.parametrize("prune", [True, "excluded"])
def test_an_ingestion_takes_what_the_service_cannot_for_no_error(good, ledger, prune):
    task = KnowledgeBotIngestOperator(
        task_id="i", origin=[{"name": "a", "content": "b"}], collections="col_1", prune=prune,
        wait_ready=1, ledger_conn_id="ledger", do_xcom_push=False,
    )  # fmt: skip
    assert task.execute({"ti": TaskInstance()})["created"] == 1


def test_the_bot_knows_each_night_what_the_folder_says(dags, real, ledger, folder, caplog):
    dag = dags.load(
        f"""
        dag.params["prune"], dag.params["wait_ready"] = True, 60
        ingest(
            origin=Folder({str(folder)!r}), prune="{{{{ params.prune }}}}",
            wait_ready="{{{{ params.wait_ready }}}}", outlets=[AssetAlias("kept_up")],
        )
        """
    )
    assert dags.run(dag).task.xcom["created"] == 3
    assert "seven" in asked("When does the bakery open?")
    ids = {source.name: source.id for source in real.sources()}

    (folder / "bakery.txt").write_text("The bakery opens at six o'clock.")
    (folder / "desk.txt").unlink()
    (folder / "ferry.txt").rename(folder / "boat.txt")
    done = dags.run(dag, logical_date=datetime.now(UTC))
    assert done.state == "success", done.log
    xcom = done.task.xcom
    counts = {name: xcom[name] for name in ("created", "replaced", "moved", "removed", "gone")}
    assert counts == {"created": 0, "replaced": 1, "moved": 1, "removed": 1, "gone": 0}
    named = {kind: [one["name"] for one in ones] for kind, ones in xcom["named"].items() if ones}
    assert named == {"replaced": ["bakery.txt"], "moved": ["boat.txt"], "removed": ["desk.txt"]}
    assert f"replaced: bakery.txt (source {ids['bakery.txt']})" in done.log
    assert {one.name: one.id for one in real.sources()} == {
        "bakery.txt": ids["bakery.txt"],
        "boat.txt": ids["ferry.txt"],
    }
    assert "six" in asked("When does the bakery open?")
    assert "nine" not in asked("When does the desk open?")
    assert events("removed") == [1]

    assert dags.run(dag).task.xcom["unchanged"] == 2
    assert len(events("removed")) == 1  # a night without a change has no event


def events(count):
    """Return a count of each event of what the DAG of these nights changed, after the first."""
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        found = session.scalars(select(AssetEvent).order_by(AssetEvent.id)).all()
        return [one.extra[count] for one in found if one.extra.get("replaced")]


@pytest.mark.usefixtures("ledger")
@pytest.mark.parametrize(
    ("fail_on", "state"), [("", "failed"), (", fail_on=['refused', 'unknown']", "success")]
)
def test_a_document_that_cannot_be_read_turns_the_task_red_unless_its_author_tolerates_it(
    dags, real, folder, fail_on, state
):
    (folder / "tides.pdf").write_bytes(BROKEN)
    body = f"ingest(origin=Folder({str(folder)!r}), wait_ready=60, retries=2{fail_on})"
    done = dags.run(dags.load(body))
    assert (done.state, done.task.try_number) == (state, 1)
    assert (done.task.xcom["created"], done.task.xcom["failed"]) == (4, 1)
    assert [one["name"] for one in done.task.xcom["named"]["failed"]] == ["tides.pdf"]
    (reason,) = [source.reason for source in real.sources() if source.reason]
    assert reason[:40] in done.log


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ({"prune": "{{ 'often' }}"}, "'prune' is true, false or 'excluded', "),
        ({"wait_ready": "{{ 'soon' }}"}, "'wait_ready' is a number"),
        ({"gone_limit": "{{ 'much' }}"}, "'gone_limit' is a number"),
        ({"gone_limit": "{{ 2 }}"}, "gone_limit"),
    ],
)
def test_what_a_template_gives_that_is_no_value_fails_and_sends_nothing(
    good, ledger, option, expected
):
    given = {"origin": [{"name": "a", "content": "b"}], "collections": "col_1", **option}
    task = KnowledgeBotIngestOperator(task_id="i", ledger_conn_id="ledger", **given)
    task.render_template_fields({})
    with pytest.raises(AirflowFailException, match=expected):
        task.execute({})
    assert good.requests == []


def test_what_a_killed_try_sent_counts_as_that(scripted, ledger):
    known, numbers = Ledger(ledger), itertools.count()
    server = scripted(reply_to=lambda _: answer(body={"value": {"id": f"src_{next(numbers)}"}}))
    with Client("key", server.url) as client:
        route = client.base_url, ("col_1",), "items of col_1"

        def send(*contents):
            items = [Text(name=content[0], content=content) for content in contents]
            return ingest(client, items, collections="col_1", ledger=known)

        send("a", "b", "c")
        time.sleep(1.1)  # the ledger's times are in seconds
        run = SimpleNamespace(run_id="killed", dag_id="d", task_id="t", map_index=-1, max_tries=0)
        RunCounts({"ti": run}, known, route)
        sent = send("a again", "b again", "c", "d")
    total = RunCounts({"ti": run}, known, route).total(Report())
    assert (total.created, total.replaced) == (sent.created, 0) == (3, 0)
