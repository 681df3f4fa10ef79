"""Run the DAG of `scheduled_ingestion.py` for two nights, for real, and print what it did.

    python examples/run_scheduled_ingestion.py

Before the second night one document changes and another one is removed, and the same questions get
other answers. By default this program starts the embedded service and a web site on free ports of
this machine, prepares Airflow in a temporary folder, and leaves nothing behind. With
`KNOWLEDGE_BOT_BASE_URL` and `KNOWLEDGE_BOT_API_KEY` in the environment, it feeds and asks that
service instead, without the web page, which that service could not reach. If that service does not
announce that it can replace and remove sources, there is one night.
"""

import argparse
import json
import logging
import os
import shutil
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parent
DAG_FILE = EXAMPLES / "scheduled_ingestion.py"
COLLECTION, BOT = "col_handbook", "bot_guide"
# What happens to the documents before the second night, and what is asked and expected then.
CHANGED, OLD, NEW = "borrowing.md", "is 14 days for hand tools", "is 21 days for hand tools"
REMOVED = "repair-evening.md"
LOAN, REPAIR = "How long is the loan period for hand tools?", "Are microwave ovens repaired?"
SECOND_NIGHT = {
    "checks": [{"ask": LOAN, "contains": "21 days"}, {"ask": REPAIR, "refuses": True}],
    "questions": [LOAN, REPAIR],
}
QUESTIONS = [
    LOAN,
    REPAIR,
    "What does a household membership cost a year?",
    "Who leads the repair evening?",
    "How many tools were lent in 2024?",
    "Which protection is compulsory at the table saw?",
    "When is the lending desk open on Saturday?",
]


@dataclass(frozen=True)
class Target:
    """The service that the DAG uses, and the run's values in addition to the DAG's own params."""

    connection: dict[str, Any]
    params: dict[str, Any]
    keeps_up: bool
    """Whether it replaces and removes sources."""
    local: Any = None
    """The `LocalService` if this program started it; it knows the state of its sources."""


@dataclass(frozen=True)
class Outcome:
    """The result of a night."""

    failed: list[str]
    """The tasks that failed."""
    fed: dict[str, int]
    """How many sources were created, replaced and removed."""
    checked: dict[str, Any] | None
    """The counts of the check; None if it did not run."""
    answers: list[dict[str, str]]


def main() -> int:
    """Run the DAG for two nights; return 0 if all of it succeeded."""
    arguments = _arguments()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="knowledge-bot-airflow-") as home:
        _prepare_airflow(Path(home))
        documents = Path(shutil.copytree(EXAMPLES / "handbook", Path(home) / "handbook"))
        with _target(arguments) as target:
            # The key reaches Airflow through the environment, and nothing prints it.
            os.environ["AIRFLOW_CONN_KNOWLEDGE_BOT_DEFAULT"] = json.dumps(target.connection)
            ledger = {"conn_type": "knowledge_bot_ledger", "host": f"{home}/ledger.db"}
            os.environ["AIRFLOW_CONN_KNOWLEDGE_BOT_LEDGER_DEFAULT"] = json.dumps(ledger)
            went_well = _night(target, documents, {})
            if went_well and target.keeps_up:
                _say(f"\nThe second night. {CHANGED} says 21 days now, and {REMOVED} is gone.")
                (documents / REMOVED).unlink()
                text = (documents / CHANGED).read_text(encoding="utf-8")
                (documents / CHANGED).write_text(text.replace(OLD, NEW), encoding="utf-8")
                went_well = _night(target, documents, SECOND_NIGHT)
    seconds = time.monotonic() - started
    if not went_well:
        _say(f"\nIt did not all go well, after {seconds:.0f} s.")
        return 1
    _say(f"\nDone in {seconds:.0f} s. Nothing was left running, and nothing on disk.")
    return 0


def _night(target: Target, documents: Path, params: dict[str, Any]) -> bool:
    """Run the DAG once, and print what it did; return whether all of it succeeded."""
    outcome = _run_dag({"folder": str(documents), **target.params, **params})
    usable = _print_sources(outcome, target)
    _print_answers(outcome)
    if outcome.failed:
        _say(f"\nFailed tasks: {', '.join(outcome.failed)}.")
    return usable and not outcome.failed and bool(outcome.answers)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bot", help="the bot to ask, where a service of yours has several")
    parser.add_argument("--collection", help="where to put the sources, likewise")
    return parser.parse_args()


