"""What holds for every origin: what it costs to make one, its name, and its templates."""

import sys
from functools import partial

import pytest

from knowledge_bot.origins import (
    Feed,
    Folder,
    JsonLines,
    Loader,
    Objects,
    Rows,
    Site,
    Sitemap,
    Sql,
    Urls,
)
from loaded_modules import loaded_by

COLUMNS = {"key": "id", "text": "body"}

EVERY = {
    "Feed": (lambda **how: Feed("https://h.example/feed.xml", **how), "https://h.example/feed.xml"),
    "Folder": (lambda **how: Folder("/srv/handbook", **how), "/srv/handbook"),
    "JsonLines": (lambda **how: JsonLines("/srv/items.jsonl", **how), "/srv/items.jsonl"),
    "Loader": (lambda **how: Loader(Reader(), **how), "Reader"),
    "Objects": (lambda **how: Objects("s3://bucket/docs/**", **how), "s3://bucket/docs/**"),
    "Rows": (lambda **how: Rows([], **COLUMNS, **{"name": "t"} | how), "t"),
    "Site": (lambda **how: Site("https://H.example", **how), "https://h.example/"),
    "Sitemap": (lambda **how: Sitemap("/srv/map.xml", **how), "/srv/map.xml"),
    "Sql": (lambda **how: Sql("SELECT 1", conn_id="c", **COLUMNS, **{"name": "t"} | how), "t"),
    "Urls": (lambda **how: Urls("/srv/urls.txt", **how), "/srv/urls.txt"),
}


class Reader:
    def load_data(self):
        return []


@pytest.mark.parametrize("kind", EVERY)
def test_an_origin_has_the_name_of_its_place_or_the_one_that_it_is_given(kind):
    make, name = EVERY[kind]
    assert make().name == name
    assert make(name="ours").name == "ours"
    assert "name" in make().template_fields
    assert make().whole is (kind not in ("Feed", "Loader"))


@pytest.mark.parametrize("kind", EVERY)
def test_an_origin_is_the_same_once_it_is_rendered_and_named_anew_where_its_place_is(kind):
    make, _ = EVERY[kind]
    assert make().rendered(lambda value: value) == make() or kind == "Loader"
    assert make(name="{{ x }}").rendered(lambda _: "ours" if _ == "{{ x }}" else _).name == "ours"


def test_an_origin_reads_alike_in_every_process_so_that_airflow_sees_no_other_dag():
    functions = {"key": lambda row: row, "text": Reader().load_data, "title": partial(str, "x")}
    rows = Rows([], name="t", **functions)
    assert repr(rows).count("<lambda>") == 1
    assert repr(rows).endswith("text=Reader.load_data, title=partial, version=None)")
    sql = Sql("SELECT 1", conn_id="c", name="t", **functions)
    loader = Loader(Reader(), title=str, key=functions["key"])
    urls = Urls(iter(["https://h.example/"]), name="u")
    assert [one for one in map(repr, (rows, sql, loader, urls)) if " at 0x" in one] == []
    places = {f"https://h.example/{number}" for number in range(9)}
    assert f"source={{{', '.join(map(repr, sorted(places)))}}}" in repr(Urls(places, name="u"))
    assert Folder("/srv", include={"c", "a", "b"}).include == ("a", "b", "c")
    assert Site("https://h.example", exclude={"/c", "/a", "/b"}).exclude == ("/a", "/b", "/c")


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (Folder("{{ x }}"), "/srv"),
        (Objects("s3://{{ x }}"), "s3://srv"),
        (Site("https://{{ x }}.example"), "https://srv.example/"),
        (Urls("{{ x }}"), "/srv"),
        (Sitemap("{{ x }}"), "/srv"),
    ],
)
def test_the_default_name_is_that_of_the_rendered_place(made, name):
    def render(value):
        if not isinstance(value, str):
            return value
        return value.replace("{{ x }}", "srv" if "://" in value else "/srv")

    assert made.rendered(render).name == name


def test_the_lines_of_a_pipe_have_a_name_only_if_they_are_given_one():
    assert not Urls("-").whole
    assert not JsonLines(["{}"]).whole
    assert Urls("-", name="pages").whole


@pytest.mark.parametrize("name", [" ", 7, None])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(ValueError, match="name"):
        Folder("/srv", name=name)


def test_making_one_loads_nothing_but_the_standard_library():
    loaded = loaded_by(
        "from knowledge_bot.origins import *; "
        "Folder('/srv', name='x'); Objects('s3://b/*', storage_options={'key': 'k'}); "
        "Site('https://h.example'); Sitemap('/s.xml'); Feed('/f.xml'); Urls('-'); JsonLines('-'); "
        "Rows([], key='a', text='b', name='t'); Loader([], name='l'); "
        "Sql('SELECT 1', conn_id='c', key='a', text='b', name='t')"
    )
    packages = {name.partition(".")[0] for name in loaded}
    assert packages - sys.stdlib_module_names == {"knowledge_bot"}
