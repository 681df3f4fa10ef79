"""Advice names what whoever reads it can change, wherever the error shows."""

import asyncio
import contextlib
import json
import re
from pathlib import Path
from secrets import token_hex
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from calls import KEY
from knowledge_bot import AsyncClient, Client, KnowledgeBotError
from knowledge_bot.cli import main
from knowledge_bot.testing import MemoryService

URL = "https://service.test"


@pytest.fixture
def service(monkeypatch, tmp_path):
    """A service, out of reach of the settings of whoever tests."""
    monkeypatch.setenv("KBOT_CONFIG", str(tmp_path / "config.toml"))
    for name in ("KNOWLEDGE_BOT_API_KEY", "KNOWLEDGE_BOT_BASE_URL", "KBOT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    with MemoryService(bots={"bot_1": {}}, collections=["col_1"]).standing_in() as running:
        yield running


def by_argument(_, __):
    with Client(KEY, URL) as client:
        client.send_message(bot_id="bot_1", content="When?")


def by_variable(monkeypatch, _):
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", KEY)
    with Client(base_url=URL) as client:
        client.send_message(bot_id="bot_1", content="When?")


def kept(tmp_path):
    (tmp_path / "config.toml").write_text(f'[office]\nbase_url = "{URL}"\napi_key = "{KEY}"\n')
    (tmp_path / "config.toml").chmod(0o600)


def by_profile(_, tmp_path):
    kept(tmp_path)
    with Client.from_profile("office") as client:
        client.send_message(bot_id="bot_1", content="When?")


def kbot(monkeypatch, *arguments):
    done = CliRunner().invoke(main, arguments, prog_name="kbot")
    raise KnowledgeBotError(done.stderr.removeprefix("Error: "))


def kbot_by_profile(monkeypatch, tmp_path):
    kept(tmp_path)
    kbot(monkeypatch, "--profile", "office", "ask", "bot_1", "When?")


def kbot_by_variable(monkeypatch, _):
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", KEY)
    kbot(monkeypatch, "--base-url", URL, "ask", "bot_1", "When?")


def airflow(monkeypatch, _):
    from airflow_knowledge_bot.operators import KnowledgeBotSendMessageOperator

    connection = {"conn_type": "knowledge_bot", "host": URL, "password": KEY}
    monkeypatch.setenv("AIRFLOW_CONN_KB_OFFICE", json.dumps(connection))
    task = KnowledgeBotSendMessageOperator(
        task_id="ask", bot_id="bot_1", content="When?", knowledge_bot_conn_id="kb_office"
    )
    task.execute({"ti": SimpleNamespace(xcom_push=print)})


def langchain(_, __):
    from langchain_knowledge_bot import ChatKnowledgeBot

    address = f"https://{token_hex(4)}.test"  # its clients are shared, by their addresses
    ChatKnowledgeBot(bot_id="bot_1", api_key=KEY, base_url=address).invoke("When?")


def llama_index(_, __):
    from llama_index_knowledge_bot import KnowledgeBotLLM

    KnowledgeBotLLM(bot_id="bot_1", client=Client(KEY, URL)).complete("When?")


def mcp(_, __):
    from mcp import Client as McpClient

    from knowledge_bot_gateway import Upstream, create_mcp_server

    async def ask():
        async with McpClient(create_mcp_server(Upstream(URL, KEY))) as client:
            given = {"bot": "bot_1", "question": "When?"}
            return await client.call_tool("ask_bot", given)

    raise KnowledgeBotError(asyncio.run(ask()).content[0].text)


# What each surface may name of a key, and of what lists the bots; None: it gives no advice.
SURFACES = {
    by_argument: ("api_key=", "list_bots()"),
    by_variable: ("KNOWLEDGE_BOT_API_KEY", "list_bots()"),
    by_profile: ("profile office", "list_bots()"),
    kbot_by_profile: ("profile office", "`kbot bots`"),
    kbot_by_variable: ("KNOWLEDGE_BOT_API_KEY", "`kbot bots`"),
    airflow: ("password of the connection 'kb_office'", "list_bots()"),
    langchain: ("api_key=", "list_bots()"),
    llama_index: ("api_key=", "list_bots()"),
    mcp: (None, None),
}
KEYS = {"api_key=", "KNOWLEDGE_BOT_API_KEY", "profile office", "connection 'kb_office'"}
LISTS = {"list_bots()", "`kbot bots`", "kbot "}


def said_by(surface, monkeypatch, tmp_path):
    with pytest.raises(Exception, match=r".") as raised:
        surface(monkeypatch, tmp_path)
    assert KEY not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize("surface", SURFACES, ids=lambda each: each.__name__)
def test_a_refused_key_is_named_by_where_it_is(service, monkeypatch, tmp_path, surface):
    service.fail_next(401, times=None)
    said, wanted = said_by(surface, monkeypatch, tmp_path), SURFACES[surface][0]
    assert "401" in said
    assert wanted is None or wanted in said
    assert not [key for key in KEYS if key in said and key not in (wanted or "")]


@pytest.mark.parametrize("surface", SURFACES, ids=lambda each: each.__name__)
def test_what_lists_the_bots_is_named_as_it_is_called_there(
    service, monkeypatch, tmp_path, surface
):
    service.fail_next(
        400, code="unknown_bot", times=None, where=lambda request: request.path == "/messages"
    )
    said, wanted = said_by(surface, monkeypatch, tmp_path), SURFACES[surface][1]
    assert wanted is None or wanted in said
    others = [one for one in LISTS if one not in (wanted or "") and one in said]
    assert not [one for one in others if wanted is None or one not in wanted]


def test_a_wrong_id_on_the_command_line_is_advised_by_its_commands(service, monkeypatch, tmp_path):
    said = said_by(
        lambda *_: kbot(monkeypatch, "--base-url", URL, "conversations", "guide"),
        monkeypatch,
        tmp_path,
    )
    assert "`kbot bots` lists them" in said
    with pytest.raises(KnowledgeBotError, match=r"list_bots\(\) lists them"):
        Client(KEY, URL).list_conversations("guide")


def test_an_error_keeps_its_words_between_processes(service):
    import pickle

    service.fail_next(401)
    with Client(KEY, URL) as client, pytest.raises(KnowledgeBotError) as raised:
        client.list_bots()
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


# What would be there twice -----------------------------------------------------------------------

TEXTS = {f"note {number}": f"Locker {number} is open." for number in range(4)}


def feeding_by_python(_, __, **given):
    from knowledge_bot.ingest import IncompleteIngestionError, Text, ingest

    items = [Text(name=name, content=text) for name, text in TEXTS.items()]
    with Client(KEY, URL) as client:
        report = ingest(client, items, collections="col_1", origin="other", **given)
    if not report.ok:
        raise IncompleteIngestionError(report)


def feeding_by_kbot(monkeypatch, tmp_path, **given):
    for name, text in TEXTS.items():
        (tmp_path / "notes").mkdir(exist_ok=True)
        (tmp_path / "notes" / name).with_suffix(".txt").write_text(text)
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", KEY)
    options = ["--anyway"] if given else []
    place = ["folder", str(tmp_path / "notes"), "--collection", "col_1"]
    kbot(monkeypatch, "--base-url", URL, "ingest", *place, *options)


def feeding_by_airflow(monkeypatch, _, **given):
    from airflow_knowledge_bot.operators import KnowledgeBotIngestOperator

    connection = {"conn_type": "knowledge_bot", "host": URL, "password": KEY}
    monkeypatch.setenv("AIRFLOW_CONN_KB_OFFICE", json.dumps(connection))
    task = KnowledgeBotIngestOperator(
        task_id="feed",
        knowledge_bot_conn_id="kb_office",
        origin=[{"name": name, "content": text} for name, text in TEXTS.items()],
        origin_name="other",
        collections="col_1",
        **given,
    )
    task.execute({"ti": SimpleNamespace(xcom_push=print)})


def feeding_by_langchain(_, __, **given):
    from langchain_core.documents import Document

    from langchain_knowledge_bot import KnowledgeBotCollection

    collection = KnowledgeBotCollection(collections="col_1", client=Client(KEY, URL), **given)
    collection.add_documents(
        [
            Document(id=name, page_content=text, metadata={"source": name})
            for name, text in TEXTS.items()
        ]
    )


def feeding_by_llama_index(_, __, **given):
    from llama_index.core import Document
    from llama_index.core.ingestion import IngestionPipeline

    from llama_index_knowledge_bot import CollectionSink

    sink = CollectionSink("col_1", client=Client(KEY, URL), **given)
    IngestionPipeline(transformations=[sink]).run(
        documents=[
            Document(text=text, id_=name, metadata={"file_name": name})
            for name, text in TEXTS.items()
        ]
    )


@pytest.mark.parametrize(
    ("feeding", "named", "others"),
    [
        (feeding_by_python, ("anyway=True", "(origin=)", "(rename_origin())"), "`--"),
        (
            feeding_by_kbot,
            (": --anyway", "(--origin)", "(`kbot sources rename-origin`)"),
            "anyway=True",
        ),
        (feeding_by_airflow, ("anyway=True", "origin_name=", "(rename_origin())"), "kbot "),
        (feeding_by_langchain, ("anyway=True", "(origin=)", "(rename_origin())"), "`--"),
        (feeding_by_llama_index, ("anyway=True", "(origin=)", "(rename_origin())"), "`--"),
    ],
)
def test_who_may_feed_twice_is_told_by_what_they_can_give_and_can_give_it(
    monkeypatch, tmp_path, feeding, named, others
):
    monkeypatch.setenv("KBOT_CONFIG", str(tmp_path / "config.toml"))
    memory = MemoryService(collections=["col_1"], extensions={"sources", "sync"})
    with memory.standing_in() as service, Client(KEY, URL) as client:
        from knowledge_bot.ingest import Text, ingest

        names = [*TEXTS, *(f"{name}.txt" for name in TEXTS)]
        items = [Text(name=name, content="x") for name in names]
        ingest(client, items, collections="col_1", origin="first")
        said = said_by(feeding, monkeypatch, tmp_path)
        assert not [each for each in named if each not in said]
        assert others not in said
        before = len(service.sources)
        with contextlib.suppress(KnowledgeBotError):  # what the command says then
            feeding(monkeypatch, tmp_path, anyway=True)
        assert len(service.sources) == before + len(TEXTS)


# What is given in another's place -----------------------------------------------------------------


def by_position(name):
    def make():
        import knowledge_bot
        from knowledge_bot import checks, ingest

        home = next(one for one in (knowledge_bot, ingest, checks) if hasattr(one, name))
        getattr(home, name)("a", "b")

    return make


def awaiting_where_blocking_is_wanted():
    from llama_index_knowledge_bot import KnowledgeBotLLM

    KnowledgeBotLLM(bot_id="bot_1", client=AsyncClient(KEY, URL))


def a_time_of_the_command_line():
    from airflow_knowledge_bot.tasks import as_number

    as_number("wait_ready", "10m", "a number of seconds, or a timedelta")


def passage_that_is_not_there():
    from mcp import Client as McpClient

    from knowledge_bot_gateway import Upstream, create_mcp_server

    async def fetch():
        memory = MemoryService(
            bots={"bot_1": {}}, collections=["col_1"], extensions={"sources", "passages"}
        )
        with memory.standing_in():
            async with McpClient(create_mcp_server(Upstream(URL, KEY))) as client:
                return await client.call_tool("fetch", {"id": "nowhere"})

    raise KnowledgeBotError(asyncio.run(fetch()).content[0].text)


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (by_position("Text"), "by name: Text(name=…, content=…)"),
        (by_position("WebPage"), "by name: WebPage(name=…, url=…)"),
        (by_position("File"), "by name: File(path=…)"),
        (by_position("Header"), "by name: Header(name=…, value=…)"),
        (by_position("Question"), "by name: Question(ask=…)"),
        (awaiting_where_blocking_is_wanted, "belongs into async_client="),
        (a_time_of_the_command_line, "a number of seconds, or a timedelta, not '10m'"),
        (passage_that_is_not_there, "`search` finds them"),
    ],
)
def test_a_mistake_is_answered_with_what_to_give(mistake, said):
    with pytest.raises(Exception, match=re.escape(said)):
        mistake()


# What is said of a profile, which `kbot login` keeps.
OF_PROFILES = ("_profiles.py", "_configuration.py", "_client.py")


def test_nothing_that_a_task_a_notebook_or_a_server_may_show_names_a_command():
    """`kbot` has sentences of its own, and the parts of a program that is run by it as well."""
    told = (Path(__file__).parent / "words.txt").read_text(encoding="utf-8")
    parts = [each.partition("\n") for each in re.split(r"^# ", told, flags=re.MULTILINE)[1:]]
    shared = ("airflow_", "knowledge_bot/", "langchain_", "llama_index_")
    named = [
        f"{file}: {line}"
        for file, _, lines in parts
        if file.startswith(shared) and not file.startswith("knowledge_bot/cli/")
        if not file.endswith(OF_PROFILES)
        for line in lines.splitlines()
        if re.search(r"\bkbot [a-z]", line)
    ]
    assert not named, "\n".join(named)