@contextmanager
def _target(arguments: argparse.Namespace) -> Iterator[Target]:
    if os.environ.get("KNOWLEDGE_BOT_BASE_URL") and os.environ.get("KNOWLEDGE_BOT_API_KEY"):
        yield _service_of_yours(arguments)
        return
    from knowledge_bot_service import LocalService

    _say("Starting the embedded service and a web site on this machine ...")
    with (
        LocalService(
            collections={COLLECTION: "Handbook"},
            bots={BOT: [COLLECTION]},
            allow_fetch=("127.0.0.1/32",),
        ) as service,
        _web_site() as address,
    ):
        page = f"{address}/opening-hours.html"
        yield Target(
            _connection(service.base_url, service.api_key, BOT, COLLECTION),
            {"pages": [page], "questions": QUESTIONS},
            keeps_up=True,
            local=service,
        )


def _service_of_yours(arguments: argparse.Namespace) -> Target:
    from knowledge_bot import Client, KnowledgeBotError

    url, key = os.environ["KNOWLEDGE_BOT_BASE_URL"], os.environ["KNOWLEDGE_BOT_API_KEY"]
    _say(f"Using the service at {url} ...")
    try:
        with Client() as client:
            bots, collections = client.list_bots(), client.list_collections()
            extensions = client.extensions()
    except KnowledgeBotError as error:
        sys.exit(str(error))
    bot = arguments.bot or _only("bot", [bot.id for bot in bots])
    collection = arguments.collection or _only("collection", [col.id for col in collections])
    may_manage = bool(extensions.get("sources", {}).get("manage"))
    params = {"prune": may_manage, "wait_ready": 600 if "sources" in extensions else 0}
    return Target(_connection(url, key, bot, collection), params, keeps_up=may_manage)


def _only(kind: str, ids: list[str]) -> str:
    if len(ids) != 1:
        sys.exit(f"The service has {len(ids)} of them: choose with --{kind} ({', '.join(ids)}).")
    return ids[0]


def _connection(base_url: str, api_key: str, bot: str, collection: str) -> dict[str, Any]:
    extra = {"default_bot_id": bot, "default_collection_id": collection}
    return {
        "conn_type": "knowledge_bot",
        "host": base_url,
        "password": api_key,
        "extra": extra,
    }


@contextmanager
def _web_site() -> Iterator[str]:
    handler = partial(_QuietHandler, directory=str(EXAMPLES / "website"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the library
        """Keep the web server's log out of the output."""


def _prepare_airflow(home: Path) -> None:
    """Give Airflow its own home and database. It reads these variables when it is imported."""
    for name in [name for name in os.environ if name.startswith("AIRFLOW_")]:
        del os.environ[name]
    (home / "dags").mkdir()
    shutil.copy(DAG_FILE, home / "dags")
    os.environ |= {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
    }
    sys.path.insert(0, str(home / "dags"))
    _say("Preparing Airflow in a temporary folder ...")
    from airflow.utils.db import initdb

    initdb()


def _run_dag(params: dict[str, Any]) -> Outcome:
    from scheduled_ingestion import ingestion

    _say("Running the DAG: wait for the service, ingest, wait until it is known, check, ask ...")
    # It warns every second that a task is waiting for another task or for its next poke.
    logging.getLogger("airflow.sdk.definitions.dag").setLevel(logging.ERROR)
    run = ingestion.test(run_conf=params)

    last = run.get_task_instance("hand_on")
    failed = {task.task_id for task in run.get_task_instances() if task.state == "failed"}
    fed = last.xcom_pull(task_ids=["documents", "pages"]) or []
    return Outcome(
        failed=sorted(failed),
        fed={name: sum(one[name] for one in fed) for name in ("created", "replaced", "removed")},
        checked=last.xcom_pull(task_ids="check"),
        answers=last.xcom_pull(task_ids="hand_on") or [],
    )


def _print_sources(outcome: Outcome, target: Target) -> bool:
    """Print each source with its state; return whether all of them can be asked about."""
    counts = ", ".join(f"{name} {count}" for name, count in outcome.fed.items() if count)
    _say(f"\nSources: {counts or 'none changed'}.")
    if target.local is None:
        return True
    with suppress(TimeoutError):
        target.local.wait_until_ready()
    sources = sorted(target.local.sources(), key=lambda source: source.name.casefold())
    for source in sources:
        reason = f": {source.reason}" if source.reason else ""
        _say(f"  {source.status:<8}{source.name}{reason}")
    return all(source.status == "ready" for source in sources)


def _print_answers(outcome: Outcome) -> None:
    if outcome.checked is not None:
        total = outcome.checked["passed"] + outcome.checked["failed"]
        _say(f"\nChecked: {outcome.checked['passed']} of {total} answers are as expected.")
    _say("\nAsked and answered:")
    for answer in outcome.answers:
        _say(f"\n  {answer['question']}")
        for line in answer["answer"].splitlines():
            _say(textwrap.fill(line, 92, initial_indent="    ", subsequent_indent="    "))


def _say(line: str) -> None:
    # Flushed at once, so that the output appears immediately, even through a pipe.
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
