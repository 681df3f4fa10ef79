"""Checks of any runnable: questions with expected answers."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Unpack

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig

from knowledge_bot.adapters import Answer, acheck_function, check_function
from knowledge_bot.checks import CheckOptions, CheckReport, Question

# Where chains and agents keep their answer, in the order in which they are looked for.
_ANSWERS = ("answer", "output", "result", "text", "messages")


def check_runnable(
    runnable: Runnable[Any, Any],
    questions: Iterable[Question],
    *,
    to_input: Callable[[str], Any] | None = None,
    to_text: Callable[[Any], str] | None = None,
    config: RunnableConfig | None = None,
    **options: Unpack[CheckOptions],
) -> CheckReport:
    """Check what a model, a retriever, a chain or an agent answers, as `check` does a bot.

    ```python
    from knowledge_bot.checks import load_questions
    from langchain_knowledge_bot import ChatKnowledgeBot, check_runnable

    model = ChatKnowledgeBot(bot_id="bot_handbook")
    report = check_runnable(model, load_questions("questions.toml"))
    ```

    Args:
        runnable: what is asked; each question is one `invoke`.
        questions: what is asked, and what is expected.
        to_input: turns a question into the runnable's input; by default the question itself, as
            a text.
        to_text: turns the runnable's output into a text. By default it may be a text, a message,
            documents, or a mapping with one of these as `answer`, `output`, `result`, `text` or
            `messages`. Names of sources are the documents' `source`, the `sources` that a bot's
            message has in its metadata, or the list at the end of the text as the service's bots
            write it. A question with `fresh` needs a model or a retriever with a `ledger`, whose
            message or documents are the output.
        config: passed to each `invoke`.
        options: how the check runs; see `knowledge_bot.checks.CheckOptions`.

    Returns:
        The result of each question; an error that the runnable raised is its result's reason.

    Raises:
        knowledge_bot.ConfigurationError: there are no questions, two of them have the same id, or
            an argument cannot be used. Nothing was asked.
    """

    def ask(question: str) -> Answer:
        given = question if to_input is None else to_input(question)
        return _answer(runnable.invoke(given, config), to_text)

    return check_function(ask, questions, options)


async def acheck_runnable(
    runnable: Runnable[Any, Any],
    questions: Iterable[Question],
    *,
    to_input: Callable[[str], Any] | None = None,
    to_text: Callable[[Any], str] | None = None,
    config: RunnableConfig | None = None,
    **options: Unpack[CheckOptions],
) -> CheckReport:
    """Check as `check_runnable` does, with `ainvoke`; arguments and result are the same.

    ```python
    from knowledge_bot.checks import load_questions
    from langchain_knowledge_bot import KnowledgeBotRetriever, acheck_runnable

    retriever = KnowledgeBotRetriever(bot_id="bot_handbook")
    report = await acheck_runnable(retriever, load_questions("questions.toml"), wait=1)
    ```
    """

    async def ask(question: str) -> Answer:
        given = question if to_input is None else to_input(question)
        return _answer(await runnable.ainvoke(given, config), to_text)

    return await acheck_function(ask, questions, options)


def _answer(output: Any, to_text: Callable[[Any], str] | None) -> Answer:
    if to_text is not None:
        output = to_text(output)
    if isinstance(output, dict):
        output = next((output[name] for name in _ANSWERS if name in output), output)
    if isinstance(output, Document):
        output = [output]
    if isinstance(output, list) and all(isinstance(one, Document) for one in output):
        return _answer_of_documents(output)
    if isinstance(output, list) and isinstance(output[-1], BaseMessage):
        output = output[-1]
    kept: dict[str, Any] = {}
    if isinstance(output, BaseMessage):
        kept, output = output.response_metadata, output.text
    if not isinstance(output, str):
        raise TypeError(
            f"the runnable's output is {type(output).__name__}, which has no known text; "
            "pass to_text="
        )
    answer = Answer(str(output), found=_found([kept]), freshness=kept.get("freshness"))
    return answer.with_sources(list(_named([kept])))


def _answer_of_documents(found: list[Document]) -> Answer:
    if not found:
        return Answer("", found=False)
    kept = [one.metadata for one in found]
    text = "\n\n".join(one.page_content for one in found)
    compared = [one.get("freshness") for one in kept]
    freshness = None if None in compared else [one for some in compared for one in some or ()]
    return Answer(text, found=_found(kept), freshness=freshness).with_sources(list(_named(kept)))


def _found(kept: list[dict[str, Any]]) -> bool | None:
    said = [found for one in kept if isinstance(found := one.get("found"), bool)]
    return any(said) if said else None


def _named(kept: list[dict[str, Any]]) -> Iterator[str]:
    for one in kept:
        names = one["source"] if "source" in one else one.get("sources")
        yield from map(str, names if isinstance(names, list) else filter(None, [names]))
