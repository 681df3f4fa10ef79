"""Route each question to the bot that knows about it.

A bot answers from its sources and cannot choose among tools. Here a simple selector compares words,
so that the example needs no model. With a model, pass `LLMSingleSelector.from_defaults(llm=…)` as
selector.
"""

import re
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.base_selector import BaseSelector, SelectorResult, SingleSelection
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RouterQueryEngine
from llama_index.core.schema import QueryBundle
from llama_index.core.tools import ToolMetadata

from handbook_service import handbook_service
from llama_index_knowledge_bot import bot_tools

DESCRIPTIONS = {
    "bot_lending": "Borrowing tools: loan period, reservations, membership and its cost, damage.",
    "bot_workshop": "Working in the workshop: safety, protection, machines, courses, repair.",
}


class WordSelector(BaseSelector):
    """Chooses the tool whose description shares the most words with the question."""

    def _select(self, choices: Sequence[ToolMetadata], query: QueryBundle) -> SelectorResult:
        asked = words(query.query_str)
        shared = [len(asked & words(choice.description)) for choice in choices]
        best = shared.index(max(shared))
        reason = f"{shared[best]} words in common"
        return SelectorResult(selections=[SingleSelection(index=best, reason=reason)])

    async def _aselect(self, choices: Sequence[ToolMetadata], query: QueryBundle) -> SelectorResult:
        return self._select(choices, query)

    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: dict[str, Any]) -> None:
        pass


def words(text: str) -> set[str]:
    """Return the words of a text, without the short ones that occur in every text."""
    return {word for word in re.findall(r"\w+", text.lower()) if len(word) > 3}


if __name__ == "__main__":
    with handbook_service() as client:
        bots = [bot for bot in client.list_bots() if bot.id in DESCRIPTIONS]
        router = RouterQueryEngine(
            selector=WordSelector(),
            query_engine_tools=bot_tools(client, bots, descriptions=DESCRIPTIONS),
            llm=MockLLM(),  # required by the router, which uses it only for several choices
        )
        for question in (
            "What does a household membership cost a year?",
            "Which protection is compulsory at the table saw?",
        ):
            response = router.query(question)
            print(f"{response.metadata['bot_id']}: {response}\n")
