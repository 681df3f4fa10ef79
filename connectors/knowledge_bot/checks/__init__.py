"""Checks: questions to a bot with what its answers must hold, and audits without any.

    from knowledge_bot import Client
    from knowledge_bot.checks import Question, check

    with Client() as client:
        report = check(
            client,
            "bot_guide",
            [Question(ask="When do you open on Saturday?", contains="9:30")],
            wait=600,
        )
    assert report.ok, report

"Created" means accepted: the interface shows no status of a source after that (section 3). Only
asking shows whether a bot can answer from it. So `wait` asks again what has not passed, once every
`interval` seconds.

- A `Question` says what is asked and what the answer must hold. `load_questions` reads them from
  a file: TOML or JSON lines.
- `check` and `acheck` ask, and return a `CheckReport`: a table, plain values for JSON, JUnit XML.
- `audit` and `aaudit` need no questions: they tell which documents of an origin a bot does not
  find, and return an `Audit`.

Importing this package loads neither pydantic nor the client; a name is loaded when it is first
used. Regular expressions (`matches`) need the package `regex`, which the extra `cli` brings.
"""

from typing import TYPE_CHECKING

from knowledge_bot._lazy import lazy_names

if TYPE_CHECKING:
    from knowledge_bot.checks._audit import AuditOptions, aaudit, audit
    from knowledge_bot.checks._coverage import Audit, AuditedDocument, Finding
    from knowledge_bot.checks._files import load_questions
    from knowledge_bot.checks._questions import Question
    from knowledge_bot.checks._report import CheckReport, CheckStop, Progress, Result, Verdict
    from knowledge_bot.checks._run import CheckOptions, acheck, check

__all__ = [
    "Audit",
    "AuditOptions",
    "AuditedDocument",
    "CheckOptions",
    "CheckReport",
    "CheckStop",
    "Finding",
    "Progress",
    "Question",
    "Result",
    "Verdict",
    "aaudit",
    "acheck",
    "audit",
    "check",
    "load_questions",
]

_HOMES = {
    "_audit": ("AuditOptions", "aaudit", "audit"),
    "_coverage": ("Audit", "AuditedDocument", "Finding"),
    "_files": ("load_questions",),
    "_questions": ("Question",),
    "_run": ("CheckOptions", "acheck", "check"),
}
_HOMES["_report"] = tuple({*__all__}.difference(*_HOMES.values()))
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
