"""`kbot audit`: which documents of an origin of `kbot ingest` a bot does not find."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from knowledge_bot.cli.checking import JUNIT, conclude
from knowledge_bot.cli.exits import Exit
from knowledge_bot.cli.ids import bot_to_ask
from knowledge_bot.cli.ingesting import COMMON, FINDERS, Places, ingest
from knowledge_bot.cli.output import as_json_option, quiet_option, write_table
from knowledge_bot.cli.progress import shown_line
from knowledge_bot.cli.settings import ServiceOptions
from knowledge_bot.cli.terminal import write_stderr
from knowledge_bot.cli.texts import CONCURRENCY

if TYPE_CHECKING:
    from knowledge_bot.checks import Audit, Progress

_OPTIONS = (
    click.Option(
        ["--sample"],
        type=click.IntRange(min=1),
        metavar="N",
        help="Judge N documents, taken at random each time.  [default: all]",
    ),
    click.Option(
        ["--budget"],
        type=click.IntRange(min=2),
        metavar="N",
        help="Send at most N messages, where the service has no search: each document takes one or "
        "two.  [default: as many as it takes]",
    ),
    click.Option(
        ["--min-coverage"],
        type=click.FloatRange(0, 1),
        default=0.98,
        show_default=True,
        metavar="SHARE",
        help="The share of the documents that must be found, 0 to 1.",
    ),
    click.Option(["--concurrency"], default=4, **CONCURRENCY),
    click.Option(["--junit"], **JUNIT),
)


class _Audits(Places):
    """The origins of `kbot ingest`, behind a bot that may be left out."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return ingest.list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = ingest.get_command(ctx, cmd_name)
        return found and _audit_of(found)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] in FINDERS:
            args = ["", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Audits)
@click.argument("bot")
@click.pass_context
def audit(ctx: click.Context, bot: str) -> None:
    """Find out which documents of an origin BOT does not find.

    Nobody writes a question: the rarest words of two sentences of each document are asked, and both
    of these sentences have to come back by search, one by messages. Without BOT, the service's only
    bot is asked. The origin is named as for `kbot ingest`.

    A service that announces `passages` is searched; any other is sent messages, and each of them
    leaves a conversation. --budget says how many at most.

    Each document is found, old (the bot finds another version of it), missing, or unreadable (by
    the service, which says why; or here, where the service says nothing of it). The exit code is 0
    if at least --min-coverage of them are found as they are now, otherwise 3.

    \b
    kbot audit bot_guide folder handbook
    kbot audit bot_guide folder handbook --sample 200 --budget 300 --json
    kbot audit bot_guide sitemap https://library.example/sitemap.xml --junit audit.xml
    """  # noqa: D301 - \b is for click
    ctx.meta[__name__] = bot or None


def _audit_of(command: click.Command) -> click.Command:
    """Make the audit of an origin of the command that ingests it: what says where it is stays."""
    name = str(command.name)
    own = [one for one in command.params if one.name not in COMMON]
    flags: list[Any] = [
        click.Option(
            ["--origin", "name"], metavar="NAME", help="The name that it was ingested under."
        ),
        *_OPTIONS,
    ]
    made = click.Command(
        name,
        params=[*own, *flags],
        callback=click.pass_context(_audited),
        short_help=f"What `kbot ingest {name}` adds.",
        help=f"Audit what `kbot ingest {name}` adds; `kbot audit --help` says how.\n\n"
        f"Example: kbot audit {name} {' '.join(_needed(own))}",
    )
    quiet: click.Command = quiet_option(as_json_option(made))
    return quiet


def _needed(own: list[click.Parameter]) -> Iterator[str]:
    """Yield what has to be given, as it stands in an example."""
    for one in own:
        if isinstance(one, click.Argument):
            yield str(one.metavar)
        elif one.required:
            yield f"{one.opts[0]} {one.metavar}"


def _audited(
    ctx: click.Context,
    /,
    *,
    name: str | None,
    junit: str | None,
    quiet: bool,
    as_json: bool,
    **given: Any,
) -> None:
    from knowledge_bot.checks import audit as find_out

    how = {one.name: given.pop(str(one.name)) for one in _OPTIONS if one.name in given}
    origin = FINDERS[str(ctx.command.name)](**given, name=name or "")
    service = ctx.find_object(ServiceOptions)
    assert service is not None  # noqa: S101 - `kbot` itself made it
    with service.client(needs_key=True) as client:
        bot = bot_to_ask(client, ctx.meta[__name__], quiet=quiet)
        price = "messages, each leaves a conversation"
        if "passages" in client.extensions():
            price = "searches, which leave nothing"
        with shown_line(_how_far, quiet=quiet) as on_progress:

            def tell(progress: "Progress") -> None:
                if progress.most and progress.open == progress.total and not quiet:
                    many = f"({progress.total:,} documents; asking {bot} at most {progress.most:,} "
                    write_stderr(f"{many}{price})")
                if on_progress is not None:
                    on_progress(progress)

            found = find_out(client, bot, origin, on_progress=tell, **how)
    conclude(found, *_end(found), _show, junit=junit, as_json=as_json, quiet=quiet)


def _show(found: "Audit") -> None:
    rows = [(one.outcome, one.name, one.reason) for one in found.lacking]
    write_table(("outcome", "document", "detail"), rows)


def _how_far(progress: "Progress", ago: float) -> str:
    text = f"{progress.passed:,} of {progress.total:,} documents found, {progress.open:,} open"
    return f"{text}  asked {progress.asked:,} times  {progress.elapsed + ago:.0f} s"


def _end(found: "Audit") -> tuple[Exit, str]:
    """Return the exit code and the reason for it."""
    reason = f"{found.summary()}."
    if found.ok:
        return Exit.DONE, reason
    reason += f" At least {found.min_coverage:.1%} have to be found."
    if not found.counts["found"] and found.counts["missing"]:
        reason += f" Does {found.bot_id} read the collection that they are in?"
    return Exit.SOME_FAILED, reason
