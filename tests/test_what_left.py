"""What left, tried as a user would: each is told in one sentence that there is no such thing."""

import importlib.metadata

import pytest
from click.testing import CliRunner

from knowledge_bot import ConfigurationError
from knowledge_bot.checks import load_questions
from knowledge_bot.cli import main

COMMANDS = [
    *("conformance", "man", "search", "completion", "logout", "profiles"),
    *("ledger copy a b", "ledger refused"),
]
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


def test_no_distribution_offers_an_extra_or_a_plugin_that_left():
    extras = importlib.metadata.metadata("knowledge-bot").get_all("Provides-Extra")
    assert {"dlt", "ray", "spark", "keyring", "checks"}.isdisjoint(extras)
    plugins = importlib.metadata.entry_points(group="pytest11")
    assert [one for one in plugins if "knowledge_bot" in one.value] == []
