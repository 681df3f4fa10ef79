"""Airflow's own agents, of its common-ai provider, with a bot as a tool."""

import pytest

from airflow_knowledge_bot.hooks import KnowledgeBotHook

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


def test_a_model_sees_every_argument_of_every_endpoint():
    hook = KnowledgeBotHook()
    toolsets.HookToolset(hook, allowed_methods=ENDPOINTS)
    for name in ENDPOINTS:
        method = getattr(hook, name)
        schema, _ = toolsets._introspect_signature(method)
        assert all(schema["properties"].values()), f"{name}: an argument without a type"
        assert set(toolsets._parse_param_docs(method.__doc__)) == set(schema["properties"]), name
