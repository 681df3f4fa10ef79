"""`/v1/responses`: an input, and optionally the response before it.

The id of a response contains its conversation and message, so `previous_response_id` needs no
storage. It also contains a digest of the instructions, which are sent once per conversation, and
one that only the key that asked can make, so that it is nobody else's to continue. The newest
responses are kept for a while, to be fetched after a lost connection, and to be continued twice:
the service cannot go back, so the second time the turns are sent to a new conversation.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field

from knowledge_bot import Message
from knowledge_bot.conversations import ForkError, OnFork, Place, Said
from knowledge_bot_gateway._gate import caller_of
from knowledge_bot_gateway._memory import CallerMemory
from knowledge_bot_gateway._messages import (
    ERRORS,
    EVENTS,
    NO_TOOLS,
    UNBUFFERED,
    BotRequest,
    ask,
    decoded,
    encoded,
    event_text,
    respond,
    said_in,
)
from knowledge_bot_gateway._problems import Problem, invalid, unsupported
from knowledge_bot_gateway._service import Upstream
from knowledge_bot_gateway._sources import Citation, citations

_PREFIX: Final = "resp_"

# How many responses are kept in memory, and the most characters of the turns before one; a longer
# list is not sent as a whole anyway.
_MOST_KEPT: Final = 500
_MOST_CHARACTERS: Final = 200_000

_REFUSED: Final[Mapping[str, tuple[Any, ...]]] = {
    **NO_TOOLS,
    "background": (False,),
    "prompt": (),
    "top_logprobs": (0,),
    "max_tool_calls": (),
}


class ResponseRequest(BotRequest):
    """An input for a bot."""

    input: str | list[dict[str, Any]]
    instructions: str | None = None
    previous_response_id: str | None = None
    text: dict[str, Any] | None = None
    store: bool | None = Field(None, description="False: the response cannot be fetched.")


def router(upstream: Upstream) -> APIRouter:
    """Return the endpoints for a service."""
    routes = APIRouter()
    kept: CallerMemory[_Answered] = CallerMemory(_MOST_KEPT, math.inf)

    async def asking(body: ResponseRequest, request: Request) -> _Answered:
        began, whose = int(time.time()), caller_of(request.scope)
        named, previous, before = body.named, _previous(body, whose), None
        if previous is not None:
            before = kept.find(whose, body.previous_response_id)
        messages = _messages(body, previous)
        turns = _turns(messages, before, is_first=previous is None and named is None)
        try:
            on_fork: OnFork = "new" if previous is None else "error"
            reply = await ask(upstream, request, body, messages, named=named, on_fork=on_fork)
        except ForkError:
            if turns is None:
                raise _not_found(
                    "previous_response_id: its conversation has continued since, or is not known "
                    "here, and the service cannot go back. Send all messages as input, without it."
                ) from None
            reply = await ask(upstream, request, body, turns)
        turns = turns and [*turns, Said("assistant", reply.message.answer)]
        answered = _Answered(body, reply.message, began, int(time.time()), whose, turns)
        characters = sum(len(one.text) for one in turns or messages)
        if body.store is not False and characters <= _MOST_CHARACTERS:
            kept.keep(whose, answered.id, answered)
        return answered

    @routes.post("/v1/responses", responses=ERRORS)
    async def create_response(body: ResponseRequest, request: Request) -> Response:
        """Ask a bot, after a previous response or in a new conversation.

        `temperature`, `max_output_tokens` and other settings of language models have no effect.
        `usage` is always zero, since the service counts no tokens.
        """
        body.refuse_others(_REFUSED)
        _refuse_formats(body)
        answer = asking(body, request)
        return await respond(request, body, answer, patience=upstream.patience, failed=_failed)

    # With the prefix, so that a POST to other paths below is told that there is nothing.
    @routes.get("/v1/responses/resp_{id}", responses=ERRORS)
    async def get_response(
        id: str,  # noqa: A002 - OpenAI's name for the parameter
        request: Request,
        stream: bool = False,
        starting_after: int = -1,
    ) -> Response:
        """Fetch a response again, as after a lost connection; the newest ones are kept.

        With `stream`, its events come again, those after the number `starting_after`.
        """
        found = kept.find(caller_of(request.scope), f"{_PREFIX}{id}")
        if found is None:
            raise Problem(
                404,
                "This response is not kept here: too many came since, it is too long with what was "
                "said before, the gateway was started again, or it was asked for with store=false.",
                code="response_not_found",
            )
        if not stream:
            return JSONResponse(found.whole())
        later = (each for each in found.events() if each[1]["sequence_number"] > starting_after)
        return Response(event_text(later), media_type=EVENTS, headers=UNBUFFERED)

    return routes


def _failed(problem: Problem) -> tuple[str, dict[str, Any]]:
    told = problem.body.model_dump(mode="json")
    return "error", {**told, "type": "error", "sequence_number": 0, "error": told}


class _Previous(NamedTuple):
    """The content of a response's id."""

    conversation_id: str
    message_id: str
    instructions: str

    def id(self, whose: str) -> str:
        """Return the id, which nobody but its caller can continue or guess."""
        signed = blake2b("/".join(self).encode(), key=whose.encode(), digest_size=12)
        return f"{_PREFIX}{encoded(*self, signed.hexdigest())}"


def _previous(body: ResponseRequest, whose: str) -> _Previous | None:
    if body.previous_response_id is None:
        return None
    if body.named is not None:
        raise invalid(
            "previous_response_id and conversation exclude each other. Nothing was sent.",
            "previous_response_id",
        )
    *parts, _ = decoded(body.previous_response_id.removeprefix(_PREFIX)) or [""]
    previous = _Previous(*parts) if len(parts) == 3 and all(parts[:2]) else None
    if previous is None or previous.id(whose) != body.previous_response_id:
        raise _not_found("previous_response_id: this is not the id of a response to this key.")
    return previous


