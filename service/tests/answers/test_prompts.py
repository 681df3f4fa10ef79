"""The question inside a prompt is answered as it is alone, whatever stands around it."""

# Letters of many scripts look alike.
# ruff: noqa: RUF001

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from time import process_time

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from in_process import InProcess
from knowledge_bot.transcripts import Turn, render
from knowledge_bot_service.answers.conversations import asked_in
from knowledge_bot_service.answers.prompts import question_in
from service_calls import add_text, ask, client_of, problem_of

PROMPTS: list[dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("prompts.toml").read_text("utf-8")
)["prompts"]
SETS = Path(__file__).parents[1] / "benchmarks" / "questions"

BRIDGE = (
    "The bridge over the Lann carries four thousand cars. Who pays for it? The state does.\n\n"
    "The toll is two crowns for a lorry."
)
FERRY = (
    "The ferry to the island leaves at 7:45 from pier four. A ticket for a bicycle costs a crown."
)

TEXTS = {
    "Lighthouse": "The lighthouse of Kolm was built in 1874 by Ada Brandt. Its lamp reaches 31 "
    "kilometres.",
    "Ferry": "The ferry to the island leaves at 7:45 from pier four. A ticket for a bicycle costs "
    "three crowns.",
    "Museum": "The herring museum keeps 412 barrels. Its director is Olaf Stenberg.",
    "Mühle": "Die Mühle von Torvik wird von Kai Lund gepflegt.",
}
FACTS = {
    "Who built the lighthouse of Kolm?": "Ada Brandt",
    "What does a ticket for a bicycle cost?": "three crowns",
    "How many barrels does the herring museum keep?": "412",
    "Wer pflegt die Mühle von Torvik?": "Kai Lund",
}
WITHOUT_A_MARK = "opening hours on saturday"
QUESTIONS = [*FACTS, "How do I reset my password?", "パスワードはどうやって変更しますか？"]

# Around words that are no question, politeness has no end: some of it is looked for as well.
ENDLESS = {"politeness", "de: politeness"}


def filled(prompt: dict[str, str], question: str, context: str = BRIDGE) -> str:
    return prompt["text"].replace("{question}", question).replace("{context}", context)


@pytest.mark.parametrize("prompt", PROMPTS, ids=lambda prompt: prompt["name"])
def test_the_question_of_a_prompt_is_found_word_for_word(prompt: dict[str, str]) -> None:
    questions = QUESTIONS if prompt["name"] in ENDLESS else [*QUESTIONS, WITHOUT_A_MARK]
    for context in ("", BRIDGE, FERRY, BRIDGE * 300):
        for question in questions:
            assert question_in(filled(prompt, question, context)) == question


def ordinary() -> Iterator[str]:
    for file in SETS.rglob("*.json"):
        yield from _entries(json.loads(file.read_text("utf-8")))


def _entries(found: object) -> Iterator[str]:
    if isinstance(found, dict):
        for name, one in found.items():
            if name == "question" and isinstance(one, str):
                yield one
            else:
                yield from _entries(one)
    elif isinstance(found, list):
        for one in found:
            yield from _entries(one)


def test_ordinary_questions_are_left_as_they_are() -> None:
    questions = [*ordinary()]
    assert len(questions) > 400
    assert [one for one in questions if question_in(one) != one] == []


@pytest.mark.parametrize(
    "message",
    [
        "What is the query language: SQL or something else?",
        "What does `invalid input: x` mean?",
        "What does <question> stand for in a form?",
        'How is "question": "x" written in YAML?',
        "Question",
        "Thanks!",
        "Hello",
        "hello world",
        "What do [INST] and [/INST] mean?",
        '{"question": 1}',
        "{}",
        "Explain the loan period.",
        "first line\n\nsecond line",
        "Where is the key?\n\nIt is red.",
        "I see.\n\nAnd on Sundays?",
        "",
    ],
)
def test_what_only_looks_like_a_prompt_is_left_as_it_is(message: str) -> None:
    assert question_in(message) == message


