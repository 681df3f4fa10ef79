"""What the reference shows otherwise than the code has it."""

import pytest

from docs.pages import ROOT
from knowledge_bot.checks import CheckOptions
from knowledge_bot.checks._run import Options
from knowledge_bot.ingest import Ingestion, IngestionOptions

griffe = pytest.importorskip("griffe")


OPTIONS = {"ingest": (IngestionOptions, Ingestion), "checks": (CheckOptions, Options)}


@pytest.fixture(scope="module")
def package():
    from docs.public_signatures import PublicSignatures

    extensions = griffe.Extensions(PublicSignatures())
    loader = griffe.GriffeLoader(
        extensions=extensions, search_paths=[ROOT / "connectors", ROOT / "service"]
    )
    return loader.load("knowledge_bot")


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("ingest", "ingest"),
        ("ingest", "aingest"),
        ("ingest", "Ingestion.__init__"),
        ("checks", "check"),
        ("checks", "acheck"),
    ],
)
def test_a_function_shows_each_option_of_its_typed_dictionary_with_its_default(
    package, folder, name
):
    options, kept = OPTIONS[folder]
    function = package[f"{folder}._run.{name}"]
    keywords = {one.name: one for one in function.parameters if one.kind.name == "keyword_only"}
    assert keywords.keys() == options.__annotations__.keys()
    required = {name for name, one in keywords.items() if one.default is None}
    assert required == options.__required_keys__
    for option in keywords.keys() - required:
        assert str(keywords[option].default) == repr(getattr(kept, option))


def test_a_required_option_is_shown_by_its_type_alone(package):
    (collections,) = (
        one for one in package["ingest._run.ingest"].parameters if one.name == "collections"
    )
    assert str(collections.annotation) == "Collections"


@pytest.mark.parametrize(("folder", "name"), [("ingest", "ingest"), ("checks", "check")])
def test_the_texts_of_the_options_stand_in_the_place_of_the_dictionary(package, folder, name):
    text = package[f"{folder}._run.{name}"].docstring.value
    dictionary = package[f"{folder}._run.{OPTIONS[folder][0].__name__}"]
    _, _, options = dictionary.docstring.value.partition("Attributes:\n")
    assert f"{options.rstrip()}\n\nReturns:" in text
    assert "    options:" not in text
