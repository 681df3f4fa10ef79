"""`/v1/chat/completions`: the whole list of messages each time, and its answer.

Nothing links two requests, so the conversation is recognised by the list itself: its newest answer,
and everything before it. After an edit or a regeneration, the chat continues in a new conversation.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from knowledge_bot import Message
from knowledge_bot.conversations import Said
from knowledge_bot_gateway._chores import chore_reply
from knowledge_bot_gateway._messages import (
    ERRORS,
    NO_TOOLS,
    BotRequest,
    ask,
    encoded,
    respond,
    said_in,
)
from knowledge_bot_gateway._problems import invalid
from knowledge_bot_gateway._service import Upstream
from knowledge_bot_gateway._sources import citations

# Unknown token counts are not invented, but some clients require the object.
NO_TOKENS: Final = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}

_REFUSED: Final[Mapping[str, tuple[Any, ...]]] = {
    **NO_TOOLS,
    "functions": ([],),
    "function_call": ("none", "auto"),
    "n": (1,),
    "logprobs": (False,),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
    "web_search_options": (),
}

_MOST_STOPS: Final = 4


class _StreamOptions(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", hide_input_in_errors=True)

    include_usage: bool | None = None


class ChatCompletionRequest(BotRequest):
    """A list of messages for a bot."""

    messages: list[dict[str, Any]] = Field(min_length=1)
    stream_options: _StreamOptions | None = None
    stop: str | list[str] | None = Field(None, description="Texts before which the answer is cut.")


def router(upstream: Upstream) -> APIRouter:
    """Return the endpoint for a service."""
    routes = APIRouter()

    @routes.post("/v1/chat/completions", responses=ERRORS)
    async def create_chat_completion(body: ChatCompletionRequest, request: Request) -> Response:
        """Ask a bot with a list of messages.

        `temperature`, `max_tokens` and other settings of language models have no effect. `usage` is
        always zero, since the service counts no tokens.
        """
        body.refuse_others(_REFUSED)
        asking = _asking(upstream, request, body)
        return await respond(
            request,
            body,
            asking,
            patience=upstream.patience,
            failed=lambda problem: (None, {"error": problem.body.model_dump(mode="json")}),
            end="data: [DONE]\n\n",
        )

    return routes


async def _asking(
    upstream: Upstream, request: Request, body: ChatCompletionRequest
) -> "_Completion":
    if (reply := chore_reply(body.messages)) is not None:
        return _Completion(body, _of_nobody(reply), reply)
    stop = _stop(body)
    messages, named = said_in(body.messages, "messages"), body.named
    if named is not None:
        # A caller who names the conversation states that it has the earlier messages.
        messages = _since_the_last_answer(messages)
    answered = await ask(upstream, request, body, messages, named=named, stop=stop)
    return _Completion(body, answered.message, answered.text)


def _of_nobody(answer: str) -> Message:
    """An answer that no bot gave: it has no conversation."""
    now = int(time.time() * 1000)
    return Message(id=f"msg_{now}", answer=answer, conversation_id="", created_at=now)


def _since_the_last_answer(messages: list[Said]) -> list[Said]:
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].role == "assistant":
            return messages[at + 1 :]
    return messages


def _stop(body: ChatCompletionRequest) -> list[str]:
    stop = [body.stop] if isinstance(body.stop, str) else body.stop or []
    if len(stop) > _MOST_STOPS or not all(stop):
        raise invalid(f"stop: expected up to {_MOST_STOPS} texts that are not empty.", "stop")
    return stop


@dataclass(frozen=True, slots=True)
class _Completion:
    """A request and its answer, in this format; `text` is what of the answer is told."""

    body: ChatCompletionRequest
    message: Message
    text: str

    def whole(self) -> dict[str, Any]:
        """Return it as one object."""
        told = {"refusal": None, **self._said()}
        choice = {"index": 0, "message": told, "logprobs": None, "finish_reason": "stop"}
        return {**self._envelope("chat.completion"), "choices": [choice], "usage": NO_TOKENS}

    def events(self) -> Iterator[tuple[None, dict[str, Any]]]:
        """Return the chunks of a stream."""
        options = self.body.stream_options
        wants_usage = options is not None and options.include_usage
        envelope = self._envelope("chat.completion.chunk")
        usage = {"usage": None} if wants_usage else {}
        delta = self._said()
        begun = {"role": delta.pop("role"), "content": "", "refusal": None}
        for part, finish in ((begun, None), (delta, None), ({}, "stop")):
            choice = {"index": 0, "delta": part, "logprobs": None, "finish_reason": finish}
            yield None, {**envelope, "choices": [choice], **usage}
        if wants_usage:
            yield None, {**envelope, "choices": [], "usage": NO_TOKENS}

    def _envelope(self, kind: str) -> dict[str, Any]:
        message = self.message
        return {
            "id": f"chatcmpl-{encoded(message.conversation_id, message.id)}",
            "object": kind,
            "created": int(message.created_at.timestamp() if message.created_at else time.time()),
            "model": self.body.model,
            "conversation": {"id": message.conversation_id or None},
        }

    def _said(self) -> dict[str, Any]:
        named = citations(self.message)
        # This format only cites addresses; our own field has every source.
        return {
            "role": "assistant",
            "content": self.text,
            "annotations": [
                {
                    "type": "url_citation",
                    "url_citation": {
                        "url": one.url,
                        "title": one.name,
                        "start_index": min(one.start, len(self.text)),
                        "end_index": min(one.end, len(self.text)),
                    },
                }
                for one in named
                if one.url is not None
            ],
            "sources": [{"id": one.id or None, "name": one.name, "url": one.url} for one in named],
        }
