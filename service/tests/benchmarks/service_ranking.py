"""What passages are ranked by: fits the weights, and prints what each number is worth.

`python service/tests/benchmarks/service_ranking.py FOLDER` with `tests/benchmarks` in PYTHONPATH,
where FOLDER has the data folders that the
service left of the question sets: FOLDER/museum for `questions/everyday/museum`, and so on. Needs
numpy. For each question, the best 40 passages are found; a passage is right if it has one of each
group of words. The weights are fitted on every second question, each set as much as any other, and
the share of questions whose right passage is first is told for the others.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Figure, report

from knowledge_bot_service.answers.conversations import asked_in
from knowledge_bot_service.answers.finding import LOOKED_AT, Finder
from knowledge_bot_service.answers.ranking import WEIGHTS, Numbers
from knowledge_bot_service.config.folder import database_file
from knowledge_bot_service.index.search import Search
from knowledge_bot_service.store.database import ServiceDatabase

QUESTIONS = Path(__file__).with_name("questions")
STEPS, RATE = 400, 0.1


@dataclass(frozen=True)
class Asked:
    """A question's candidates: the numbers of each, and whether it is right."""

    of: str
    numbers: np.ndarray
    right: np.ndarray


def main() -> None:
    """Fit with all numbers, and without each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", help="a file to write the figures to")
    asked = list(candidates(parser.parse_args().folder))
    figures = [Figure("first passage right, weights as they are", first(asked, np.array(WEIGHTS)))]
    rows: list[dict[str, Any]] = []
    for without in (None, *Numbers._fields):
        kept = np.array([name != without for name in Numbers._fields], float)
        weights, share = fitted(asked, kept)
        figures.append(Figure(f"first passage right, without {without or 'none'}", share))
        told = {name: round(one, 2) for name, one in zip(Numbers._fields, weights, strict=True)}
        rows.append({"without": without or "none", **told})
    report("What passages are ranked by", figures, rows)


def candidates(folder: Path) -> Iterator[Asked]:
    """The questions of every set whose data folder is there."""
    for file in sorted([*QUESTIONS.glob("everyday/*/*.json"), *QUESTIONS.glob("how-to/*.json")]):
        name = file.parent.name if file.stem == "questions" else file.stem
        if not (folder / name).is_dir():
            continue
        data = json.loads(file.read_text(encoding="utf-8"))
        with closing(ServiceDatabase(database_file(folder / name))) as database:
            finder = Finder(Search(database))
            for question in data.get("answered") or data["questions"]:
                found = finder.find(asked_in(question["question"]), (1,), LOOKED_AT)
                yield Asked(
                    name,
                    np.array([one.numbers for one in found.passages]).reshape(-1, 3),
                    np.array([is_right(question, one.hit.text) for one in found.passages]),
                )


def is_right(question: dict[str, Any], text: str) -> bool:
    """Whether a passage has one of each group of words."""
    folded = text.casefold()
    return all(any(word.casefold() in folded for word in group) for group in question["right"])


def fitted(asked: Sequence[Asked], kept: np.ndarray) -> tuple[np.ndarray, float]:
    """The weights of the numbers that are kept, and how they do on what they were not fitted on."""
    halves = asked[::2], asked[1::2]
    weights = [fit(half, kept) for half in halves]
    shares = [first(halves[1], weights[0]), first(halves[0], weights[1])]
    return np.mean(weights, axis=0), float(np.mean(shares))


def fit(asked: Sequence[Asked], kept: np.ndarray) -> np.ndarray:
    """The weights that make right passages likeliest, if scores are log odds."""
    told = [one for one in asked if one.right.any() and not one.right.all()]
    counts = {name: sum(one.of == name for one in told) for name in {one.of for one in told}}
    weights = kept.copy()
    for _ in range(STEPS):
        slope = np.zeros(len(weights))
        for one in told:
            scores = np.exp(one.numbers @ weights - (one.numbers @ weights).max())
            chances = scores / scores.sum()
            right = chances * one.right / (chances * one.right).sum()
            slope += one.numbers.T @ (chances - right) / counts[one.of]
        weights -= RATE * kept * slope / len(counts) * 10
    return weights


def first(asked: Sequence[Asked], weights: np.ndarray) -> float:
    """The share of questions whose best passage is right, each set as much as any other."""
    by_set: dict[str, list[bool]] = {}
    for one in asked:
        there = len(one.right) > 0 and bool(one.right[np.argmax(one.numbers @ weights)])
        by_set.setdefault(one.of, []).append(there)
    return float(np.mean([np.mean(shares) for shares in by_set.values()]))


if __name__ == "__main__":
    main()
