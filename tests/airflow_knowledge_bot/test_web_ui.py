"""What a person sees of the provider in Airflow's web UI, in a headless Chromium.

With `KNOWLEDGE_BOT_SCREENSHOTS` set to a folder, the pictures of the documentation are taken there:

    KNOWLEDGE_BOT_SCREENSHOTS=docs/images python -m pytest -m slow \
        tests/airflow_knowledge_bot/test_web_ui.py
"""

import base64
import json
import os
import shutil
import time
from pathlib import Path

import pytest

import chromium
from airflow_processes import Airflow
from calls import KEY, SOURCE
from knowledge_bot_service import LocalService
from scripted_server import Reply, close
from scripted_server import answer as reply

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright drives the browser")

EXAMPLES = Path(__file__).parents[2] / "examples"
# Of each type of connection: the id that is shown, what the form has, and its picture.
FORMS = {
    "Knowledge-Bot": (
        "knowledge_bot_default",
        {
            "Standard Fields": ("Base URL", "API key"),
            "Extra Fields": (
                "Timeout (seconds)",
                "Retries within a task's try",
                "Verify the TLS certificate",
                "Default bot",
                "Default collection",
            ),
        },
        "airflow-connection.png",
    ),
    "Knowledge-Bot ledger": (
        "knowledge_bot_ledger_default",
        {
            "Standard Fields": (
                "PostgreSQL host, or the path of a SQLite file",
                "PostgreSQL database (empty for SQLite)",
            )
        },
        "airflow-ledger.png",
    ),
}
# Texts that take longer than the ten seconds after which the log has a line of progress.
NIGHTLY = """
from airflow.sdk import DAG
from airflow_knowledge_bot.operators import KnowledgeBotIngestOperator

LEDGER = "knowledge_bot_ledger_default"
names = ["hours", "fees", "tools", *(f"loans-{number:03}" for number in range(250))]
with DAG("nightly", schedule=None):
    KnowledgeBotIngestOperator(
        task_id="feed",
        origin=[{"name": f"{name}.md", "content": name} for name in names],
        collections="col_handbook",
        ledger_conn_id=LEDGER,
        knowledge_bot_conn_id="nightly",
        concurrency=2,
    )
"""
PATIENCE = 60_000  # milliseconds; the UI's first page takes long on a busy machine

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def airflow(tmp_path_factory):
    """`airflow standalone` with the example DAG and a service for it."""
    home = tmp_path_factory.mktemp("web-ui")
    shutil.copytree(EXAMPLES / "handbook", home / "dags" / "handbook")
    shutil.copy(EXAMPLES / "scheduled_ingestion.py", home / "dags")
    (home / "dags" / "nightly.py").write_text(NIGHTLY)
    with LocalService(
        collections={"col_handbook": "Handbook"},
        bots={"bot_guide": ["col_handbook"]},
        allow_fetch=("127.0.0.1/32",),
    ) as service:
        connection = {
            "conn_type": "knowledge_bot",
            "host": service.base_url,
            "password": service.api_key,
            "extra": {"default_bot_id": "bot_guide", "default_collection_id": "col_handbook"},
        }
        with Airflow(
            home,
            home / "dags",
            connections={
                "knowledge_bot_default": connection,
                "knowledge_bot_ledger_default": {
                    "conn_type": "knowledge_bot_ledger",
                    "host": str(home / "ledger.db"),
                },
            },
            services=["standalone"],
        ) as running:
            yield running


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(**chromium.options())
        yield running
        running.close()


@pytest.fixture
def page(browser, airflow):
    context = browser.new_context(base_url=airflow.url, viewport={"width": 860, "height": 1150})
    context.set_default_timeout(PATIENCE)
    yield context.new_page()
    context.close()


