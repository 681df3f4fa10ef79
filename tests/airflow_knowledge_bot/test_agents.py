"""Airflow's own agents, of its common-ai provider, with a bot as a tool."""

import json

import pytest

from airflow_knowledge_bot.hooks import KnowledgeBotHook

pytestmark = pytest.mark.integration

toolsets = pytest.importorskip(
    "airflow.providers.common.ai.toolsets.hook", reason="Airflow's common-ai provider, from 1.0 on"
)

ENDPOINTS = [
    "ping",
    "list_bots",
    "list_collections",
    "list_conversations",
    "send_message",
    "create_webpage_source",
    "create_text_source",
    "upload_source",
]


# The model "test" of pydantic-ai needs no network: it calls every tool once, and repeats what they
# returned.
AGENT = """
from airflow.providers.common.ai.operators.agent import AgentOperator
from airflow.providers.common.ai.toolsets.hook import HookToolset
from airflow_knowledge_bot.hooks import KnowledgeBotHook
---
AgentOperator(
    task_id="agent",
    prompt="Ask the bot.",
    llm_conn_id="model",
    model_id="test",
    toolsets=[HookToolset(KnowledgeBotHook(), allowed_methods=["send_message"])],
)
"""


def test_an_agent_asks_a_bot(dags, connected, monkeypatch, caplog, capfd):
    KnowledgeBotHook().create_text_source("Letter a", "The letter a opens at nine.")
    monkeypatch.setenv("AIRFLOW_CONN_MODEL", json.dumps({"conn_type": "pydanticai"}))
    done = dags.run(dags.load(AGENT))
    assert done.state == "success", done.log
    message = json.loads(done.task.xcom["send_message"])
    assert set(message) == {"id", "answer", "conversation_id", "created_at"}
    asked = [each["id"] for each in KnowledgeBotHook().list_conversations()]
    assert asked.count(message["conversation_id"]) == 1
    assert connected.api_key not in "".join([done.log, caplog.text, *capfd.readouterr()])


def test_a_model_sees_every_argument_of_every_endpoint():
    hook = KnowledgeBotHook()
    toolsets.HookToolset(hook, allowed_methods=ENDPOINTS)
    for name in ENDPOINTS:
        method = getattr(hook, name)
        schema, _ = toolsets._introspect_signature(method)
        assert all(schema["properties"].values()), f"{name}: an argument without a type"
        assert set(toolsets._parse_param_docs(method.__doc__)) == set(schema["properties"]), name
