"""What the index holds, what a question searches for, and where sentences end."""

# Letters of many scripts look alike.
# ruff: noqa: RUF001

import threading

import pytest
import snowballstemmer

from knowledge_bot_service.readers.analyzer import (
    index_terms,
    query_terms,
    sentences,
    small_talk,
)
from knowledge_bot_service.readers.analyzer.vectors import DIMENSIONS, vector


def searched(question):
    return {form for forms in query_terms(question).terms for form in forms}


def test_a_text_of_which_no_word_is_known_has_a_vector_of_zeros():
    assert vector("", "…") == bytes(DIMENSIONS)


def test_terms_are_stems_in_the_order_of_the_text():
    assert index_terms("The companies were running") == ["the", "compani", "were", "run"]


def test_a_possessive_s_is_no_word_and_belongs_to_none():
    assert index_terms("the company's office, James’s desk") == [
        "the",
        "compani",
        "offic",
        "jame",
        "desk",
    ]


def test_numbers_are_found_with_and_without_their_thousands_separator():
    assert index_terms("1,000,000") == index_terms("1000000") == ["1000000"]
    assert index_terms("3.5 and 12,34") == ["3ꞏ5", "3", "5", "and", "12", "34"]


@pytest.mark.parametrize(
    ("text", "word", "term"),
    [
        ("Die Häuser und die Straßen sind alt, aber sie sind schön.", "Häuser", "haus"),
        ("Las naciones que son de la región no están en el mapa.", "naciones", "nacion"),
        ("Книги были на столе, и они не читали их.", "книгами", "книг"),
        ("Les nations et les villes que nous aimons sont dans le nord.", "villes", "vill"),
        ("Odalarda ocak yasaktır.", "odalarda", "oda"),
        ("Pesutupa ei aukea.", "avaimissa", "avaim"),
    ],
)
def test_words_are_stemmed_in_the_language_of_their_text(text, word, term):
    assert term in index_terms(f"{text} {word}")


def test_diacritics_do_not_keep_a_word_from_being_found():
    assert index_terms("Łódź Ærø İstanbul café")[-1] == index_terms("cafe")[0]
    assert index_terms("İzmir") == index_terms("Izmir")


def test_vowel_signs_stay_where_they_are_vowels():
    (term,) = index_terms("हिन्दी")
    assert term.startswith("हिन्द")


@pytest.mark.parametrize("text", ["黑豹队的防守", "ทีมรับของ", "日本語の本", "축구단"])
def test_scripts_without_word_boundaries_are_indexed_in_pairs(text):
    assert index_terms(text) == [text[i : i + 2] for i in range(len(text) - 1)]


def test_a_single_character_between_other_scripts_is_a_term():
    assert index_terms("A猫B") == ["a", "猫", "b"]


def test_terms_hold_no_character_that_the_index_would_split_them_at():
    text = 'snake_case don\'t e-mail a/b "quoted" * ^ ( OR ) NEAR/2 ½ x² ﬁne 3:4 \ud800 \0'
    assert all(term.isalnum() for term in index_terms(text))


def test_a_text_without_words_has_no_terms():
    assert index_terms(" \n … --- 🙂") == []


@pytest.mark.parametrize(
    ("question", "language", "terms"),
    [
        ("Who wrote the first book about whales?", "en", {"wrote", "first", "book", "whale"}),
        ("Wie viele Einwohner hat die Stadt?", "de", {"einwohn", "stadt"}),
        ("黑豹队丢了多少分数？", "zh", {"黑豹", "豹队", "分数"}),
        ("日本の首都はどこですか？", "ja", {"日本", "首都"}),
        ("日本国憲法公布年は？", "ja", {"憲法", "公布"}),
        ("한국의 수도는 어디입니까?", "ko", {"한국", "수도"}),
        ("เมืองหลวงของไทยคืออะไร", "th", {"มื", "ไท"}),
        ("Сколько книг было в библиотеке?", "ru", {"книг", "библиотек"}),
        ("¿Cuántos habitantes tiene la ciudad?", "es", {"habit", "ciud"}),
    ],
)
def test_what_asks_or_joins_is_not_searched_for(question, language, terms):
    assert query_terms(question).language == language
    assert terms <= searched(question)
    assert not searched(question) & {"who", "the", "wie", "viel", "hat", "сколько", "多少", "la"}


def test_the_words_of_a_question_keep_their_order_and_come_once():
    assert query_terms("whale boat whale").terms == (("whale",), ("boat",))


