"""`kbot` itself: how it starts, reports what is wrong, and ends."""

import json
import os
import subprocess
import sys

import pytest

from calls import KEY, MESSAGE, SOURCE
from pseudo_terminal import terminal
from scripted_server import answer, pong, silence

ADD = ("add", "text", "--name", "N", "--content", "C", "--collection", "col_1")


def test_the_help_shows_the_commands_the_environment_and_the_exit_codes(run):
    done = run("--help")
    assert done.exit_code == 0
    for command in ("login", "ping", "ask", "add", "api", "serve"):
        assert f"\n  {command} " in done.stdout
    assert "KNOWLEDGE_BOT_API_KEY" in done.stdout
    assert "KBOT_CONFIG" in done.stdout
    for code in ("0 ", "1 ", "2 ", "3 ", "4 ", "8 ", "130"):
        assert f"\n  {code}" in done.stdout.partition("Exit codes:")[2]


def commands():
    from click import Context, Group

    from knowledge_bot.cli import main

    def below(command, *names):
        if isinstance(command, Group):
            context = Context(command)
            for name in command.list_commands(context):
                yield from below(command.get_command(context, name), *names, name)
        else:
            yield names

    return list(below(main))


@pytest.mark.parametrize("names", commands(), ids=" ".join)
def test_the_help_of_every_command_shows_an_example(run, names):
    done = run(*names, "--help")
    assert done.exit_code == 0
    assert f"kbot {' '.join(names)}" in done.stdout.partition("\n")[2]
    assert "\x08" not in done.stdout


def test_the_help_loads_nothing_that_it_does_not_show():
    code = (
        "import sys\n"
        "from knowledge_bot.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert "Exit codes" in done.stdout
    heavy = {"httpx", "pydantic", "rich", "psycopg", "aiohttp", "asyncio", "fastapi", "ssl"}
    assert not loaded & heavy


def test_a_command_loads_no_other_family():
    code = (
        "import sys\n"
        "from knowledge_bot.cli import main\n"
        "try: main(['ask', '--help'])\n"
        "except SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert "knowledge_bot.cli.asking" in loaded
    assert not loaded & {"knowledge_bot.cli.adding", "knowledge_bot_service"}


def test_a_command_of_another_package_says_what_it_misses(kbot, tmp_path):
    about = tmp_path / "other-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[knowledge_bot.commands]\nshine = absent_module:shine\n"
    )
    listed = kbot("--help", PYTHONPATH=str(tmp_path))
    assert "shine" in listed.stdout
    assert "needs absent_module, which is not installed" in " ".join(listed.stdout.split())
    done = kbot("shine", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "Error: `kbot shine` needs absent_module, which is not installed" in done.stderr


def test_an_unknown_command_is_a_usage_error(run):
    assert run("no-such-command").exit_code == 2


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (answer(body=SOURCE), 0),
        (answer(400, {"code": "bad", "message": "no such collection"}), 1),
        (answer(401), 4),
        (answer(402), 4),
        (answer(403), 4),
        (answer(404), 1),
        (answer(500), 8),
        (answer(body=b"not a source"), 8),
        (answer(302, headers={"Location": "/x"}), 8),
    ],
)
def test_the_exit_code_shows_what_became_of_a_new_source(run, answering, reply, code):
    server = answering(reply)
    done = run(*ADD)
    assert done.exit_code == code
    assert len(server.requests) == 1
    if code:
        assert done.stdout == ""
        assert done.stderr.startswith("Error: POST /sources/write ")
    if code == 8:
        assert "may have acted" in done.stderr


@pytest.mark.parametrize(("status", "code"), [(401, 4), (402, 4), (403, 4), (404, 1), (500, 1)])
def test_a_failed_reading_call_leaves_nothing_uncertain(run, answering, status, code):
    answering(answer(status))
    done = run("bots")
    assert (done.exit_code, done.stdout) == (code, "")
    assert done.stderr.startswith("Error: GET /bots to http://127.0.0.1:")
    assert f" was answered with {status}" in done.stderr


def test_an_expected_error_is_a_sentence_without_a_traceback(kbot):
    done = kbot("ping", KNOWLEDGE_BOT_BASE_URL="http://127.0.0.1:9")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: GET /ping: no connection to http://127.0.0.1:9")
    assert "Traceback" not in done.stderr


def test_a_wrong_id_is_a_usage_error_and_is_not_sent(run, answering):
    server = answering(answer(body=MESSAGE))
    done = run("ask", "guide", "Hello")
    assert done.exit_code == 2
    assert "'guide' is not an id of the form bot_" in done.stderr
    assert server.started == 0


