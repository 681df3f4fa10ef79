"""Questions, and what must hold of the answers."""

import functools
import hashlib
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    Strict,
    StringConstraints,
    ValidationError,
    model_validator,
)

from knowledge_bot._answers import Answer
from knowledge_bot._extras import require
from knowledge_bot.errors import ConfigurationError

# Seconds that a regular expression may take over one answer. One that backtracks without end, such
# as `(a{1,9}){1,99}b`, would take years.
_SECONDS_TO_MATCH = 2.0

# Characters of a value that a reason shows; the question has all of it.
_SHOWN = 200


def _several(given: object) -> object:
    return (given,) if isinstance(given, str) else given


NonEmpty = Annotated[str, StringConstraints(min_length=1)]
Texts = Annotated[tuple[NonEmpty, ...], BeforeValidator(_several)]
"""One text or several."""

Kind = Literal[
    "contains_all",
    "contains_any",
    "starts_with",
    "equals",
    "similar",
    "matches",
    "is_json",
    "sources",
    "refuses",
    "fresh",
    "latency",
    "unread",
]

_WITHOUT_VALUES = ("is_json", "refuses", "fresh", "latency")
_OF_ONE_VALUE = ("starts_with", "equals", "similar", "matches", "unread")
_WITH_A_LIMIT = ("similar", "latency")

# Characters of an answer that edits are counted in; it takes their product of steps.
_MOST_COMPARED = 10_000


