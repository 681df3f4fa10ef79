"""Bots as tools of agents: the same names and descriptions in every framework."""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from knowledge_bot.errors import ConfigurationError

if TYPE_CHECKING:
    from knowledge_bot.models import Bot

# What model providers accept in a tool's name: OpenAI's and Anthropic's APIs.
_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST: Final = 64
TOOL_NAME: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{_LONGEST}}}")

# The tool that asks any bot.
_TAKEN: Final = "ask_bot"


def tool_names(bots: Iterable["Bot"]) -> list[str]:
    """Return a different name for each bot's tool: by the bot's name, or else by its id.

    Where names clash, all of them carry ids, so that a name is the same bot's in whatever order a
    service lists them.
    """
    ways = [_ways(bot) for bot in bots]
    wanted = Counter([_TAKEN, *(name for several in ways for name in {*several})])
    return [next((name for name in several if wanted[name] == 1), several[-1]) for several in ways]


def _ways(bot: "Bot") -> list[str]:
    """Return the names that a bot's tool may have, the last of which is nobody else's."""
    by_id = tool_name(bot.id.removeprefix("bot_"))
    digest = hashlib.sha256(bot.id.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    by_name = [tool_name(bot.name)] if _latin(bot.name) else []
    return [*by_name, by_id, f"{by_id[: _LONGEST - 9]}_{digest}"]


def tool_name(subject: str) -> str:
    """Return a tool's name that is unique to its subject, in whatever script."""
    kept = _latin(subject)
    if not kept or any(each.isalnum() and not each.isascii() for each in _plain(subject)):
        digest = hashlib.sha256(subject.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        kept = f"{kept[: _LONGEST - 20]}_{digest}".strip("_")
    return f"ask_{kept}"[:_LONGEST]


def tool_descriptions(bots: Sequence["Bot"], given: Mapping[str, str] | None = None) -> list[str]:
    """Return what agents choose each bot's tool by.

    Args:
        bots: the bots.
        given: what some of them know, by their ids; the service only gives a bot's name.

    Raises:
        ConfigurationError: a description is for a bot that is not there.
    """
    known = given or {}
    if unknown := known.keys() - {bot.id for bot in bots}:
        raise ConfigurationError.of(
            "descriptions",
            f"there is no {', '.join(sorted(unknown))}; the bots are "
            f"{', '.join(bot.id for bot in bots)}",
        )
    return [
        known.get(bot.id, f"Answers questions from what the bot {bot.name!r} knows.")
        for bot in bots
    ]


def _latin(subject: str) -> str:
    return _NOT_IN_A_NAME.sub("_", _plain(subject)).strip("_").lower()


def _plain(subject: str) -> str:
    """Return a text without the accents on its letters."""
    parted = unicodedata.normalize("NFKD", subject)
    return "".join(each for each in parted if not unicodedata.combining(each))
