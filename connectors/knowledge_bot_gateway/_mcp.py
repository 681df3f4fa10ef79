"""Bots as an MCP server: tools to ask them, to list what there is, and to add sources if allowed.

One server object works over stdio and HTTP, for several clients at once. If callers use their own
keys, each message is handled with the key that came with it.
"""

import asyncio
import inspect
import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import replace
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

from anyio import create_memory_object_stream, create_task_group
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import (
    GET_STREAM_KEY,
    EventCallback,
    EventMessage,
    EventStore,
)
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    CallToolResult,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCResponse,
    ListToolsResult,
    TextContent,
    Tool,
    ToolAnnotations,
)
from pydantic import BaseModel, Field, ValidationError

from knowledge_bot import (
    AsyncClient,
    Bot,
    Collection,
    Conversation,
    KnowledgeBotError,
    Passage,
    __version__,
)
from knowledge_bot.adapters.retrieval import Answer
from knowledge_bot.adapters.tools import tool_names
from knowledge_bot.conversations import Said
from knowledge_bot_gateway._gate import bearer, caller_of
from knowledge_bot_gateway._memory import CallerMemory
from knowledge_bot_gateway._service import Upstream, told
from knowledge_bot_gateway._sources import citations

if TYPE_CHECKING:
    from starlette.requests import Request

_log = logging.getLogger("knowledge_bot.gateway")

# Agents choose badly from longer lists of tools.
_MOST_BOT_TOOLS: Final = 10

# How many conversations are listed at most; a model has no use for more.
_MOST_CONVERSATIONS: Final = 200

# Seconds for which the list of bots is cached, here and by clients, and of how many callers.
_FRESH: Final = 60.0
_FOR_A_MINUTE: Final = {"ttl_ms": int(_FRESH * 1000), "cache_scope": "private"}
_MOST_LISTS: Final = 1000

# How many messages of streams are kept, for clients whose connection broke.
_MOST_EVENTS: Final = 2000

_INSTRUCTIONS: Final = (
    "Bots of a knowledge base answer questions from their sources. Pass an answer's "
    "conversation_id to ask a follow-up question in the same conversation. An error says whether "
    "the service may have acted: its delivery is not_delivered or refused if it has not, and "
    "unknown if it may have. The same call may succeed later if may_pass is true. A question that "
    "was cancelled may have been asked."
)


def _hints(*, reads: bool, repeats: bool) -> ToolAnnotations:
    return ToolAnnotations(
        read_only_hint=reads, destructive_hint=False, idempotent_hint=repeats, open_world_hint=True
    )


_READING: Final = _hints(reads=True, repeats=True)
# A question adds a message to a conversation, but does not change what bots know.
_ASKING: Final = _hints(reads=True, repeats=False)
_WRITING: Final = _hints(reads=False, repeats=False)

_Question = Annotated[str, Field(description="The question, in whole sentences.")]
_ConversationId = Annotated[
    str | None,
    Field(description="The conversation_id of an earlier answer, to continue there."),
]


class SourceName(BaseModel):
    """A source that an answer names."""

    name: str
    id: str | None = None
    url: str | None = None


class BotAnswer(BaseModel):
    """A bot's answer."""

    answer: str = Field(description="The answer, as the bot gave it.")
    conversation_id: str = Field(description="Pass it to continue.")
    message_id: str
    found: bool = Field(description="Whether the bot found something in its sources.")
    sources: list[SourceName] = Field(description="The sources that the bot names.")


class Named(BaseModel):
    """Something with an id and a name."""

    id: str
    name: str


class BotList(BaseModel):
    """The bots."""

    bots: list[Named]


class CollectionList(BaseModel):
    """The collections."""

    collections: list[Named]


class ConversationList(BaseModel):
    """A bot's newest conversations."""

    conversations: list[Named]
    more: int = Field(description=f"How many of the newest {_MOST_CONVERSATIONS} are left out.")


class SearchResult(BaseModel):
    """A passage that was found, in the form that ChatGPT's connectors and deep research ask for."""

    id: str
    title: str = Field(description="The name of its source.")
    url: str


class SearchResults(BaseModel):
    """What was found, the best first."""

    results: list[SearchResult]


class FetchedPassage(BaseModel):
    """A passage, in the same form."""

    id: str
    title: str = Field(description="The name of its source.")
    text: str
    url: str
    metadata: dict[str, str] = Field(description="`source_id`, and the source's `revision`.")


