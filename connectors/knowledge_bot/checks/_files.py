"""Questions from files: TOML, and lines of JSON."""

import json
import os
import re
import tomllib
from pathlib import Path

from knowledge_bot.checks._questions import Question, question_of
from knowledge_bot.errors import ConfigurationError

_HEAD = re.compile(r"^[ \t]*\[\[[ \t]*questions[ \t]*\]\]", re.MULTILINE)


def load_questions(path: str | os.PathLike[str]) -> list[Question]:
    """Read the questions of a file.

    The suffix of its name gives its format:

    - `.toml`: a table `[[questions]]` for each, with the fields of a `Question`,
    - `.jsonl`: a line of JSON for each, with the same fields.

    Args:
        path: the file.

    Returns:
        The questions, in the file's order; at least one.

    Raises:
        ConfigurationError: the file cannot be read, is empty, or something in it cannot be used; it
            names the file, and the line or the question.
        ModuleNotFoundError: `matches` needs the package `regex`, which the extra `cli` brings.
    """
    if not isinstance(path, str | os.PathLike):
        raise ConfigurationError.expected("path", "a path", path)
    given = Path(path)
    try:
        text = given.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path}: is not UTF-8 text") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"{path}: cannot be read: {reason}") from None
    return parse_questions(text, given.suffix.lower(), str(path))


def parse_questions(text: str, suffix: str, name: str) -> list[Question]:
    """Read the questions of a text.

    Format and errors are those of `load_questions`; errors call it `name`.
    """
    match suffix:
        case ".toml":
            found = _from_toml(text, name)
        case ".jsonl" | ".ndjson":
            found = _from_lines(text, name)
        case _:
            raise ConfigurationError(
                f"{name}: its format is not known: the name does not end in .toml or .jsonl"
            )
    if not found:
        raise ConfigurationError(f"{name}: holds no questions")
    return found


def _from_toml(text: str, name: str) -> list[Question]:
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigurationError(f"{name}: is not valid TOML: {error}") from None
    given = tables.pop("questions", [])
    if tables:
        raise ConfigurationError(
            f"{name}: {next(iter(tables))!r} is unknown; each question is a table [[questions]]"
        )
    several = given if isinstance(given, list) else [given]
    # The parser gives no line numbers. Inline tables, or heads inside texts, spoil the count.
    places = [f"line {text.count(chr(10), 0, one.start()) + 1}" for one in _HEAD.finditer(text)]
    if len(places) != len(several):
        places = [f"question {number}" for number, _ in enumerate(several, 1)]
    return [
        question_of(one, f"{name}, {place}") for one, place in zip(several, places, strict=True)
    ]


def _from_lines(text: str, name: str) -> list[Question]:
    found = []
    # Not `splitlines`: JSON may hold U+2028, which ends no line of a file.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = str(error).replace("line 1 column", "column")
            raise ConfigurationError(f"{where}: is not JSON: {reason}") from None
        found.append(question_of(fields, where))
    return found
