"""The operator that finds out which documents a bot does not find."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from airflow_knowledge_bot._compat import AirflowFailException
from airflow_knowledge_bot.operators.ingest import OriginTask, connections_of_items
from airflow_knowledge_bot.tasks import brief, check_filled, check_number, hand_on

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_knowledge_bot.arguments import OriginArguments
    from knowledge_bot.checks import Audit, Progress

logger = logging.getLogger(__name__)

# XCom is for small values, a log for a person who reads.
_LISTED = 20

# Of what an audit tells, beside its counts: what the outlets' events get as well.
_FACTS = ("coverage", "total", "asked", "min_coverage", "duration")


class KnowledgeBotAuditOperator(OriginTask):
    """Finds out which documents of an origin a bot does not find, and fails if there are too many.

    Nobody writes a question: two distinctive sentences of each document are asked for by their
    rarest words. A service that announces `passages` is searched; any other is sent one or two
    messages for each document, and each leaves a conversation. The task fails for good if fewer
    than `min_coverage` are found as they are now; an outage fails it for Airflow to try again.

    XCom, even when the task fails: `coverage` (0 to 1), `found`, `old`, `missing`, `unreadable`,
    `total` (documents of the origin), `asked`, `ways` (`search` or `messages`), `min_coverage`,
    `duration` (seconds) and the first 20 `lacking`, each with `key`, `name`, `outcome` and
    `reason`. The outlets' events have the coverage and the counts in their extra.

    Args:
        origin: what was ingested, as for `KnowledgeBotIngestOperator` (templated).
        origin_name: what the origin is called, if it was ingested under another name (templated).
        bot_id: the bot that is asked (templated); by default the connection's `default_bot_id`.
        sample: how many documents are judged, taken at random each time; None: all.
        budget: the most messages that are sent, where the service has no search; None: as many as
            it takes.
        min_coverage: the share of the documents that has to be found, 0 to 1.
        concurrency: how many requests are in flight at most.
        knowledge_bot_conn_id: the connection (templated).
    """

    template_fields: Sequence[str] = ("bot_id", *OriginTask.template_fields)

    def __init__(
        self,
        *,
        bot_id: str | None = None,
        sample: int | None = None,
        budget: int | None = None,
        min_coverage: float = 0.98,
        concurrency: int = 4,
        **kwargs: "Unpack[OriginArguments]",
    ) -> None:
        super().__init__(**kwargs)
        self.bot_id = bot_id
        self.sample = sample
        self.budget = budget
        self.min_coverage = min_coverage
        self.concurrency = concurrency
        check_number("concurrency", concurrency, 1, whole=True)
        if sample is not None:
            check_number("sample", sample, 1, whole=True)
        if budget is not None:
            check_number("budget", budget, 2, whole=True)
        check_number("min_coverage", min_coverage, 0, 1)

    def execute(self, context: "Context") -> dict[str, Any]:
        """Ask for the documents, then fail if too few of them are found.

        Raises:
            AirflowFailException: too few are found, the service refuses for good, or a parameter
                cannot be used.
            KnowledgeBotError: the service cannot be asked now, and the next try may.
        """
        from airflow_knowledge_bot.assets.knowledge_bot import describe_outlets
        from knowledge_bot.adapters import storable
        from knowledge_bot.checks import audit

        with self._service({"bot_id": self.bot_id}) as hook:
            bot_id = hook.settings.default("bot_id", self.bot_id)
            check_filled(bot_id=bot_id)
            with hook.get_conn() as client, connections_of_items():
                origin = self._origin(context)
                by_search = "passages" in client.extensions()
                price = "by search" if by_search else "each time leaves a conversation"

                def announce(progress: "Progress") -> None:
                    if progress.open == progress.total:  # nothing is judged yet
                        of_all = f"{progress.most} times for what {progress.total} documents say"
                        logger.info("Asking %s at most %s; %s.", bot_id, of_all, price)

                found = audit(
                    client,
                    bot_id,
                    origin,
                    sample=self.sample,
                    budget=self.budget,
                    min_coverage=self.min_coverage,
                    concurrency=self.concurrency,
                    on_progress=announce,
                )
        result = _summary(found)
        logger.info("%s.", found.summary())
        for one in result["lacking"]:
            logger.warning("%(outcome)s: %(name)s: %(reason)s", one)
        if not found.ok:
            hand_on(self, context, result)
            raise AirflowFailException(storable(_failure(found)))
        facts = {name: result[name] for name in (*_FACTS, *found.counts)}
        describe_outlets(context, self.outlets, [], {"bot_id": bot_id, **facts})
        return storable(result)


def _summary(found: "Audit") -> dict[str, Any]:
    facts = found.as_dict()
    return {
        **{name: facts[name] for name in _FACTS},
        **found.counts,
        "ways": found.ways,
        "lacking": [
            {name: brief(value) for name, value in one.as_dict().items()}
            for one in found.lacking[:_LISTED]
        ],
    }


def _failure(found: "Audit") -> str:
    return (
        f"{found.summary()}. At least {found.min_coverage:.1%} have to be found. Airflow does not "
        "retry this task: the log names what lacks. Ingest it again, or see why the service cannot "
        f"read it, and whether {found.bot_id} reads its collection; then clear the task."
    )
