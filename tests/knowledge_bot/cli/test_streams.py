"""Streams that are full, closed or read by nobody any more, and encodings that are too small."""

import json
import os
import subprocess

import pytest

from calls import KEY, MESSAGE, SOURCE
from nightly import nightly
from scripted_server import answer

FULL, CLOSED = ">/dev/full", ">&-"
ADD = "add text --name N --content C --collection col_1"
INGEST = "ingest folder handbook --collection col_1"
QUESTIONS = '[[questions]]\nask = "When?"\nequals = "At {}."\n'
BOTS = {"data": [{"id": "bot_1", "name": "n"}]}


@pytest.fixture
def shell(program, handbook, tmp_path, monkeypatch):
    """Run a line of the shell that begins with `kbot`."""
    monkeypatch.chdir(tmp_path)
    for hour in ("nine", "ten"):
        (tmp_path / f"{hour}.toml").write_text(QUESTIONS.format(hour))

    def run(line, **options):
        options = {"input": "When?\nAnd then?\n", **options}
        return subprocess.run(
            f"{program} {line}", shell=True, capture_output=True, text=True, check=False, **options
        )

    return run


# Each with what the service answers, the exit code, how many requests it got, and what of the
# answer stands on stderr, so that it is not lost.
TOLD = [
    (ADD, SOURCE, 8, 1, "src_1 (Handbook)"),
    ("ask bot_1 When?", MESSAGE, 8, 1, "conv_1:\nAt nine.\n"),
    (INGEST, SOURCE, 1, 3, "created 3"),
    ("add file handbook/?.* handbook/deeper/c.md --collection col_1", SOURCE, 8, 1, "deeper/c.md"),
    ("ask bot_1 When? --json", MESSAGE, 8, 1, "conv_1:\nAt nine.\n"),
    ("chat bot_1", MESSAGE, 8, 1, "conv_1:\nAt nine.\n"),
    ("api POST /messages --data '{}'", {"id": "src_7"}, 8, 1, '{"id": "src_7"}'),
    (f"{INGEST} --json", SOURCE, 1, 0, "created"),
    ("check bot_1 nine.toml", MESSAGE, 1, 1, "1 of 1"),
    ("check bot_1 ten.toml", MESSAGE, 3, 1, "1 of 1"),
]


@pytest.mark.parametrize("where", nightly([FULL, CLOSED], but=1))
@pytest.mark.parametrize(("line", "body", "code", "sent", "told"), nightly(TOLD, but=3))
def test_what_stdout_does_not_take_is_told_on_stderr(  # noqa: PLR0917 - a row
    shell, answering, line, body, code, sent, told, where
):
    server = answering(answer(body=body))
    done = shell(f"{line} {where}")
    assert done.returncode == code, done.stderr
    assert len(server.requests) == sent or "ingest" in line
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize(
    ("line", "code", "told"),
    nightly([(ADD, 8, "src_1 (Handbook)"), ("check bot_1 ten.toml", 3, "1 of 1")], but=1),
)
@pytest.mark.usefixtures("shell")
def test_so_is_what_nobody_reads_any_more(program, answering, line, code, told):
    answering(answer(body=SOURCE if line == ADD else MESSAGE))
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [program, *line.split()], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert (done.returncode, told in done.stderr) == (code, True), done.stderr


@pytest.mark.parametrize("where", nightly([CLOSED, FULL], but=1))
@pytest.mark.parametrize(
    "line",
    nightly(
        [
            *("bots", "--help", "bots --json", "ping", "api GET /bots", "doctor"),
            *("--version", "ask --help", "ingest folder --help"),
        ],
        but=2,
    ),
)
def test_a_stdout_that_cannot_be_written_is_a_sentence(shell, answering, line, where):
    answering(answer(body=BOTS))
    done = shell(f"{line} {where}")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
    assert done.stderr.startswith("Error: stdout ")


@pytest.mark.slow
def test_a_stderr_that_is_closed_changes_nothing(shell, answering):
    answering(answer(400), answer(body=SOURCE))
    assert [shell(f"{ADD} 2>&-").returncode for _ in range(2)] == [1, 0]


@pytest.mark.parametrize(
    ("line", "well"),
    nightly(
        [
            *(("bots", True), ("ask -", False), ("chat bot_guide", True)),
            *((f"ingest {kind} -", False) for kind in ("jsonl", "urls")),
            ("ingest jsonl - --allow-empty", True),
            *((one, False) for one in ("ask bot_guide -", "add text -", "login")),
            *((one, False) for one in ("add file - --name n", "login --key-stdin")),
            *(("ledger forget --all", False), ("ledger forget -", True)),
        ],
        but=2,
    ),
)
def test_a_stdin_that_is_closed_is_an_empty_one(shell, of_the_service, line, well):
    done = shell(f"{line} <&-")
    assert "Traceback" not in done.stderr
    assert (done.returncode == 0) == well, done


def test_a_reader_that_goes_away_ends_it_quietly(program, answering):
    many = [{"id": f"bot_{number}", "name": "n" * 200} for number in range(20_000)]
    answering(answer(body={"data": many}))
    with subprocess.Popen(
        [program, "bots"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline().startswith(b"bot_0\t")
        process.stdout.close()
        said = process.stderr.read()
        process.wait(20)
    assert said == b""


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_no_encoding_of_the_terminal_is_too_small(kbot, answering, encoding):
    name = "Grüße \U0001f600"
    answering(answer(body={"data": [{"id": "bot_1", "name": name}]}))
    # click takes ASCII for a mistake, and writes UTF-8 there.
    written = "utf-8" if encoding == "ascii" else encoding
    done = kbot("bots", encoding=written, PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Grüße" in done.stdout
    listed = kbot("bots", "--json", encoding=written, PYTHONIOENCODING=encoding)
    assert json.loads(listed.stdout)[0]["name"] == name


@pytest.mark.parametrize("command", [("ask", "bot_1", "-"), ("check", "bot_1", "-")])
def test_what_is_not_utf_8_is_a_usage_error(run, standing_in, command):
    service = standing_in()
    assert run(*command, stdin=b"Gr\xfc\xdfe").exit_code == 2
    assert service.requests == []


def test_a_key_that_a_header_cannot_carry_is_not_shown(run, standing_in):
    standing_in()
    done = run("bots", KNOWLEDGE_BOT_API_KEY=f"{KEY} é")
    assert (done.exit_code, KEY in done.stderr) == (2, False)
