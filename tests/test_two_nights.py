"""Two nights over documents that change: what each face feeds, asks and checks after the second."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document as LangChainDocument
from llama_index.core.readers.base import BaseReader
from llama_index.core.schema import Document as LlamaIndexDocument

from faces import FACES, call_of
from in_process import OnAPort
from knowledge_bot import AsyncClient, Client, UnsupportedError
from knowledge_bot.checks import Question, acheck, check
from knowledge_bot.ingest import Ledger, from_rows, ingest
from langchain_knowledge_bot import (
    ChatKnowledgeBot,
    KnowledgeBotCollection,
    KnowledgeBotToolkit,
    acheck_runnable,
    check_runnable,
)
from langchain_knowledge_bot import KnowledgeBotRetriever as LangChainRetriever
from llama_index_knowledge_bot import (
    CollectionSink,
    KnowledgeBotQueryEngine,
    KnowledgeBotToolSpec,
    acheck_query_engine,
    bot_tools,
    check_query_engine,
)

FIRST = {"hours": "The library opens at nine.", "fees": "A late fee is two euros a week."}
SECOND = {"hours": "The library opens at ten."}

OPENS, FEE = "When does the library open?", "What is a late fee?"


class Loader(BaseLoader):
    def __init__(self, texts):
        self.texts = texts

    def lazy_load(self):
        for name, text in self.texts.items():
            yield LangChainDocument(text, id=name, metadata={"source": name})


class Reader(BaseReader):
    def __init__(self, texts):
        self.texts = texts

    def load_data(self):
        texts = self.texts.items()
        return [
            LlamaIndexDocument(text=text, id_=name, metadata={"file_name": name})
            for name, text in texts
        ]


def of_langchain(client, ledger, texts, **how):
    collection = KnowledgeBotCollection(collections="col_1", ledger=ledger, client=client)
    return collection.sync(Loader(texts), **how)


def of_langchain_awaited(client, ledger, texts, **how):
    collection = KnowledgeBotCollection(collections="col_1", ledger=ledger, client=client, **how)
    return asyncio.run(collection.async_sync(Loader(texts)))


def of_llama_index(client, ledger, texts, **how):
    return CollectionSink("col_1", ledger=ledger, client=client).sync(Reader(texts), **how)


def of_rows(client, ledger, texts, **how):
    rows = [{"id": name, "body": text} for name, text in texts.items()]
    items = from_rows(rows, key="id", text="body", origin="handbook")
    return ingest(client, items, collections="col_1", ledger=ledger, **how)


@pytest.fixture(params=[of_langchain, of_langchain_awaited, of_llama_index, of_rows])
def night(request, client, ledger):
    """`night(texts, prune=True)`: what one night's run of a face reports."""
    return lambda texts, **how: request.param(client, ledger, texts, wait_ready=60, **how)


@pytest.fixture
def service():
    with OnAPort(collections={"col_1": "House"}, bots={"bot_1": ["col_1"]}) as service:
        yield service


@pytest.fixture
def client(service):
    with Client(service.api_key, service.base_url) as client:
        yield client


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger.db")


def ask(client, question):
    return client.send_message(bot_id="bot_1", content=question)


def test_after_the_second_night_a_bot_answers_from_what_there_is(night, client, ledger):
    night(FIRST)
    (before,) = client.list_sources(name="hours")
    report = night(SECOND, prune=True)
    assert (report.replaced, report.removed, report.created) == (1, 1, 0)
    assert [one.id for one in client.list_sources()] == [before.id]
    answer = ask(client, OPENS).answer
    assert "ten" in answer
    assert "nine" not in answer
    assert not ask(client, FEE).model_extra["found"]
    assert not [*ledger.gone(), *ledger.superseded()]


def langchain_delete(client, ledger, key):
    collection = KnowledgeBotCollection(collections="col_1", ledger=ledger, client=client)
    return collection.delete([key])


def langchain_adelete(client, ledger, key):
    collection = KnowledgeBotCollection(collections="col_1", ledger=ledger, client=client)
    return asyncio.run(collection.adelete([key]))


def llama_index_delete(client, ledger, key):
    return CollectionSink("col_1", ledger=ledger, client=client).delete_ref_doc(key)


def llama_index_adelete(client, ledger, key):
    sink = CollectionSink("col_1", ledger=ledger, client=client)
    return asyncio.run(sink.adelete_ref_doc(key))


