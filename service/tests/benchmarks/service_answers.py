"""How well the embedded service answers, over HTTP, through our client.

`python service/tests/benchmarks/service_answers.py FOLDER` with `tests/benchmarks` in PYTHONPATH,
or `scripts/benchmark service_answers` with the folder's name in KNOWLEDGE_BOT_QUESTION_SETS. The
folder has public question sets: squad-half.json, off-topic.json, follow-ups.json and
xquad-LANGUAGE.json. Every figure is told for all questions and
for two halves of the articles: what was chosen by looking at one half must hold on the other.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from measuring import Figure, report

from knowledge_bot import Client
from knowledge_bot.transcripts import Turn, render
from knowledge_bot_service import LocalService
from knowledge_bot_service.answers.answerer import REFUSAL, UNSURE
from knowledge_bot_service.answers.conversations import (
    CONTEXT_EXCHANGES,
    SOURCES,
    AskedQuestion,
    Exchange,
)
from knowledge_bot_service.answers.finding import Finder
from knowledge_bot_service.config.folder import database_file
from knowledge_bot_service.index.search import Search
from knowledge_bot_service.store.database import ServiceDatabase

COLLECTION, BOT = "col_default", "bot_default"
SETS = "KNOWLEDGE_BOT_QUESTION_SETS"

# At least this share has the gold answer inside, names the right source, is answered, and, of the
# questions on other subjects, is refused or answered with a doubt.
SQUAD_BOUNDS = (0.85, 0.975, 0.97, 0.92)

# An answer has so many characters at most.
LONGEST = 2000

COLUMNS = ("questions", "gold inside", "source named", "first source", "answered", "refused")

# What a question may lose, in shares of right answers, when more than itself is sent, or when its
# conversation goes on as a transcript in a new one; of how many questions that is measured.
MOST_LOST = 0.05
SAMPLE = 600

# Right first source at least, by language; those that no bound names are told.
LANGUAGE_BOUNDS = {"de": 0.90, "zh": 0.90, "th": 0.85}


@dataclass(frozen=True)
class Outcome:
    """What came of a question: which half its article is in, and what was found."""

    half: int
    gold: bool
    named: bool
    first: bool
    answered: bool
    milliseconds: float


def main() -> None:
    """Measure every set that the folder has."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="where the question sets are")
    parser.add_argument("--json", help="a file to write the figures to")
    given = parser.parse_args().folder or os.environ.get(SETS)
    if given is None:
        parser.error(f"name a folder of question sets, also in {SETS}")
    folder = Path(given)
    figures: list[Figure] = []
    rows: list[dict[str, Any]] = []
    english(folder, figures, rows)
    for file in sorted(folder.glob("xquad-*.json")):
        other_language(file, figures, rows)
    follow_ups(folder, figures, rows)
    report("Answers of the embedded service", figures, rows)


