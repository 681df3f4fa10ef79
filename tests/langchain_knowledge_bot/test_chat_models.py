"""The chat model before bots that remember what they heard."""

import asyncio
import json

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.exceptions import ModelError
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder

from calls import KEY
from knowledge_bot import Client
from knowledge_bot.conversations import ForkError, Heads, HeadsError
from knowledge_bot.transcripts import Turn, render
from langchain_knowledge_bot import ChatKnowledgeBot
from langchain_knowledge_bot.model_errors import ChatError
from numbering_bots import contents, heard, received, times_sent
from waiting import until_awaited


@pytest.fixture
def bot(fields):
    return ChatKnowledgeBot(bot_id="bot_1", **fields)


def conversation_of(message):
    return message.response_metadata["conversation_id"]


def test_an_answer_tells_where_it_stands_in_plain_json(invoke, bot, service):
    message = invoke(bot, "When?")
    (conversation,) = service.conversations
    assert message.content == "<answer 1> of bot_1"
    assert message.response_metadata == {
        "model_provider": "knowledge_bot",
        "model_name": "bot_1",
        "bot_id": "bot_1",
        "conversation_id": conversation,
        "message_id": message.id,
        "created_at": message.response_metadata["created_at"],
        "sources": [],
        "found": True,
        "digests": message.response_metadata["digests"],
        "finish_reason": "stop",
    }
    assert json.loads(json.dumps(message.response_metadata)) == message.response_metadata
    assert message.usage_metadata is None


def test_an_answer_of_a_stream_is_one_chunk_and_continues_as_any_other(bot, service):
    (chunk,) = bot.stream("one")
    assert chunk.chunk_position == "last"
    bot.invoke(["one", chunk, ("human", "two")])

    async def stream():
        return [each async for each in bot.astream(["one", chunk, ("human", "two")])]

    assert len(asyncio.run(stream())) == 1  # a fork, for its conversation has gone on
    assert sorted(map(len, service.conversations.values())) == [1, 2]


def test_answers_in_blocks_and_of_event_streams_continue_as_any_other(fields, service):
    bot = ChatKnowledgeBot(bot_id="bot_1", output_version="v1", **fields)
    first = bot.invoke("one")
    assert first.content[0]["type"] == "text"
    second = bot.stream_events(["one", first, ("human", "two")], version="v3").output
    bot.invoke(["one", first, ("human", "two"), second, ("human", "three")])
    assert list(service.conversations.values()) == [["one", "two", "three"]]


def test_the_system_text_of_a_prompt_is_sent_once(invoke, bot, service):
    prompt = ChatPromptTemplate([("system", "Be brief."), MessagesPlaceholder("history")])
    chain = prompt | bot
    first = invoke(chain, {"history": [("human", "one")]})
    invoke(chain, {"history": [("human", "one"), first, ("human", "two")]})
    assert contents(service) == [render([Turn("system", "Be brief."), Turn("user", "one")]), "two"]


def test_a_conversation_is_chosen_by_the_call_then_the_list_and_then_the_constructor(
    invoke, fields, service
):
    home, named = "conv_home", "conv_named"
    service.conversations |= {home: [], named: []}
    bot = ChatKnowledgeBot(bot_id="bot_1", conversation_id=home, **fields)
    first = invoke(bot, "one")
    second = invoke(bot, "two", conversation_id=named)
    invoke(bot, [first, ("human", "three")])
    invoke(bot, [second, ("human", "four")], conversation_id=home)
    missed = render([Turn("assistant", "<answer 2> of bot_1"), Turn("user", "four")])
    assert service.conversations == {
        home: ["one", "three", missed],
        named: ["two"],
    }


def test_a_chain_that_is_retried_says_nothing_twice_in_a_conversation(invoke, fields, service):
    bot = ChatKnowledgeBot(bot_id="bot_1", **fields)
    first = invoke(bot, "one")
    service.lose_next_answer(times=2)
    prompt = ChatPromptTemplate([MessagesPlaceholder("history")])
    chain = (prompt | bot).with_retry(wait_exponential_jitter=False)
    assert invoke(chain, {"history": ["one", first, ("human", "two")]}).content
    assert times_sent(service, "two") == [1, 1, 1]
    assert len(service.conversations) == 3


async def test_a_cancelled_call_counts_as_lost(fields, service):
    bot, home = ChatKnowledgeBot(bot_id="bot_1", **fields), "conv_home"
    service.conversations[home] = []
    with service.holding_answers():
        task = asyncio.create_task(bot.ainvoke("one", conversation_id=home))
        assert await until_awaited(lambda: service.requests)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    with pytest.raises(ModelError, match="this very message"):
        await bot.ainvoke("one", conversation_id=home)
    assert contents(service) == ["one"]


def test_the_answer_is_cut_before_a_stop_word(invoke, fields):
    bot = ChatKnowledgeBot(bot_id="bot_1", stop=["absent", " of"], **fields)
    assert invoke(bot, "one").content == "<answer 1>"
    assert invoke(bot, "two", stop=[" 2"]).content == "<answer"
    assert invoke(bot, "two", stop=" of").content == "<answer 3>"
    assert [chunk.content for chunk in bot.stream("three")] == ["<answer 4>"]
    assert invoke(bot, "four", stop=[" of", "> o"]).content == "<answer 5"


