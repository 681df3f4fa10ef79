"""What a run asks before it claims, and what it takes for "not now" instead of "no"."""

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from ingest_texts import texts
from knowledge_bot.ingest import Stop
from scripted_server import answer

pytestmark = pytest.mark.timeout(60)

PORTAL = answer(body=b"<html><form>Sign in</form></html>", headers={"Content-Type": "text/html"})
NO = {"code": "no", "message": "not so"}


def test_the_service_is_asked_once_in_each_run(run, service, ledger):
    run(texts(5), ledger=ledger)
    assert service.pings == 1
    assert run(texts(5), ledger=ledger).unchanged == 5
    assert service.pings == 2


@pytest.mark.parametrize(
    ("reply", "stop"),
    [
        (answer(301, headers={"Location": "https://elsewhere.test/"}), Stop.UNAVAILABLE),
        (PORTAL, Stop.UNAVAILABLE),
        (answer(401, NO), Stop.AUTHENTICATION),
        (answer(403, NO), Stop.AUTHENTICATION),
    ],
    ids=["redirect", "portal", "401", "403"],
)
def test_a_wrong_address_or_key_ends_a_run_with_nothing_claimed(
    send, scripted, ledger, reply, stop
):
    server = scripted(reply, on_ping=reply)
    report = send(texts(30), ledger=ledger, url=server.url)
    assert report.stopped is stop
    assert (len(server.pings), server.requests) == (1, [])
    assert report.items == 0
    assert not ledger.exists()


@pytest.fixture
def hurried(monkeypatch) -> None:
    """Three tries of each item, and short pauses."""
    monkeypatch.setattr("knowledge_bot.ingest._pressure._TRIES", 3)
    monkeypatch.setattr("knowledge_bot.ingest._pressure._FIRST_BACKOFF", 0.001)


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize(
    ("status", "headers"),
    [(429, {}), (408, {}), (503, {"Retry-After": "0"})],
    ids=["429", "408", "503"],
)
def test_a_service_that_puts_everything_off_ends_the_run_and_refuses_nothing(
    send, service, ledger, status, headers
):
    service.judge = lambda name, times: answer(status, NO, headers)
    report = send(texts(50), ledger=ledger, concurrency=2)
    assert report.stopped is Stop.UNAVAILABLE
    assert (report.refused, report.unknown) == (0, 0)
    assert 2 <= report.undelivered == len(set(service.arrived)) < 10
    service.judge = lambda name, times: None
    assert send(texts(50), ledger=ledger).created == 50


@pytest.mark.usefixtures("hurried")
def test_one_item_that_is_put_off_to_the_end_ends_no_run(send, service, ledger):
    service.judge = lambda name, times: answer(429, NO) if name == "t3" else None
    report = send(texts(20), ledger=ledger, concurrency=2)
    assert (report.created, report.undelivered, report.stopped) == (19, 1, None)


def test_a_port_without_tls_ends_a_run_at_once(send, ledger):
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as threads:

        def answer_in_plain() -> None:
            with listening.accept()[0] as connection, suppress(ConnectionResetError):
                connection.recv(100)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                while connection.recv(1000):  # or what is unread would reset it
                    pass

        answering = threads.submit(answer_in_plain)
        report = send(
            texts(3), ledger=ledger, url=f"https://127.0.0.1:{listening.getsockname()[1]}"
        )
        answering.result()
    assert report.stopped is Stop.UNAVAILABLE
    assert report.duration < 20  # an outage is waited for a minute
    assert report.items == 0
    assert not ledger.exists()
