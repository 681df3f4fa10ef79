"""What is promised for every class of LangChain and LlamaIndex that asks a bot or feeds one.

What only one framework knows (its events, its callbacks, its own suites) is tested in the package's
folder; which conversation a list goes on in, in `knowledge_bot/test_conversations.py`.
"""

import asyncio
import copy
import pickle
import re
import subprocess
import sys
import threading
import traceback
from dataclasses import dataclass
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from calls import KEY, MESSAGE, SOURCE, passage
from faces import FACES, LANGCHAIN, LLAMA_INDEX, PACKAGES, QUESTION
from knowledge_bot import (
    AsyncClient,
    AuthenticationError,
    Bot,
    Client,
    ConfigurationError,
    ConnectionLostError,
    Delivery,
    KnowledgeBotError,
    ServerError,
)
from knowledge_bot.adapters.tools import tool_name, tool_names
from knowledge_bot.ingest import IncompleteIngestionError, Ledger
from scripted_server import answer, close, then

OTHERS = {
    "langchain_knowledge_bot": ("airflow", "fastapi", "langchain", "langgraph", "llama_index"),
    "llama_index_knowledge_bot": ("airflow", "fastapi", "langchain", "langchain_core", "langgraph"),
}
ELSEWHERE = "https://service.example"
BOTS = ["bot_1", "bot_2", "bot_3"]
awaited_or_not = pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_where_no_other_framework_is_installed(package):
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({OTHERS[package]})); "
        f"from {package} import *; print(KnowledgeBotRetriever.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "KnowledgeBotRetriever\n", done.stderr


