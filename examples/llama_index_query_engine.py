"""Ask a bot question by question, one after another and several at once."""

import asyncio

from handbook_service import handbook_service
from llama_index_knowledge_bot import KnowledgeBotQueryEngine

QUESTIONS = ["Who leads the repair evening?", "What does a household membership cost a year?"]


async def ask_at_once(engine: KnowledgeBotQueryEngine) -> None:
    """Ask all questions at the same time."""
    for response in await asyncio.gather(*map(engine.aquery, QUESTIONS)):
        print(f"{response}\n")


if __name__ == "__main__":
    with handbook_service() as client:
        engine = KnowledgeBotQueryEngine("bot_handbook", client=client)

        response = engine.query("How long is the loan period for hand tools?")
        print(f"{response}\n\nfrom conversation {response.metadata['conversation_id']}\n")

        asyncio.run(ask_at_once(engine))
