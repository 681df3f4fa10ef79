"""Documents through a pipeline into a collection, each exactly once, whatever fails."""

import logging
import pickle
from collections import Counter

import pytest
from llama_index.core.ingestion import IngestionCache, IngestionPipeline
from llama_index.core.node_parser import TokenTextSplitter
from llama_index.core.readers.base import BaseReader
from llama_index.core.schema import Document, ImageDocument, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore

from calls import KEY, both_ways
from knowledge_bot import AsyncClient, Client, UnsupportedError
from knowledge_bot.ingest import IncompleteIngestionError, Ledger
from knowledge_bot.testing import MemoryService
from llama_index_knowledge_bot import CollectionSink
from numbering_bots import received
from pipeline_steps import FailsOnce, StepError
from refusals import refused
from served import served

pytestmark = pytest.mark.timeout(120)

NAMES = [f"page {number}" for number in range(6)]


def documents(names=NAMES, text="Text of {}."):
    return [
        Document(text=text.format(name), id_=f"id of {name}", metadata={"file_name": name})
        for name in names
    ]


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger.db")


run_pipeline = both_ways("run", "arun")


@pytest.fixture
def run(run_pipeline):
    """`run(steps, documents)`: run a pipeline, new or given."""

    def start(steps, given, **options):
        pipeline = steps
        if not isinstance(steps, IngestionPipeline):
            pipeline = IngestionPipeline(transformations=steps)
        return run_pipeline(pipeline, documents=given, **options)

    return start


def sink_of(client, ledger, **options):
    return CollectionSink("col_1", ledger=ledger, client=client, **options)


def names(service):
    return sorted(one["name"] for one in received(service))


@pytest.mark.parametrize("disable_cache", [False, True], ids=["cache", "no cache"])
@pytest.mark.parametrize("position", ["before", "after"])
def test_a_step_that_fails_loses_no_document_and_doubles_none(  # noqa: PLR0917
    run, client, service, tmp_path, position, disable_cache
):
    marker, ledger = tmp_path / "marker", tmp_path / "ledger.db"
    marker.touch()
    failing = FailsOnce(name="page 3", marker=str(marker))
    steps = [sink_of(client, ledger)]
    steps.insert(0 if position == "before" else 1, failing)
    pipeline = IngestionPipeline(transformations=steps, disable_cache=disable_cache)
    with pytest.raises(StepError):
        run(pipeline, documents())
    run(pipeline, documents())
    assert names(service) == NAMES


@pytest.mark.slow
def test_worker_processes_lose_no_document_and_double_none(service, ledger, tmp_path):
    marker = tmp_path / "marker"
    marker.touch()
    with served(service) as url:
        steps = [FailsOnce(name="page 4", marker=str(marker)), sink_of(Client(KEY, url), ledger)]
        pipeline = IngestionPipeline(transformations=steps)
        with pytest.raises(StepError):
            pipeline.run(documents=documents(), num_workers=2)
        assert len(names(service)) < len(NAMES)
        pipeline.run(documents=documents(), num_workers=2)
    assert names(service) == NAMES
    assert {request.headers["x-api-key"] for request in service.requests} == {KEY}


def test_before_a_splitter_documents_arrive_whole_and_nodes_go_on(run, client, service, ledger):
    text = "word " * 900 + "\n\n\nThe end.\n"
    long = Document(text=text, id_="long")
    splitter = TokenTextSplitter(chunk_size=100, chunk_overlap=20)
    expected = run([splitter], [*documents(), long])
    nodes = run([sink_of(client, ledger), splitter], [*documents(), long])
    assert [node.get_content() for node in nodes] == [node.get_content() for node in expected]
    assert text in [one["content"] for one in received(service)]
    assert names(service) == ["long", *NAMES]


def test_parts_are_refused_with_the_advice_to_come_first(run, client, service, ledger):
    splitter = TokenTextSplitter(chunk_size=20, chunk_overlap=5)
    given = documents(["page 0"], "word " * 100)
    advice = r"page 0: invalid, it came split, .* put the sink before the splitter"
    with pytest.raises(IncompleteIngestionError, match=advice) as caught:
        run([splitter, sink_of(client, ledger)], given)
    assert (caught.value.report.invalid, service.requests) == (1, [])


def test_of_several_documents_with_one_id_none_is_sent(run, client, service, ledger):
    twice = [Document(text=f"Text {n}.", id_="same") for n in range(2)]
    with pytest.raises(IncompleteIngestionError, match="several documents have its id, 'same'"):
        run([sink_of(client, ledger)], [*twice, *documents(["a"])])
    assert names(service) == ["a"]


def test_one_document_that_is_given_twice_is_one_source(run, client, service, ledger):
    run([sink_of(client, ledger)], documents(["a"]) * 2)
    assert names(service) == ["a"]


def test_documents_with_ids_made_up_by_the_framework_are_recognised(run, client, service, ledger):
    for _ in range(2):
        given = [Document(text=f"Text {n}.", metadata={"file_name": "same.pdf"}) for n in range(3)]
        run([sink_of(client, ledger)], [*given, Document(text="No name at all.")])
    assert names(service) == ["No name at all.", "same.pdf", "same.pdf", "same.pdf"]


@pytest.mark.parametrize("name", ["blank", None], ids=["id of its own", "id made up"])
def test_a_document_without_text_is_skipped_and_named(  # noqa: PLR0917
    run, client, service, ledger, caplog, name
):
    document = Document(text=" \n", **({} if name is None else {"id_": name}))
    run([sink_of(client, ledger)], [document, *documents()])
    assert names(service) == NAMES
    text = f"Documents that were skipped: 1 ({document.id_}: it has no content)"
    assert ("llama_index_knowledge_bot.sink", logging.WARNING, text) in caplog.record_tuples


