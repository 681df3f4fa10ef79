"""How well the embedded service answers what people type who do not have the page before them.

Everyday questions to the notes of three offices, in other words than the notes to two, and in five
languages, questions to Turkish texts, and how-to questions to the documentation of projects:
`questions/` has the notes, the texts and all questions, and its README says what each set is. The
documentation is not in the repository: how-to questions are measured where a FOLDER that is given
has a folder with the documentation that NAME.json of `questions/how-to/` or
`questions/other-words/` names, by the same NAME; a question's `source` is a path in it.

The everyday questions to the museum and the clinic were typed from a list of facts, by somebody who
had not read the notes. These two, black, hatch, jupyterlab and mkdocs were looked at while the
service was improved; the workshop, httpx and pipx were only measured.

An answer is right if it has one of each group's words. Of questions on other subjects, and of those
on the office that the notes do not answer, those that are refused or answered with a doubt are
counted.
"""

import argparse
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from measuring import Figure, report

from knowledge_bot import Client
from knowledge_bot_service import LocalService
from knowledge_bot_service.answers.answerer import REFUSAL, UNSURE
from knowledge_bot_service.answers.conversations import SOURCES

QUESTIONS = Path(__file__).with_name("questions")
DOCUMENTATION = "KNOWLEDGE_BOT_DOCUMENTATION"
COLLECTION = "col_default"
READ = {".csv", ".md", ".rst", ".txt"}
LEFT_OUT = {"change_log.md", "changelog.rst", "history", "release-notes.md"}

# What the answers to each kind of question must keep.
RIGHT_EVERYDAY, RIGHT_HOW_TO, RIGHT_TURKISH, DOUBTED = 0.85, 0.70, 0.93, 0.95


def main() -> None:
    """Measure every set whose documents are there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="where the documentation is")
    parser.add_argument("--json", help="a file to write the figures to")
    folder = parser.parse_args().folder or os.environ.get(DOCUMENTATION)
    rows = [everyday(file.parent) for file in sorted(QUESTIONS.glob("everyday/*/questions.json"))]
    figures = [
        Figure("everyday questions: right", mean(rows, "right"), RIGHT_EVERYDAY, True),
        Figure("everyday, other subjects: doubted", mean(rows, "other doubted"), DOUBTED, True),
        Figure("everyday, not in the notes: doubted", mean(rows, "unsaid doubted")),
        *turkish(),
    ]
    for kind in ("other-words", "languages"):
        found = [everyday(one.parent) for one in sorted(QUESTIONS.glob(f"{kind}/*/questions.json"))]
        figures += [
            Figure(f"{kind}: {name}", mean(found, name))
            for name in ("right", "other doubted", "unsaid doubted")
        ]
        rows += found
    if folder is not None:
        files = sorted(QUESTIONS.glob("how-to/*.json"))
        how_to = [asked for file in files if (asked := documentation(file, Path(folder)))]
        if how_to:
            right = mean(how_to, "right")
            figures.append(Figure("how-to questions: right", right, RIGHT_HOW_TO, True))
        files = sorted(QUESTIONS.glob("other-words/*.json"))
        unseen = [asked for file in files if (asked := documentation(file, Path(folder)))]
        if unseen:
            figures.append(Figure("other-words, how-to: right", mean(unseen, "right")))
        rows += how_to + unseen
    report("Questions as people type them", figures, rows)


def everyday(folder: Path) -> dict[str, Any]:
    """The questions to one office's notes."""
    data = json.loads((folder / "questions.json").read_text(encoding="utf-8"))
    asked = [one["question"] for one in data["answered"]]
    answers = answers_from(
        files_in(folder / "documents"), [*asked, *data["other_subjects"], *data["unsaid"]]
    )
    first, second = len(asked), len(asked) + len(data["other_subjects"])
    return {
        "set": folder.name,
        "questions": len(asked),
        "right": share(map(is_right, data["answered"], answers)),
        "refused": share(answer == REFUSAL for answer in answers[:first]),
        "other doubted": share(map(is_doubted, answers[first:second])),
        "unsaid doubted": share(map(is_doubted, answers[second:])),
    }


def turkish() -> list[Figure]:
    """The Turkish questions: to all texts, and to the half of the texts that does not answer."""
    data = json.loads((QUESTIONS / "turkish.json").read_text(encoding="utf-8"))
    texts = {source["title"]: source["text"] for source in data["sources"]}
    asked = data["questions"]
    answers = answers_from(texts, [one["question"] for one in asked])
    first = share(
        answer.partition(SOURCES)[2].startswith(one["title"])
        for one, answer in zip(asked, answers, strict=True)
    )
    half = [*texts][: len(texts) // 2]
    others = [one["question"] for one in asked if one["title"] not in half]
    strangers = answers_from({title: texts[title] for title in half}, others)
    return [
        Figure("Turkish: right first source", first, RIGHT_TURKISH, True),
        Figure("Turkish: answered", share(answer != REFUSAL for answer in answers)),
        Figure("Turkish, other texts: doubted", share(map(is_doubted, strangers))),
    ]


def documentation(file: Path, folder: Path) -> dict[str, Any] | None:
    """The questions to one project's documentation; None where that is not there."""
    if not (folder / file.stem).is_dir():
        return None
    questions = json.loads(file.read_text(encoding="utf-8"))["questions"]
    answers = answers_from(files_in(folder / file.stem), [one["question"] for one in questions])
    return {
        "set": file.stem,
        "questions": len(questions),
        "right": share(map(is_right, questions, answers)),
        "refused": share(answer == REFUSAL for answer in answers),
        "other doubted": "",
        "unsaid doubted": "",
    }


def files_in(folder: Path) -> dict[str, Path]:
    """The files of a folder that are read, by their path in it."""
    return {
        str(file.relative_to(folder)): file
        for file in sorted(folder.rglob("*"))
        if file.suffix in READ and LEFT_OUT.isdisjoint(file.parts)
    }


def answers_from(documents: Mapping[str, str | Path], questions: Iterable[str]) -> list[str]:
    """What the service answers from texts and files."""
    with LocalService() as service, Client(service.api_key, service.base_url) as client:
        for name, document in documents.items():
            if isinstance(document, Path):
                client.upload_source(name=name, collections=COLLECTION, file=document)
            else:
                client.create_text_source(name=name, collections=COLLECTION, content=document)
        service.wait_until_ready(300)
        return [
            client.send_message(bot_id="bot_default", content=question).answer
            for question in questions
        ]


def is_right(question: dict[str, Any], answer: str) -> bool:
    """Whether an answer has one of each group of words."""
    text = answer.casefold()
    return all(any(words.casefold() in text for words in group) for group in question["right"])


def is_doubted(answer: str) -> bool:
    """Whether an answer is a refusal, or begins with a doubt."""
    return answer.startswith((REFUSAL, UNSURE))


def share(outcomes: Iterable[bool]) -> float:
    """How many of all, to three places."""
    counted = list(outcomes)
    return round(sum(counted) / len(counted), 3)


def mean(rows: Sequence[dict[str, Any]], name: str) -> float:
    """The mean of a column, each set as much as any other."""
    return round(sum(float(row[name]) for row in rows) / len(rows), 3)


if __name__ == "__main__":
    main()
