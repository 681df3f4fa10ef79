"""Questions from configurations of promptfoo (https://www.promptfoo.dev), as far as both have them.

Every assertion that is read gives the verdict that promptfoo gives, but for `is-refusal`: whether
the bot found nothing. A test with something that is not read, and that would change its verdict, is
not asked and does not pass; its reason names all of that. Providers and options of a run are
ignored, since the bot is named elsewhere.
"""

import contextlib
import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    "starts-with": ("starts_with", True),
    "regex": ("matches", True),
    "equals": ("equals", True),
    "is-json": ("is_json", True),
    "is-refusal": ("refuses", True),
    "latency": ("latency", True),
    "levenshtein": ("similar", True),
}
_WITHOUT_VALUE = ("is-json", "is-refusal", "latency")
# What `threshold` stands for in ours, and its default: milliseconds, and edits.
_LIMITS: dict[str, tuple[float, float | None]] = {"latency": (0.001, None), "levenshtein": (1, 5)}
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
_KEYS_OF_A_TEST = ("vars", "assert", "description", "metadata", "options", "threshold")
_KEYS_OF_AN_ASSERTION = ("type", "value", "metric", "weight", "threshold")
_HARMLESS_OPTIONS = ("provider", "rubricPrompt")  # both for assertions that are not read

# Prompts that name files, as promptfoo takes them.
_A_FILE = re.compile(r"file://|\S+\.(?:cjs|csv|j2|js|json|jsonl|md|mjs|py|ts|txt|ya?ml)\Z")

# An assertion as a column of CSV has it; what is none of these is the whole answer.
_EXPECTED = re.compile(
    r"(?P<type>(?:not-)?(?:[a-z]+-)*[a-z]+)(?:\((?P<threshold>[\d.]+)\))?\s*(?::(?P<value>.*))?",
    re.DOTALL,
)
_ALSO_IN_CSV = (
    *("javascript", "fn", "eval", "python", "grade", "llm-rubric", "similar", "contains-json"),
    *("webhook", "rouge-n", "classifier", "factuality", "model-graded-closedqa", "cost", "file"),
)
_COLUMNS_IGNORED = ("__description", "__metric", "__provider", "__metadata")

_PLACE = re.compile(r"\{\{-?(.*?)-?\}\}", re.DOTALL)

# Vars with lists multiply; more questions than this are a mistake.
_MOST = 100_000

# Merged mappings (<<) that merge others in turn can multiply without end.
_MOST_MERGES = 100_000

Node = Any
"""A node of PyYAML: a scalar, a sequence or a mapping, with its place in the file."""


Reading = Callable[[str], str]
"""Returns the text of a file that a configuration names, or raises `ConfigurationError`."""


class _UnreadError(Exception):
    """Something of a test is not read here. `str()` says what."""


@contextlib.contextmanager
def _noting(problems: list[str]) -> Iterator[None]:
    """Note what is not read, and go on."""
    try:
        yield
    except _UnreadError as error:
        problems.append(str(error))


