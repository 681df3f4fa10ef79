"""Terminal sessions with `kbot` as text: the files in `sessions`.

A session begins with `##` and what it shows. Each of its lines says what it is by its beginning:

    reply: 400 {"code": "c"}     what the service answers, one after the other; the last one repeats
    reply: says At nine.         a bot's answer
    reply: embedded              the embedded service instead
    ping: sources=1;manage       what the service announces
    server work: bots            another service, which no variable names: {work}
    file NAME: text              a file in the working folder, where `handbook` is too
    set: NAME=value              a variable, from here on; without a value it is unset
    $ kbot bots                  a command; other commands than `kbot` are the shell's
    > text                       what is typed, or piped, into it
    ! text                       a part of what it writes to stderr, in this order; alone: nothing
    [2]                          its exit code, unless that is 0
    json: {"ok": true}           what it writes to stdout, as JSON; of an object some fields
    sent: POST /messages {…}     a request that has arrived since the last such line, all of them
    sent: nothing                none has
    asked work: key              the service that was asked since, and the key that it was shown

Any other line is one that it writes to stdout, all of them in order, with ` | ` for a tab and `…`
for anything. {url}, {tmp} and {key} are the service's address, the working folder and the API key.
"""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from calls import KEY, MESSAGE, SOURCE
from knowledge_bot.testing import no_waiting
from scripted_server import Received, Reply, answer, close, reset

_COLLECTION = {"id": "col_1", "name": "Handbook"}

REPLIES = {
    "source": answer(body=SOURCE),
    "message": answer(body=MESSAGE),
    "empty": answer(body={"data": []}),
    "close": close,
    "reset": reset,
    "bots": answer(body={"data": [{"id": "bot_1", "name": "Guide"}]}),
    "collections": answer(body={"data": [_COLLECTION]}),
    "two collections": answer(body={"data": [_COLLECTION, {"id": "col_2", "name": "Archive"}]}),
}


def reply_of(text: str) -> Reply:
    """`source`, `400`, `400 {"code": "c"}`, or `503 retry` with the advice to come again."""
    status, _, body = text.partition(" ")
    if status == "says":
        return answer(body={**MESSAGE, "answer": body})
    if not status.isdigit():
        return REPLIES[text]
    if body == "retry":
        return answer(int(status), headers={"Retry-After": "0"})
    return answer(int(status), json.loads(body) if body[:1] in ("{", "[") else body.encode())


def by_name(request: Received) -> Reply:
    """Reply with a source of its own to each text; what is named `lost…` or `bad…` is that."""
    sent: Any = request.json()
    name, content = sent["value"]["name"], sent["value"].get("content", "")
    if name.startswith("lost"):
        return close
    if name.startswith("bad"):
        return answer(400, {"message": "no such language"})
    return answer(body={**SOURCE, "id": f"src_{content.removesuffix('.')}"})


