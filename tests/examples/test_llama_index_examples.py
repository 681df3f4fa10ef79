"""The LlamaIndex examples, run as they stand."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
HAS_QUERY_PIPELINES = version("llama-index-core").startswith("0.12.")


@pytest.fixture
def run(tmp_path):
    """`run(example)`: the finished process, which had an empty home and working directory."""
    home = tmp_path / "home"
    home.mkdir()

    def start(example):
        return subprocess.run(
            [sys.executable, str(EXAMPLES / f"llama_index_{example}.py")],
            cwd=home,
            env={"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    yield start
    # Neither in the working directory nor among the temporary files is anything left.
    assert [path for path in tmp_path.rglob("*") if path != home] == []


@pytest.mark.parametrize(
    ("example", "told"),
    [
        ("query_engine", ["14 days", "from conversation conv_", "Ines Okafor", "54 euros"]),
        ("chat_engine", ["14 days", "4 days", "6 messages in one conversation", "2 in another"]),
        (
            "ingestion_pipeline",
            ["10 documents went through as 20 nodes.", "The service has 10 sources.", "14 days"],
        ),
        ("router", ["bot_lending: An individual", "54 euros", "Ear protection is compulsory"]),
        ("agent", ["bot_handbook was called.", "Ear protection is compulsory"]),
        ("workflow", ["bot_lending: An individual membership", "bot_workshop: The help is free"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_example_runs_and_tells_facts_of_the_handbook(run, example, told):
    done = run(example)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    for fact in told:
        assert fact in done.stdout


def test_query_pipelines_run_where_there_are_any_and_are_told_of_elsewhere(run):
    done = run("query_pipeline")
    if HAS_QUERY_PIPELINES:
        assert done.returncode == 0, done.stdout + done.stderr
        for fact in ("LLM: An individual", "Query engine: The repair evening", "4 days"):
            assert fact in done.stdout
        assert "Retriever: bot_lending | bot_workshop" in done.stdout
    else:
        assert done.returncode == 1
        assert "has no query pipelines: they ended with 0.12. See llama_index_workflow.py." in (
            done.stderr
        )


def test_every_example_of_this_framework_is_run():
    there = {path.stem.removeprefix("llama_index_") for path in EXAMPLES.glob("llama_index_*.py")}
    parametrized = test_an_example_runs_and_tells_facts_of_the_handbook.pytestmark[0].args[1]
    assert there == {example for example, _ in parametrized} | {"query_pipeline"}