@pytest.mark.parametrize("given", ["fields", "client"])
def test_a_cached_answer_is_of_the_same_account(invoke, fields, given):
    cache = InMemoryCache()
    answers = []
    for key in ("one-account", "other-account", "one-account"):
        named = {**fields, "api_key": key}
        how = {"client": Client(**named)} if given == "client" else named
        bot = ChatKnowledgeBot(bot_id="bot_1", cache=cache, **how)
        answers.append(invoke(bot, "one").id)
        assert key not in repr(vars(cache))
    assert answers[0] == answers[2] != answers[1]


def test_answers_are_cached_on_demand_and_for_the_same_service(invoke, fields, service):
    cache = InMemoryCache()
    bot = ChatKnowledgeBot(bot_id="bot_1", cache=cache, **fields)
    assert ChatKnowledgeBot(bot_id="bot_1", **fields).cache is False
    first = invoke(bot, "one")
    assert first.content == invoke(bot, "one").content
    assert len(received(service)) == 1
    invoke(bot, "one", conversation_id=first.response_metadata["conversation_id"])
    invoke(bot, "one", model="bot_2")
    elsewhere = Client(KEY, "https://elsewhere.test")
    invoke(ChatKnowledgeBot(bot_id="bot_1", cache=cache, client=elsewhere), "one")
    assert len(received(service)) == 4


def test_what_a_function_finds_is_cached_for_the_object_that_has_it(invoke, fields, service):
    cache = InMemoryCache()
    bots = [
        ChatKnowledgeBot(bot_id="bot_1", cache=cache, question=lambda _, day=day: day, **fields)
        for day in ("Monday?", "Tuesday?")
    ]
    for bot in (*bots, *bots, bots[0].model_copy()):
        invoke(bot, "one")
    assert contents(service) == ["Monday?", "Tuesday?"]
    assert "0x" not in f"{vars(cache)} {bots[0]._identifying_params}"


def test_where_there_is_nothing_to_call_a_bot_is_bound_to_nothing(invoke, bot):
    assert bot.bind_tools([]) is bot
    assert invoke(bot.bind(tools=[], tool_choice=None), "one").content == "<answer 1> of bot_1"


REBUILT = {  # as middleware, formats and the tables of chat windows leave a bot's message
    "content and id": (lambda answer: AIMessage(answer.content, id=answer.id), False),
    "another content": (lambda answer: AIMessage("[hidden]", id=answer.id), False),
    "role and content": (lambda answer: AIMessage(answer.content), True),
}


@pytest.mark.parametrize("stop", [None, [" of"]])
@pytest.mark.parametrize("way", REBUILT)
def test_a_conversation_goes_on_after_its_messages_were_rebuilt(invoke, fields, service, way, stop):
    rebuilt, recognise = REBUILT[way]
    bot = ChatKnowledgeBot(bot_id="bot_1", recognise=recognise, stop=stop, **fields)
    said = []
    for turn in ("one", "two", "three"):
        said = [*said, HumanMessage(turn)]
        said.append(rebuilt(invoke(bot, said)))
    assert heard(service) == [["one", "two", "three"]]
    changed = [HumanMessage("otherwise"), *said[1:], HumanMessage("four")]
    invoke(bot, changed)
    assert len(service.conversations) == 2, "what was changed before it is a fork"


def test_tokens_are_estimated_for_trimming(bot):
    assert 0 < bot.get_num_tokens_from_messages([HumanMessage("How long is the loan?")]) < 20
    assert 0 < bot.get_num_tokens("How long is the loan?") < 20


def test_sources_are_annotations_and_a_refusal_has_none(invoke, bot, service):
    found, none = "At nine.\n\nSources: hours.md, desk.md", "I could not find that."
    service.bots = {"bot_1": {"When?": [found, none]}}
    (block,) = invoke(bot, "When?").content_blocks
    assert block == {
        "type": "text",
        "text": found,
        "annotations": [
            {"type": "citation", "title": "hours.md"},
            {"type": "citation", "title": "desk.md"},
        ],
    }
    assert invoke(bot, "When?").content_blocks == [{"type": "text", "text": none}]


def test_unusable_heads_and_forks_are_errors_of_their_own(invoke, fields, service, tmp_path):
    astray = ChatKnowledgeBot(bot_id="bot_1", heads=tmp_path / "none" / "heads.db", **fields)
    strict = ChatKnowledgeBot(bot_id="bot_1", heads=Heads(), on_fork="error", **fields)
    first = invoke(strict, "one")
    with pytest.raises(HeadsError) as caught:
        invoke(astray, [("human", "one"), first, ("human", "two")])
    assert isinstance(caught.value, ChatError)
    assert contents(service) == ["one"]

    invoke(strict, [("human", "one"), first, ("human", "two")])
    with pytest.raises(ForkError) as caught:
        invoke(strict, [("human", "one"), first, ("human", "three")])
    assert isinstance(caught.value, ChatError)
    assert contents(service) == ["one", "two"]
