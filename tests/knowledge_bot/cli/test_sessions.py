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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from calls import KEY, MESSAGE, SOURCE
from knowledge_bot import Client
from knowledge_bot._transports import STANDING_IN
from knowledge_bot.testing import MemoryService, ReceivedRequest, no_waiting

_COLLECTION = {"id": "col_1", "name": "Handbook"}

BODIES = {
    "source": SOURCE,
    "message": MESSAGE,
    "empty": {"data": []},
    "bots": {"data": [{"id": "bot_1", "name": "Guide"}]},
    "collections": {"data": [_COLLECTION]},
    "two collections": {"data": [_COLLECTION, {"id": "col_2", "name": "Archive"}]},
}

Reply = Callable[[int | None], None]


class Scripted(MemoryService):
    """A service that answers what a session says, one after the other; the last one repeats."""

    def __init__(self) -> None:
        super().__init__(collections=["col_1", "col_2"])
        self.replies: list[Reply] = []
        self.compared, self.by_name = 0, False

    def add(self, text: str) -> None:
        """`source`, `400`, `400 {"code": "c"}`, or `503 retry` with the advice to come again."""
        status, _, body = text.partition(" ")
        if text == "by name":
            self.by_name = True
            self.fail_next(400, message="no such language", times=None, where=_named("bad"))
            self.lose_next_answer(times=None, where=_named("lost"))
            return
        if text in ("close", "reset"):
            self.replies.append(lambda times: self.lose_next_answer(times=times))
            return
        code, headers = 200, {}
        if status.isdigit():
            code, headers = int(status), {"Retry-After": "0"} if body == "retry" else {}
            content = b"" if body == "retry" else body.encode()
        else:
            found = {**MESSAGE, "answer": body} if status == "says" else BODIES[text]
            content = json.dumps(found).encode()
        self.replies.append(lambda times: self.answer_next(code, content, headers, times=times))

    def _created(self, received: ReceivedRequest, kind: str) -> object:
        made: Any = super()._created(received, kind)
        content = received.value.get("content", "").removesuffix(".")
        return {**made, "id": f"src_{content}"} if self.by_name else made

    def arrange(self) -> None:
        """Let the next requests be answered with what is left."""
        if self.replies:
            self.recover()
            left = self.replies[min(len(self.requests), len(self.replies) - 1) :]
            for reply in left[:-1]:
                reply(1)
            left[-1](None)

    def since(self) -> list[ReceivedRequest]:
        """The requests that nobody has looked at yet."""
        found, self.compared = self.requests[self.compared :], len(self.requests)
        return found


def _named(beginning: str) -> Callable[[ReceivedRequest], bool]:
    return lambda one: one.value.get("name", "").startswith(beginning)


class Router:
    """Sends each request to the service of its host, and to nobody where there is none."""

    def __init__(self, services: dict[str, Scripted]) -> None:
        self.services = services

    def of(self, request: Any) -> Scripted:
        name = (urlsplit(request.url).hostname or "").removesuffix(".test")
        if name not in self.services:
            raise ConnectionRefusedError("nobody is there")
        return self.services[name]

    def send(self, request: Any) -> Any:
        return self.of(request).transport.send(request)

    def close(self) -> None:
        """Nothing is open."""


class AsyncRouter(Router):
    async def send(self, request: Any) -> Any:
        return await self.of(request).async_transport.send(request)

    async def aclose(self) -> None:
        """Nothing is open."""


class Session:
    """Carries out the lines of a session, and compares."""

    def __init__(self, request: pytest.FixtureRequest, folder: Path) -> None:
        self.fixture, self.folder = request.getfixturevalue, folder
        self.patch = self.fixture("monkeypatch")
        self.patch.chdir(folder)
        self.patch.setattr(sys, "path", sys.path.copy())
        self.names = {"tmp": str(folder), "key": KEY}
        self.servers: dict[str, Scripted] = {}
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
            with Client(embedded.api_key, embedded.base_url) as client:
                for origin in client.list_origins():
                    client.delete_origin(origin.name)
                for source in client.list_sources(collection="col_handbook"):
                    client.delete_source(source.id)
            return
        if name not in self.servers:
            self.servers[name] = Scripted()
            self.names[name] = f"https://{name}.test"
            routers = {"Transport": Router, "AsyncTransport": AsyncRouter}
            for protocol, router in routers.items():
                self.patch.setitem(STANDING_IN, protocol, router(self.servers))
            if name == "url":
                self.patch.setenv("KNOWLEDGE_BOT_BASE_URL", self.names[name])
                self.patch.setenv("KNOWLEDGE_BOT_API_KEY", KEY)
        self.servers[name].add(text)

    def ping(self, announced: str) -> None:
        self.servers["url"].announcement = announced

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
            for server in self.servers.values():
                server.arrange()
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

    def since(self) -> Iterator[tuple[str, ReceivedRequest]]:
        for name, server in self.servers.items():
            yield from ((name, request) for request in server.since())

    def compare_requests(self, arrived: list[ReceivedRequest]) -> None:
        wanted = [one.split(" ", 2) for one in self.wanted if one != "nothing"]
        shown = [(one.method, one.path + f"?{one.query}" * bool(one.query)) for one in arrived]
        assert shown == [tuple(one[:2]) for one in wanted]
        for request, (_, _, *body) in zip(arrived, wanted, strict=True):
            if body:
                assert request.value | json.loads(body[0]) == request.value

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
