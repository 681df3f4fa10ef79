"""Questions from configurations of promptfoo (https://www.promptfoo.dev), as far as both have them.

Every assertion that is read gives the verdict that promptfoo gives. Whatever is not read and would
change a verdict is an error with its line. Providers and options of a run are ignored, since the
bot is named elsewhere.
"""

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from pydantic import ValidationError

from knowledge_bot._extras import require
from knowledge_bot.checks._questions import Expectation, Kind, Question, first_problem, question_of
from knowledge_bot.errors import ConfigurationError

# An assertion's name: the kind, and whether capitals matter.
_ASSERTIONS: dict[str, tuple[Kind, bool]] = {
    "contains": ("contains_all", True),
    "icontains": ("contains_all", False),
    "contains-any": ("contains_any", True),
    "icontains-any": ("contains_any", False),
    "contains-all": ("contains_all", True),
    "icontains-all": ("contains_all", False),
    "regex": ("matches", True),
    "equals": ("equals", True),
}
_OF_SEVERAL = ("contains-any", "icontains-any", "contains-all", "icontains-all")

_KEYS_READ = ("prompts", "tests", "defaultTest")
_KEYS_IGNORED = (
    "$schema",
    "commandLineOptions",
    "description",
    "env",
    "evaluateOptions",
    "metadata",
    "outputPath",
    "providers",
    "sharing",
    "tags",
    "targets",
    "writeLatestResults",
)
_KEYS_OF_A_TEST = ("vars", "assert", "description", "metadata", "options")
_KEYS_OF_AN_ASSERTION = ("type", "value", "metric", "weight")
_HARMLESS_OPTIONS = ("provider", "rubricPrompt")  # both for assertions that are not read

# Prompts that name files, as promptfoo takes them.
_A_FILE = re.compile(r"file://|\S+\.(?:cjs|csv|j2|js|json|jsonl|md|mjs|py|ts|txt|ya?ml)\Z")

_PLACE = re.compile(r"\{\{-?(.*?)-?\}\}", re.DOTALL)

# Vars with lists multiply; more questions than this are a mistake.
_MOST = 100_000

# Merged mappings (<<) that merge others in turn can multiply without end.
_MOST_MERGES = 100_000

Node = Any
"""A node of PyYAML: a scalar, a sequence or a mapping, with its place in the file."""


def read_promptfoo(text: str, name: str) -> list[tuple[str, Question]]:
    """Read the questions of a configuration.

    Args:
        text: the YAML, or JSON, which is YAML too.
        name: what errors call it.

    Returns:
        The questions, each with the file and the line that it stands in.

    Raises:
        ConfigurationError: it is not a configuration, or holds something that is not read here;
            the error names the line.
        ModuleNotFoundError: the extra `checks` is not installed.
    """
    require("A file of promptfoo", "checks", "yaml")
    import yaml

    try:
        # Without resolving: a time such as 9:30 stays a text, as in promptfoo's YAML 1.2.
        root = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = "" if mark is None else f", line {mark.line + 1}"
        problem = f"{name}{line}: is not valid YAML: {error.problem}"
        # PyYAML reads YAML 1.1, where a text in brackets ends at a question mark: [Who?, When?].
        if mark is not None and text[mark.index : mark.index + 1] == "?":
            problem += "; in brackets, put a text with a question mark into quotes"
        raise ConfigurationError(problem) from None
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{name}: is not valid YAML: {error}") from None
    except RecursionError:
        raise ConfigurationError(f"{name}: is nested too deeply") from None
    _check_tags(root, name)
    return _Reader(name).questions(root)


def _check_tags(root: Node, name: str) -> None:
    waiting, seen = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if node.tag and node.tag.startswith(("!", "tag:yaml.org,2002:python/")):
            where = f"{name}, line {node.start_mark.line + 1}"
            raise ConfigurationError(f"{where}: the tag {node.tag[:80]!r} is not read here")
        if _is_mapping(node):
            waiting += [each for pair in node.value for each in pair]
        elif not _is_scalar(node):
            waiting += node.value


