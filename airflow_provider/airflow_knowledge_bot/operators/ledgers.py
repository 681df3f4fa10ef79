"""The operator that settles items of unknown outcome."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack

from airflow_knowledge_bot._compat import AirflowFailException

# isort: split
from airflow.sdk import BaseOperator

from airflow_knowledge_bot.tasks import as_bool, check_filled

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_knowledge_bot.arguments import BaseOperatorArguments
    from knowledge_bot.ingest import Entry, Ledger

# XCom and the log are for a person to read.
_NAMED = 20
_LOGGED = 100
_CHARACTERS = 300

_SENT_LATER = "not created: %s (%s); the next run sends it"

_OUTCOMES = {"": None, "list": None, "created": True, "not created": False, "not_created": False}


class KnowledgeBotResolveOperator(BaseOperator):
    """Settles items of unknown outcome, once a person has looked for them in the service.

    An ingestion that holds such items (`on_unknown="hold"`) fails every night until somebody says
    what became of them: the service offers no way to find out. Without an `outcome` the task lists
    them and changes nothing. `examples/settle_unknown.py` is a DAG with a form for it.

    An item that is already settled in the same way is not an error, so a retry succeeds.

    XCom: `unknown` (how many there were), `settled` (how many were settled), `left` (how many are
    still unknown) and `items`, the first 20 of those that are left, each with `id`, `key`, `name`,
    `collections` and `since` (ISO 8601, UTC).

    Args:
        outcome: what became of them (templated): `created` if the service has the items, `not
            created` if it does not, so that the next run sends them; empty or `list` only lists
            them.
        items: which ones (templated): keys, or the ids that the task lists, as a list, or as a text
            with one per line; whole lines of `kbot ledger unknown` work too. A mapping also gives
            the id of each one's source, or None.
        everything: settle all that are unknown, instead of `items` (templated).
        ledger_conn_id: an Airflow connection of type `knowledge_bot_ledger`, `postgres` or `sqlite`
            (templated).
    """

    template_fields: Sequence[str] = ("outcome", "items", "everything", "ledger_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"items": "json"}
    template_ext: Sequence[str] = ()
    ui_color = "#e3edf7"

    def __init__(
        self,
        *,
        ledger_conn_id: str,
        outcome: "Literal['', 'list', 'created', 'not created', 'not_created'] | str" = "",
        items: str | Sequence[str] | Mapping[str, str | None] = (),
        everything: bool | str = False,
        **kwargs: "Unpack[BaseOperatorArguments]",
    ) -> None:
        super().__init__(**kwargs)
        self.ledger_conn_id = ledger_conn_id
        self.outcome = outcome
        self.items = items
        self.everything = everything

    def execute(self, context: "Context") -> dict[str, Any]:  # noqa: ARG002 - Airflow's signature
        """Settle the items, and list what is left.

        Raises:
            AirflowFailException: a parameter cannot be used, or some items are not unknown; the
                others are settled.
            LedgerError: the ledger cannot be used now; Airflow may try the task again.
        """
        from airflow_knowledge_bot.hooks import KnowledgeBotLedgerHook
        from knowledge_bot import ConfigurationError

        created, everything = _outcome(self.outcome), as_bool("everything", self.everything)
        wanted = _wanted(self.items)
        if created is None and (wanted or everything):
            raise AirflowFailException(
                "The task's parameter 'outcome' is empty, so nothing was settled: give 'created' "
                "or 'not created'."
            )
        if created is not None and bool(wanted) == everything:
            raise AirflowFailException(
                "Give one of the task's parameters 'items' and 'everything', to say what is "
                "settled. Nothing was settled."
            )
        check_filled(ledger_conn_id=self.ledger_conn_id)
        try:
            ledger = KnowledgeBotLedgerHook(self.ledger_conn_id).get_conn()
        except ConfigurationError as error:
            raise AirflowFailException(f"{error} Nothing was settled.") from error
        unknown = list(ledger.unknown()) if ledger.exists() else []
        self._log_unknown(unknown)
        if created is None:
            return _summary(unknown, unknown)
        if everything:
            wanted = {entry.id: None for entry in unknown}
        wrong = self._settle(ledger, wanted, created=created)
        result = _summary(unknown, list(ledger.unknown()))
        self.log.info("Settled %(settled)d of %(unknown)d; %(left)d are left.", result)
        if wrong:
            raise AirflowFailException(
                f"{result['settled']} items were settled, and {len(wrong)} could not be: "
                f"{' '.join(wrong[:_NAMED])}"
            )
        return result

    def _settle(
        self, ledger: "Ledger", wanted: Mapping[str, str | None], *, created: bool
    ) -> list[str]:
        """Settle what can be, and return what is wrong with the others."""
        from knowledge_bot.ingest import LedgerError

        wrong = []
        line = "created: %s (%s)" if created else _SENT_LATER
        for key, source in wanted.items():
            try:
                source_id = source if created else None
                entry = ledger.resolve(key, created=created, source_id=source_id)
            except LedgerError as error:
                if error.__cause__ is not None:  # the database's, not the item's
                    raise
                wrong.append(f"{str(error).rstrip('. ')}.")
            else:
                self.log.info(line, entry.name, entry.key)
        return wrong

    def _log_unknown(self, unknown: "Sequence[Entry]") -> None:
        self.log.info("%d items are of unknown outcome.", len(unknown))
        for entry in unknown[:_LOGGED]:
            self.log.warning(
                "%s\t%s\t%s\tsince %s: %s",
                entry.id,
                ",".join(entry.collections),
                entry.name,
                entry.updated_at.isoformat(timespec="seconds"),
                entry.error[:_CHARACTERS],
            )
        if len(unknown) > _LOGGED:
            self.log.warning("… and %d more", len(unknown) - _LOGGED)


def _outcome(given: object) -> bool | None:
    if not isinstance(given, str) or given.strip().lower() not in _OUTCOMES:
        raise AirflowFailException(
            "The task's parameter 'outcome' is 'created', 'not created', or empty to list the "
            f"items, not {given!r}. Nothing was settled."
        )
    return _OUTCOMES[given.strip().lower()]


def _wanted(given: object) -> dict[str, str | None]:
    """Return keys or ids, each with its source's id if that is given."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {str(key): value for key, value in given.items()}
    lines = given.splitlines() if isinstance(given, str) else given
    if not isinstance(lines, Sequence) or not all(isinstance(line, str) for line in lines):
        raise AirflowFailException(
            "The task's parameter 'items' gives keys or ids, as a list or as lines, not "
            f"{type(given).__name__}. Nothing was settled."
        )
    return {key: None for line in lines if (key := line.partition("\t")[0].strip())}


def _summary(unknown: "Sequence[Entry]", left: "Sequence[Entry]") -> dict[str, Any]:
    return {
        "unknown": len(unknown),
        "settled": len({entry.id for entry in unknown} - {entry.id for entry in left}),
        "left": len(left),
        "items": [
            {
                "id": entry.id,
                "key": entry.key,
                "name": entry.name,
                "collections": list(entry.collections),
                "since": entry.updated_at.isoformat(timespec="seconds"),
            }
            for entry in left[:_NAMED]
        ],
    }
