"""Feed a Knowledge-Bot Service with a folder and web pages every day, and ask it questions.

The DAG waits until the service answers, sends the new and changed files and pages, removes the
files that are gone, waits until the bot can answer from what was sent, checks the bot's answers,
asks the questions, and passes the answers on through XCom. The service, or else a ledger, keeps the
book of what was sent. So the run after a failed one sends only what is missing, and a run without
changes sends nothing.

A person has to act in two cases, which the log names. If so much is gone at once that the folder
may not be there, nothing is removed until a run is triggered with a higher `gone_limit`. If a
service that takes no idempotency keys lost an answer, `settle_unknown.py` settles the item.

To run it against your own service, put this file and a folder of documents into your DAGs folder,
and create two connections in Airflow, in the web UI (types Knowledge-Bot and Knowledge-Bot ledger)
or in the environment:

    export AIRFLOW_CONN_KNOWLEDGE_BOT_DEFAULT='{
      "conn_type": "knowledge_bot",
      "host": "https://service.example/public/v1",
      "password": "<API_KEY>",
      "extra": {"default_bot_id": "bot_…", "default_collection_id": "col_…"}
    }'
    export AIRFLOW_CONN_KNOWLEDGE_BOT_LEDGER_DEFAULT='{
      "conn_type": "knowledge_bot_ledger",
      "host": "/srv/airflow/knowledge-bot.db"
    }'

On one machine the ledger is a SQLite file; on several machines it is a PostgreSQL database. A
service that announces the extension `sync` does not need it. Any other can neither remove nor say
what is ready: there the log lists what is gone, and the bot's answers show when it knows more. The
documents, the expected answers and the questions are the DAG's params: change their defaults below,
or pass others when you trigger a run.

To try the DAG without a scheduler, run `airflow dags test scheduled_ingestion`. To try it without a
service, run `python run_scheduled_ingestion.py`.
"""

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param, dag, task

from airflow_knowledge_bot.operators import (
    KnowledgeBotAuditOperator,
    KnowledgeBotCheckOperator,
    KnowledgeBotIngestOperator,
    KnowledgeBotSendMessageOperator,
)
from airflow_knowledge_bot.sensors import KnowledgeBotAnswerSensor, KnowledgeBotPingSensor
from knowledge_bot.origins import Folder, Urls

if TYPE_CHECKING:
    from collections.abc import Sequence

logger = logging.getLogger(__name__)

LEDGER = "knowledge_bot_ledger_default"

# How many documents are audited each night, taken at random: whether the bot finds what they say.
# Where the service has no search, each costs a message or two. 0: none.
AUDITED = 0

PARAMS = {
    "folder": Param(
        str(Path(__file__).resolve().parent / "handbook"),
        type="string",
        description="The documents, on a disk that every worker sees.",
    ),
    "pages": Param(
        [],
        type="array",
        items={"type": "string", "format": "uri"},
        description="The addresses of web pages. Each is read every night, to see whether its "
        "text changed; the service scrapes those that are sent.",
    ),
    "prune": Param(
        True,
        type="boolean",
        description="Remove what is gone, where the service announces `sync`.",
    ),
    "gone_limit": Param(
        0.5,
        type="number",
        minimum=0,
        maximum=1,
        description="The share of the documents that may be gone at once; 1 for a run that may "
        "remove them all.",
    ),
    "wait_ready": Param(
        600,
        type="number",
        description="For how many seconds each ingestion waits until the bot answers from all that "
        "was sent, where the service says so.",
    ),
    "known_by": Param(
        {"ask": "How many tools were lent in 2024?", "contains": "11,286"},
        type="object",
        required=["ask", "contains"],
        description="A question that the bot can answer once it knows what was handed in.",
    ),
    "checks": Param(
        [
            {"ask": "How long is the loan period for hand tools?", "contains": "14 days"},
            {"ask": "What does a household membership cost a year?", "contains": "54 euros"},
            {"ask": "Who leads the repair evening?", "contains": "Ines Okafor"},
            # What no document says is refused, also after another question.
            {
                "ask": "Who is the mayor of Lisbon?",
                "after": "What does a household membership cost a year?",
                "refuses": True,
            },
        ],
        type="array",
        items={"type": "object", "required": ["ask"]},
        description="What the bot must answer, as questions with what the answers must hold.",
    ),
    "questions": Param(
        [
            "How long is the loan period for hand tools?",
            "What does a household membership cost a year?",
            "Who leads the repair evening?",
            "How many tools were lent in 2024?",
        ],
        type="array",
        items={"type": "string"},
        description="What the bot is asked once all of that is so.",
    ),
}


