"""Who gets the next turn of a conversation."""

import threading

import pytest

from knowledge_bot import ConfigurationError, Message
from langchain_knowledge_bot.conversations import Place, Turn
from langchain_knowledge_bot.heads import Heads

HERE = "https://service.example"


def turns(conversation="conv_1", after="msg_1", text="next"):
    anchor = Turn("Assistant", "said", place=Place(conversation, after))
    return [Turn("User", "one", is_human=True), anchor, Turn("User", text, is_human=True)]


def said(conversation="conv_1", number=2):
    return Message(id=f"msg_{number}", answer="a", conversation_id=conversation, created_at=0)


def exchange_of(heads, turns, on_fork="new", service=HERE):
    return heads.exchange(service, turns, history="transcript", on_fork=on_fork)


def ask(heads, turns, on_fork="new", service=HERE):
    with exchange_of(heads, turns, on_fork, service) as exchange:
        exchange.answer = said(exchange.outgoing.conversation_id or "conv_new")
    return exchange.outgoing


def test_an_answer_that_nobody_continued_from_is_continued_from():
    heads = Heads()
    assert ask(heads, turns()).conversation_id == "conv_1"
    assert ask(heads, turns(after="msg_2")).conversation_id == "conv_1"


def test_an_older_answer_starts_a_new_conversation_with_the_whole_list():
    heads = Heads()
    ask(heads, turns())
    fork = ask(heads, turns(text="fork"))
    assert fork.conversation_id is None
    assert fork.content == "User: one\n\nAssistant: said\n\nUser: fork"


def test_the_same_ids_at_another_service_are_another_conversation():
    heads = Heads()
    ask(heads, turns())
    assert ask(heads, turns(), service="https://elsewhere.example").conversation_id == "conv_1"


def test_of_two_at_once_one_gets_the_conversation():
    heads, together = Heads(), threading.Barrier(8)
    got = []

    def run():
        together.wait()
        got.append(ask(heads, turns()).conversation_id)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got, key=str) == [None] * 7 + ["conv_1"]


def test_a_turn_that_is_awaited_is_taken():
    heads = Heads()
    with exchange_of(heads, turns()) as first:
        assert ask(heads, turns()).conversation_id is None
        with pytest.raises(ConfigurationError, match="has gone on since"):
            ask(heads, turns(), on_fork="error")
        first.answer = said()


def test_a_refused_message_gives_its_turn_back():
    heads = Heads()
    with pytest.raises(ConfigurationError), exchange_of(heads, turns()):
        raise ConfigurationError("bot_id: is none")
    assert ask(heads, turns()).conversation_id == "conv_1"


@pytest.mark.parametrize("failure", [TimeoutError, KeyboardInterrupt])
def test_a_lost_message_takes_its_turn_for_good(failure):
    heads = Heads()
    with pytest.raises(failure), exchange_of(heads, turns()):
        raise failure
    assert ask(heads, turns()).conversation_id is None
    with pytest.raises(ConfigurationError, match="this very message"):
        ask(heads, turns(), on_fork="continue")
    assert ask(heads, turns(text="x"), on_fork="continue").conversation_id == "conv_1"


def test_the_conversation_that_was_longest_silent_is_forgotten():
    heads = Heads(remembered=2)
    for name in ("conv_1", "conv_2", "conv_3"):
        ask(heads, turns(name))
    assert ask(heads, turns("conv_3")).conversation_id is None
    assert ask(heads, turns("conv_1")).conversation_id == "conv_1"