def test_who_asks_imports_no_ingestion():
    code = (
        "import sys; from langchain_knowledge_bot import ChatKnowledgeBot; "
        "from llama_index_knowledge_bot import KnowledgeBotQueryEngine; "
        "ChatKnowledgeBot(bot_id='bot_1', api_key='k', base_url='https://service.test'); "
        "print([name for name in sys.modules if name.startswith('knowledge_bot.ingest')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# Each class ---------------------------------------------------------------------------------------


@pytest.fixture(params=FACES)
def face(request):
    return FACES[request.param]


def sent_by(server):
    return [request.json()["value"] for request in server.requests]


def keys_of(server):
    return {request.headers["x-api-key"] for request in server.requests}


def told(error):
    """The client's error; a tool of LangChain raises one of the framework's, which has it."""
    return error if isinstance(error, KnowledgeBotError) else error.__cause__


@awaited_or_not
def test_a_question_is_one_message_and_its_answer_says_where_it_came_from(face, scripted, awaited):
    said = {**MESSAGE, "answer": "At nine.\n\nSources: hours.md, rules.md"}
    server = scripted(answer(body={"value": said}))
    found = face.ask(face.make(Client(KEY, server.url)), awaited=awaited)
    assert face.text(found) == said["answer"], "as the service wrote it"
    expected = {
        "bot_id": "bot_1",
        "conversation_id": "conv_1",
        "message_id": "msg_1",
        "created_at": MESSAGE["created_at"],
        "sources": ["hours.md", "rules.md"],
        "found": True,
    }
    assert face.fields(found).items() >= expected.items()
    assert sent_by(server) == [{"bot_id": "bot_1", "content": QUESTION}]


@pytest.mark.parametrize(
    ("said", "sources", "found"),
    [
        ({"answer": "I could not find that."}, [], False),
        ({"answer": "Nichts gefunden.", "sources": [], "found": False}, [], False),
        ({"sources": [{"name": "Hours, old.md"}, {"name": "b"}]}, ["Hours, old.md", "b"], True),
    ],
    ids=["in words", "as data", "names with commas"],
)
def test_an_answer_says_whether_anything_was_found(face, scripted, said, sources, found):
    server = scripted(answer(body={**MESSAGE, **said}))
    fields = face.fields(face.ask(face.make(Client(KEY, server.url))))
    assert (fields["sources"], fields["found"]) == (sources, found)


@awaited_or_not
@pytest.mark.parametrize(
    ("reply", "error", "delivery"),
    [
        (
            answer(401, {"code": "key", "message": f"no such key {KEY}"}),
            AuthenticationError,
            Delivery.REFUSED,
        ),
        (answer(500), ServerError, Delivery.UNKNOWN),
        (close, ConnectionLostError, Delivery.UNKNOWN),
    ],
    ids=["401", "500", "closed"],
)
def test_an_error_says_whether_the_bot_was_asked_and_nothing_is_sent_again(  # noqa: PLR0917
    face, scripted, reply, error, delivery, awaited
):
    server = scripted(reply)
    client = Client(KEY, server.url, max_retries=0)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - its class is looked at below
        face.ask(face.make(client), awaited=awaited)
    assert isinstance(told(caught.value), error)
    assert told(caught.value).delivery is delivery
    assert len(server.requests) == 1
    assert KEY not in "".join(traceback.format_exception(caught.value))


@awaited_or_not
def test_an_empty_question_is_not_sent(face, scripted, awaited):
    server = scripted(answer(body=MESSAGE))
    with pytest.raises(Exception, match="empty"):
        face.ask(face.make(Client(KEY, server.url)), " ", awaited=awaited)
    assert server.requests == []


def test_without_a_client_the_environment_names_the_service(face, scripted, monkeypatch):
    with pytest.raises(ValueError, match="KNOWLEDGE_BOT_BASE_URL"):
        face.make()
    server = scripted(answer(body=MESSAGE))
    monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", server.url)
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", KEY)
    face.ask(face.make())
    assert keys_of(server) == {KEY}


def test_an_own_transport_is_never_gone_around(face, scripted):
    server = scripted(answer(body=MESSAGE))
    with httpx.Client(headers={"X-Gateway": "north"}) as http_client:
        client = Client(KEY, server.url, http_client=http_client)
        assert face.ask(face.make(client))
        with pytest.raises((ConfigurationError, ValueError), match="async_client="):
            face.ask(face.make(client), awaited=True)
        both = face.make(client, async_client=AsyncClient("other-key", server.url))
        assert face.ask(both, awaited=True)
    assert keys_of(server) == {KEY, "other-key"}
    assert len(server.requests) == 2


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
def test_a_duplicate_asks_with_the_same_key_and_not_the_environments(
    face, scripted, monkeypatch, duplicate, awaited
):
    monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", ELSEWHERE)
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", "key-of-another-account")
    server = scripted(answer(body=MESSAGE))
    original = face.make(Client(KEY, server.url))
    face.ask(duplicate(original), awaited=awaited)
    face.ask(original, awaited=awaited)
    face.ask(duplicate(original), awaited=awaited)
    assert keys_of(server) == {KEY}
    assert len(server.requests) == 3


def test_the_key_is_in_no_representation(face):
    asking = face.make(Client(KEY, ELSEWHERE))
    shown = [repr(asking), str(asking), repr(vars(asking))]
    shown.append(repr(getattr(asking, "__pydantic_private__", "")))
    assert "bot_1" in shown[0]
    assert KEY not in "".join(shown)


async def test_awaited_questions_go_out_together(face, scripted):
    together = 1 if "Engine" in face.name and face.ways[0] == "chat" else 30
    barrier = threading.Barrier(together)
    server = scripted(then(lambda _: barrier.wait(timeout=20), answer(body=MESSAGE)))
    asking = face.make(Client(KEY, server.url))
    found = await asyncio.gather(*(face.aask(asking) for _ in range(30)))
    assert [face.text(one) for one in found] == ["At nine."] * 30


async def test_a_blocking_call_works_inside_a_running_loop(face, scripted):
    asking = face.make(Client(KEY, scripted(answer(body=MESSAGE)).url))
    assert face.text(face.ask(asking)) == face.text(await face.aask(asking)) == "At nine."


# Retrievers ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """A document or a node."""

    id: str
    text: str
    fields: dict[str, Any]


@pytest.fixture(params=PACKAGES)
def retriever_of(request):
    """`retriever_of(server, *bots, **options)`: a retriever, whose limit is `limit`."""
    cls = import_module(request.param).KnowledgeBotRetriever
    limited = "k" if request.param == LANGCHAIN else "similarity_top_k"

    def make(server, *bots, limit=None, **options):
        client = Client(KEY, server.url, max_retries=0)
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


def at_once(*texts):
    """Replies that are only given when all their requests have arrived."""
    barrier = threading.Barrier(len(texts))
    bodies = [
        {**MESSAGE, "id": f"msg_{number}", "answer": text} for number, text in enumerate(texts)
    ]
    return [then(lambda _: barrier.wait(timeout=10), answer(body=body)) for body in bodies]


def asked(server):
    return [value["bot_id"] for value in sent_by(server)]


def test_several_bots_are_asked_at_once_and_answer_in_their_order(retriever_of, retrieve, scripted):
    texts = ["Answer 1.", "Answer 2.", "Answer 3."]
    server = scripted(*at_once(*texts))
    found = bots_and_texts(retrieve(retriever_of(server)))
    assert [bot for bot, _ in found] == BOTS
    assert dict(found) == dict(zip(asked(server), texts, strict=True))


def test_a_bot_named_twice_is_asked_once(retriever_of, retrieve, scripted):
    server = scripted(answer(body=MESSAGE))
    found = retrieve(retriever_of(server, "bot_1", "bot_1"))
    assert bots_and_texts(found) == [("bot_1", "At nine.")]
    assert asked(server) == ["bot_1"]


def test_what_is_no_bot_is_not_asked(retriever_of, retrieve, scripted):
    server = scripted(answer(body=MESSAGE))
    with pytest.raises(ConfigurationError):
        retrieve(retriever_of(server, "col_1"))
    assert server.requests == []


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize(
    "bots",
    [{}, {"bot_id": "bot_1", "bot_ids": ["bot_2"]}, {"bot_ids": []}, {"bot_ids": "bot_1"}],
    ids=["none", "both", "empty", "text"],
)
def test_one_bot_or_several_are_named(package, bots):
    with pytest.raises(ValueError, match="bot"):
        import_module(package).KnowledgeBotRetriever(**bots, client=Client(KEY, ELSEWHERE))


def test_refusals_are_left_out_on_demand(retriever_of, retrieve, scripted):
    texts = ["At nine.", "I could not find that.", "Sorry, I cannot answer that."]
    server = scripted(*at_once(*texts), *at_once(*texts))
    assert len(retrieve(retriever_of(server))) == 3
    (kept,) = retrieve(retriever_of(server, drop_refusals=True))
    assert kept.text == "At nine."


# Passages -----------------------------------------------------------------------------------------


def test_passages_are_found_and_no_bot_is_asked(retriever_of, retrieve, searched):
    server = searched(bot_1=[passage(1, url="https://h.example/")])
    fields = {
        "bot_id": "bot_1",
        "source": "1.md",
        "source_id": "src_1",
        "url": "https://h.example/",
        "revision": "r1",
        "passage_id": "pas_1",
        "score": 1.0,
        "found": True,
    }
    found = retrieve(retriever_of(server, "bot_1"))
    assert found == [Found("pas_1", "Passage 1.", fields)]
    (request,) = server.requests
    assert request.path == "/public/v1/search"
    assert request.json() == {"value": {"query": QUESTION, "limit": 5, "bot_id": "bot_1"}}


def test_the_best_of_each_bot_come_in_turn_and_each_once(retriever_of, retrieve, searched):
    server = searched(
        bot_1=[passage(1), passage(2), passage(3)],
        bot_2=[passage(2), passage(4, found=False)],
        bot_3=[],
    )
    found = retrieve(retriever_of(server))
    assert [one.id for one in found] == ["pas_1", "pas_2", "pas_4", "pas_3"]
    assert [one.fields["bot_id"] for one in found] == ["bot_1", "bot_2", "bot_2", "bot_1"]
    assert [one.id for one in retrieve(retriever_of(server, limit=2))] == ["pas_1", "pas_2"]
    assert server.requests[-1].json()["value"]["limit"] == 2
    about = retrieve(retriever_of(server, drop_refusals=True))
    assert [one.id for one in about] == ["pas_1", "pas_2", "pas_3"]


CITING = {
    **MESSAGE,
    "answer": "At nine.\n\nSources: hours.md",
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
    retriever_of, retrieve, scripted
):
    server = scripted(answer(body=CITING))
    found = retrieve(retriever_of(server, "bot_1"))
    assert bots_and_texts(found) == [("bot_1", "We open at nine.")]


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
def test_an_answer_cites_its_passages(cited_by, scripted):
    with Client(KEY, scripted(answer(body=CITING)).url) as client:
        assert cited_by(client) == ("hours.md", "https://house.test/hours", "We open at nine.")


# The question of a prompt -------------------------------------------------------------------------

PROMPT = "Answer briefly.\nQuestion: When do you open?\nContext: The mill.\nAnswer:"


def text_behind_the_label(text):
    return text.partition("Question: ")[2].partition("\nContext:")[0]


def langchain_model(client, question, *, awaited):
    from langchain_knowledge_bot import ChatKnowledgeBot

    choose = question and (lambda messages: question(messages[-1].text))
    model = ChatKnowledgeBot(bot_id="bot_1", client=client, question=choose)
    return asyncio.run(model.ainvoke(PROMPT)) if awaited else model.invoke(PROMPT)


def llama_index_prompt(client, question, *, awaited):
    from llama_index_knowledge_bot import KnowledgeBotLLM

    choose = question and (lambda messages: question(messages[-1].content))
    llm = KnowledgeBotLLM("bot_1", client=client, question=choose)
    return asyncio.run(llm.acomplete(PROMPT)) if awaited else llm.complete(PROMPT)


def llama_index_chat(client, question, *, awaited):
    from llama_index.core.llms import ChatMessage

    from llama_index_knowledge_bot import KnowledgeBotLLM

    choose = question and (lambda messages: question(messages[-1].content))
    llm, asked = KnowledgeBotLLM("bot_1", client=client, question=choose), [ChatMessage(PROMPT)]
    return asyncio.run(llm.achat(asked)) if awaited else llm.chat(asked)


@pytest.fixture(params=[langchain_model, llama_index_prompt, llama_index_chat])
def prompted(request):
    return request.param


@pytest.mark.parametrize("awaited", [False, True])
def test_a_function_of_the_users_finds_the_question_in_a_prompt(prompted, scripted, awaited):
    server = scripted(answer(body=MESSAGE), answer(body=MESSAGE))
    with Client(KEY, server.url) as client:
        prompted(client, text_behind_the_label, awaited=awaited)
        prompted(client, None, awaited=awaited)
    contents = [request.json()["value"]["content"] for request in server.requests]
    assert contents == [QUESTION, PROMPT]


@pytest.mark.parametrize("found", ["", " ", None, 5])
def test_a_function_that_finds_no_question_is_an_error_before_anything_is_sent(
    prompted, scripted, found
):
    server = scripted(answer(body=MESSAGE))
    with Client(KEY, server.url) as client, pytest.raises(ConfigurationError) as caught:
        prompted(client, lambda _: found, awaited=False)
    assert caught.value.argument == "question"
    assert server.requests == []


# Tools --------------------------------------------------------------------------------------------

NAMED = {
    "bot_1": ("Handbook", "ask_handbook"),
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
def test_a_bot_has_the_same_name_as_a_tool_of_every_framework(names_of, scripted):
    bots = [{"id": bot_id, "name": name} for bot_id, (name, _) in NAMED.items()]
    server = scripted(answer(body={"data": bots}))
    with Client(KEY, server.url) as client:
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
    ledger: Path

    def make(self, server, **options):
        name = "KnowledgeBotCollection" if self.is_langchain else "CollectionSink"
        cls = getattr(import_module(LANGCHAIN if self.is_langchain else LLAMA_INDEX), name)
        client = Client(KEY, server.url, max_retries=0)
        return cls(collections="col_1", ledger=self.ledger, client=client, **options)

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
def feeder(request, tmp_path):
    package, how = request.param
    return Feeder(package == LANGCHAIN, how == "async", tmp_path / "ledger.db")


def contents(server):
    return [value["content"] for value in sent_by(server)]


def creating(**failing):
    """A service of sources that meets some texts with other replies."""
    numbers = count(1)

    def reply_to(request):
        if request.method == "GET":  # a ping
            return answer(body="pong")
        reply = failing.get(request.json()["value"]["content"])
        return reply or answer(body={**SOURCE, "id": f"src_{next(numbers)}"})

    return {"reply_to": reply_to}


def test_a_document_is_a_source_once_and_a_changed_one_another(feeder, scripted):
    server = scripted(**creating())
    target = feeder.make(server, concurrency=1)
    for _ in range(2):
        feeder.feed(target, a="One", b="Two")
    feeder.feed(target, a="Three", b="Two")
    assert contents(server) == ["One", "Two", "Three"]
    (old,) = Ledger(feeder.ledger).superseded()
    assert (old.key, old.source_id) == ("a", "src_1")


def test_what_was_refused_is_told_after_all_others_and_sent_the_next_time(feeder, scripted):
    failing = {"One": answer(400, {"code": "bad", "message": "no"})}
    server = scripted(**creating(**failing))
    for error in (IncompleteIngestionError, IncompleteIngestionError):
        with pytest.raises(error) as caught:
            feeder.feed(feeder.make(server, concurrency=1), a="One", b="Two")
        assert caught.value.delivery is Delivery.REFUSED
        assert KEY not in str(caught.value)
    assert contents(server) == ["One", "Two", "One"]


def test_an_unknown_outcome_is_held_or_sent_again(feeder, scripted):
    server = scripted(**creating(One=close))
    for on_unknown in ("hold", "hold", "resend"):
        with pytest.raises(IncompleteIngestionError) as caught:
            feeder.feed(feeder.make(server, on_unknown=on_unknown), a="One")
        assert caught.value.delivery is Delivery.UNKNOWN
    sent = [request for request in server.requests if request.method == "POST"]
    assert len(sent) == 2


@pytest.mark.parametrize("broken", [{"half \ud800": "x"}, {"x": "half \ud800"}], ids=["id", "text"])
def test_what_no_source_can_hold_is_told_and_all_others_are_sent(feeder, scripted, broken):
    server = scripted(**creating())
    with pytest.raises(IncompleteIngestionError) as caught:
        feeder.feed(feeder.make(server), a="One", **broken)
    assert caught.value.report.invalid == 1
    assert contents(server) == ["One"]
    str(caught.value).encode()


def test_what_an_origin_no_longer_has_is_gone(feeder, scripted):
    server = scripted(**creating())
    target, texts = feeder.make(server), {"a": "One", "b": "Two", "c": "Three"}
    assert feeder.sync(target, texts).created == 3
    assert feeder.sync(target, {"d": "Four"}, origin="another").gone == 0
    report = feeder.sync(target, {"a": "One", "b": "Two"})
    assert (report.unchanged, report.gone) == (2, 1)
    assert [one.key for one in Ledger(feeder.ledger).gone()] == ["c"]
    assert feeder.sync(target, texts).gone == 0
