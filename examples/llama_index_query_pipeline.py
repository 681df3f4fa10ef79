"""Use bots in query pipelines, which LlamaIndex had up to 0.12.

Only a chat engine has to be wrapped. On later versions see llama_index_workflow.py, which uses the
same classes.
"""

import sys
from importlib.metadata import version

from llama_index.core import PromptTemplate

from handbook_service import handbook_service
from llama_index_knowledge_bot import (
    KnowledgeBotChatEngine,
    KnowledgeBotLLM,
    KnowledgeBotQueryEngine,
    KnowledgeBotRetriever,
)

try:
    from llama_index.core.query_pipeline import FnComponent, QueryPipeline
except ImportError:
    sys.exit(
        f"llama-index-core {version('llama-index-core')} has no query pipelines: they ended with "
        "0.12. See llama_index_workflow.py."
    )

if __name__ == "__main__":
    with handbook_service() as client:
        prompt = PromptTemplate("What does a {kind} membership cost a year?")
        to_llm = QueryPipeline(chain=[prompt, KnowledgeBotLLM("bot_lending", client=client)])
        print("LLM:", to_llm.run(kind="household"), "\n")

        engine = KnowledgeBotQueryEngine("bot_workshop", client=client)
        print(
            "Query engine:",
            QueryPipeline(chain=[engine]).run("Who leads the repair evening?"),
            "\n",
        )

        retriever = KnowledgeBotRetriever(bot_ids=["bot_lending", "bot_workshop"], client=client)
        nodes = QueryPipeline(chain=[retriever]).run("How long is the loan period for hand tools?")
        print(
            "Retriever:",
            " | ".join(node.metadata.get("source", "an answer") for node in nodes),
            "\n",
        )

        chat = KnowledgeBotChatEngine("bot_lending", client=client)
        turn = QueryPipeline(chain=[FnComponent(fn=lambda message: str(chat.chat(message)))])
        turn.run(message="How long is the loan period for hand tools?")
        print("Chat engine:", turn.run(message="And for large machines?"))
