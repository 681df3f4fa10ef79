"""The pytest plugin: `pytest --knowledge-bot-questions FILE` makes a test of each question.

    pytest --knowledge-bot-questions questions.toml --knowledge-bot-bot bot_guide

Other tests that are named or found are run as well; to run the questions alone, name their file
twice: `pytest questions.toml --knowledge-bot-questions questions.toml`.

The service and its key come from the environment (`KNOWLEDGE_BOT_BASE_URL` and
`KNOWLEDGE_BOT_API_KEY`). The bot comes from the option or from `KNOWLEDGE_BOT_BOT`, or is the only
one that the service has. Each question is asked once, in a new conversation. The ledger that one
with `fresh` needs comes from the environment too (`KNOWLEDGE_BOT_LEDGER`).

Where the distribution is installed, pytest knows the options by itself. This module is therefore
loaded in every run, and imports nothing before the options are used.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from knowledge_bot import Client
    from knowledge_bot.checks import Question, Result

__all__: list[str] = []

_BOT_VARIABLE = "KNOWLEDGE_BOT_BOT"
_LEDGER = "KNOWLEDGE_BOT_LEDGER"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("knowledge-bot", "questions to a bot")
    group.addoption(
        "--knowledge-bot-questions",
        action="append",
        default=[],
        metavar="FILE",
        help="make a test of each question of this file (TOML, JSON lines, or promptfoo's YAML)",
    )
    group.addoption(
        "--knowledge-bot-bot",
        metavar="BOT",
        help=f"the bot that is asked (default: {_BOT_VARIABLE}, or the only one there is)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Have the files of questions collected, besides what the command line names."""
    if given := config.getoption("--knowledge-bot-questions"):
        asked = _Asked(
            config.getoption("--knowledge-bot-bot"), [Path(one).resolve() for one in given]
        )
        config.pluginmanager.register(asked, "knowledge-bot-questions")


class _Asked:
    """The files of questions, and the bot that is asked."""

    def __init__(self, bot: str | None, files: list[Path]) -> None:
        self._bot, self._files = bot, files
        self._client: Client | None = None
        self._hopeless = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        config = session.config
        if missing := [file for file in self._files if not file.is_file()]:
            raise pytest.UsageError(f"--knowledge-bot-questions: there is no file {missing[0]}")
        named = {Path(argument.partition("::")[0]).resolve() for argument in config.args}
        config.args = [*config.args, *(str(file) for file in self._files if file not in named)]

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_file(
        self, file_path: Path, parent: pytest.Collector
    ) -> "_QuestionsFile | None":
        if file_path not in self._files:
            return None
        made: _QuestionsFile = _QuestionsFile.from_parent(parent, path=file_path)
        made.asked = self
        return made

    def pytest_sessionfinish(self) -> None:
        if self._client is not None:
            self._client.close()

    def ask(self, question: "Question") -> "Result":
        """Ask a question; if asking was found to be hopeless, fail for the same reason at once."""
        from knowledge_bot import Client, ConfigurationError
        from knowledge_bot.checks import check

        if self._hopeless:
            raise _NotPassedError(self._hopeless)
        try:
            self._client = self._client or Client()
            bot = self._bot_to_ask(self._client)
            report = check(self._client, bot, [question], ledger=os.environ.get(_LEDGER))
        except ConfigurationError as error:
            self._hopeless = str(error)
            raise _NotPassedError(self._hopeless) from None
        if report.stopped is not None:
            self._hopeless = report.stop_reason
        return report.results[0]

    def _bot_to_ask(self, client: "Client") -> str:
        from knowledge_bot import ConfigurationError

        if self._bot is None:
            self._bot = os.environ.get(_BOT_VARIABLE) or None
        if self._bot is None:
            bots = [bot.id for bot in client.list_bots()]
            if len(bots) != 1:
                raise ConfigurationError(
                    f"Which bot? The service has {', '.join(bots[:20]) or 'none'}. Pass "
                    f"--knowledge-bot-bot, or set {_BOT_VARIABLE}"
                )
            self._bot = bots[0]
        return self._bot


class _NotPassedError(Exception):
    """A question did not pass; str() says why."""


class _QuestionsFile(pytest.File):
    asked: _Asked

    def collect(self) -> Iterator["_QuestionItem"]:
        from knowledge_bot import ConfigurationError
        from knowledge_bot.checks import load_questions
        from knowledge_bot.checks._report import printable

        try:
            questions = load_questions(self.path)
        except (ConfigurationError, ModuleNotFoundError) as error:
            raise self.CollectError(str(error)) from None
        names: set[str] = set()
        for question in questions:
            name = printable(" ".join(question.ask.split())[:100])
            # Names select tests, so each is unique.
            name = f"{name} ({question.id})" if name in names else name
            names.add(name)
            item: _QuestionItem = _QuestionItem.from_parent(self, name=name)
            item.question, item.asked = question, self.asked
            yield item


class _QuestionItem(pytest.Item):
    question: "Question"
    asked: _Asked

    def runtest(self) -> None:
        from knowledge_bot.checks._report import printable

        result = self.asked.ask(self.question)
        self.user_properties.append(("knowledge_bot_seconds", round(result.seconds, 3)))
        if result.answer:
            self.add_report_section("call", "answer", printable(result.answer))
        if not result.passed:
            raise _NotPassedError(printable(result.reason))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the reason alone: no line of Python is at fault."""
        from knowledge_bot import KnowledgeBotError

        if isinstance(excinfo.value, _NotPassedError | KnowledgeBotError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.name
