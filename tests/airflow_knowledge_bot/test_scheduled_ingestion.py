"""The runner of the scheduled ingestion, on a service of the user's own."""

import logging
import os
import runpy
import sys
from pathlib import Path

import pytest

from calls import KEY
from in_process import OnAPort

EXAMPLES = Path(__file__).parents[2] / "examples"
RUNNER = EXAMPLES / "run_scheduled_ingestion.py"
DAG_FILE = EXAMPLES / "scheduled_ingestion.py"
DOCUMENTS = sorted(path.name for path in (EXAMPLES / "handbook").iterdir())


@pytest.fixture
def runner(dags, monkeypatch, capfd):
    """`runner(service, …)`: the runner's exit code and all that it printed, with this service.

    It prepares an Airflow of its own, for which it is too late in this process: it meets the one
    that is there, with the DAG in its folder.
    """
    before, log = dict(os.environ), logging.getLogger("airflow.sdk.definitions.dag")
    level = log.level
    monkeypatch.setattr(sys, "path", sys.path[:])
    dags.parse(DAG_FILE.read_text(encoding="utf-8"), DAG_FILE.stem)

    def run(service, *arguments):
        monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", service.base_url)
        monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", service.api_key)
        monkeypatch.setattr(sys, "argv", [str(RUNNER), *arguments])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(RUNNER), run_name="__main__")
        return ended.value.code, "".join(capfd.readouterr())

    yield run
    log.setLevel(level)
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.slow
def test_two_variables_make_the_runner_use_a_service_of_yours(runner):
    with OnAPort(api_key=KEY) as service:
        code, printed = runner(service)
        accepted = sorted(source.name for source in service.sources())
    assert code == 0, printed
    assert accepted == [name for name in DOCUMENTS if name != "repair-evening.md"]
    assert "14 days" in printed
    assert "21 days" in printed.partition("The second night.")[2]
    # `dag.test()` masks no secrets: nothing may print the key in the first place.
    assert KEY not in printed


def test_a_refused_key_ends_the_runner_with_a_sentence(runner):
    with OnAPort() as service:
        service.api_key = KEY  # not the one that it was started with
        said, printed = runner(service)
    assert "401" in said
    assert "Traceback" not in printed
    assert KEY not in said + printed


@pytest.mark.slow
def test_the_runner_tells_which_task_failed(runner):
    with OnAPort(api_key=KEY) as service:
        code, printed = runner(service, "--collection", "col_unknown")
    assert code == 1
    assert "Failed tasks: documents." in printed
    assert "'collections'" in printed
    assert KEY not in printed
