"""What a shell asks of `kbot` to complete a command line."""

import pytest

from knowledge_bot import Client

TWO = {"bot_a": {}, "bot_b": {}}
ONE = {"bots": {"bot_guide": {}}, "collections": {"col_handbook": "Handbook"}}


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


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
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
def test_bots_and_collections_are_those_of_the_service(completed, standing_in, line, wanted):
    standing_in(**ONE)
    assert completed(line) == [wanted]


def test_each_shell_gets_the_ids_and_those_that_can_the_names(completed, standing_in):
    standing_in(**ONE)
    line = "kbot add text --collection col"
    assert completed(line, "bash") == ["col_handbook"]
    assert completed(line, "zsh") == [("col_handbook", "Handbook")]
    assert "col_handbook" in "\n".join(completed(line, "fish"))


@pytest.mark.parametrize("command", ["ask", "ask bot_guide", "chat bot_guide", "chat"])
def test_conversations_are_those_of_the_bot(completed, standing_in, command):
    standing_in(**ONE)
    with Client() as client:
        said = client.send_message(bot_id="bot_guide", content="When do you open?")
    line = f"kbot {command} --conversation "
    assert said.conversation_id in completed(line)
    assert completed(f"{line}{said.conversation_id[:-1]}") == [said.conversation_id]


def test_the_question_is_not_completed(completed, standing_in):
    service = standing_in(bots=TWO)
    assert completed("kbot ask bot_a ") == []
    assert service.requests == []


def test_conversations_of_several_bots_are_not_mixed(completed, standing_in):
    service = standing_in(bots=TWO)
    assert completed("kbot ask --conversation ") == []
    assert [request.path for request in service.requests] == ["/bots"]


def test_options_before_the_command_and_profiles_say_which_service(
    completed, standing_in, settings_file, monkeypatch
):
    standing_in(bots=TWO)
    monkeypatch.delenv("KNOWLEDGE_BOT_BASE_URL")
    assert completed("kbot ask bot_") == []
    assert completed("kbot --base-url https://h.example ask bot_") == ["bot_a", "bot_b"]
    settings_file.parent.mkdir()
    settings_file.write_text('[work]\nbase_url = "https://h.example"\n["a b"]\n')
    assert completed("kbot --profile ") == []  # the file is broken: a b has no address
    settings_file.write_text(
        '[work]\nbase_url = "https://h.example"\n["$(a)"]\nbase_url = "https://i.example"\n'
    )
    assert completed("kbot --profile ") == ["work"]
    assert completed("kbot --profile work ask ") == ["bot_a", "bot_b"]


@pytest.mark.parametrize("status", [401, 500, 302, 200])
def test_whatever_fails_completes_nothing_and_says_nothing(completed, standing_in, status):
    standing_in(bots=TWO).answer_next(status, b"junk", times=None)
    assert completed("kbot ask ") == []
    assert completed("kbot ask ", KNOWLEDGE_BOT_BASE_URL="nonsense") == []
    assert completed("kbot --profile missing ask ") == []


def test_a_service_that_does_not_answer_is_not_waited_for(completed, standing_in, monkeypatch):
    monkeypatch.setattr("knowledge_bot.cli.ids._SECONDS_TO_COMPLETE", 0.1)
    service = standing_in(bots=TWO)
    with service.holding_answers():
        assert completed("kbot ask ") == []
        assert service.requests != []


def test_a_service_cannot_put_a_command_into_the_shell(completed, standing_in):
    ids = ("col_$(reboot)", "col_`x`", "col_a b", "col_\nx", "col_fine")
    standing_in(collections=dict.fromkeys(ids, "n\nplain\nx\x1b"))
    assert completed("kbot login --collection ", "zsh") == [("col_fine", "n plain x\\x1b")]
