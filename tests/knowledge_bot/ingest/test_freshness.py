"""Whether an answer is still true: never `current` where a file says something else by now."""

import hashlib
import os
import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowledge_bot import Client, ConfigurationError, Message
from knowledge_bot.ingest import Ledger, Text, WebPage, from_folder, ingest
from knowledge_bot.testing import MemoryService, no_waiting

pytestmark = pytest.mark.timeout(300)

URL = "https://service.test"
BOTH = frozenset({"sources", "idempotency"})


@pytest.fixture(params=[BOTH, frozenset()], ids=["extensions", "plain"])
def service(request) -> MemoryService:
    return MemoryService(extensions=request.param)


@pytest.fixture
def night(service, ledger):
    client = Client("key", URL, transport=service.transport)

    def go(items, **options):
        options = {"concurrency": 1, **options}  # so that sources come in order
        return ingest(client, items, collections="col_default", ledger=ledger, **options)

    return go


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "handbook"
    (folder / "deep").mkdir(parents=True)
    for name in ("a.md", "b.md", "deep/c.md"):
        (folder / name).write_text(f"About {name}.")
    return folder


def answered(service: MemoryService, *numbers: int) -> Message:
    """An answer from some sources, as they are now."""
    named = [service.sources[number] for number in numbers]
    fields = ("id", "name", "revision")
    sources = [{key: one[key] for key in fields if key in one} for one in named]
    message = {"id": "msg_1", "answer": "So.", "conversation_id": "conv_1", "created_at": 0}
    return Message.model_validate({**message, "sources": sources})


def verdicts(ledger: Ledger, message: Message) -> list[str]:
    return [each.verdict for each in ledger.freshness(message)]


@pytest.mark.parametrize("origin", [None, "handbook"])
def test_a_file_is_looked_at_now(night, service, ledger, folder, origin):
    night(from_folder(folder, origin=origin), wait_ready=1 if service.extensions else 0)
    message = answered(service, 0, 1, 2)
    assert verdicts(ledger, message) == ["current"] * 3
    os.utime(folder / "a.md")  # touched, and the same
    (folder / "b.md").write_text("About B.md.")
    (folder / "deep" / "c.md").unlink()
    found = ledger.freshness(message)
    assert [each.verdict for each in found] == ["current", "changed", "gone"]
    assert [each.name for each in found] == ["a.md", "b.md", "deep/c.md"]
    assert all(each.key and each.as_of.tzinfo for each in found)


def test_a_later_night_changes_what_an_older_answer_was_given_from(night, service, ledger, folder):
    night(from_folder(folder, origin="handbook"))
    message = answered(service, 0, 1, 2)
    (folder / "a.md").write_text("News.")
    (folder / "b.md").rename(folder / "deep" / "b.md")
    (folder / "deep" / "c.md").unlink()
    night(from_folder(folder, origin="handbook"))
    assert verdicts(ledger, message) == ["changed", "moved", "gone"]
    if service.extensions:
        night(from_folder(folder, origin="handbook"), wait_ready=1)
        assert verdicts(ledger, answered(service, 0)) == ["current"]


def test_what_may_have_been_answered_from_the_text_before_is_unknown(ledger, folder):
    service = MemoryService(extensions=BOTH)
    client = Client("key", URL, transport=service.transport)
    how = {"collections": "col_default", "ledger": ledger, "origin": "handbook", "concurrency": 1}
    ingest(client, from_folder(folder), **how, wait_ready=1)
    service.hold_sources()
    (folder / "a.md").write_text("News.")
    ingest(client, from_folder(folder), **how)
    without = {"sources": [{"id": service.sources[0]["id"], "name": "a.md"}]}
    assert verdicts(ledger, without) == ["unknown"]
    assert verdicts(ledger, answered(service, 0)) == ["current"]


def test_pages_and_texts_are_as_the_ledger_knows_them(night, service, ledger):
    page = WebPage(name="Opening hours", url="https://a.test/hours", version="1")
    night([page, Text(name="note", content="A note.", key="note-1")])
    message = answered(service, 0, 1)
    ready = "unknown" if service.extensions else "current"
    without = {"sources": [{"id": one["id"], "name": one["name"]} for one in service.sources]}
    assert verdicts(ledger, without) == [ready, ready]
    assert verdicts(ledger, message) == ["current", "current"]
    night([page.model_copy(update={"version": "2"})])
    assert verdicts(ledger, message) == ["changed", "current"]


