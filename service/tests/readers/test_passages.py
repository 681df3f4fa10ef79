"""Where a text is cut, and that nothing of it is lost."""

import pytest

from knowledge_bot_service.readers import passages as cutting
from knowledge_bot_service.readers.analyzer.blocks import Block, text_of
from knowledge_bot_service.readers.documents.markdown import read_text
from knowledge_bot_service.readers.documents.text import tidy
from knowledge_bot_service.readers.passages import LIMIT


def passages(text):
    """The texts of the passages of a plain text."""
    return map(text_of, cutting.passages(read_text(tidy(text))))


def words(text):
    return text.split()


def test_paragraphs_are_joined_as_far_as_they_fit_and_never_cut():
    paragraphs = [f"Paragraph {number}. " + "word " * 40 for number in range(20)]
    cut = list(passages("\n\n".join(paragraphs)))
    assert 1 < len(cut) < 20
    assert all(LIMIT // 2 < len(one) <= LIMIT for one in cut)
    assert all(one.startswith("Paragraph") for one in cut)


def test_a_long_paragraph_is_cut_between_sentences():
    paragraph = " ".join(f"This is sentence number {number} of many." for number in range(200))
    cut = list(passages(paragraph))
    assert all(len(one) <= LIMIT and one.endswith("of many.") for one in cut)
    assert words(" ".join(cut)) == words(paragraph)


@pytest.mark.parametrize(
    "text",
    [
        "word " * 3000,
        "x" * 5500,
        "文" * 2500,
        "One. " * 900,
        "Short.\n\n" + "y" * 1001 + "\n\nShort again.",
        ("a" * 400 + " ") * 10,
    ],
)
def test_nothing_is_lost_or_doubled(text):
    cut = list(passages(text))
    assert all(0 < len(one) <= LIMIT for one in cut)
    assert "".join("".join(cut).split()) == "".join(text.split())


def test_the_rest_of_a_long_item_is_no_item_of_its_own():
    first, *rest = passages("- " + "word " * 600)
    assert first.startswith("- word")
    assert len(rest) > 1
    assert all(one.startswith("- …\n\n  word") for one in rest)


def test_the_lines_of_an_item_stand_under_its_first_word():
    items = [Block("item", "one\ntwo", 1, ("10.",)), Block("item", "three\nfour", 2, ("-",))]
    assert text_of(items) == "10. one\n    two\n    - three\n      four"


def test_code_stays_whole_with_what_introduces_it():
    code = "\n".join(["```", *(f"run step --number {number}" for number in range(40)), "```"])
    text = f"{'Before it. ' * 60}\n\nRun all of them:\n\n{code}\n\n{'After it. ' * 60}"
    assert [one for one in passages(text) if "run step" in one] == [f"Run all of them:\n\n{code}"]


def test_long_code_is_cut_between_lines_and_says_where_it_goes_on():
    lines = [f"run step --number {number}" for number in range(100)]
    code = "\n".join(["```", *lines, "```"])
    first, *_, last = cut = list(passages(f"Run all of them:\n\n{code}"))
    assert len(cut) > 2
    assert all(len(one) <= LIMIT for one in cut)
    assert first.endswith("\n…\n```")
    assert last.startswith("```\n…\n")
    assert [line for one in cut for line in one.split("\n") if line.startswith("run")] == lines


def table(*rows):
    names, *others = (" | ".join(cells) for cells in rows)
    rule = " | ".join("---" for _ in rows[0])
    return "\n".join([names, rule, *others])


def test_a_table_is_cut_between_rows_each_part_with_the_names_of_the_columns():
    rows = [[f"Boat {number}", f"{number} kg"] for number in range(200)]
    cut = list(passages(f"# Boats\n\n{table(['Boat', 'Weight'], *rows)}"))
    head, more = "# Boats\n\nBoat | Weight\n--- | ---\n", "… | …"
    assert len(cut) > 2
    assert cut[0].startswith(f"{head}Boat 0 ")
    assert cut[-1].endswith("Boat 199 | 199 kg")
    assert all(one.startswith(f"{head}{more}\nBoat ") for one in cut[1:])
    assert all(one.endswith(f" kg\n{more}") for one in cut[:-1])


def test_the_one_row_of_a_table_may_be_long():
    cut = list(passages(table(["Name", "Note"], ["Alpha", "word " * 600])))
    assert len(cut) > 1
    assert cut[0].startswith("Name: Alpha")


def test_a_long_row_and_a_wide_table_are_told_with_the_names_of_the_columns():
    note = " ".join(f"word{number}" for number in range(160))
    long = table(["Name", "Note", "Price"], ["Alpha", note, "77"], ["Beta", "", "5"])
    first, second = passages(f"Prices:\n\n{long}")
    assert first.startswith("Prices:\n\nName: Alpha; Note: word0 word1")
    assert second.endswith("word159; Price: 77\n\nName: Beta; Note: –; Price: 5")  # noqa: RUF001
    names = [f"Measure {number}" for number in range(40)]
    values = [[f"s{site}v{number}" for number in range(40)] for site in range(3)]
    text = "\n".join(passages(table(names, *values)))
    for site in range(3):
        assert f"Measure 30: s{site}v30" in text


@pytest.mark.parametrize("text", ["", " ", "\n\n \n\t\n", "\r\n\r\n"])
def test_an_empty_text_has_no_passages(text):
    assert list(passages(text)) == []


def test_windows_line_ends_separate_paragraphs():
    assert list(passages("One.\r\n\r\n" + "z" * 999)) == ["One.", "z" * 999]


@pytest.mark.parametrize("text", ["x" * 3_000_000, "\n" * 3_000_000, "\n \n" * 1_000_000])
@pytest.mark.timeout(30)  # in time that grows with the square of the length, it takes minutes
def test_the_time_grows_with_the_length_alone(text):
    for _ in passages(text):
        pass
