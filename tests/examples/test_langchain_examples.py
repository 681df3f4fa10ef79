"""The LangChain examples, run as they stand."""

import re
from pathlib import Path

from forked_programs import ForkedPrograms

EXAMPLES = Path(__file__).parents[2] / "examples"
IMPORTS = ["langchain_core.runnables", "langgraph.prebuilt", "langchain_knowledge_bot.chat_models"]
TOLD = {
    "chain": ["54 euros", "present value", "14 days", "4 days only"],
    "rag": ["bot_workshop: # Safety", "Ear protection is compulsory"],
    "agent": ["Name: ask_workshop", "Ear protection is compulsory"],
}


def file(example):
    return EXAMPLES / f"langchain_{example}.py"


def test_every_example_runs_and_tells_facts_of_the_handbook(home, environment, tmp_path):
    with ForkedPrograms(IMPORTS, home, environment, tmp_path) as programs:
        done = {example: programs.run(file(example)) for example in TOLD}
    for example, ended in done.items():
        assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout
        for fact in TOLD[example]:
            assert fact in ended.stdout


def test_a_conversation_in_a_graph_survives_a_restart(alone):
    done = alone(file("graph"))
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    before, after = done.stdout.strip().split("\n\nA new process; ")
    assert "holds 0 messages" in before
    assert "14 days" in before
    assert "holds 2 messages" in after
    # "And for large machines?" is about loan periods only where the bot knows what came before.
    assert "lent for 4 days only" in after
    assert len(set(re.findall(r"conv_\w+", f"{before} {after}"))) == 1
    assert "conversations of the bot: 1" in after


def test_every_example_of_this_framework_is_run():
    there = {path.stem.removeprefix("langchain_") for path in EXAMPLES.glob("langchain_*.py")}
    assert there == {*TOLD, "graph"}
