"""Calls that are right, and calls that are wrong: type checkers report exactly the ignored lines.

Nothing here runs. `scripts/lint` fails where an error is missing (its comment is of no use then),
has another code, or is too many. Those in tasks of Airflow are in `planted_mistakes_in_tasks.py`.
"""
# ruff: noqa: B018, SIM115, T201 - the mistakes, and what shows them
# pyright: reportUnnecessaryTypeIgnoreComment=true

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import Any, assert_type

import httpx
import httpx2

from knowledge_bot import (
    APIError,
    AsyncClient,
    Bot,
    Client,
    Collection,
    Conversation,
    Delivery,
    Header,
    KnowledgeBotError,
    Message,
    Source,
    SourceDetails,
    SyncEntry,
)
from knowledge_bot.checks import CheckReport, Question, check
from knowledge_bot.ingest import (
    File,
    Ingestion,
    IngestionOptions,
    Ledger,
    Report,
    Text,
    WebPage,
    aingest,
    ingest,
)
from knowledge_bot.testing import MemoryService
from langchain_knowledge_bot import (
    ChatKnowledgeBot,
    KnowledgeBotCollection,
    KnowledgeBotRetriever,
    KnowledgeBotTool,
    KnowledgeBotToolkit,
)
from llama_index_knowledge_bot import CollectionSink


def right(client: Client, collection: Collection, headers: Mapping[str, str]) -> None:
    """Every operation of a blocking client returns its model."""
    assert_type(client.list_bots(), list[Bot])
    assert_type(client.list_collections(), list[Collection])
    assert_type(client.list_conversations("bot_1"), list[Conversation])
    assert_type(client.send_message(bot_id="bot_1", content="?"), Message)
    assert_type(client.with_options(timeout=3).chat("bot_1").ask("?").created_at, datetime | None)
    assert_type(client.create_text_source(name="n", collections="col_1", content="c"), Source)
    assert_type(client.list_sources(status=["ready", "failed"]), list[SourceDetails])
    assert_type(client.list_entries("origin", bucket=1), list[SyncEntry])
    assert_type("sources" in client.extensions(), bool)
    assert_type(client.get_source("src_1").warnings, tuple[str, ...])
    client.delete_source("src_1")
    client.send_message(bot_id="bot_1", content="?", idempotency_key="k")
    alive: bool = client.ping()
    print(alive)
    client.create_webpage_source(
        name="n", collections=[collection, "col_2"], url="https://example.org", headers=headers
    )
    client.create_webpage_source(
        name="n", collections=collection, url="u", headers=[Header(name="a", value="b")]
    )
    with Path("handbook.md").open("rb") as file:
        client.upload_source(name="n", collections=("col_1",), file=file)
    client.upload_source(
        name="n",
        collections="col_1",
        file=b"content",
        on_progress=lambda sent, total: print(sent / (total or sent)),
    )
    with Client("key", "https://service.example", http_client=httpx.Client()) as given:
        assert_type(given, Client)
    Client(http_client=httpx2.Client())
    WebPage(name="n", url="u", headers={"a": "b"}, collections=collection)
    File(path=Path("handbook.md"), collections="col_1")
    service = MemoryService(bots={"bot_1": {"?": "!"}}, collections=["col_1"])
    Client(transport=service.transport)
    AsyncClient(transport=service.async_transport)


async def right_as_well(client: AsyncClient) -> None:
    """Every operation of an asynchronous client returns an awaitable of its model."""
    assert_type(await client.list_bots(), list[Bot])
    assert_type(await client.send_message(bot_id="bot_1", content="?"), Message)
    assert_type(await client.with_options(max_retries=0).chat("bot_1").ask("?"), Message)
    assert_type(await client.list_sources(collection="col_1"), list[SourceDetails])
    assert_type((await client.get_source("src_1")).ready_at, datetime | None)
    await client.delete_source("src_1")
    assert_type(await client.extensions(), Mapping[str, Mapping[str, Any]])
    async with AsyncClient(http_client=httpx.AsyncClient()) as given:
        assert_type(given, AsyncClient)
    AsyncClient(http_client=httpx2.AsyncClient())


