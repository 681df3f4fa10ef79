"""What is promised for every class of LangChain and LlamaIndex that asks a bot or feeds one.

What only one framework knows (its events, its callbacks, its own suites) is tested in the package's
folder; which conversation a list goes on in, in `knowledge_bot/test_conversations.py`.
"""

import asyncio
import copy
import itertools
import json
import pickle
import re
import subprocess
import sys
import traceback
from contextvars import ContextVar
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from calls import KEY, MESSAGE, passage
from faces import FACES, LANGCHAIN, LLAMA_INDEX, PACKAGES, QUESTION
from knowledge_bot import (
    AsyncClient,
    Bot,
    Client,
    ConfigurationError,
    Delivery,
    KnowledgeBotError,
)
from knowledge_bot.adapters.tools import tool_name, tool_names
from knowledge_bot.ingest import IncompleteIngestionError, Ledger, Stop
from knowledge_bot.testing import MemoryService
from numbering_bots import contents, received
from refusals import refused
from waiting import until_awaited

OTHERS = {
    "langchain_knowledge_bot": ("airflow", "fastapi", "langchain", "langgraph", "llama_index"),
    "llama_index_knowledge_bot": ("airflow", "fastapi", "langchain", "langchain_core", "langgraph"),
}
ELSEWHERE = "https://service.example"
BOTS = ["bot_1", "bot_2", "bot_3"]
awaited_or_not = pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_needs_no_other_framework_and_who_asks_no_ingestion(package):
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({OTHERS[package]})); "
        f"from {package} import KnowledgeBotRetriever; "
        "assert not [name for name in sys.modules if name.startswith('knowledge_bot.ingest')]; "
        f"from {package} import *"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# Each class ---------------------------------------------------------------------------------------


@pytest.fixture
def service():
    bots = {bot: {QUESTION: "At nine."} for bot in BOTS}
    return MemoryService(bots=bots, collections={"col_1": "House"})


@pytest.fixture
def client(fields):
    with Client(**fields, max_retries=0) as client:
        yield client


@pytest.fixture(params=FACES)
def face(request):
    return FACES[request.param]


def saying(service, *answers, **more):
    """Let the next messages be answered with these, whoever is asked."""
    for text in answers:
        service.answer_next(200, json.dumps({**MESSAGE, "answer": text, **more}).encode())


def keys_of(service):
    return {request.headers["x-api-key"] for request in service.requests}


def told(error):
    """The client's error; a tool of LangChain raises one of the framework's, which has it."""
    return error if isinstance(error, KnowledgeBotError) else error.__cause__


@awaited_or_not
def test_a_question_is_one_message_and_its_answer_says_where_it_came_from(
    face, client, service, awaited
):
    said = "At nine.\n\nSources: hours.md, rules.md"
    saying(service, said)
    found = face.ask(face.make(client), awaited=awaited)
    assert face.text(found) == said, "as the service wrote it"
    if "Retriever" in face.name:  # equal answers are equal, whenever they came
        fields = face.fields(found)
        assert fields.pop("passage_id").startswith("ans_")
        assert fields == {"bot_id": "bot_1", "source": "hours.md, rules.md"}
        return
    expected = {
        "bot_id": "bot_1",
        "conversation_id": "conv_1",
        "message_id": "msg_1",
        "created_at": MESSAGE["created_at"],
        "sources": ["hours.md", "rules.md"],
        "found": True,
    }
    assert face.fields(found).items() >= expected.items()
    assert received(service) == [{"bot_id": "bot_1", "content": QUESTION}]


@pytest.mark.parametrize(
    ("said", "more", "sources", "found"),
    [
        ("I could not find that.", {}, [], False),
        ("Nichts gefunden.", {"sources": [], "found": False}, [], False),
        (
            "At nine.",
            {"sources": [{"name": "Hours, old.md"}, {"name": "b"}]},
            ["Hours, old.md", "b"],
            True,
        ),
    ],
    ids=["in words", "as data", "names with commas"],
)
def test_an_answer_says_whether_anything_was_found(  # noqa: PLR0917
    face, client, service, said, more, sources, found
):
    saying(service, said, **more)
    fields = face.fields(face.ask(face.make(client)))
    if "Retriever" in face.name:
        assert fields.get("source", "") == ", ".join(sources)
    else:
        assert (fields["sources"], fields["found"]) == (sources, found)


