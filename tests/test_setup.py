"""What `scripts/setup` says where it cannot make the environment."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def checkout(tmp_path):
    """As much of a clone as set-up reads, with one dependency."""
    projects = (path.relative_to(ROOT) for path in ROOT.glob("[acs]*/**/pyproject.toml"))
    for name in ("scripts/setup", "pyproject.toml", *projects):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "one.lock").write_text(f"click==8.1.8 --hash=sha256:{'0' * 64}\n")
    return tmp_path


def set_up(checkout, **environment):
    return subprocess.run(
        [checkout / "scripts" / "setup", ".venv-tried", "one.lock"],
        env={"PATH": "/usr/bin:/bin", "PIP_CONFIG_FILE": "/dev/null", "PIP_RETRIES": "0"}
        | {"HOME": str(checkout), "PIP_INDEX_URL": "http://127.0.0.1:9/simple"}
        | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_python_that_is_too_old_is_named_with_the_way_to_another(checkout):
    programs = checkout / "programs"
    programs.mkdir()
    for name in ("bash", "cat", "cksum", "dirname"):
        (programs / name).symlink_to(shutil.which(name))
    old = programs / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")  # what every question about its version gets
    old.chmod(0o755)
    done = set_up(checkout, PATH=str(programs))
    assert done.returncode == 1
    assert "Python 3.11 to 3.14 is needed. Set PYTHON to one" in done.stderr
    assert not (checkout / ".venv-tried").exists()


@pytest.mark.slow
@pytest.mark.parametrize("home", [None, "/proc"], ids=["home", "a home that is read-only"])
def test_without_a_network_it_says_what_to_look_at(checkout, home):
    done = set_up(checkout, **({"HOME": home} if home else {}))
    assert done.returncode == 1
    assert "Is PyPI within reach, or the mirror in PIP_INDEX_URL?" in done.stderr
    assert not (checkout / ".venv-tried" / "installed").exists()  # so that the next run tries again


def test_an_environment_that_cannot_be_made_is_named(checkout):
    (checkout / ".venv-tried").write_text("a file where the folder should be")
    done = set_up(checkout)
    assert done.returncode == 1
    assert "the environment .venv-tried could not be made" in done.stderr
