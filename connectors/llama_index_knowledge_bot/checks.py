"""Checks of any query engine: questions with expected answers."""

from collections.abc import Iterable, Iterator
from typing import Any, Unpack

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.schema import NodeWithScore

from knowledge_bot.adapters import Answer, acheck_function, check_function
from knowledge_bot.checks import CheckOptions, CheckReport, Question

# Where readers keep a node's source, in the order of lookup.
_SOURCES = ("source", "file_name", "name", "sources")


def check_query_engine(
    engine: BaseQueryEngine, questions: Iterable[Question], **options: Unpack[CheckOptions]
) -> CheckReport:
    """Check what a query engine answers, as `check` does a bot.

    ```python
    from knowledge_bot.checks import load_questions
    from llama_index_knowledge_bot import KnowledgeBotQueryEngine, check_query_engine

    engine = KnowledgeBotQueryEngine(bot_id="bot_guide")
    report = check_query_engine(engine, load_questions("questions.toml"))
    ```

    Names of sources are the `source`, `file_name` or `name` in the metadata of the response's
    nodes, or the list at the end of the text as the service's bots write it. A question with
    `fresh` needs an engine with a `ledger`.

    Args:
        engine: what is asked; each question is one `query`.
        questions: what is asked, and what is expected.
        options: how the check runs; see `knowledge_bot.checks.CheckOptions`.

    Returns:
        The result of each question; an error that the engine raised is its result's reason.

    Raises:
        knowledge_bot.ConfigurationError: there are no questions, two of them have the same id, or
            an argument cannot be used. Nothing was asked.
    """

    def ask(question: str) -> Answer:
        response = engine.query(question)
        if isinstance(response, StreamingResponse):
            response = response.get_response()
        return _answer(response)

    return check_function(ask, questions, options)


async def acheck_query_engine(
    engine: BaseQueryEngine, questions: Iterable[Question], **options: Unpack[CheckOptions]
) -> CheckReport:
    """Check as `check_query_engine` does, with `aquery`; arguments and result are the same."""

    async def ask(question: str) -> Answer:
        response = await engine.aquery(question)
        if isinstance(response, AsyncStreamingResponse):
            response = await response.get_response()
        return _answer(response)

    return await acheck_function(ask, questions, options)


def _answer(response: Any) -> Answer:
    freshness = (response.metadata or {}).get("freshness")
    answer = Answer(str(response), found=_found(response), freshness=freshness)
    return answer.with_sources(list(_named(response.source_nodes)))


def _found(response: Any) -> bool | None:
    found = (response.metadata or {}).get("found")
    return found if isinstance(found, bool) else None


def _named(nodes: Iterable[NodeWithScore]) -> Iterator[str]:
    for node in nodes:
        if name := next((node.metadata[key] for key in _SOURCES if node.metadata.get(key)), None):
            yield from map(str, name if isinstance(name, list) else [name])
