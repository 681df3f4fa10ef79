"""What becomes of public documents of many kinds, and what reading them takes.

    python service/tests/benchmarks/service_documents.py FOLDER [--json FILE]

The folder has clones of the repositories that `documents.tsv` names, as `OWNER+NAME`. For each file
the table has what became of it: `ready` or the reason, and whether the library of its kind finds
text in it (python-docx, python-pptx, openpyxl, xlrd, odfdo, striprtf, EbookLib, extract-msg, the
standard library's email, pypdf).
"""

import csv
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path, PurePath
from typing import NamedTuple

from measuring import Figure, report

from knowledge_bot_service.readers.extract import ExtractionError
from knowledge_bot_service.readers.reading import DocumentReader, ReadingRequest


class Document(NamedTuple):
    """A row of the table."""

    repository: str
    commit: str
    path: str
    has_text: str
    outcome: str


def content(folder: Path, document: Document) -> bytes:
    clone = folder / document.repository.replace("/", "+")
    command = ["git", "-C", clone, "cat-file", "blob", f"{document.commit}:{document.path}"]
    return subprocess.run(command, check=True, capture_output=True).stdout


def outcome(reader: DocumentReader, file: Path, name: str) -> str:
    try:
        for _ in reader.read(ReadingRequest(name, path=str(file), filename=name)):
            pass
    except ExtractionError as error:
        return str(error)
    return "ready"


def main() -> None:
    folder = Path(sys.argv[1])
    with (Path(__file__).parent / "documents.tsv").open(encoding="utf-8", newline="") as table:
        documents = [Document(*row) for row in csv.reader(table, delimiter="\t")]
    counts: Counter[str] = Counter()
    reader, began = DocumentReader(), time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "document")
        for one in documents:
            file.write_bytes(content(folder, one))
            now = outcome(reader, file, PurePath(one.path).name)
            is_ready = now == "ready"
            counts["with text"] += one.has_text == "yes"
            counts["ready"] += one.has_text == "yes" and is_ready
            counts["alike"] += now == one.outcome
            if now != one.outcome:
                print(f"{one.repository} {one.path}: {now}, not {one.outcome}")
    reader.close()
    ready, alike = counts["ready"] / counts["with text"], counts["alike"] / len(documents)
    figures = [
        Figure("share of those with text that are ready", ready, 0.98, at_least=True),
        Figure("share with the recorded outcome", alike, 0.99, at_least=True),
        Figure("seconds", time.monotonic() - began),
    ]
    report("Public documents of many kinds", figures)


if __name__ == "__main__":
    main()
