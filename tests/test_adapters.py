"""What the adapters of LangChain and LlamaIndex have in common: imports, and the retriever."""

import asyncio
import subprocess
import sys
import threading
import time
import traceback
from importlib import import_module

import pytest

from calls import KEY, MESSAGE
from knowledge_bot import (
    AuthenticationError,
    BadRequestError,
    Client,
    ConfigurationError,
    ConnectionFailedError,
    ConnectionLostError,
    Delivery,
    PaymentRequiredError,
    RateLimitError,
    RequestTimeoutError,
    ServerError,
    UnexpectedResponseError,
)
from scripted_server import answer, close, silence, then

PACKAGES = ["langchain_knowledge_bot", "llama_index_knowledge_bot"]
OTHERS = {
    "langchain_knowledge_bot": ("airflow", "fastapi", "langchain", "langgraph", "llama_index"),
    "llama_index_knowledge_bot": ("airflow", "fastapi", "langchain", "langchain_core", "langgraph"),
}
QUESTION = "When do you open?"
BOTS = ["bot_1", "bot_2", "bot_3"]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_where_no_other_framework_is_installed(package):
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({OTHERS[package]})); "
        f"from {package} import *; print(KnowledgeBotRetriever.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "KnowledgeBotRetriever\n", done.stderr


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_documented(package):
    module = import_module(package)
    for name in module.__all__:
        assert getattr(module, name).__doc__


# The retriever ------------------------------------------------------------------------------------


@pytest.fixture(params=PACKAGES)
def retriever_of(request):
    """`retriever_of(server, *bots, **options)`: a retriever; the options are its client's."""
    cls = import_module(request.param).KnowledgeBotRetriever

    def make(server, *bots, drop_refusals=False, **options):
        client = Client(KEY, server.url, **options)
        return cls(bot_ids=list(bots or BOTS), client=client, drop_refusals=drop_refusals)

    return make


@pytest.fixture(params=["sync", "async"])
def retrieve(request):
    """`retrieve(retriever, question)`: the answers of bots, as pairs of their ids and texts."""

    def run(retriever, question):
        is_langchain = hasattr(retriever, "invoke")
        blocking, awaited = ("invoke", "ainvoke") if is_langchain else ("retrieve", "aretrieve")
        if request.param == "sync":
            found = getattr(retriever, blocking)(question)
        else:
            found = asyncio.run(getattr(retriever, awaited)(question))
        texts = [one.page_content if is_langchain else one.text for one in found]
        return list(zip((one.metadata["bot_id"] for one in found), texts, strict=True))

    return run


def at_once(*texts):
    """Replies that are only given when all their requests have arrived."""
    barrier = threading.Barrier(len(texts))
    bodies = [
        {**MESSAGE, "id": f"msg_{number}", "answer": text} for number, text in enumerate(texts)
    ]
    return [then(lambda _: barrier.wait(timeout=10), answer(body=body)) for body in bodies]


def asked(server):
    return [request.json()["value"]["bot_id"] for request in server.requests]


def test_several_bots_are_asked_at_once_and_answer_in_their_order(retriever_of, retrieve, scripted):
    texts = ["Answer 1.", "Answer 2.", "Answer 3."]
    server = scripted(*at_once(*texts))
    found = retrieve(retriever_of(server), QUESTION)
    assert [bot for bot, _ in found] == BOTS
    assert dict(found) == dict(zip(asked(server), texts, strict=True))


def test_a_bot_named_twice_is_asked_once(retriever_of, retrieve, scripted):
    server = scripted(answer(body=MESSAGE))
    assert retrieve(retriever_of(server, "bot_1", "bot_1"), QUESTION) == [("bot_1", "At nine.")]
    assert asked(server) == ["bot_1"]


@pytest.mark.parametrize(("bot", "question"), [("col_1", QUESTION), ("bot_1", " ")])
def test_what_cannot_be_asked_is_not_sent(retriever_of, retrieve, scripted, bot, question):
    server = scripted(answer(body=MESSAGE))
    with pytest.raises(ConfigurationError):
        retrieve(retriever_of(server, bot), question)
    assert server.requests == []


def test_refusals_are_left_out_on_demand(retriever_of, retrieve, scripted):
    texts = ["At nine.", "I could not find that.", "Sorry, I cannot answer that."]
    server = scripted(*at_once(*texts), *at_once(*texts))
    assert len(retrieve(retriever_of(server), QUESTION)) == 3
    kept = retrieve(retriever_of(server, drop_refusals=True), QUESTION)
    assert [text for _, text in kept] == ["At nine."]


@pytest.mark.parametrize(
    ("reply", "error", "delivery"),
    [
        (answer(400, {"code": "bad", "message": "no"}), BadRequestError, Delivery.REFUSED),
        (answer(401, {"code": "key", "message": "no"}), AuthenticationError, Delivery.REFUSED),
        (answer(402, {"code": "quota", "message": "no"}), PaymentRequiredError, Delivery.REFUSED),
        (answer(429), RateLimitError, Delivery.REFUSED),
        (answer(500), ServerError, Delivery.UNKNOWN),
        (answer(body={"id": "msg_1"}), UnexpectedResponseError, Delivery.UNKNOWN),
        (close, ConnectionLostError, Delivery.UNKNOWN),
        (silence, RequestTimeoutError, Delivery.UNKNOWN),
    ],
    ids=["400", "401", "402", "429", "500", "unreadable", "closed", "silent"],
)
def test_an_error_says_whether_the_bot_was_asked_and_nothing_is_sent_again(  # noqa: PLR0917
    retriever_of, retrieve, scripted, reply, error, delivery
):
    server = scripted(reply)
    timeout = 0.5 if reply is silence else 30
    with pytest.raises(error) as caught:
        retrieve(retriever_of(server, "bot_1", timeout=timeout, max_retries=0), QUESTION)
    assert caught.value.delivery is delivery
    assert len(server.requests) == 1
    assert KEY not in "".join(traceback.format_exception(caught.value))


def test_a_service_that_is_down_is_an_error_with_advice(retriever_of, retrieve, scripted):
    server = scripted(answer(body=MESSAGE))
    server.stop()
    with pytest.raises(ConnectionFailedError, match="Check the base URL"):
        retrieve(retriever_of(server, "bot_1", max_retries=0), QUESTION)


def test_one_failing_bot_fails_the_question_once_all_have_answered(
    retriever_of, retrieve, scripted
):
    answered = []

    def late(connection):
        time.sleep(0.2)
        answered.append(connection)
        answer(body=MESSAGE)(connection)

    server = scripted(answer(402), late)
    with pytest.raises(PaymentRequiredError):
        retrieve(retriever_of(server), QUESTION)
    assert len(answered) == 2
    assert sorted(asked(server)) == BOTS


# The passages that an answer names ----------------------------------------------------------------

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
            "cited": [{"id": "pas_1", "text": "We open at nine."}, {"no": "passage"}],
        }
    ],
}


def test_the_passages_of_an_answer_are_retrieved_where_none_can_be_searched(
    retriever_of, retrieve, scripted
):
    server = scripted(answer(body=CITING))
    assert retrieve(retriever_of(server, "bot_1"), QUESTION) == [("bot_1", "We open at nine.")]


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
