"""Every sentence that the product can say stands in one file: a change of words is one diff."""

import words


def test_the_sentences_are_those_that_were_approved():
    assert words.text() == words.APPROVED.read_text("utf-8"), "scripts/words shows what differs"
