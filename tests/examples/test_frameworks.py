"""The examples for LangChain and LlamaIndex run as they stand and tell facts of the handbook."""

import re
from importlib.metadata import version
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
HAS_QUERY_PIPELINES = version("llama-index-core").startswith("0.12.")
TOLD = {
    "langchain_agent": ["Name: ask_workshop", "Ear protection is compulsory"],
    "langchain_chain": ["54 euros", "present value", "14 days", "4 days only"],
    "langchain_rag": ["bot_workshop: # Safety", "Ear protection is compulsory"],
    "llama_index_agent": ["ask_handbook was called.", "Ear protection is compulsory"],
    "llama_index_chat_engine": ["14 days", "4 days", "6 messages in one conversation"],
    "llama_index_ingestion_pipeline": [
        "10 documents went through as 20 nodes.",
        "The service has 10 sources.",
        "14 days",
    ],
    "llama_index_query_engine": ["14 days", "from conversation conv_", "Ines Okafor", "54 euros"],
    "llama_index_router": ["bot_lending: ", "54 euros", "Ear protection is compulsory"],
    "llama_index_workflow": [
        "bot_lending: An individual membership",
        "bot_workshop: The help is free",
    ],
}
PIPELINES_TOLD = ["LLM: An individual", "Query engine: The repair evening", "4 days"]


@pytest.mark.parametrize("example", TOLD)
def test_an_example_runs_and_tells_facts_of_the_handbook(alone, example):
    done = alone(EXAMPLES / f"{example}.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    for fact in TOLD[example]:
        assert fact in done.stdout


def test_a_conversation_in_a_graph_survives_a_restart(alone):
    done = alone(EXAMPLES / "langchain_graph.py")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    before, after = done.stdout.strip().split("\n\nA new process; ")
    assert "holds 0 messages" in before
    assert "14 days" in before
    assert "holds 2 messages" in after
    # "And for large machines?" is about loan periods only where the bot knows what came before.
    assert "lent for 4 days only" in after
    assert len(set(re.findall(r"conv_\w+", f"{before} {after}"))) == 1
    assert "conversations of the bot: 1" in after


def test_query_pipelines_run_where_there_are_any_and_are_told_of_elsewhere(alone):
    done = alone(EXAMPLES / "llama_index_query_pipeline.py")
    assert done.returncode == (0 if HAS_QUERY_PIPELINES else 1), done.stdout + done.stderr
    ended = "has no query pipelines: they ended with 0.12. See llama_index_workflow.py."
    for fact in PIPELINES_TOLD if HAS_QUERY_PIPELINES else ():
        assert fact in done.stdout
    assert HAS_QUERY_PIPELINES or ended in done.stderr


def test_every_example_of_these_frameworks_is_run():
    there = {path.stem for path in EXAMPLES.glob("l*_*.py")}
    assert there == {*TOLD, "langchain_graph", "llama_index_query_pipeline"}
