"""What the package needs to be imported."""

import subprocess
import sys

import llama_index_knowledge_bot


def test_the_package_imports_where_no_other_framework_is_installed():
    absent = ("langchain_core", "langchain", "langgraph", "airflow", "fastapi")
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({absent})); "
        "from llama_index_knowledge_bot import *; print(KnowledgeBotRetriever.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "KnowledgeBotRetriever\n", done.stderr


def test_every_public_name_is_there():
    for name in llama_index_knowledge_bot.__all__:
        assert getattr(llama_index_knowledge_bot, name).__doc__