def right_ingestions(client: Client, collection: Collection, stop: Event) -> None:
    """A run takes its options by their names; they may be kept, alone or checked."""
    items = [Text(name="n", content="c")]
    assert_type(ingest(client, items, collections="col_1"), Report)
    ingest(client, items, collections=[collection, "col_2"], ledger=Ledger("k.db", wait=60))
    ingest(client, items, collections=collection, ledger=Path("k.db"), stop=stop, limit=None)
    kept: IngestionOptions = {"collections": "col_1", "on_unknown": "resend", "wait_ready": 60}
    assert_type(ingest(client, iter(items), **kept), Report)
    checked = Ingestion(**kept)
    assert_type(checked.collections, tuple[str, ...])
    assert_type(checked.ledger, Ledger | None)
    assert_type(replace(checked, concurrency=2).run(client, items), Report)


async def right_ingestions_as_well(client: AsyncClient) -> None:
    """An asynchronous run takes the same options."""
    assert_type(await aingest(client, [], collections="col_1", dry_run=True), Report)


def wrong_ingestions(client: Client) -> None:
    """Options that no run takes."""
    ingest(client, [])  # type: ignore[call-arg]
    ingest(client, [], collections=1)  # type: ignore[arg-type]
    ingest(client, [], collections="col_1", concurency=3)  # type: ignore[call-arg]
    ingest(client, [], collections="col_1", on_unknown="fail")  # type: ignore[arg-type]
    ingest(client, [], collections="col_1", ledger=3)  # type: ignore[arg-type]
    ingest(client, [], collections="col_1", wait_ready="5m")  # type: ignore[arg-type]
    ingest(client, [], collections="col_1", stop=True)  # type: ignore[arg-type]
    Ingestion(ledger="k.db")  # type: ignore[call-arg]
    Ingestion(collections="col_1", gone_limit="all")  # type: ignore[arg-type]


def wrong_checks(client: Client) -> None:
    """A check takes its options by their names."""
    questions = [Question(ask="?", contains="!")]
    assert_type(check(client, "bot_1", questions, wait=60, min_pass=0.9), CheckReport)
    check(client, "bot_1", questions, wiat=60)  # type: ignore[call-arg]
    check(client, "bot_1", questions, wait="60")  # type: ignore[arg-type]
    check(client, "bot_1", questions, on_result=1)  # type: ignore[arg-type]


def wrong_arguments(client: Client) -> None:
    """Arguments that no operation takes."""
    client.send_message("bot_1", "?")  # type: ignore[call-arg]
    client.send_message(bot_id="bot_1")  # type: ignore[call-arg]
    client.send_message(bot_id=1, content="?")  # type: ignore[arg-type]
    client.send_message(bot_id="bot_1", content=b"?")  # type: ignore[arg-type]
    client.send_message(bot_id="bot_1", content="?", model="m")  # type: ignore[call-arg]
    client.list_conversations(Bot(id="bot_1", name="n"))  # type: ignore[arg-type]
    client.create_text_source(name="n", collections=1, content="c")  # type: ignore[arg-type]
    client.upload_source(name="n", collections="col_1", file=open("f"))  # type: ignore[arg-type]
    client.create_webpage_source(
        name="n",
        collections="col_1",
        url="https://example.org",
        headers=["a"],  # type: ignore[list-item]
    )
    client.with_options(retries=1)  # type: ignore[call-arg]


def wrong_clients() -> None:
    """Settings that no client takes."""
    Client(upload_encoding="json")  # type: ignore[arg-type]
    Client(timeout="60")  # type: ignore[arg-type]
    Client(http_client=object())  # type: ignore[arg-type]
    Client(http_client=httpx.AsyncClient())  # type: ignore[arg-type]
    AsyncClient(http_client=httpx2.Client())  # type: ignore[arg-type]


