"""Tables on a terminal: ids and addresses stay whole, however narrow it is."""

import re

import pytest

from calls import KEY
from knowledge_bot import Client
from knowledge_bot.ingest import Ledger, from_folder, ingest
from pseudo_terminal import terminal
from scripted_server import answer

ID = "bot_94287031cb7f51b4c94f2de9"
LONG_ID = f"{ID}_{ID}_{ID}"


@pytest.fixture
def shown(program, answering):
    """What `kbot bots` shows of some bots on a terminal of so many columns."""

    def show(columns, bots, **environment):
        answering(answer(body={"data": [{"id": one, "name": name} for one, name in bots]}))
        with terminal([program, "bots"], environment, columns=columns) as screen:
            assert screen.end() == 0
        return screen.shown

    return show


def test_a_name_goes_over_several_lines_and_an_id_does_not(shown):
    screen = shown(44, [(ID, "Everything about the workshop and its saws")])
    assert ID in screen
    assert max(map(len, re.sub("\x1b[^m]*m", "", screen).splitlines())) <= 44
    assert "Everything" in screen
    assert "workshop" in screen


def test_where_ids_do_not_fit_each_field_has_a_line(shown):
    screen = re.sub("\x1b[^m]*m", "", shown(60, [(LONG_ID, "One"), (ID, "Two\nlines\t\x1b[2J")]))
    assert screen == (f"id    {LONG_ID}\nname  One\n\nid    {ID}\nname  Two lines \\x1b[2J\n")


def test_wide_characters_are_measured_as_they_are_shown(shown):
    screen = shown(50, [(ID, "電動工具の安全"), ("bot_2", "เวลาเปิดทำการ")])
    assert ID in screen
    assert "電動工具の安全" in screen


@pytest.mark.parametrize("columns", [1, 5, 20])
def test_no_terminal_is_too_narrow(shown, columns):
    assert ID in shown(columns, [(ID, "Guide")])


def test_no_color_leaves_no_bold_either(shown):
    for columns in (80, 20):
        assert "\x1b[1m" in shown(columns, [(ID, "Guide")])
        assert "\x1b" not in shown(columns, [(ID, "Guide")], NO_COLOR="1")


def test_what_is_gone_can_be_copied_at_80_columns(program, scripted, tmp_path, handbook):
    number = iter(range(10))
    server = scripted(
        reply_to=lambda request: answer(
            body={
                "id": f"src_94287031cb7f51b4c94f2de{next(number)}",
                "name": "n",
                "collections": [],
                "status": "pending",
                "created_at": 0,
            }
        )
    )
    ledger = Ledger(tmp_path / "ledger.db")
    with Client(KEY, server.url) as client:
        for _ in range(2):
            ingest(client, from_folder(handbook), collections="col_handbook", ledger=ledger)
            (handbook / "a.md").unlink(missing_ok=True)
    (gone,) = ledger.gone()
    for columns in (80, 60, 200):
        command = [program, "ledger", "gone", "--ledger", tmp_path / "ledger.db"]
        with terminal(command, {}, columns=columns) as screen:
            assert screen.end() == 0
        for whole in (gone.id, gone.source_id, gone.origin):
            assert whole in screen.shown
    with terminal(
        [program, "ledger", "status", "--ledger", tmp_path / "ledger.db"], {}, 60
    ) as seen:
        assert seen.end() == 0
    assert f"{server.url}/public/v1" in seen.shown
