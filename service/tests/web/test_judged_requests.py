"""The table of requests that the service from memory is tested with, too."""

import pytest

from judged_requests import CALLS


@pytest.mark.parametrize("name", CALLS)
def test_a_request_is_judged_as_a_strict_service_from_memory_judges_it(http, service, name):
    call = CALLS[name]
    path, body = call.sent_to("bot_one", "col_one")
    del http.headers["X-API-KEY"]
    headers = {
        name: service.api_key if name == "X-API-KEY" else text
        for name, text in call.headers.items()
    }
    answer = http.request(call.method, path.removeprefix("/"), headers=headers, content=body)
    assert answer.status_code == call.strict, answer.text