class Expectation(BaseModel, frozen=True, extra="forbid"):
    """One thing that must hold of an answer.

    The fields of a `Question` say it shorter. This is for what they cannot say: expectations of one
    question that differ in case, or several of a kind, as in files of promptfoo.

    Attributes:
        kind: what is looked at. `contains_all` and `contains_any` look for the values in the
            answer, `matches` for a regular expression, `equals` compares all of it (a list of
            sources behind it may be left out), `sources` looks for names in that list, `refuses`
            asks whether nothing was found, `fresh` whether each source is current in a ledger.
            `starts_with` and `is_json` look at all of the answer, `similar` counts the edits from
            it to a text (Levenshtein), `latency` how long it took. `unread` never holds: it stands
            for what a file expects and this package cannot judge, and its value says what that is.
        values: the texts, the expression or the names; none for `is_json`, `refuses`, `fresh` and
            `latency`.
        case_sensitive: whether capitals matter. Names of sources are compared without.
        negated: whether it must not hold.
        limit: the most edits of `similar`, or seconds of `latency`.
        weight: what it counts for where the question has a `threshold`.

    Raises:
        pydantic.ValidationError: there is no value, several where one belongs, or a regular
            expression that cannot be compiled. It is a ValueError.
        ModuleNotFoundError: `matches` needs the extra `checks`, which is not installed.
    """

    kind: Kind
    values: Texts = ()
    case_sensitive: bool = False
    negated: bool = False
    limit: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0

    @model_validator(mode="after")
    def _check(self) -> "Expectation":
        if (self.kind in _WITHOUT_VALUES) == bool(self.values):
            problem = "takes no values" if self.values else "needs a value"
            raise ValueError(f"{self.kind} {problem}")
        if self.kind == "fresh" and self.negated:
            raise ValueError("fresh cannot be negated")
        if (self.kind in _WITH_A_LIMIT) != (self.limit is not None):
            problem = "needs a limit" if self.limit is None else "takes no limit"
            raise ValueError(f"{self.kind} {problem}")
        if self.kind in _OF_ONE_VALUE and len(self.values) > 1:
            raise ValueError(f"{self.kind} takes one value, not {len(self.values)}")
        if self.kind == "matches":
            _compiled(self.values[0], case_sensitive=self.case_sensitive)
        return self

    def unmet(  # noqa: PLR0911 - a table of kinds
        self, answer: Answer, seconds: float = 0.0
    ) -> str:
        """Return why this does not hold of an answer, as the end of a sentence; empty if it does.

        Args:
            answer: what was answered, whole, as it was read.
            seconds: how long it took.
        """
        match self.kind:
            case "unread":
                return f"was not asked for: {self.values[0]}"
            case "latency":
                assert self.limit is not None  # noqa: S101 - the validator's
                holds = (seconds <= self.limit) != self.negated
                return "" if holds else f"took {seconds:.2f} s, and the limit is {self.limit:g} s"
            case "fresh":
                return _staleness(answer)
            case "sources":
                return self._unnamed(answer)
            case "matches":
                return self._unmatched(answer.text)
            case "similar":
                return self._dissimilar(answer.text)
            case "contains_all" | "contains_any":
                return self._uncontained(self._folded(answer.text))
            case _:
                holds, positive, negative = self._found(answer)
                return "" if holds != self.negated else negative if self.negated else positive

    def _found(self, answer: Answer) -> tuple[bool, str, str]:
        """Return whether this holds, not negated, and what to say if it should, or should not."""
        shown = _quoted(self.values)
        if self.kind == "refuses":
            said = "that nothing was found"
            return answer.refuses, f"does not say {said}", f"says {said}"
        if self.kind == "is_json":
            return _is_json(answer.text), "is not JSON", "is JSON"
        value, text = self._folded(self.values[0]), self._folded(answer.text)
        if self.kind == "starts_with":
            return text.startswith(value), f"does not begin with {shown}", f"begins with {shown}"
        holds = value in (text, self._folded(answer.words))
        return holds, f"is not {shown}", f"is {shown}"

    def _dissimilar(self, text: str) -> str:
        if max(len(text), len(self.values[0])) > _MOST_COMPARED:
            return f"is too long to count edits in: more than {_MOST_COMPARED:,} characters"
        edits = _edits(text, self.values[0])
        assert self.limit is not None  # noqa: S101 - the validator's
        if (edits <= self.limit) != self.negated:
            return ""
        return f"is {edits} edits away from {_quoted(self.values)}, and the limit is {self.limit:g}"

    def _uncontained(self, text: str) -> str:
        there = [value for value in self.values if self._folded(value) in text]
        missing = [value for value in self.values if value not in there]
        if self.kind == "contains_any":
            if self.negated:
                return f"contains {_quoted(there)}" if there else ""
            return "" if there else f"contains {_none_of(self.values)}"
        if self.negated:
            return "" if missing else f"contains {_quoted(self.values)}"
        return f"does not contain {_quoted(missing)}" if missing else ""

    def _unnamed(self, answer: Answer) -> str:
        named = [value for value in self.values if answer.names(value)]
        missing = [value for value in self.values if value not in named]
        if self.negated:
            return f"names {_quoted(named)} as a source" if named else ""
        if not missing:
            return ""
        names = f"it names {_short(answer.sources)}" if answer.sources else "it names none"
        return f"does not name {_quoted(missing)} as a source; {names}"

    def _unmatched(self, text: str) -> str:
        pattern = _compiled(self.values[0], case_sensitive=self.case_sensitive)
        shown = _short(self.values[0])
        try:
            # `concurrent` lets other threads run meanwhile.
            holds = pattern.search(text, timeout=_SECONDS_TO_MATCH, concurrent=True) is not None
        except TimeoutError:
            return (
                f"could not be matched with /{shown}/ within {_SECONDS_TO_MATCH:g} s: the "
                "expression backtracks too much; write it without nested repeats"
            )
        reason = f"{'matches' if self.negated else 'does not match'} /{shown}/"
        return "" if holds != self.negated else reason

    def _folded(self, text: str) -> str:
        return text if self.case_sensitive else text.lower()


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_constant=_refused_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _refused_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _edits(one: str, other: str) -> int:
    """Return how many characters to put in, take out or replace lead from one text to another."""
    row = list(range(len(other) + 1))
    for number, character in enumerate(one, 1):
        before, row[0] = row[0], number
        for place, known in enumerate(other, 1):
            here = before if known == character else 1 + min(before, row[place], row[place - 1])
            before, row[place] = row[place], here
    return row[-1]


def _staleness(answer: Answer) -> str:
    """Return why an answer is not known to be from current sources alone; empty where it is."""
    if answer.refuses:
        return ""
    if answer.freshness is None:
        return (
            "could not be compared with a ledger; pass ledger= to the check, or to the model or "
            "retriever that it asks"
        )
    stale = [one for one in answer.freshness if one["verdict"] != "current"]
    if stale:
        named = ", ".join(f'"{_short(one["name"])}" ({one["verdict"]})' for one in stale)
        return f"is from sources that are not current: {named}"
    return "" if answer.freshness else "names no source by its id, so nobody knows if it is current"


