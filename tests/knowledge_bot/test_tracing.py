"""The spans that a collector sees, and that nobody pays for where nobody collects."""

import asyncio
import json
import subprocess
import sys

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.attributes import error_attributes, http_attributes, server_attributes

from calls import KEY
from knowledge_bot import AsyncClient, Client, KnowledgeBotError
from knowledge_bot.checks import Question, acheck, check
from knowledge_bot.ingest import Text, aingest, ingest
from knowledge_bot.testing import MemoryService, no_waiting

URL = "https://service.test"


@pytest.fixture
def spans(monkeypatch):
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # A process has one provider for good; each test has its own.
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield exporter.get_finished_spans
    provider.shutdown()


@pytest.fixture
def service():
    with no_waiting():
        yield MemoryService(bots={"bot_1": {"When?": "At nine."}})


@pytest.fixture
def call(call, service):
    return lambda use, **options: call(use, service, **options)


def ask(client):
    return client.send_message(bot_id="bot_1", content="When?")


def test_a_question_is_one_span_over_all_its_tries(call, service, spans):
    service.fail_next(429, retry_after=3)
    service.refuse_next_connection()
    message = call(ask)
    (span,) = spans()
    assert (span.name, span.kind) == ("invoke_agent bot_1", trace.SpanKind.CLIENT)
    assert dict(span.attributes) == {
        "server.address": "service.test",
        "server.port": 443,
        "http.request.method": "POST",
        "http.request.resend_count": 2,
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "knowledge_bot",
        "gen_ai.agent.id": "bot_1",
        "gen_ai.conversation.id": message.conversation_id,
        "gen_ai.response.id": message.id,
        "knowledge_bot.found": True,
        "knowledge_bot.sources": (),
    }
    assert [event.name for event in span.events] == ["retry", "retry"]
    assert span.status.is_unset


@pytest.mark.skipif(
    not hasattr(gen_ai_attributes, "GEN_AI_PROVIDER_NAME"),
    reason="the installed conventions are older than these names",
)
def test_the_attributes_are_those_of_the_conventions(call, service, spans):
    service.lose_next_answer()
    with pytest.raises(KnowledgeBotError):
        call(ask)
    call(ask)
    known = {
        value
        for module in (gen_ai_attributes, error_attributes, http_attributes, server_attributes)
        for value in vars(module).values()
        if isinstance(value, str)
    } | {"http.request.resend_count"}
    used = {name for span in spans() for name in span.attributes}
    assert {name for name in used if not name.startswith("knowledge_bot.")} <= known


def test_a_failure_says_what_it_was_and_whether_the_service_may_have_acted(call, service, spans):
    service.lose_next_answer()
    service.fail_next(402)
    for _ in range(2):
        with pytest.raises(KnowledgeBotError):
            call(ask)
    lost, refused = spans()
    assert lost.attributes["error.type"] == "ConnectionLostError"
    assert lost.attributes["knowledge_bot.delivery"] == "unknown"
    assert refused.attributes["error.type"] == "402"
    assert refused.attributes["knowledge_bot.delivery"] == "refused"
    assert not lost.status.is_ok


def test_no_span_holds_a_body_or_the_key_unless_the_user_opts_in(call, spans, monkeypatch):
    call(ask)
    call(lambda c: c.create_text_source(name="n", collections="col_default", content="Secret."))
    shown = "".join(span.to_json() for span in spans())
    assert "When?" not in shown
    assert "At nine." not in shown
    assert "Secret." not in shown
    assert KEY not in shown
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    call(ask)
    asked = json.loads(spans()[-1].attributes["gen_ai.input.messages"])
    answered = json.loads(spans()[-1].attributes["gen_ai.output.messages"])
    assert asked == [{"role": "user", "parts": [{"type": "text", "content": "When?"}]}]
    assert answered[0]["parts"] == [{"type": "text", "content": "At nine."}]
    assert KEY not in spans()[-1].to_json()


def test_a_call_belongs_to_the_span_around_it(call, spans):
    with trace.get_tracer("the user").start_as_current_span("night") as night:
        call(lambda client: client.list_bots())
    listing = spans()[0]
    assert listing.name == "GET /bots"
    assert listing.parent.span_id == night.get_span_context().span_id


def test_an_ingestion_is_one_span_with_its_counts_and_its_calls_in_it(service, spans, tmp_path):
    items = [Text(name=f"t{n}", content="c") for n in range(3)]
    service.fail_next(400)
    client = Client(KEY, URL, transport=service.transport)
    ingest(client, items, collections="col_default", ledger=tmp_path / "a")

    async def main():
        aclient = AsyncClient(KEY, URL, transport=service.async_transport)
        await aingest(aclient, items, collections="col_default", ledger=tmp_path / "b")

    asyncio.run(main())
    first, second = (span for span in spans() if span.name == "ingest")
    assert first.attributes["knowledge_bot.ingest.created"] == 2
    assert first.attributes["knowledge_bot.ingest.refused"] == 1
    assert second.attributes["knowledge_bot.ingest.created"] == 3
    for run in (first, second):
        inside = [
            span for span in spans() if span.parent and span.parent.span_id == run.context.span_id
        ]
        assert [span.name for span in inside] == ["GET /ping", *["POST /sources/write"] * 3]


def test_a_check_is_one_span_with_its_counts_and_its_messages_in_it(service, spans):
    questions = [Question(ask=ask, contains="nine") for ask in ("When?", "Who?", "Why?")]
    check(Client(KEY, URL, transport=service.transport), "bot_1", questions)

    async def main():
        aclient = AsyncClient(KEY, URL, transport=service.async_transport)
        await acheck(aclient, "bot_1", questions)

    asyncio.run(main())
    for run in (one for one in spans() if one.name == "check"):
        counts = [run.attributes[f"knowledge_bot.check.{one}"] for one in ("passed", "failed")]
        assert counts == [1, 2]
        inside = [
            span for span in spans() if span.parent and span.parent.span_id == run.context.span_id
        ]
        assert [span.name for span in inside] == ["invoke_agent bot_1"] * 3
    assert len([one for one in spans() if one.name == "check"]) == 2


def test_without_opentelemetry_a_client_works_and_loads_nothing_of_it():
    code = """
import sys
sys.modules["opentelemetry"] = None
from knowledge_bot import Client
from knowledge_bot.testing import MemoryService
client = Client("key", "https://service.test", transport=MemoryService().transport)
print(client.send_message(bot_id="bot_default", content="c").conversation_id[:5])
print([name for name in sys.modules if name.startswith("opentelemetry.")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["conv_", "[]"]
