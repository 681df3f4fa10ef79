"""The operator that settles items of unknown outcome."""

from collections.abc import Mapping, Sequence, Set
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack

from airflow_knowledge_bot._compat import AirflowFailException

# isort: split
from airflow.sdk import BaseOperator

from airflow_knowledge_bot.tasks import as_bool

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_knowledge_bot.arguments import BaseOperatorArguments
    from knowledge_bot.ingest import Entry, Ledger

# XCom and the log are for a person to read.
_NAMED = 20
_LOGGED = 100
_CHARACTERS = 300

_LEAVE, _CREATED, _NOT_CREATED = "leave it", "created", "not created"

_SENT_LATER = "not created: %s (%s); the next run sends it"

# What a person may choose: what the form says of each item, or the same for all of them.
_AS_CHOSEN = "As chosen"
ANSWERS = {"All were created": _CREATED, "None was created": _NOT_CREATED, "Leave all": _LEAVE}

_OUTCOMES = {
    **dict.fromkeys(("", "list", "ask")),
    _CREATED: True,
    **dict.fromkeys((_NOT_CREATED, "not_created"), False),
}


class KnowledgeBotResolveOperator(BaseOperator):
    """Settles items of unknown outcome, once a person has looked for them in the service.

    An ingestion that holds such items (`on_unknown="hold"`) fails every night until somebody says
    what became of them: the service offers no way to find out. Without an `outcome` the task lists
    them and changes nothing. `examples/settle_unknown.py` is a DAG with a form for it.

    With `outcome="ask"` the task asks a person, under Required Actions in the web UI, and waits for
    the answer: one form for the first 20 items, with a choice for each of them. Where nothing is
    unknown, it asks nobody.

    An item that is already settled in the same way is not an error, so a retry succeeds.

    XCom: `unknown` (how many there were), `settled` (how many were settled), `left` (how many are
    still unknown) and `items`, the first 20 of those that are left, each with `id`, `key`, `name`,
    `collections` and `since` (ISO 8601, UTC).

    Args:
        outcome: what became of them (templated): `created` if the service has the items, `not
            created` if it does not, so that the next run sends them; `ask` asks a person; empty or
            `list` only lists them.
        items: which ones (templated): keys, or the ids that the task lists, as a list, or as a text
            with one per line; whole lines of `kbot ledger unknown` work too. A mapping also gives
            the id of each one's source, or None.
        everything: settle all that are unknown, instead of `items` (templated).
        response_timeout: how long `ask` waits for a person; then all is left as it is.
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
        outcome: "Literal['', 'list', 'ask', 'created', 'not created', 'not_created'] | str" = "",
        items: str | Sequence[str] | Mapping[str, str | None] = (),
        everything: bool | str = False,
        response_timeout: timedelta | None = timedelta(hours=12),
        **kwargs: "Unpack[BaseOperatorArguments]",
    ) -> None:
        super().__init__(**kwargs)
        self.ledger_conn_id = ledger_conn_id
        self.outcome = outcome
        self.items = items
        self.everything = everything
        self.response_timeout = response_timeout

    def execute(self, context: "Context") -> dict[str, Any]:
        """Settle the items, and list what is left.

        Raises:
            AirflowFailException: a parameter cannot be used, or some items are not unknown; the
                others are settled.
            LedgerError: the ledger cannot be used now; Airflow may try the task again.
        """
        from airflow_knowledge_bot.ledgers import ledger_of

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
        ledger = ledger_of(self.ledger_conn_id)
        unknown = _unknown(ledger)
        self._log_unknown(unknown)
        if created is None:
            if unknown and self.outcome.strip().lower() == "ask":
                self._ask(context, unknown)
            return _summary(unknown, unknown, settled=0)
        if everything:
            wanted = {entry.id: None for entry in unknown}
        return self._end(ledger, unknown, *self._settle(ledger, wanted, unknown, created=created))

    def execute_complete(
        self,
        context: "Context",  # noqa: ARG002 - Airflow's signature
        event: dict[str, Any],
        asked: Sequence[str],
    ) -> dict[str, Any]:
        """Settle the items as a person has answered.

        Raises:
            Exception: as `execute`.
        """
        from airflow_knowledge_bot.approvals import answer_of
        from airflow_knowledge_bot.ledgers import ledger_of

        chosen, fields = answer_of(event)
        ledger = ledger_of(self.ledger_conn_id)
        unknown = _unknown(ledger)
        settled, wrong = 0, list[str]()
        for outcome, created in ((_CREATED, True), (_NOT_CREATED, False)):
            wanted = {
                name: None
                for name in fields or asked
                if chosen and ANSWERS.get(chosen, fields.get(name)) == outcome
            }
            more, errors = self._settle(ledger, wanted, unknown, created=created)
            settled, wrong = settled + more, wrong + errors
        return self._end(ledger, unknown, settled, wrong)

    def _ask(self, context: "Context", unknown: "Sequence[Entry]") -> None:
        from airflow_knowledge_bot.approvals import ask, table

        shown = unknown[:_NAMED]
        rows = [
            [one.name, ", ".join(one.collections), f"{one.updated_at:%F %R}", one.error]
            for one in shown
        ]
        ask(
            self,
            context,
            subject=f"What became of {len(unknown)} item{'s' * (len(unknown) != 1)}?",
            body="The service may or may not have these. Look for them there, by name, among the "
            "sources of that time (UTC).\n\n"
            + table(("name", "collections", "since", "why"), rows, len(unknown) - len(shown)),
            options=(_AS_CHOSEN, *ANSWERS),
            fields={
                one.id: {
                    "type": "string",
                    "title": one.name,
                    "enum": [_LEAVE, _CREATED, _NOT_CREATED],
                    "default": _LEAVE,
                }
                for one in shown
            },
            timeout=self.response_timeout,
            kwargs={"asked": [one.id for one in shown]},
        )

    def _end(
        self, ledger: "Ledger", unknown: "Sequence[Entry]", settled: int, wrong: Sequence[str]
    ) -> dict[str, Any]:
        left = _unknown(ledger)
        self.log.info("Settled %d of %d; %d are left.", settled, len(unknown), len(left))
        if wrong:
            shown = " ".join(wrong[:_NAMED])
            raise AirflowFailException(
                f"{settled} items were settled, and {len(wrong)} could not be: {shown}"
            )
        return _summary(unknown, left, settled=settled)

    def _settle(
        self,
        ledger: "Ledger",
        wanted: Mapping[str, str | None],
        unknown: "Sequence[Entry]",
        *,
        created: bool,
    ) -> tuple[int, list[str]]:
        from knowledge_bot.ingest import LedgerError

        open_ones = {name for entry in unknown for name in (entry.id, entry.key)}
        already = _in_state(ledger, wanted.keys() - open_ones, created=created)
        settled, wrong = 0, []
        for key, source in wanted.items():
            try:
                if key in already:
                    self.log.info("%s was already settled like this.", key)
                    continue
                source_id = source if created else None
                entry = ledger.resolve(key, created=created, source_id=source_id)
            except LedgerError as error:
                if error.__cause__ is not None:  # the database's, not the item's
                    raise
                wrong.append(f"{str(error).rstrip('. ')}.")
            else:
                settled += 1
                line = "created: %s (%s)" if created else _SENT_LATER
                self.log.info(line, entry.name, entry.key)
        return settled, wrong

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


def _unknown(ledger: "Ledger") -> "list[Entry]":
    return list(ledger.unknown()) if ledger.exists() else []


def _in_state(ledger: "Ledger", names: Set[str], *, created: bool) -> set[str]:
    """Return those keys and ids that stand for exactly one item, settled in this way."""
    from knowledge_bot.ingest import State

    if not names or not ledger.exists():
        return set()
    wanted = State.CREATED if created else State.REFUSED
    states: dict[str, list[State]] = {}
    for entry in ledger.entries():
        for name in names & {entry.id, entry.key}:
            states.setdefault(name, []).append(entry.state)
    return {name for name, found in states.items() if found == [wanted]}


def _summary(
    unknown: "Sequence[Entry]", left: "Sequence[Entry]", *, settled: int
) -> dict[str, Any]:
    return {
        "unknown": len(unknown),
        "settled": settled,
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
