"""The operator that checks what a bot answers."""

from datetime import timedelta
from threading import Event
from typing import TYPE_CHECKING, Any, Unpack

from airflow_knowledge_bot.tasks import QuestionsTask, as_seconds, hand_on

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_knowledge_bot.arguments import QuestionArguments


class KnowledgeBotCheckOperator(QuestionsTask):
    """Asks a bot questions, and fails if too few answers are as expected.

    Each question is a message in a new conversation (POST /messages). All are asked, even after a
    wrong answer, unless ten in a row get no answer; the log names each. Asking changes nothing in
    the service, so Airflow's next try asks again what got no answer.

    The task fails for good if more answers are wrong than `min_pass` allows, or if the service
    refuses for good. It can be retried if the missing answers could make the difference: the
    service was down, or an answer was lost. On Airflow 3.3 a retry does not repeat what passed in
    an earlier try; Airflow 3.1 and 3.2 keep nothing between tries, so there it asks everything. A
    cleared task asks everything.

    XCom, even when the task fails: `ok`, `passed`, `failed` (all that did not pass), `unanswered`
    (those without an answer), `messages` (sent in this try), `min_pass`, `duration`
    (seconds), `stopped` (why it ended early, or None) and the first 20 `failures`, each with `id`,
    `question`, `reason` and `answer`, at most 500 characters each.

    Args:
        bot_id: the bot that is asked (templated); by default the connection's `default_bot_id`.
        questions: what is asked and what the answers must hold (templated): dicts with the fields
            of a `knowledge_bot.checks.Question`, such as `{"ask": …, "contains": …}`, the list of
            such dicts that an upstream task returns, or `Question`s, which are not templated.
        file: a file of questions instead, `.toml` or `.jsonl`: a path on the worker, the address
            of an object (`s3://connection@bucket/key`), or an `ObjectStoragePath` (templated; what
            is in the file is not).
        min_pass: the share of the questions that has to pass, 0 to 1.
        answer_timeout: for how many seconds (or a timedelta) a question that has not passed is
            asked again; 0: each is asked once. The task holds its worker's slot meanwhile;
            `KnowledgeBotAnswerSensor` does not.
        answer_interval: seconds (or a timedelta) between two messages with the same question, at
            least 0.1.
        concurrency: how many messages are in flight at most.
        knowledge_bot_conn_id: the connection (templated).
    """

    def __init__(
        self,
        *,
        answer_timeout: timedelta | float = 0.0,
        answer_interval: timedelta | float = 15.0,
        **kwargs: "Unpack[QuestionArguments]",
    ) -> None:
        super().__init__(**kwargs)
        self.answer_timeout = as_seconds("answer_timeout", answer_timeout)
        self.answer_interval = as_seconds("answer_interval", answer_interval, 0.1)

    def execute(self, context: "Context") -> dict[str, Any]:
        """Ask all questions, then fail if too few have passed.

        Raises:
            AirflowFailException: asking again cannot help: an answer is wrong, the service
                refused for good, or a parameter cannot be used.
            AirflowException: answers are missing, and the next try may get them.
        """
        from airflow_knowledge_bot.assets.knowledge_bot import describe_outlets
        from airflow_knowledge_bot.checks import (
            CheckProgress,
            ask,
            failure_of,
            log_report,
            so_far,
            summary,
        )
        from airflow_knowledge_bot.memory import TaskMemory
        from knowledge_bot.adapters import storable

        self._stop = Event()
        progress = CheckProgress(TaskMemory(context, "checks"), self._stop)
        try:
            with self._service({}) as hook:
                report = ask(
                    self,
                    hook,
                    progress,
                    wait=self.answer_timeout,
                    interval=self.answer_interval,
                )
        except BaseException:  # also Airflow's timeout
            if progress.newest is not None:
                hand_on(self, context, so_far(progress.newest, self))
            raise
        log_report(report)
        result = summary(report)
        failure = failure_of(report)
        if failure is not None:
            hand_on(self, context, result)
            raise failure

        counts = {name: result[name] for name in ("passed", "failed", "unanswered", "min_pass")}
        # The service does not say which collections a bot reads (interface section 2), so an alias
        # stays empty.
        describe_outlets(context, self.outlets, [], {"bot_id": report.results[0].bot_id, **counts})
        return storable(result)