class AddedSource(BaseModel):
    """A source that was created."""

    id: str
    name: str
    status: str = Field(description="`pending` until the service has read it.")
    collections: list[Named]


def create_mcp_server(upstream: Upstream, *, allow_writes: bool = False) -> MCPServer[None]:
    """Make an MCP server for a service.

    Args:
        upstream: the service.
        allow_writes: whether there are tools that create sources.

    Returns:
        The server; `run` serves it over stdio, `create_app` over HTTP.
    """
    callers = _Callers(upstream)
    server: MCPServer[None] = MCPServer(
        "knowledge-bot",
        title="Knowledge-Bot",
        instructions=_INSTRUCTIONS,
        version=__version__,
        log_level="WARNING",
        subscriptions=False,  # the service reports no changes (interface section 6)
        middleware=[callers],
    )
    callers.server = server
    _add_reading(server, upstream, callers)
    if allow_writes:
        _add_writing(server, callers)
    return server


def _tool(server: MCPServer[None], **options: Any) -> Callable[[Any], Any]:
    """Add a tool, described by its docstring without the indentation of the source."""

    def add(function: Any) -> Any:
        return server.tool(description=inspect.getdoc(function), **options)(function)

    return add


def _add_reading(server: MCPServer[None], upstream: Upstream, callers: "_Callers") -> None:
    @_tool(server, title="Ask a bot", annotations=_ASKING)
    async def ask_bot(
        bot: Annotated[str, Field(description="The bot's id, or its name.")],
        question: _Question,
        ctx: Context[Any, Any],
        conversation_id: _ConversationId = None,
    ) -> BotAnswer:
        """Ask a bot a question, which it answers from its sources.

        A call that was cancelled may have been asked.
        """
        if not question.strip():
            raise ToolError("question: is empty. Nothing was asked (delivery: not_delivered).")
        await ctx.report_progress(0, 1, "The question is on its way.")
        with _tool_errors():
            bot_id = await callers.bot_id(bot)
            said, how = [Said("user", question)], upstream.conversations(callers.caller)
            reply = await how.aask(callers.client, bot_id, said, conversation_id=conversation_id)
        await ctx.report_progress(1, 1, "The answer is here.")
        message = reply.message
        named = [
            SourceName(name=one.name, id=one.id or None, url=one.url) for one in citations(message)
        ]
        read = {**Answer.of(message).as_dict(bot_id), "sources": named}
        return BotAnswer(answer=message.answer, **read)

    @_tool(server, title="Search", annotations=_READING)
    async def search(query: _Question) -> SearchResults:
        """Find the passages that fit a question best; fetch gives their texts. No bot is asked."""
        with _tool_errors():
            found = await callers.client.search(query, limit=10)
        return SearchResults(
            results=[SearchResult(id=one.id, title=one.name, url=_url_of(one)) for one in found]
        )

    @_tool(server, title="Fetch", annotations=_READING)
    async def fetch(
        id: Annotated[str, Field(description="The id of a result of search.")],  # noqa: A002
    ) -> FetchedPassage:
        """Read a passage that search found."""
        with _tool_errors():
            found = await callers.client.get_passage(id)
        metadata = {"source_id": found.source_id, "revision": found.revision or ""}
        return FetchedPassage(
            id=found.id, title=found.name, text=found.text, url=_url_of(found), metadata=metadata
        )

    @_tool(server, title="List the bots", annotations=_READING)
    async def list_bots() -> BotList:
        """List the bots that can be asked."""
        with _tool_errors():
            return BotList(bots=_named(await callers.bots(fresh=True)))

    @_tool(server, title="List the collections", annotations=_READING)
    async def list_collections() -> CollectionList:
        """List the collections of sources."""
        with _tool_errors():
            return CollectionList(collections=_named(await callers.client.list_collections()))

    @_tool(server, title="List a bot's conversations", annotations=_READING)
    async def list_conversations(
        bot: Annotated[str, Field(description="The bot's id, or its name.")],
        limit: Annotated[
            int, Field(ge=1, le=_MOST_CONVERSATIONS, description="How many at most, newest first.")
        ] = 20,
    ) -> ConversationList:
        """List the conversations that a bot has had, the newest first."""
        with _tool_errors():
            bot_id = await callers.bot_id(bot)
            client = callers.client
            newest = (await client.list_conversations(bot_id))[: -_MOST_CONVERSATIONS - 1 : -1]
            found = await upstream.visible(client, newest, caller=callers.caller)
            shown = _named(found[:limit])
            return ConversationList(conversations=shown, more=len(found) - len(shown))


