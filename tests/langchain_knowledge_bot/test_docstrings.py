"""The examples in the docstrings, run one after the other as they stand."""

import ast
import inspect
import re
import textwrap

import pytest
from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda

import langchain_knowledge_bot
from knowledge_bot.testing import MemoryService

# How many examples each has at least: a class shows how it is made and how it is used.
EXAMPLES = {
    name: 2 if isinstance(getattr(langchain_knowledge_bot, name), type) else 1
    for name in langchain_knowledge_bot.__all__
    if name != "__version__"
}


class Model(FakeListChatModel):
    """Another model, with tools."""

    responses: list[str] = ["written"]  # noqa: RUF012 - a pydantic field

    def bind_tools(self, tools, **kwargs):
        return self

    def with_structured_output(self, schema, **kwargs):
        return RunnableLambda(lambda _: {})


class Loader(BaseLoader):
    def lazy_load(self):
        yield Document("The desk closes at five.", metadata={"source": "closing.txt"})


@pytest.fixture
def service():
    return MemoryService(
        bots={"bot_handbook": {}},
        collections=["col_handbook"],
        extensions={"sources", "sync", "passages"},
    )


@pytest.mark.parametrize("name", EXAMPLES)
async def test_the_examples_run(fields, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", fields["base_url"])
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", fields["api_key"])
    documented = inspect.getdoc(getattr(langchain_knowledge_bot, name))
    blocks = re.findall(r"```python\n(.*?)```", documented, re.DOTALL)
    assert len(blocks) >= EXAMPLES[name]
    names = {"another_model": Model(), "loader": Loader()}
    for block in blocks:
        code = compile(textwrap.dedent(block), name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        outcome = eval(code, names)
        if inspect.iscoroutine(outcome):
            await outcome
