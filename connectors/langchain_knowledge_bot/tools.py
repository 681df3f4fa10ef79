"""Bots as tools of an agent."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Self

from langchain_core.callbacks import (
    AsyncCallbackManagerForToolRun,
    BaseCallbackHandler,
    BaseCallbackManager,
    CallbackManagerForToolRun,
)
from langchain_core.messages import ToolCall
from langchain_core.tools import ArgsSchema, BaseTool, BaseToolkit, ToolException
from pydantic import BaseModel, Field, model_validator
from typing_extensions import Unpack, override

from knowledge_bot import Bot, Client, ConfigurationError, Delivery, KnowledgeBotError
from knowledge_bot.adapters import identifier
from knowledge_bot.adapters.retrieval import Answer
from knowledge_bot.adapters.tools import TOOL_NAME, tool_descriptions, tool_name, tool_names
from knowledge_bot.conversations import Conversations, Heads, Reply, Said
from langchain_knowledge_bot.clients import ClientFields, ClientMixin, HeadsField
from langchain_knowledge_bot.model_errors import AskedOnce, asking


class ToolQuestion(BaseModel):
    """A question to a bot."""

    question: str = Field(
        description="A whole question; the bot knows nothing that was said before."
    )


class ConversationFields(ClientFields, total=False):
    """The fields of a `Conversing`, for type checkers."""

    conversation: Literal["new", "continue"]
    heads: Heads | str | PathLike[str] | None


class Conversing(ClientMixin):
    """How tools ask, one by one or all of a toolkit."""

    conversation: Literal["new", "continue"] = "new"
    heads: HeadsField = None


class ToolFields(ConversationFields, total=False):
    """The fields of a `KnowledgeBotTool` except its bot, for type checkers."""

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


class KnowledgeBotTool(AskedOnce[str | dict[str, Any] | ToolCall, Any], BaseTool, Conversing):
    """A bot as a tool that an agent asks.

    The content is the bot's answer. By default every question starts its own conversation, which
    the service keeps. With `conversation="continue"`, a LangGraph agent may ask follow-up
    questions: the tool continues the conversation of its newest answer among the agent's messages.
    That conversation never holds anything that the agent's messages do not: of two questions asked
    at once, one continues it and the other starts a new one with the same history, and so does an
    agent that continues from an older checkpoint.

    Setup:
        `pip install "knowledge-bot[langchain]"`, and `KNOWLEDGE_BOT_BASE_URL` and
        `KNOWLEDGE_BOT_API_KEY` in the environment.

    Key init args:
        bot_id: str
            The bot that is asked, `bot_…`.
        name: str
            The tool's name; by default made of the bot's id.
        description: str
            What the agent reads to choose the tool: describe what the bot knows.
        args_schema: type[BaseModel] | dict
            What an agent fills in, with a field `question`, for example to describe it better;
            other fields are not sent.
        conversation: "new" | "continue"
            Whether a question starts a conversation, or continues the one in which this tool last
            answered, by the agent's messages. The latter needs LangGraph's `ToolNode`, which agents
            have.
        heads: Heads | str | PathLike | None
            For "continue": where the last answer of each conversation is kept, as for
            `ChatKnowledgeBot`. By default in this process; name a database if there are several.
        handle_tool_error: bool | str | Callable
            By default True: the agent gets the error of a failed question, with status "error".
        api_key, base_url, timeout, max_retries, client, async_client
            How the service is reached, see `ClientMixin`.

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
        The message's `artifact` is a dict of `question`: what was really asked, `answer`, `bot_id`,
        `conversation_id`, `message_id`, `created_at` in Unix milliseconds, `sources`: the names of
        the answer's sources, and `found`: False if the bot says that it found nothing. With
        `conversation="continue"` it also holds `digests`, which reveal an edited history. With
        `response_format="content"` the answer is all there is.

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
        pydantic.ValidationError: from the constructor: no key or no base URL, or a field is
            unknown, missing or wrong.
        langchain_knowledge_bot.model_errors.ChatError: from a call, as from `ChatKnowledgeBot`. By
            default only if no question can leave here before a person changes the configuration
            (`delivery` is `NOT_DELIVERED`, and `may_pass` False). The agent is told of all else,
            and asks something else, later, or without this bot: a raised error would end a step
            with the answers to its other questions, which would then be asked again. With
            `handle_tool_error=False` every error is raised.
    """

    bot_id: str
    name: str = ""
    description: str = "Asks a bot that answers questions from its knowledge sources."
    args_schema: ArgsSchema = ToolQuestion
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    handle_tool_error: Any = True

    if TYPE_CHECKING:

        def __init__(self, *, bot_id: str, **fields: Unpack[ToolFields]) -> None: ...

    @model_validator(mode="after")
    def _check_what_models_take(self) -> Self:
        identifier("bot_id", self.bot_id, "bot_")
        self.name = self.name or tool_name(self.bot_id.removeprefix("bot_"))
        if not TOOL_NAME.fullmatch(self.name):
            raise ConfigurationError.of(
                "name",
                f"models take 1 to 64 letters, digits, _ and -, not {self.name[:80]!r}",
            )
        schema: Any = self.args_schema
        taken = (
            schema.get("properties", {})
            if isinstance(schema, dict)
            else getattr(schema, "model_fields", None) or schema.__fields__  # of pydantic 1
        )
        if "question" not in taken:
            raise ConfigurationError.of(
                "args_schema", f"it needs a field `question`, and has {', '.join(taken) or 'none'}"
            )
        return self

    @model_validator(mode="after")
    def _look_at_the_graph(self) -> Self:
        if self.conversation == "new":
            return self
        if self.response_format == "content":
            raise ConfigurationError.of(
                "response_format", 'conversation="continue" reads the artifacts of its answers'
            )
        try:
            from langchain_knowledge_bot.graphs import FollowingQuestion, with_state
        except ModuleNotFoundError as error:
            raise ConfigurationError.of(
                "conversation",
                '"continue" reads the messages of an agent of LangGraph, which '
                "is not installed here: pip install langgraph",
            ) from error
        schema: Any = FollowingQuestion if self.args_schema is ToolQuestion else self.args_schema
        if not isinstance(schema, type) or not issubclass(schema, BaseModel):
            raise ConfigurationError.of(
                "args_schema", 'conversation="continue" takes a class of pydantic 2'
            )
        self.args_schema = with_state(schema)
        return self

    @override
    def _run(
        self,
        question: Any = None,
        state: Any = None,
        run_manager: CallbackManagerForToolRun | None = None,
        **_: Any,
    ) -> str | tuple[str, dict[str, Any]]:
        said = self._said(question, state)
        with asking(run_manager), self._for_the_agent():
            return self._result(question, self._conversations().ask(self._sync, self.bot_id, said))

    @override
    async def _arun(
        self,
        question: Any = None,
        state: Any = None,
        run_manager: AsyncCallbackManagerForToolRun | None = None,
        **_: Any,
    ) -> str | tuple[str, dict[str, Any]]:
        said = self._said(question, state)
        with asking(run_manager), self._for_the_agent():
            client = self._awaiting_client()
            reply = await self._conversations().aask(client, self.bot_id, said)
            return self._result(question, reply)

    def _said(self, question: Any, state: Any) -> list[Said]:
        # The framework checks nothing against a schema that is a dict.
        if not isinstance(question, str) or not question.strip():
            raise ToolException("The question is empty, or no text. Ask a whole question.")
        if self.conversation == "new":
            return [Said("user", question)]
        from langchain_knowledge_bot.graphs import asked_before

        return [*asked_before(state, self.bot_id), Said("user", question)]

    @contextmanager
    def _for_the_agent(self) -> Iterator[None]:
        try:
            yield
        except KnowledgeBotError as error:
            out_of_reach = error.delivery is Delivery.NOT_DELIVERED and not error.may_pass
            if out_of_reach or not self.handle_tool_error:
                raise
            raise ToolException(str(error)) from error

    def _conversations(self) -> Conversations:
        return Conversations(Heads.of_process() if self.heads is None else self.heads)

    def _result(self, question: str, reply: Reply) -> str | tuple[str, dict[str, Any]]:
        text = reply.message.answer
        if self.response_format == "content":
            return text
        # Plain values: a checkpoint restores other classes as dicts. The question is the one that
        # was asked: a call in the agent's message may have been edited on its way here.
        asked = {"question": question, "answer": text}
        kept = reply.kept() if self.conversation == "continue" else {}
        return text, {**asked, **Answer.of(reply.message).as_dict(self.bot_id), **kept}


class ToolkitFields(ConversationFields, total=False):
    """The fields of a `KnowledgeBotToolkit`, for type checkers."""

    bots: Sequence[Bot] | None
    descriptions: Mapping[str, str]


class KnowledgeBotToolkit(BaseToolkit, Conversing):
    """One tool for each bot of a service.

    Setup:
        `pip install "knowledge-bot[langchain]"`, and `KNOWLEDGE_BOT_BASE_URL` and
        `KNOWLEDGE_BOT_API_KEY` in the environment.

    Key init args:
        bots: Sequence[Bot] | None
            The bots; by default all that the service lists when the tools are asked for.
        descriptions: Mapping[str, str]
            What each bot knows, by its id: agents choose by it, and the service only gives a bot's
            name.
        conversation, heads
            As for each `KnowledgeBotTool`.
        api_key, base_url, timeout, max_retries, client, async_client
            How the service is reached, see `ClientMixin`.

    Instantiate:
        ```python
        from langchain_knowledge_bot import KnowledgeBotToolkit

        toolkit = KnowledgeBotToolkit(
            descriptions={"bot_handbook": "Knows the rules and hours of the tool library."}
        )
        ```

    Use:
        ```python
        from langgraph.prebuilt import ToolNode

        tools = toolkit.get_tools()
        model = another_model.bind_tools(tools)
        node = ToolNode(tools)
        ```

    Raises:
        pydantic.ValidationError: from the constructor: no key or no base URL, or a field that is
            unknown or cannot be used.
    """

    bots: tuple[Bot, ...] | None = None
    descriptions: dict[str, str] = Field(default_factory=dict)

    if TYPE_CHECKING:

        def __init__(self, **fields: Unpack[ToolkitFields]) -> None: ...

    @classmethod
    def from_client(cls, client: Client, **fields: Any) -> Self:
        """Return the toolkit of a client: `KnowledgeBotToolkit(client=client, **fields)`."""
        return cls(client=client, **fields)

    @override
    def get_tools(self) -> list[BaseTool]:
        """Return the tools in the order of the bots; lists these unless `bots` is given.

        Raises:
            ConfigurationError: a description is for a bot that does not exist.
            KnowledgeBotError: the bots could not be listed.
        """
        return self._tools(self._sync.list_bots() if self.bots is None else self.bots)

    def _tools(self, bots: Sequence[Bot]) -> list[BaseTool]:
        described = tool_descriptions(bots, self.descriptions)
        return [
            KnowledgeBotTool(
                bot_id=bot.id,
                name=name,
                description=description,
                conversation=self.conversation,
                heads=self.heads,
                client=self._sync,
                async_client=self.async_client,
            )
            for bot, name, description in zip(bots, tool_names(bots), described, strict=True)
        ]