def read_promptfoo(text: str, name: str, reading: Reading) -> list[tuple[str, Question]]:
    """Read the questions of a configuration.

    Args:
        text: the YAML, or JSON, which is YAML too; or CSV, which holds tests alone.
        name: what errors call it.
        reading: reads a file of tests that it names.

    Returns:
        The questions, each with the file and the line that it stands in.

    Raises:
        ConfigurationError: it is not a configuration, or holds something that is not read here;
            the error names the line.
        ModuleNotFoundError: the extra `checks` is not installed.
    """
    require("A file of promptfoo", "checks", "yaml")
    import yaml

    if name.lower().endswith(".csv"):
        return _Reader(name, reading).questions(
            _mapping({"tests": _tests_of_csv(text, name)}, name)
        )
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
    return _Reader(name, reading).questions(root)


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
    def __init__(self, name: str, reading: Reading) -> None:
        self._name, self._reading = name, reading
        self._merges = 0

    def questions(self, root: Node) -> list[tuple[str, Question]]:
        given = self._fields(root, "a configuration of promptfoo")
        for key, node in given.items():
            if key not in (*_KEYS_READ, *_KEYS_IGNORED):
                self._fail(node, f"{key!r} is not read here; there are {', '.join(_KEYS_READ)}")
        if "tests" not in given:
            self._fail(root, "there are no 'tests'")
        prompts = self._prompts(given["prompts"]) if "prompts" in given else []
        general: list[str] = []
        default = self._test(given["defaultTest"], general) if "defaultTest" in given else {}
        default_vars = self._vars(default.get("vars"))
        self._check_repeats(given)
        found: list[tuple[str, Question]] = []
        ids = Counter[str]()
        for node in self._tests(given["tests"]):
            several = self._asked(node, default, default_vars, prompts, general.copy())
            for question in several:
                found.append((self._where(node), _with_a_unique_id(question, ids)))
                if len(found) > _MOST:
                    self._fail(node, f"the lists in 'vars' make more than {_MOST:,} questions")
        return found

    def _asked(
        self,
        node: Node,
        default: Mapping[str, Node],
        default_vars: Mapping[str, list[str]],
        prompts: Sequence[tuple[Node, str]],
        problems: list[str],
    ) -> Iterator[Question]:
        """Yield the questions of a test: one for each prompt, and for each choice of its vars."""
        test = self._test(node, problems)
        asserted = [
            *self._items(default.get("assert"), "assert"),
            *self._items(test.get("assert"), "assert"),
        ]
        fresh = self._is_fresh(default.get("metadata"), test.get("metadata"))
        if not (asserted or fresh or problems):
            self._fail(node, "nothing is expected of the answer: the test has no 'assert'")
        threshold = self._threshold(test.get("threshold") or default.get("threshold"))
        given = dict(default_vars)
        with _noting(problems):
            given |= self._vars(test.get("vars"))
        for values in self._combined(node, given):
            own, expectations = problems.copy(), []
            for one in asserted:
                with _noting(own):
                    expectations.append(self._expectation(one, values))
            for prompt, template in prompts or [(node, self._default_prompt(node, values))]:
                asked, unread = f"the test at {self._where(node)}", own.copy()
                with _noting(unread):
                    asked = self._rendered(prompt, template, values).strip()
                if unread:
                    why = "; ".join(dict.fromkeys(unread))
                    expectations = [Expectation(kind="unread", values=(why,))]
                fields = {"ask": asked, "expectations": expectations, "fresh": fresh}
                yield question_of({**fields, "threshold": threshold}, self._where(node))

    def _tests(self, node: Node) -> Iterator[Node]:
        """Yield the tests; those of a CSV file in place of its name."""
        for one in [node] if _is_scalar(node) else self._items(node, "tests"):
            name = self._text(one, "tests").removeprefix("file://") if _is_scalar(one) else ""
            if not name.lower().endswith(".csv"):
                yield one
                continue
            try:
                yield from _tests_of_csv(self._reading(name), name).value
            except ConfigurationError as error:
                self._fail(one, str(error))

    def _threshold(self, node: Node) -> float | None:
        if node is None:
            return None
        share = _number(self._text(node, "threshold"))
        if not 0 <= share <= 1:
            self._fail(node, "threshold: expected a number from 0 to 1")
        return share or None  # as promptfoo, which takes 0 for none

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

    def _test(self, node: Node, problems: list[str]) -> dict[str, Node]:
        """Return the fields of a test, and note those that are not read."""
        if _is_scalar(node):
            self._fail(
                node,
                f"{self._text(node, '')[:80]!r} names a file; tests are read here as they stand",
            )
        fields = self._fields(node, "a test")
        for key, value in fields.items():
            if key not in _KEYS_OF_A_TEST:
                problems.append(self._unread(value, f"{key!r} of a test"))
        for key, value in self._fields(fields.get("options"), "options").items():
            if key not in _HARMLESS_OPTIONS:
                problems.append(self._unread(value, f"the option {key!r}"))
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
                    raise _UnreadError(self._unread(one, f"the var {key!r}, which names a file,"))
                if "{{" in text or "{%" in text:
                    raise _UnreadError(self._unread(one, f"the var {key!r}, a template itself,"))
        return found

    def _combined(self, node: Node, given: Mapping[str, Sequence[str]]) -> Iterator[dict[str, str]]:
        if empty := [name for name, values in given.items() if not values]:
            self._fail(node, f"the var {empty[0]!r} has no value")
        for values in itertools.product(*given.values()):
            yield dict(zip(given, values, strict=True))

    def _expectation(self, node: Node, values: Mapping[str, str]) -> Expectation:
        fields = self._fields(node, "an assertion")
        if "type" not in fields:
            self._fail(node, "an assertion has no 'type'")
        named = self._text(fields["type"], "the type of an assertion")
        name = named.removeprefix("not-")
        if name not in _ASSERTIONS:
            raise _UnreadError(self._unread(fields["type"], f"the assertion {named!r}"))
        for key, value in fields.items():
            if key not in _KEYS_OF_AN_ASSERTION or (key == "threshold" and name not in _LIMITS):
                raise _UnreadError(self._unread(value, f"{key!r} of the assertion {named!r}"))
        weight = _number(self._text(fields["weight"], "weight")) if "weight" in fields else 1.0
        if weight <= 0:
            self._fail(
                fields["weight"], "an assertion without weight expects nothing; leave it out"
            )
        texts = self._texts_of(node, named, fields, values)
        kind, case_sensitive = _ASSERTIONS[name]
        limit = self._limit(node, name, fields)
        try:
            return Expectation(
                kind=kind,
                values=tuple(map(python_expression, texts)) if kind == "matches" else tuple(texts),
                case_sensitive=case_sensitive,
                negated=named != name,
                limit=limit,
                weight=weight,
            )
        except ValidationError as error:
            # The expression as the file has it, not as it was translated.
            problem, of_expression, _ = first_problem(error).partition(
                " is not a regular expression"
            )
            shown = f"{texts[0]!r}{of_expression}" if of_expression else problem
            self._fail(fields.get("value", node), f"the assertion {named!r}: {shown}")
        except ValueError as error:
            raise _UnreadError(self._at(fields["value"], str(error))) from None

    def _texts_of(
        self, node: Node, named: str, fields: Mapping[str, Node], values: Mapping[str, str]
    ) -> list[str]:
        name, value = named.removeprefix("not-"), fields.get("value")
        if name not in _WITHOUT_VALUE:
            if value is None:
                self._fail(node, f"the assertion {named!r} has no 'value'")
            return self._values(value, name, values)
        if value is not None and not (_is_scalar(value) and value.value == ""):
            raise _UnreadError(self._unread(value, f"a value of the assertion {named!r}"))
        return []

    def _limit(self, node: Node, name: str, fields: Mapping[str, Node]) -> float | None:
        if name not in _LIMITS:
            return None
        factor, default = _LIMITS[name]
        if "threshold" in fields:
            return factor * _number(self._text(fields["threshold"], "threshold"))
        if default is None:
            self._fail(node, f"the assertion {name!r} has no 'threshold'")
        return default

    def _values(self, node: Node, name: str, values: Mapping[str, str]) -> list[str]:
        what = f"the value of {name!r}"
        several = name in _OF_SEVERAL
        nodes = self._items(node, what) if several and not _is_scalar(node) else [node]
        texts = [self._rendered(one, self._text(one, what), values) for one in nodes]
        for one, text in zip(nodes, texts, strict=True):
            if text.startswith(("file://", "package:")):
                raise _UnreadError(self._unread(one, f"{what}, which names a file,"))
        if several and _is_scalar(node):
            texts = _separated(texts[0])
        if not texts or not all(texts):
            self._fail(node, f"{what} is empty")
        return texts

    def _rendered(self, node: Node, template: str, values: Mapping[str, str]) -> str:
        if "{%" in template or "{#" in template:
            raise _UnreadError(self._unread(node, "a template with {% or {#"))

        def value(place: re.Match[str]) -> str:
            name = place[1].strip()
            if name not in values:
                is_name = name.isidentifier()
                problem = "not a var of the test" if is_name else "more than a var's name"
                if is_name:
                    self._fail(node, f"{{{{{name}}}}} is {problem}")
                raise _UnreadError(self._unread(node, f"{{{{{name}}}}}, {problem},"))
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
        if not node:
            return self._name
        name = node.start_mark.name if node.start_mark.name.endswith(".csv") else self._name
        return f"{name}, line {node.start_mark.line + 1}"

    def _unread(self, node: Node, what: str) -> str:
        return self._at(node, f"{what} is not read here")

    def _at(self, node: Node, problem: str) -> str:
        return f"{problem} (line {node.start_mark.line + 1})"

    def _fail(self, node: Node, problem: str) -> NoReturn:
        raise ConfigurationError(f"{self._where(node)}: {problem}")