FAULTS = {
    "401": (lambda service: service.fail_next(401, message=f"no such key {KEY}"), "refused"),
    "408": (lambda service: service.fail_next(408), "refused"),
    "500": (lambda service: service.fail_next(), "unknown"),
    "lost": (lambda service: service.lose_next_answer(), "unknown"),
    "away": (lambda service: service.refuse_next_connection(times=2), "not_delivered"),
}


@awaited_or_not
@pytest.mark.parametrize(("fails", "delivery"), FAULTS.values(), ids=FAULTS)
def test_an_error_says_whether_the_bot_was_asked_and_nothing_is_sent_again(  # noqa: PLR0917
    face, client, service, fails, delivery, awaited
):
    fails(service)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - its class is looked at below
        face.ask(face.make(client), awaited=awaited)
    assert isinstance(told(caught.value), KnowledgeBotError)
    assert told(caught.value).delivery == delivery
    assert len(service.requests) == (delivery != "not_delivered")
    assert KEY not in "".join(traceback.format_exception(caught.value))


@awaited_or_not
def test_an_empty_question_is_not_sent(face, client, service, awaited):
    with pytest.raises(Exception, match=r"empty|no text"):
        face.ask(face.make(client), " ", awaited=awaited)
    assert service.requests == []


@awaited_or_not
def test_what_stands_in_for_a_service_answers_at_no_other_time(face, monkeypatch, awaited):
    monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", ELSEWHERE)
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", KEY)
    for _ in range(2):
        with MemoryService(bots={"bot_1": {QUESTION: "At nine."}}).standing_in() as service:
            face.ask(face.make(), awaited=awaited)
            face.ask(face.make(), awaited=awaited)
        assert len(received(service)) == 2


def test_without_a_client_the_environment_names_the_service(face, fields, service, monkeypatch):
    with pytest.raises(ValueError, match="KNOWLEDGE_BOT_BASE_URL"):
        face.make()
    monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", fields["base_url"])
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", KEY)
    face.ask(face.make())
    assert keys_of(service) == {KEY}


def test_an_own_transport_is_never_gone_around(face, fields, service):
    client = Client(**fields, transport=service.transport)
    assert face.ask(face.make(client))
    with pytest.raises((ConfigurationError, ValueError), match="async_client="):
        face.ask(face.make(client), awaited=True)
    both = face.make(client, async_client=AsyncClient("other-key", fields["base_url"]))
    assert face.ask(both, awaited=True)
    assert keys_of(service) == {KEY, "other-key"}
    assert len(service.requests) == 2


def test_what_is_no_client_is_not_quoted(face):
    for wrong in ({"client": KEY}, {"client": Client(KEY, ELSEWHERE), "async_client": KEY}):
        with pytest.raises(ValueError, match="Client") as caught:
            face.make(**wrong)
        details = getattr(caught.value, "errors", list)()  # of pydantic
        assert KEY not in f"{caught.value} {caught.value!r} {details}"


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))]
)
@awaited_or_not
def test_a_duplicate_asks_with_the_same_key_and_not_the_environments(  # noqa: PLR0917
    face, client, service, monkeypatch, duplicate, awaited
):
    monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", ELSEWHERE)
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", "key-of-another-account")
    original = face.make(client)
    face.ask(duplicate(original), awaited=awaited)
    face.ask(original, awaited=awaited)
    face.ask(duplicate(original), awaited=awaited)
    assert keys_of(service) == {KEY}
    assert len(service.requests) == 3


def test_the_key_is_in_no_representation(face):
    asking = face.make(Client(KEY, ELSEWHERE))
    shown = [repr(asking), str(asking), repr(vars(asking))]
    shown.append(repr(getattr(asking, "__pydantic_private__", "")))
    assert "bot_1" in shown[0]
    assert KEY not in "".join(shown)