class _Reader:
    def __init__(self, name: str) -> None:
        self._name = name
        self._merges = 0

    def questions(self, root: Node) -> list[tuple[str, Question]]:
        given = self._fields(root, "a configuration of promptfoo")
        for key, node in given.items():
            if key not in (*_KEYS_READ, *_KEYS_IGNORED):
                self._fail(node, f"{key!r} is not read here; there are {', '.join(_KEYS_READ)}")
        if "tests" not in given:
            self._fail(root, "there are no 'tests'")
        prompts = self._prompts(given["prompts"]) if "prompts" in given else []
        default = self._test(given["defaultTest"]) if "defaultTest" in given else {}
        default_vars = self._vars(default.get("vars"))
        self._check_repeats(given)
        found: list[tuple[str, Question]] = []
        ids = Counter[str]()
        for node in self._items(given["tests"], "tests"):
            test = self._test(node)
            asserted = [
                *self._items(default.get("assert"), "assert"),
                *self._items(test.get("assert"), "assert"),
            ]
            fresh = self._is_fresh(default.get("metadata"), test.get("metadata"))
            if not asserted and not fresh:
                self._fail(node, "nothing is expected of the answer: the test has no 'assert'")
            given_vars = {**default_vars, **self._vars(test.get("vars"))}
            count = math.prod(map(len, given_vars.values())) * max(1, len(prompts))
            if len(found) + count > _MOST:
                self._fail(node, f"the lists in 'vars' make more than {_MOST:,} questions")
            for values in self._combined(node, given_vars):
                expectations = [self._expectation(one, values) for one in asserted]
                for prompt, template in prompts or [(node, self._default_prompt(node, values))]:
                    asked = self._rendered(prompt, template, values).strip()
                    fields = {"ask": asked, "expectations": expectations, "fresh": fresh}
                    question = _with_a_unique_id(question_of(fields, self._where(node)), ids)
                    found.append((self._where(node), question))
        return found

    def _check_repeats(self, given: Mapping[str, Node]) -> None:
        for key in ("evaluateOptions", "commandLineOptions"):
            node = self._fields(given.get(key), key).get("repeat")
            if node is not None:
                self._fail(node, f"'repeat' of {key} is not read here: each test is asked once")

    def _prompts(self, node: Node) -> list[tuple[Node, str]]:
        prompts = []
        for one in [node] if _is_scalar(node) else self._items(node, "prompts"):
            raw = one
            if _is_mapping(one):
                fields = self._fields(one, "a prompt")
                if "raw" not in fields or "function" in fields:
                    self._fail(one, "a prompt is read here as a text, or as one in 'raw'")
                raw = fields["raw"]
            text = self._text(raw, "a prompt")
            if _A_FILE.match(text.strip()):
                self._fail(raw, f"{text[:80]!r} names a file; prompts are read here as texts")
            prompts.append((raw, text))
        return prompts

    def _default_prompt(self, node: Node, values: Mapping[str, str]) -> str:
        # promptfoo's default is {{prompt}}; a single var of another name is taken for it.
        name = "prompt" if "prompt" in values or len(values) != 1 else next(iter(values))
        if name not in values:
            self._fail(node, "there are no 'prompts', and no var 'prompt' to ask instead")
        return f"{{{{{name}}}}}"

    def _test(self, node: Node) -> dict[str, Node]:
        if _is_scalar(node):
            self._fail(
                node,
                f"{self._text(node, '')[:80]!r} names a file; tests are read here as they stand",
            )
        fields = self._fields(node, "a test")
        for key, value in fields.items():
            if key not in _KEYS_OF_A_TEST:
                self._fail(value, f"{key!r} of a test is not read here, and may change its verdict")
        for key, value in self._fields(fields.get("options"), "options").items():
            if key not in _HARMLESS_OPTIONS:
                self._fail(value, f"the option {key!r} is not read here, and may change a verdict")
        return fields

    def _is_fresh(self, *given: Node) -> bool:
        """Return whether metadata, the later before the earlier, say that answers are fresh."""
        merged: dict[str, Node] = {}
        for node in given:
            merged.update(self._fields(node, "metadata"))
        if "fresh" not in merged:
            return False
        text = self._text(merged["fresh"], "fresh")
        if text not in ("true", "false"):
            self._fail(merged["fresh"], "fresh: expected true or false")
        return text == "true"

    def _vars(self, node: Node) -> dict[str, list[str]]:
        """Return the vars, each with the values it may have."""
        found = {}
        for key, value in self._fields(node, "vars").items():
            nodes = [value] if _is_scalar(value) else self._items(value, f"the var {key!r}")
            found[key] = [self._text(one, f"the var {key!r}") for one in nodes]
            for one, text in zip(nodes, found[key], strict=True):
                if text.startswith("file://"):
                    self._fail(one, f"the var {key!r} names a file; vars are read here as texts")
                if "{{" in text or "{%" in text:
                    self._fail(one, f"the var {key!r} is a template itself, which is not read here")
        return found

    def _combined(self, node: Node, given: Mapping[str, Sequence[str]]) -> Iterator[dict[str, str]]:
        if empty := [name for name, values in given.items() if not values]:
            self._fail(node, f"the var {empty[0]!r} has no value")
        for values in itertools.product(*given.values()):
            yield dict(zip(given, values, strict=True))

    def _expectation(self, node: Node, values: Mapping[str, str]) -> Expectation:
        fields = self._fields(node, "an assertion")
        for key, value in fields.items():
            if key not in _KEYS_OF_AN_ASSERTION:
                self._fail(value, f"{key!r} of an assertion is not read here")
        if "type" not in fields:
            self._fail(node, "an assertion has no 'type'")
        named = self._text(fields["type"], "the type of an assertion")
        name = named.removeprefix("not-")
        if name not in _ASSERTIONS:
            known = ", ".join(_ASSERTIONS)
            self._fail(
                fields["type"],
                f"the assertion {named!r} is not read here; there are {known}, and each with "
                "'not-' in front",
            )
        if "weight" in fields and _number(self._text(fields["weight"], "weight")) <= 0:
            self._fail(
                fields["weight"], "an assertion without weight expects nothing; leave it out"
            )
        if "value" not in fields:
            self._fail(node, f"the assertion {named!r} has no 'value'")
        kind, case_sensitive = _ASSERTIONS[name]
        texts = self._values(fields["value"], name, values)
        try:
            return Expectation(
                kind=kind,
                values=tuple(map(python_expression, texts)) if kind == "matches" else tuple(texts),
                case_sensitive=case_sensitive,
                negated=named != name,
            )
        except ValidationError as error:
            # The expression as the file has it, not as it was translated.
            problem, of_expression, _ = first_problem(error).partition(
                " is not a regular expression"
            )
            shown = f"{texts[0]!r}{of_expression}" if of_expression else problem
            self._fail(fields["value"], f"the assertion {named!r}: {shown}")
        except ValueError as error:
            self._fail(fields["value"], f"the assertion {named!r}: {error}")

    def _values(self, node: Node, name: str, values: Mapping[str, str]) -> list[str]:
        what = f"the value of {name!r}"
        several = name in _OF_SEVERAL
        nodes = self._items(node, what) if several and not _is_scalar(node) else [node]
        texts = [self._rendered(one, self._text(one, what), values) for one in nodes]
        for one, text in zip(nodes, texts, strict=True):
            if text.startswith(("file://", "package:")):
                self._fail(one, f"{what} names a file; values are read here as they stand")
        if several and _is_scalar(node):
            texts = _separated(texts[0])
        if not texts or not all(texts):
            self._fail(node, f"{what} is empty")
        return texts

    def _rendered(self, node: Node, template: str, values: Mapping[str, str]) -> str:
        if "{%" in template or "{#" in template:
            self._fail(node, "a template is read here with {{names}} alone, not with {% or {#")

        def value(place: re.Match[str]) -> str:
            name = place[1].strip()
            if name not in values:
                is_name = name.isidentifier()
                problem = "not a var of the test" if is_name else "more than a var's name"
                self._fail(node, f"{{{{{name}}}}} is {problem}")
            return values[name]

        return _PLACE.sub(value, template)

    # Nodes

    def _fields(self, node: Node, what: str) -> dict[str, Node]:
        if node is None or (_is_scalar(node) and node.value in ("", "null", "~")):
            return {}
        if not _is_mapping(node):
            self._fail(node, f"{what} is a mapping of names to values")
        found: dict[str, Node] = {}
        merged: dict[str, Node] = {}
        for key, value in node.value:
            name = self._text(key, "a name")
            if name == "<<":
                for one in [value] if _is_mapping(value) else self._items(value, "<<"):
                    self._merges += 1
                    if one is node:
                        self._fail(key, "a mapping is merged into itself")
                    if self._merges > _MOST_MERGES:
                        self._fail(key, f"mappings are merged more than {_MOST_MERGES:,} times")
                    merged = {**self._fields(one, "what is merged"), **merged}
            elif name in found:
                self._fail(key, f"{name!r} appears twice in a mapping")
            else:
                found[name] = value
        return {**merged, **found}

    def _items(self, node: Node, what: str) -> list[Node]:
        if node is None or (_is_scalar(node) and node.value in ("", "null", "~")):
            return []
        if _is_scalar(node) and node.value.startswith("file://"):
            self._fail(node, f"{what}: {node.value[:80]!r} names a file, which is not read here")
        if not isinstance(node.value, list) or _is_mapping(node):
            self._fail(node, f"{what}: expected a list")
        items: list[Node] = node.value
        return items

    def _text(self, node: Node, what: str) -> str:
        if not _is_scalar(node):
            self._fail(node, f"{what}: expected a text")
        # A character beyond 16 bits, as JSON escapes it, comes in two halves.
        return str(node.value).encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def _where(self, node: Node) -> str:
        return f"{self._name}, line {node.start_mark.line + 1}" if node else self._name

    def _fail(self, node: Node, problem: str) -> NoReturn:
        raise ConfigurationError(f"{self._where(node)}: {problem}")


