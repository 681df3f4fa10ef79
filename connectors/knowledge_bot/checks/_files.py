"""Questions from files: TOML, and lines of JSON."""

import json
import os
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from knowledge_bot.checks._questions import Question, question_of
from knowledge_bot.errors import ConfigurationError

# Bytes of a file; a hundred thousand questions fit.
_LARGEST = 64 * 1024 * 1024

_TOML_HEAD = re.compile(r"^[ \t]*\[\[[ \t]*questions[ \t]*\]\]", re.MULTILINE)


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
            names the file and the line.
        ModuleNotFoundError: `matches` needs the package `regex`, which the extra `cli` brings.
    """
    if not isinstance(path, str | os.PathLike):
        raise ConfigurationError.expected("path", "a path", path)
    given = Path(path)
    return parse_questions(_read(given), given.suffix.lower(), str(path))


def parse_questions(text: str, suffix: str, name: str) -> list[Question]:
    """Read the questions of a text.

    Format and errors are those of `load_questions`; errors call it `name`.
    """
    if not text.strip():
        raise ConfigurationError(f"{name}: is empty; it holds no questions")

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
    _check_ids(found, name)
    return [question for _, question in found]


def _read(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            content = stream.read(_LARGEST + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"{path}: cannot be read: {reason}") from None
    if len(content) > _LARGEST:
        raise ConfigurationError(f"{path}: is larger than {_LARGEST >> 20} MiB")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(f"{path}, line {line}: is not UTF-8 text") from None


Found = list[tuple[str, Question]]
"""Questions, each with the file and the line that it stands in."""


def _from_toml(text: str, name: str) -> Found:
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{name}: is not valid TOML: {error}") from None
    except RecursionError:
        raise ConfigurationError(f"{name}: is nested too deeply") from None
    given = tables.pop("questions", [])
    if tables:
        raise ConfigurationError(
            f"{name}{_line_of(text, next(iter(tables)))}: {next(iter(tables))!r} is unknown; each "
            "question is a table [[questions]]"
        )
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise ConfigurationError(f"{name}: 'questions' is not an array of tables [[questions]]")
    heads = [text.count("\n", 0, head.start()) + 1 for head in _TOML_HEAD.finditer(text)]
    # The parser gives no line numbers. Inline tables, or heads inside texts, spoil the count.
    named = len(heads) == len(given)
    wheres = [
        f"{name}, line {heads[number]}" if named else f"{name}, question {number + 1}"
        for number in range(len(given))
    ]
    return [(where, question_of(one, where)) for where, one in zip(wheres, given, strict=True)]


def _line_of(text: str, key: str) -> str:
    found = re.search(rf"^[ \t]*\[*[ \t]*[\"']?{re.escape(key)}\b", text, re.MULTILINE)
    return f", line {text.count(chr(10), 0, found.start()) + 1}" if found else ""


def _from_lines(text: str, name: str) -> Found:
    found: Found = []
    # Not `splitlines`: JSON may hold U+2028, which ends no line of a file.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            fields = json.loads(line, object_pairs_hook=_once_each)
        except ValueError as error:
            reason = str(error).replace("line 1 column", "column")
            raise ConfigurationError(f"{where}: is not JSON: {reason}") from None
        except RecursionError:
            raise ConfigurationError(f"{where}: is nested too deeply") from None
        if not isinstance(fields, dict):
            raise ConfigurationError(f"{where}: is not a JSON object with the fields of a question")
        found.append((where, question_of(fields, where)))
    return found


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} appears twice")
    return fields


def _check_ids(found: Iterable[tuple[str, Question]], name: str) -> None:
    first: dict[str, str] = {}
    for where, question in found:
        if question.id in first:
            raise ConfigurationError(
                f"{where}: {question.ask[:80]!r} has the id {question.id!r}, as the question at "
                f"{first[question.id].removeprefix(name).lstrip(', ')} has. Leave one out, or give "
                "each an `id` of its own"
            )
        first[question.id] = where
