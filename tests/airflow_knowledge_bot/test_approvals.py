"""What a task asks a person, who answers through Airflow's REST interface, as its web UI does."""

import threading

import airflow.sdk.exceptions
import pytest

from calls import KEY
from in_process import OnAPort
from knowledge_bot import Client
from knowledge_bot.ingest import Ledger, Text, from_folder, ingest
from scripted_server import close

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        not hasattr(airflow.sdk.exceptions, "TaskAwaitingInput"),
        reason="before Airflow 3.3 dag.test() does not wait for an answer",
    ),
]


@pytest.fixture(scope="module")
def rest(dags):
    """Airflow's REST interface over the database of these tests."""
    from airflow.api_fastapi.app import create_app
    from fastapi.testclient import TestClient

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "True")
        with TestClient(create_app(apps="core"), base_url="http://testserver") as client:
            token = client.get("/auth/token").raise_for_status().json()["access_token"]
            client.headers["authorization"] = f"Bearer {token}"
            yield client


@pytest.fixture
def answering(rest):
    """`answering(dag, choose)`: answer the one question of a DAG's next run; returns questions."""
    ends = []

    def start(dag, choose):
        questions, path = [], f"/api/v2/dags/{dag.dag_id}/dagRuns/~/hitlDetails"

        def work():
            parked = set()  # what is answered before `dag.test()` waits for it may be lost
            while not end.wait(1):
                open_ones = rest.get(path, params={"response_received": False}).json()
                for one in open_ones["hitl_details"]:
                    task = one["task_instance"]
                    if one["response_received"] or task["state"] != "awaiting_input":
                        continue
                    if task["id"] not in parked:
                        parked.add(task["id"])
                        continue
                    questions.append(one)
                    to = (
                        f"/api/v2/dags/{dag.dag_id}/dagRuns/{task['dag_run_id']}/taskInstances/"
                        f"{task['task_id']}/-1/hitlDetails"
                    )
                    rest.patch(to, json=choose(one)).raise_for_status()

        end, thread = threading.Event(), threading.Thread(target=work)
        thread.start()
        ends.append((end, thread))
        return questions

    yield start
    for end, thread in ends:
        end.set()
        thread.join()


@pytest.fixture
def unknown(scripted, ledger):
    """A ledger with three items whose answers were lost."""
    server = scripted(close)
    with Client(KEY, server.url, timeout=2) as client:
        items = [Text(name=name, content=name) for name in ("a", "b|c", "d")]
        ingest(client, items, collections="col_1", ledger=Ledger(ledger), concurrency=1)
    return Ledger(ledger)


SETTLE = """
from airflow_knowledge_bot.operators import KnowledgeBotResolveOperator
---
KnowledgeBotResolveOperator(task_id="settle", outcome="ask", ledger_conn_id="ledger")
"""


def states(ledger):
    return {entry.key: str(entry.state) for entry in ledger.entries()}


@pytest.mark.parametrize("fields", [True, False])
def test_one_required_action_settles_what_is_unknown(dags, answering, unknown, fields):
    ids = {entry.key: entry.id for entry in unknown.unknown()}

    def choose(question):
        assert question["subject"] == "What became of 3 items?"
        assert "b\\|c" in question["body"]
        if not fields:
            return {"chosen_options": ["None was created"]}
        given = {name: field["value"] for name, field in question["params"].items()}
        given |= {ids["a"]: "created", ids["d"]: "not created"}
        return {"chosen_options": ["As chosen"], "params_input": given}

    dag = dags.load(SETTLE)
    asked = answering(dag, choose)
    done = dags.run(dag)
    assert (done.state, len(asked)) == ("success", 1), done.log
    result = done.task.xcom
    assert (result["settled"], result["left"]) == ((2, 1) if fields else (3, 0))
    if fields:
        assert states(unknown) == {"a": "created", "b|c": "unknown", "d": "refused"}
    else:
        assert set(states(unknown).values()) == {"refused"}


def test_nobody_is_asked_where_nothing_is_unknown(dags, good, ledger):
    done = dags.run(dags.load(SETTLE))
    assert (done.state, done.task.xcom["unknown"]) == ("success", 0), done.log


def test_an_answer_that_does_not_come_in_time_leaves_all_as_it_is(unknown):
    from airflow_knowledge_bot.operators import KnowledgeBotResolveOperator

    task = KnowledgeBotResolveOperator(task_id="settle", outcome="ask", ledger_conn_id="ledger")
    event = {"error": "The timeout has passed.", "error_type": "timeout"}
    asked = [entry.id for entry in unknown.unknown()]
    assert task.execute_complete({}, event, asked)["left"] == 3


@pytest.fixture
def emptied(connect, ledger, tmp_path):
    """A folder with eight files that the service knows, of which six are gone."""
    folder = tmp_path / "documents"
    folder.mkdir()
    files = [folder / f"{number}.txt" for number in range(8)]
    for file in files:
        file.write_text(f"File {file.name}.")
    with OnAPort(collections={"col_1": "House"}) as service:
        connect(service.base_url, password=service.api_key)
        yield service, folder, files


PRUNE = """
dag.params["folder"] = "/"
ingest(
    folder="{{ params.folder }}", prune="ask", outlets=[Asset("knowledgebot://HOST/col_1")],
)
"""


def names(service):
    return sorted(source.name for source in service.sources())


@pytest.mark.parametrize("then", ["approve", "leave", "came back", "came back to others"])
def test_a_person_approves_exactly_one_plan(dags, answering, emptied, then):
    service, folder, files = emptied
    dag = dags.load(PRUNE.replace("HOST", service.base_url.split("/")[2]))
    conf = {"folder": str(folder)}
    assert dags.run(dag, run_conf=conf).task.xcom["created"] == 8
    for file in files[:6]:
        file.unlink()
    (folder / "new.txt").write_text("The file that is new.")

    def choose(question):
        approve, leave = question["options"]
        assert approve.startswith("Remove 6 (plan ")
        assert "0.txt" in question["body"]
        if then.startswith("came back"):
            files[0].write_text("File 0.txt.")
        if then == "came back to others":
            known = Ledger(folder.parent / "ledger.db")
            with Client(service.api_key, service.base_url) as client:
                ingest(client, from_folder(folder), collections="col_1", ledger=known)
        return {"chosen_options": [leave if then == "leave" else approve]}

    asked = answering(dag, choose)
    done = dags.run(dag, run_conf=conf)
    assert len(asked) == 1
    if then.startswith("came back"):
        assert done.state == "failed"
        assert len(names(service)) == 9
        assert "'Remove 5 (plan " in done.log
        assert ("Changed: 0.txt." in done.log) == (then == "came back")
        assert (done.task.xcom["removed"], done.task.xcom["gone_withheld"]) == (0, 5)
        return
    assert done.state == "success", done.log
    result = done.task.xcom
    assert (result["created"], result["unchanged"]) == (1, 2)
    if then == "approve":
        assert names(service) == ["6.txt", "7.txt", "new.txt"]
        assert (result["removed"], result["gone_withheld"]) == (6, 0)
    else:
        assert len(names(service)) == 9
        assert result["gone_withheld"] == 6