def _with_a_unique_id(question: Question, ids: "Counter[str]") -> Question:
    """Return a question with an id of its own: tests of promptfoo have none."""
    ids[question.id] += 1
    count = ids[question.id]
    if count == 1:
        return question
    return question.model_copy(update={"id": f"{question.id}-{count}"})


def _is_scalar(node: Node) -> bool:
    return node is not None and node.id == "scalar"


def _is_mapping(node: Node) -> bool:
    return node is not None and node.id == "mapping"


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _separated(text: str) -> list[str]:
    """Cut a text at its commas, but not inside of double quotes, as promptfoo does."""
    fields = re.findall(r'\s*(?:"((?:[^"\\]|\\.|"")*)"\s*(?=,|\Z)|([^,]+))', text)
    return [
        re.sub(r'\\(.)|""', lambda found: found[1] or '"', quoted) if quoted else plain.strip()
        for quoted, plain in fields
        if quoted or plain.strip()
    ]


# A set of characters, an escape, a repetition, or any other character of an expression.
_PIECE = re.compile(r"\[\^?(?:\\.|[^\]\\])*\]|\\.|\{\d+(?:,\d*)?\}|.", re.DOTALL)
_MEMBER = re.compile(r"\\.|\[", re.DOTALL)
_OF_JAVASCRIPT_ALONE = re.compile(r"\\(?![BDSWbdfnrstuvwx])[A-Za-z]|[{}]|\[\^?\]")

