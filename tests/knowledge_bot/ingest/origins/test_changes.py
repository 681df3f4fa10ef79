"""What counts as a change of a page, and what does not count."""

from hypothesis import given
from hypothesis import strategies as st

from knowledge_bot.origins._changes import places_of, without

TEXT = ("Tools are lent for fourteen days.", "Whoever is late pays one euro.", "We close at six.")


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


@given(*[st.lists(st.sampled_from("abcdef"), max_size=9) for _ in range(2)])
def test_what_is_left_of_two_readings_at_once_is_the_same_or_nothing_is_left_out(one, two):
    places = places_of(one, two)
    assert not places or without(one, places) == without(two, places)
