"""What both of OpenAI's APIs share: texts, conversations, events."""

import asyncio
import base64
import binascii
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from fastapi import Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, model_validator

from knowledge_bot import APIError, Bot, ConfigurationError, KnowledgeBotError
from knowledge_bot.adapters import plain
from knowledge_bot.conversations import ROLES, OnFork, Reply, Said, placeholder
from knowledge_bot_gateway._gate import bearer, caller_of
from knowledge_bot_gateway._problems import (
    ErrorEnvelope,
    Problem,
    invalid,
    no_such_model,
    problem_from,
    unsupported,
)
from knowledge_bot_gateway._service import Upstream

ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    400: {"model": ErrorEnvelope, "description": "The request cannot be met; nothing was sent"},
    401: {"model": ErrorEnvelope, "description": "The key is missing or wrong"},
    # With `default`, FastAPI does not document its 422, which never happens here.
    "default": {"model": ErrorEnvelope, "description": "Any other error"},
}


class BotRequest(BaseModel):
    """What both kinds of requests share; parameters without effect are accepted."""

    model_config = ConfigDict(strict=True, extra="allow", hide_input_in_errors=True)

    model: str = Field(description="A bot's id, as listed by GET /v1/models.")
    stream: bool | None = None
    metadata: dict[str, Any] | None = Field(
        None, description="`conversation_id` names a conversation to continue."
    )
    conversation: str | dict[str, Any] | None = Field(
        None, description="A conversation to continue: its id, or an object with its `id`."
    )

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, given: Any) -> Any:
        # What is echoed is made so before anything is sent: no answer is lost over it.
        return plain(given)

    @property
    def named(self) -> str | None:
        """The conversation that the request names.

        Raises:
            Problem: its name cannot be read.
        """
        named: Any = self.conversation
        if isinstance(named, dict):
            named = named.get("id")
            if not isinstance(named, str):
                raise invalid("conversation: expected an object with an id.", "conversation")
        if named is None and self.metadata is not None:
            named = self.metadata.get("conversation_id")
            if named is not None and not isinstance(named, str):
                raise invalid("metadata.conversation_id: expected a string.", "metadata")
        return None if named is None else str(named)

    def given(self, name: str, default: Any = None) -> Any:
        """Return a parameter that has no effect, or that no bot supports."""
        return (self.model_extra or {}).get(name, default)

    def refuse_others(self, allowed: Mapping[str, tuple[Any, ...]]) -> None:
        """Refuse parameters that bots do not support.

        `allowed` are, for each such parameter, the values that request nothing.

        Raises:
            Problem: there is another value.
        """
        for name, values in allowed.items():
            value = self.given(name)
            if value is not None and value not in values:
                raise unsupported(
                    name,
                    _WHY.get(name, "this value is not supported; a bot answers with one text"),
                    code="unsupported_value" if any(values) else "unsupported_parameter",
                )


_WHY: Final = {
    "tools": "a bot calls no tools",
    "tool_choice": "a bot calls no tools",
    "functions": "a bot calls no functions",
    "function_call": "a bot calls no functions",
}

NO_TOOLS: Final[Mapping[str, tuple[Any, ...]]] = {
    "tools": ([],),
    "tool_choice": ("none", "auto"),
}


_TEXTS: Final = ("input_text", "output_text", "text", "refusal")


def said_in(items: Sequence[Mapping[str, Any]], place: str) -> list[Said]:
    """Return what a list of messages says; its question, the user's last, has to be text.

    Raises:
        Problem: a message cannot be read, or the question contains something other than text.
    """
    asks = max((at for at, one in enumerate(items) if one.get("role") == "user"), default=-1)
    return [_said(item, f"{place}[{at}]", asks=at == asks) for at, item in enumerate(items)]


def _said(item: Mapping[str, Any], place: str, *, asks: bool) -> Said:
    if (kind := item.get("type", "message")) != "message":
        raise unsupported(f"{place}.type", f"{str(kind)[:40]!r} is not supported; give messages")
    if item.get("tool_calls") or item.get("function_call"):
        raise unsupported(f"{place}.tool_calls", "bots only read text")
    role, content, name = item.get("role"), item.get("content"), item.get("name")
    if not isinstance(role, str) or role not in ROLES:
        known = ", ".join(ROLES)
        raise invalid(f"{place}.role: expected one of {known}.", f"{place}.role", "invalid_value")
    if content is None and role == "assistant":
        content = ""
    text = _text_of(content, f"{place}.content", asks=asks)
    return Said(ROLES[role], text, name if isinstance(name, str) else None)


def _text_of(content: Any, place: str, *, asks: bool) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise invalid(f"{place}: expected a string or a list of parts.", place, "invalid_type")
    return "\n\n".join(
        _text_of_part(part, f"{place}[{index}]", asks=asks) for index, part in enumerate(content)
    )


