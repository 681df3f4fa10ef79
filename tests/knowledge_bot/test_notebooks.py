"""What a notebook shows of what the packages return, and the bar that is drawn while one waits."""

import sys
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from knowledge_bot import Client, ConfigurationError, Message
from knowledge_bot.checks import Question, check
from knowledge_bot.ingest import Outcome, Report, Text, ingest
from knowledge_bot.testing import MemoryService

NOTES = [Text(name=f"note {number}", content=f"Note {number}.") for number in range(3)]


@pytest.fixture
def client():
    service = MemoryService(bots={"bot_1": {"When?": "At <nine>."}}, collections=["col_1"])
    with Client("key", "https://service.test", transport=service.transport) as client:
        yield client


def test_a_report_is_a_table_of_its_counts_and_of_what_needs_attention():
    failed = Outcome("refused", "<a>.md", "a", "There is no collection.")
    shown = Report(created=2, refused=1, failures=(failed,), duration=1.5)._repr_html_()
    assert "<td>created</td><td>2</td>" in shown
    assert "<td>&lt;a&gt;.md</td><td>There is no collection.</td>" in shown
    assert "gone" not in shown


def test_a_check_is_a_table_of_its_questions(client):
    report = check(client, "bot_1", [Question(ask="When?", contains="ten")])
    assert "<td>failed</td><td>When?</td>" in report._repr_html_()
    assert len(repr(report)) < 200


def test_an_answer_is_shown_with_its_sources():
    given = {"id": "msg_1", "conversation_id": "conv_1", "created_at": datetime.now(UTC)}
    as_text = Message(answer="At <nine>.\n\nSources: hours.md", **given)
    as_data = Message(answer="At <nine>.", sources=[{"name": "hours.md"}], **given)
    assert as_text._repr_html_() == "<p>At &lt;nine&gt;.</p><p>Sources: hours.md</p>"
    assert as_data._repr_html_().endswith("<ul><li>hours.md</li></ul>")


def test_a_chat_says_which_one_it_is(client):
    chat = client.chat("bot_1")
    chat.ask("When?")
    assert "bot_1" in repr(chat)
    assert chat.conversation_id in repr(chat)


def test_a_notebook_gets_a_bar_that_is_drawn_over(client, monkeypatch):
    shown = []

    def display(html, display_id):
        shown.append(html)
        return SimpleNamespace(update=shown.append)

    tools = SimpleNamespace(HTML=str, display=display)
    kernel = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: kernel))
    monkeypatch.setitem(sys.modules, "IPython.display", tools)
    ingest(client, NOTES, collections="col_1", progress=True)
    assert 'value="3" max="3"' in shown[-1]
    assert "created 3" in shown[-1]


def test_a_terminal_gets_a_bar_and_a_file_nothing(client, monkeypatch, capsys):
    ingest(client, NOTES, collections="col_1", progress=True)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    ingest(client, NOTES, collections="col_1", progress=True)
    assert capsys.readouterr().err.endswith("created 3\n")


def test_a_bar_and_a_function_of_ones_own_are_not_shown_together(client):
    with pytest.raises(ConfigurationError):
        ingest(client, NOTES, collections="col_1", progress=True, on_progress=print)
