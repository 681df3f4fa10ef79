"""`kbot doctor`: where each setting comes from, and whether what it names works."""

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import click
from click.core import ParameterSource

from knowledge_bot import KnowledgeBotError
from knowledge_bot._extensions import keeps_book_for_others
from knowledge_bot.cli.exits import Exit, Failed, exit_of
from knowledge_bot.cli.ledgers import ledger_option, open_ledger
from knowledge_bot.cli.output import as_json_option, write_document, write_table, write_text
from knowledge_bot.cli.settings import ServiceOptions, Setting

if TYPE_CHECKING:
    from knowledge_bot import Client

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")

# Seconds to wait for an answer; somebody is sitting in front of it.
_PATIENCE = 10.0

# Origins that are looked at, with a request each.
_ORIGINS = 20


class _Setting(NamedTuple):
    name: str
    value: str | None
    origin: str | None


class _Check(NamedTuple):
    """The result of a check; `ok` is None where there is nothing to check."""

    name: str
    ok: bool | None
    detail: str
    code: Exit = Exit.FAILED


@click.command()
@ledger_option
@as_json_option
@click.pass_context
def doctor(ctx: click.Context, ledger_address: str | None, as_json: bool) -> None:
    """Show where each setting comes from, and what works.

    It pings the service, lists its bots and collections with the key, reads the ledger, and
    compares what that or the service itself has written down of each origin with the sources that
    are there. It never shows the key, and changes nothing. The exit code is 4 if the key is at
    fault, 1 if something else is.

    \b
    kbot doctor
    kbot --profile staging doctor --json | jq '.checks[] | select(.ok == false)'
    """  # noqa: D301 - \b is for click
    service: ServiceOptions = ctx.obj
    settings = list(_settings(ctx, service, ledger_address))
    checks = [
        *_checks_of_the_service(service, ledger_address),
        _check_of_the_ledger(ledger_address),
    ]
    failed = [check for check in checks if check.ok is False]
    if as_json:
        found = [{"name": one.name, "value": one.value, "from": one.origin} for one in settings]
        tried = [{"name": one.name, "ok": one.ok, "detail": one.detail} for one in checks]
        write_document({"ok": not failed, "settings": found, "checks": tried})
    else:
        write_table(("setting", "value", "from"), ([field or "-" for field in s] for s in settings))
        write_text("")
        results = {True: "ok", False: "failed", None: "-"}
        rows = ((one.name, results[one.ok], one.detail) for one in checks)
        write_table(("check", "result", "detail"), rows)
    if failed:
        names = ", ".join(check.name for check in failed)
        raise Failed(f"Not in order: {names}.", max(check.code for check in failed))


def _settings(
    ctx: click.Context, service: ServiceOptions, ledger_address: str | None
) -> Iterator[_Setting]:
    named = _named_by(ctx, "ledger_address", "--ledger", "KNOWLEDGE_BOT_LEDGER")
    ledger = ("ledger", lambda: Setting(str(open_ledger(ledger_address)), named))
    for name, read in (*service.explained(), ledger):
        try:
            found = read()
        except (Failed, KnowledgeBotError):  # a check says why
            found = Setting("", "")
        yield _Setting(name, found.value or None, (found.value and found.origin) or None)
    timeout = _named_by(ctx.find_root(), "timeout", "--timeout", "")
    yield _Setting("timeout", f"{service.timeout:g} s", timeout)
    yield from _proxies(service)
    for name in _CERTIFICATES:
        if given := os.environ.get(name):
            yield _Setting("certificates", given, name)


def _named_by(ctx: click.Context, parameter: str, option: str, variable: str) -> str:
    sources = {ParameterSource.COMMANDLINE: option, ParameterSource.ENVIRONMENT: variable}
    return sources.get(ctx.get_parameter_source(parameter) or ParameterSource.DEFAULT, "default")


def _proxies(service: ServiceOptions) -> Iterator[_Setting]:
    from knowledge_bot._transports import proxy_for

    try:
        used = proxy_for(service.address.value)
    except (Failed, ValueError):  # ConfigurationError is a ValueError
        used = None
    for name in (spelled for one in _PROXIES for spelled in (one, one.lower())):
        if not (value := os.environ.get(name)):
            continue
        scheme, _, place = value.rpartition("://")
        login, at, host = place.rpartition("@")
        shown = f"{scheme}{'://' * bool(scheme)}{'***' * bool(login)}{at}{host}"
        is_used = used is not None and used.url.endswith(f"//{host.rstrip('/')}")
        not_for = "" if is_used or name.upper() == "NO_PROXY" else " (not for this service)"
        yield _Setting("proxy", shown + not_for, name)


def _checks_of_the_service(service: ServiceOptions, ledger_address: str | None) -> Iterator[_Check]:
    try:
        if not service.address.value:
            yield _Check("service", False, "No service is named: `kbot login` saves one.")
            return
        key = service.key.value
    except (Failed, KnowledgeBotError) as error:
        yield _failed("settings", error)
        return
    try:
        opened = service.client()
    except (Failed, KnowledgeBotError) as error:
        yield _failed("service", error)
        return
    with opened:
        client = opened.with_options(timeout=min(service.timeout, _PATIENCE))
        answers = _tried("service", lambda: _pinged(client))
        yield answers
        if not key:
            yield _Check("key", False, service.no_key(), Exit.ACCOUNT)
        if not answers.ok:
            return
        if key:
            yield _tried("key", lambda: f"With it the service lists {_bots(client)}.")
        yield _collections(service, client)
        yield from _extensions(client)
        if key:
            yield from _books(client, ledger_address)


