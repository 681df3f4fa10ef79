"""`kbot ping`, `collections`, `bots`, `conversations` and `api`: one request each."""

import re

import click

from knowledge_bot.cli.connection import Connection
from knowledge_bot.cli.exits import Exit, Failed, falling_back_to_stderr, posting
from knowledge_bot.cli.ids import bot_ids
from knowledge_bot.cli.output import as_json_option, write_bytes, write_listing, write_text
from knowledge_bot.cli.texts import given_text


@click.command()
@click.pass_obj
def ping(connection: Connection) -> None:
    """Check that the service is alive.

    This says nothing about the key; `kbot bots` does, if the service requires one for reading.

    Example: kbot ping && echo "It is up."
    """
    with connection.client() as client:
        client.ping()
    write_text("pong")


@click.command()
@as_json_option
@click.pass_obj
def collections(connection: Connection, as_json: bool) -> None:
    """List the collections.

    Example: kbot collections --json | jq -r '.[].id'
    """
    with connection.client() as client:
        write_listing(client.list_collections(), as_json=as_json)


@click.command()
@as_json_option
@click.pass_obj
def bots(connection: Connection, as_json: bool) -> None:
    """List the bots.

    Example: kbot bots | cut -f1
    """
    with connection.client() as client:
        write_listing(client.list_bots(), as_json=as_json)


@click.command()
@click.argument("bot", shell_complete=bot_ids)
@as_json_option
@click.pass_obj
def conversations(connection: Connection, bot: str, as_json: bool) -> None:
    """List the conversations of BOT, an id as in `kbot bots`.

    Example: kbot conversations bot_guide
    """
    with connection.client() as client:
        write_listing(client.list_conversations(bot), as_json=as_json)


@click.command()
@click.argument("method", type=click.Choice(["GET", "POST"], case_sensitive=False))
@click.argument("path")
@click.option("--data", metavar="JSON", help="The body, sent as it is; `-` reads it from stdin.")
@click.pass_obj
def api(connection: Connection, method: str, path: str, data: str | None) -> None:
    """Send one request and print the answer's body as it came.

    PATH is relative to the base URL. Bodies are sent as given: wrap them in "value", as the
    interface does. A POST is retried only if it cannot have arrived, as everywhere else.

    \b
    kbot api GET /bots | jq .value.data
    kbot api POST /messages --data '{"value": {"bot_id": "bot_guide", "content": "Hello"}}'
    """  # noqa: D301 - \b is for click
    _check_path(path)
    body = None if data is None else _json_body(given_text(data))
    if method == "GET" and body is not None:
        raise click.UsageError("a GET has no body: leave --data out, or send a POST")

    from knowledge_bot._endpoints import Request

    with connection.client(needs_key=method == "POST") as client:
        if method == "GET":
            write_bytes(client._call(Request("GET", path, bytes)))  # noqa: SLF001 - the core's own
            return
        with posting():
            answer = client._call(Request("POST", path, bytes, body or b"{}"))  # noqa: SLF001
    with falling_back_to_stderr(f"The answer:\n{answer.decode('utf-8', 'replace')}"):
        write_bytes(answer)


def _check_path(path: str) -> None:
    # The path is put behind the base URL, so it can lead to no other host; dot segments could lead
    # out of the base URL's own path.
    if not path.startswith("/") or re.search(r"[\x00-\x20\x7f#\\]", path):
        raise click.BadParameter(
            f"{path!r} is not a path such as /bots; percent-encode spaces", param_hint="PATH"
        )
    if any(re.fullmatch(r"(\.|%2e){1,2}", part, re.IGNORECASE) for part in path.split("/")):
        raise click.BadParameter(f"{path!r} holds a . or .. segment", param_hint="PATH")


def _json_body(text: str) -> bytes:
    from json import JSONDecodeError, loads

    try:
        loads(text)
        return text.encode("utf-8")
    except JSONDecodeError as error:
        raise Failed(f"--data: is not JSON: {error}.", Exit.USAGE) from None
    except UnicodeEncodeError:
        raise Failed("--data: is not UTF-8 text.", Exit.USAGE) from None
