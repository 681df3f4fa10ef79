"""What the package needs to be imported."""

import subprocess
import sys

import langchain_knowledge_bot


def test_the_package_imports_where_no_other_framework_is_installed():
    absent = ("llama_index", "airflow", "fastapi", "langchain", "langgraph")
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({absent})); "
        "from langchain_knowledge_bot import *; print(ChatKnowledgeBot.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "ChatKnowledgeBot\n", done.stderr


def test_every_public_name_is_there():
    for name in langchain_knowledge_bot.__all__:
        assert getattr(langchain_knowledge_bot, name).__doc__
