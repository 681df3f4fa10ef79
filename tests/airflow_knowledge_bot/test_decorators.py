"""A function whose text becomes a source."""

import pytest
from airflow.sdk import DAG, task

from airflow_knowledge_bot._compat import AirflowFailException
from calls import SOURCE
from scripted_server import answer


@pytest.fixture
def server(connect, scripted):
    running = scripted(answer(body={"value": SOURCE}))
    connect(running.url, default_collection_id="col_d")
    return running


def operator_of(function, *arguments, **keywords):
    with DAG("decorated"):
        return function(*arguments, **keywords).operator


def test_what_the_function_returns_becomes_a_source(server):
    @task.knowledge_bot_text(name="Stock of {{ ds }}", collections="col_1")
    def stock(shop, ds=None):
        return f"{shop}, {ds}: {{{{ no template }}}}"

    operator = operator_of(stock, "Harbour")
    context = {"ds": "2026-03-01"}
    operator.render_template_fields(context)
    assert operator.execute(context)["id"] == "src_1"
    assert server.requests[0].json()["value"] == {
        "name": "Stock of 2026-03-01",
        "collections": ["col_1"],
        # The function's text is sent as it is, whatever braces it holds.
        "content": "Harbour, 2026-03-01: {{ no template }}",
    }


def test_without_parentheses_the_source_is_named_as_the_function(server):
    @task.knowledge_bot_text
    def stock():
        return "Seven saws."

    operator_of(stock).execute({})
    assert server.requests[0].json()["value"]["name"] == "stock"
    assert server.requests[0].json()["value"]["collections"] == ["col_d"]


@pytest.mark.parametrize("returned", [None, 7, b"bytes"])
def test_a_function_that_returns_no_text_fails_for_good_and_is_named(server, returned):
    @task.knowledge_bot_text
    def stock():
        return returned

    with pytest.raises(AirflowFailException, match="'stock' returned"):
        operator_of(stock).execute({})
    assert server.requests == []


def test_content_is_not_taken_beside_the_function():
    @task.knowledge_bot_text(content="Seven saws.")
    def stock():
        return ""

    with pytest.raises(TypeError, match="the function returns it"):
        operator_of(stock)
