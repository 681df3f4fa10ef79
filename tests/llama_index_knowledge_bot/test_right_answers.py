"""What comes before a question costs no right answer: the embedded service is asked."""

from pathlib import Path

import pytest
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import ChatPromptTemplate

from knowledge_bot import Client
from knowledge_bot_service import LocalService
from llama_index_knowledge_bot import KnowledgeBotChatEngine, KnowledgeBotLLM

pytestmark = pytest.mark.timeout(120)

HANDBOOK = Path(__file__).parents[2] / "examples/handbook"
SYSTEM = "You are a helpful assistant of a library. Answer concisely and accurately."
BEFORE = "Where is the first-aid box?"
QUESTIONS = {
    "Who leads the repair evening?": "Ines Okafor",
    "What does a household membership cost a year?": "54 euros",
    "Which protection is compulsory at the table saw?": "Ear protection",
    "How long is the loan period for hand tools?": "14 days",
    "When was the library founded?": "March 2016",
    "Who is the safety officer?": "Marek Dvorsky",
}


@pytest.fixture(scope="module")
def client():
    with LocalService() as service, Client(service.api_key, service.base_url) as client:
        for file in sorted(HANDBOOK.glob("*.md")):
            client.upload_source(name=file.name, collections="col_default", file=file)
        service.wait_until_ready(60)
        yield client


def llm_of(client, **options):
    return KnowledgeBotLLM("bot_default", client=client, **options)


def plain(client, question):
    return llm_of(client).complete(question).text


def after_a_system_text(client, question):
    talk = [ChatMessage(SYSTEM, role="system"), ChatMessage(question)]
    return llm_of(client).chat(talk).message.content


def with_a_system_prompt(client, question):
    return llm_of(client, system_prompt=SYSTEM).complete(question).text


def in_a_template(client, question):
    template = ChatPromptTemplate([ChatMessage(SYSTEM, role="system"), ChatMessage("{question}")])
    return llm_of(client).predict(template, question=question)


def as_a_second_turn(client, question):
    engine = SimpleChatEngine.from_defaults(llm=llm_of(client), system_prompt=SYSTEM)
    engine.chat(BEFORE)
    return str(engine.chat(question))


def replayed(client, question):
    engine = SimpleChatEngine.from_defaults(llm=llm_of(client, history="replay"))
    engine.chat(BEFORE)
    return str(engine.chat(question))


def after_a_fork(client, question):
    first = KnowledgeBotChatEngine("bot_default", client=client)
    first.chat(BEFORE)
    second = KnowledgeBotChatEngine(
        "bot_default",
        client=client,
        conversation_id=first.conversation_id,
        message_id=first.message_id,
        chat_history=first.chat_history,
    )
    first.chat("Who edits the handbook?")
    answer = str(second.chat(question))
    assert second.conversation_id != first.conversation_id
    return answer


WAYS = [
    plain,
    after_a_system_text,
    with_a_system_prompt,
    in_a_template,
    as_a_second_turn,
    replayed,
    after_a_fork,
]


@pytest.mark.parametrize("ask", WAYS)
def test_the_right_answer_comes_whatever_was_said_before(client, ask):
    wrong = {
        question: answer
        for question, fact in QUESTIONS.items()
        if fact not in (answer := ask(client, question))
    }
    assert wrong == {}


def test_a_follow_up_is_understood_after_a_fork(client):
    assert "4 days" in after_a_follow_up(client, fork=False)
    assert "4 days" in after_a_follow_up(client, fork=True)


def after_a_follow_up(client, *, fork):
    first = KnowledgeBotChatEngine("bot_default", client=client)
    first.chat("How long is the loan period for hand tools?")
    second = KnowledgeBotChatEngine(
        "bot_default",
        client=client,
        conversation_id=first.conversation_id,
        message_id=first.message_id,
        chat_history=first.chat_history,
    )
    if fork:
        first.chat(BEFORE)
    return str(second.chat("And for large machines?"))
