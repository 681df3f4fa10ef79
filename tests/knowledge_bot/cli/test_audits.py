"""`kbot audit`: the origins of `kbot ingest`, what is shown, and how it ends."""

import json
from xml.etree import ElementTree as ET

import pytest
from click import Context

from knowledge_bot.cli import main
from knowledge_bot.cli.auditing import audit
from knowledge_bot.cli.ingesting import ingest

TEXTS = {
    "a.md": "The reading room opens its doors at nine on weekdays, and at ten on Saturdays.",
    "b.md": "Lost property is kept for six weeks in the green cupboard beside the entrance.",
}


@pytest.fixture
def leaflets(tmp_path):
    folder = tmp_path / "leaflets"
    folder.mkdir()
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def knows(standing_in):
    """`knows("a.md")`: a service whose only bot says these leaflets, where they are asked for."""

    def start(*names, **more):
        def answer(question):
            asked = {*question.split()}
            fits = [TEXTS[name] for name in names if len(asked & {*TEXTS[name].split()}) > 2]
            return "".join(fits) or "I do not know."

        return standing_in(bots={"bot_1": answer}, **more)

    return start


def test_all_that_is_found_is_exit_code_0_and_its_price_is_said_before(run, knows, leaflets):
    service = knows(*TEXTS)
    done = run("audit", "bot_1", "folder", leaflets)
    assert (done.exit_code, done.stdout) == (0, "")
    assert "at most 2 messages, each leaves a conversation" in done.stderr.splitlines()[0]
    assert len(service.conversations) == 2


def test_what_is_not_found_is_named_and_exit_code_3(run, knows, leaflets):
    knows("a.md")
    done = run("audit", "folder", leaflets)  # the only bot
    assert done.exit_code == 3
    assert done.stdout.split("\t")[:2] == ["missing", "b.md"]
    assert "50.0%" in done.stderr
    assert run("audit", "folder", leaflets, "--min-coverage", "0.5").exit_code == 0


def test_programs_get_json_and_ci_gets_junit(run, knows, leaflets, tmp_path):
    knows("a.md")
    done = run("audit", "bot_1", "folder", leaflets, "--json", "--junit", tmp_path / "audit.xml")
    found = json.loads(done.stdout)
    assert (found["coverage"], found["ok"], found["total"], done.exit_code) == (0.5, False, 2, 3)
    assert [(one["key"], one["name"], one["outcome"]) for one in found["documents"]] == [
        ("a.md", "a.md", "found"),
        ("b.md", "b.md", "missing"),
    ]
    suite = ET.parse(tmp_path / "audit.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("bot_9", "folder", "LEAFLETS"), 1),
        (("bot_1", "folder", "LEAFLETS", "--budget", "1"), 2),
        (("bot_1", "folder", "LEAFLETS", "--include", "*.pdf"), 2),
        (("bot_1", "folder", "nowhere"), 2),
        (("bot_1", "LEAFLETS"), 2),
        (("bot_1", "folder", "LEAFLETS", "--junit", "nowhere/audit.xml"), 2),
    ],
)
def test_what_cannot_be_audited_is_no_coverage_of_0(run, knows, leaflets, arguments, code):
    service = knows(*TEXTS)
    given = [leaflets if one == "LEAFLETS" else one for one in arguments]
    done = run("audit", *given, "--json")
    assert (done.exit_code, done.stdout) == (code, "")
    assert not service.conversations


def test_an_outage_is_an_error(run, knows, leaflets):
    knows(*TEXTS).reachable = False
    done = run("audit", "bot_1", "folder", leaflets, "--json")
    assert (done.exit_code, done.stdout) == (1, "")


def test_a_budget_and_a_sample_are_kept(run, knows, leaflets):
    service = knows()
    done = run("audit", "bot_1", "folder", leaflets, "--budget", "2", "--json")
    assert len(json.loads(done.stdout)["documents"]) == 2
    assert len(service.conversations) == 2  # a leaflet is one sentence
    done = run("audit", "bot_1", "folder", leaflets, "--sample", "1", "--json")
    assert len(json.loads(done.stdout)["documents"]) == 1


def test_other_origins_are_named_as_for_ingest(run, knows, tmp_path):
    knows("a.md")
    lines = tmp_path / "items.jsonl"
    lines.write_text("\n".join(json.dumps({"name": n, "content": t}) for n, t in TEXTS.items()))
    found = json.loads(run("audit", "bot_1", "jsonl", lines, "--json").stdout)
    assert [one["outcome"] for one in found["documents"]] == ["found", "missing"]


@pytest.mark.parametrize("name", ingest.commands)
def test_every_origin_can_be_audited_with_all_that_says_where_it_is(name):
    ctx = Context(main, obj=None)
    of_audit = {one.name for one in audit.get_command(ctx, name).params}
    of_ingest = {one.name for one in ingest.commands[name].params}
    sending = {"ledger_address", "prune", "no_prune", "rate", "limit", "dry_run", "watch"}
    assert of_audit >= {"sample", "budget", "min_coverage", "junit", "as_json", "name"}
    assert not of_audit & sending
    assert of_ingest - of_audit <= sending | {
        "collections", "on_unknown", "ledger_wait", "gone_limit", "anyway", "wait_ready",
        "allow_empty",
    }  # fmt: skip