def _add_writing(server: MCPServer[None], callers: "_Callers") -> None:
    names = Annotated[str, Field(description="What the source is called.")]
    ids = Annotated[list[str], Field(min_length=1, description="Ids of collections, col_….")]

    async def add(method: str, **fields: Any) -> AddedSource:
        with _tool_errors():
            source = await getattr(callers.client, method)(**fields)
        kept = source.model_dump(include={"id", "name", "status"})
        return AddedSource(**kept, collections=_named(source.collections))

    @_tool(server, title="Add a web page", annotations=_WRITING)
    async def add_page(
        name: names,
        url: Annotated[str, Field(description="The address of the page.")],
        collections: ids,
    ) -> AddedSource:
        """Add a web page to what bots know. It cannot be removed with a tool.

        A call of unknown outcome may have created the source: look before you repeat it.
        """
        return await add("create_webpage_source", name=name, url=url, collections=collections)

    @_tool(server, title="Add a text", annotations=_WRITING)
    async def add_text(
        name: names,
        content: Annotated[str, Field(description="The text.")],
        collections: ids,
    ) -> AddedSource:
        """Add a text to what bots know. It cannot be removed with a tool.

        A call of unknown outcome may have created the source: look before you repeat it.
        """
        return await add("create_text_source", name=name, content=content, collections=collections)