def wrong_results(client: Client, source: Source) -> None:
    """Results that no operation has."""
    client.send_message(bot_id="bot_1", content="?").text  # type: ignore[attr-defined]
    client.list_bots().data  # type: ignore[attr-defined]
    client.list_sources().data  # type: ignore[attr-defined]
    client.delete_source("src_1").id  # type: ignore[attr-defined]
    source.status = "ready"  # type: ignore[misc]
    print(source.created_at + 1)  # type: ignore[operator]


async def wrong_colours(client: AsyncClient, blocking: Client) -> None:
    """Asynchronous calls taken for blocking ones, and the other way round."""
    client.list_bots()  # type: ignore[unused-coroutine]
    client.send_message(bot_id="bot_1", content="?").answer  # type: ignore[attr-defined]
    await blocking.list_bots()  # type: ignore[misc]
    with client:  # type: ignore[attr-defined]
        pass


def wrong_errors(error: KnowledgeBotError) -> int | None:
    """Every error has a delivery, and only an answered one a status."""
    if error.delivery is Delivery.SENT:  # type: ignore[attr-defined]
        return None
    if isinstance(error, APIError):
        return error.status_code
    print(error.status_code)  # type: ignore[attr-defined]
    return None


def right_objects(client: Client, collection: Collection) -> None:
    """An object of LangChain takes its own fields, the connection's, and the framework's."""
    assert_type(ChatKnowledgeBot(model="bot_guide").model, str)
    ChatKnowledgeBot(bot_id="bot_guide", api_key="key", base_url="u", timeout=3, tags=["a"])
    ChatKnowledgeBot(model="bot_guide", temperature=0.1, max_tokens=100)
    KnowledgeBotRetriever(bot_id="bot_guide", client=client, k=1)
    KnowledgeBotRetriever(bot_ids=["bot_guide", "bot_other"], async_client=AsyncClient())
    KnowledgeBotTool(bot_id="bot_guide", description="Knows the hours.", handle_tool_error=False)
    KnowledgeBotCollection(collections="col_1")
    KnowledgeBotCollection(collections=[collection, "col_2"], ledger=Path("k.db"), concurrency=3)
    KnowledgeBotCollection(collections="col_1", ledger="k.db", rate=5, wait_ready=90)
    CollectionSink([collection], ledger=Path("k.db"), client=client, rate=5, wait_ready=60)
    KnowledgeBotTool(bot_id="bot_guide", conversation="continue", heads="sqlite:///heads.db")
    KnowledgeBotToolkit(client=client, descriptions={"bot_guide": "Knows the hours."})


def wrong_objects() -> None:
    """A field that is not there, or that is missing, is found before anything runs."""
    ChatKnowledgeBot()  # type: ignore[call-overload]
    ChatKnowledgeBot("bot_guide")  # type: ignore[call-overload]
    ChatKnowledgeBot(bot_id="bot_guide", conversatoin_id="conv_1")  # type: ignore[call-overload]
    ChatKnowledgeBot(bot_id="bot_guide", history="all")  # type: ignore[call-overload]
    KnowledgeBotRetriever(bot_id="bot_guide", bot_ids=["bot_guide"])  # type: ignore[call-overload]
    KnowledgeBotRetriever(bot_ids="bot_guide")  # type: ignore[call-overload]
    KnowledgeBotTool(bot_id="bot_guide", descripton="d")  # type: ignore[call-arg]
    KnowledgeBotTool(bot_id="bot_guide", timeout="60")  # type: ignore[arg-type]
    KnowledgeBotTool(bot_id="bot_guide", conversation="run")  # type: ignore[arg-type]
    KnowledgeBotToolkit(description={"bot_guide": "Knows the hours."})  # type: ignore[call-arg]
    KnowledgeBotCollection(ledger="k.db")  # type: ignore[call-arg]
    KnowledgeBotCollection(collections=1, ledger="k.db")  # type: ignore[arg-type]
    KnowledgeBotCollection(collections="col_1", ledger="k.db", dry_run=True)  # type: ignore[call-arg]
    CollectionSink("col_1", ledger="k.db", wait_ready="5m")  # type: ignore[arg-type]
    CollectionSink("col_1", ledger="k.db", dry_run=True)  # type: ignore[call-arg]
