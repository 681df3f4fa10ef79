"""`kbot add page`, `text` and `file`: sources, one at a time."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from knowledge_bot import KnowledgeBotError
from knowledge_bot.cli.exits import (
    AnswerLost,
    Exit,
    Failed,
    OutcomeUnknown,
    falling_back_to_stderr,
    is_account_error,
    posting,
)
from knowledge_bot.cli.ids import adding_to, collections_to_add_to
from knowledge_bot.cli.output import as_json_option, fields_of, write_line, write_table
from knowledge_bot.cli.progress import upload_progress
from knowledge_bot.cli.settings import ServiceOptions
from knowledge_bot.cli.terminal import write_stderr
from knowledge_bot.cli.texts import Suggesting, read_text

if TYPE_CHECKING:
    from knowledge_bot import Client, Source


def _adding(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--collection` and `--json`."""
    made: Callable[..., None] = click.pass_obj(command)
    return adding_to(as_json_option(made))


@click.group(cls=Suggesting)
def add() -> None:
    """Add a page, a text or files to the service.

    Each call creates a new source, even of what was added before; use `kbot ingest` for content
    that is added again and again.
    """


@add.command()
@click.argument("url")
@click.option("--name", help="The source's name.  [default: the URL]")
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="'NAME: VALUE'|@FILE",
    help="Header that the service sends to fetch the page. @FILE reads them from a file, one "
    "per line, to keep secrets off the command line (@- from stdin). Repeatable.",
)
@_adding
def page(
    service: ServiceOptions,
    url: str,
    name: str | None,
    headers: tuple[str, ...],
    *,
    collections: tuple[str, ...],
    as_json: bool,
) -> None:
    """Add the web page at URL; the service fetches it.

    \b
    kbot add page https://library.example/hours.html --name "Opening hours"
    kbot add page https://intranet.example/ --header @token.txt
    """  # noqa: D301 - \b is for click
    listed = _headers(headers)
    with service.client(needs_key=True) as client:
        into = collections_to_add_to(service, client, collections)
        with posting():
            source = client.create_webpage_source(
                name=name or url, collections=into, url=url, headers=listed
            )
        _write_source(source, as_json=as_json)
        _tell_of_reading(client)


@add.command()
@click.argument("source", required=False, metavar="[FILE]")
@click.option("--content", help="The text itself, instead of a file.")
@click.option("--name", help="The source's name.  [default: the file's]")
@_adding
def text(
    service: ServiceOptions,
    source: str | None,
    content: str | None,
    name: str | None,
    *,
    collections: tuple[str, ...],
    as_json: bool,
) -> None:
    """Add a text: UTF-8 from FILE, from stdin (`-`), or as --content.

    \b
    kbot add text --name "Opening hours" --content "We open at nine."
    git log --oneline | kbot add text - --name "Changes" --json | jq -r .id
    """  # noqa: D301 - \b is for click
    if (source is None) == (content is None):
        raise click.UsageError("name a FILE (or `-`), or pass --content, one of the two")
    if not name and source in (None, "-"):
        raise click.UsageError("a text without a file needs a --name")
    if source is not None and source != "-" and not (source and Path(source).exists()):
        raise click.UsageError(f"there is no file {source!r}; pass a text itself as --content")
    body = content if source is None else read_text(source)
    with service.client(needs_key=True) as client:
        into = collections_to_add_to(service, client, collections)
        with posting():
            created = client.create_text_source(
                name=name or Path(source or "").name, collections=into, content=body or ""
            )
        _write_source(created, as_json=as_json)
        _tell_of_reading(client)


def _files(_context: click.Context, _: click.Parameter, paths: tuple[str, ...]) -> tuple[str, ...]:
    for path in paths:
        if Path(path).is_dir():
            raise click.BadParameter(f"{path} is a folder; `kbot ingest folder` adds its files")
    return paths


@add.command()
@click.argument(
    "paths",
    callback=_files,
    nargs=-1,
    required=True,
    metavar="PATH...",
    type=click.Path(exists=True, readable=True, allow_dash=True),
)
@click.option("--name", help="The source's name, for a single file.  [default: the file's]")
@_adding
def file(
    service: ServiceOptions,
    paths: tuple[str, ...],
    name: str | None,
    *,
    collections: tuple[str, ...],
    as_json: bool,
) -> None:
    """Upload files, one source each; `-` uploads stdin.

    With --json each source is a line of JSON. If a file fails, the others are still uploaded.

    \b
    kbot add file handbook.pdf --collection col_handbook
    tar cz notes | kbot add file - --name notes.tar.gz
    """  # noqa: D301 - \b is for click
    if name and len(paths) > 1:
        raise click.UsageError("--name is for a single file")
    if "-" in paths and not name:
        raise click.UsageError("`-` has no name of its own: pass --name, and no other file")
    ends: list[Exit] = []
    with service.client(needs_key=True) as client:
        into = collections_to_add_to(service, client, collections)
        for number, path in enumerate(paths, 1):
            try:
                _write_source(_upload(client, path, name, into), as_json=as_json)
            except AnswerLost as error:
                if number == len(paths):
                    raise
                left = ", ".join(paths[number:])
                text = f"{error.message} Not sent: {left}."
                raise AnswerLost(text, Exit(error.exit_code)) from None
            except (KnowledgeBotError, OutcomeUnknown) as error:
                if len(paths) == 1:
                    raise
                write_stderr(f"Error: {path}: {error}")
                unknown = isinstance(error, OutcomeUnknown)
                account = Exit.ACCOUNT if is_account_error(error) else Exit.SOME_FAILED
                ends.append(Exit.UNKNOWN if unknown else account)
                if Exit.ACCOUNT in ends:
                    break
        _tell_of_reading(client, made=len(paths) - len(ends))
    if ends:
        raise Failed("Not every file was added; see above.", max(ends))


def _upload(
    client: "Client", path: str, name: str | None, collections: tuple[str, ...]
) -> "Source":
    content: str | BinaryIO = sys.stdin.buffer if path == "-" else path
    title = name or Path(path).name
    with posting(), upload_progress(title) as on_progress:
        return client.upload_source(
            name=title, collections=collections, file=content, on_progress=on_progress
        )


def _headers(given: tuple[str, ...]) -> dict[str, str]:
    lines = [
        line
        for one in given
        for line in (read_text(one[1:]).splitlines() if one.startswith("@") else [one])
        if line.strip()
    ]
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            # Not quoted: it may be a secret that lacks its name.
            raise click.BadParameter("expected 'NAME: VALUE'", param_hint="--header")
        headers[name.strip()] = value.strip()
    return headers


def _tell_of_reading(client: "Client", made: int = 1) -> None:
    """Say where it shows that a source was read, if the service lists them; ask it nothing."""
    if made and "sources" in client._announced:  # noqa: SLF001 - the core's own
        write_stderr("(now it is read: `kbot sources list` says whether it could be, or why not)")


def _write_source(source: "Source", *, as_json: bool) -> None:
    with falling_back_to_stderr(f"{source.id} ({source.name}) is there all the same."):
        if as_json:
            write_line(fields_of(source))
        else:
            write_table(("id", "name", "status"), [(source.id, source.name, source.status)])