def _tests_of_csv(text: str, name: str) -> Node:
    """Return the tests of a file with a row for each, as nodes: its columns are vars.

    Raises:
        ConfigurationError: it is not CSV.
    """
    tests = list[Node]()
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        tests += [_test_of_row(row, name, rows.line_num - 1) for row in rows]
    except csv.Error as error:
        raise ConfigurationError(f"{name}, line {rows.line_num}: is not CSV: {error}") from None
    return _sequence(tests, name)


def _test_of_row(row: Mapping[str | None, Any], name: str, line: int) -> Node:
    texts, assertions, test = dict[str, Any](), [], dict[str, Any]()
    for column, value in row.items():
        if column is None or value is None:
            raise ConfigurationError(
                f"{name}, line {line + 1}: has not as many columns as the head"
            )
        column = column.strip()  # noqa: PLW2901 - as promptfoo does
        if re.fullmatch(r"__expected\d*", column):
            if value.strip():
                assertions.append(_mapping(_assertion_of(value.strip()), name, line))
        elif column == "__threshold":
            if value.strip():
                test["threshold"] = value
        elif not column.startswith("__"):
            texts[column] = value
        elif column.partition(":")[0] not in _COLUMNS_IGNORED and value.strip():
            test[column] = value
    test |= {"vars": _mapping(texts, name, line), "assert": _sequence(assertions, name, line)}
    return _mapping(test, name, line)


