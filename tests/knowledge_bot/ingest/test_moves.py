"""An item that is found under another key is the same source: nothing is sent again."""

import shutil

import pytest

from knowledge_bot.ingest import Ledger, Text
from knowledge_bot.origins import Folder

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def ledger(ledger_address: str) -> Ledger:
    return Ledger(ledger_address)


@pytest.fixture
def night(send, ledger, folder):
    def go(**options):
        place = Folder(folder, name="handbook")
        return send(place, **{"ledger": ledger, **options})

    return go


def sources(ledger: Ledger) -> dict[str, str | None]:
    return {entry.key: entry.source_id for entry in ledger.entries()}


def test_a_renamed_folder_sends_nothing(night, folder, ledger, service):
    assert night().created == 10
    before = sources(ledger)
    (folder / "archive").rename(folder / "2024")
    dry = night(dry_run=True)
    assert (dry.moved, dry.created, dry.gone) == (4, 0, 0)
    report = night()
    assert (report.moved, report.created, report.unchanged, report.gone) == (4, 0, 6, 0)
    assert report.ok
    assert len(service.created) == 10
    after = sources(ledger)
    assert set(after) == {key.replace("archive", "2024") for key in before}
    assert set(after.values()) == set(before.values())
    assert {entry.name for entry in ledger.entries() if "2024" in entry.key} == {
        f"2024/{n}.md" for n in range(4)
    }
    assert night().unchanged == 10


def test_a_moved_file_that_changed_is_new_and_the_old_one_gone(night, folder):
    night()
    (folder / "5.md").rename(folder / "moved.md")
    (folder / "moved.md").write_text("Another text.")
    report = night()
    assert (report.moved, report.created, report.gone) == (0, 1, 1)


@pytest.mark.parametrize(("name", "moved"), [("5.txt", 0), ("5", 0), ("5.MD", 1), ("x/5.md", 1)])
def test_what_is_read_otherwise_under_its_new_name_is_new(night, folder, name, moved):
    night()
    (folder / "x").mkdir()
    (folder / "5.md").rename(folder / name)
    report = night()
    assert (report.moved, report.created, report.gone) == (moved, 1 - moved, 1 - moved)


def test_a_copy_is_new_while_the_original_is_there(night, folder):
    night()
    shutil.copy(folder / "5.md", folder / "copy.md")
    report = night()
    assert (report.moved, report.created, report.gone) == (0, 1, 0)


@pytest.mark.parametrize("twice", ["before", "after"])
def test_what_may_be_one_of_two_is_new(night, folder, twice):
    (folder / "a.md").write_text("The same.")
    (folder / "b.md").write_text("The same." if twice == "before" else "Another.")
    night()
    (folder / "a.md").rename(folder / "c.md")
    if twice == "before":
        (folder / "b.md").unlink()
    else:
        shutil.copy(folder / "c.md", folder / "d.md")
    report = night()
    assert report.moved == 0
    assert report.created == (1 if twice == "before" else 2)


def test_what_went_last_night_and_comes_back_elsewhere_is_moved(night, folder, ledger, service):
    night()
    text = (folder / "5.md").read_text()
    (folder / "5.md").unlink()
    assert night().gone == 1
    (folder / "back.md").write_text(text)
    report = night()
    assert (report.moved, report.created, report.gone) == (1, 0, 0)
    assert list(ledger.gone()) == []


@pytest.mark.parametrize("how", [{}, {"origin": "handbook", "complete": False}])
def test_what_one_part_has_is_not_moved_by_another_with_the_same_content(
    send, ledger, service, how
):
    for name in ("a", "b"):  # as mapped tasks do
        report = send([Text(name=name, content="Closed today.")], ledger=ledger, **how)
        assert (report.moved, report.created) == (0, 1)
    assert sorted(service.created) == ["a", "b"]


def test_nothing_is_moved_if_not_all_was_seen(send, ledger, service):
    texts = [Text(name=name, content=f"About {name}.") for name in "abcdef"]
    send(texts, ledger=ledger, origin="handbook")
    moved = Text(name="z", content="About f.")
    report = send([*texts[:5], moved, object()], ledger=ledger, origin="handbook")
    assert (report.moved, report.created) == (0, 1)


def test_a_moved_text_keeps_the_name_that_the_service_knows(send, ledger, service):
    texts = [Text(name=name, content=f"About {name}.") for name in "abcdef"]
    send(texts, ledger=ledger, origin="handbook")
    moved = [*texts[:5], Text(name="z", content="About f.")]
    assert send(moved, ledger=ledger, origin="handbook").moved == 1
    changed = [*texts[:5], Text(name="z", content="News.")]
    assert send(changed, ledger=ledger, origin="handbook").superseded == 1
    (old,) = ledger.superseded()
    assert (old.name, old.key) == ("f", "z")
