"""What a shell asks of `kbot` to complete a command line."""

import time

import pytest

from knowledge_bot import Client
from scripted_server import answer, silence

SHELLS = ("bash", "zsh", "fish")
BOTS = answer(body={"data": [{"id": "bot_a", "name": "Archive"}, {"id": "bot_b", "name": "B"}]})


@pytest.fixture
def completed(run):
    """The words that `kbot` gives a shell for a command line, as the script of that shell asks."""

    def complete(line, shell="bash", **environment):
        words = len(line.split()) - (not line.endswith(" "))
        last = "" if line.endswith(" ") else line.split()[-1]
        done = run(
            _KBOT_COMPLETE=f"{shell}_complete",
            COMP_WORDS=line,
            COMP_CWORD=last if shell == "fish" else str(words),
            **environment,
        )
        assert (done.exit_code, done.stderr) == (0, "")
        lines = done.stdout.rstrip("\n").splitlines()
        if shell == "zsh":
            return list(zip(lines[1::3], lines[2::3], strict=True))
        if shell == "fish":  # "plain,word", with what it means after a tab or on lines of its own
            return [one.partition(",")[2] or one for one in lines]
        return [one.partition(",")[2] for one in lines]

    return complete


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_gets_its_script(run, shell):
    done = run(_KBOT_COMPLETE=f"{shell}_source")
    assert f"{shell}_complete" in done.stdout


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("kbot co", "collections"),
        ("kbot add ", "page"),
        ("kbot ask --c", "--conversation"),
        ("kbot --pro", "--profile"),
    ],
)
def test_commands_and_options_are_completed(completed, line, wanted):
    assert wanted in completed(line)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("kbot ask ", "bot_guide"),
        ("kbot ask bot_g", "bot_guide"),
        ("kbot chat ", "bot_guide"),
        ("kbot conversations b", "bot_guide"),
        ("kbot add text --collection ", "col_handbook"),
        ("kbot add page --collection col", "col_handbook"),
        ("kbot ingest folder --collection ", "col_handbook"),
        ("kbot login --collection ", "col_handbook"),
        ("kbot ledger forget --collection ", "col_handbook"),
    ],
)
def test_bots_and_collections_are_those_of_the_service(completed, of_the_service, line, wanted):
    assert completed(line) == [wanted]


def test_each_shell_gets_the_ids_and_those_that_can_the_names(completed, of_the_service):
    line = "kbot add text --collection col"
    assert completed(line, "bash") == ["col_handbook"]
    assert completed(line, "zsh") == [("col_handbook", "Handbook")]
    assert "col_handbook" in "\n".join(completed(line, "fish"))


@pytest.mark.parametrize("command", ["ask", "ask bot_guide", "chat bot_guide", "chat"])
def test_conversations_are_those_of_the_bot(completed, of_the_service, command):
    with Client() as client:
        said = client.send_message(bot_id="bot_guide", content="When do you open?")
    line = f"kbot {command} --conversation "
    assert said.conversation_id in completed(line)
    assert completed(f"{line}{said.conversation_id[:-1]}") == [said.conversation_id]


def test_the_question_is_not_completed(completed, answering):
    server = answering(BOTS)
    assert completed("kbot ask bot_a ") == []
    assert server.requests == []


def test_conversations_of_several_bots_are_not_mixed(completed, answering):
    server = answering(BOTS)
    assert completed("kbot ask --conversation ") == []
    assert [request.path for request in server.requests] == ["/public/v1/bots"]


def test_options_before_the_command_say_which_service(completed, scripted):
    server = scripted(BOTS)
    assert completed(f"kbot --base-url {server.url} ask bot_") == ["bot_a", "bot_b"]


def test_a_profile_is_completed_from_the_file_and_used(completed, scripted, settings_file):
    server = scripted(BOTS)
    settings_file.parent.mkdir()
    settings_file.write_text(f'[work]\nbase_url = "{server.url}"\n["a b"]\n')
    assert completed("kbot --profile ") == []  # the file is broken: a.b has no address
    settings_file.write_text(
        f'[work]\nbase_url = "{server.url}"\n["$(a)"]\nbase_url = "http://127.0.0.1:9"\n'
    )
    assert completed("kbot --profile ") == ["work"]
    assert completed("kbot --profile work ask ") == ["bot_a", "bot_b"]


@pytest.mark.parametrize(
    "reply", [answer(401), answer(500), answer(body=b"junk"), answer(302), None]
)
def test_whatever_fails_completes_nothing_and_says_nothing(completed, answering, reply):
    if reply is not None:
        answering(reply)
    assert completed("kbot ask ") == []
    assert completed("kbot ask ", KNOWLEDGE_BOT_BASE_URL="nonsense") == []
    assert completed("kbot --profile missing ask ") == []


def test_a_service_that_does_not_answer_is_not_waited_for(completed, answering):
    answering(silence)
    began = time.monotonic()
    assert completed("kbot ask ") == []
    assert time.monotonic() - began < 30  # it is two seconds; a request would have sixty


def test_a_service_cannot_put_a_command_into_the_shell(completed, answering):
    ids = ["bot_$(reboot)", "bot_`x`", "bot_a b", "bot_\nx", "bot_fine"]
    answering(answer(body={"data": [{"id": one, "name": "n\nplain\nx\x1b"} for one in ids]}))
    assert completed("kbot ask ", "zsh") == [("bot_fine", "n plain x\\x1b")]
