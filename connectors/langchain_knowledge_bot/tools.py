"""Bots as tools of an agent."""

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, Self

from langchain_core.callbacks import (
    AsyncCallbackManagerForToolRun,
    BaseCallbackHandler,
    BaseCallbackManager,
    CallbackManagerForToolRun,
)
from langchain_core.tools import ArgsSchema, BaseTool, BaseToolkit, ToolException
from pydantic import BaseModel, Field, model_validator
from typing_extensions import Unpack, override

from knowledge_bot import (
    AsyncClient,
    BadRequestError,
    Bot,
    Client,
    ConnectionFailedError,
    ConnectionLostError,
    Delivery,
    KnowledgeBotError,
    Message,
    RateLimitError,
    RequestTimeoutError,
    ServerError,
    UnexpectedResponseError,
)
from knowledge_bot._shared import async_twin
from langchain_knowledge_bot.connection import Connection, ConnectionFields
from langchain_knowledge_bot.messages import metadata_of
from langchain_knowledge_bot.model_errors import as_chat_error

# What model providers take as the name of a tool.
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_NAME_LENGTH = 64

# The agent hears of these and goes on: with another question, later, or without this bot. Any other
# error needs a person, and ends the run.
_TOLD_TO_THE_AGENT = (
    BadRequestError,
    ConnectionFailedError,
    ConnectionLostError,
    RateLimitError,
    RequestTimeoutError,
    ServerError,
    UnexpectedResponseError,
)


class UnknownDeliveryToolException(ToolException, RuntimeError):  # noqa: N818 - as LangChain's own
    """A question that the service may have received; LangGraph's `RetryPolicy` leaves it alone."""


class Question(BaseModel):
    """What a bot is asked."""

    question: str = Field(
        description="A whole question; the bot knows nothing that was said before."
    )


class ToolFields(ConnectionFields, total=False):
    """The fields of a `KnowledgeBotTool` but its bot, as type checkers are told of them."""

    name: str
    description: str
    # the framework's
    args_schema: ArgsSchema
    return_direct: bool
    verbose: bool
    callbacks: list[BaseCallbackHandler] | BaseCallbackManager | None
    tags: list[str] | None
    metadata: dict[str, Any] | None
    handle_tool_error: bool | str | Callable[[ToolException], str] | None
    handle_validation_error: bool | str | Callable[[Any], str] | None
    response_format: Literal["content", "content_and_artifact"]
    extras: dict[str, Any] | None


class KnowledgeBotTool(BaseTool, Connection):
    """A bot as a tool that an agent asks.

    The content is the bot's answer. Every question starts a conversation of its own, which the
    service keeps.

    Setup:
        Install the package with its LangChain extra, and name the service.

        ```bash
        pip install "knowledge-bot[langchain]"
        export KNOWLEDGE_BOT_BASE_URL="https://service.example.com/public/v1"
        export KNOWLEDGE_BOT_API_KEY="your-api-key"
        ```

    Key init args:
        bot_id: str
            The bot that is asked, `bot_…`.
        name: str
            The tool's name; by default made of the bot's id.
        description: str
            What the agent reads to choose the tool: say what the bot knows about.
        handle_tool_error: bool | str | Callable
            By default True: a question that failed is told to the agent, with status "error".
        api_key, base_url, timeout, max_retries, client, async_client
            How the service is reached, see `Connection`.

    Instantiate:
        ```python
        from langchain_knowledge_bot import KnowledgeBotTool

        tool = KnowledgeBotTool(
            bot_id="bot_handbook", description="Answers questions about the tool library."
        )
        ```

    Invoke with arguments:
        ```python
        tool.invoke({"question": "When does the desk open?"})
        await tool.ainvoke({"question": "When does the desk open?"})
        ```

    Invoke with a tool call:
        The message's `artifact` is a dict of `answer`, `bot_id`, `conversation_id`, `message_id`
        and `created_at` in Unix milliseconds.

        ```python
        call = {
            "name": tool.name,
            "args": {"question": "When does the desk open?"},
            "id": "1",
            "type": "tool_call",
        }
        tool.invoke(call).artifact
        ```

    Raises:
        pydantic.ValidationError: from the constructor: no key or no base URL, or a field that is
            unknown, missing or cannot be used.
        knowledge_bot.KnowledgeBotError: from a call, where a person has to act: a wrong key, an
            exhausted quota, a bot that is not there.
        langchain_core.tools.ToolException: from a call, any other failure; only where
            `handle_tool_error` is False, for the agent hears of it otherwise. Where the service may
            have acted, LangGraph's `RetryPolicy`, as it is by default, does not ask again.
    """

    bot_id: str
    """The bot that is asked, `bot_…`."""

    name: str = ""
    """The tool's name; by default made of the bot's id."""

    description: str = "Asks a bot that answers questions from its knowledge sources."
    """What the agent reads to choose the tool."""

    args_schema: ArgsSchema = Question
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    handle_tool_error: Any = True

    if TYPE_CHECKING:

        def __init__(self, *, bot_id: str, **fields: Unpack[ToolFields]) -> None: ...

    @model_validator(mode="after")
    def _name_by_the_bot(self) -> Self:
        if not self.name:
            self.name = _tool_name(self.bot_id.removeprefix("bot_"))
        return self

    @override
    def _run(
        self, question: str, run_manager: CallbackManagerForToolRun | None = None
    ) -> tuple[str, dict[str, Any]]:
        try:
            return self._result(
                self._sync.send_message(bot_id=self.bot_id, content=_asked(question))
            )
        except KnowledgeBotError as error:
            raise _told(error) from error

    @override
    async def _arun(
        self, question: str, run_manager: AsyncCallbackManagerForToolRun | None = None
    ) -> tuple[str, dict[str, Any]]:
        try:
            return self._result(
                await self._awaiting_client().send_message(
                    bot_id=self.bot_id, content=_asked(question)
                )
            )
        except KnowledgeBotError as error:
            raise _told(error) from error

    def _result(self, message: Message) -> tuple[str, dict[str, Any]]:
        # Plain values: a checkpoint gives any class back as a dict.
        return message.answer, {"answer": message.answer, **metadata_of(self.bot_id, message)}


