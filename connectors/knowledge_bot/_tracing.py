"""OpenTelemetry spans, where its API is installed (extra `otel`); nothing at all where it is not.

There is one span for a call with all its tries, for an ingestion, and for a check. Names are those
of OpenTelemetry's conventions for generative AI (`gen_ai.*`), HTTP and errors; what is this
project's own begins with `knowledge_bot.`. Questions and answers are recorded only if the user opts
in, with `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true`.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from knowledge_bot._answers import Answer
from knowledge_bot._endpoints import Request
from knowledge_bot.errors import APIError, KnowledgeBotError

# Somebody wants OpenTelemetry loaded by the first who asks for it.
IS_WANTED = "OTEL_PYTHON_TRACER_PROVIDER" in os.environ

_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


def active_tracing(base_url: str) -> "Tracing | None":
    """Return the tracing of what goes to a service, if spans are collected at present."""
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    silent = trace.ProxyTracerProvider, trace.NoOpTracerProvider
    return None if isinstance(trace.get_tracer_provider(), silent) else Tracing(trace, base_url)


class Tracing:
    """Makes the spans of what goes to one service."""

    def __init__(self, trace: Any, base_url: str) -> None:
        from knowledge_bot import __version__

        self._trace = trace
        self._tracer = trace.get_tracer("knowledge_bot", __version__)
        parts = urlsplit(base_url)
        self._server: dict[str, Any] = {
            "server.address": parts.hostname,
            "server.port": parts.port or {"http": 80}.get(parts.scheme, 443),
        }

    @contextmanager
    def call(self, request: Request[Any]) -> Iterator["CallSpan"]:
        """Record a call; its span is the current one while it lasts."""
        attributes = {**self._server, "http.request.method": request.method}
        name, asked = str(request), {}
        if request.path == "/messages" and request.body is not None:
            import json

            asked = json.loads(request.body)["value"]
            name = f"invoke_agent {asked['bot_id']}"
            attributes["gen_ai.operation.name"] = "invoke_agent"
            attributes["gen_ai.provider.name"] = "knowledge_bot"
            attributes["gen_ai.agent.id"] = asked["bot_id"]
        kind = self._trace.SpanKind.CLIENT
        with self._span(name, kind=kind, attributes=attributes) as span:
            yield CallSpan(span, asked)

    @contextmanager
    def run(self, name: str) -> Iterator[Callable[[Mapping[str, int]], None]]:
        """Record an ingestion (`ingest`) or a check (`check`); yields a function for its counts."""
        attributes = {**self._server, "gen_ai.provider.name": "knowledge_bot"}
        with self._span(name, attributes=attributes) as span:

            def counted(counts: Mapping[str, int]) -> None:
                for kind, count in counts.items():
                    span.set_attribute(f"knowledge_bot.{name}.{kind}", count)

            yield counted

    @contextmanager
    def _span(self, name: str, **options: Any) -> Iterator[Any]:
        with self._tracer.start_as_current_span(
            name, record_exception=False, set_status_on_exception=False, **options
        ) as span:
            try:
                yield span
            except BaseException as error:
                self._fail(span, error)
                raise

    def _fail(self, span: Any, error: BaseException) -> None:
        # The status, not the class, is what the conventions name an HTTP error by.
        kind = str(error.status_code) if isinstance(error, APIError) else type(error).__qualname__
        span.set_attribute("error.type", kind)
        delivery = getattr(error, "delivery", None)
        if delivery is not None:
            span.set_attribute("knowledge_bot.delivery", str(delivery))
        # Our own errors hold no key; of others only the class is recorded.
        reason = str(error) if isinstance(error, KnowledgeBotError) else type(error).__qualname__
        span.set_status(self._trace.StatusCode.ERROR, reason)


class CallSpan:
    """The span of one call."""

    def __init__(self, span: Any, asked: dict[str, Any]) -> None:
        self._span, self._asked = span, asked
        self._resends = 0

    def record_retry(self, seconds: float) -> None:
        """Record that the request is sent again, after so many seconds."""
        self._resends += 1
        self._span.set_attribute("http.request.resend_count", self._resends)
        self._span.add_event("retry", {"knowledge_bot.wait_seconds": seconds})

    def record_result(self, result: Any) -> None:
        """Record the answer to a message."""
        if not self._asked:
            return
        import json

        self._span.set_attribute("gen_ai.response.id", result.id)
        self._span.set_attribute("gen_ai.conversation.id", result.conversation_id)
        answer = Answer.of(result)
        self._span.set_attribute("knowledge_bot.found", not answer.refuses)
        self._span.set_attribute("knowledge_bot.sources", answer.source_names)
        if os.environ.get(_CAPTURE, "").strip().lower() == "true":
            for name, role, text in (
                ("gen_ai.input.messages", "user", self._asked["content"]),
                ("gen_ai.output.messages", "assistant", result.answer),
            ):
                message = {"role": role, "parts": [{"type": "text", "content": text}]}
                self._span.set_attribute(name, json.dumps([message], ensure_ascii=False))