DELETING = [
    (of_langchain, langchain_delete),
    (of_langchain, langchain_adelete),
    (of_llama_index, llama_index_delete),
    (of_llama_index, llama_index_adelete),
]


@pytest.mark.parametrize(("feed", "delete"), DELETING)
def test_what_is_deleted_by_its_id_is_known_no_more(feed, delete, client, ledger):
    feed(client, ledger, FIRST, wait_ready=60)
    delete(client, ledger, "fees")
    assert [one.name for one in client.list_sources()] == ["hours"]
    assert not ask(client, FEE).model_extra["found"]
    delete(client, ledger, "fees")  # fine
    report = feed(client, ledger, FIRST, wait_ready=60)
    assert (report.created, report.unchanged) == (1, 1)
    assert ask(client, FEE).model_extra["found"]


@pytest.mark.parametrize(("feed", "delete"), DELETING)
def test_a_key_that_may_only_write_deletes_nothing_and_says_so(feed, delete, ledger):
    writer = {"name": "feeder", "role": "write", "key": "key-of-the-feeder"}
    with (
        OnAPort(collections={"col_1": "House"}, settings={"keys": [writer]}) as service,
        Client(writer["key"], service.base_url) as client,
    ):
        feed(client, ledger, FIRST)
        with pytest.raises(UnsupportedError, match="manage"):
            delete(client, ledger, "fees")
        assert {one.name for one in client.list_sources()} == {"hours", "fees"}
        assert feed(client, ledger, FIRST).unchanged == 2


# Is it still true? --------------------------------------------------------------------------------


@pytest.fixture
def grown_old(client, ledger):
    """A ledger after two nights, the second of which removed nothing."""
    of_rows(client, ledger, FIRST, wait_ready=60)
    of_rows(client, ledger, SECOND, wait_ready=60)
    return ledger


def of_face(face, *, awaited):
    def metadata_of(client, ledger, question):
        kept = ledger if awaited else str(ledger.database.file)
        return face.fields(face.ask(face.make(client, ledger=kept), question, awaited=awaited))

    return metadata_of


def of_sources_of_a_query_engine(client, ledger, question):
    response = KnowledgeBotQueryEngine("bot_1", client=client, ledger=ledger).query(question)
    (node,) = response.source_nodes
    return node.metadata


def of_langchain_toolkit(client, ledger, question):
    (tool,) = KnowledgeBotToolkit(client=client, ledger=ledger).get_tools()
    return tool.invoke({**call_of(question), "name": tool.name}).artifact


def of_llama_index_tool(client, ledger, question):
    (tool,) = bot_tools(client, ledger=ledger)
    return tool.call(question).raw_output.metadata


def of_llama_index_tool_spec(client, ledger, question):
    return KnowledgeBotToolSpec(client, ledger=ledger).ask_bot("bot_1", question)


def awaited_llama_index_tool_spec(client, ledger, question):
    return asyncio.run(KnowledgeBotToolSpec(client, ledger=ledger).aask_bot("bot_1", question))


ASKING = [
    *(of_face(one, awaited=awaited) for one in FACES.values() for awaited in (False, True)),
    of_sources_of_a_query_engine,
    of_langchain_toolkit,
    of_llama_index_tool,
    of_llama_index_tool_spec,
    awaited_llama_index_tool_spec,
]


@pytest.fixture(scope="module")
def aged(tmp_path_factory):
    """A client, and a ledger after two nights, for tests that change neither."""
    with (
        OnAPort(collections={"col_1": "House"}, bots={"bot_1": ["col_1"]}) as service,
        Client(service.api_key, service.base_url) as client,
    ):
        ledger = Ledger(tmp_path_factory.mktemp("aged") / "ledger.db")
        of_rows(client, ledger, FIRST, wait_ready=60)
        of_rows(client, ledger, SECOND, wait_ready=60)
        yield client, ledger


@pytest.mark.parametrize("metadata_of", ASKING)
def test_an_answer_says_whether_its_sources_are_current(metadata_of, aged):
    client, ledger = aged
    (opens,) = metadata_of(client, ledger, OPENS)["freshness"]
    (fee,) = metadata_of(client, ledger, FEE)["freshness"]
    assert json.loads(json.dumps([opens, fee])) == [opens, fee]
    assert (opens["name"], opens["verdict"]) == ("hours", "current")
    assert (fee["name"], fee["verdict"]) == ("fees", "gone")
    assert {opens["source_id"], fee["source_id"]} == {one.id for one in client.list_sources()}