class KnowledgeBotToolkit(BaseToolkit):
    """One tool for each bot of a service.

    Instantiate:
        ```python
        from knowledge_bot import Client
        from langchain_knowledge_bot import KnowledgeBotToolkit

        toolkit = KnowledgeBotToolkit.from_client(Client())
        ```

    Use:
        ```python
        from langgraph.prebuilt import ToolNode

        tools = toolkit.get_tools()
        model = another_model.bind_tools(tools)
        node = ToolNode(tools)
        ```
    """

    tools: tuple[KnowledgeBotTool, ...]
    """The tools, in the order in which the service lists the bots."""

    @classmethod
    def from_client(cls, client: Client, *, async_client: AsyncClient | None = None) -> Self:
        """Return a toolkit of all bots that a service has now.

        Args:
            client: what lists the bots, and what the tools ask with.
            async_client: what the tools ask with in asynchronous calls; by default a client with
                the settings of `client`.

        Raises:
            KnowledgeBotError: the bots could not be listed.
        """
        return cls(tools=tuple(_tools(client.list_bots(), client, async_client)))

    @classmethod
    async def afrom_client(cls, client: Client, *, async_client: AsyncClient | None = None) -> Self:
        """Return what `from_client` does, without blocking."""
        asking = async_client or async_twin(client)
        return cls(tools=tuple(_tools(await asking.list_bots(), client, async_client)))

    @override
    def get_tools(self) -> list[BaseTool]:
        """Return the tools."""
        return list(self.tools)


def _tools(
    bots: Iterable[Bot], client: Client, async_client: AsyncClient | None
) -> Iterable[KnowledgeBotTool]:
    taken: set[str] = set()
    for bot in bots:
        name = _tool_name(bot.name)
        if name in taken or name == _tool_name(""):  # two of one name, or none in Latin letters
            name = _tool_name(bot.id.removeprefix("bot_"))
        while name in taken:
            name = f"{name[: _NAME_LENGTH - 6]}_{len(taken)}"
        taken.add(name)
        yield KnowledgeBotTool(
            bot_id=bot.id,
            name=name,
            description=f'Asks the bot "{bot.name}", which answers questions from its sources.',
            client=client,
            async_client=async_client,
        )


def _tool_name(subject: str) -> str:
    return f"ask_{_NOT_IN_A_NAME.sub('_', subject).strip('_').lower()}"[:_NAME_LENGTH]


def _told(error: KnowledgeBotError) -> Exception:
    if not isinstance(error, _TOLD_TO_THE_AGENT):
        return as_chat_error(error)
    unknown = error.delivery is Delivery.UNKNOWN
    return (UnknownDeliveryToolException if unknown else ToolException)(str(error))


def _asked(question: str) -> str:
    if not question.strip():
        raise ToolException("The question is empty. Ask a whole question.")
    return question
