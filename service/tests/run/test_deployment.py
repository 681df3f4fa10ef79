"""The container file and the systemd unit: they parse, and what they run works."""

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
from configparser import RawConfigParser
from pathlib import Path

import pytest

from serve_command import SERVE
from waiting import free_port, listens, until

DEPLOY = Path(__file__).parents[3] / "deploy"
ROOT = DEPLOY.parent


def instructions():
    """The instructions of the container file, with their continuation lines."""
    text = (DEPLOY / "Containerfile").read_text("utf-8")
    lines = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    found = [line.partition(" ")[::2] for line in lines if line.strip()]
    assert all(name.isupper() for name, _ in found)
    return found


def last(name):
    return [value for one, value in instructions() if one == name][-1]


def unit():
    parser = RawConfigParser(strict=False)
    parser.optionxform = str
    parser.read(DEPLOY / "kbot.service", "utf-8")
    return parser


def runs(arguments, port):
    process = subprocess.Popen(
        [*SERVE, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert until(lambda: listens(int(port)))
        yield process
    finally:
        process.kill()
        process.wait()


def test_the_container_runs_a_service_that_is_nobodys_root_and_stops_when_told(tmp_path):
    names = [name for name, _ in instructions()]
    assert names.index("USER") > len(names) - 1 - names[::-1].index("RUN")
    assert last("USER") not in {"0", "root", "0:0"}
    assert last("VOLUME") in last("ENTRYPOINT")
    command, serve, *arguments = json.loads(last("ENTRYPOINT"))  # an array: no shell between
    assert (command, serve) == ("kbot", "serve")
    port = str(free_port())
    changed = {"8700": port, "/var/lib/kbot": str(tmp_path / "data")}
    for process in runs([changed.get(one, one) for one in arguments], port):
        check = json.loads(last("HEALTHCHECK").partition("CMD ")[2])
        assert check.pop(0) == "python"
        check = [part.replace(":8700/", f":{port}/") for part in check]
        subprocess.run([sys.executable, *check], check=True, timeout=30)
        process.send_signal(signal.SIGTERM)
        process.wait(20)
    assert subprocess.run([sys.executable, *check], check=False, stderr=-3).returncode == 1


def test_what_the_container_is_built_from_is_there():
    copied = [value for name, value in instructions() if name == "COPY"]
    assert copied[0] == ". ."
    (command,) = (value for _, value in instructions() if "pip install" in value)
    installed = re.findall(r" (\.(?:/[a-z_]+)*)(?= |$)", command)
    assert len(installed) > 1
    assert all((ROOT / folder / "pyproject.toml").is_file() for folder in installed)


def test_the_container_installs_the_versions_of_the_lock(tmp_path):
    (command,) = (value for _, value in instructions() if "pip install" in value)
    (made,) = re.findall(r"&& (sed .*?) > (/\S+) ", command)
    assert f"--constraint {made[1]}" in command
    pins = subprocess.run(made[0], shell=True, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = pins.stdout.splitlines()
    assert len(lines) > 50
    assert all(re.fullmatch(r"[a-z0-9.\[\],_-]+==[^ ]+( ;.*)?", line) for line in lines)


@pytest.mark.slow
def test_the_unit_runs_a_service(tmp_path):
    (tmp_path / "kbot.toml").write_text(
        '[[keys]]\nname = "unit"\nrole = "manage"\nkey = "of-the-unit"\n'
    )
    program, serve, *arguments = shlex.split(unit()["Service"]["ExecStart"])
    assert (Path(program).name, serve) == ("kbot", "serve")
    assert unit()["Service"]["StateDirectory"] == Path(arguments[-1]).name
    changed = {
        "/etc/kbot/kbot.toml": str(tmp_path / "kbot.toml"),
        "/var/lib/kbot": str(tmp_path / "data"),
    }
    port = str(free_port())
    for process in runs([*(changed.get(one, one) for one in arguments), "--port", port], port):
        assert process.poll() is None


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path):
    text = (DEPLOY / "kbot.service").read_text("utf-8")
    (tmp_path / "kbot.service").write_text(text.replace("/opt/kbot/bin/kbot", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / "kbot.service"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