def test_what_the_ledger_does_not_know_is_unknown(night, service, ledger, folder):
    night(from_folder(folder))
    message = {"sources": [{"id": "src_99", "name": "a.md"}, {"name": "no id"}, "odd"]}
    assert verdicts(ledger, message) == ["unknown"]
    for nothing in ({}, {"sources": None}, {"sources": []}):
        assert ledger.freshness(nothing) == []
    assert verdicts(ledger, answered(service, 0)) == ["current"] or service.extensions
    other = ledger.freshness(answered(service, 0), service="https://other.test/public/v1")
    assert [each.verdict for each in other] == ["unknown"]


def test_the_text_of_an_answer_names_no_sources(ledger):
    with pytest.raises(ConfigurationError, match="message"):
        ledger.freshness("It costs two euros.")


def test_a_folder_that_is_not_on_this_machine_says_nothing(night, service, ledger, folder):
    night(from_folder(folder))
    shutil.rmtree(folder)
    assert verdicts(ledger, answered(service, 0)) == ["unknown"]


def test_a_folder_that_was_mounted_elsewhere_is_looked_at_there(night, service, ledger, folder):
    night(from_folder(folder, origin="handbook"), wait_ready=1 if service.extensions else 0)
    other = folder.parent / "other"
    shutil.copytree(folder, other)
    assert night(from_folder(other, origin="handbook")).unchanged == 3
    (other / "a.md").write_text("News.")
    assert verdicts(ledger, answered(service, 0)) == ["changed"]


NOT_EDITS = ("night", "prune", "ask")
KINDS = ("write", "move", "delete", "touch", "copy", *NOT_EDITS)
EDITS = st.lists(
    st.tuples(st.sampled_from(KINDS), *(st.integers(0, most) for most in (7, 7, 3))), max_size=40
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(EDITS, st.booleans())
def test_no_edit_move_or_deletion_leaves_a_false_current(edits, extended):
    check_edits(edits, extended=extended)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ten_thousand_edits_leave_no_false_current():
    chance, done = random.Random(1), Counter()
    while done["edits"] < 10_000:
        kinds = chance.choices(KINDS, [1 if kind in NOT_EDITS else 3 for kind in KINDS], k=40)
        edits = [(kind, *(chance.randint(0, most) for most in (7, 7, 3))) for kind in kinds]
        done += check_edits(edits, extended=chance.random() < 0.5)
    assert min(done[verdict] for verdict in ("current", "changed", "moved", "gone")) > 100


def check_edits(edits: list[tuple[str, int, int, int]], *, extended: bool) -> Counter[str]:
    """Do them, and look at each verdict; return how many there were of each, and the edits."""
    done = Counter[str]()
    with tempfile.TemporaryDirectory() as place, no_waiting():
        folder, asked = Path(place, "docs"), list[tuple[Message, dict[str, str]]]()
        (folder / "sub").mkdir(parents=True)
        paths = [folder / f"{n}.md" for n in range(4)] + [folder / f"sub/{n}.md" for n in range(4)]
        service = MemoryService(extensions=BOTH if extended else ())
        client = Client("key", URL, transport=service.transport)
        ledger = Ledger(Path(place, "ledger.db"))
        how = {"collections": "col_default", "ledger": ledger, "origin": "docs"}
        ingest(client, from_folder(folder), **how)
        for what, one, other, text in edits:
            if what in ("night", "prune"):
                prune = what == "prune" and extended
                ingest(client, from_folder(folder), **how, prune=prune, wait_ready=int(prune))
            elif what == "ask":
                told = digests(service)
                asked.append((answered(service, *range(len(service.sources))), told))
            else:
                done["edits"] += edit(what, paths[one], paths[other], text)
            for message, told in asked[-3:]:
                for each in ledger.freshness(message):
                    done[each.verdict] += 1
                    if each.verdict in ("current", "moved"):
                        file = folder / str(each.key).removeprefix("docs/")
                        assert hashlib.sha256(file.read_bytes()).hexdigest() == told[each.source_id]
    return done


def edit(what: str, path: Path, other: Path, text: int) -> bool:
    """Change a file; False if it is not there, or would be copied to itself."""
    if what == "write":
        path.write_text(f"Text {text}")
    elif not path.exists() or (path == other and what == "copy"):
        return False
    elif what == "delete":
        path.unlink()
    elif what == "touch":
        os.utime(path, ns=(0, text))
    elif what == "move":
        path.rename(other)
    else:
        shutil.copy2(path, other)
    return True


def digests(service: MemoryService) -> dict[str, str]:
    """What the service answers from: the digest of each source's text, by its id."""
    ids = [each["id"] for each in service.sources]
    if service.extensions:
        texts = [service.ready_content(each) for each in ids]
    else:
        texts = [one.file[1] for one in service.requests if one.file]
    raw = [each if isinstance(each, bytes) else str(each).encode() for each in texts]
    return {one: hashlib.sha256(each).hexdigest() for one, each in zip(ids, raw, strict=True)}
