"""The framework's own suites (langchain-tests), unit and integration."""

import pytest
from langchain_core.load import dumpd, load
from langchain_tests.integration_tests import (
    ChatModelIntegrationTests,
    RetrieversIntegrationTests,
    ToolsIntegrationTests,
)
from langchain_tests.unit_tests import ChatModelUnitTests, ToolsUnitTests

from calls import KEY
from knowledge_bot import Client
from langchain_knowledge_bot import ChatKnowledgeBot, KnowledgeBotRetriever, KnowledgeBotTool

ENVIRONMENT = {
    "KNOWLEDGE_BOT_BASE_URL": "https://service.example",
    "KNOWLEDGE_BOT_API_KEY": KEY,
}
# What an object has from there.
TAKEN = {"base_url": "https://service.example", "api_key": KEY}


@pytest.fixture
def _environment(monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def _service(fields, monkeypatch):
    monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", fields["base_url"])
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", KEY)


class _Chat:
    """What both suites assume of the chat model."""

    chat_model_class = ChatKnowledgeBot
    chat_model_params = {"model": "bot_1"}  # noqa: RUF012 - the suite's own way
    model_override_value = "bot_2"
    # bind_tools says what to use instead, by which the suite takes it for implemented.
    has_tool_calling = False
    has_structured_output = False
    # The service counts no tokens, and none are invented.
    returns_usage_metadata = False


@pytest.mark.usefixtures("_environment")
@pytest.mark.filterwarnings("ignore:.*has no effect")  # the suite sets a temperature
class TestChatModelUnits(_Chat, ChatModelUnitTests):
    @property
    def init_from_env_params(self):
        return ENVIRONMENT, {"model": "bot_1"}, {"model": "bot_1", **TAKEN}

    @pytest.mark.xfail(
        reason="langchain-core lets its own list of classes through, whatever `allowed_objects` "
        "says of others (ValueError: deserialization is not allowed). The round trip with the "
        "class named is below.",
        raises=ValueError,
        strict=True,
    )
    def test_serdes(self, model, snapshot):
        # The snapshot is compared before the round trip; there is none to compare with here.
        super().test_serdes(model, AnySnapshot())


class AnySnapshot:
    def __call__(self, **_):
        return self

    def __eq__(self, other):
        return True

    __hash__ = None


@pytest.mark.usefixtures("_environment")
@pytest.mark.filterwarnings("ignore:The function `load` is in beta")
def test_a_chat_model_survives_being_written_down_and_read_again():
    model = ChatKnowledgeBot(model="bot_1", api_key=KEY, stop=["."], history="latest")
    again = load(
        dumpd(model),
        allowed_objects=[ChatKnowledgeBot],
        valid_namespaces=["langchain_knowledge_bot"],
        secrets_from_env=True,
    )
    assert again.model_dump() == model.model_dump()
    assert again.asdict() == model.asdict()


@pytest.mark.usefixtures("_environment")
def test_a_chat_model_that_is_written_down_names_its_service_and_its_secret():
    for model in (
        ChatKnowledgeBot(model="bot_1"),
        ChatKnowledgeBot(model="bot_1", client=Client(KEY, ENVIRONMENT["KNOWLEDGE_BOT_BASE_URL"])),
    ):
        written = dumpd(model)["kwargs"]
        assert written["base_url"].startswith("https://service.example")
        assert written["api_key"] == {"lc": 1, "type": "secret", "id": ["KNOWLEDGE_BOT_API_KEY"]}


@pytest.mark.usefixtures("_service")
@pytest.mark.filterwarnings("ignore:.*has no effect")
class TestChatModel(_Chat, ChatModelIntegrationTests):
    pass


@pytest.mark.usefixtures("_service")
class TestRetriever(RetrieversIntegrationTests):
    retriever_constructor = KnowledgeBotRetriever
    retriever_query_example = "When do you open?"

    @property
    def retriever_constructor_params(self):
        # `k` limits the bots that are asked, and the suite wants to see three documents.
        return {"bot_ids": ["bot_1", "bot_2", "bot_3"]}


class _Tool:
    tool_constructor = KnowledgeBotTool
    tool_constructor_params = {"bot_id": "bot_1"}  # noqa: RUF012 - the suite's own way
    tool_invoke_params_example = {"question": "When do you open?"}  # noqa: RUF012


@pytest.mark.usefixtures("_environment")
class TestToolUnits(_Tool, ToolsUnitTests):
    @property
    def init_from_env_params(self):
        return ENVIRONMENT, {"bot_id": "bot_1"}, {"bot_id": "bot_1", **TAKEN}


@pytest.mark.usefixtures("_service")
class TestTool(_Tool, ToolsIntegrationTests):
    pass
