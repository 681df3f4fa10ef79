"""A test of pytest for each question that a bot has to answer: `pytest examples/test_answers.py`.

It takes the questions of the file that QUESTIONS names, and the address and the key from the
environment.
"""

import os

import pytest

from knowledge_bot import Client
from knowledge_bot.checks import check, load_questions

QUESTIONS = load_questions(os.environ.get("QUESTIONS", "questions.toml"))


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.ask)
def test_the_bot_answers(question):
    with Client() as client:
        report = check(client, "bot_default", [question])
    assert report.ok, str(report)
