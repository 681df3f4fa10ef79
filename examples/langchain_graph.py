"""A LangGraph graph whose conversation with a bot survives a restart.

        python langchain_graph.py                        # two runs, each in its own process
    python langchain_graph.py --data FOLDER QUESTION # one run, which continues the last one

The graph's checkpoint stores the messages, and with each answer the id of its conversation. The
service keeps the conversation. So a run after a restart sends only the new question, and the bot
still has the context.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import MessagesState, StateGraph

from handbook_service import handbook_service
from langchain_knowledge_bot import ChatKnowledgeBot

QUESTIONS = ("How long is the loan period for hand tools?", "And for large machines?")


def main() -> None:
    """Run once with `--data`, otherwise twice."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="keep the service and the checkpoints here")
    parser.add_argument("question", nargs="?", default=QUESTIONS[0])
    arguments = parser.parse_args()
    if arguments.data:
        run(arguments.data, arguments.question)
        return
    with tempfile.TemporaryDirectory() as folder:
        for question in QUESTIONS:
            command = [sys.executable, __file__, "--data", folder, question]
            subprocess.run(command, check=True)  # noqa: S603 - this very file


def run(data: Path, question: str) -> None:
    """Ask one question in the thread that is stored in `data`."""
    with (
        handbook_service(data / "service") as client,
        SqliteSaver.from_conn_string(str(data / "checkpoints.db")) as saver,
    ):
        bot = ChatKnowledgeBot(bot_id="bot_lending", client=client)

        def answer(state: MessagesState) -> dict[str, Any]:
            return {"messages": [bot.invoke(state["messages"])]}

        graph = StateGraph(MessagesState).add_node("answer", answer).set_entry_point("answer")
        compiled = graph.set_finish_point("answer").compile(checkpointer=saver)
        thread = RunnableConfig(configurable={"thread_id": "ada"})
        before = len(compiled.get_state(thread).values.get("messages", []))
        print(f"A new process; the checkpoint holds {before} messages.", flush=True)
        asked = MessagesState(messages=[HumanMessage(question)])
        *_, message = compiled.invoke(asked, thread)["messages"]
        print(f"{question}\n{message.text}")
        conversations = len(client.list_conversations("bot_lending"))
        where = message.response_metadata["conversation_id"]
        print(f"in {where}; conversations of the bot: {conversations}\n")


if __name__ == "__main__":
    main()