class _Callers:
    """Middleware of the MCP server: whose each message is, and a tool for each bot.

    A bot's tool is `ask_bot` with the bot filled in. The tools depend on the key, so they are
    listed and called here, and the server does not know them.
    """

    server: MCPServer[None]

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._request: ContextVar[Request | None] = ContextVar("request", default=None)
        self._bots: CallerMemory[list[Bot]] = CallerMemory(_MOST_LISTS, _FRESH)

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Handle a message with the key that came with it."""
        token = self._request.set(ctx.request)
        try:
            if ctx.method == "prompts/get":  # or the library logs a traceback
                prompts = {prompt.name for prompt in await self.server.list_prompts()}
                if (ctx.params or {}).get("name") not in prompts:
                    raise MCPError(INVALID_PARAMS, "There is no such prompt here.")
            if ctx.method == "tools/list":
                listed = ListToolsResult(tools=await self._listed())
                return listed.model_copy(update=_FOR_A_MINUTE)
            if ctx.method == "tools/call":
                return await self._call(ctx, call_next)
            return await call_next(ctx)
        finally:
            self._request.reset(token)

    @property
    def client(self) -> AsyncClient:
        """The client for the present caller.

        Raises:
            ConfigurationError: the message has no key, and neither has the gateway.
        """
        request = self._request.get()
        return self._upstream.client(None if request is None else bearer(request.headers))

    @property
    def caller(self) -> str:
        """Whose the present message is; empty over stdio."""
        request = self._request.get()
        return "" if request is None else caller_of(request.scope)

    async def bots(self, *, fresh: bool = False) -> list[Bot]:
        """Return the bots, as they were a minute ago at most unless `fresh`.

        Raises:
            KnowledgeBotError: they cannot be listed.
        """
        found = None if fresh else self._bots.find(self.caller, "")
        if found is None:
            found = await self.client.list_bots()
            self._bots.keep(self.caller, "", found)
        return found

    async def bot_id(self, bot: str) -> str:
        """Return the id of the bot with an id or a name.

        Raises:
            KnowledgeBotError: the bots cannot be listed.
            ToolError: no bot, or more than one, has this name.
        """
        if bot.startswith("bot_"):
            return bot
        called = [one.id for one in await self.bots() if one.name.casefold() == bot.casefold()]
        if len(called) != 1:
            who = "Several bots are" if called else "No bot is"
            raise ToolError(
                f"{who} called {bot[:100]!r}; list_bots gives their ids. Nothing was asked "
                "(delivery: not_delivered)."
            )
        return called[0]

    async def _listed(self) -> list[Tool]:
        """Return the tools: without `passages` at the service, none that searches."""
        tools = await self.server.list_tools()
        try:
            searches = "passages" in await self.client.extensions()
        except KnowledgeBotError as error:
            _log.warning("It is not known whether the service can search: %s", error)
            searches = False
        offered = [tool for tool in tools if searches or tool.name not in _SEARCHING]
        try:
            return [*offered, *(tool for tool, _ in (await self._of_bots(tools)).values())]
        except KnowledgeBotError as error:
            _log.warning("The tools of single bots are left out now: %s", error)
            return offered

    async def _of_bots(self, tools: Sequence[Tool]) -> dict[str, tuple[Tool, Bot]]:
        """Return the tools of single bots, by their names; none if there are too many.

        Raises:
            KnowledgeBotError: the bots cannot be listed.
        """
        found = await self.bots()
        if len(found) > _MOST_BOT_TOOLS:
            return {}
        general = next(tool for tool in tools if tool.name == "ask_bot")
        described = self._upstream.description_of
        named = zip(tool_names(found), found, strict=True)
        return {name: (_tool_of(bot, name, general, described(bot)), bot) for name, bot in named}

    async def _call(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        params = ctx.params or {}
        name, arguments = str(params.get("name")), params.get("arguments") or {}
        try:
            tool, bot = await self._tool(name)
            if problem := _misfit(tool.input_schema, arguments):
                raise ToolError(f"{name}: {problem}. {_NOTHING_DONE}")
        except ToolError as error:
            text = TextContent(type="text", text=str(error))
            return CallToolResult(content=[text], is_error=True)
        if bot is not None:
            called = {"name": "ask_bot", "arguments": {**arguments, "bot": bot.id}}
            ctx = replace(ctx, params={**params, **called})
        return await call_next(ctx)

    async def _tool(self, name: str) -> tuple[Tool, Bot | None]:
        """Return the tool of a name, and the bot whose own it is.

        Raises:
            ToolError: there is none, or it is not known now.
        """
        tools = await self.server.list_tools()
        for tool in tools:
            if tool.name == name:
                return tool, None
        if name.startswith("ask_"):
            with _tool_errors():
                of_bots = await self._of_bots(tools)
            if name in of_bots:
                return of_bots[name]
        there = ", ".join(tool.name for tool in await self._listed())
        raise ToolError(f"{name[:100]}: there is no such tool; there are {there}. {_NOTHING_DONE}")


def _url_of(passage: Passage) -> str:
    # The form has an address of each; what is no web page has none but this.
    return passage.url or f"knowledge-bot://passages/{passage.id}"


def _misfit(schema: Mapping[str, Any], arguments: Any) -> str:
    """Return why arguments do not fit a tool; empty if they do.

    The library ignores unknown arguments, such as a misspelt conversation_id, and speaks of its own
    insides where another one does not fit.
    """
    strict = Draft202012Validator({**schema, "additionalProperties": False})
    error = best_match(strict.iter_errors(arguments))
    if error is None:
        return ""
    place = "".join(f"{step}: " for step in error.path)
    takes = ", ".join(schema.get("properties", {})) or "none"
    return f"{place}{error.message[:_MOST_SAID]}; it takes the arguments {takes}"


# Characters of what does not fit, which holds the value.
_MOST_SAID: Final = 500

_SEARCHING: Final = ("search", "fetch")
_NOTHING_DONE: Final = "Nothing was done (delivery: not_delivered)."


def _tool_of(bot: Bot, name: str, general: Tool, described: str | None) -> Tool:
    schema = deepcopy(general.input_schema)
    del schema["properties"]["bot"]
    schema["required"].remove("bot")
    about = f"{described.rstrip('.')}. " if described else ""
    return general.model_copy(
        update={
            "name": name,
            "title": f"Ask {bot.name}",
            "description": f"{about}Ask the bot {bot.name!r} a question, which it answers from its "
            "sources. A call that was cancelled may have been asked.",
            "input_schema": schema,
        }
    )


def sessions_of(server: MCPServer[None], most_bytes: int) -> StreamableHTTPSessionManager:
    """Return what serves an MCP server over HTTP: sessions of those who began them.

    Args:
        server: the server.
        most_bytes: the largest body of a request.
    """
    lowlevel = server._lowlevel_server  # noqa: SLF001 - its own way takes one store for all sessions
    return _Sessions(app=lowlevel, max_request_body_size=most_bytes)


async def run_over_stdio(server: MCPServer[None]) -> None:
    """Serve one client over stdin and stdout; each line that cannot be read is answered."""
    lowlevel = server._lowlevel_server  # noqa: SLF001 - its own way says nothing of such lines
    options = lowlevel.create_initialization_options()
    readable, reading = create_memory_object_stream[SessionMessage | Exception](0)

    async def read() -> None:
        async with readable:
            async for line in lines:
                if not isinstance(line, ValidationError):
                    await readable.send(line)
                elif (answer := _unreadable(line.errors()[0])) is not None:
                    await answers.send(SessionMessage(answer))

    async with stdio_server() as (lines, answers), create_task_group() as tasks:
        tasks.start_soon(read)
        await lowlevel.run(reading, answers, options)


def _unreadable(why: Mapping[str, Any]) -> JSONRPCError | None:
    """Return the answer to a line that is no message; None to an empty one."""
    given = why["input"]
    is_json = why["type"] != "json_invalid"
    if isinstance(given, str) and not is_json:
        if not given.strip():
            return None
        with suppress(ValueError, RecursionError):
            given = json.loads(given.lstrip("\ufeff"))
    identity = given.get("id") if isinstance(given, dict) else None
    code, what = (INVALID_REQUEST, "a message") if is_json else (PARSE_ERROR, "JSON in UTF-8")
    error = ErrorData(code=code, message=f"The line is not {what}. Nothing was done.")
    known = identity if type(identity) in (int, str) else None
    return JSONRPCError(jsonrpc="2.0", id=known, error=error)


class _Event(NamedTuple):
    """A message of a stream; its number counts those of its session."""

    message: JSONRPCMessage | None
    stream: str
    number: int
    of: "_Events"


class _Sessions(StreamableHTTPSessionManager):
    """The sessions, each of which is given events of its own when it begins."""

    @property
    def event_store(self) -> EventStore | None:
        """The events of a session that begins."""
        return _Events(self._kept)

    @event_store.setter
    def event_store(self, _: EventStore | None) -> None:
        self._kept: OrderedDict[str, _Event] = OrderedDict()


class _Events(EventStore):
    """The messages of a session's streams, to be fetched after its connection broke.

    Of all sessions the newest are kept.
    """

    def __init__(self, kept: OrderedDict[str, _Event]) -> None:
        self._kept, self._stored = kept, 0
        self._more = asyncio.Event()

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Keep a message, and return its id."""
        self._stored += 1
        self._kept[identity := token_urlsafe(12)] = _Event(message, stream_id, self._stored, self)
        if len(self._kept) > _MOST_EVENTS:
            self._kept.popitem(last=False)
        self._more.set()
        self._more = asyncio.Event()
        return identity

    async def replay_events_after(
        self, last_event_id: str, send_callback: EventCallback
    ) -> str | None:
        """Send what comes after a message of the same stream, up to the response that ends it.

        Returns:
            The stream, if it has no end; its further messages are the caller's to send.
        """
        last = self._kept.get(last_event_id)
        if last is None or last.of is not self:
            return None
        seen = last.number
        while True:
            more, kept = self._more, self._kept.items()
            later = [one for one in kept if one[1].of is self and one[1].number > seen]
            if len(later) < self._stored - seen:  # what came next is kept no more
                return None
            seen = self._stored
            for identity, (message, stream, *_) in later:
                if stream == last.stream and message is not None:
                    await send_callback(EventMessage(message, identity))
                    if isinstance(message, JSONRPCResponse | JSONRPCError):
                        return None
            if last.stream == GET_STREAM_KEY:
                return last.stream
            await more.wait()


# Codes of what is not there, and the tools that tell what is.
_LISTED: Final = {
    "unknown_bot": "`list_bots` lists them",
    "unknown_collection": "`list_collections` lists them",
    "unknown_conversation": "`list_conversations` lists them",
    "unknown_passage": "`search` finds them",
}


@contextmanager
def _tool_errors() -> Iterator[None]:
    """Turn the core's errors into tool errors that say whether the service may have acted."""
    try:
        yield
    except KnowledgeBotError as error:
        text, passing = told(error), str(error.may_pass).lower()
        if listed := _LISTED.get(getattr(error, "code", None) or ""):
            text += f" {listed}"
        raise ToolError(f"{text} (delivery: {error.delivery}; may_pass: {passing})") from None
    except BaseException as cancelled:
        # A cancelled request gets no answer. The client's note says what was in flight.
        for note in getattr(cancelled, "__notes__", []):
            _log.warning("Cancelled: %s", note)
        raise


def _named(found: Sequence[Bot | Collection | Conversation]) -> list[Named]:
    return [Named(id=one.id, name=one.name) for one in found]
