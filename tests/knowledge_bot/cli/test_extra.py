"""`kbot` where its extra is not installed."""

import os
import subprocess

import pytest

from nightly import nightly

BLOCKER = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
"""


@pytest.fixture
def without(program, tmp_path):
    """Run `kbot` as if packages were not installed."""

    def run(blocked, *arguments):
        (tmp_path / "sitecustomize.py").write_text(BLOCKER.format(blocked=blocked))
        path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
        return subprocess.run(
            [program, *arguments],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.parametrize("arguments", nightly([[], ["bots"]], but=1))
@pytest.mark.parametrize("blocked", nightly([["click", "rich"], ["click"], ["rich"]], but=1))
def test_it_says_in_a_sentence_what_to_install(without, blocked, arguments):
    done = without(blocked, *arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert all(part in done.stderr for part in (*blocked, "'knowledge-bot[cli]'"))
