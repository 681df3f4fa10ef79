"""The tests' own service behind a socket, and in a process that outlives its clients."""

import os

import pytest

from calls import KEY, create, upload
from knowledge_bot import Client, ConnectionLostError, RequestTimeoutError
from knowledge_bot.testing import MemoryService
from served import served, surviving


def test_a_service_answers_and_fails_over_a_socket_too(service):
    with served(service) as url, Client(KEY, url, timeout=5) as client:
        assert client.ping()
        assert create(client).name == "Handbook"
        reading, writing = os.pipe()  # whose length nobody knows
        with open(writing, "wb") as pipe:
            pipe.write(b"in pieces")
        with open(reading, "rb") as pipe:
            assert client.upload_source(name="n", collections="col_1", file=pipe)
        assert service.requests[-1].file == ("n", b"in pieces")
        service.lose_next_answer()
        with pytest.raises(ConnectionLostError):
            create(client)
        service.time_out_next()
        with pytest.raises(RequestTimeoutError):
            create(client.with_options(timeout=0.1))
    assert len(service.sources) == 3


def test_a_service_in_a_process_of_its_own_remembers_what_it_created(tmp_path):
    with surviving(tmp_path) as server, Client(KEY, server.url) as client:
        create(client)
        upload(client)
        assert server.created() == {"Handbook": 2}


def test_deletions_have_no_body():
    service = MemoryService(collections=["col_1"], extensions={"sources"})
    with served(service) as url, Client(KEY, url) as client:
        client.delete_source(create(client).id)
        assert client.ping()
