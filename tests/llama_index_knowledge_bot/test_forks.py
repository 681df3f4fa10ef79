"""Chat engines on one conversation: none is answered with turns that it does not know."""

import copy
import pickle

import pytest
from llama_index.core.llms import ChatMessage

from calls import both_ways
from knowledge_bot import ConfigurationError, ConnectionLostError
from knowledge_bot.conversations import HeadsError
from knowledge_bot.transcripts import read
from llama_index_knowledge_bot import KnowledgeBotChatEngine
from numbering_bots import contents, numbering, times_sent
from refusals import refused


@pytest.fixture
def service():
    return numbering()


chat = both_ways("chat", "achat")


@pytest.fixture
def say(chat):
    """`say(engine, text)`: the id of the conversation in which the answer came."""
    return lambda engine, text: chat(engine, text).metadata["conversation_id"]


@pytest.fixture(params=["process", "sqlite"])
def heads(request, tmp_path):
    return None if request.param == "process" else f"sqlite:///{tmp_path}/heads.db"


def restored(engine, client, **options):
    """What another worker makes of what it gets of an engine."""
    return KnowledgeBotChatEngine(
        "bot_1",
        client=client,
        conversation_id=engine.conversation_id,
        message_id=engine.message_id,
        chat_history=engine.chat_history,
        **options,
    )


def texts(engine):
    return [message.content for message in engine.chat_history]


def test_who_comes_second_to_a_conversation_gets_one_of_its_own(service, client, say, heads):
    first = KnowledgeBotChatEngine("bot_1", client=client, heads=heads)
    trunk = say(first, "<one>")
    second = restored(first, client, heads=heads)
    assert say(first, "<two>") == trunk
    branch = say(second, "<three>")
    assert branch != trunk == first.conversation_id
    assert second.conversation_id == branch
    (transcript,) = service.conversations[branch]
    assert [turn.text for turn in read(transcript).turns] == texts(second)[:-1]
    assert texts(second)[::2] == ["<one>", "<three>"]
    assert (say(first, "<four>"), say(second, "<five>")) == (trunk, branch)
    assert service.conversations[branch][1:] == ["<five>"]


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_of_duplicates_one_goes_on_and_the_other_forks(client, tmp_path, duplicate):
    first = KnowledgeBotChatEngine("bot_1", client=client, heads=tmp_path / "heads.db")
    first.chat("<one>")
    second = duplicate(first)
    conversation = first.conversation_id
    first.chat("<two>")
    second.chat("<three>")
    assert first.conversation_id == conversation != second.conversation_id


def test_an_id_alone_goes_on_after_whatever_is_there(service, client, say, heads):
    first = KnowledgeBotChatEngine("bot_1", client=client, heads=heads)
    trunk = say(first, "<one>")
    second = KnowledgeBotChatEngine("bot_1", client=client, conversation_id=trunk, heads=heads)
    assert say(second, "<two>") == trunk
    assert service.conversations[trunk] == ["<one>", "<two>"]
    # From then on each knows where it was.
    assert say(first, "<three>") != trunk
    assert say(second, "<four>") == trunk


def test_a_fork_may_be_an_error_before_anything_is_sent(service, client, say):
    first = KnowledgeBotChatEngine("bot_1", client=client)
    say(first, "<one>")
    second = restored(first, client, on_fork="error")
    say(first, "<two>")
    with pytest.raises(ConfigurationError, match="has gone on since the bot's last answer"):
        say(second, "<three>")
    assert contents(service) == ["<one>", "<two>"]
    assert texts(second)[::2] == ["<one>"]


def test_a_history_without_a_conversation_starts_one(service, client, say):
    history = [ChatMessage("<one>"), ChatMessage("<answer>", role="assistant")]
    engine = KnowledgeBotChatEngine("bot_1", client=client, chat_history=history)
    say(engine, "<two>")
    say(engine, "<three>")
    first, second = contents(service)
    assert [turn.text for turn in read(first).turns] == ["<one>", "<answer>", "<two>"]
    assert (second, texts(engine)[::2]) == ("<three>", ["<one>", "<two>", "<three>"])


def test_after_a_lost_answer_the_next_turn_is_a_fork_and_nothing_goes_twice(service, client, say):
    engine = KnowledgeBotChatEngine("bot_1", client=client)
    trunk = say(engine, "<one>")
    service.lose_next_answer()
    with pytest.raises(ConnectionLostError):
        say(engine, "<lost>")
    assert say(engine, "<two>") != trunk
    assert texts(engine)[::2] == ["<one>", "<two>"]
    assert times_sent(service, "<lost>") == [1]


@pytest.mark.parametrize("options", [{"on_fork": "merge"}, {"message_id": "msg_1"}], ids=str)
def test_what_cannot_be_used_is_reported_when_the_engine_is_made(client, options):
    with refused(*options):
        KnowledgeBotChatEngine("bot_1", client=client, **options)
    with pytest.raises(HeadsError):
        KnowledgeBotChatEngine("bot_1", client=client, heads="mysql://x")
