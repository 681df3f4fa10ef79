"""What the reference shows otherwise than the code has it."""

import pytest

from docs.pages import ROOT
from knowledge_bot.ingest import Ingestion, IngestionOptions

griffe = pytest.importorskip("griffe")


@pytest.fixture(scope="module")
def ingestion():
    from docs.public_signatures import PublicSignatures

    extensions = griffe.Extensions(PublicSignatures())
    loader = griffe.GriffeLoader(extensions=extensions, search_paths=[ROOT / "connectors"])
    return loader.load("knowledge_bot")["ingest._run"]


@pytest.mark.parametrize("name", ["ingest", "aingest", "Ingestion.__init__"])
def test_a_function_shows_each_option_of_its_typed_dictionary_with_its_default(ingestion, name):
    shown = {one.name: one for one in ingestion[name].parameters if one.kind.name == "keyword_only"}
    assert shown.keys() == IngestionOptions.__annotations__.keys()
    assert shown["collections"].default is None
    assert str(shown["collections"].annotation) == "Collections"
    for option in shown.keys() - {"collections"}:
        assert str(shown[option].default) == repr(getattr(Ingestion, option))


def test_the_texts_of_the_options_stand_in_the_place_of_the_dictionary(ingestion):
    text = ingestion["ingest"].docstring.value
    _, _, options = ingestion["IngestionOptions"].docstring.value.partition("Attributes:\n")
    assert options.strip() in text
    assert "    options:" not in text
    assert text.index("    items:") < text.index("    collections:") < text.index("\nReturns:")
