"""How many of the questions' words stand in the notes that answer, and whether the answers do.

`python service/tests/benchmarks/questions/overlap.py [FOLDER]` prints for each set the mean share
of a question's content words that the answering note, or its name, has: 1.0 is a question in the
note's own words. Words match if they begin alike, as `parks` and `parking` do; those of
function-words.txt are not content. A question whose note is missing, or does not have a word of
each group of its right answer, is printed, and the exit code is then 1. With FOLDER, the how-to
questions are measured by the passage around their `place` in the documentation that FOLDER has.
"""

import json
import re
import sys
from itertools import takewhile
from pathlib import Path

QUESTIONS = Path(__file__).parent
AROUND = 600  # characters before and after the place in a page that answers
FUNCTION_WORDS = set((QUESTIONS / "function-words.txt").read_text(encoding="utf-8").split())


def main() -> int:
    """Print the overlap of every set; 1 if a question does not fit its note."""
    wrong = 0
    for file in sorted(QUESTIONS.glob("*/*/questions.json")):
        documents = {note.name: note for note in (file.parent / "documents").iterdir()}
        overlaps = []
        for asked in json.loads(file.read_text(encoding="utf-8"))["answered"]:
            note = documents.get(asked["source"])
            text = "" if note is None else f"{note.stem}\n{note.read_text(encoding='utf-8')}"
            # An answer from a table may be put together: "15 minutes" of a head and a cell.
            wrong += file.parent.parent.name != "everyday" and not fits(asked, text)
            overlaps.append(overlap(asked["question"], text))
        print_mean(str(file.parent.relative_to(QUESTIONS)), overlaps)
    for file in sorted(QUESTIONS.glob("*/*.json")) if len(sys.argv) > 1 else ():
        folder = Path(sys.argv[1]) / file.stem
        overlaps = []
        for asked in json.loads(file.read_text(encoding="utf-8"))["questions"] * folder.is_dir():
            page = (folder / asked["source"]).read_text(encoding="utf-8")
            before, place, after = page.partition(asked["place"])
            passage = before[-AROUND:] + place + after[:AROUND] if place else ""
            wrong += not fits(asked, passage)
            overlaps.append(overlap(asked["question"], passage))
        print_mean(str(file.relative_to(QUESTIONS).with_suffix("")), overlaps)
    return int(wrong > 0)


def fits(asked: dict[str, object], text: str) -> bool:
    """Whether a text has a word of each group of a right answer; prints what it has not."""
    groups = asked["right"]
    assert isinstance(groups, list)
    missing = [
        group for group in groups if not any(word.casefold() in text.casefold() for word in group)
    ]
    if missing:
        print(f"  not in {asked['source']}: {missing} ({asked['question']})")
    return not missing


def overlap(question: str, text: str) -> float:
    """The share of a question's content words that a text has."""
    content, words = words_of(question) - FUNCTION_WORDS, words_of(text)
    return sum(any(alike(one, other) for other in words) for one in content) / len(content)


def words_of(text: str) -> set[str]:
    """The words of a text, without their case."""
    return set(re.findall(r"[\w'\u2019]+", text.casefold()))


def alike(one: str, other: str) -> bool:
    """Whether two words are the same but for their ends."""
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    longer = max(len(one), len(other))
    return same >= min(longer, 3) and (longer - same <= 1 or (same >= 4 and same / longer >= 0.55))


def print_mean(name: str, overlaps: list[float]) -> None:
    """One line of the answer."""
    if overlaps:
        print(f"{name:24}{len(overlaps):4} questions  {sum(overlaps) / len(overlaps):.2f}")


if __name__ == "__main__":
    sys.exit(main())
