"""What a monitoring system and an operator are told: /healthz, /metrics and the log."""

import json
import re
import shutil
import sqlite3
from datetime import datetime

import httpx
from prometheus_client.parser import text_string_to_metric_families

from in_process import InProcess, web
from knowledge_bot import __version__
from knowledge_bot_service import LocalService
from serve_command import key_in, serving
from service_calls import add_text, ask, client_of
from waiting import until


def root_of(base_url):
    return base_url.removesuffix("/public/v1")


def metrics_of(base_url):
    """Every sample by its name and the values of its labels."""
    answer = httpx.get(f"{root_of(base_url)}/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_a_service_that_works_says_so_without_a_key_until_its_folder_is_gone(tmp_path):
    with InProcess(tmp_path / "data") as service:
        address = f"{root_of(service.base_url)}/healthz"
        answer = web.get(address)
        assert answer.status_code == 200
        assert answer.json() == {
            "ready": True,
            "disk": "fine",
            "database": "fine",
        }
        assert web.head(address).status_code == 200
        with sqlite3.connect(tmp_path / "data/knowledge.sqlite3", isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            answer = web.get(address, timeout=30)
            assert answer.status_code == 503
            assert "stored nothing for" in answer.json()["database"]
            other.execute("ROLLBACK")
        other.close()
        assert until(lambda: web.get(address).status_code == 200)
        shutil.rmtree(tmp_path / "data")
        answer = web.get(address)
        assert answer.status_code == 503
        assert "The data folder takes no writes: No such file" in answer.json()["disk"]


def test_what_happens_is_counted():
    with LocalService() as service, client_of(service) as http:
        before = metrics_of(service.base_url)
        add_text(http, "A confidential name", "The depot opens at eight.", "col_default")
        service.wait_until_ready(300)
        ask(http, "When does the depot open?", bot="bot_default")
        ask(http, "Who painted the ceiling?", bot="bot_default")
        httpx.get(f"{service.base_url}/bots", headers={"X-API-KEY": "wrong"})
        http.get(f"{service.base_url}/a-path-of-a-stranger")
        metrics = metrics_of(service.base_url)
        text = httpx.get(f"{root_of(service.base_url)}/metrics").text
    assert before["kbot_service_questions_total", "answered"] == 0
    assert metrics["kbot_service_questions_total", "answered"] == 1
    assert metrics["kbot_service_questions_total", "not_found"] == 1
    requests = "kbot_service_request_duration_seconds_count"
    assert metrics[requests, "POST", "/public/v1/messages", "200"] == 2
    assert metrics[requests, "POST", "/public/v1/sources/write", "200"] == 1
    assert metrics[requests, "GET", "other", "401"] == 1
    assert metrics[requests, "GET", "other", "404"] == 1
    took = metrics[
        "kbot_service_request_duration_seconds_sum", "POST", "/public/v1/messages", "200"
    ]
    assert 0 < took < 30
    assert metrics["kbot_service_sources", "ready"] == 1
    assert metrics["kbot_service_sources", "failed"] == 0
    assert metrics["process_resident_memory_bytes",] > 1_000_000
    assert not re.search("confidential|stranger|depot", text)
    assert service.api_key not in text


LINE = re.compile(
    r"(?P<time>\S+) info (?P<client>\S+) (?P<method>[A-Z]+) (?P<path>\S+) (?P<status>\d{3}) "
    r"(?P<ms>[\d.]+) ms (?P<bytes>\d+) bytes key (?P<key>\S+)"
)


def test_each_request_is_one_line_and_no_key_is_in_it(tmp_path):
    with serving(tmp_path) as (base_url, printed, process):
        key = key_in(printed)
        started = (
            f" info started: version {__version__}, listening on 127.0.0.1, "
            f"port {httpx.URL(base_url).port}, data folder {tmp_path / 'kbot-data'}\n"
        )
        assert started in printed
        answer = httpx.get(f"{base_url}/bots?secret=1", headers={"X-API-KEY": key})
        told = {"X-API-KEY": "a-key-that-is-wrong"}
        httpx.get(f"{base_url}/bots", headers=told)
        httpx.get(f"{base_url}/%0aGET%20/forged%1b[2J%E2%80%AE", headers={"X-API-KEY": key})
        httpx.get(f"{base_url}/{'long' * 1000}", headers={"X-API-KEY": key})
        process.terminate()
        assert process.wait(20) == 0
    lines = (tmp_path / "printed.txt").read_text().splitlines()
    assert lines[-1].endswith(" info stopped")
    found = [line for one in lines if (line := LINE.fullmatch(one))]
    assert found[0]["path"] == "/public/v1/bots"
    assert [int(line["status"]) for line in found] == [200, 401, 404, 404]
    assert found[0]["key"] == "generated"
    assert found[0]["client"] == "127.0.0.1"
    assert int(found[0]["bytes"]) == len(answer.content)
    assert datetime.fromisoformat(found[0]["time"]).utcoffset() is not None
    assert (found[1]["key"], found[1]["client"]) == ("-", "127.0.0.1")
    assert found[2]["path"] == "/public/v1/%0AGET%20/forged%1B%5B2J%E2%80%AE"
    assert len(found[3]["path"]) < 400
    (warned,) = [line for line in lines if " warning " in line]
    assert "127.0.0.1 sent a key that is not known here: GET /public/v1/bots" in warned
    logged = "\n".join(line for line in lines if not line.startswith("API key:"))
    assert not re.search(f"secret=|a-key-that-is-wrong|{re.escape(key)}", logged)


def test_the_level_says_how_much_is_logged_and_a_text_that_cannot_be_read_is_in_each(tmp_path):
    with serving(tmp_path, "--log-level", "warning") as (base_url, printed, _):
        http = httpx.Client(headers={"X-API-KEY": key_in(printed)})
        entry = {"origin": "hours", "key": "hours", "name": "Hours", "collections": ["col_default"]}
        texts = {"old.txt": b"Open until ten.", "tool.exe": b"MZ\x90\x00" + bytes(200)}
        for name, content in texts.items():
            value = json.dumps({**entry, "version": None, "digest": name})
            put = http.put(
                f"{base_url}/sync/upload", data={"value": value}, files={"file": (name, content)}
            )
            source = put.json()["value"]["source"]["id"]
            address = f"{base_url}/sources/{source}"
            if name == "old.txt":
                assert until(lambda at=address: http.get(at).json()["value"]["status"] == "ready")
        form, file = (
            {"name": "Hours", "collections": "col_default"},
            {"file": ("tool.exe", content)},
        )
        added = http.post(f"{base_url}/sources/upload", data=form, files=file).json()["value"]["id"]
        log = tmp_path / "printed.txt"
        for what in (f"the replacement of source {source}", f"source {added}"):
            said = f" warning {what} failed: the file is binary"
            assert until(lambda said=said: said in log.read_text())
        http.get(f"{base_url}/bots", headers={"X-API-KEY": "wrong"})
        http.close()
    logged = log.read_text()
    assert {*re.findall("(src_[0-9a-f]+) failed", logged)} == {source, added}
    assert "sent a key that is not known" in logged
    assert " info " not in logged


def test_a_proxy_says_who_the_client_is_and_nothing_else(tmp_path):
    told = {
        "192.0.2.7": "192.0.2.7",
        # Nor does anything else get into the log by this header.
        "POST /public/v1/bots 200": "-",
        "fe80::1%POST /public/v1/bots 200": "fe80::1",
    }
    with serving(tmp_path) as (base_url, _, _process):
        for one in told:
            httpx.get(f"{base_url}/ping", headers={"X-Forwarded-For": one})
    lines = (tmp_path / "printed.txt").read_text().splitlines()
    found = [line for one in lines if (line := LINE.fullmatch(one))]
    assert [line["client"] for line in found] == list(told.values())
