"""The models: frozen, open to new fields, and faithful to the interface's JSON."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from calls import MESSAGE, SOURCE
from knowledge_bot import Header, Message, Source


def test_a_source_round_trips_through_json():
    assert Source.model_validate(SOURCE).model_dump(mode="json") == SOURCE


@given(st.integers(min_value=30_000_000_000, max_value=4_000_000_000_000))
def test_no_millisecond_of_a_timestamp_is_lost(milliseconds):
    message = Message.model_validate({**MESSAGE, "created_at": milliseconds})
    assert message.created_at.utcoffset() == timedelta(0)
    assert message.model_dump(mode="json")["created_at"] == milliseconds


def test_a_timestamp_without_a_zone_is_utc_wherever_this_runs(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    message = Message.model_validate({**MESSAGE, "created_at": "2023-11-14T22:13:20"})
    monkeypatch.undo()
    time.tzset()
    assert message.created_at == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def test_a_model_cannot_be_changed():
    with pytest.raises(ValidationError):
        Source.model_validate(SOURCE).status = "ready"


def test_a_header_does_not_show_its_value():
    header = Header(name="Authorization", value="Bearer secret")
    assert "secret" not in repr(header) + str(header) + f"{[header]}"


def test_a_header_that_is_none_does_not_show_its_value_either():
    with pytest.raises(ValidationError) as caught:
        Header(name="Authorization", value=["Bearer secret"])
    assert "secret" not in str(caught.value)
