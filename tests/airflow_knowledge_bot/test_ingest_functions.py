"""Functions that give a task its items, in runs of a real worker, which renders a task first."""

import datetime as dt

import pytest

CALLABLES = """
    import functools

    class Shop:
        def texts(self, params):
            yield {"name": "of a method", "content": "c"}

        def __call__(self, ti):
            return [{"name": f"of an object in {ti.task_id}", "content": "c"}]

    def of_nothing():
        return [{"name": "of nothing", "content": "c"}]

    def of_params(params):
        return [{"name": f"of {params['shop']}", "content": "c"}]

    def of_parts(ds, ti, missing="default"):
        yield {"name": f"of {ds} in {ti.task_id}, {missing}", "content": "c"}

    def of_some(ds=None, **others):
        yield {"name": f"of {ds} and {'ti' in others} and {'ds' in others}", "content": "c"}

    def of_all(**context):
        yield Text(name=f"of all at {context['ds']}", content="c")

    def of_the_context(context, jinja_env):
        name = jinja_env.from_string("{{ params.shop }}").render(context)
        yield {"name": f"of the context of {name}", "content": "c"}

    def of_an_argument(shop, ds, *, ti):
        yield {"name": f"of {shop} at {ds} in {ti.task_id}", "content": "c"}

    def of_a_bound_part(ds, params):
        yield {"name": f"of the day {ds}", "content": "c"}

    def of_positions(*parts):
        yield {"name": f"of {len(parts)} positions", "content": "c"}

    def of_braces():
        yield {"name": "of {{ braces }}", "content": "{% raw"}

    items = {
        "a": of_nothing,
        "b": of_params,
        "c": of_parts,
        "d": of_some,
        "e": of_all,
        "f": of_the_context,
        "g": functools.partial(of_an_argument, "Harbour"),
        "h": functools.partial(of_a_bound_part, ds="bound"),
        "i": lambda: [{"name": "of a lambda", "content": "c"}],
        "j": lambda ds: ({"name": f"of a lambda at {ds}", "content": "c"} for _ in range(1)),
        "k": Shop().texts,
        "l": Shop(),
        "m": of_positions,
        "n": of_braces,
    }
    ---
    dag.params["shop"] = "Harbour"
    for task_id, function in items.items():
        ingest(task_id, origin=function)
"""

NAMES = [
    "of nothing",
    "of Harbour",
    "of 2026-02-01 in c, default",
    "of 2026-02-01 and True and False",
    "of all at 2026-02-01",
    "of the context of Harbour",
    "of Harbour at 2026-02-01 in g",
    "of the day bound",
    "of a lambda",
    "of a lambda at 2026-02-01",
    "of a method",
    "of an object in l",
    "of 0 positions",
    "of {{ braces }}",
]


def names(server):
    return [one.value["name"] for one in server.requests]


def test_a_function_of_every_signature_gives_its_items_to_a_real_worker(dags, good, ledger):
    run = dags.run(dags.load(CALLABLES), logical_date=day(1))
    assert {task.state for task in run.tasks.values()} == {"success"}, run.log
    assert sorted(names(good)) == sorted(NAMES)


def test_a_task_with_a_function_runs_again_and_shows_it_by_its_name(dags, good, ledger):
    dag = dags.load(
        """
        def of_today(ds):
            yield {"name": ds, "key": "today", "content": ds}
        ---
        ingest(origin=of_today, retries=0)
        """
    )
    for number in (1, 2):
        assert dags.run(dag, logical_date=day(number)).task.xcom["created"] == 1
    assert names(good) == ["2026-02-01", "2026-02-02"]
    # Airflow 3.1 shows where in memory it is, too.
    assert "of_today" in dags.rendered(dag, "ingest")["origin"]


def test_a_part_that_the_run_does_not_have_is_named(dags, good, ledger):
    dag = dags.load("ingest(origin=lambda ds: [])")
    run = dags.run(dag, logical_date=None)
    assert run.state == "failed"
    assert "missing a required argument: 'ds'" in run.log
    assert "take dag_run.run_after" in run.log


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("lambda shop: []", "'shop'"),
        ("asynchronous", "'asynchronous' is asynchronous; write it with 'def'"),
        ("asynchronous_generator", "is asynchronous"),
        ("functools.partial(asynchronous, 1)", "is asynchronous"),
        ("by_position", "positional.only.*'ds'|'ds'.*positional only"),
        ("a_task", "'a_task' is a task: call it, as in origin=a_task()"),
        ("Unwritten()", "'shop'"),
    ],
)
def test_a_function_that_no_run_could_call_is_named_when_the_dag_is_parsed(
    dags, function, expected
):
    body = f"""
        import functools

        async def asynchronous(ds):
            return []

        async def asynchronous_generator():
            yield {{}}

        def by_position(ds, /):
            return []

        @task
        def a_task():
            return []

        class Unwritten:
            def __call__(self, shop):
                return []
        ---
        ingest(origin={function})
        """
    with pytest.raises(ValueError, match=expected):
        dags.load(body)


@pytest.mark.parametrize("given", ["None", "'text'", "{'name': 'n', 'content': 'c'}", "7"])
def test_a_function_that_gives_no_items_fails_for_good_and_sends_nothing(dags, good, ledger, given):
    run = dags.run(dags.load(f"ingest(origin=lambda: {given}, retries=2)"))
    assert (run.state, run.task.try_number) == ("failed", 1)
    assert "'origin' gives" in run.log
    assert good.requests == []


@pytest.mark.parametrize("kind", ["return", "yield"])
def test_a_connection_that_a_function_misses_is_not_taken_for_the_task_s(dags, good, ledger, kind):
    dag = dags.load(
        f"""
        from airflow.sdk import BaseHook

        def rows():
            {kind} BaseHook.get_connection("the_shop_s")
        ---
        ingest(origin=rows)
        """
    )
    run = dags.run(dag)
    assert run.state == "failed"
    assert "The code that yields the items asks for a connection that does not exist: " in run.log
    assert "the_shop_s" in run.log
    assert "'knowledge_bot_conn_id'" not in run.log


ITEM = '{"name": "Helm {{ ds }}", "content": "{{ .Values.image }} {% x", "key": "k {{ ds }}"}'

MAPPED = """KnowledgeBotIngestOperator.partial(
    task_id="ingest", collections="col_1", ledger_conn_id="ledger"
)"""


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (f"ingest(origin=[{ITEM}])", "Helm 2026-02-01"),
        (f"ingest(origin=({ITEM},))", "Helm 2026-02-01"),
        # What an upstream task hands on is no template, as everywhere in Airflow.
        (f"ingest(origin=task(lambda: [{ITEM}], task_id='texts')())", "Helm {{ ds }}"),
        (f"{MAPPED}.expand(origin=[[{ITEM}]])", "Helm 2026-02-01"),
    ],
    ids=["list", "tuple", "upstream", "mapped"],
)
def test_braces_in_a_content_are_sent_as_they_are_and_names_are_templates(
    dags, good, ledger, body, name
):
    run = dags.run(dags.load(body), logical_date=day(1))
    assert run.state == "success", run.log
    value = good.requests[0].value
    assert (value["name"], value["content"]) == (name, "{{ .Values.image }} {% x")


def test_a_name_that_is_no_template_is_reported(dags, good, ledger):
    run = dags.run(dags.load("ingest(origin=[{'name': '{{ .x', 'content': 'c'}], retries=1)"))
    assert run.state == "failed"
    assert "The task's parameter 'origin' cannot be rendered" in run.log
    assert good.requests == []


def day(number):
    return dt.datetime(2026, 2, number, tzinfo=dt.UTC)
