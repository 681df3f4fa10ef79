"""What a shell asks of `kbot` to complete a command line."""

import pytest


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(run, shell):
    done = run(_KBOT_COMPLETE=f"{shell}_source")
    assert f"{shell}_complete" in done.stdout


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("kbot co", "collections"),
        ("kbot add p", "page"),
        ("kbot ask --c", "--conversation"),
        ("kbot --pro", "--profile"),
    ],
)
def test_commands_and_options_are_completed(run, line, wanted):
    place = str(len(line.split()) - 1)
    done = run(_KBOT_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=place)
    assert (done.exit_code, done.stderr) == (0, "")
    assert f"plain,{wanted}" in done.stdout.splitlines()