def _assertion_of(text: str) -> dict[str, Any]:
    found = _EXPECTED.fullmatch(text)
    kind = found["type"] if found else ""
    if found is None or kind.removeprefix("not-") not in (*_ASSERTIONS, *_ALSO_IN_CSV):
        return {"type": "equals", "value": text}
    given = {"type": kind, "value": found["value"], "threshold": found["threshold"]}
    return {key: value.strip() for key, value in given.items() if value}


def _mapping(fields: Mapping[str, Any], name: str, line: int = 0) -> Node:
    import yaml

    pairs = [(_scalar(key, name, line), _node(one, name, line)) for key, one in fields.items()]
    return yaml.MappingNode("", pairs, start_mark=yaml.Mark(name, 0, line, 0, None, 0))


def _sequence(nodes: list[Node], name: str, line: int = 0) -> Node:
    import yaml

    return yaml.SequenceNode("", nodes, start_mark=yaml.Mark(name, 0, line, 0, None, 0))


def _node(value: Any, name: str, line: int) -> Node:
    return _scalar(value, name, line) if isinstance(value, str) else value


def _scalar(text: str, name: str, line: int) -> Node:
    import yaml

    return yaml.ScalarNode("", text, start_mark=yaml.Mark(name, 0, line, 0, None, 0))


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
# A group that JavaScript does not have, such as the flags of `(?i)`.
_OF_PYTHON_ALONE = re.compile(r"(?<!\\)\(\?(?![:=!<])")
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

    if _OF_PYTHON_ALONE.search(javascript):
        raise ValueError(
            f"{javascript[:80]!r} has a group that is Python's alone, such as (?i), and that "
            "promptfoo refuses"
        )
    # `(?a)`: in JavaScript, a digit, a word's letter and its boundary are those of ASCII.
    return f"(?a){_PIECE.sub(written, javascript)}"