def test_ctrl_c_while_a_source_is_created_says_that_it_may_exist(program, answering):
    server = answering(silence)
    with terminal([program, *ADD], {}) as screen:
        while not server.requests:
            screen.read(0.05)
        screen.type("\x03")
        assert screen.end() == 8
    assert "Interrupted. POST /sources/write was under way" in screen.shown
    assert "may have acted" in screen.shown
    assert "Traceback" not in screen.shown


def test_ctrl_c_while_reading_is_an_interruption_and_nothing_worse(program, answering):
    server = answering(silence)
    with terminal([program, "bots"], {}) as screen:
        while not server.requests:
            screen.read(0.05)
        screen.type("\x03")
        assert screen.end() == 130
    assert "Traceback" not in screen.shown


def test_an_unencrypted_service_elsewhere_is_warned_of_in_a_sentence(kbot):
    done = kbot("--timeout", "0.2", "ping", KNOWLEDGE_BOT_BASE_URL="http://192.0.2.1")
    assert done.stderr.startswith("Warning: The API key and all content travel unencrypted")
    assert ".py" not in done.stderr


def test_verbose_reports_every_request_on_stderr(kbot, answering):
    answering(answer(503, headers={"Retry-After": "0"}), pong, on_ping=None)
    done = kbot("-v", "ping")
    assert done.stdout == "pong\n"
    assert "GET /ping: 503 in" in done.stderr
    assert "GET /ping: 200 in" in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
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


def test_a_reader_that_goes_away_ends_it_quietly(program, answering):
    many = [{"id": f"bot_{number}", "name": "n" * 200} for number in range(20_000)]
    answering(answer(body={"data": many}))
    with subprocess.Popen(
        [program, "bots"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ)
    ) as process:
        assert process.stdout.readline().startswith(b"bot_0\t")
        process.stdout.close()
        said = process.stderr.read()
        process.wait(20)
    assert said == b""


def test_a_key_that_a_header_cannot_carry_is_not_shown(kbot):
    done = kbot(
        "bots", KNOWLEDGE_BOT_BASE_URL="http://127.0.0.1:9", KNOWLEDGE_BOT_API_KEY=f"{KEY} é"
    )
    assert done.returncode == 2
    assert KEY not in done.stderr


@pytest.mark.parametrize(
    ("where", "reason"),
    [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")],
)
@pytest.mark.parametrize(
    "command",
    [
        *("bots", "bots --json", "ping", "api GET /bots", "doctor"),
        *("--help", "--version", "ask --help", "ingest folder --help", "man", "completion zsh"),
    ],
)
def test_a_stdout_that_cannot_be_written_is_a_sentence(program, answering, command, where, reason):
    answering(answer(body={"data": [{"id": "bot_1", "name": "n"}]}))
    done = subprocess.run(
        f"{program} {command} {where}", shell=True, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == f"Error: stdout cannot be written: {reason}.\n"


def test_a_stderr_that_is_closed_changes_nothing(program, answering):
    answering(answer(400), answer(body=SOURCE))
    for code in (1, 0):
        done = subprocess.run(
            f"{program} {' '.join(ADD)} 2>&-", shell=True, capture_output=True, check=False
        )
        assert done.returncode == code
    assert done.stdout.startswith(b"src_1\t")


@pytest.mark.parametrize(
    "command",
    [
        "chat bot_guide",
        "ask -",
        "ask bot_guide -",
        "add text -",
        "add file - --name n",
        "login",
        "login --key-stdin",
        "ingest jsonl -",
        "ingest urls -",
        "ledger forget -",
        "ledger forget --all",
        "bots",
    ],
)
def test_a_stdin_that_is_closed_is_an_empty_one(program, of_the_service, command):
    done = subprocess.run(
        ["sh", "-c", f"{program} {command} <&-"], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    well = ("bots", "chat bot_guide", "ingest jsonl -", "ingest urls -", "ledger forget -")
    assert (done.returncode == 0) == (command in well), done


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("aks", "`kbot ask`"),
        ("init", "`kbot login`"),
        ("upload x.pdf", "`kbot add file`"),
        ("ingest .", "`kbot ingest folder .`"),
        ("ingest https://library.test/", "`kbot ingest site https://library.test/`"),
    ],
)
def test_a_command_that_there_is_not_names_the_one_that_is_meant(kbot, typed, meant):
    run = kbot(*typed.split())
    assert run.returncode == 2
    assert meant in run.stderr
