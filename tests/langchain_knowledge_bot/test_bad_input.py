"""Each mistake is an error that says what to do instead, and none of them shows the key."""

import asyncio
import json
import traceback

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.document_loaders import BaseLoader
from langchain_core.exceptions import ModelError
from langchain_core.load import dumps
from langchain_core.messages import HumanMessage
from pydantic import BaseModel, ValidationError

from calls import KEY
from knowledge_bot import Client, ConfigurationError
from langchain_knowledge_bot import (
    ChatKnowledgeBot,
    KnowledgeBotCollection,
    KnowledgeBotRetriever,
    KnowledgeBotTool,
)
from numbering_bots import received
from refusals import refused

ELSEWHERE = "https://service.example"
IMAGE = [HumanMessage([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}])]


class Schema(BaseModel):
    """A schema."""

    name: str


@pytest.fixture
def bot(fields):
    return ChatKnowledgeBot(bot_id="bot_1", **fields)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (IMAGE, "Put into words what it shows"),
        ([], "no text to send. End the list with a question"),
        ([("system", "Be brief.")], "system texts alone. End the list with a question"),
        ("  ", "End the list with a question"),
        ([("ai", "")], "End the list with a question"),
    ],
    ids=["image", "nothing", "system", "blank", "empty"],
)
def test_messages_that_cannot_be_sent(invoke, bot, service, messages, expected):
    with pytest.raises(ConfigurationError, match=expected) as caught:
        invoke(bot, messages)
    assert isinstance(caught.value, ModelError)
    assert caught.value.is_retryable is False
    assert received(service) == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"conversatoin_id": "conv_1"}, "no argument 'conversatoin_id'.*conversation_id"),
        ({"tools": [{"type": "function"}]}, "KnowledgeBotTool"),
        ({"response_format": {}}, "no argument 'response_format'"),
    ],
    ids=str,
)
def test_arguments_of_a_call_that_there_are_not(invoke, bot, service, arguments, expected):
    with pytest.raises(TypeError, match=expected):
        invoke(bot, "one", **arguments)
    assert received(service) == []


def test_ids_that_are_none(invoke, bot, service):
    with refused("conversation_id"):
        invoke(bot, "one", conversation_id="src_1")
    with refused("bot_id"):
        invoke(bot, "one", model="gpt-5")
    assert received(service) == []


def test_tools_and_structured_output_name_what_to_use_instead(bot):
    with pytest.raises(NotImplementedError, match="KnowledgeBotTool"):
        bot.bind_tools([Schema])
    with pytest.raises(NotImplementedError, match="KnowledgeBotTool"):
        bot.with_structured_output(Schema)
    assert bot.profile["tool_calling"] is bot.profile["structured_output"] is False


def test_settings_of_other_models_are_taken_with_a_warning_at_the_caller(invoke, fields):
    with pytest.warns(UserWarning, match="temperature has no effect") as caught:
        bot = ChatKnowledgeBot(bot_id="bot_1", temperature=0.3, **fields)
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="max_tokens has no effect"):
        assert invoke(bot, "one", max_tokens=9).content
    for ask in (bot.invoke, lambda value, **options: asyncio.run(bot.ainvoke(value, **options))):
        with pytest.warns(UserWarning, match="temperature has no effect") as caught:
            ask("one", temperature=0)
        assert [each.filename for each in caught] == [__file__]


@pytest.mark.parametrize("value", [{"query": "When?"}, ["When?"], None], ids=str)
def test_a_retriever_takes_a_question_and_nothing_else(invoke, fields, service, value):
    retriever = KnowledgeBotRetriever(bot_id="bot_1", **fields)
    with refused("query"):
        invoke(retriever, value)
    assert received(service) == []


WRONG = [
    {},
    {"bot_id": "bot_1", "conversatoin_id": "conv_1"},
    {"bot_id": "bot_1", "history": "all"},
    {"bot_id": "bot_1", "k": 0},
    {"bot_id": "bot_1", "timeout": 0},
    {"bot_id": "bot_1", "timeout": KEY},
    {"bot_id": "bot_1", "api_kye": KEY},
    {"bot_id": "bot_1", "api_key": [KEY]},
    {"bot_id": "bot_1", "api_key": f"{KEY} "},
    {"bot_id": "bot_1", "base_url": "not a url"},
]


