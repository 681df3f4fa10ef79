"""The classes of LangChain and LlamaIndex that ask a bot, each with the ways to ask it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

PACKAGES = LANGCHAIN, LLAMA_INDEX = ("langchain_knowledge_bot", "llama_index_knowledge_bot")
QUESTION = "When do you open?"


@dataclass(frozen=True)
class Face:
    """A class that asks a bot, and how it is used."""

    package: str
    name: str
    ways: tuple[str, str]
    text: Callable[[Any], str]
    fields: Callable[[Any], dict[str, Any]]
    given: Callable[[str], Any] = str
    options: dict[str, Any] = field(default_factory=dict)

    def make(self, client=None, **options):
        cls = getattr(import_module(self.package), self.name)
        client = {} if client is None else {"client": client}
        return cls(bot_id="bot_1", **client, **self.options, **options)

    def ask(self, asking, question=QUESTION, *, awaited=False):
        """What it gives, outside of any event loop."""
        if awaited:
            return asyncio.run(self.aask(asking, question))
        return getattr(asking, self.ways[0])(self.given(question))

    async def aask(self, asking, question=QUESTION):
        return await getattr(asking, self.ways[1])(self.given(question))


def call_of(question):
    return {"name": "ask_1", "args": {"question": question}, "id": "1", "type": "tool_call"}


def list_of(question):
    from llama_index.core.llms import ChatMessage

    return [ChatMessage(question)]


FACES = {
    "langchain model": Face(
        LANGCHAIN,
        "ChatKnowledgeBot",
        ("invoke", "ainvoke"),
        lambda message: message.content,
        lambda message: message.response_metadata,
    ),
    "langchain retriever": Face(
        LANGCHAIN,
        "KnowledgeBotRetriever",
        ("invoke", "ainvoke"),
        lambda found: found[0].page_content,
        lambda found: found[0].metadata,
    ),
    "langchain tool": Face(
        LANGCHAIN,
        "KnowledgeBotTool",
        ("invoke", "ainvoke"),
        lambda message: message.content,
        lambda message: message.artifact,
        call_of,
        {"handle_tool_error": False},
    ),
    "llama-index llm": Face(
        LLAMA_INDEX,
        "KnowledgeBotLLM",
        ("complete", "acomplete"),
        lambda response: response.text,
        lambda response: response.additional_kwargs,
    ),
    "llama-index chat": Face(
        LLAMA_INDEX,
        "KnowledgeBotLLM",
        ("chat", "achat"),
        lambda response: response.message.content,
        lambda response: response.additional_kwargs,
        list_of,
    ),
    "llama-index retriever": Face(
        LLAMA_INDEX,
        "KnowledgeBotRetriever",
        ("retrieve", "aretrieve"),
        lambda found: found[0].text,
        lambda found: found[0].metadata,
    ),
    "llama-index query engine": Face(
        LLAMA_INDEX, "KnowledgeBotQueryEngine", ("query", "aquery"), str, lambda one: one.metadata
    ),
    "llama-index chat engine": Face(
        LLAMA_INDEX, "KnowledgeBotChatEngine", ("chat", "achat"), str, lambda one: one.metadata
    ),
}