def _text_of_part(part: Any, place: str, *, asks: bool) -> str:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str):
        raise invalid(f"{place}: expected an object with a type.", place, "invalid_type")
    if kind not in _TEXTS and not asks:
        return placeholder(kind, part.get("filename")).strip()
    if kind not in _TEXTS:
        raise unsupported(f"{place}.type", f"{kind[:40]!r} is not supported; bots only read text")
    text = part.get("refusal" if kind == "refusal" else "text")
    if not isinstance(text, str):
        raise invalid(f"{place}.text: expected a string.", f"{place}.text", "invalid_type")
    return text


async def ask(
    upstream: Upstream,
    request: Request,
    body: BotRequest,
    messages: Sequence[Said],
    *,
    named: str | None = None,
    on_fork: OnFork = "new",
    stop: Sequence[str] = (),
) -> Reply:
    """Ask the bot that a request names; the client is shown its answer up to a text of `stop`.

    Raises:
        ForkError: the list is a fork, and `on_fork` is "error"; nothing was sent.
        Problem: there is no such bot.
        KnowledgeBotError: the request failed; it says whether the service may have acted.
    """
    try:
        client = upstream.client(bearer(request.headers))
        how = upstream.conversations(caller_of(request.scope), on_fork, stop)
        return await how.aask(client, body.model, messages, conversation_id=named)
    except (APIError, ConfigurationError) as error:
        if await _is_about_a_missing_bot(upstream, request, body.model, error):
            raise no_such_model(body.model) from None
        raise


async def bots(upstream: Upstream, request: Request) -> list[Bot]:
    """Return the bots.

    Raises:
        KnowledgeBotError: they cannot be listed.
    """
    return await upstream.client(bearer(request.headers)).list_bots()


async def _is_about_a_missing_bot(
    upstream: Upstream, request: Request, model: str, error: KnowledgeBotError
) -> bool:
    """Return whether an error came because the bot does not exist; may list the bots."""
    if getattr(error, "argument", None) == "bot_id":
        return True
    if getattr(error, "status_code", None) not in (400, 404):
        return False
    try:
        return all(bot.id != model for bot in await bots(upstream, request))
    except KnowledgeBotError:
        return False


def encoded(*parts: str) -> str:
    """Encode texts without slashes as part of an id."""
    return base64.urlsafe_b64encode("/".join(parts).encode()).decode().rstrip("=")


def decoded(text: str) -> list[str]:
    """Return the texts that `encoded` was given; empty if this is not its result."""
    try:
        padded = text + "=" * (-len(text) % 4)
        return base64.b64decode(padded, altchars=b"-_", validate=True).decode().split("/")
    except (binascii.Error, ValueError):
        return []


Event: TypeAlias = tuple[str | None, Mapping[str, Any]]
"""A server-sent event: its name, if it has one, and its data."""


class Answered(Protocol):
    """An answer in a format of OpenAI's."""

    def whole(self) -> dict[str, Any]:
        """Return it as one object."""

    def events(self) -> Iterable[Event]:
        """Return it as a stream."""


async def respond(
    request: Request,
    body: BotRequest,
    asking: Coroutine[Any, Any, Answered],
    *,
    patience: float,
    failed: Callable[[Problem], Event],
    end: str = "",
) -> Response:
    """Return an answer, whole or as a stream.

    A stream begins before its answer is there if that takes long, and comments keep it open, so
    that no proxy takes it for idle. An error after its beginning is an event of it.

    Args:
        request: the request.
        body: what it holds.
        asking: gives the answer.
        patience: after how many seconds the stream begins.
        failed: returns the event of an error.
        end: what ends the stream.

    Raises:
        Exception: the request failed, and no stream had begun.
    """
    if not body.stream:
        return JSONResponse((await asking).whole())
    task = asyncio.create_task(asking)
    await asyncio.wait({task}, timeout=patience)
    if task.done():
        task.result()  # an error has its status still

    async def pieces() -> AsyncIterator[str]:
        while not task.done():
            yield ": the bot is at work\n"  # an empty line would be an event to some clients
            await asyncio.wait({task}, timeout=_BETWEEN_COMMENTS)
        try:
            yield event_text(task.result().events())
        except Exception as error:  # noqa: BLE001 - the stream has begun, whatever it is
            problem = problem_from(request, error)
            request.state.status = problem.status_code
            yield event_text([failed(problem)])
        yield end

    return StreamingResponse(pieces(), media_type=EVENTS, headers=UNBUFFERED)


EVENTS: Final = "text/event-stream"
UNBUFFERED: Final = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}

# Seconds. Proxies end a connection that is idle for 30 to 100.
_BETWEEN_COMMENTS: Final = 10.0


def event_text(events: Iterable[Event]) -> str:
    """Return server-sent events as a text."""
    return "".join(
        f"event: {name}\ndata: {_json(data)}\n\n" if name else f"data: {_json(data)}\n\n"
        for name, data in events
    )


def _json(data: Mapping[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))
