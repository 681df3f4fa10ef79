"""What chat windows ask a model besides the user's questions: a title, tags, search queries.

A bot answers from sources, so it has nothing to say to that, and each would cost a message. The
prompts that chat windows send by default are recognised, and answered here.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

_WORDS_OF_A_TITLE: Final = 6
_QUESTION: Final = re.compile(
    r"^(?:USER|User|Human|user):\s*(.+)$|<\|?user\|?>\s*(.+)$", re.MULTILINE
)


def _title(prompt: str) -> str:
    found = _QUESTION.search(prompt)
    words = ((found[1] or found[2]) if found else "").split()
    return " ".join(words[:_WORDS_OF_A_TITLE]).rstrip("?!.,;:") or "New chat"


# The beginning of each prompt, of Open WebUI since 0.6 and LibreChat since 0.7, and its answer.
_CHORES: Final[Mapping[str, Callable[[str], str]]] = {
    "### Task:\nGenerate a concise, 3-5 word title": lambda prompt: json.dumps(
        {"title": _title(prompt)}, ensure_ascii=False
    ),
    "### Task:\nGenerate 1-3 broad tags": lambda _: '{"tags": []}',
    "### Task:\nSuggest 3-5 relevant follow-up questions": lambda _: '{"follow_ups": []}',
    "### Task:\nAnalyze the chat history to determine the necessity of": lambda _: (
        '{"queries": []}'
    ),
    "### Task:\nYou are an autocompletion system": lambda _: '{"text": ""}',
    "### Task:\nGenerate a detailed prompt for am image generation task": lambda _: (
        '{"prompt": ""}'
    ),
    "Provide a concise, 5-word-or-less title for the conversation": _title,
    "Please generate a concise, 5-word-or-less title for the conversation": _title,
}


def chore_reply(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the answer to a chat window's own prompt; None for everything else."""
    content = messages[-1].get("content") if len(messages) == 1 else None
    if not isinstance(content, str):
        return None
    prompt = content.strip()
    found = (reply for beginning, reply in _CHORES.items() if prompt.startswith(beginning))
    reply = next(found, None)
    return None if reply is None else reply(prompt)
