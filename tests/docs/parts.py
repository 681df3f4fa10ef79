"""The parts of the pages that come from programs: help texts and figures.

A page has `<!-- part: name -->` where one belongs, and the site is built with it, so that no help
text and no figure goes stale.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Any

import click

from knowledge_bot.cli.exits import Exit
from knowledge_bot.cli.kbot import ENVIRONMENT, main

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "tests" / "benchmarks" / "results.json"
PART = re.compile(r"^<!-- part: ([\w-]+) -->$", re.MULTILINE)

Result = dict[str, Any]


def with_parts(text: str) -> str:
    """Return a page's text with every part as its program says it now."""
    return PART.sub(lambda found: PARTS[found[1]](), text)


def results() -> dict[str, Result]:
    """Return what the benchmarks measured last."""
    measured: dict[str, Result] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return measured


# An option that so many commands have is explained once.
_OF_SEVERAL = 2


def commands() -> str:
    """Return every command of `kbot`, with its options, the variables and the exit codes."""
    contexts = list(contexts_of(click.Context(main, info_name="kbot")))
    count = Counter(record for context in contexts for record in _records(context))
    shared = {record: None for record in count if count[record] >= _OF_SEVERAL}
    lines = [line for context in contexts for line in _command(context, shared)]
    lines += ["## Options of several commands", "", _options(shared)]
    rows = [{"variable": f"`{name}`", "meaning": _cell(text)} for name, text in ENVIRONMENT.items()]
    lines += ["## Environment", "", table(rows)]
    rows = [{"code": str(code.value), "meaning": _cell(code.meaning)} for code in Exit]
    lines += ["## Exit codes", "", table(rows)]
    return "\n".join(lines)


def contexts_of(context: click.Context) -> Iterator[click.Context]:
    """Yield a command, and those below it."""
    yield context
    command = context.command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None and not inner.hidden:
                yield from contexts_of(click.Context(inner, info_name=name, parent=context))


def _records(context: click.Context) -> list[tuple[str, str]]:
    """Return the options with their meanings, but for `--help`."""
    options = [one for one in context.command.get_params(context) if "--help" not in one.opts]
    found = [record for one in options if (record := one.get_help_record(context))]
    return [(name, meaning) for name, meaning in found if meaning]


def _command(context: click.Context, shared: dict[tuple[str, str], None]) -> Iterator[str]:
    command, records = context.command, _records(context)
    pieces = " ".join(command.collect_usage_pieces(context)).replace("[OPTIONS] ", "")
    usage = f"{context.command_path} {pieces}".removesuffix("[OPTIONS]").rstrip()
    yield f"## `{context.command_path}`\n"
    examples = [usage] if usage != context.command_path else []
    texts = []
    for paragraph in re.split(r"\n\s*\n", cleandoc(command.help or "")):
        if paragraph.startswith("\b"):  # what click does not wrap
            examples.append(paragraph.lstrip("\b\n"))
        elif paragraph.startswith("Example: "):
            examples.append(paragraph.removeprefix("Example: "))
        else:
            texts.append(_text(paragraph))
    yield "\n\n".join(texts) + "\n"
    if examples:
        yield "```text\n" + "\n\n".join(examples) + "\n```\n"
    if own := [one for one in records if one not in shared]:
        yield _options(own)
    of_all = _of_all_below(context.parent) if context.parent else set()
    if common := _names(one for one in records if one in shared and one not in of_all):
        yield f"[Everywhere the same](#options-of-several-commands): {common}.\n"
    if common := _names(one for one in shared if one in _of_all_below(context)):
        yield f"Each command below [takes](#options-of-several-commands): {common}.\n"


def _names(records: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"`{name.partition(' ')[0]}`" for name, _ in records)


def _of_all_below(context: click.Context) -> set[tuple[str, str]]:
    """Return the options that every command of a group has; the whole of `kbot` is none."""
    below = [*contexts_of(context)][1:] if context.parent else []
    return set.intersection(*(set(_records(one)) for one in below)) if below else set()


def _options(records: Iterable[tuple[str, str]]) -> str:
    return "".join(f"- `{option}`: {_text(text)}\n" for option, text in records)


def _cell(text: str) -> str:
    return _text(text).replace("|", "\\|")


def _text(text: str) -> str:
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(part if part[:1] == "`" else _plain(part) for part in parts)


def _plain(text: str) -> str:
    # These signs mean themselves in help texts; names of variables and options read better as code.
    text = re.sub(r"([<*\[])", r"\\\1", text)
    return re.sub(r"(?<!\w)(--[a-z][\w-]*|[A-Z]+(?:_[A-Z]+)+)\b", r"`\1`", text)


def resends() -> str:
    """Return how many POSTs arrive for one call, by fault and client."""
    return table(results()["resends"]["rows"])


def kills() -> str:
    """Return what a kill leaves behind, by loader."""
    rows = [
        {
            "loader": row["loader"],
            "documents there twice, per kill": f"{row['duplicates'] / row['kills']:.1f}",
            "lost": row["lost"],
            "named as unknown, per kill": f"{row['unknown'] / row['kills']:.1f}",
        }
        for row in results()["kills"]["rows"]
    ]
    return table(rows)


def installs() -> str:
    """Return what each extra installs."""
    rows = [
        {
            "install": f"`pip install '{row['install']}'`",
            "packages": row["packages"],
            "MiB": row["MiB"],
        }
        for row in results()["installs"]["rows"]
    ]
    return table(rows)


def figures() -> str:
    """Return every figure that has a bound, beside it: a list for each topic."""
    lines = []
    for topic, result in results().items():
        bounded = [row for row in result["figures"] if row["bound"] is not None]
        lines += [f"\n**`scripts/benchmark {topic}`**\n"] if bounded else []
        lines += [f"- {row['name']}: {_value(row['value'])} ({_bound(row)})" for row in bounded]
    return "\n".join(lines).lstrip("\n") + "\n"


def _value(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _bound(row: Result) -> str:
    return f"{'≥' if row['at_least'] else '≤'} {row['bound']:g}{'' if row['kept'] else ', missed'}"


def table(rows: list[Result]) -> str:
    """Return rows as a Markdown table."""
    lines = [list(rows[0]), ["---"] * len(rows[0])] + [list(row.values()) for row in rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


PARTS: dict[str, Callable[[], str]] = {
    "commands": commands,
    "resends": resends,
    "kills": kills,
    "installs": installs,
    "figures": figures,
}
