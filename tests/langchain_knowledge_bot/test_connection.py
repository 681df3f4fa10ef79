"""How an object finds the service, and that its key shows nowhere."""

import asyncio
import copy
import gc
import json
import pickle
import re
import traceback
import warnings

import httpx
import pytest
from langchain_core.load import dumpd, dumps
from langchain_core.runnables import ConfigurableField
from pydantic import SecretStr, ValidationError

from calls import KEY, MESSAGE
from knowledge_bot import AsyncClient, AuthenticationError, Client, ConfigurationError
from knowledge_bot._model_settings import WITHOUT_EFFECT
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
from scripted_server import answer

QUESTION = "When do you open?"
ELSEWHERE = "https://service.example"


@pytest.mark.parametrize("key", [KEY, SecretStr(KEY)])
def test_the_key_and_the_address_are_taken_from_the_arguments(invoke, scripted, key):
    server = scripted(answer(body=MESSAGE))
    invoke(KnowledgeBotRetriever(bot_id="bot_1", api_key=key, base_url=server.url), QUESTION)
    assert server.requests[0].headers["x-api-key"] == KEY


def test_the_key_and_the_address_are_taken_from_the_environment(invoke, scripted, monkeypatch):
    server = scripted(answer(body=MESSAGE))
    monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", server.url)
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", KEY)
    invoke(KnowledgeBotRetriever(bot_id="bot_1"), QUESTION)
    assert server.requests[0].headers["x-api-key"] == KEY


def test_a_given_client_and_its_settings_are_used(invoke, scripted):
    server = scripted(answer(429, {"code": "busy", "message": "later"}), answer(body=MESSAGE))
    with Client(KEY, server.url, max_retries=0) as client:
        retriever = KnowledgeBotRetriever(bot_id="bot_1", client=client)
        with pytest.raises(Exception, match="429"):
            invoke(retriever, QUESTION)
    assert len(server.requests) == 1


def test_without_a_key_or_an_address_nothing_is_made(monkeypatch):
    with pytest.raises(ValidationError, match="set KNOWLEDGE_BOT_API_KEY"):
        KnowledgeBotRetriever(bot_id="bot_1", base_url=ELSEWHERE)
    with pytest.raises(ValidationError, match="set KNOWLEDGE_BOT_BASE_URL"):
        KnowledgeBotRetriever(bot_id="bot_1", api_key=KEY)


def test_a_client_and_another_key_do_not_go_together():
    with pytest.raises(ValidationError, match="leave out api_key="):
        KnowledgeBotRetriever(bot_id="bot_1", client=Client(KEY, ELSEWHERE), api_key="another-key")
    with pytest.raises(ValidationError, match="needs client="):
        KnowledgeBotRetriever(bot_id="bot_1", async_client=AsyncClient(KEY, ELSEWHERE))


def test_an_own_transport_is_never_gone_around(scripted):
    server = scripted(answer(body=MESSAGE))
    with httpx.Client(headers={"X-Gateway": "north"}) as http_client:
        client = Client(KEY, server.url, http_client=http_client)
        retriever = KnowledgeBotRetriever(bot_id="bot_1", client=client)
        assert retriever.invoke(QUESTION)
        with pytest.raises(ConfigurationError, match="async_client="):
            asyncio.run(retriever.ainvoke(QUESTION))
        both = KnowledgeBotRetriever(
            bot_id="bot_1", client=client, async_client=AsyncClient("other-key", server.url)
        )
        assert asyncio.run(both.ainvoke(QUESTION))
    assert [r.headers["x-api-key"] for r in server.requests] == [KEY, "other-key"]


def test_configurable_fields_may_change_the_service(invoke, scripted):
    here, there = scripted(answer(body=MESSAGE)), scripted(answer(body=MESSAGE))
    runnable = KnowledgeBotRetriever(
        bot_id="bot_1", api_key=KEY, base_url=here.url
    ).configurable_fields(base_url=ConfigurableField(id="service"))
    invoke(runnable, QUESTION)
    invoke(runnable, QUESTION, config={"configurable": {"service": there.url}})
    assert len(here.requests) == len(there.requests) == 1


@pytest.mark.parametrize("cls", [KnowledgeBotRetriever, ChatKnowledgeBot, KnowledgeBotTool])
def test_configurable_fields_of_an_object_with_a_client(invoke, bots, monkeypatch, cls):
    # The client's key and address count, not those of the environment.
    monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", ELSEWHERE)
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", "another-key")
    asked = {"question": QUESTION} if cls is KnowledgeBotTool else QUESTION
    with Client(KEY, bots.server.url, timeout=9) as client:
        runnable = cls(bot_id="bot_1", client=client).configurable_fields(
            bot_id=ConfigurableField(id="bot")
        )
        invoke(runnable.with_config(configurable={"bot": "bot_2"}), asked)
    assert [message["bot_id"] for message in bots.received] == ["bot_2"]
    assert bots.server.requests[0].headers["x-api-key"] == KEY


