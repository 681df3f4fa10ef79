"""How well the embedded service answers what people type who do not have the page before them.

Everyday questions to the notes of three offices, and how-to questions to the documentation of six
projects: `questions/` has the offices' notes and all questions. The documentation is not in the
repository: `python tests/benchmarks/service_typed_questions.py FOLDER` measures how-to questions
where FOLDER has a folder with the documentation that `questions/how-to/NAME.json` names, by the
same NAME; the path of a question's `source` begins there.

The everyday questions to the museum and the clinic were typed from a list of facts, by somebody who
had not read the notes. These two, black, hatch, jupyterlab and mkdocs were looked at while the
service was improved; the workshop, httpx and pipx were only measured.

An answer is right if it has one of each group's words. Of questions on other subjects, and of those
on the office that the notes do not answer, those that are refused are counted.
"""

import argparse
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from measuring import Figure, report

from knowledge_bot import Client
from knowledge_bot_service import LocalService
from knowledge_bot_service.answers import REFUSAL

QUESTIONS = Path(__file__).with_name("questions")
DOCUMENTATION = "KNOWLEDGE_BOT_DOCUMENTATION"
READ = {".csv", ".md", ".rst", ".txt"}
LEFT_OUT = {"change_log.md", "changelog.rst", "history", "release-notes.md"}

# What the answers to each kind of question must keep; most miss it, as docs/figures.md tells.
RIGHT_EVERYDAY, RIGHT_HOW_TO, REFUSED = 0.70, 0.75, 0.95


def main() -> None:
    """Measure every set whose documents are there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="where the documentation is")
    parser.add_argument("--json", help="a file to write the figures to")
    folder = parser.parse_args().folder or os.environ.get(DOCUMENTATION)
    rows = [everyday(file.parent) for file in sorted(QUESTIONS.glob("everyday/*/questions.json"))]
    figures = [
        Figure("everyday questions: right", mean(rows, "right"), RIGHT_EVERYDAY, True),
        Figure("everyday, other subjects: refused", mean(rows, "other refused"), REFUSED, True),
        Figure("everyday, not in the notes: refused", mean(rows, "unsaid refused")),
    ]
    if folder is not None:
        files = sorted(QUESTIONS.glob("how-to/*.json"))
        how_to = [asked for file in files if (asked := documentation(file, Path(folder)))]
        if how_to:
            right = mean(how_to, "right")
            figures.append(Figure("how-to questions: right", right, RIGHT_HOW_TO, True))
        rows += how_to
    report("Questions as people type them", figures, rows)


def everyday(folder: Path) -> dict[str, Any]:
    """The questions to one office's notes."""
    data = json.loads((folder / "questions.json").read_text(encoding="utf-8"))
    asked = [one["question"] for one in data["answered"]]
    answers = answers_from(folder / "documents", [*asked, *data["other_subjects"], *data["unsaid"]])
    first, second = len(asked), len(asked) + len(data["other_subjects"])
    return {
        "set": folder.name,
        "questions": len(asked),
        "right": share(map(is_right, data["answered"], answers)),
        "refused": share(answer == REFUSAL for answer in answers[:first]),
        "other refused": share(answer == REFUSAL for answer in answers[first:second]),
        "unsaid refused": share(answer == REFUSAL for answer in answers[second:]),
    }


def documentation(file: Path, folder: Path) -> dict[str, Any] | None:
    """The questions to one project's documentation; None where that is not there."""
    if not (folder / file.stem).is_dir():
        return None
    questions = json.loads(file.read_text(encoding="utf-8"))["questions"]
    answers = answers_from(folder / file.stem, [one["question"] for one in questions])
    return {
        "set": file.stem,
        "questions": len(questions),
        "right": share(map(is_right, questions, answers)),
        "refused": share(answer == REFUSAL for answer in answers),
        "other refused": "",
        "unsaid refused": "",
    }


def answers_from(folder: Path, questions: Iterable[str]) -> list[str]:
    """What the service answers from the files of a folder."""
    with LocalService() as service, Client(service.api_key, service.base_url) as client:
        for file in sorted(folder.rglob("*")):
            if file.suffix in READ and LEFT_OUT.isdisjoint(file.parts):
                name = str(file.relative_to(folder))
                client.upload_source(name=name, collections="col_default", file=file)
        service.wait_until_ready(300)
        return [
            client.send_message(bot_id="bot_default", content=question).answer
            for question in questions
        ]


def is_right(question: dict[str, Any], answer: str) -> bool:
    """Whether an answer has one of each group of words."""
    text = answer.casefold()
    return all(any(words.casefold() in text for words in group) for group in question["right"])


def share(outcomes: Iterable[bool]) -> float:
    """How many of all, to three places."""
    counted = list(outcomes)
    return round(sum(counted) / len(counted), 3)


def mean(rows: Sequence[dict[str, Any]], name: str) -> float:
    """The mean of a column, each set as much as any other."""
    return round(sum(row[name] for row in rows) / len(rows), 3)


if __name__ == "__main__":
    main()
