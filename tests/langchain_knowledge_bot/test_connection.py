"""How an object finds the service, and that its key shows nowhere."""

import asyncio
import gc
import re
import warnings

import pytest
from langchain_core.runnables import ConfigurableField
from pydantic import SecretStr, ValidationError

from calls import KEY, MESSAGE
from knowledge_bot import AsyncClient, Client
from knowledge_bot.adapters.settings import WITHOUT_EFFECT
from langchain_knowledge_bot import (
    ChatKnowledgeBot,
    KnowledgeBotCollection,
    KnowledgeBotRetriever,
    KnowledgeBotTool,
    KnowledgeBotToolkit,
)
from langchain_knowledge_bot.chat_models import ChatFields
from langchain_knowledge_bot.collections import CollectionFields
from langchain_knowledge_bot.retrievers import RetrieverFields
from langchain_knowledge_bot.tools import ToolFields, ToolkitFields
from nightly import nightly
from numbering_bots import received
from scripted_server import answer

QUESTION = "When do you open?"
ELSEWHERE = "https://service.example"


@pytest.mark.parametrize("key", [KEY, SecretStr(KEY)])
def test_the_key_is_taken_from_the_arguments(invoke, fields, service, key):
    invoke(KnowledgeBotRetriever(bot_id="bot_1", **{**fields, "api_key": key}), QUESTION)
    assert service.requests[0].headers["x-api-key"] == KEY


def test_without_a_key_or_an_address_nothing_is_made(monkeypatch):
    with pytest.raises(ValidationError, match="KNOWLEDGE_BOT_API_KEY"):
        KnowledgeBotRetriever(bot_id="bot_1", base_url=ELSEWHERE)
    with pytest.raises(ValidationError, match="KNOWLEDGE_BOT_BASE_URL"):
        KnowledgeBotRetriever(bot_id="bot_1", api_key=KEY)


def test_a_client_and_another_key_do_not_go_together():
    with pytest.raises(ValidationError, match="leave out api_key="):
        KnowledgeBotRetriever(bot_id="bot_1", client=Client(KEY, ELSEWHERE), api_key="another-key")
    with pytest.raises(ValidationError, match="needs client="):
        KnowledgeBotRetriever(bot_id="bot_1", async_client=AsyncClient(KEY, ELSEWHERE))


def test_a_copy_with_another_key_asks_with_it_and_none_is_assigned(invoke, fields, service):
    bot = ChatKnowledgeBot(bot_id="bot_1", **fields)
    invoke(bot.model_copy(update={"api_key": SecretStr("another-key")}), QUESTION)
    invoke(bot.model_copy(update={"timeout": None, "max_retries": None}), QUESTION)
    assert [one.headers["x-api-key"] for one in service.requests] == ["another-key", KEY]
    for name in ("api_key", "base_url", "timeout", "max_retries", "client", "async_client"):
        with pytest.raises(ValidationError, match="frozen") as caught:
            setattr(bot, name, "a-new-key")
        assert "a-new-key" not in f"{caught.value} {caught.value.errors()}"
    with pytest.raises(ValidationError, match="leave out api_key="):
        ChatKnowledgeBot(bot_id="bot_1", client=Client(KEY, ELSEWHERE)).model_copy(
            update={"api_key": SecretStr("another-key")}
        )


def test_configurable_fields_may_change_the_key(invoke, fields, service):
    runnable = KnowledgeBotRetriever(bot_id="bot_1", **fields).configurable_fields(
        api_key=ConfigurableField(id="key")
    )
    invoke(runnable, QUESTION)
    invoke(runnable, QUESTION, config={"configurable": {"key": SecretStr("another-key")}})
    assert [one.headers["x-api-key"] for one in service.requests] == [KEY, "another-key"]


@pytest.mark.parametrize("cls", [KnowledgeBotRetriever, ChatKnowledgeBot, KnowledgeBotTool])
def test_configurable_fields_of_an_object_with_a_client(invoke, fields, service, monkeypatch, cls):
    # The client's key and address count, not those of the environment.
    monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", ELSEWHERE)
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", "another-key")
    asked = {"question": QUESTION} if cls is KnowledgeBotTool else QUESTION
    with Client(KEY, fields["base_url"], timeout=9) as client:
        runnable = cls(bot_id="bot_1", client=client).configurable_fields(
            bot_id=ConfigurableField(id="bot")
        )
        invoke(runnable.with_config(configurable={"bot": "bot_2"}), asked)
    assert [message["bot_id"] for message in received(service)] == ["bot_2"]
    assert service.requests[0].headers["x-api-key"] == KEY


def test_an_object_with_a_client_tells_what_the_client_has():
    retriever = KnowledgeBotRetriever(bot_id="bot_1", client=Client(KEY, ELSEWHERE, timeout=9))
    assert retriever.base_url == f"{ELSEWHERE}/public/v1"
    assert (retriever.api_key.get_secret_value(), retriever.timeout) == (KEY, 9)


@pytest.mark.parametrize("given", ["fields", "client"])
@pytest.mark.parametrize("way", nightly(["sync", "async"], but=1))
def test_configured_calls_share_one_connection(scripted, given, way):
    server = scripted(answer(body=MESSAGE))
    fields = {"api_key": KEY, "base_url": server.url}
    fields = fields if given == "fields" else {"client": Client(**fields)}
    runnable = ChatKnowledgeBot(bot_id="bot_1", **fields).configurable_fields(
        bot_id=ConfigurableField(id="bot")
    )
    configured = runnable.with_config(configurable={"bot": "bot_2"})

    async def ask_all():
        for _ in range(10):
            await configured.ainvoke(QUESTION)

    gc.collect()  # what other tests have left
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        if way == "async":
            asyncio.run(ask_all())
        else:
            for _ in range(10):
                configured.invoke(QUESTION)
        gc.collect()
    assert (len(server.requests), server.connections) == (10, 1)
    assert [each for each in caught if each.category is ResourceWarning] == []


@pytest.mark.parametrize(
    ("cls", "named"),
    [
        (ChatKnowledgeBot, "ChatKnowledgeBot(bot_id=...)"),
        (KnowledgeBotCollection, "KnowledgeBotCollection(collections=...)"),
        (KnowledgeBotToolkit, "KnowledgeBotToolkit(client=...)"),
    ],
)
def test_an_argument_without_its_name_is_an_error_that_names_it(cls, named):
    with pytest.raises(TypeError, match=re.escape(named)) as caught:
        cls(KEY)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        # What has no effect is taken with a warning, and is no field.
        (ChatKnowledgeBot, (ChatFields.__annotations__.keys() | {"bot_id"}) - WITHOUT_EFFECT),
        (KnowledgeBotRetriever, RetrieverFields.__annotations__.keys() | {"bot_id", "bot_ids"}),
        (KnowledgeBotTool, ToolFields.__annotations__.keys() | {"bot_id"}),
        (
            KnowledgeBotCollection,
            CollectionFields.__annotations__.keys() | {"collections", "ledger"},
        ),
        (KnowledgeBotToolkit, ToolkitFields.__annotations__.keys()),
    ],
)
def test_type_checkers_see_every_field(cls, expected):
    assert expected == cls.model_fields.keys()
