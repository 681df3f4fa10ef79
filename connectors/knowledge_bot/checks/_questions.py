"""Questions, and what must hold of the answers."""

import functools
import hashlib
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    Strict,
    StringConstraints,
    ValidationError,
    model_validator,
)

from knowledge_bot._answers import Answer, alike, folded
from knowledge_bot._extras import require
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.models import _ByName

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


def _derived_id(given: dict[str, Any]) -> str:
    content = {
        name: value
        for name, value in given.items()
        if name != "id" and (value not in ((), None, False) or (name, value) == ("refuses", False))
    }
    written = json.dumps(content, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(written.encode()).hexdigest()[:12]


class Question(_ByName, BaseModel, frozen=True, extra="forbid"):
    """A question, and what must hold of the answer: everything that is given.

    `contains`, `contains_any`, `excludes` and `equals` look at the answer as it came, with the list
    of sources behind it. Texts that read alike are alike: an accent as a character of its own
    (Unicode's normal forms), a no-break space.

    Attributes:
        ask: the question, as it is sent.
        after: what is asked before it, in the same conversation. These answers are not judged.
        contains: texts that all stand in the answer.
        contains_any: texts of which at least one does.
        excludes: texts of which none does.
        matches: a regular expression (of Python) that is found in the answer. It may take two
            seconds; one that takes longer does not pass.
        equals: the whole answer; a list of sources behind it may be left out.
        sources: names of sources that the answer names; capitals do not matter.
        refuses: True: the answer is that nothing was found. False: it is not. For services that
            say it neither in English nor as data, use `contains`.
        case_sensitive: whether capitals matter in `contains`, `contains_any`, `excludes`, `matches`
            and `equals`.
        id: identifies it in results. By default it is derived from the question and what must hold
            of the answer, so that it changes with them.

    Raises:
        pydantic.ValidationError: nothing is expected, a field is unknown, or a value cannot be
            used. It is a ValueError.
        ModuleNotFoundError: `matches` needs the package `regex`, which the extra `cli` brings.
    """

    ask: NonEmpty
    after: Texts = ()
    contains: Texts = ()
    contains_any: Texts = ()
    excludes: Texts = ()
    matches: NonEmpty | None = None
    equals: NonEmpty | None = None
    sources: Texts = ()
    refuses: Annotated[bool, Strict()] | None = None
    case_sensitive: Annotated[bool, Strict()] = False
    id: NonEmpty = Field(default_factory=_derived_id)

    if TYPE_CHECKING:  # what is taken, which is more than what is kept

        def __init__(
            self,
            *,
            ask: str,
            after: str | Iterable[str] = (),
            contains: str | Iterable[str] = (),
            contains_any: str | Iterable[str] = (),
            excludes: str | Iterable[str] = (),
            matches: str | None = None,
            equals: str | None = None,
            sources: str | Iterable[str] = (),
            refuses: bool | None = None,
            case_sensitive: bool = False,
            id: str = ...,  # noqa: A002 - what it is
        ) -> None: ...

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, given: object) -> object:
        for name in given if isinstance(given, dict) else ():
            if name not in cls.model_fields:
                known = ", ".join(cls.model_fields)
                raise ValueError(f"{name!r} is not a field of a question; there are {known}")
        return given

    @model_validator(mode="after")
    def _check(self) -> "Question":
        for name, texts in (("ask", [self.ask]), ("after", self.after)):
            if not all(text.strip() for text in texts):
                raise ValueError(f"{name}: is empty")
        if self.refuses is None and not any(getattr(self, name) for name in _EXPECTED):
            raise ValueError(
                f"nothing is expected of the answer: give {', '.join(_EXPECTED)} or refuses"
            )
        if self.matches:
            _compiled(self.matches, case_sensitive=self.case_sensitive)
        return self

    def unmet(self, answer: Answer | str) -> str:
        """Return why the answer does not pass, as the end of a sentence; empty where it does.

        Args:
            answer: what was answered, whole, as a text or as it was read.
        """
        read = Answer(answer) if isinstance(answer, str) else answer
        text = self._folded(read.text)
        missing = [one for one in self.contains if self._folded(one) not in text]
        there = [one for one in self.excludes if self._folded(one) in text]
        reasons = (
            f"does not contain {_quoted(missing)}" if missing else "",
            "" if self._has_any(text) else f"contains {_none_of(self.contains_any)}",
            f"contains {_quoted(there)}" if there else "",
            self._unmatched(read.text),
            "" if self._is_equal(read) else f"is not {_quoted([self.equals or ''])}",
            self._unnamed(read),
            self._not_refused(read),
        )
        return "; it ".join(filter(None, reasons))

    def _has_any(self, text: str) -> bool:
        return not self.contains_any or any(self._folded(one) in text for one in self.contains_any)

    def _is_equal(self, answer: Answer) -> bool:
        return self.equals is None or self._folded(self.equals) in (
            self._folded(answer.text),
            self._folded(answer.words),
        )

    def _unnamed(self, answer: Answer) -> str:
        missing = [one for one in self.sources if not answer.names(one)]
        if not missing:
            return ""
        names = f"it names {_short(answer.sources)}" if answer.sources else "it names none"
        return f"does not name {_quoted(missing)} as a source; {names}"

    def _not_refused(self, answer: Answer) -> str:
        if self.refuses in (None, answer.refuses):
            return ""
        return f"{'does not say' if self.refuses else 'says'} that nothing was found"

    def _unmatched(self, text: str) -> str:
        if self.matches is None:
            return ""
        pattern = _compiled(self.matches, case_sensitive=self.case_sensitive)
        shown = _short(self.matches)
        try:
            # `concurrent` lets other threads run meanwhile.
            found = pattern.search(alike(text), timeout=_SECONDS_TO_MATCH, concurrent=True)
        except TimeoutError:
            return (
                f"could not be matched with /{shown}/ within {_SECONDS_TO_MATCH:g} s: the "
                "expression backtracks too much; write it without nested repeats"
            )
        return "" if found else f"does not match /{shown}/"

    def _folded(self, text: str) -> str:
        return alike(text) if self.case_sensitive else folded(text)


# What a question expects, beside `refuses`.
_EXPECTED = ("contains", "contains_any", "excludes", "matches", "equals", "sources")


def question_of(fields: object, where: str) -> Question:
    """Make a question of a mapping with its fields.

    Raises:
        ConfigurationError: it is none, or a field cannot be used.
    """
    try:
        return Question.model_validate(fields)
    except ValidationError as error:
        raise ConfigurationError(f"{where}: {_first_problem(error)}") from None


def _first_problem(error: ValidationError) -> str:
    """Return the first thing that is wrong, as part of a sentence."""
    first = error.errors(include_input=False, include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    problem = _PROBLEMS.get(first["type"], first["msg"].removeprefix("Value error, "))
    return f"{field}: {problem}" if field and not problem.startswith(field) else problem


_PROBLEMS = {
    "bool_parsing": "expected true or false",
    "bool_type": "expected true or false",
    "missing": "is missing",
    "model_type": "expected the fields of a question, such as {'ask': …, 'contains': …}",
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
    require("A regular expression in a check", "cli", "regex")
    import regex

    try:
        flags = 0 if case_sensitive else regex.IGNORECASE | regex.FULLCASE
        return regex.compile(alike(expression), flags)
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
