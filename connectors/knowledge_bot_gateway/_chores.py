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


def _title_in_json(prompt: str) -> str:
    return json.dumps({"title": _title(prompt)}, ensure_ascii=False)


# The last message of a list that Open WebUI shortens, if that is turned on. Sent on, it would be
# one of the user's conversation.
_SUMMARY: Final = "### Task:\nSummarize the conversation"

# The beginning of each prompt, of Open WebUI since 0.6 and LibreChat since 0.7, and its answer.
_CHORES: Final[Mapping[str, Callable[[str], str]]] = {
    "### Task:\nGenerate a concise title": _title_in_json,
    "### Task:\nGenerate a concise, 3-5 word title": _title_in_json,
    "### Task:\nGenerate 1-3 broad tags": lambda _: '{"tags": []}',
    "### Task:\nSuggest 3-5 relevant follow-up questions": lambda _: '{"follow_ups": []}',
    "### Task:\nAnalyze the chat history to determine the necessity of": lambda _: (
        '{"queries": []}'
    ),
    "### Task:\nYou are an autocompletion system": lambda _: '{"text": ""}',
    "### Task:\nGenerate a detailed prompt for am image generation task": lambda _: (
        '{"prompt": ""}'
    ),
    _SUMMARY: lambda _: "Earlier messages are left out.",
    "Your task is to reflect the speaker's likely facial expression": lambda _: "",
    "Provide a concise, 5-word-or-less title for the conversation": _title,
    "Please generate a concise, 5-word-or-less title for the conversation": _title,
    "Please generate a concise title (max 40 characters) for a conversation": _title,
}


def chore_reply(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the answer to a chat window's own prompt; None for everything else."""
    content = messages[-1].get("content")
    prompt = content.strip() if isinstance(content, str) else ""
    if len(messages) > 1 and not prompt.startswith(_SUMMARY):
        return None
    found = (reply for beginning, reply in _CHORES.items() if prompt.startswith(beginning))
    reply = next(found, None)
    return None if reply is None else reply(prompt)
