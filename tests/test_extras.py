"""Without its extra, each package says in one sentence what to install."""

import sys
from unittest.mock import patch

import pytest

OURS = (
    "airflow_knowledge_bot",
    "knowledge_bot",
    "langchain_knowledge_bot",
    "llama_index_knowledge",
)

# What a program says, the module that is missing then, and who needs which extra.
NEEDS = [
    ("import knowledge_bot.ingest", "feedparser", "knowledge_bot.ingest", "ingest"),
    ("from knowledge_bot.ingest import ingest", "pathspec", "knowledge_bot.ingest", "ingest"),
    ("import knowledge_bot.origins", "defusedxml", "knowledge_bot.origins", "ingest"),
    ("import knowledge_bot.ingest", "lxml", "knowledge_bot.ingest", "ingest"),
    (
        "from langchain_knowledge_bot import ChatKnowledgeBot",
        "langchain_core",
        "langchain_knowledge_bot",
        "langchain",
    ),
    (
        "from llama_index_knowledge_bot import KnowledgeBotLLM",
        "llama_index",
        "llama_index_knowledge_bot",
        "llama-index",
    ),
    (
        "from llama_index_knowledge_bot.llm import KnowledgeBotLLM",
        "llama_index.core",
        "llama_index_knowledge_bot",
        "llama-index",
    ),
    (
        "from knowledge_bot_service import LocalService",
        "fastapi",
        "knowledge_bot_service",
        "serve",
    ),
    (
        "from knowledge_bot_gateway import create_app",
        "mcp",
        "knowledge_bot_gateway",
        "gateway",
    ),
    (
        "from knowledge_bot.origins import Objects; next(Objects('s3://bucket/docs').items())",
        "fsspec",
        "Objects",
        "objects",
    ),
    (
        "from knowledge_bot.checks import Question; Question(ask='When?', matches='9')",
        "regex",
        "A regular expression in a check",
        "cli",
    ),
    *(
        (f"import airflow_knowledge_bot.{name}", "airflow", "airflow_knowledge_bot", "airflow")
        for name in ("decorators", "hooks", "operators", "sensors", "triggers")
    ),
]


@pytest.fixture
def without():
    """`without(module, statement)`: run a statement where a module is not installed."""

    def run(module, statement):
        for name in list(sys.modules):
            # Ours are imported anew, and of the module nothing is left.
            if name.startswith(OURS) or f"{name}.".startswith(f"{module}."):
                del sys.modules[name]
        sys.modules[module] = None
        exec(statement, {})

    with patch.dict(sys.modules):
        yield run


@pytest.mark.parametrize(("statement", "module", "package", "extra"), NEEDS)
def test_a_missing_extra_is_a_sentence(statement, module, package, extra, without):
    with pytest.raises(ModuleNotFoundError) as told:
        without(module, statement)
    sentence = f"{package} needs the extra \"{extra}\": pip install 'knowledge-bot[{extra}]'"
    assert (type(told.value).__name__, str(told.value)) == ("MissingExtraError", sentence)


@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("airflow", "import airflow_knowledge_bot.get_provider_info"),
        ("fastapi", "import knowledge_bot_service, knowledge_bot_service.run.command"),
        ("feedparser", "from knowledge_bot import AsyncClient, Client"),
        ("regex", "from knowledge_bot.checks import Question; Question(ask='?', contains='x')"),
    ],
)
def test_what_does_not_need_the_extra_does_without(module, statement, without):
    without(module, statement)


def test_kbot_serve_says_it_without_a_traceback(without, capsys):
    with pytest.raises(SystemExit) as ended:
        without("trafilatura", "from knowledge_bot_service.run.command import serve; serve([])")
    assert ended.value.code == 1
    assert capsys.readouterr().err.splitlines() == [
        "Error: knowledge_bot_service needs the extra \"serve\": pip install 'knowledge-bot[serve]'"
    ]