async def test_awaited_questions_go_out_together(face, client, service):
    together = 1 if "Engine" in face.name and face.ways[0] == "chat" else 30
    asking = face.make(client)
    with service.holding_answers():
        tasks = [asyncio.create_task(face.aask(asking)) for _ in range(30)]
        assert await until_awaited(lambda: len(service.requests) == together)
    assert [face.text(await one) for one in tasks] == ["At nine."] * 30


async def test_a_blocking_call_works_inside_a_running_loop(face, client):
    asking = face.make(client)
    assert face.text(face.ask(asking)) == face.text(await face.aask(asking)) == "At nine."


# Retrievers ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """A document or a node."""

    id: str
    text: str
    fields: dict[str, Any]


@pytest.fixture(params=PACKAGES)
def retriever_of(request, client):
    """`retriever_of(*bots, **options)`: a retriever, whose limit is `limit`."""
    cls = import_module(request.param).KnowledgeBotRetriever
    limited = "k" if request.param == LANGCHAIN else "similarity_top_k"

    def make(*bots, limit=None, **options):
        if limit is not None:
            options[limited] = limit
        return cls(bot_ids=list(bots or BOTS), client=client, **options)

    return make


@pytest.fixture(params=["sync", "async"])
def retrieve(request):
    """`retrieve(retriever, question)`: what it finds."""

    def run(retriever, question=QUESTION):
        is_langchain = hasattr(retriever, "invoke")
        blocking, awaited = ("invoke", "ainvoke") if is_langchain else ("retrieve", "aretrieve")
        if request.param == "sync":
            found = getattr(retriever, blocking)(question)
        else:
            found = asyncio.run(getattr(retriever, awaited)(question))
        if is_langchain:
            return [Found(one.id, one.page_content, one.metadata) for one in found]
        return [Found(one.node.node_id, one.text, one.metadata) for one in found]

    return run


def bots_and_texts(found):
    return [(one.fields["bot_id"], one.text) for one in found]


def answering(service, *texts):
    service.bots = {bot: {QUESTION: text} for bot, text in zip(BOTS, texts, strict=True)}


def asked(service):
    return [value["bot_id"] for value in received(service)]


def test_several_bots_answer_in_their_order(retriever_of, retrieve, service):
    answering(service, "Answer 1.", "Answer 2.", "Answer 3.")
    found = bots_and_texts(retrieve(retriever_of()))
    assert found == [("bot_1", "Answer 1."), ("bot_2", "Answer 2."), ("bot_3", "Answer 3.")]


def test_a_bot_named_twice_is_asked_once(retriever_of, retrieve, service):
    found = retrieve(retriever_of("bot_1", "bot_1"))
    assert bots_and_texts(found) == [("bot_1", "At nine.")]
    assert asked(service) == ["bot_1"]


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize(
    "bots",
    [
        {},
        {"bot_id": "bot_1", "bot_ids": ["bot_2"]},
        {"bot_ids": []},
        {"bot_ids": "bot_1"},
        {"bot_ids": ["bot_1", "col_1"]},
    ],
    ids=["none", "both", "empty", "text", "no bot"],
)
def test_one_bot_or_several_are_named(package, bots):
    with pytest.raises(ValueError, match="bot"):
        import_module(package).KnowledgeBotRetriever(**bots, client=Client(KEY, ELSEWHERE))


def test_refusals_are_left_out_on_demand(retriever_of, retrieve, service):
    answering(service, "At nine.", "I could not find that.", "Sorry, I cannot answer that.")
    assert len(retrieve(retriever_of())) == 3
    (kept,) = retrieve(retriever_of(drop_refusals=True))
    assert kept.text == "At nine."


