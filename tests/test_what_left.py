"""What left, tried as a user would: each is told in one sentence that there is no such thing."""

import importlib.metadata
import re

import pytest
from click.testing import CliRunner

from knowledge_bot import Client, ConfigurationError
from knowledge_bot.checks import Question, check, load_questions
from knowledge_bot.cli import main
from knowledge_bot.conversations import Conversations, Heads
from knowledge_bot.ingest import ingest

COMMANDS = ["conformance", "man", "search", "completion", "logout", "profiles", "ledger copy a b"]
OPTIONS = {
    "check bot_1 questions.toml": ["--baseline", "--ledger"],
    "ask bot_1 When?": ["--ledger"],
    "mcp": ["--ledger"],
    "gateway": ["--ledger"],
}


@pytest.fixture
def kbot(tmp_path, monkeypatch):
    """`kbot(words)`: what became of a command."""
    monkeypatch.chdir(tmp_path)
    environment = {
        "KBOT_CONFIG": str(tmp_path / "config.json"),
        "KNOWLEDGE_BOT_BASE_URL": "https://service.test",
        "KNOWLEDGE_BOT_API_KEY": "key-of-the-tests",
    }
    (tmp_path / "questions.yaml").write_text("tests: [{vars: {question: 'When?'}}]\n")
    (tmp_path / "fresh.toml").write_text('[[questions]]\nask = "When?"\nfresh = true\n')
    return lambda words: CliRunner().invoke(main, words.split(), env=environment)


def is_one_sentence(done, naming):
    assert done.exit_code == 2, done.output
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert naming in said
    return True


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_that_left_is_none(kbot, words):
    done = kbot(words)
    name = words.split()[1] if words.startswith(("ledger", "serve")) else words
    assert is_one_sentence(done, repr(name))


@pytest.mark.parametrize(
    ("words", "option"), [(words, one) for words, given in OPTIONS.items() for one in given]
)
def test_an_option_that_left_is_none(kbot, words, option):
    assert is_one_sentence(kbot(f"{words} {option} ledger.db"), option)


@pytest.mark.parametrize("file", ["questions.yaml", "fresh.toml"])
def test_questions_in_a_form_that_left_are_refused(kbot, file):
    assert is_one_sentence(kbot(f"check bot_1 {file}"), file)
    with pytest.raises(ConfigurationError, match=file):
        load_questions(file)


def chat_model(**options):
    from langchain_knowledge_bot import ChatKnowledgeBot

    return ChatKnowledgeBot(bot_id="bot_1", api_key="key", base_url="https://b.test", **options)


def llama_index(name):
    def make(**options):
        import llama_index_knowledge_bot

        client = Client("key", "https://b.test")
        return getattr(llama_index_knowledge_bot, name)(bot_id="bot_1", client=client, **options)

    return make


def operator(name, **given):
    def make(**options):
        from airflow_knowledge_bot import operators

        return getattr(operators, name)(task_id="task", **given, **options)

    return make


def conversations(**options):
    return Conversations(Heads(), **options)


def upstream(**options):
    from knowledge_bot_gateway import Upstream

    return Upstream("https://b.test", **options)


def ingested(**options):
    given = {"collections": "col_1", "ledger": ":memory:"}
    return ingest(Client("key", "https://b.test"), [], **given, **options)


ARGUMENTS = [
    (chat_model, {"history": "replay"}),
    (chat_model, {"on_fork": "continue"}),
    (chat_model, {"on_trim": "new"}),
    (chat_model, {"ledger": "ledger.db"}),
    (llama_index("KnowledgeBotLLM"), {"history": "replay"}),
    (llama_index("KnowledgeBotLLM"), {"on_trim": "new"}),
    (llama_index("KnowledgeBotChatEngine"), {"on_fork": "continue"}),
    (llama_index("KnowledgeBotQueryEngine"), {"ledger": "ledger.db"}),
    (conversations, {"history": "replay"}),
    (conversations, {"on_fork": "continue"}),
    (conversations, {"on_trim": "new"}),
    (conversations, {"ledger": None}),
    (upstream, {"ledger": None}),
    (lambda **options: Question(ask="When?", **options), {"fresh": True}),
    (lambda **options: check(Client("k", "https://b.test"), "bot_1", [], **options), {"ledger": 1}),
    (ingested, {"prune": "ask"}),
    (operator("KnowledgeBotResolveOperator", ledger_conn_id="ledger"), {"response_timeout": 5}),
]


@pytest.mark.parametrize(("make", "argument"), ARGUMENTS)
def test_an_argument_that_left_is_named(make, argument):
    ((name, _),) = argument.items()
    # pydantic's ValidationError is a ValueError, and so is ConfigurationError.
    with pytest.raises((TypeError, ValueError), match=re.escape(name)):
        make(**argument)


def test_no_distribution_offers_an_extra_or_a_plugin_that_left():
    extras = importlib.metadata.metadata("knowledge-bot").get_all("Provides-Extra")
    assert {"dlt", "ray", "spark", "keyring", "checks"}.isdisjoint(extras)
    plugins = importlib.metadata.entry_points(group="pytest11")
    assert [one for one in plugins if "knowledge_bot" in one.value] == []