@pytest.mark.parametrize("fields", WRONG, ids=str)
@pytest.mark.parametrize("cls", [ChatKnowledgeBot, KnowledgeBotRetriever, KnowledgeBotTool])
@pytest.mark.parametrize("validated", [False, True])
def test_a_wrong_field_is_an_error_without_the_key(cls, fields, validated):
    given = {"api_key": KEY, "base_url": ELSEWHERE, "name": [KEY], **fields}
    with pytest.raises(ValidationError) as caught:
        _ = cls.model_validate(given) if validated else cls(**given)
    error = caught.value
    shown = [str(error), repr(error), str(error.errors()), error.json()]
    assert KEY not in "".join(shown + traceback.format_exception(error))


class Recorder(BaseCallbackHandler):
    """Keeps whatever a tracer would get."""

    def __init__(self):
        self.heard = []

    def __getattribute__(self, name):
        if name.startswith("on_"):
            return lambda *args, **kwargs: self.heard.append(repr((args, kwargs)))
        return super().__getattribute__(name)


@pytest.mark.parametrize("given", ["fields", "client"])
def test_the_key_is_in_no_representation_and_no_trace(invoke, fields, given):
    fields = fields if given == "fields" else {"client": Client(KEY, fields["base_url"])}
    recorder = Recorder()
    for each, value in (
        (ChatKnowledgeBot(bot_id="bot_1", **fields), "one"),
        (KnowledgeBotTool(bot_id="bot_1", **fields), {"question": "one"}),
    ):
        invoke(each, value, config={"callbacks": [recorder]})
        shown = [repr(each), str(vars(each)), repr(each.__pydantic_private__), dumps(each)]
        shown.append(str(each.model_dump()))
        assert KEY not in "".join(shown)
        assert "bot_1" in shown[0]
    chat = ChatKnowledgeBot(bot_id="bot_1", **fields)
    assert KEY not in chat._get_llm_string() + json.dumps(chat.asdict()) + str(
        chat._get_ls_params()
    )
    assert len(recorder.heard) >= 4
    assert KEY not in "".join(recorder.heard)


class Loader(BaseLoader):
    def lazy_load(self):
        yield from ()


@pytest.mark.parametrize(
    ("loader", "expected"),
    [([Loader()], "not list"), (None, "not NoneType"), (Loader, "the class Loader")],
    ids=["several", "nothing", "a class"],
)
def test_a_collection_synchronises_with_one_loader(fields, tmp_path, loader, expected):
    collection = KnowledgeBotCollection(
        collections="col_1", ledger=tmp_path / "ledger.db", **fields
    )
    with pytest.raises(ConfigurationError, match=f"loader: .*{expected}"):
        collection.sync(loader)
    with pytest.raises(ConfigurationError, match=f"loader: .*{expected}"):
        asyncio.run(collection.async_sync(loader, origin="o"))


@pytest.mark.parametrize(
    ("make", "wrong", "expected"),
    [
        (ChatKnowledgeBot, {"model": "bot_1", "bot_id": "bot_2"}, "both name the bot"),
        (ChatKnowledgeBot, {"bot_id": "bot_1", "heads": 5}, "heads: expected Heads.*not int"),
        (ChatKnowledgeBot, {"bot_id": "bot_1", "heads": "mysql://x"}, "heads: .*'mysql'"),
        (KnowledgeBotTool, {"bot_id": ""}, "bot_id: '' is not an id"),
        (KnowledgeBotCollection, {"collections": "col_1", "ledger": 5}, "expected a Ledger.*int"),
        (KnowledgeBotCollection, {"collections": "col_1", "ledger": "mysql://x"}, "'mysql'"),
    ],
    ids=["two bots", "heads", "heads' address", "no bot", "ledger", "address"],
)
def test_fields_that_cannot_be_used_say_what_is_taken(fields, make, wrong, expected):
    with pytest.raises(ValidationError, match=expected):
        make(**wrong, **fields)
