"""What a service from memory refuses, the embedded one refuses in the same way."""

import pytest

from knowledge_bot import APIError, Client
from knowledge_bot.testing import MemoryService
from knowledge_bot_service import LocalService

WRONG = {
    "no such bot": lambda c: c.send_message(bot_id="bot_9", content="c"),
    "no such collection": lambda c: c.create_text_source(
        name="n", collections="col_9", content="c"
    ),
    "no such conversation": lambda c: c.send_message(
        bot_id="bot_default", content="c", conversation_id="conv_9"
    ),
    "no such bot to list": lambda c: c.list_conversations("bot_9"),
}


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    with (
        LocalService(data=tmp_path_factory.mktemp("service")) as service,
        Client(service.api_key, service.base_url) as client,
    ):
        yield client


def refusal(client, call):
    with pytest.raises(APIError) as caught:
        call(client)
    return caught.value.status_code, caught.value.code


@pytest.mark.parametrize("wrong", WRONG)
def test_both_refuse_alike(embedded, wrong):
    memory = Client("key", "https://service.test", transport=MemoryService().transport)
    assert refusal(memory, WRONG[wrong]) == refusal(embedded, WRONG[wrong])
