"""What counts as a change of a page, and what changes by itself."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_bot.ingest.sources._changes import alike, as_noise, differences, digest_of, hashed
from knowledge_bot.ingest.sources._pages import Remembered

TEXT = ("Tools are lent for fourteen days.", "Whoever is late pays one euro.", "We close at six.")


def read(*blocks: str) -> Remembered:
    """A page as one reading finds it."""
    return Remembered(
        "plain", version=digest_of(blocks), text=digest_of(blocks), blocks=hashed(blocks)
    )


def nights(*readings: tuple[str, ...]) -> list[bool]:
    """Return for each night after the first whether the page counts as changed."""
    known, found = read(*readings[0]), []
    for blocks in readings[1:]:
        before, known = known, Remembered.unpacked(known.followed_by(read(*blocks)).packed())
        found.append(known.version != before.version)
    return found


def with_noise(line: str, *numbers: object) -> list[tuple[str, ...]]:
    return [(TEXT[0], line.format(number), *TEXT[1:]) for number in numbers]


def test_words_that_change_by_themselves_count_twice_and_numbers_once():
    quotes = with_noise("Today: {}", "all is well", "the sun", "a bird", "an egg", "tea", "rain")
    assert nights(*quotes) == [True, True, False, False, False]
    degrees = with_noise("It is {} degrees outside.", *range(6))
    assert nights(*degrees) == [True, False, False, False, False]


@pytest.mark.parametrize(
    "line",
    [
        "Page generated at 12:0{}:11.",
        "Last edited {} minutes ago by Mia.",
        "{}10 people have read this.",
        "Zuletzt aktualisiert am {}.11.2026",
    ],
)
def test_a_number_in_what_a_page_says_of_itself_never_counts(line):
    assert nights(*with_noise(line, *range(4))) == [False, False, False]


def test_a_sentence_that_changes_beside_noise_counts_and_so_does_a_new_one():
    clock = "It is {} degrees outside."
    known = [*with_noise(clock, *range(4))]
    head, line, *rest = with_noise(clock, 5)[0]
    late = (head, line, "Whoever is late pays two euros.", rest[1])
    more = (head, clock.format(6), "We also lend ladders.", *rest)
    assert nights(*known, late) == [True, False, False, True]
    assert nights(*known, more) == [True, False, False, True]
    moved = (rest[0], line, head, rest[1])
    assert nights(*known, moved)[-1]


def test_noise_that_stays_the_same_for_a_week_counts_again():
    price = "A drill costs {} euros a day."
    changing = with_noise(price, 5, 6, 7, 8)
    assert nights(*changing) == [True, False, False]
    week = with_noise(price, *[8] * 7)
    assert nights(*changing, *week) == [True, False, False, *[False] * 6, True]
    # From then on it is a sentence like any other.
    assert nights(*changing, *week, *with_noise(price, 8, 9))[-2:] == [False, True]


def test_what_differs_between_two_readings_at_once_is_noise_from_then_on():
    one, two, three = (read(*blocks) for blocks in with_noise("Advert: {}", "tea", "cars", "soap"))
    noise = as_noise(differences(two.blocks, three.blocks, (one.blocks,)) or {})
    known = replace(one, places=noise).followed_by(two)
    assert known.version == one.version
    changed = read(TEXT[0], "Advert: tea", "Late is late.", TEXT[2])
    assert known.followed_by(changed).version == changed.version


def test_a_page_of_very_many_blocks_is_compared_as_a_whole():
    many = [f"Line {number}." for number in range(2001)]
    assert hashed(many) == ()
    assert nights(tuple(many), tuple(many), (*many[:-1], "Another.")) == [False, True]


def test_a_page_is_alike_where_nearly_all_of_it_stands():
    whole = hashed(f"Line {number}" for number in range(20))
    assert alike(whole[:19] + hashed(["Another"]), whole)
    assert not alike(whole[:17] + hashed(["One", "two", "three"]), whole)
    assert not alike((), whole)


@given(
    st.lists(st.lists(st.sampled_from("abcdef1"), max_size=6).map(tuple), min_size=2, max_size=30)
)
def test_the_service_has_what_stands_on_a_page_that_came_to_rest(readings):
    """However a page changed: once it is left alone, what was sent is what it says."""
    known = read(*readings[0])
    sent = known.blocks
    for blocks in itertools.chain(readings, itertools.repeat(readings[-1], 8)):
        now = read(*blocks)
        before, known = known, known.followed_by(now)
        if known.version != before.version:
            sent = now.blocks
    assert sent == hashed(readings[-1])
