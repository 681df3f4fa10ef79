"""`kbot completion`, and what the shell asks of `kbot`."""

import shutil
import subprocess

import pytest


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(run, shell):
    if shell == "bash" and shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    done = run("completion", shell)
    assert done.exit_code == 0
    assert "_KBOT_COMPLETE" in done.stdout
    assert f"{shell}_complete" in done.stdout


@pytest.mark.parametrize(
    ("line", "wanted"),
    [("kbot co", "collections"), ("kbot add ", "page"), ("kbot ask --c", "--conv")],
)
def test_commands_and_options_are_completed(kbot, line, wanted):
    words = len(line.split()) - (not line.endswith(" "))
    done = kbot(_KBOT_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=str(words))
    assert done.returncode == 0
    assert wanted in done.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_the_script_for_bash_is_one_that_bash_reads(kbot):
    script = kbot("completion", "bash").stdout
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
