"""`kbot api`: any call, as it is."""

import re

import click

from knowledge_bot.cli.connection import Connection
from knowledge_bot.cli.exits import Exit, Failed, posting, telling
from knowledge_bot.cli.output import write_bytes
from knowledge_bot.cli.texts import given_text


@click.command()
@click.argument("method", type=click.Choice(["GET", "POST"], case_sensitive=False))
@click.argument("path")
@click.option("--data", metavar="JSON", help="The body, sent as it is; `-` reads it from stdin.")
@click.pass_obj
def api(connection: Connection, method: str, path: str, data: str | None) -> None:
    """Send one request and print the answer's body as it came.

    PATH is below the base URL. The interface wraps bodies in "value"; so must you. A POST is sent
    again only where it cannot have arrived, as everywhere else.

    \b
    kbot api GET /bots | jq .value.data
    kbot api POST /messages --data '{"value": {"bot_id": "bot_guide", "content": "Hello"}}'
    """  # noqa: D301 - \b is for click
    _check_path(path)
    body = None if data is None else _json_body(given_text(data))
    if method == "GET" and body is not None:
        raise click.UsageError("a GET has no body: leave --data out, or send a POST")

    from knowledge_bot.cli.raw import RawClient

    with connection.open(RawClient, needs_key=method == "POST") as client:
        if method == "GET":
            write_bytes(client.get(path))
            return
        with posting():
            answer = client.post(path, body or b"{}")
    with telling(f"The answer:\n{answer.decode('utf-8', 'replace')}"):
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
