"""`kbot ask` and `kbot chat`."""

import json
import subprocess

import pytest

from calls import MESSAGE
from pseudo_terminal import terminal
from scripted_server import answer, close


def test_the_answer_is_all_that_is_on_stdout(run, answering):
    server = answering(answer(body=MESSAGE))
    done = run("ask", "bot_1", "When do you open?")
    assert (done.exit_code, done.stdout) == (0, "At nine.\n")
    assert done.stderr == "(--conversation conv_1 goes on from here)\n"
    assert server.requests[0].json() == {
        "value": {"bot_id": "bot_1", "content": "When do you open?"}
    }


@pytest.mark.parametrize("words", [("bot_1",), ("bot_1", "When", "open?"), ()])
def test_a_question_that_is_missing_or_not_quoted_is_not_asked(run, answering, words):
    server = answering(answer(body=MESSAGE))
    done = run("ask", *words)
    assert (done.exit_code, server.started) == (2, 0)
    assert "QUESTION" in done.stderr


@pytest.mark.parametrize("command", ["ask bot_1 When?", "ask bot_1 When? --json", "chat bot_1"])
@pytest.mark.parametrize("where", [">/dev/full", ">&-"])
def test_an_answer_that_stdout_does_not_take_is_reported_on_stderr(
    program, answering, command, where
):
    server = answering(answer(body=MESSAGE))
    done = subprocess.run(
        f"{program} {command} {where}",
        shell=True,
        input="When?\nAnd then?\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, len(server.requests)) == (8, 1)
    assert "The answer, in conv_1:\nAt nine.\n" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_conversation_goes_on(run, answering):
    server = answering(answer(body=MESSAGE))
    run("ask", "bot_1", "And on Sunday?", "--conversation", "conv_1")
    assert server.requests[0].json()["value"]["conversation_id"] == "conv_1"


def test_the_answer_as_json_is_the_documented_message(run, answering):
    answering(answer(body=MESSAGE))
    assert json.loads(run("ask", "bot_1", "When?", "--json").stdout) == MESSAGE


def test_a_question_comes_from_stdin_with_its_lines(run, answering):
    server = answering(answer(body=MESSAGE))
    assert run("ask", "bot_1", "-", stdin="First line\nsecond, with ü\n").exit_code == 0
    assert server.requests[0].json()["value"]["content"] == "First line\nsecond, with ü"


def test_a_question_that_is_not_utf_8_is_a_usage_error(run, answering):
    server = answering(answer(body=MESSAGE))
    done = run("ask", "bot_1", "-", stdin=b"Gr\xfc\xdfe")
    assert done.exit_code == 2
    assert "stdin: is not UTF-8 text" in done.stderr
    assert server.started == 0


def test_a_question_without_an_answer_ends_with_8_and_says_what_asking_again_does(run, answering):
    server = answering(close)
    done = run("ask", "bot_1", "When?")
    assert done.exit_code == 8
    assert "may have acted" in done.stderr
    assert "Asking again is safe" in done.stderr
    assert len(server.requests) == 1


def test_an_answer_cannot_steer_the_terminal(program, answering):
    answering(answer(body={**MESSAGE, "answer": "Nine.\x1b[2J\nTen."}))
    with terminal([program, "ask", "bot_1", "When?"], {}) as screen:
        assert screen.end() == 0
    assert "\x1b" not in screen.shown
    assert "Nine.\\x1b[2J\nTen.\n" in screen.shown


def test_a_chat_without_a_terminal_answers_line_by_line(run, answering):
    server = answering(answer(body=MESSAGE), answer(body={**MESSAGE, "answer": "No."}))
    done = run("chat", "bot_1", stdin="When do you open?\n\nAnd on Sunday?\n")
    assert (done.exit_code, done.stdout) == (0, "At nine.\nNo.\n")
    assert done.stderr == "(--conversation conv_1 goes on from here)\n"
    first, second = (request.json()["value"] for request in server.requests)
    assert "conversation_id" not in first
    assert second["conversation_id"] == "conv_1"


def test_a_chat_as_json_is_a_line_for_each_answer(run, answering):
    answering(answer(body=MESSAGE))
    done = run("chat", "bot_1", "--json", stdin="One?\nTwo?\n")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [MESSAGE, MESSAGE]


@pytest.mark.parametrize(("reply", "code"), [(answer(400), 1), (close, 8), (answer(402), 4)])
def test_a_chat_without_a_terminal_stops_at_the_first_failure(run, answering, reply, code):
    server = answering(answer(body=MESSAGE), reply)
    done = run("chat", "bot_1", stdin="One?\nTwo?\nThree?\n")
    assert (done.exit_code, done.stdout) == (code, "At nine.\n")
    assert "conv_1" in done.stderr
    assert len(server.requests) == 2


def test_a_chat_on_a_terminal_goes_on_after_a_failure_and_ends_with_ctrl_d(program, answering):
    answering(answer(body=MESSAGE), answer(400, {"code": "no", "message": "not now"}))
    with terminal([program, "chat", "bot_1"], {}) as screen:
        screen.expect("you> ")
        screen.type("When do you open?\n")
        screen.expect("At nine.")
        screen.expect("you> ")
        screen.type("And on Sunday?\n")
        screen.expect("was answered with 400 [no]: not now")
        screen.expect("you> ")
        screen.type("\x04")
        assert screen.end() == 0
    assert "--conversation conv_1" in screen.shown


def test_ctrl_c_at_the_prompt_ends_a_chat(program, answering):
    answering(answer(body=MESSAGE))
    with terminal([program, "chat", "bot_1", "--conversation", "conv_7"], {}) as screen:
        screen.expect("you> ")
        screen.interrupt_prompt()
        assert screen.end() == 0
    assert "--conversation conv_7" in screen.shown
    assert "Traceback" not in screen.shown
