"""What any service is asked for, and the header that announces what it can beyond that."""

import pytest

from conformance.kit import Kit, has
from knowledge_bot._extensions import HEADER, spoken


def test_create(kit: Kit) -> None:
    """A source has id, name, collections, status and created_at."""
    text = kit.text()
    source = kit.add(text).done()
    assert str(source["id"]).startswith("src_"), "its id does not begin with src_"
    has(source, name=text["name"], created_at=int, status=str)
    assert [one["id"] for one in source["collections"]] == text["collections"], "in others"


def test_announcement(kit: Kit) -> None:
    """The header of a ping is a dictionary of RFC 9651."""
    header = kit.send("GET", "/ping").headers.get(HEADER)
    if header is None:
        pytest.skip("nothing is announced")
    spoken(header)
