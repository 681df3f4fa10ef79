"""The arrows between the packages, as pyproject.toml draws them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_no_import_goes_against_the_architecture(tmp_path):
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--cache-dir", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_lock_names_hashes_and_no_registry():
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert "--hash=sha256:" in lock
    assert "://" not in lock
