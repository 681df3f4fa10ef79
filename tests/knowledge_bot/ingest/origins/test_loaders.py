"""Documents of loaders, by their methods; tests/test_loaders.py has loaders of frameworks."""

from dataclasses import dataclass, field

import pytest

from knowledge_bot.ingest import Skipped
from knowledge_bot.origins import (
    Loader,
)
from refusals import refused


@dataclass
class Document:
    """As LangChain's."""

    page_content: str
    metadata: dict = field(default_factory=dict)
    id: str | None = None


@dataclass
class Node:
    """As LlamaIndex's."""

    text: str
    metadata: dict = field(default_factory=dict)
    id_: str = "0a6b63a4-6a6a-4f5e-8d4e-0f9c2b1a7c11"  # such as it makes up anew each time


class Several:
    def __init__(self, *documents):
        self.documents = documents

    def lazy_load(self):
        yield from self.documents


PAGES = [Document(f"Page {n}.", {"source": "guide.pdf", "page": n}) for n in range(1, 8)]


def keys(items):
    return [item.key for item in items]


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ([Document("a", {"source": "x"}, id="known")], ["known"]),
        (PAGES[:3], ["guide.pdf", "guide.pdf (2)", "guide.pdf (3)"]),
        ([Document("a", {"file_path": "/x/a.md"})], ["/x/a.md"]),
        ([Document("a", {"url": "https://h/a"})], ["https://h/a"]),
        ([Node("a", {"file_path": "/x/a.md"})], ["/x/a.md"]),
        ([Node("a", {"file_path": "/x/a.md"}, id_="known")], ["known"]),
        (
            [Document("a"), Node("a")],
            ["ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"] * 2,
        ),
    ],
    ids=["id", "source", "file_path", "url", "made-up id", "id_", "text"],
)
def test_a_document_is_known_by_the_same_key_each_time(documents, expected):
    for _ in range(2):
        assert keys(Loader(Several(*documents)).items()) == expected


def test_a_document_is_named_by_its_title_its_file_its_source_or_its_first_line():
    documents = [
        Document("a", {"title": " Hours\n", "source": "a.html"}),
        Node("a", {"file_name": "a.md", "file_path": "/x/a.md"}),
        Document("a", {"source": "b.html"}),
        Document("One line.\nAnother."),
        Document(""),
    ]
    assert [item.name for item in Loader(documents, name="docs").items()] == [
        "Hours", "a.md", "b.html", "One line.", "(no name)",
    ]  # fmt: skip
    (item,) = Loader(
        [Document("a", {"number": 3})],
        name="docs",
        title=lambda each: f"number {each.metadata['number']}",
        key=lambda each: str(each.metadata["number"]),
    ).items()
    assert (item.name, item.key) == ("number 3", "3")


class OnlyAsync:
    async def alazy_load(self):
        for page in PAGES[:2]:
            yield page


class OnlyLoad:
    def load(self):
        return PAGES[:2]


class OnlyLoadData:
    def lazy_load_data(self):
        raise NotImplementedError("as LlamaIndex's readers have it")

    def load_data(self):
        return PAGES[:2]


class OnlyAloadData:
    async def aload_data(self):
        return PAGES[:2]


@pytest.mark.parametrize("kind", [OnlyAsync, OnlyLoad, OnlyLoadData, OnlyAloadData])
def test_a_loader_is_known_by_its_methods(kind):
    assert keys(Loader(kind()).items()) == ["guide.pdf", "guide.pdf (2)"]


def test_documents_are_taken_one_at_a_time():
    taken = []

    class Lazy:
        def lazy_load(self):
            for page in PAGES:
                taken.append(page)
                yield page

    items = iter(Loader(Lazy()).items())
    next(items)
    assert len(taken) == 1


class Breaking:
    def __init__(self, *, after=6):
        self.after = after

    def lazy_load(self):
        yield from PAGES[: self.after]
        raise ConnectionError("the wiki is away")


def test_of_a_loader_that_raises_at_the_seventh_the_six_before_are_sent(send, ledger):
    assert send(Loader(Several(*PAGES), name="guide"), ledger=ledger).created == 7
    report = send(Loader(Breaking(), name="guide"), ledger=ledger)
    assert (report.unchanged, report.invalid, report.gone) == (6, 1, 0)
    (said,) = report.failures
    assert said.name == "Breaking"
    assert "the wiki is away" in said.error


def test_what_a_loader_finds_no_longer_is_gone_where_it_has_a_name(send, ledger):
    for name, gone in (("", 0), ("guide", 0), ("guide", 2)):
        pages = PAGES[:5] if gone else PAGES
        assert send(Loader(Several(*pages), name=name), ledger=ledger).gone == gone


def test_documents_need_a_name_and_a_loader_has_its_class_s():
    assert Loader(Several()).name == "Several"
    with refused("name"):
        Loader([])


def test_what_is_no_document_is_named_and_the_rest_is_done():
    one, wrong, other = Loader([PAGES[0], {"title": "x"}, PAGES[1]], name="docs").items()
    assert [one.key, other.key] == ["guide.pdf", "guide.pdf (2)"]
    assert isinstance(wrong, Skipped)
    assert (wrong.name, wrong.invalid, wrong.partial) == ("the documents, document 2", True, True)


@pytest.mark.parametrize("loader", [3, "text", {"a": 1}, None, object()])
def test_what_is_no_loader_is_reported_at_once(loader):
    with refused("loader"):
        Loader(loader)