def _dumped(expectation: Expectation) -> dict[str, Any]:
    """Return the fields; those of later versions only if they are set, so that ids stay."""
    fields = expectation.model_dump()
    return {
        name: value
        for name, value in fields.items()
        if name not in ("limit", "weight") or value != Expectation.model_fields[name].default
    }


def _derived_id(given: dict[str, Any]) -> str:
    content = {
        name: [_dumped(one) for one in value] if name == "expectations" else value
        for name, value in given.items()
        if name != "id" and value not in ((), None, False)
    }
    if given.get("refuses") is False:
        content["refuses"] = False
    written = json.dumps(content, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(written.encode()).hexdigest()[:12]


class Question(BaseModel, frozen=True, extra="forbid"):
    """A question, and what must hold of the answer: everything that is given.

    `contains`, `contains_any`, `excludes` and `equals` look at the answer as it came, with the list
    of sources behind it.

    Attributes:
        ask: the question, as it is sent.
        contains: texts that all stand in the answer.
        contains_any: texts of which at least one does.
        excludes: texts of which none does.
        matches: a regular expression (of Python) that is found in the answer. It may take two
            seconds; one that takes longer does not pass.
        equals: the whole answer; a list of sources behind it may be left out.
        sources: names of sources that the answer names.
        refuses: True: the answer is that nothing was found. False: it is not. For services that
            say it neither in English nor as data, use `contains`.
        fresh: True: each source that the answer names is current in the ledger of the check: not
            changed, moved or gone since, and known to it. A refusal, which has none, passes.
        case_sensitive: whether capitals matter in `contains`, `contains_any`, `excludes`, `matches`
            and `equals`.
        expectations: more of them, each by itself; see `Expectation`.
        threshold: the share of what is expected that has to hold, 0 to 1, each counted by its
            weight. None: all of it.
        id: identifies it in results and baselines. By default it is derived from the question and
            what must hold of the answer, so that it changes with them.

    Raises:
        pydantic.ValidationError: nothing is expected, a field is unknown, or a value cannot be
            used. It is a ValueError.
        ModuleNotFoundError: `matches` needs the extra `checks`, which is not installed.
    """

    ask: NonEmpty
    contains: Texts = ()
    contains_any: Texts = ()
    excludes: Texts = ()
    matches: NonEmpty | None = None
    equals: NonEmpty | None = None
    sources: Texts = ()
    refuses: Annotated[bool, Strict()] | None = None
    fresh: Annotated[bool, Strict()] = False
    case_sensitive: Annotated[bool, Strict()] = False
    expectations: tuple[Expectation, ...] = ()
    threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    id: NonEmpty = Field(default_factory=_derived_id)

    if TYPE_CHECKING:  # what is taken, which is more than what is kept

        def __init__(
            self,
            *,
            ask: str,
            contains: str | Iterable[str] = (),
            contains_any: str | Iterable[str] = (),
            excludes: str | Iterable[str] = (),
            matches: str | None = None,
            equals: str | None = None,
            sources: str | Iterable[str] = (),
            refuses: bool | None = None,
            fresh: bool = False,
            case_sensitive: bool = False,
            expectations: Iterable[Expectation] = (),
            threshold: float | None = None,
            id: str | None = None,  # noqa: A002 - what it is
        ) -> None: ...

    @model_validator(mode="before")
    @classmethod
    def _without_an_id(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("id", "") is None:
            return {name: value for name, value in given.items() if name != "id"}
        return given

    @model_validator(mode="after")
    def _check(self) -> "Question":
        if not self.ask.strip():
            raise ValueError("ask: is empty")
        if not self._expected:
            names = ("contains", "contains_any", "excludes", "matches", "equals", "sources")
            raise ValueError(
                f"nothing is expected of the answer: give {', '.join(names)}, refuses or fresh"
            )
        return self

    def unmet(self, answer: Answer | str, seconds: float = 0.0) -> str:
        """Return why the answer does not pass, as the end of a sentence; empty where it does.

        Args:
            answer: what was answered, whole, as a text or as it was read.
            seconds: how long it took, for `latency`.
        """
        read = Answer(answer) if isinstance(answer, str) else answer
        reasons = {one: reason for one in self._expected if (reason := one.unmet(read, seconds))}
        if self.threshold is not None:
            whole = sum(one.weight for one in self._expected)
            holds = whole - sum(one.weight for one in self._expected if one in reasons)
            if holds >= self.threshold * whole - 1e-9:
                return ""
        return "; it ".join(reasons.values())

    @property
    def unread(self) -> str:
        """What is expected that cannot be judged here, so that it is not asked; mostly empty."""
        return "; ".join(one.values[0] for one in self.expectations if one.kind == "unread")

    @functools.cached_property
    def _expected(self) -> tuple[Expectation, ...]:
        """Everything that is expected, in one form."""
        given: list[tuple[Kind, tuple[str, ...], bool]] = [
            ("contains_all", self.contains, False),
            ("contains_any", self.contains_any, False),
            ("contains_any", self.excludes, True),
            ("matches", (self.matches,) if self.matches else (), False),
            ("equals", (self.equals,) if self.equals else (), False),
            ("sources", self.sources, False),
        ]
        found = [
            Expectation(
                kind=kind, values=values, negated=negated, case_sensitive=self.case_sensitive
            )
            for kind, values, negated in given
            if values
        ]
        if self.refuses is not None:
            found.append(Expectation(kind="refuses", negated=not self.refuses))
        if self.fresh:
            found.append(Expectation(kind="fresh"))
        return (*found, *self.expectations)


def is_slow_to_judge(question: Question) -> bool:
    """Return whether judging an answer may take a noticeable time."""
    slow = ("matches", "similar", "is_json")
    return bool(question.matches) or any(one.kind in slow for one in question.expectations)


def needs_ledger(question: Question) -> bool:
    """Return whether an answer can only be judged with a ledger."""
    return question.fresh or any(one.kind == "fresh" for one in question.expectations)


def question_of(fields: dict[str, Any], where: str) -> Question:
    """Make a question of the fields in a file.

    Raises:
        ConfigurationError: a field cannot be used.
    """
    try:
        return Question.model_validate(fields)
    except ValidationError as error:
        raise ConfigurationError(f"{where}: {first_problem(error)}") from None


def first_problem(error: ValidationError) -> str:
    """Return the first thing that is wrong, as part of a sentence."""
    first = error.errors(include_input=False, include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        known = ", ".join(name for name in Question.model_fields if name != "expectations")
        return f"{field!r} is not a field of a question; there are {known}"
    problem = _PROBLEMS.get(first["type"], first["msg"].removeprefix("Value error, "))
    return f"{field}: {problem}" if field and not problem.startswith(field) else problem


_PROBLEMS = {
    "bool_parsing": "expected true or false",
    "bool_type": "expected true or false",
    "missing": "is missing",
    "string_too_short": "is empty",
    "string_type": "expected a text",
    "string_unicode": "holds half of a character (a lone surrogate)",
    "tuple_type": "expected a text or a list of texts",
}


@functools.lru_cache(maxsize=4096)
def _compiled(expression: str, *, case_sensitive: bool) -> Any:
    """Compile a regular expression.

    The standard library's `re` cannot be interrupted or given a timeout, and blocks every other
    thread; the package `regex` takes the same expressions and a timeout.
    """
    require("A regular expression in a check", "checks", "regex")
    import regex

    try:
        return regex.compile(expression, 0 if case_sensitive else regex.IGNORECASE)
    except (regex.error, OverflowError, RecursionError, MemoryError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise ValueError(f"{_short(expression)!r} is not a regular expression: {reason}") from None


def _quoted(values: Iterable[str]) -> str:
    return " and ".join(f'"{_short(value)}"' for value in values)


def _none_of(values: tuple[str, ...]) -> str:
    listed = ", ".join(f'"{_short(value)}"' for value in values)
    return f"none of {listed}" if len(values) > 1 else f"no {listed}"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
