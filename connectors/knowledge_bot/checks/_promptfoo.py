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
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from pydantic import ValidationError

from knowledge_bot._extras import require
from knowledge_bot.checks._questions import Expectation, Kind, Question, first_problem, question_of
from knowledge_bot.errors import ConfigurationError


class _Assertion(NamedTuple):
    """How an assertion is judged here.

    Attributes:
        kind: the kind of expectation.
        case_sensitive: whether capitals matter.
        value: whether it has `one` value, `several`, or `none`.
        unit: what 1 of its `threshold` is as the limit of the expectation; 0: it has none.
        default: the threshold where it gives none; None: it must.
    """

    kind: Kind
    case_sensitive: bool = True
    value: str = "one"
    unit: float = 0.0
    default: float | None = None


_ASSERTIONS = {
    "contains": _Assertion("contains_all"),
    "icontains": _Assertion("contains_all", case_sensitive=False),
    "contains-any": _Assertion("contains_any", value="several"),
    "icontains-any": _Assertion("contains_any", case_sensitive=False, value="several"),
    "contains-all": _Assertion("contains_all", value="several"),
    "icontains-all": _Assertion("contains_all", case_sensitive=False, value="several"),
    "starts-with": _Assertion("starts_with"),
    "regex": _Assertion("matches"),
    "equals": _Assertion("equals"),
    "is-json": _Assertion("is_json", value="none"),
    "is-refusal": _Assertion("refuses", value="none"),
    "latency": _Assertion("latency", value="none", unit=0.001),  # milliseconds
    "levenshtein": _Assertion("similar", unit=1, default=5),
}