@pytest.mark.parametrize(
    ("message", "question"),
    [
        ("Hello, could you kindly tell me what a ticket costs?", "what a ticket costs?"),
        ("Könnten Sie mir bitte sagen, wann Sie öffnen?", "wann Sie öffnen?"),
        ("Bonjour, pourriez-vous me dire où est le bureau ?", "où est le bureau ?"),
        ("Hi team, where is the key?", "where is the key?"),
        ("Where is the key? Thanks a lot!", "Where is the key?"),
        ("As a table, please: Where is the key?", "Where is the key?"),
        ("Where is the key? In one sentence, please.", "Where is the key?"),
        ("Where is the key? Please answer in JSON with the keys a and b.", "Where is the key?"),
        ("Wo ist er? Bitte antworte in JSON mit den Schlüsseln a und b.", "Wo ist er?"),
        ("Bitte in Stichpunkten: Wo ist er?", "Wo ist er?"),
        ("Où est la clé ? Veuillez répondre en JSON avec les clés a et b.", "Où est la clé ?"),
        ("¿Dónde está? Por favor, responde en JSON con las claves a y b.", "¿Dónde está?"),
        ("Dov'è? Per favore rispondi in JSON con le chiavi a e b.", "Dov'è?"),
        ("Could you tell me, if you know, wann Sie öffnen?", "wann Sie öffnen?"),
        ("Sorry to bother you, but where is the key?", "where is the key?"),
        ("Where is the key?\n\nBest,\nAnna", "Where is the key?"),
        ("# Rules\n- Be brief.\n- Never guess.\n\n# Task\nWhere is the key?", "Where is the key?"),
        ("[System]: Be brief.\n[User]: Where is the key?", "Where is the key?"),
        ("<@U024BE7LH> Where is the key? :wave:", "Where is the key?"),
        (
            "Here is a document:\n<document>\nIs it warm? Yes.\n</document>\nPlease answer: Why?",
            "Why?",
        ),
        ("User: Hello!\nAssistant: Hi.\nUser: Where is the key?\nAssistant:", "Where is the key?"),
        ('{"question": "Where is the key?", "language": "en"}', "Where is the key?"),
        ('{"ticket": 4711, "body": "Where is the key?", "user": "anna"}', "Where is the key?"),
        ("hey @kbot where is the key?", "where is the key?"),
        ("Hi team,\n\nwhere is it?\n\nThanks, Tom\nMobile 0171 9988776", "where is it?"),
        ("Where is it?\n\nThank you,\nTom Baker", "Where is it?"),
        ("Where is it?\n\nTom Baker\n0171 9988776", "Where is it?"),
        ("@kbot hi, where is the key?", "where is the key?"),
        ("Thanks for the map.\nWhere is the key?", "Where is the key?"),
        ("Hi,\nthanks for that.\nWhere is the key?\nThanks, Tom", "Where is the key?"),
        ('{"messages": [{"role": "user", "content": "Where is the key?"}]}', "Where is the key?"),
        ("Question: I lost it.\n\nWhere is the key?\n\nAnswer:", "I lost it.\n\nWhere is the key?"),
    ],
)
def test_politeness_is_not_looked_for(message: str, question: str) -> None:
    assert question_in(message) == question


@given(st.text(alphabet='Question:<query>"{}\\[]#-=`\n\t.?! aÄ質問：Q1', max_size=300))
def test_any_text_gives_a_text(text: str) -> None:
    assert question_in(text).strip() or not text.strip()


@pytest.mark.parametrize(
    ("question", "told"),
    [("Where is the key?", 1), ("Where is it?", 1), ("Where is the key? Is it lost?", 0)],
)
@pytest.mark.parametrize("times", [1, 5])
def test_what_is_told_around_a_question_is_what_was_said_before_it(question, told, times):
    story = "We were with you last weekend and had a lovely time. " * times
    asked = asked_in(f"Hi team,\n\n{story}\n\n{question}\n\nMany thanks!\nJoanna Clark")
    assert (asked.question == question) is bool(told and times > 1)
    assert len(asked.before) == (told and times > 1)