@pytest.mark.parametrize("metadata_of", ASKING)
def test_an_answer_is_not_lost_with_the_ledger(metadata_of, aged, ledger, caplog):
    client, _ = aged
    assert metadata_of(client, ledger, OPENS)["freshness"] is None
    assert "no ledger" in caplog.text


def test_without_a_ledger_an_answer_says_nothing_of_it(aged):
    client, _ = aged
    assert (
        "freshness"
        not in ChatKnowledgeBot(bot_id="bot_1", client=client).invoke(OPENS).response_metadata
    )
    response = KnowledgeBotQueryEngine("bot_1", client=client).query(OPENS)
    assert "freshness" not in response.metadata


def test_without_a_ledger_none_is_imported():
    code = (
        "import sys; from langchain_knowledge_bot import ChatKnowledgeBot; "
        "from llama_index_knowledge_bot import KnowledgeBotQueryEngine; "
        "ChatKnowledgeBot(bot_id='bot_1', api_key='k', base_url='https://service.test'); "
        "print([name for name in sys.modules if name.startswith('knowledge_bot.ingest')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


QUESTIONS = [
    Question(id="opens", ask=OPENS, contains="ten", fresh=True),
    Question(id="fee", ask=FEE, contains="two euros"),
    Question(id="fresh fee", ask=FEE, fresh=True),
]


def checked(client, service, ledger):
    yield check(client, "bot_1", QUESTIONS, ledger=ledger)
    yield asyncio.run(
        acheck(AsyncClient(service.api_key, service.base_url), "bot_1", QUESTIONS, ledger=ledger)
    )
    model = ChatKnowledgeBot(bot_id="bot_1", client=client, ledger=ledger)
    yield check_runnable(model, QUESTIONS)
    yield asyncio.run(acheck_runnable(model, QUESTIONS))
    yield check_runnable(
        LangChainRetriever(bot_id="bot_1", client=client, ledger=ledger), QUESTIONS
    )
    engine = KnowledgeBotQueryEngine("bot_1", client=client, ledger=ledger)
    yield check_query_engine(engine, QUESTIONS)
    yield asyncio.run(acheck_query_engine(engine, QUESTIONS))


def test_a_check_of_freshness_is_red_until_what_is_gone_is_removed(client, service, grown_old):
    for report in checked(client, service, grown_old):
        assert [one.passed for one in report.results] == [True, True, False]
        assert '"fees" (gone)' in report.results[2].reason
    of_rows(client, grown_old, SECOND, prune=True, wait_ready=60)
    for report in checked(client, service, grown_old):
        assert [one.passed for one in report.results] == [True, False, True]


def test_the_command_line_says_it(service, grown_old, client, tmp_path):
    questions = "".join(f'[[questions]]\nask = "{one}"\nfresh = true\n' for one in (OPENS, FEE))
    (tmp_path / "questions.toml").write_text(questions)

    def kbot(*arguments):
        return subprocess.run(
            [Path(sys.executable).with_name("kbot"), *arguments],
            env={
                "KNOWLEDGE_BOT_BASE_URL": service.base_url,
                "KNOWLEDGE_BOT_API_KEY": service.api_key,
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    asked = kbot("ask", FEE, "--ledger", "ledger.db")
    assert (asked.returncode, "two euros" in asked.stdout) == (0, True)
    assert "fees: gone" in asked.stderr
    assert "gone" not in kbot("ask", FEE).stderr
    assert "hours" not in kbot("ask", OPENS, "--ledger", "ledger.db").stderr
    (known,) = json.loads(kbot("ask", FEE, "--ledger", "ledger.db", "--json").stdout)["freshness"]
    assert (known["name"], known["verdict"]) == ("fees", "gone")
    before = len(client.list_conversations("bot_1"))
    assert kbot("ask", FEE, "--ledger", "elsewhere.db").returncode == 2
    red = kbot("check", "questions.toml", "--ledger", "ledger.db")
    assert (red.returncode, '"fees" (gone)' in red.stdout) == (3, True)
    of_rows(client, grown_old, SECOND, prune=True, wait_ready=60)
    assert kbot("check", "questions.toml", "--ledger", "ledger.db").returncode == 0
    assert kbot("check", "questions.toml", "--ledger", "elsewhere.db").returncode == 2
    assert len(client.list_conversations("bot_1")) == before + 4