class Session:
    """Carries out the lines of a session, and compares."""

    def __init__(self, request: pytest.FixtureRequest, folder: Path) -> None:
        self.fixture, self.folder = request.getfixturevalue, folder
        self.patch = self.fixture("monkeypatch")
        self.patch.chdir(folder)
        self.patch.setattr(sys, "path", sys.path.copy())
        self.names = {"tmp": str(folder), "key": KEY}
        self.servers: dict[str, Any] = {}
        self.begin("")

    def begin(self, command: str) -> None:
        self.text, self.stdin, self.code = command, "", 0
        self.stdout: list[str] = []
        self.stderr: list[str] = []
        self.document, self.wanted = "", list[str]()

    def play(self, lines: list[str]) -> None:
        for line in filter(None, lines):
            filled = re.sub(r"\{(\w+)\}", lambda found: self.names.get(found[1], found[0]), line)
            for pattern, act in LINES.items():
                if found := re.fullmatch(pattern, filled):
                    act(self, *found.groups())
                    break
        self.finish()

    # What goes before commands

    def reply(self, text: str, name: str = "url") -> None:
        self.finish()
        if text == "embedded":
            embedded = self.fixture("of_the_service")
            self.names["url"] = embedded.base_url
            return
        if name not in self.servers:
            start = self.fixture("answering" if name == "url" else "scripted")
            self.servers[name] = start()
            self.names[name] = self.servers[name].url
        if text == "by name":
            self.servers[name].reply_to = by_name
        else:
            self.servers[name].replies.append(reply_of(text))

    def ping(self, announced: str) -> None:
        headers = {"Knowledge-Bot-Extensions": announced}
        self.servers["url"].on_ping = answer(body="pong", headers=headers)

    def file(self, name: str, text: str) -> None:
        self.finish()
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode().decode("unicode_escape").encode("latin-1"))
        file.chmod(0o600)

    def variable(self, name: str, value: str) -> None:
        self.finish()
        if value:
            self.patch.setenv(name, value)
        else:
            self.patch.delenv(name, raising=False)

    # A command, and what comes of it

    def command(self, text: str) -> None:
        self.finish()
        self.begin(text)

    def finish(self) -> None:
        if self.text:
            words = shlex.split(self.text)
            given = {}
            while re.match(r"[A-Z_]+=", words[0]):
                name, _, value = words.pop(0).partition("=")
                given[name] = value
            if words[0] == "kbot":
                with no_waiting():
                    self.compare(self.fixture("run")(*words[1:], stdin=self.stdin, **given))
            else:
                subprocess.run(self.text, shell=True, check=True, input=self.stdin, text=True)
        if self.wanted:
            self.compare_requests([one for _, one in self.since()])
        self.begin("")

    def compare(self, done: Any) -> None:
        said = f"{self.text}\n{done.stdout}\n{done.stderr}"
        assert done.exit_code == self.code, said
        assert "Traceback" not in said
        place = 0
        assert done.stderr == "" or self.stderr != [""], said
        for part in self.stderr:
            assert part in done.stderr[place:], said
            place = done.stderr.index(part, place) + len(part)
        if self.document:
            wanted, found = json.loads(self.document), json.loads(done.stdout)
            assert (found | wanted if isinstance(wanted, dict) else wanted) == found
            return
        printed = (line.replace("\t", " | ").rstrip(" |") for line in done.stdout.splitlines())
        pattern = "\n".join(re.escape(one).replace("…", ".*") for one in self.stdout)
        assert re.fullmatch(pattern, "\n".join(printed), re.DOTALL), said

    def since(self) -> Iterator[tuple[str, Received]]:
        for name, server in self.servers.items():
            yield from ((name, request) for request in server.requests)
            server.requests.clear()

    def compare_requests(self, arrived: list[Received]) -> None:
        wanted = [one.split(" ", 2) for one in self.wanted if one != "nothing"]
        shown = [(one.method, one.path.removeprefix("/public/v1"), one.body) for one in arrived]
        assert [list(one[:2]) for one in shown] == [one[:2] for one in wanted], shown
        for (_, _, content), (_, _, *body) in zip(shown, wanted, strict=True):
            if body:
                value = json.loads(content)["value"]
                assert value | json.loads(body[0]) == value

    def asked(self, name: str, key: str) -> None:
        self.finish()
        arrived = {one: request.headers.get("x-api-key", "none") for one, request in self.since()}
        assert arrived == ({} if name == "nobody" else {name: key})


LINES: dict[str, Any] = {
    r"reply: (.*)": Session.reply,
    r"ping: (.*)": Session.ping,
    r"server (\w+): (.*)": lambda session, name, text: session.reply(text, name),
    r"file ([^:]+): ?(.*)": Session.file,
    r"set: (\w+)=(.*)": Session.variable,
    r"\$ (.*)": Session.command,
    r"> ?(.*)": lambda session, text: setattr(session, "stdin", f"{session.stdin}{text}\n"),
    r"! ?(.*)": lambda session, text: session.stderr.append(text),
    r"\[(\d+)\]": lambda session, code: setattr(session, "code", int(code)),
    r"json: (.*)": lambda session, text: setattr(session, "document", text),
    r"sent: (.*)": lambda session, text: session.wanted.append(text),
    r"asked (\w+):? ?(.*)": Session.asked,
    r"(.*)": lambda session, text: session.stdout.append(text),
}


def sessions() -> Iterator[Any]:
    for file in sorted((Path(__file__).parent / "sessions").glob("*.txt")):
        for part in re.split(r"^## ", file.read_text("utf-8"), flags=re.MULTILINE)[1:]:
            title, *lines = part.splitlines()
            yield pytest.param(lines, id=f"{file.stem}: {title}".replace(" ", "_"))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("lines", [*sessions()])
def test_a_session_is_as_it_is_written(request, tmp_path, handbook, lines):
    Session(request, tmp_path).play(lines)