def test_a_word_is_searched_for_in_each_form_that_the_index_may_have():
    (forms,) = query_terms("Wo sind die Universitäten?").terms
    assert set(index_terms("Die Universitäten sind in der Stadt und nicht auf dem Land")) & set(
        forms
    )
    assert set(index_terms("Universitäten")) & set(forms)


def test_a_question_of_nothing_but_small_words_searches_for_all_of_them():
    assert query_terms("What is it?").terms == (("what",), ("is",), ("it",))


@pytest.mark.parametrize("question", ["", "???", "🙂", "\0", "\ud800"])
def test_a_question_without_words_searches_for_nothing(question):
    assert query_terms(question).terms == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Dr. Smith met Mr. J. R. Jones. He left.", ["Dr. Smith met Mr. J. R. Jones.", "He left."]),
        ("It costs 3.5 million. That is much.", ["It costs 3.5 million.", "That is much."]),
        ("Use a tool, e.g. Make. Then stop.", ["Use a tool, e.g. Make.", "Then stop."]),
        (
            "They moved to the U.S. The U.S. Army came.",
            ["They moved to the U.S.", "The U.S. Army came."],
        ),
        (
            "Am 3. Oktober kam z.B. Anna. Es war kalt.",
            ["Am 3. Oktober kam z.B. Anna.", "Es war kalt."],
        ),
        ("He said “Stop!” She did.", ["He said “Stop!”", "She did."]),
        ("他走了。她来了！你呢？", ["他走了。", "她来了！", "你呢？"]),
        ("वह गया। वह आई।", ["वह गया।", "वह आई।"]),
        ("See knowledge.example.com for more.", ["See knowledge.example.com for more."]),
    ],
)
def test_sentences_end_where_a_reader_ends_them(text, expected):
    assert sentences(text) == expected


def test_headings_and_list_items_are_sentences_of_their_own():
    text = "Opening hours\nThe office opens at nine.\n\n- Monday\n- Tuesday\n\n1. Knock\n2. Enter"
    assert sentences(text) == [
        "Opening hours",
        "The office opens at nine.",
        "- Monday",
        "- Tuesday",
        "1. Knock",
        "2. Enter",
    ]


def test_long_list_items_do_not_run_into_each_other():
    items = [f"- {letter * 60}" for letter in "abc"] + [f"{n}. {'d' * 60}" for n in (1, 2)]
    assert sentences("\n".join(items)) == items


def test_a_sentence_goes_on_over_wrapped_lines():
    text = "The office of the company in the old town opens every\nday at nine. It closes at\nfive."
    assert sentences(text) == [
        "The office of the company in the old town opens every day at nine.",
        "It closes at five.",
    ]


def test_a_long_thai_text_is_split_between_its_clauses():
    text = " ".join(["ทีมรับของแพนเธอร์เสียคะแนน"] * 20)
    assert len(sentences(text)) > 3
    assert " ".join(sentences(text)) == text


@pytest.mark.parametrize(
    "text",
    ["." * 200_000, "a. " * 60_000, "\n" * 200_000, "x\n" * 60_000, " " * 200_000, "[1]" * 50_000],
)
@pytest.mark.timeout(60)  # in time that grows with the square of the length, it takes minutes
def test_hostile_texts_are_split_in_time_proportional_to_their_length(text):
    sentences(text)
    index_terms(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Hello!", "greeting"),
        ("hi there", "greeting"),
        ("How are you?", "greeting"),
        ("Guten Tag", "greeting"),
        ("你好", "greeting"),
        ("สวัสดีครับ", "greeting"),
        ("!", "greeting"),
        ("Thanks a lot!", "thanks"),
        ("thank you", "thanks"),
        ("ok, great", "thanks"),
        ("谢谢", "thanks"),
        ("Bye!", "farewell"),
        ("See you later", "farewell"),
        ("Who are you?", "introduction"),
        ("What can you do?", "introduction"),
    ],
)
def test_small_talk_is_told_by_its_kind(text, kind):
    assert small_talk(text) == kind


@pytest.mark.parametrize(
    "text",
    [
        "Thanks, when does the office open?",
        "Who is Hello Kitty?",
        "hours",
        "vacation days",
        "营业时间",
    ],
)
def test_a_question_is_no_small_talk(text):
    assert small_talk(text) is None


def test_threads_get_the_same_terms_as_one_alone():
    words = [f"running{number}s nationalities{number}" for number in range(300)]
    found: list[list[list[str]]] = []

    def analyse():
        found.append([index_terms(word) for word in words])

    threads = [threading.Thread(target=analyse) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stem = snowballstemmer.stemmer("english").stemWord
    assert found == [[[stem(part) for part in word.split()] for word in words]] * 4
