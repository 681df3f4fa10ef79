"""`@task.knowledge_bot_ingest`, in runs of a real worker."""

import datetime as dt

import pytest

from nightly import nightly

DAY = dt.datetime(2026, 2, 1, tzinfo=dt.UTC)


def names(server):
    return sorted(one.value["name"] for one in server.requests)


BODIES = {
    "generator": """
        @task.knowledge_bot_ingest(collections="col_1", ledger_conn_id="ledger")
        def feed():
            yield {"name": "a", "content": "{{ b }}"}
            yield Text(name="b", content="c")
        feed()
    """,
    "list": """
        @task.knowledge_bot_ingest(collections="col_1", ledger_conn_id="ledger")
        def feed() -> list[dict]:
            return [{"name": "a", "content": "c"}, {"name": "b", "content": "c"}]
        feed()
    """,
    "arguments and context": """
        @task.knowledge_bot_ingest(collections="{{ params.collection }}", ledger_conn_id="ledger")
        def feed(first, second, ds, *, ti=None, **context):
            assert (ds, ti.task_id) == ("2026-02-01", "feed")
            assert context["params"]["collection"] == "col_1"
            for name in (first, second):
                yield {"name": name, "content": "c"}
        dag.params["collection"] = "col_1"
        feed("a", second="{{ 'b' }}")
    """,
    "what an upstream task gives": """
        @task.knowledge_bot_ingest(collections="col_1", ledger_conn_id="ledger")
        def feed(rows, jinja_env=None):
            for row in rows:
                yield {"name": jinja_env.from_string(row).render(), "content": "c"}
        feed(upstream(["a", "b"]))
    """,
    "without parentheses": """
        dag.default_args["ledger_conn_id"] = "ledger"
        dag.default_args["collections"] = "col_1"
        @task.knowledge_bot_ingest
        def feed():
            yield {"name": "a", "content": "c"}
            yield {"name": "b", "content": "c"}
        feed()
    """,
    "mapped": """
        @task.knowledge_bot_ingest(collections="col_1", ledger_conn_id="ledger")
        def feed(name):
            yield {"name": name, "content": "c"}
        feed.expand(name=["a", "b"])
    """,
    "overridden": """
        @task.knowledge_bot_ingest(collections="col_9", ledger_conn_id="ledger")
        def feed():
            yield {"name": "a", "content": "c"}
            yield {"name": "b", "content": "c"}
        feed.override(collections="col_1", concurrency=1)()
    """,
}


@pytest.mark.parametrize("body", nightly(BODIES, but=1))
def test_what_a_function_yields_or_returns_is_ingested(dags, good, ledger, body):
    run = dags.run(dags.load(BODIES[body]), logical_date=DAY)
    assert run.state == "success", run.log
    assert names(good) == ["a", "b"]
    assert all(one.value["collections"] == ["col_1"] for one in good.requests)
    assert "Ingesting items of the function 'feed' into col_1" in run.log


@pytest.mark.parametrize(
    ("function", "options", "error", "expected"),
    [
        ("async def feed(): return []", "", ValueError, "'feed' is asynchronous"),
        ("async def feed(): yield {}", "", ValueError, "'feed' is asynchronous"),
        ("def feed(): return []", ", origin=[]", TypeError, "takes no 'origin'"),
        ("def feed(shop): return []", "", TypeError, "shop"),
        ("def feed(): return []", ", concurrency=0", ValueError, "concurrency"),
    ],
)
def test_what_no_run_could_use_is_named_when_the_dag_is_parsed(
    dags, function, options, error, expected
):
    given = f'collections="col_1", ledger_conn_id="ledger"{options}'
    with pytest.raises(error, match=expected):
        dags.load(f"@task.knowledge_bot_ingest({given})\n{function}\nfeed()")