@pytest.fixture
def pictures(tmp_path):
    folder = Path(os.environ.get("KNOWLEDGE_BOT_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.mark.parametrize("kind", FORMS)
def test_a_connection_form_has_our_labels_and_fields(page, pictures, kind):
    conn_id, fields, picture = FORMS[kind]
    page.goto("/connections")
    page.get_by_role("button", name="Add Connection").click()
    form = page.get_by_role("dialog")
    form.locator("input[name=connection_id]").fill(conn_id)
    form.get_by_role("combobox").first.click()
    page.get_by_role("option", name=kind, exact=True).click()
    shown = []
    for section, labels in fields.items():
        if shown:  # the first one is open already
            form.get_by_role("button", name=section, exact=True).click()
        for label in labels:
            playwright.expect(form.get_by_text(label, exact=True)).to_be_visible()
        page.mouse.move(0, 0)
        page.wait_for_timeout(1000)  # until it has unfolded
        shown.append(base64.b64encode(form.screenshot()).decode())

    page.set_viewport_size({"width": 1300, "height": 1000})
    side_by_side = "".join(f'<img width="640" src="data:image/png;base64,{one}">' for one in shown)
    page.set_content(
        '<div style="display: inline-flex; align-items: start; gap: 20px">' + side_by_side
    )
    page.locator("div").screenshot(path=pictures / picture)


def test_the_log_of_a_check_shows_what_failed_and_why(airflow, page, pictures):
    checks = [
        {"ask": "How long is the loan period for hand tools?", "contains": "14 days"},
        {"ask": "What does a household membership cost a year?", "contains": "45 euros"},
        {"ask": "Who leads the repair evening?", "contains": "Ines Okafor"},
    ]
    run_id = airflow.trigger("scheduled_ingestion", checks=checks)
    assert airflow.finished("scheduled_ingestion", run_id)["state"] == "failed"
    page.set_viewport_size({"width": 1300, "height": 860})
    page.goto(f"/dags/scheduled_ingestion/runs/{run_id}/tasks/check")
    for said in (
        "How long is the loan period",
        'The answer does not contain "45 euros".',
        "A household membership costs 54 euros a year",
        "2 of 3 passed",
    ):
        playwright.expect(page.get_by_text(said).first).to_be_attached(timeout=30_000)
    page.get_by_text("AirflowFailException").first.click()  # a traceback names a machine's folders
    page.evaluate("document.querySelectorAll('*').forEach((one) => { one.scrollLeft = 0 })")
    page.wait_for_timeout(8000)  # until the grid beside it knows of the run's end
    playwright.expect(page.get_by_text("task_runner.py").first).not_to_be_visible()
    page.screenshot(path=pictures / "airflow-check.png")


@pytest.fixture
def nightly(airflow, scripted):
    """A service that is slow, refuses one text and loses its answer to another."""

    def reply_to(received) -> Reply:
        time.sleep(0.1)
        name = received.json()["value"]["name"]
        if name in ("fees.md", "tools.md"):
            refused = {"code": "bad_content", "message": f"{name} is longer than the plan allows"}
            return close if name == "fees.md" else reply(400, refused)
        return reply(body={"value": SOURCE})

    server = scripted(reply_to=reply_to)
    nightly = {"connection_id": "nightly", "conn_type": "knowledge_bot", "host": server.url}
    connection = nightly | {"password": KEY, "extra": json.dumps({"max_retries": 0})}
    airflow.api.post("/api/v2/connections", json=connection).raise_for_status()


@pytest.mark.usefixtures("nightly")
def test_the_log_of_an_ingestion_names_what_was_refused_and_what_is_unknown(
    airflow, page, pictures
):
    run_id = airflow.trigger("nightly")
    assert airflow.finished("nightly", run_id)["state"] == "failed"
    # The first line ends before the ledger's file, which is a folder of this machine.
    page.set_viewport_size({"width": 1180, "height": 800})
    page.goto(f"/dags/nightly/runs/{run_id}/tasks/feed")
    for said in ("Ingesting 253 items", "unknown: fees.md", "refused: tools.md", " of 253 items, "):
        playwright.expect(page.get_by_text(said).first).to_be_attached(timeout=30_000)
    page.get_by_text("AirflowFailException").first.click()
    page.evaluate("document.querySelectorAll('*').forEach((one) => { one.scrollLeft = 0 })")
    page.wait_for_timeout(8000)  # until the grid beside it knows of the run's end
    page.screenshot(path=pictures / "airflow-ingest.png")