def _failed(name: str, error: Failed | KnowledgeBotError) -> _Check:
    code = error.exit_code if isinstance(error, Failed) else exit_of(error)
    return _Check(name, False, str(error), Exit.ACCOUNT if code == Exit.ACCOUNT else Exit.FAILED)


def _tried(name: str, what: Callable[[], str]) -> _Check:
    try:
        return _Check(name, True, what())
    except KnowledgeBotError as error:
        return _failed(name, error)


def _pinged(client: "Client") -> str:
    client.ping()
    return "It answers."


def _bots(client: "Client") -> str:
    count = len(client.list_bots())
    return "1 bot" if count == 1 else f"{count} bots"


def _collections(service: ServiceOptions, client: "Client") -> _Check:
    wanted = service.collections(()).value
    missing: list[str] = []

    def what() -> str:
        there = [one.id for one in client.list_collections()]
        missing.extend(one for one in wanted if one not in there)
        if wanted:
            return f"The service has {'no ' * bool(missing)}{', '.join(missing or wanted)}."
        if len(there) == 1:
            return f"{there[0]} is the only one, and used where none is named."
        return f"The service has {len(there)}; name one where sources are added."

    check = _tried("collections", what)
    return check._replace(ok=False) if missing else check


def _extensions(client: "Client") -> Iterator[_Check]:
    """Say what the service announces to this key, and what it does not (docs/extensions.md)."""
    try:
        announced = client.extensions()
    except KnowledgeBotError as error:
        yield _Check("extensions", False, str(error))
        return
    for name in sorted({*_EXTENSIONS, *announced}):
        if name not in announced:
            is_limited = name == "sync" and keeps_book_for_others(announced)
            whom = " to this key, which may not replace and delete" * is_limited
            yield _Check(f"extension {name}", None, f"Not announced{whom}: {_EXTENSIONS[name]}.")
            continue
        parameters = [
            key if value is True else f"{key} {value}" for key, value in announced[name].items()
        ]
        yield _Check(f"extension {name}", True, ", ".join(parameters) or "Announced.")


def _books(client: "Client", ledger_address: str | None) -> Iterator[_Check]:
    """Compare what is written down of origins with what the service holds."""
    try:
        announced = client.extensions()
        if "sync" in announced:
            yield from _origins(client)
        elif "sources" in announced:
            yield from _missing_sources(client, ledger_address)
    except KnowledgeBotError as error:
        yield _Check("origins", False, str(error))


def _origins(client: "Client") -> Iterator[_Check]:
    origins = client.list_origins()
    for one in origins[:_ORIGINS]:
        sums = client.compare_origin(one.name)
        parts = [f"sources {sums.count}", f"pending {sums.pending}", f"failed {sums.failed}"]
        if one.completed_at is None:
            parts.append("no run has come to its end")
        else:
            parts.append(f"last whole run {one.completed_at:%Y-%m-%d %H:%M}Z")
        if sums.failed:
            parts.append("`kbot sources list --status failed` says why")
        yield _Check(f"origin {one.name}", sums.untold == 0, ", ".join(parts))
    if (more := len(origins) - _ORIGINS) > 0:
        yield _Check("origins", None, f"{more} more: `kbot sources origins` lists them.")


def _missing_sources(client: "Client", ledger_address: str | None) -> Iterator[_Check]:
    ledger = open_ledger(ledger_address)
    if not ledger.exists():
        return
    entries = [one for one in ledger.entries("created") if one.service == client.base_url]
    there = {one.id for one in client.list_sources()}
    gone = [one.key for one in entries if one.source_id and one.source_id not in there]
    if not gone:
        yield _Check("ledger and service", True, f"The service has all {len(entries)} sources.")
        return
    yield _Check(
        "ledger and service",
        False,
        f"{len(gone)} of {len(entries)} sources that it created are not in the service, and no run "
        f"sends them again, such as {', '.join(gone[:3])}. `kbot ledger forget` lets them be sent.",
    )


_EXTENSIONS = {
    "idempotency": "what is unknown is not sent again",
    "passages": "nothing is found without asking a bot",
    "sources": "sources are not listed or deleted",
    "sync": "`kbot ingest` needs a ledger, and does not see what became of sources",
}


def _check_of_the_ledger(address: str | None) -> _Check:
    try:
        ledger = open_ledger(address)
        if not ledger.exists():
            return _Check(
                "ledger", None, "Not there; the first `kbot ingest` that needs one makes it."
            )
        held = ledger.status()
    except KnowledgeBotError as error:
        return _Check("ledger", False, str(error))
    created, unknown = (sum(getattr(one, name) for one in held) for name in ("created", "unknown"))
    counts = f"It can be read: created {created}, unknown {unknown}."
    settle = " `kbot ledger unknown` lists them." if unknown else ""
    return _Check("ledger", True, counts + settle)