def test_an_object_with_a_client_tells_what_the_client_has():
    retriever = KnowledgeBotRetriever(bot_id="bot_1", client=Client(KEY, ELSEWHERE, timeout=9))
    assert retriever.base_url == f"{ELSEWHERE}/public/v1"
    assert (retriever.api_key.get_secret_value(), retriever.timeout) == (KEY, 9)


@pytest.mark.parametrize("given", ["fields", "client"])
@pytest.mark.parametrize("way", ["sync", "async"])
def test_configured_calls_share_one_connection(bots, given, way):
    fields = bots.fields if given == "fields" else {"client": Client(KEY, bots.server.url)}
    runnable = ChatKnowledgeBot(bot_id="bot_1", **fields).configurable_fields(
        bot_id=ConfigurableField(id="bot")
    )
    configured = runnable.with_config(configurable={"bot": "bot_2"})

    async def ask_all():
        for _ in range(10):
            await configured.ainvoke(QUESTION)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        if way == "async":
            asyncio.run(ask_all())
        else:
            for _ in range(10):
                configured.invoke(QUESTION)
        gc.collect()
    assert len(bots.received) == 10
    assert bots.server.connections == 1
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


def pickled(original):
    return pickle.loads(pickle.dumps(original))


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda original: original.model_copy(), pickled]
)
@pytest.mark.parametrize("given", ["fields", "client"])
@pytest.mark.parametrize("cls", [KnowledgeBotRetriever, ChatKnowledgeBot, KnowledgeBotTool])
def test_a_duplicate_asks_the_same_service_with_the_same_key(
    invoke, scripted, duplicate, given, cls
):
    asked = {"question": QUESTION} if cls is KnowledgeBotTool else QUESTION
    server = scripted(answer(body=MESSAGE))
    connection = (
        {"api_key": KEY, "base_url": server.url}
        if given == "fields"
        else {"client": Client(KEY, server.url)}
    )
    original = cls(bot_id="bot_1", **connection)
    invoke(original, asked)
    invoke(duplicate(original), asked)
    assert [request.headers["x-api-key"] for request in server.requests] == [KEY, KEY]


@pytest.mark.parametrize("given", ["fields", "client"])
def test_the_key_shows_in_no_representation(given):
    connection = (
        {"api_key": KEY, "base_url": ELSEWHERE}
        if given == "fields"
        else {"client": Client(KEY, ELSEWHERE)}
    )
    retriever = KnowledgeBotRetriever(bot_id="bot_1", **connection)
    shown = [repr(retriever), str(retriever), repr(vars(retriever)), dumps(retriever)]
    shown += [json.dumps(dumpd(retriever)), repr(retriever.__pydantic_private__)]
    shown += [str(retriever.model_dump()), retriever.model_dump_json()]
    assert all("bot_1" in text for text in shown[:5] + shown[6:])
    assert KEY not in "".join(shown)


def test_a_misspelt_field_is_an_error():
    with pytest.raises(ValidationError, match=r"top_k\n +Extra inputs are not permitted"):
        KnowledgeBotRetriever(bot_id="bot_1", api_key=KEY, base_url=ELSEWHERE, top_k=2)


@pytest.mark.parametrize(
    "fields",
    [
        {"bot_id": "bot_1", "api_kye": KEY, "base_url": ELSEWHERE},
        {"api_key": KEY, "base_url": ELSEWHERE},
        {"bot_id": "bot_1", "bot_ids": ["bot_2"], "api_key": KEY, "base_url": ELSEWHERE},
        {"bot_id": "bot_1", "k": 0, "api_key": KEY, "base_url": ELSEWHERE},
        {"bot_ids": [], "api_key": KEY, "base_url": ELSEWHERE},
        {"bot_id": "bot_1", "api_key": [KEY], "base_url": ELSEWHERE},
        {"bot_id": "bot_1", "api_key": f"{KEY} ", "base_url": ELSEWHERE},
        {"bot_id": "bot_1", "api_key": KEY, "base_url": "not a url"},
        {"bot_id": "bot_1", "client": KEY},
    ],
    ids=",".join,
)
@pytest.mark.parametrize(
    "make",
    [lambda fields: KnowledgeBotRetriever(**fields), KnowledgeBotRetriever.model_validate],
    ids=["made", "validated"],
)
def test_a_wrong_field_is_an_error_that_does_not_hold_the_key(fields, make):
    with pytest.raises(ValidationError) as caught:
        make(fields)
    error = caught.value
    shown = [str(error), repr(error), str(error.errors()), error.json()]
    assert KEY not in "".join(shown + traceback.format_exception(error))


def test_a_wrong_key_says_what_to_check(invoke, scripted):
    server = scripted(answer(401, {"code": "unauthorized", "message": "no such key"}))
    retriever = KnowledgeBotRetriever(bot_id="bot_1", api_key=KEY, base_url=server.url)
    with pytest.raises(AuthenticationError, match="Check the API key") as caught:
        invoke(retriever, QUESTION)
    assert KEY not in "".join(traceback.format_exception(caught.value))
