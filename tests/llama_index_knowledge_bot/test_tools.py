"""What agents and routers are given."""

import pytest

from calls import KEY, both_ways
from knowledge_bot import APIError, Bot, Client, ConfigurationError
from knowledge_bot.testing import MemoryService
from llama_index_knowledge_bot import (
    KnowledgeBotChatEngine,
    KnowledgeBotLLM,
    KnowledgeBotQueryEngine,
    KnowledgeBotToolSpec,
    bot_tools,
)
from refusals import refused

QUESTION = "When does the library open?"


@pytest.fixture
def service():
    says = "It opens at nine.\n\nSources: Hours"
    return MemoryService(
        bots={"bot_house": {QUESTION: says}, "bot_notes": {}},
        collections={"col_house": "House", "col_notes": "Notes"},
    )


call = both_ways("call", "acall")


@pytest.fixture
def use(call):
    """`use(tool, **arguments)`: what a tool puts out."""
    return lambda tool, **arguments: call(tool, **arguments).raw_output


def named(tools):
    return {tool.metadata.name: tool for tool in tools}


def test_each_bot_is_a_tool_named_after_it(client, use):
    tools = named(bot_tools(client, descriptions={"bot_house": "Rules and hours of the house."}))
    assert list(tools) == ["ask_bot_house", "ask_bot_notes"]
    assert tools["ask_bot_house"].metadata.description == "Rules and hours of the house."
    assert "'bot_notes'" in tools["ask_bot_notes"].metadata.description
    assert "opens at nine" in str(use(tools["ask_bot_house"], input=QUESTION))


def test_bots_that_were_listed_before_are_not_listed_again():
    # Nothing answers at this address.
    (tool,) = bot_tools(Client(KEY, "http://127.0.0.1:9"), [Bot(id="bot_a", name="A")])
    assert tool.metadata.name == "ask_a"


def test_a_description_of_a_bot_that_is_not_there_is_an_error(client):
    with pytest.raises(ConfigurationError, match="bot_house, bot_notes"):
        bot_tools(client, descriptions={"bot_hose": "…"})
    with pytest.raises(ConfigurationError, match="bot_house, bot_notes"):
        KnowledgeBotToolSpec(client, descriptions={"bot_hose": "…"}).to_tool_list()


def test_an_agent_may_ask_and_look_and_by_default_not_write(client, use):
    tools = named(KnowledgeBotToolSpec(client).to_tool_list())
    assert list(tools) == ["ask_bot", "list_bots", "list_collections", "list_conversations"]
    first = use(tools["ask_bot"], bot_id="bot_house", question=QUESTION)
    assert "opens at nine" in first["answer"]
    assert (first["sources"], first["found"]) == (["Hours"], True)
    again = use(
        tools["ask_bot"],
        bot_id="bot_house",
        question=QUESTION,
        conversation_id=first["conversation_id"],
    )
    assert again["conversation_id"] == first["conversation_id"]
    assert {"id": "bot_house", "name": "bot_house"} in use(tools["list_bots"])
    assert {"id": "col_notes", "name": "Notes"} in use(tools["list_collections"])
    conversations = use(tools["list_conversations"], bot_id="bot_house")
    assert first["conversation_id"] in [conversation["id"] for conversation in conversations]


def test_an_agent_sees_the_newest_conversations_and_never_all_of_many(client, service, use):
    asked = [client.send_message(bot_id="bot_house", content=QUESTION) for _ in range(203)]
    newest = [one.conversation_id for one in asked][::-1]
    listing = named(KnowledgeBotToolSpec(client).to_tool_list())["list_conversations"]
    for given, shown in (({}, 20), ({"limit": 3}, 3), ({"limit": 1000}, 200), ({"limit": -1}, 0)):
        found = use(listing, bot_id="bot_house", **given)
        assert [one["id"] for one in found] == newest[:shown]


def test_bots_are_listed_with_what_they_know(client, use):
    spec = KnowledgeBotToolSpec(client, descriptions={"bot_house": "Rules and hours."})
    listed = use(named(spec.to_tool_list())["list_bots"])
    assert {"id": "bot_house", "name": "bot_house", "description": "Rules and hours."} in listed
    assert {"id": "bot_notes", "name": "bot_notes"} in listed


def test_without_a_client_the_environment_names_the_service(fields, monkeypatch):
    monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", fields["base_url"])
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", fields["api_key"])
    assert list(named(bot_tools())) == ["ask_bot_house", "ask_bot_notes"]
    assert len(KnowledgeBotToolSpec().list_bots()) == 2


def test_an_agent_writes_only_to_the_collections_it_was_given(client, use):
    tools = named(KnowledgeBotToolSpec(client, write_to="col_notes").to_tool_list())
    assert list(tools)[4:] == ["add_text", "add_webpage"]
    assert set(tools["add_text"].metadata.get_parameters_dict()["properties"]) == {
        "name",
        "content",
    }
    added = use(tools["add_text"], name="Note", content="The lift is broken.")
    assert added["collections"] == [{"id": "col_notes", "name": "Notes"}]
    page = use(tools["add_webpage"], name="Page", url="https://library.example/")
    assert page["collections"] == [{"id": "col_notes", "name": "Notes"}]


def test_a_tool_s_failure_arrives_as_it_is(client, use):
    tools = named(KnowledgeBotToolSpec(client).to_tool_list())
    with pytest.raises(APIError, match="bot_nobody"):
        use(tools["ask_bot"], bot_id="bot_nobody", question=QUESTION)


def test_a_bot_has_to_be_named_and_a_turn_to_be_text(client):
    for kind in (KnowledgeBotLLM, KnowledgeBotQueryEngine, KnowledgeBotChatEngine):
        with refused("bot_id"):
            kind("", client=client)
    for name, make in {
        "collections": lambda: KnowledgeBotToolSpec(client, write_to="bot_1"),
        "conversation_id": lambda: KnowledgeBotChatEngine(
            "bot_1", conversation_id="", client=client
        ),
    }.items():
        with refused(name):
            make()
    with pytest.raises(TypeError, match=r"^heads: "):
        KnowledgeBotLLM("bot_house", client=client, heads="sqlite:///heads.db")
    with pytest.raises(ConfigurationError, match=r"^message: "):
        KnowledgeBotChatEngine("bot_house", client=client).chat(None)
