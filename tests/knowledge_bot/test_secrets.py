"""The API key appears in nothing that a person or a log collector reads."""

import logging
import traceback

import pytest

from calls import KEY, create, upload
from knowledge_bot import KnowledgeBotError
from scripted_server import answer, close, reset, silence

REPLIES = {
    "closed": close,
    "reset": reset,
    "silent": silence,
    "500": answer(500),
    "401 that repeats the key": answer(401, {"message": f"unknown key {KEY}"}),
    "redirect": answer(302, headers={"Location": "/elsewhere"}),
    "junk": answer(body=b"junk"),
}


def told_by(error: BaseException) -> str:
    """All that an error and those behind it tell, with the locals of every frame but the tests'."""
    told = []
    behind: BaseException | None = error
    while behind is not None:
        told += [
            str(behind),
            repr(behind),
            repr(vars(behind)),
            repr(getattr(behind, "__notes__", "")),
        ]
        for frame, _ in traceback.walk_tb(behind.__traceback__):
            if "tests" not in frame.f_code.co_filename:
                told += [f"{name}={value!r}" for name, value in frame.f_locals.items()]
        behind = behind.__cause__ or behind.__context__
    return "\n".join(told)


@pytest.mark.parametrize("reply", REPLIES)
@pytest.mark.parametrize("use", [create, upload])
def test_the_key_is_in_no_error_no_traceback_and_no_log(call, scripted, caplog, use, reply):
    server = scripted(REPLIES[reply])
    with caplog.at_level(1), pytest.raises(KnowledgeBotError) as caught:
        call(use, server.url, timeout=0.4 if reply == "silent" else 20, max_retries=0)
    told = told_by(caught.value)
    assert "POST /sources" in told
    assert KEY not in told
    assert KEY.encode() not in told.encode()
    assert {"knowledge_bot"} <= {record.name.partition(".")[0] for record in caplog.records}
    assert KEY not in caplog.text


def test_the_planted_key_would_be_found(call, scripted, caplog):
    with caplog.at_level(logging.INFO):
        logging.getLogger("somebody").info("the key is %s", KEY)
    assert KEY in caplog.text
    assert KEY in told_by(ValueError(KEY))
