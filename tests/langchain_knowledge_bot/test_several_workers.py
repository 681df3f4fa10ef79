"""A chat application in four processes, which share the heads of the conversations."""

import os
import random
import re
import subprocess
import sys
import time
from collections import Counter

import httpx
import pytest

from calls import KEY
from served import served
from waiting import free_port

pytestmark = pytest.mark.slow

APP = """
from typing import Any

from fastapi import FastAPI
from langchain_core.messages import messages_from_dict, messages_to_dict

from langchain_knowledge_bot import ChatKnowledgeBot

app = FastAPI()
bot = ChatKnowledgeBot(bot_id="bot_1", heads="sqlite:///heads.db")


@app.post("/chat")
async def chat(messages: list[dict[str, Any]]) -> dict[str, Any]:
    answer = await bot.ainvoke(messages_from_dict(messages))
    return messages_to_dict([answer])[0]
"""
MARK = re.compile(r"<text \d+>")


@pytest.fixture
def application(service, tmp_path):
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    port = free_port()
    with served(service) as url, (tmp_path / "log").open("w") as log:
        environment = {"KNOWLEDGE_BOT_BASE_URL": url, "KNOWLEDGE_BOT_API_KEY": KEY}
        serving = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "app:app", "--workers", "4", "--port", str(port)],
            cwd=tmp_path,
            env=os.environ | environment,
            stdout=log,
            stderr=log,
        )
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            serving.terminate()
            serving.wait(20)


def human(text):
    return {"type": "human", "data": {"content": text, "type": "human"}}


def said(url, messages):
    deadline = time.monotonic() + 60
    while True:
        try:
            # A connection for each request, so that any of the workers may take it.
            answered = httpx.post(f"{url}/chat", json=messages, timeout=30)
        except httpx.ConnectError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        else:
            return answered.raise_for_status().json()


def test_four_workers_never_mix_what_people_say(application, service, tmp_path):
    choose, chats = random.Random(1), [[]]
    for number in range(40):
        base = choose.choice(chats)
        act = choose.choice(["go on", "go on", "fork", "edit"])
        question = human(f"<text {number}>")
        if act == "go on" or not base:
            messages = [*base, question]
        elif act == "fork":
            messages = [*base[: choose.randrange(0, len(base), 2)], question]
        else:
            messages = [question, *base[1:], human("<text 999>")]
        reply = said(application, messages)
        told = reply["data"]["response_metadata"]
        heard = MARK.findall("\n".join(service.conversations[told["conversation_id"]]))
        assert set(heard) <= set(MARK.findall(str(messages))), "nothing that is not in the list"
        chats.append([*messages, reply])
    assert (tmp_path / "heads.db").exists()
    contents = Counter(len(told) for told in service.conversations.values())
    assert max(contents) > 1, "some went on in their conversation"