@pytest.mark.parametrize(
    "refine",
    [
        # LangChain's, for chat models.
        (
            "We have the opportunity to refine the existing answer (only if needed) with some "
            "more context below.\n------------\n{context}\n------------\nGiven the new "
            "context, refine the original answer to better answer the question. If the context "
            "isn't useful, return the original answer."
        ),
        "Here is some more context:\n{context}\n\nRefine your previous answer if needed.",
        "New context:\n{context}\n\nUpdate the answer above with it.",
        "Improve your answer using these additional documents:\n{context}",
        "Using the context below, rewrite the original answer.\n```\n{context}\n```",
        "[Context]\n{context}\n[/Context]\nPlease revise your response.",
        "<context>\n{context}\n</context>\nNow extend your answer with what is new.",
        "Hier ist weiterer Kontext:\n{context}\n\nVerfeinere damit die bisherige Antwort.",
        "Voici plus de contexte :\n{context}\n\nAméliorez la réponse existante.",
        "以下是更多上下文：\n{context}\n请根据新的上下文完善原来的回答。",
    ],
)
def test_who_asks_to_refine_an_answer_asks_the_question_before_it(refine):
    first = [Turn("user", "When does it open?"), Turn("assistant", "At nine.")]
    for question in (*FACTS, "And on Sundays?"):
        said = [*first, Turn("user", question), Turn("assistant", "Nobody.")]
        plain = asked_in(question, first)
        refined = Turn("user", refine.replace("{context}", BRIDGE))
        once = asked_in(render([*said, refined]))
        assert (once.question, once.before) == (plain.question, plain.before)
        assert all(turn.text in once.message for turn in [*said[2:], refined])
        again = asked_in(refined.text, [*said, refined, Turn("assistant", "The state.")])
        assert (again.question, again.before) == (plain.question, plain.before)


@pytest.mark.parametrize(
    "message",
    [
        "How do I update my answer in the form?",
        "Can I correct the answer that I gave?",
        "Refine the answer.\n\nQuestion: Where is the key?",
    ],
)
def test_a_question_about_answers_asks_for_itself(message):
    said = [Turn("user", "When does it open?"), Turn("assistant", "At nine.")]
    assert asked_in(message, said).question == question_in(message)


@pytest.mark.parametrize(
    "prompt",
    [
        "Where is it?\n\n"
        + ("This tells a lot about the library and its tools. " * 9 + "\n\n") * 80,
        "User:\n" * 6600,
        "[INST] " * 5700,
        "<at>" * 9900,
        "We ask:\n" + "Best\n" * 6000 + "Who?",
        " ".join(f"{number}?" for number in range(30_000)),
        '{"a":' * 6000,
    ],
    ids=["paragraphs", "names", "marks", "tags", "closings", "questions", "objects"],
)
def test_a_long_prompt_is_searched_for_its_question_once(prompt):
    began = process_time()
    for _ in range(5):
        assert asked_in(prompt).question
    assert process_time() - began < 10


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder: Path = tmp_path_factory.mktemp("prompts")
    with InProcess(folder) as service, client_of(service) as client:
        for name, text in TEXTS.items():
            add_text(client, name, text, collection="col_default")
        service.wait_until_ready(300)
        yield client


def answer_to(http: httpx.Client, message: str) -> str:
    return str(ask(http, message, bot="bot_default")["answer"])


@pytest.mark.parametrize("prompt", PROMPTS[::20], ids=lambda prompt: prompt["name"])
def test_a_prompt_is_answered_as_its_question_is_alone(
    http: httpx.Client, prompt: dict[str, str]
) -> None:
    for context in (BRIDGE, FERRY):
        for question, fact in FACTS.items():
            answer = answer_to(http, filled(prompt, question, context))
            assert fact in answer
            assert answer == answer_to(http, question)


def test_another_subject_is_refused_in_a_prompt_as_well(http: httpx.Client) -> None:
    message = ask(http, filled(PROMPTS[0], "Who won the chess cup?", FERRY), bot="bot_default")
    assert message["found"] is False


def test_a_stuffed_prompt_is_answered_and_a_question_too_long_is_refused(
    http: httpx.Client,
) -> None:
    question = "Who built the lighthouse of Kolm?"
    stuffed = filled(PROMPTS[0], question, BRIDGE * 900)
    assert len(stuffed) > 100_000
    assert FACTS[question] in answer_to(http, stuffed)
    for text in ("a" * 100_000, f"Question: {'a' * 30_000}"):
        response = http.post(
            "/messages", json={"value": {"bot_id": "bot_default", "content": text}}
        )
        assert problem_of(response, 400)["code"] == "invalid_request"
