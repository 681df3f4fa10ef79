"""What counts as a change of a page, and what does not count."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_bot.origins._changes import alike, counting, digest_of, hashed, places_of, without

TEXT = ("Tools are lent for fourteen days.", "Whoever is late pays one euro.", "We close at six.")
NIGHT = datetime(2026, 11, 27, 1, 30, 20, tzinfo=UTC)
NEXT = datetime(2026, 11, 28, 2, 45, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Page generated at 12:07:11.", "Page generated at 12:09:33.", True),
        ("Last edited 5 minutes ago by Mia.", "Last edited 9 minutes ago by Mia.", True),
        ("Last edited 5 minutes ago by Mia.", "Last edited 5 minutes ago by Ada.", False),
        ("410 people have read this.", "512 people have read this.", True),
        ("Zuletzt aktualisiert am 1.11.2026", "Zuletzt aktualisiert am 2.11.2026", True),
        ("It is 2026-11-27.", "It is 2026-11-28.", True),
        ("Freitag, 27. November 2026", "Freitag, 28. November 2026", True),
        ("27.11.2026", "28.11.2026", True),
        ("November 27, 2026", "November 28, 2026", True),
        ("11/27/2026", "11/28/2026", True),
        ("le 27 novembre 2026", "le 28 novembre 2026", True),
        ("27 de noviembre de 2026", "28 de noviembre de 2026", True),
        ("The market is on 4 December 2026.", "The market is on 5 December 2026.", False),
        ("It is 1:30 am.", "It is 2:44 am.", True),
        ("01:29", "02:46", True),
        ("The desk opens at 9:00.", "The desk opens at 9:30.", False),
        ("The water has 16 degrees.", "The water has 17 degrees.", False),
        ("The dish of the day is lentil soup.", "The dish of the day is pea curry.", False),
        ("Week 2026-99-99", "Week 2026-99-98", False),
        ("The ratio is 25:99.", "The ratio is 26:99.", False),
    ],
)
def test_only_the_present_time_and_what_a_page_says_of_itself_do_not_count(one, other, same):
    first, second = (counting([TEXT[0], one], NIGHT), counting([TEXT[0], other], NEXT))
    assert (digest_of(first) == digest_of(second)) is same


def test_what_differs_between_two_readings_at_once_does_not_count_and_all_else_does():
    one, two = ((TEXT[0], f"Advert: {what}", *TEXT[1:]) for what in ("tea", "cars"))
    places = places_of(one, two)
    assert without(one, places) == without(two, places) == list(TEXT)
    more = (TEXT[0], "Advert: tea", "We also lend ladders.", *TEXT[1:])
    assert without(more, places) == list(more)
    late = (TEXT[0], "Advert: tea", "Late is late.", TEXT[2])
    assert without(late, places) != list(TEXT)
    assert places_of(one, (TEXT[1], "Advert: cars", TEXT[0], TEXT[2])) == []  # moved
    begin, end = (("Advert: tea", *TEXT, "No 1"), ("Advert: cars", *TEXT, "No 2"))
    assert without(begin, places_of(begin, end)) == list(TEXT)


def test_a_page_of_which_most_changes_by_itself_is_sent():
    one, two = (
        [line for number in range(40) for line in (f"Line {number}.", f"{what} {number}")]
        for what in ("tea", "cars")
    )
    assert places_of(one, two) == []


def test_a_page_is_alike_where_nearly_all_of_it_stands():
    whole = hashed(f"Line {number}" for number in range(20))
    assert alike(whole[:19] + hashed(["Another"]), whole)
    assert not alike(whole[:17] + hashed(["One", "two", "three"]), whole)
    assert not alike((), whole)


@given(*[st.lists(st.sampled_from("abcdef"), max_size=9) for _ in range(2)])
def test_what_is_left_of_two_readings_at_once_is_the_same_or_nothing_is_left_out(one, two):
    places = places_of(one, two)
    assert not places or without(one, places) == without(two, places)
