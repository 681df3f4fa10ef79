"""pytest over `check()`: each question of a file is a test, and says why it does not pass."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from knowledge_bot.testing import MemoryService
from served import served
from two_questions import HALF, QUESTIONS

EXAMPLE = Path(__file__).parents[2] / "examples" / "test_answers.py"


def test_each_question_is_a_test(tmp_path):
    shutil.copy(EXAMPLE, tmp_path)
    (tmp_path / "questions.toml").write_text(QUESTIONS)
    with served(MemoryService(bots={"bot_default": HALF})) as url:
        service = {"KNOWLEDGE_BOT_BASE_URL": url, "KNOWLEDGE_BOT_API_KEY": "key"}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-rA", "test_answers.py"],
            cwd=tmp_path,
            env={**os.environ, **service, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1, done.stderr
    assert "PASSED test_answers.py::test_the_bot_answers[When do you open?]" in done.stdout
    assert "FAILED test_answers.py::test_the_bot_answers[Who leads it?]" in done.stdout
    assert 'The answer does not contain "Mia".' in done.stdout