# What both have, with the characters that JavaScript takes it for.
_SPACES = r"\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_IN_A_SET = {r"\s": _SPACES, "[": r"\["}
_ELSEWHERE = {
    r"\s": f"[{_SPACES}]",
    r"\S": f"[^{_SPACES}]",
    ".": r"[^\n\r\u2028\u2029]",
    "$": r"\Z",
}


def python_expression(javascript: str) -> str:
    """Return an expression of JavaScript, which promptfoo's are, as one that finds the same.

    Args:
        javascript: the expression, without slashes around it.

    Raises:
        ValueError: something in it has another meaning in Python, or none.
    """

    def written(found: re.Match[str]) -> str:
        piece = found[0]
        for one in (piece, *_MEMBER.findall(piece)):
            if _OF_JAVASCRIPT_ALONE.fullmatch(one):
                raise ValueError(
                    f"{one!r} of a regular expression is JavaScript's alone; write it so that "
                    "Python reads it as well"
                )
        if piece.startswith("["):
            return f"[{_MEMBER.sub(lambda one: _IN_A_SET.get(one[0], one[0]), piece[1:])}"
        return _ELSEWHERE.get(piece, piece)

    # `(?a)`: in JavaScript, a digit, a word's letter and its boundary are those of ASCII.
    return f"(?a){_PIECE.sub(written, javascript)}"