def test_the_first_failure_in_order_is_raised_and_reports_every_bot(
    retriever_of, retrieve, service
):
    for bot in ("bot_3", "bot_1"):
        service.fail_next(
            400, message=f"not {bot}", where=lambda one, bot=bot: one.value.get("bot_id") == bot
        )
    with pytest.raises(KnowledgeBotError, match="not bot_1") as caught:
        retrieve(retriever_of())
    first, second = caught.value.__notes__
    assert first == "This was bot_1. Of 3 bots asked, 1 answered."
    assert second.startswith("bot_3 failed as well: ")
    assert "not bot_3" in second
    service.fail_next(400)
    with pytest.raises(KnowledgeBotError) as caught:
        retrieve(retriever_of("bot_1"))
    assert not hasattr(caught.value, "__notes__")


def test_bots_that_are_asked_at_once_are_asked_in_the_context_of_the_caller(retriever_of, service):
    run, seen = ContextVar("run", default="lost"), []
    service.bots = dict.fromkeys(BOTS, lambda _: seen.append(run.get()) or "At nine.")
    run.set("kept")
    retriever = retriever_of()
    getattr(retriever, "invoke" if hasattr(retriever, "invoke") else "retrieve")(QUESTION)
    assert seen == ["kept"] * 3


async def test_cancelling_a_question_leaves_no_bot_being_asked(retriever_of, service):
    retriever = retriever_of()
    ask = getattr(retriever, "ainvoke" if hasattr(retriever, "invoke") else "aretrieve")
    with service.holding_answers():
        asking = asyncio.create_task(ask(QUESTION))
        assert await until_awaited(lambda: len(service.requests) == len(BOTS))
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert asyncio.all_tasks() == {asyncio.current_task()}


# Passages -----------------------------------------------------------------------------------------


def finding(service, **of_bots):
    """Let searches find these passages, for each bot its own, and once each."""
    service.announcement = "passages=1"
    for bot, passages in of_bots.items():
        service.answer_next(
            200,
            json.dumps({"value": {"data": passages}}).encode(),
            where=lambda request, bot=bot: request.value.get("bot_id") == bot,
            times=None,
        )


def test_passages_are_found_and_no_bot_is_asked(retriever_of, retrieve, service):
    finding(service, bot_1=[passage(1, url="https://h.example/")])
    fields = {
        "source": "1.md",
        "source_id": "src_1",
        "url": "https://h.example/",
        "revision": "r1",
        "passage_id": "pas_1",
    }
    found = retrieve(retriever_of("bot_1"))
    assert found == [Found("pas_1", "Passage 1.", fields)]
    (request,) = service.requests
    assert request.path == "/search"
    assert request.value == {"query": QUESTION, "limit": 5, "bot_id": "bot_1"}


def test_a_passage_is_the_same_whoever_found_it_and_for_which_question(
    retriever_of, retrieve, service
):
    finding(service, bot_1=[passage(1, score=3.0)], bot_2=[passage(1, score=1.0, found=False)])
    assert retrieve(retriever_of("bot_1")) == retrieve(retriever_of("bot_2"))


# Those of bots that found something come first, in turn; then the limit counts.
@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ({}, [1, 2, 3, 4]),
        ({"limit": 2}, [1, 2]),
        ({"limit": 3}, [1, 2, 3]),
        ({"drop_refusals": True}, [1, 2, 3]),
        ({"drop_refusals": True, "limit": 1}, [1]),
    ],
)
def test_the_best_of_each_bot_come_in_turn_and_each_once(
    retriever_of, retrieve, service, options, ids
):
    finding(
        service,
        bot_1=[passage(4, found=False)],
        bot_2=[passage(1), passage(2)],
        bot_3=[passage(2), passage(3)],
    )
    found = retrieve(retriever_of(**options))
    assert [one.id for one in found] == [f"pas_{number}" for number in ids]
    assert len(service.requests) == 3


@pytest.mark.parametrize("cited", [False, True], ids=["answers", "passages of answers"])
@pytest.mark.parametrize("knowing", BOTS)
def test_the_bot_that_knows_is_heard_before_the_limit_counts(
    retriever_of, retrieve, service, knowing, cited
):
    for bot in BOTS:
        said = {**MESSAGE, "id": f"msg_{bot}", "answer": "At nine.", **(CITED if cited else {})}
        if bot != knowing:
            said = {**MESSAGE, "answer": "I could not find that.", "found": False}
        service.answer_next(
            200,
            json.dumps(said).encode(),
            where=lambda request, bot=bot: request.value.get("bot_id") == bot,
            times=None,
        )
    for options in ({"limit": 1}, {"limit": 1, "drop_refusals": True}):
        (found,) = retrieve(retriever_of(**options))
        assert found.text == ("We open at nine." if cited else "At nine.")
    assert sorted(asked(service)) == sorted(BOTS * 2)


