"""What can become of a request, and what its error has to say: one table for all faces."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from knowledge_bot import Delivery
from knowledge_bot.testing import MemoryService

NOT_DELIVERED, REFUSED, UNKNOWN = Delivery.NOT_DELIVERED, Delivery.REFUSED, Delivery.UNKNOWN
Happens = Callable[[MemoryService], object]


@dataclass(frozen=True)
class Failure:
    """What happens to the next request, and what its error has to say; `arrives`: it gets there."""

    happens: Happens
    may_pass: bool
    delivery: Delivery
    arrives: bool = True

    @property
    def may_be_asked_again(self) -> bool:
        return self.may_pass and self.delivery is not UNKNOWN


def status(number: int, **fields: Any) -> Happens:
    return lambda service: service.fail_next(number, **fields)


def answered(number: int, body: bytes, **headers: str) -> Happens:
    return lambda service: service.answer_next(number, body, headers)


def _each(*statuses: int, may_pass: bool, delivery: Delivery) -> dict[str, Failure]:
    return {str(each): Failure(status(each), may_pass, delivery) for each in statuses}


_CUT = b'{"value": {"id": "msg_1", "answer": "At n'

FAILURES = {
    **_each(400, 401, 402, 403, 404, 409, 412, 413, 418, 423, may_pass=False, delivery=REFUSED),
    **_each(408, 425, 429, may_pass=True, delivery=REFUSED),
    **_each(500, 502, 503, 504, 507, may_pass=True, delivery=UNKNOWN),
    **_each(501, 505, may_pass=False, delivery=UNKNOWN),
    "409 key in use": Failure(status(409, code="idempotency_key_in_use"), True, UNKNOWN),
    "503 with Retry-After": Failure(status(503, retry_after=0), True, REFUSED),
    "507 with Retry-After": Failure(status(507, retry_after=0), True, REFUSED),
    "no connection": Failure(MemoryService.refuse_next_connection, True, NOT_DELIVERED, False),
    "reset": Failure(MemoryService.lose_next_answer, True, UNKNOWN),
    "timeout": Failure(MemoryService.time_out_next, True, UNKNOWN),
    "200 cut short": Failure(answered(200, _CUT), True, UNKNOWN),
    "200 with HTML": Failure(answered(200, b"<!doctype html><p>Sign in"), False, UNKNOWN),
    "200 with other JSON": Failure(answered(200, b'{"choices": []}'), False, UNKNOWN),
    "302": Failure(answered(302, b"", location="https://sign-in.test"), False, UNKNOWN),
}


def failing(failure: Failure) -> MemoryService:
    """A service whose bot answers, but for the next request."""
    service = MemoryService(bots={"bot_1": {"When?": "At nine."}})
    failure.happens(service)
    return service


def tries(failure: Failure, service: MemoryService, call: Callable[[], object]) -> int:
    """How many times a call sends its request to such a service."""
    with contextlib.suppress(Exception):
        call()
    paths = [one.path for one in service.requests]
    return (not failure.arrives) + (paths.count(paths[0]) if paths else 0)
