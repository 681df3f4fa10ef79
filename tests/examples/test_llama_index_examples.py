"""The LlamaIndex examples, run as they stand."""

from importlib.metadata import version
from pathlib import Path

from forked_programs import ForkedPrograms

EXAMPLES = Path(__file__).parents[2] / "examples"
HAS_QUERY_PIPELINES = version("llama-index-core").startswith("0.12.")
IMPORTS = ["llama_index.core.agent.workflow", "llama_index_knowledge_bot.llm"]
TOLD = {
    "query_engine": ["14 days", "from conversation conv_", "Ines Okafor", "54 euros"],
    "chat_engine": ["14 days", "4 days", "6 messages in one conversation", "2 in another"],
    "ingestion_pipeline": [
        "10 documents went through as 20 nodes.",
        "The service has 10 sources.",
        "14 days",
    ],
    "router": ["bot_lending: ", "54 euros", "Ear protection is compulsory"],
    "agent": ["ask_handbook was called.", "Ear protection is compulsory"],
    "workflow": ["bot_lending: An individual membership", "bot_workshop: The help is free"],
}


def file(example):
    return EXAMPLES / f"llama_index_{example}.py"


def test_every_example_runs_and_tells_facts_of_the_handbook(alone, home, environment, tmp_path):
    first, *others = TOLD
    done = {first: alone(file(first))}
    with ForkedPrograms(IMPORTS, home, environment, tmp_path) as programs:
        done |= {example: programs.run(file(example)) for example in others}
    for example, ended in done.items():
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert "Traceback" not in ended.stderr
        for fact in TOLD[example]:
            assert fact in ended.stdout


def test_query_pipelines_run_where_there_are_any_and_are_told_of_elsewhere(alone):
    done = alone(file("query_pipeline"))
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
    assert there == {*TOLD, "query_pipeline"}