async def test_several_bots_are_searched_at_the_same_time(client, service):
    from langchain_knowledge_bot import KnowledgeBotRetriever

    finding(service, **{bot: [passage(1)] for bot in BOTS})
    retriever = KnowledgeBotRetriever(bot_ids=list(BOTS), client=client)
    for ask in (retriever.ainvoke, lambda said: asyncio.to_thread(retriever.invoke, said)):
        before = len(service.requests)
        with service.holding_answers():
            task = asyncio.create_task(ask(QUESTION))
            assert await until_awaited(lambda at=before: len(service.requests) == at + len(BOTS))
        await task


CITED = {
    "found": True,
    "sources": [
        {
            "id": "src_1",
            "name": "hours.md",
            "url": "https://house.test/hours",
            "revision": "rev_1",
            "passages": [{"id": "pas_1", "text": "We open at nine."}, {"no": "passage"}],
        }
    ],
}


def test_the_passages_of_an_answer_are_retrieved_where_none_can_be_searched(
    retriever_of, retrieve, service
):
    saying(service, "At nine.\n\nSources: hours.md", **CITED)
    (found,) = retrieve(retriever_of("bot_1"))
    assert (found.id, found.text) == ("pas_1", "We open at nine.")


def langchain_citation(client):
    from langchain_knowledge_bot import ChatKnowledgeBot

    (block,) = ChatKnowledgeBot(bot_id="bot_1", client=client).invoke(QUESTION).content_blocks
    (cited,) = block["annotations"]
    return cited["title"], cited["url"], cited["cited_text"]


def llama_index_nodes(client):
    from llama_index_knowledge_bot import KnowledgeBotQueryEngine

    (found,) = KnowledgeBotQueryEngine("bot_1", client=client).query(QUESTION).source_nodes
    assert (found.node_id, found.node.ref_doc_id) == ("pas_1", "src_1")
    return found.metadata["source"], found.metadata["url"], found.text


@pytest.mark.parametrize("cited_by", [langchain_citation, llama_index_nodes])
def test_an_answer_cites_its_passages(cited_by, client, service):
    saying(service, "At nine.\n\nSources: hours.md", **CITED)
    assert cited_by(client) == ("hours.md", "https://house.test/hours", "We open at nine.")


# The question of a prompt -------------------------------------------------------------------------

PROMPT = "Answer briefly.\nQuestion: When do you open?\nContext: The mill.\nAnswer:"


def text_behind_the_label(text):
    return text.partition("Question: ")[2].partition("\nContext:")[0]


@pytest.fixture(params=["langchain model", "llama-index llm", "llama-index chat"])
def prompted(request, client):
    """`prompted(question, awaited)`: ask with a prompt, and a function that finds its question."""
    face = FACES[request.param]

    def ask(question, *, awaited):
        choose = question and (lambda messages: question(text_of(messages[-1])))
        return face.ask(face.make(client, question=choose), PROMPT, awaited=awaited)

    return ask


def text_of(message):
    return message.content if isinstance(message.content, str) else message.text


@pytest.mark.parametrize("awaited", [False, True])
def test_a_function_of_the_users_finds_the_question_in_a_prompt(prompted, client, service, awaited):
    prompted(text_behind_the_label, awaited=awaited)
    prompted(None, awaited=awaited)
    assert contents(service) == [QUESTION, PROMPT]


@pytest.mark.parametrize("found", ["", " ", None, 5])
def test_a_function_that_finds_no_question_is_an_error_before_anything_is_sent(
    prompted, service, found
):
    with refused("question"):
        prompted(lambda _: found, awaited=False)
    assert service.requests == []


# Tools --------------------------------------------------------------------------------------------