def tell(context: Any) -> None:
    """Raise the alarm of a red task: a mail or a message to a chat goes here."""
    logger.error("%s is red, and says: %s", context["ti"].task_id, context.get("exception"))


@dag(
    schedule="@daily",
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,  # two runs would ask the same questions; each item is sent once anyway
    # Retries send nothing twice: an item that may have arrived is held, and its task fails.
    default_args={
        "retries": 2,
        "retry_delay": timedelta(seconds=10),
        "retry_exponential_backoff": True,
        "on_failure_callback": tell,
    },
    params=PARAMS,
    doc_md=__doc__,
    tags=["example", "knowledge-bot"],
)
def scheduled_ingestion() -> None:
    """Wait for the service, feed it, wait until the bot can answer, check, ask, pass answers on."""
    service_is_up = KnowledgeBotPingSensor(
        task_id="service_is_up", poke_interval=10, timeout=600, mode="reschedule"
    )

    @task
    def addresses(params: dict[str, Any]) -> list[str]:
        """Return the addresses of the pages."""
        return params["pages"]

    @task
    def checks(params: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the questions whose answers are checked."""
        return params["checks"]

    @task
    def questions(params: dict[str, Any]) -> list[str]:
        """Return the questions, one for each mapped task."""
        return params["questions"]

    @task
    def hand_on(
        questions: "Sequence[str]", messages: "Sequence[dict[str, Any]]"
    ) -> list[dict[str, str]]:
        """Return each answer with its question, for later tasks."""
        answers = [
            {"question": question, "answer": message["answer"]}
            # The slice fetches all XComs of the mapped task at once, not one by one.
            for question, message in zip(questions, messages[:], strict=True)
        ]
        for answer in answers:
            logger.info("%s %s", answer["question"], answer["answer"])
        return answers

    shared: dict[str, Any] = {
        "ledger_conn_id": LEDGER,
        "prune": "{{ params.prune }}",
        "gone_limit": "{{ params.gone_limit }}",
        "wait_ready": "{{ params.wait_ready }}",
    }
    documents = KnowledgeBotIngestOperator(
        task_id="documents", origin=Folder("{{ params.folder }}"), **shared
    )
    pages = KnowledgeBotIngestOperator(
        task_id="pages",
        origin=Urls(addresses(), name="pages", compare="content", allow_empty=True),
        **shared,
    )
    # A service without `sync` accepts what is not searchable yet: only its answers show when.
    known = KnowledgeBotAnswerSensor(
        task_id="known",
        questions=[
            {"ask": "{{ params.known_by.ask }}", "contains": "{{ params.known_by.contains }}"}
        ],
        poke_interval=15,
        timeout=900,
    )
    asked = questions()
    if AUDITED:
        known >> KnowledgeBotAuditOperator(
            task_id="audit", origin=Folder("{{ params.folder }}"), sample=AUDITED
        )
    check = KnowledgeBotCheckOperator(task_id="check", questions=checks())
    ask = KnowledgeBotSendMessageOperator.partial(
        task_id="ask", map_index_template="{{ task.content }}"
    ).expand(content=asked)

    service_is_up >> [documents, pages] >> known >> check >> ask
    hand_on(asked, ask.output)


ingestion = scheduled_ingestion()

if __name__ == "__main__":
    ingestion.test()