def _not_found(message: str) -> Problem:
    # Clients that know this code then send the whole list.
    return Problem(
        404,
        f"{message} Nothing was sent.",
        param="previous_response_id",
        code="previous_response_not_found",
    )


def _refuse_formats(body: ResponseRequest) -> None:
    format_ = (body.text or {}).get("format")
    if format_ is not None and format_ != {"type": "text"}:
        raise unsupported("text.format", "a bot answers with plain text")


def _messages(body: ResponseRequest, previous: _Previous | None) -> list[Said]:
    """Return the messages, after the answer that they follow."""
    instructions = [Said("system", body.instructions)] if body.instructions else []
    given = (
        [Said("user", body.input)] if isinstance(body.input, str) else said_in(body.input, "input")
    )
    if previous is None:
        return [*instructions, *given]
    answer = Said("assistant", "", place=Place(previous.conversation_id, previous.message_id))
    if _digest(body) == previous.instructions:
        return [answer, *given]
    return [answer, *instructions, *given]


def _turns(
    messages: Sequence[Said], before: "_Answered | None", *, is_first: bool
) -> Sequence[Said] | None:
    """Return all turns up to a question; None where those before it are not known here."""
    if before is not None:
        return before.turns and [*before.turns, *messages[1:]]
    return messages if is_first else None


def _digest(body: ResponseRequest) -> str:
    return Said("system", body.instructions).digest if body.instructions else ""


@dataclass(frozen=True, slots=True)
class _Answered:
    """A request and its answer, in this format.

    Attributes:
        body: the request.
        message: the answer.
        began: when the request came, in Unix seconds.
        ended: when the answer was there.
        whose: whose it is.
        turns: all turns up to it; None where those before it are not known here.
    """

    body: ResponseRequest
    message: Message
    began: int
    ended: int
    whose: str
    turns: Sequence[Said] | None

    @property
    def id(self) -> str:
        """The response's id."""
        message = self.message
        parts = _Previous(message.conversation_id, message.id, _digest(self.body))
        return parts.id(self.whose)

    def whole(self, status: str = "completed") -> dict[str, Any]:
        """Return the response object with a status."""
        body, message, done = self.body, self.message, status == "completed"
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.began,
            "completed_at": self.ended if done else None,
            "status": status,
            "background": False,
            "conversation": {"id": message.conversation_id},
            "error": None,
            "incomplete_details": None,
            "instructions": body.instructions,
            "max_output_tokens": body.given("max_output_tokens"),
            "max_tool_calls": None,
            "metadata": body.metadata or {},
            "model": body.model,
            "output": [self._item("completed")] if done else [],
            "parallel_tool_calls": False,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "previous_response_id": body.previous_response_id,
            "prompt_cache_key": body.given("prompt_cache_key"),
            "reasoning": {"effort": None, "summary": None},
            "safety_identifier": body.given("safety_identifier"),
            "service_tier": "default",
            "store": body.store is not False,
            "temperature": body.given("temperature", 1.0),
            "text": {"format": {"type": "text"}},
            "tool_choice": "none",
            "tools": [],
            "top_logprobs": 0,
            "top_p": body.given("top_p", 1.0),
            "truncation": "disabled",
            "usage": _NO_TOKENS if done else None,
            "user": body.given("user"),
        }

    def events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Return the events of a stream."""
        for number, (kind, data) in enumerate(self._unnumbered_events()):
            yield kind, {"type": kind, "sequence_number": number, **data}

    def _unnumbered_events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        item = {"item_id": self.message.id, "output_index": 0, "content_index": 0}
        part, text = self._part(), self.message.answer
        empty = {**part, "text": "", "annotations": []}
        yield "response.created", {"response": self.whole("in_progress")}
        yield "response.in_progress", {"response": self.whole("in_progress")}
        begun = {**self._item("in_progress"), "content": []}
        yield "response.output_item.added", {"output_index": 0, "item": begun}
        yield "response.content_part.added", {**item, "part": empty}
        yield "response.output_text.delta", {**item, "delta": text, "logprobs": []}
        for index, annotation in enumerate(part["annotations"]):
            added = {**item, "annotation_index": index, "annotation": annotation}
            yield "response.output_text.annotation.added", added
        yield "response.output_text.done", {**item, "text": text, "logprobs": []}
        yield "response.content_part.done", {**item, "part": part}
        yield "response.output_item.done", {"output_index": 0, "item": self._item("completed")}
        yield "response.completed", {"response": self.whole()}

    def _item(self, status: str) -> dict[str, Any]:
        return {
            "id": self.message.id,
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": [self._part()],
        }

    def _part(self) -> dict[str, Any]:
        return {
            "type": "output_text",
            "text": self.message.answer,
            "annotations": [_annotation(one) for one in citations(self.message)],
            "logprobs": [],
        }


# Token counts are never invented, as in a chat completion.
_NO_TOKENS: Final = {
    "input_tokens": 0,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 0,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 0,
}


def _annotation(cited: Citation) -> dict[str, Any]:
    if cited.url is None:
        return {
            "type": "file_citation",
            "file_id": cited.id,
            "filename": cited.name,
            "index": cited.start,
        }
    return {
        "type": "url_citation",
        "url": cited.url,
        "title": cited.name,
        "start_index": cited.start,
        "end_index": cited.end,
    }