NAMED = {
    "bot_1": ("Handbook", "ask_1"),
    "bot_2": ("Café Köln", "ask_cafe_koln"),
    "bot_3": ("手册", "ask_3"),
    "bot_4": ("Handbook", "ask_4"),
    "bot_5": ("R&D (internal)", "ask_r_d_internal"),
    "bot_6": ("Bot", "ask_6"),  # `ask_bot` asks any of them
}


def test_bots_in_any_script_have_names_that_models_take_and_that_differ():
    bots = [("a.b", "A"), ("a_b", "A"), ("日本", "日本"), ("中国", "中国"), ("Café", "日本")]
    bots += [("x" * 80, "x" * 90), ("x" * 81, "x" * 91), ("日" * 90, "-"), ("-", "R&D, hours")]
    names = tool_names([Bot(id=f"bot_{bot_id}", name=name) for bot_id, name in bots])
    names += [tool_name(bot_id) for bot_id, _ in bots if bot_id not in ("a.b", "Café", "-")]
    assert all(re.fullmatch(r"ask_[a-zA-Z0-9_-]{1,60}", name) for name in names)
    assert len(set(names[: len(bots)])) == len(bots)
    assert {"ask_cafe", "ask_r_d_hours"} <= {*names, tool_name("Café")}


def test_a_name_is_the_same_bots_in_whatever_order_a_service_lists_them():
    named = {"a": "HR (staff)", "b": "HR: staff", "c": "b", "d": "d_2", "D_2": "x", "B": "hr staff"}
    bots = [Bot(id=f"bot_{bot}", name=name) for bot, name in named.items()]
    names = {
        frozenset(zip([bot.id for bot in order], tool_names(order), strict=True))
        for order in itertools.permutations(bots)
    }
    assert len(names) == 1
    assert len({name for _, name in next(iter(names))}) == len(bots)
    assert "ask_hr_staff" not in {name for _, name in next(iter(names))}


def langchain_names(client):
    from langchain_knowledge_bot import KnowledgeBotToolkit

    return {tool.bot_id: tool.name for tool in KnowledgeBotToolkit.from_client(client).get_tools()}


def llama_index_names(client):
    from llama_index_knowledge_bot import bot_tools

    names = [tool.metadata.name for tool in bot_tools(client)]
    return dict(zip(NAMED, names, strict=True))


def mcp_names(client):
    from mcp import Client as MCPClient

    from knowledge_bot_gateway import Upstream, create_mcp_server

    async def listed():
        server = create_mcp_server(Upstream(client.base_url, KEY))
        async with MCPClient(server) as caller:
            return [tool.name for tool in (await caller.list_tools()).tools]

    names = asyncio.run(listed())[-len(NAMED) :]
    return dict(zip(NAMED, names, strict=True))


@pytest.mark.parametrize("names_of", [langchain_names, llama_index_names, mcp_names])
def test_a_bot_has_the_same_name_as_a_tool_of_every_framework(names_of, client, service):
    bots = [{"id": bot_id, "name": name} for bot_id, (name, _) in NAMED.items()]
    service.answer_next(200, json.dumps({"data": bots}).encode())
    assert names_of(client) == {bot_id: name for bot_id, (_, name) in NAMED.items()}


# Collections --------------------------------------------------------------------------------------


def langchain_documents(texts):
    from langchain_core.documents import Document

    return [Document(text, id=key) for key, text in texts.items()]


def llama_index_documents(texts):
    from llama_index.core.schema import Document

    return [Document(text=text, id_=key) for key, text in texts.items()]


