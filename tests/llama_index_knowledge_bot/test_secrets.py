"""A planted key, looked for in all that the framework writes or reports."""

import json

import pytest
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.schema import Document

import llama_index_knowledge_bot as package
from knowledge_bot import Client, KnowledgeBotError
from llama_index_recording import Recording, recorded

PLANTED = "planted-key-5c81e2"
FAULTS = {
    "200": lambda service: None,
    "401": lambda service: service.fail_next(401, message=f"unknown key {PLANTED}", times=None),
    "500": lambda service: service.fail_next(times=None),
    "lost": lambda service: service.lose_next_answer(times=None),
}


def everything_of(client, ledger, callbacks):
    asking = {"client": client, "callback_manager": callbacks}
    return {
        "llm": package.KnowledgeBotLLM("bot_1", **asking),
        "retriever": package.KnowledgeBotRetriever("bot_1", **asking),
        "engine": package.KnowledgeBotQueryEngine("bot_1", **asking),
        "chat": package.KnowledgeBotChatEngine("bot_1", **asking),
        "spec": package.KnowledgeBotToolSpec(client, write_to="col_1"),
        "sink": package.CollectionSink("col_1", ledger=ledger, client=client),
    }


def use(made, tools):
    """Call each once; what fails is represented by its error."""
    calls = [
        lambda: made["llm"].complete("x"),
        lambda: made["retriever"].retrieve("x"),
        lambda: made["engine"].query("x"),
        lambda: made["chat"].chat("x"),
        lambda: made["sink"]([Document(text="x", id_="x")]),
        *(lambda tool=tool: tool.call(input="x") for tool in tools),
    ]
    for call in calls:
        try:
            yield call()
        except KnowledgeBotError as error:
            yield f"{error!r} {error} {vars(error)} {getattr(error, '__notes__', '')}"


@pytest.mark.parametrize("fails", FAULTS.values(), ids=FAULTS)
def test_the_key_is_in_nothing_that_is_reported(fields, service, tmp_path, caplog, fails):
    caplog.set_level("DEBUG")
    heard = Recording()
    with Client(PLANTED, fields["base_url"], max_retries=0) as client, recorded(heard):
        tools = package.bot_tools(client, callback_manager=heard.callback_manager())
        fails(service)
        made = everything_of(client, tmp_path / "ledger.db", heard.callback_manager())
        tools += made["spec"].to_tool_list()[:1]
        text = [str(result) for result in use(made, tools[:1])]
    text += [f"{one!r} {one} {vars(one)!r}" for one in [*made.values(), *tools]]
    text += [tool.metadata.fn_schema_str for tool in tools]
    text += [made[name].to_json() + str(made[name].to_dict()) for name in ("llm", "sink")]
    text += [heard.everything(), caplog.text, repr(get_dispatcher())]
    assert {request.headers["x-api-key"] for request in service.requests} == {PLANTED}
    assert len(service.requests) == 7
    assert PLANTED not in json.dumps(text)