def english(folder: Path, figures: list[Figure], rows: list[dict[str, Any]]) -> None:
    """SQuAD articles as sources: their questions, and questions on other articles."""
    data = read(folder / "squad-half.json")
    strangers = read(folder / "off-topic.json")["offtopic"]
    with LocalService() as service, client_of(service) as client:
        add_sources(service, client, data["sources"])
        asked = ask_all(client, data)
        refused = ask_strangers(client, strangers)
        sample = data["questions"][:: len(data["questions"]) // SAMPLE]
        lost = lost_in_transcripts("SQuAD", client, sample)
    figures += [*answer_figures("SQuAD", asked, refused, SQUAD_BOUNDS), *lost]
    middle = (len(refused) + 1) // 2
    rows.extend(
        {**row, "refused": round(refusals(part), 3)}
        for row, part in zip(
            halves("SQuAD", asked), (refused[:middle], refused[middle:]), strict=True
        )
    )


def other_language(file: Path, figures: list[Figure], rows: list[dict[str, Any]]) -> None:
    """The same articles and questions, translated."""
    data = read(file)
    language = file.stem.removeprefix("xquad-")
    with LocalService() as service, client_of(service) as client:
        add_sources(service, client, data["sources"])
        asked = ask_all(client, data)
    figures.append(
        Figure(
            f"XQuAD {language}: right first source",
            share(asked, lambda one: one.first),
            LANGUAGE_BOUNDS.get(language),
            True,
        )
    )
    rows.extend(halves(f"XQuAD {language}", asked))


def follow_ups(folder: Path, figures: list[Figure], rows: list[dict[str, Any]]) -> None:
    """Later questions of conversations; each passage is a source of its own.

    An answer names the sources that it quotes. Which five passages it chose from is asked of the
    service's own search, on the data folder that it left.
    """
    data = read(folder / "follow-ups.json")
    hits, alone = [], []
    with tempfile.TemporaryDirectory() as name:
        with LocalService(name) as service, client_of(service) as client:
            # Without titles, as the set was measured elsewhere.
            passages = [{"title": one["id"], "text": one["text"]} for one in data["passages"]]
            add_sources(service, client, passages)
            named = [follow_up_named(client, task) for task in data["tasks"]]
            longer = [task for task in data["tasks"] if len(asked_before(task)) > 1]
            goes_on = [
                (follow_up_named(client, task)[0], goes_on_named(client, task)) for task in longer
            ]
        with closing(ServiceDatabase(database_file(Path(name)))) as database:
            finder = Finder(Search(database))
            for task in data["tasks"]:
                before = exchanges_of(task["history"])
                found = [
                    finder.find(AskedQuestion(task["question"], task["question"], given), (1,))
                    for given in (before, ())
                ]
                with_turns, without = (
                    {passage.hit.source_name for passage in one.passages} for one in found
                )
                hits.append(not with_turns.isdisjoint(task["gold"]))
                alone.append(not without.isdisjoint(task["gold"]))
    there, forked = zip(*named, strict=True)
    figures += [
        Figure("follow-ups: right passage in the first five", statistics.mean(hits), 0.87, True),
        Figure("follow-ups: the same without what was said before", statistics.mean(alone)),
        Figure("follow-ups: right passage named in the answer", statistics.mean(there)),
        Figure("follow-ups: less often named after a fork", lost(there, forked), MOST_LOST),
        Figure(
            "follow-ups: less often named one turn after a fork",
            lost(*zip(*goes_on, strict=True)),
            MOST_LOST,
        ),
    ]
    middle = len(hits) // 2
    rows.extend(
        {
            **dict.fromkeys(COLUMNS, ""),
            "questions": f"follow-ups, half {half} (first five)",
            "source named": round(statistics.mean(part), 3),
        }
        for half, part in enumerate((hits[:middle], hits[middle:]))
    )


def follow_up_named(client: Client, task: dict[str, Any]) -> tuple[bool, bool]:
    """Whether an answer names the right passage, after the service's own replies.

    First the answer in the conversation, then the one to the same turns in a new conversation.
    """
    conversation, turns = said_before(client, task)
    question = task["question"]
    there = client.send_message(bot_id=BOT, content=question, conversation_id=conversation)
    forked = client.send_message(bot_id=BOT, content=render([*turns, Turn("user", question)]))
    return is_named(task, there.answer), is_named(task, forked.answer)


def goes_on_named(client: Client, task: dict[str, Any]) -> bool:
    """Whether the right passage is named where the question before this one began a fork."""
    _, turns = said_before(client, task)
    forked = client.send_message(bot_id=BOT, content=render(turns[:-1]))
    message = client.send_message(
        bot_id=BOT, content=task["question"], conversation_id=forked.conversation_id
    )
    return is_named(task, message.answer)


def said_before(client: Client, task: dict[str, Any]) -> tuple[str | None, list[Turn]]:
    """Have the conversation before a question; its id, and its turns."""
    conversation: str | None = None
    turns: list[Turn] = []
    for text in asked_before(task):
        message = client.send_message(bot_id=BOT, content=text, conversation_id=conversation)
        conversation = message.conversation_id
        turns += [Turn("user", text), Turn("assistant", message.answer)]
    return conversation, turns


def asked_before(task: dict[str, Any]) -> list[str]:
    """What was asked before a question, as far as the service looks back."""
    history = task["history"][-2 * CONTEXT_EXCHANGES :]
    return [text for who, text in history if who == "user" and text.strip()]


def is_named(task: dict[str, Any], answer: str) -> bool:
    """Whether an answer names one of the right passages."""
    return not set(task["gold"]).isdisjoint(answer.partition(SOURCES)[2].split(", "))


def exchanges_of(history: Sequence[Sequence[str]]) -> list[Exchange]:
    """The last exchanges of a conversation, with the replies that the set has."""
    exchanges = [
        Exchange(question, answer)
        for (who, question), (_, answer) in pairwise([*history, ["agent", ""]])
        if who == "user"
    ]
    return exchanges[-CONTEXT_EXCHANGES:]


def client_of(service: LocalService) -> Client:
    """A client of the service."""
    return Client(service.api_key, service.base_url)


def add_sources(service: LocalService, client: Client, sources: Iterable[dict[str, str]]) -> None:
    """Add texts, and wait until all are ready."""
    for source in sources:
        client.create_text_source(
            name=source["title"], collections=COLLECTION, content=source["text"]
        )
    service.wait_until_ready(300)


def ask_all(client: Client, data: dict[str, Any]) -> list[Outcome]:
    """Ask every question of a set."""
    half = {source["title"]: number % 2 for number, source in enumerate(data["sources"])}
    return [ask(client, question, half[question["title"]]) for question in data["questions"]]


def ask(client: Client, question: dict[str, Any], half: int) -> Outcome:
    """Ask one question, and look at the answer."""
    started = time.perf_counter()
    answer = client.send_message(bot_id=BOT, content=question["question"]).answer
    milliseconds = (time.perf_counter() - started) * 1000
    text = answer.partition(SOURCES)[0]
    if len(text) > LONGEST:
        raise AssertionError(f"the answer has {len(text)} characters: {text}")
    # A name may have commas itself.
    names = f", {answer.partition(SOURCES)[2]}, "
    title = f", {question['title']}, "
    return Outcome(
        half=half,
        gold=any(gold in text for gold in question["answers"]),
        named=title in names,
        first=names.startswith(title),
        answered=answer != REFUSAL,
        milliseconds=milliseconds,
    )


def ask_strangers(client: Client, questions: Iterable[str]) -> list[bool]:
    """Ask questions on other subjects; whether each is refused, or answered with a doubt."""
    answers = (client.send_message(bot_id=BOT, content=one).answer for one in questions)
    return [answer.startswith((REFUSAL, UNSURE)) for answer in answers]


def lost_in_transcripts(
    name: str, client: Client, questions: Sequence[dict[str, Any]]
) -> list[Figure]:
    """How many right answers questions lose after other turns, against being sent by themselves.

    An edited or regenerated turn, and a history from elsewhere, are sent as an earlier exchange
    and the question.
    """

    def gold(question: dict[str, Any], *before: Turn) -> bool:
        content = render([*before, Turn("user", question["question"])])
        answer = client.send_message(bot_id=BOT, content=content).answer
        return any(gold in answer.partition(SOURCES)[0] for gold in question["answers"])

    exchanges = [
        (
            Turn("user", one["question"]),
            Turn("assistant", client.send_message(bot_id=BOT, content=one["question"]).answer),
        )
        for one in questions
    ]
    system = Turn("system", "You are a helpful assistant. Answer concisely and accurately.")
    ways: dict[str, Callable[[int], Sequence[Turn]]] = {
        "a system text": lambda _: [system],
        "an earlier exchange": lambda number: exchanges[number - 1],
        "three earlier exchanges": lambda number: [
            turn for back in (3, 2, 1) for turn in exchanges[number - back]
        ],
        "a system text and the result of a tool": lambda number: [
            system,
            exchanges[number - 1][0],
            Turn("tool", exchanges[number - 1][1].text),
            exchanges[number - 1][1],
        ],
    }
    plain = [gold(question) for question in questions]
    return [
        Figure(
            f"{name}: gold answers lost after {way}",
            lost(plain, [gold(one, *before(number)) for number, one in enumerate(questions)]),
            MOST_LOST,
        )
        for way, before in ways.items()
    ]


def lost(without: Sequence[bool], with_it: Sequence[bool]) -> float:
    """By how much the share of what is right is lower with something than without it."""
    return statistics.mean(without) - statistics.mean(with_it)


def answer_figures(
    name: str, asked: Sequence[Outcome], refused: Sequence[bool], bounds: Iterable[float | None]
) -> list[Figure]:
    """The figures of a set: shares with the given bounds, and times."""
    times = sorted(one.milliseconds for one in asked)
    told = {
        "gold answer inside": share(asked, lambda one: one.gold),
        "right source named": share(asked, lambda one: one.named),
        "answered": share(asked, lambda one: one.answered),
        "off-topic refused or unsure": refusals(refused),
    }
    return [
        *(
            Figure(f"{name}: {what}", value, bound, at_least=True)
            for (what, value), bound in zip(told.items(), bounds, strict=True)
        ),
        Figure("question p50, ms", statistics.median(times), 15),
        Figure("question p99, ms", times[len(times) * 99 // 100], 50),
    ]


def halves(name: str, asked: Sequence[Outcome]) -> list[dict[str, Any]]:
    """The shares in each half of the articles, as rows of the table."""
    return [
        shares(f"{name}, half {half}", [one for one in asked if one.half == half])
        for half in (0, 1)
    ]


def shares(name: str, asked: Sequence[Outcome]) -> dict[str, Any]:
    """The shares of a set of questions, as a row of the table."""
    return {
        **dict.fromkeys(COLUMNS, ""),
        "questions": name,
        "gold inside": round(share(asked, lambda one: one.gold), 3),
        "source named": round(share(asked, lambda one: one.named), 3),
        "first source": round(share(asked, lambda one: one.first), 3),
        "answered": round(share(asked, lambda one: one.answered), 3),
    }


def share(asked: Sequence[Outcome], holds: Callable[[Outcome], bool]) -> float:
    """The share of questions for which something holds."""
    return statistics.mean(map(holds, asked))


def refusals(refused: Sequence[bool]) -> float:
    """The share of refusals."""
    return statistics.mean(refused)


def read(file: Path) -> dict[str, Any]:
    """Read a question set."""
    data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return data


if __name__ == "__main__":
    main()
