"""A bot's answers as retrieved documents."""

from typing import TYPE_CHECKING, Any, Self, overload

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import PositiveInt, model_validator
from typing_extensions import Unpack, override

from knowledge_bot import ConfigurationError
from knowledge_bot.adapters import check_number
from knowledge_bot.adapters.retrieval import Retrieval, Retrieved, bots_named
from langchain_knowledge_bot.clients import ClientFields, ClientMixin
from langchain_knowledge_bot.model_errors import AskedOnce, asking


class RetrieverFields(ClientFields, total=False):
    """The fields of a `KnowledgeBotRetriever` except its bots, for type checkers."""

    k: int | None
    drop_refusals: bool
    # the framework's
    name: str | None
    tags: list[str] | None
    metadata: dict[str, Any] | None


class KnowledgeBotRetriever(AskedOnce[str, list[Document]], BaseRetriever, ClientMixin):
    """The passages that one bot or several would answer from, as documents.

    Where the service announces `passages`, they are searched for and no bot is asked: there is no
    message and no conversation. The best passages of each bot come in turn, first those of bots
    that found something. Elsewhere every bot is asked, in a conversation of its own: the passages
    that its answer names are the documents, or the answer if it names none.

    Setup:
        `pip install "knowledge-bot[langchain]"`, and `KNOWLEDGE_BOT_BASE_URL` and
        `KNOWLEDGE_BOT_API_KEY` in the environment.

    Key init args:
        bot_id: str
            The bot that is asked, `bot_…`.
        bot_ids: list[str]
            Several bots instead, asked at the same time.
        k: int | None
            How many documents at most, once all bots were asked and refusals dropped; by default
            five passages, or an answer of each bot. Also an argument of `invoke`.
        drop_refusals: bool
            Leave out what is not about the question: passages of a search that found nothing, and
            answers that say so, which are of no use in a prompt or an ensemble. False by default.
        api_key, base_url, timeout, max_retries, client, async_client
            How the service is reached, see `ClientMixin`.

    Instantiate:
        ```python
        from langchain_knowledge_bot import KnowledgeBotRetriever

        retriever = KnowledgeBotRetriever(bot_id="bot_handbook")
        ```

    Usage:
        ```python
        retriever.invoke("When does the office open?")
        await retriever.ainvoke("When does the office open?")
        ```

    Document metadata:
        Of a passage `source`: the source's name, `source_id`, `url`, `revision` and `passage_id`
        (also the document's id, the same in every search until the source changes). Nothing in it
        is the question's or the bot's, so equal passages are equal documents: a union, a fusion or
        an index takes them for one. Of an answer `bot_id`, `passage_id` (equal answers of a bot
        have the same one), and `source`: the names of the answer's sources, separated by commas.
        What is not known is left out, and all values are texts, as vector stores want them.

    Use within a chain:
        ```python
        from langchain_core.prompts import ChatPromptTemplate
        from langchain_core.runnables import RunnablePassthrough

        prompt = ChatPromptTemplate.from_template("{question} Use this: {documents}")
        given = {"documents": retriever, "question": RunnablePassthrough()}
        chain = given | prompt | another_model
        ```

    Raises:
        pydantic.ValidationError: no key or no base URL, or a field is unknown, missing or wrong. It
            is a ValueError, and holds no field's value.
        langchain_knowledge_bot.model_errors.ChatError: from a call. It is the error that the client
            raised (`knowledge_bot.KnowledgeBotError`); `delivery` says whether the service may have
            acted. With several bots, it is the error of the first one in their order that failed,
            raised once all have answered or failed. LangGraph's default `RetryPolicy` never repeats
            a question that a bot may have received.
    """

    bot_id: str | None = None
    bot_ids: list[str] | None = None
    k: PositiveInt | None = None
    drop_refusals: bool = False

    if TYPE_CHECKING:

        @overload
        def __init__(self, *, bot_id: str, **fields: Unpack[RetrieverFields]) -> None: ...

        @overload
        def __init__(self, *, bot_ids: list[str], **fields: Unpack[RetrieverFields]) -> None: ...

        def __init__(self, **fields: Any) -> None: ...

    @model_validator(mode="after")
    def _name_bots_once(self) -> Self:
        bots_named(self.bot_id, self.bot_ids)
        return self

    @override
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        retrieval = self._retrieval(query, k)
        with asking(run_manager, alone=len(retrieval.bots) == 1):
            return list(map(_document, retrieval.get(self._sync, query)))

    @override
    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        retrieval = self._retrieval(query, k)
        with asking(run_manager, alone=len(retrieval.bots) == 1):
            return list(map(_document, await retrieval.aget(self._awaiting_client(), query)))

    def _retrieval(self, query: Any, k: int | None) -> Retrieval:
        if not isinstance(query, str):
            raise ConfigurationError.of(
                "query",
                f"a retriever takes the question as a text, not {type(query).__name__}; in "
                'a chain, extract it first, as in itemgetter("question") | retriever. Nothing was '
                "sent",
            )
        limit = self.k if k is None else k
        if limit is not None:
            check_number("k", limit, 1, whole=True)
        return Retrieval(
            bots_named(self.bot_id, self.bot_ids),
            limit=limit,
            relevant=self.drop_refusals,
        )


def _document(found: Retrieved) -> Document:
    return Document(id=found.id, page_content=found.text, metadata={**found.fields})