def test_an_image_without_text_is_reported_and_the_others_are_there(run, client, service, ledger):
    image = ImageDocument(text="", image=b"x", id_="photo")
    with pytest.raises(IncompleteIngestionError, match="photo: invalid, it is an image; "):
        run([sink_of(client, ledger)], [image, *documents()])
    assert names(service) == NAMES


def test_the_pipeline_s_cache_never_leaves_the_sink_out(run, client, service, tmp_path):
    pipeline = IngestionPipeline(
        transformations=[sink_of(client, Ledger(tmp_path / "first.db"))], cache=IngestionCache()
    )
    run(pipeline, documents(["a"]))
    pipeline.transformations = [sink_of(client, Ledger(tmp_path / "second.db"))]
    run(pipeline, documents(["a"]))
    assert names(service) == ["a", "a"]


@pytest.mark.filterwarnings("ignore:docstore_strategy=.*requires a vector store")
def test_what_a_docstore_held_back_is_there_after_a_run_without_it(run, client, service, ledger):
    steps = [sink_of(client, ledger, concurrency=1)]
    service.fail_next(400, message="not today")
    with pytest.raises(IncompleteIngestionError, match=r"docstore.*leave it out"):
        run(IngestionPipeline(transformations=steps, docstore=SimpleDocumentStore()), documents())
    run(steps, documents())
    assert Counter(names(service)) == Counter([*NAMES, received(service)[0]["name"]])


def test_the_error_survives_the_way_out_of_a_worker(client, service, ledger):
    service.fail_next(400, message="not today")
    pipeline = IngestionPipeline(transformations=[sink_of(client, ledger)])
    with pytest.raises(IncompleteIngestionError) as caught:
        pipeline.run(documents=documents(["a"]))
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.report == caught.value.report
    assert "not today" in str(again)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"collections": "bot_1"}, {"collections": []}, {"concurrency": 0}, {"rate": 0}),
        *({"on_unknown": "guess"}, {"wait_ready": -1}, {"origin": ""}),
    ],
    ids=str,
)
def test_an_argument_that_cannot_be_used_is_an_error_before_anything_is_sent(ledger, wrong):
    given = {"collections": "col_1", **wrong}
    with refused(*wrong):
        CollectionSink(**given, ledger=ledger, client=Client(KEY, "https://service.example"))


@pytest.mark.parametrize("name", ["concurency", "dry_run", "gone_limit"])
def test_an_option_that_a_sink_does_not_take_is_refused_and_not_ignored(ledger, name):
    with pytest.raises(TypeError, match=f"'{name}'"):
        CollectionSink("col_1", ledger=ledger, client=Client(KEY, "https://x.example"), **{name: 1})


def test_a_sink_is_written_down_without_key_and_ledger_and_read_back(client, service, tmp_path):
    address = "postgresql://kbot:password-of-the-ledger@db.example/kbot"
    sink = CollectionSink("col_1", ledger=address, client=client, concurrency=2, wait_ready=60)
    text = f"{sink.to_json()} {sink.to_dict()} {sink!r} {sink} {sink.model_dump()}"
    assert KEY not in text
    assert "password-of-the-ledger" not in text
    again = CollectionSink.from_json(
        sink.to_json(), ledger=Ledger(tmp_path / "x.db"), client=client
    )
    assert (again.collections, again.concurrency, again.wait_ready) == (["col_1"], 2, 60)
    assert len(again(documents(["a"]))) == 1
    assert names(service) == ["a"]


def test_nodes_without_a_document_are_documents_themselves(client, service, ledger):
    node = TextNode(text="alone", id_="one")
    assert sink_of(client, ledger)([node]) == [node]
    assert [(one["name"], one["content"]) for one in received(service)] == [("one", "alone")]


class Reader(BaseReader):
    def __init__(self, given):
        self.given = given

    def lazy_load_data(self):
        yield from self.given


def test_what_is_no_argument_of_a_sink_is_refused(client, service, ledger):
    sink = sink_of(client, ledger)
    for reader in (None, BaseReader):
        with refused("reader"):
            sink.sync(reader)
    for nodes in ("x", None, documents()[0], ["x"]):
        with refused("nodes"):
            sink(nodes)
    with refused("ledger"):
        sink_of(client, 5)
    with refused("ledger"):
        sink_of(client, "mysql://x")
    assert service.requests == []


delete = both_ways("delete_ref_doc", "adelete_ref_doc")


def test_without_a_ledger_the_service_knows_what_it_has(run, delete):
    service = MemoryService(collections=["col_1"], extensions={"sources", "sync"})
    client = Client(KEY, "https://service.test", transport=service.transport)
    awaiting = AsyncClient(KEY, "https://service.test", transport=service.async_transport)

    def sink():  # as in another process
        return CollectionSink("col_1", origin="o", client=client, async_client=awaiting)

    run([sink()], documents(NAMES[:3]))
    run([sink()], documents(NAMES[:2], "New text of {}."))
    assert sink().sync(Reader(documents(NAMES[1:3]))).removed == 1
    delete(sink(), "id of page 1")
    delete(sink(), "id of page 1")
    assert [one["name"] for one in service.sources] == ["page 2"]
    with refused("ledger"):
        CollectionSink("col_1", client=plain_client()).sync(Reader(documents()))
    with pytest.raises(UnsupportedError):
        delete(CollectionSink("col_1", client=plain_client()), "id of page 1")


def plain_client():
    transport = MemoryService(collections=["col_1"]).transport
    return Client(KEY, "https://service.test", transport=transport)