@dataclass(frozen=True)
class Feeder:
    """A class that puts documents into collections, with one ledger."""

    is_langchain: bool
    awaited: bool
    ledger: Path | None
    client: Client

    def make(self, **options):
        name = "KnowledgeBotCollection" if self.is_langchain else "CollectionSink"
        cls = getattr(import_module(LANGCHAIN if self.is_langchain else LLAMA_INDEX), name)
        return cls(collections="col_1", ledger=self.ledger, client=self.client, **options)

    def feed(self, target, **texts):
        if self.is_langchain:
            ways, given = ("add_documents", "aadd_documents"), langchain_documents(texts)
        else:
            ways, given = ("__call__", "acall"), llama_index_documents(texts)
        if self.awaited:
            asyncio.run(getattr(target, ways[1])(given))
        else:
            getattr(target, ways[0])(given)

    def sync(self, target, texts, **options):
        if self.is_langchain:
            from langchain_core.document_loaders import BaseLoader as Base

            found, method = langchain_documents(texts), "lazy_load"
        else:
            from llama_index.core.readers.base import BaseReader as Base

            found, method = llama_index_documents(texts), "lazy_load_data"
        loader = type("Loader", (Base,), {method: lambda _: iter(found)})
        return target.sync(loader(), **options)


@pytest.fixture(params=[(one, how) for one in PACKAGES for how in ("sync", "async")], ids=str)
def feeder(request, client, tmp_path):
    package, how = request.param
    return Feeder(package == LANGCHAIN, how == "async", tmp_path / "ledger.db", client)


def test_a_document_is_a_source_once_and_a_changed_one_another(feeder, service):
    target = feeder.make(concurrency=1)
    for _ in range(2):
        feeder.feed(target, a="One", b="Two")
    feeder.feed(target, a="Three", b="Two")
    assert contents(service) == ["One", "Two", "Three"]
    (old,) = Ledger(feeder.ledger).superseded()
    assert (old.key, old.source_id) == ("a", service.sources[0]["id"])


def test_what_was_refused_is_told_after_all_others_and_sent_the_next_time(feeder, service):
    for _ in range(2):
        service.fail_next(400, where=lambda request: request.value.get("content") == "One")
        with pytest.raises(IncompleteIngestionError) as caught:
            feeder.feed(feeder.make(concurrency=1), a="One", b="Two")
        assert caught.value.delivery is Delivery.REFUSED
        assert KEY not in str(caught.value)
    assert contents(service) == ["One", "Two", "One"]


def test_an_unknown_outcome_is_held_or_sent_again(feeder, service):
    service.lose_next_answer(times=None)
    for on_unknown in ("hold", "hold", "resend"):
        with pytest.raises(IncompleteIngestionError) as caught:
            feeder.feed(feeder.make(on_unknown=on_unknown), a="One")
        assert caught.value.delivery is Delivery.UNKNOWN
    assert len(service.requests) == 2


@pytest.mark.parametrize("broken", [{"half \ud800": "x"}, {"x": "half \ud800"}], ids=["id", "text"])
def test_what_no_source_can_hold_is_told_and_all_others_are_sent(feeder, service, broken):
    with pytest.raises(IncompleteIngestionError) as caught:
        feeder.feed(feeder.make(), a="One", **broken)
    assert caught.value.report.invalid == 1
    assert contents(service) == ["One"]
    str(caught.value).encode()


def test_what_another_origin_holds_is_sent_where_the_caller_says_so(feeder):
    service = MemoryService(extensions={"sources", "sync"}, collections={"col_1": "House"})
    client = Client(KEY, ELSEWHERE, transport=service.transport)
    target, texts = replace(feeder, ledger=None, client=client).make(), {"a": "One", "b": "Two"}
    feeder.sync(target, texts, origin="one")
    with pytest.raises(IncompleteIngestionError, match="anyway=True") as caught:
        feeder.sync(target, texts, origin="another")
    assert (caught.value.report.stopped, len(service.sources)) == (Stop.OVERLAP, 2)
    assert feeder.sync(target, texts, origin="another", anyway=True).created == 2


def test_what_an_origin_no_longer_has_is_gone(feeder):
    target, texts = feeder.make(), {"a": "One", "b": "Two", "c": "Three"}
    assert feeder.sync(target, texts).created == 3
    assert feeder.sync(target, {"d": "Four"}, origin="another").gone == 0
    report = feeder.sync(target, {"a": "One", "b": "Two"})
    assert (report.unchanged, report.gone) == (2, 1)
    assert [one.key for one in Ledger(feeder.ledger).gone()] == ["c"]
    assert feeder.sync(target, texts).gone == 0
