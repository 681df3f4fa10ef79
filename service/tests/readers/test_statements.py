"""What the index has of a passage tells its headings and its statements apart again."""

from knowledge_bot_service.readers.analyzer.vectors import DIMENSIONS
from knowledge_bot_service.readers.documents.markdown import read_markdown
from knowledge_bot_service.readers.statements import indexed, parted, statements

TEXT = """# Lamps

Whom do I ask? Petra keeps them. They are in the yard.

## Bulbs

They come in two sizes:

- large
- small

# Keys
"""


def test_each_statement_of_the_index_has_the_terms_that_it_stands_under():
    blocks = [*read_markdown(TEXT).blocks]
    body, vectors = indexed(blocks)
    headings, found = parted(body)
    assert headings == ["lamp", "bulb", "key"]
    assert len(found) == len(statements(blocks)) == len(vectors) // DIMENSIONS
    by_words = {" ".join(own): under for under, own in found}
    assert by_words["petra keep them"] == ["lamp", "whom", "do", "i", "ask"]
    assert by_words["larg"][:2] == ["lamp", "bulb"]
    assert "size" in by_words["larg"]
    assert "size" in by_words["small"]
    assert by_words["they are in the yard"][:1] == ["lamp"]


def test_a_passage_of_headings_alone_is_found_by_them():
    headings, found = parted(indexed([*read_markdown("# Keys\n\n## Locks\n").blocks])[0])
    assert headings == ["key", "lock"]
    assert [own for _, own in found] == [["key"], ["lock"]]