_KEYS_READ = ("prompts", "tests", "defaultTest")
_KEYS_IGNORED = (
    *("$schema", "commandLineOptions", "description", "env", "evaluateOptions", "metadata"),
    *("outputPath", "providers", "sharing", "tags", "targets", "writeLatestResults"),
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

Reading = Callable[[str], str]
"""Returns the text of a file that a configuration names, or raises `ConfigurationError`."""


@dataclass(frozen=True, slots=True)
class _Node:
    """A text, a list or a mapping of a file, and where it stands."""

    content: "str | list[_Node] | dict[str, _Node]"
    where: str

    def fail(self, problem: str) -> NoReturn:
        raise ConfigurationError(f"{self.where}: {problem}")

    def unread(self, what: str) -> "_UnreadError":
        return _UnreadError(f"{what} is not read here", self)

    @property
    def is_empty(self) -> bool:
        return self.content in ("", "null", "~")

    def text(self, what: str) -> str:
        if not isinstance(self.content, str):
            self.fail(f"{what}: expected a text")
        return self.content

    def items(self, what: str) -> "list[_Node]":
        if isinstance(self.content, str) and self.content.startswith("file://"):
            self.fail(f"{what}: {self.content[:80]!r} names a file, which is not read here")
        if not self.is_empty and not isinstance(self.content, list):
            self.fail(f"{what}: expected a list")
        return self.content if isinstance(self.content, list) else []

    def one_or_several(self, what: str) -> "list[_Node]":
        return [self] if isinstance(self.content, str) else self.items(what)

    def fields(self, what: str) -> "dict[str, _Node]":
        if not self.is_empty and not isinstance(self.content, dict):
            self.fail(f"{what} is a mapping of names to values")
        return self.content if isinstance(self.content, dict) else {}

    def number(self, what: str) -> float:
        try:
            return float(self.text(what))
        except ValueError:
            return 0.0


_NOTHING = _Node("", "")


class _UnreadError(Exception):
    """Something of a test is not read here. `str()` says what, and in which line."""

    def __init__(self, problem: str, node: _Node) -> None:
        super().__init__(f"{problem} ({node.where.rpartition(', ')[2]})")


@contextlib.contextmanager
def _noting(problems: list[str]) -> Iterator[None]:
    """Note what is not read, and go on."""
    try:
        yield
    except _UnreadError as error:
        problems.append(str(error))


def read_promptfoo(text: str, name: str, reading: Reading) -> list[tuple[str, Question]]:
    """Read the questions of a configuration.

    It is YAML, or JSON, which is YAML too; or CSV, which holds tests alone.

    Returns:
        The questions, each with the file and the line that it stands in.

    Raises:
        ConfigurationError: it is not a configuration, or holds something that is not read here;
            the error names the line.
        ModuleNotFoundError: the extra `checks` is not installed.
    """
    require("A file of promptfoo", "checks", "yaml")
    is_csv = name.lower().endswith(".csv")
    root = _Node({"tests": _rows_of(text, name)}, name) if is_csv else _tree(text, name)
    return _questions(root, reading)


# Questions --------------------------------------------------------------------------------------


def _questions(root: _Node, reading: Reading) -> list[tuple[str, Question]]:
    given = root.fields("a configuration of promptfoo")
    for key, node in given.items():
        if key not in (*_KEYS_READ, *_KEYS_IGNORED):
            node.fail(f"{key!r} is not read here; there are {', '.join(_KEYS_READ)}")
    if "tests" not in given:
        root.fail("there are no 'tests'")
    prompts = _prompts(given.get("prompts", _NOTHING))
    general: list[str] = []
    default = _test(given.get("defaultTest", _NOTHING), general)
    default_vars = _vars(default)
    for key in ("evaluateOptions", "commandLineOptions"):
        if "repeat" in (options := given.get(key, _NOTHING).fields(key)):
            options["repeat"].fail(f"'repeat' of {key} is not read here: each test is asked once")
    found: list[tuple[str, Question]] = []
    ids = Counter[str]()
    for node in _tests(given["tests"], reading):
        for question in _asked(node, default, default_vars, prompts, general.copy()):
            ids[question.id] += 1
            if (count := ids[question.id]) > 1:  # tests of promptfoo have no ids, and may be alike
                question = question.model_copy(update={"id": f"{question.id}-{count}"})  # noqa: PLW2901
            found.append((node.where, question))
            if len(found) > _MOST:
                node.fail(f"the lists in 'vars' make more than {_MOST:,} questions")
    return found


def _asked(
    node: _Node,
    default: Mapping[str, _Node],
    default_vars: Mapping[str, list[str]],
    prompts: Sequence[tuple[_Node, str]],
    problems: list[str],
) -> Iterator[Question]:
    """Yield the questions of a test: one for each prompt, and for each choice of its vars."""
    test = _test(node, problems)
    both = (default, test)
    asserted = [one for each in both for one in each.get("assert", _NOTHING).items("assert")]
    fresh = _is_fresh(both)
    if not (asserted or fresh or problems):
        node.fail("nothing is expected of the answer: the test has no 'assert'")
    threshold = _threshold(test.get("threshold") or default.get("threshold"))
    given = dict(default_vars)
    with _noting(problems):
        given |= _vars(test)
    if empty := [name for name, values in given.items() if not values]:
        node.fail(f"the var {empty[0]!r} has no value")
    for chosen in itertools.product(*given.values()):
        values = dict(zip(given, chosen, strict=True))
        own, expectations = problems.copy(), []
        for one in asserted:
            with _noting(own):
                expectations.append(_expectation(one, values))
        for prompt, template in prompts or [(node, _default_prompt(node, values))]:
            asked, unread = f"the test at {node.where}", own.copy()
            with _noting(unread):
                asked = _rendered(prompt, template, values).strip()
            if unread:
                why = "; ".join(dict.fromkeys(unread))
                expectations = [Expectation(kind="unread", values=(why,))]
            fields = {"ask": asked, "expectations": expectations, "fresh": fresh}
            yield question_of({**fields, "threshold": threshold}, node.where)


def _tests(node: _Node, reading: Reading) -> Iterator[_Node]:
    """Yield the tests; those of a CSV file in place of its name."""
    for one in node.one_or_several("tests"):
        name = one.content.removeprefix("file://") if isinstance(one.content, str) else ""
        if not name.lower().endswith(".csv"):
            yield one
            continue
        try:
            yield from _rows_of(reading(name), name).items("tests")
        except ConfigurationError as error:
            one.fail(str(error))


def _prompts(node: _Node) -> list[tuple[_Node, str]]:
    prompts = []
    for one in [] if node is _NOTHING else node.one_or_several("prompts"):
        raw = one
        if isinstance(one.content, dict):
            if "raw" not in one.content or "function" in one.content:
                one.fail("a prompt is read here as a text, or as one in 'raw'")
            raw = one.content["raw"]
        text = raw.text("a prompt")
        if _A_FILE.match(text.strip()):
            raw.fail(f"{text[:80]!r} names a file; prompts are read here as texts")
        prompts.append((raw, text))
    return prompts


def _default_prompt(node: _Node, values: Mapping[str, str]) -> str:
    # promptfoo's default is {{prompt}}; a single var of another name is taken for it.
    name = "prompt" if "prompt" in values or len(values) != 1 else next(iter(values))
    if name not in values:
        node.fail("there are no 'prompts', and no var 'prompt' to ask instead")
    return f"{{{{{name}}}}}"


def _test(node: _Node, problems: list[str]) -> dict[str, _Node]:
    """Return the fields of a test, and note those that are not read."""
    if node is not _NOTHING and isinstance(node.content, str):
        node.fail(f"{node.content[:80]!r} names a file; tests are read here as they stand")
    fields = node.fields("a test")
    options = fields.get("options", _NOTHING).fields("options")
    for what, given, read in (
        ("{!r} of a test", fields, _KEYS_OF_A_TEST),
        ("the option {!r}", options, _HARMLESS_OPTIONS),
    ):
        problems += [
            str(one.unread(what.format(key))) for key, one in given.items() if key not in read
        ]
    return fields


def _is_fresh(tests: Sequence[Mapping[str, _Node]]) -> bool:
    """Return whether metadata, the later before the earlier, say that answers are fresh."""
    merged: dict[str, _Node] = {}
    for each in tests:
        merged |= each.get("metadata", _NOTHING).fields("metadata")
    node = merged.get("fresh", _Node("false", ""))
    if node.content not in ("true", "false"):
        node.fail("fresh: expected true or false")
    return node.content == "true"


def _threshold(node: _Node | None) -> float | None:
    share = 0.0 if node is None else node.number("threshold")
    if node is not None and not 0 <= share <= 1:
        node.fail("threshold: expected a number from 0 to 1")
    return share or None  # as promptfoo, which takes 0 for none


def _vars(test: Mapping[str, _Node]) -> dict[str, list[str]]:
    """Return the vars, each with the values it may have."""
    found = dict[str, list[str]]()
    for key, value in test.get("vars", _NOTHING).fields("vars").items():
        what, texts = f"the var {key!r}", found.setdefault(key, [])
        for one in value.one_or_several(what):
            texts.append(text := one.text(what))
            if text.startswith("file://"):
                raise one.unread(f"{what}, which names a file,")
            if "{{" in text or "{%" in text:
                raise one.unread(f"{what}, a template itself,")
    return found


def _expectation(node: _Node, values: Mapping[str, str]) -> Expectation:
    fields = node.fields("an assertion")
    if "type" not in fields:
        node.fail("an assertion has no 'type'")
    named = fields["type"].text("the type of an assertion")
    ours = _ASSERTIONS.get(named.removeprefix("not-"))
    if ours is None:
        raise fields["type"].unread(f"the assertion {named!r}")
    for key, one in fields.items():
        if key not in _KEYS_OF_AN_ASSERTION or (key == "threshold" and not ours.unit):
            raise one.unread(f"{key!r} of the assertion {named!r}")
    weight = fields["weight"].number("weight") if "weight" in fields else 1.0
    if weight <= 0:
        fields["weight"].fail("an assertion without weight expects nothing; leave it out")
    limit = ours.default
    if "threshold" in fields:
        limit = ours.unit * fields["threshold"].number("threshold")
    elif ours.unit and limit is None:
        node.fail(f"the assertion {named!r} has no 'threshold'")
    value = fields.get("value", node)
    texts = _values(node, value, named, ours, values)
    try:
        return Expectation(
            kind=ours.kind,
            values=tuple(map(python_expression, texts) if ours.kind == "matches" else texts),
            case_sensitive=ours.case_sensitive,
            negated=named.startswith("not-"),
            limit=limit,
            weight=weight,
        )
    except ValidationError as error:
        # The expression as the file has it, not as it was translated.
        problem, of_expression, _ = first_problem(error).partition(" is not a regular expression")
        shown = f"{texts[0]!r}{of_expression}" if of_expression else problem
        value.fail(f"the assertion {named!r}: {shown}")
    except ValueError as error:
        raise _UnreadError(str(error), value) from None


def _values(
    node: _Node, value: _Node, named: str, ours: _Assertion, values: Mapping[str, str]
) -> list[str]:
    """Return the texts that an assertion compares with."""
    if ours.value == "none":
        if value is not node and value.content != "":
            raise value.unread(f"a value of the assertion {named!r}")
        return []
    if value is node:
        node.fail(f"the assertion {named!r} has no 'value'")
    what, several = f"the value of {named!r}", ours.value == "several"
    nodes = value.one_or_several(what) if several else [value]
    texts = [_rendered(one, one.text(what), values) for one in nodes]
    for one, text in zip(nodes, texts, strict=True):
        if text.startswith(("file://", "package:")):
            raise one.unread(f"{what}, which names a file,")
    if several and isinstance(value.content, str):
        texts = _separated(texts[0])
    if not texts or not all(texts):
        value.fail(f"{what} is empty")
    return texts


def _separated(text: str) -> list[str]:
    """Cut a text at its commas, but not inside of double quotes, as promptfoo does."""
    fields = re.findall(r'\s*(?:"((?:[^"\\]|\\.|"")*)"\s*(?=,|\Z)|([^,]+))', text)
    return [
        re.sub(r'\\(.)|""', lambda found: found[1] or '"', quoted) if quoted else plain.strip()
        for quoted, plain in fields
        if quoted or plain.strip()
    ]


def _rendered(node: _Node, template: str, values: Mapping[str, str]) -> str:
    if "{%" in template or "{#" in template:
        raise node.unread("a template with {% or {#")

    def value(place: re.Match[str]) -> str:
        name = place[1].strip()
        if name not in values:
            if name.isidentifier():
                node.fail(f"{{{{{name}}}}} is not a var of the test")
            raise node.unread(f"{{{{{name}}}}}, more than a var's name,")
        return values[name]

    return _PLACE.sub(value, template)


# Files ------------------------------------------------------------------------------------------


def _tree(text: str, name: str) -> _Node:
    """Read YAML.

    Raises:
        ConfigurationError: it is none, or cannot be read here.
    """
    import yaml

    try:
        # Without resolving: a time such as 9:30 stays a text, as in promptfoo's YAML 1.2.
        return _read(yaml.compose(text, Loader=yaml.BaseLoader), name, {})
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


def _read(node: Any, name: str, known: dict[int, _Node | None]) -> _Node:
    """Read a node of PyYAML; each is read once, however often it is named or merged."""
    if node is None:
        return _Node("", name)
    where = f"{name}, line {node.start_mark.line + 1}"
    if id(node) in known:
        if (before := known[id(node)]) is None:
            raise ConfigurationError(f"{where}: holds itself")
        return before
    known[id(node)] = None
    if node.tag and node.tag.startswith(("!", "tag:yaml.org,2002:python/")):
        raise ConfigurationError(f"{where}: the tag {node.tag[:80]!r} is not read here")
    if node.id == "scalar":
        # A character beyond 16 bits, as JSON escapes it, comes in two halves.
        text = str(node.value).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        found = _Node(text, where)
    elif node.id == "sequence":
        found = _Node([_read(each, name, known) for each in node.value], where)
    else:
        pairs = [(_read(key, name, known), _read(one, name, known)) for key, one in node.value]
        found = _Node(_merged(pairs), where)
    known[id(node)] = found
    return found


def _merged(pairs: Sequence[tuple[_Node, _Node]]) -> dict[str, _Node]:
    """Return a mapping; what is merged into it with `<<` gives way."""
    own, merged = dict[str, _Node](), dict[str, _Node]()
    for key, value in pairs:
        name = key.text("a name")
        if name == "<<":
            for one in [value] if isinstance(value.content, dict) else value.items("<<"):
                merged = {**one.fields("what is merged"), **merged}
        elif name in own:
            key.fail(f"{name!r} appears twice in a mapping")
        else:
            own[name] = value
    return {**merged, **own}


def _rows_of(text: str, name: str) -> _Node:
    """Return the tests of a file with a row for each: its columns are vars.

    Raises:
        ConfigurationError: it is not CSV.
    """
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        return _Node([_test_of(row, f"{name}, line {rows.line_num}") for row in rows], name)
    except csv.Error as error:
        raise ConfigurationError(f"{name}, line {rows.line_num}: is not CSV: {error}") from None


def _test_of(row: Mapping[str | None, Any], where: str) -> _Node:
    texts, asserted, test = dict[str, _Node](), list[_Node](), dict[str, _Node]()
    for column, value in row.items():
        if column is None or value is None:
            raise ConfigurationError(f"{where}: has not as many columns as the head")
        name, node = column.strip(), _Node(value, where)
        if not name.startswith("__"):
            texts[name] = node
        elif not value.strip() or name.partition(":")[0] in _COLUMNS_IGNORED:
            continue
        elif re.fullmatch(r"__expected\d*", name):
            asserted.append(_assertion_of(value.strip(), where))
        else:
            test["threshold" if name == "__threshold" else name] = node
    return _Node({**test, "vars": _Node(texts, where), "assert": _Node(asserted, where)}, where)


def _assertion_of(text: str, where: str) -> _Node:
    found = _EXPECTED.fullmatch(text)
    kind = found["type"] if found else ""
    given: dict[str, str | None] = {"type": "equals", "value": text}
    if found and kind.removeprefix("not-") in (*_ASSERTIONS, *_ALSO_IN_CSV):
        given = {"type": kind, "value": found["value"], "threshold": found["threshold"]}
    return _Node({key: _Node(one.strip(), where) for key, one in given.items() if one}, where)


# Regular expressions ----------------------------------------------------------------------------

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
