"""The requirements of `idempotency` (docs/extensions.md)."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from conformance.kit import Kit, has, key_header
from knowledge_bot._extensions import new_key

# How many requests come at once with one key.
_AT_ONCE = 8

# Older than any lifetime: the example of RFC 9562, born in February 2022.
_OLD_KEY = "017f22e2-79b0-7cc3-98c4-dc0c0c07"


@pytest.fixture(autouse=True)
def _is_announced(kit: Kit) -> None:
    kit.announced("idempotency")


def test_lifetime(kit: Kit) -> None:
    """The announcement names a lifetime in seconds."""
    lifetime = kit.announced("idempotency").get("lifetime")
    assert type(lifetime) is int, f"lifetime is {lifetime!r}"
    assert lifetime > 0


def test_replay(kit: Kit) -> None:
    """The same request with the same key gets the first answer again, and both repeat the key."""
    key, text = new_key(), kit.text()
    first, again = kit.add(text, key), kit.add(text, key)
    again.repeats(first)
    assert "idempotent-replayed" not in first.headers, "the first answer is called a replay"
    has(again.headers, **{"idempotent-replayed": "true"})
    for one in (first, again):
        echo = one.headers.get("idempotency-key") or ""
        assert echo.strip('"') == key, f"Idempotency-Key of an answer is {echo!r}"


def test_quotes(kit: Kit) -> None:
    """A key in quotes is the same as without."""
    key, text = new_key(), kit.text()
    first = kit.add(text, f'"{key}"')
    kit.add(text, key).repeats(first)


def test_parts(kit: Kit) -> None:
    """Requests are compared by their parts, not by their bytes."""
    key, text = key_header(new_key()), kit.text()
    turned = json.dumps({"value": dict(reversed(text.items()))}, indent=1).encode()
    first = kit.send("POST", "/sources/write", text, key)
    kit.send("POST", "/sources/write", None, key, body=turned).repeats(first)
    key = key_header(new_key())
    first = kit.upload("POST", "/sources/upload", text, key)
    kit.upload("POST", "/sources/upload", text, key).repeats(first)


def test_another_request(kit: Kit) -> None:
    """Another request with a used key gets 422, and is not done."""
    key = new_key()
    kit.add(None, key).done()
    kit.add(kit.text("Another text."), key).refused(422, "idempotency_key_reused")


def test_expired(kit: Kit) -> None:
    """A UUIDv7 that is older than the lifetime gets 412, and is not done."""
    kit.add(None, _OLD_KEY + os.urandom(2).hex()).refused(412, "idempotency_key_expired")


def test_odd_keys(kit: Kit) -> None:
    """A key that is empty, too long or sent twice gets 400."""
    long, twice = os.urandom(128).hex(), (new_key(), new_key())
    odd = {"empty": ("",), "of 256 characters": (long,), "with a comma": ("a,b",)}
    for name, keys in (odd | {"sent twice": twice}).items():
        status = kit.add(None, *keys).status
        assert status == 400, f"one that is {name} is answered with {status}"
    kit.add(None, long[1:]).done()


def test_refusal_not_kept(kit: Kit) -> None:
    """A key is free again where the API key was refused."""
    key, text, other = new_key(), kit.text(), ("X-API-KEY", "no-key-of-this-service")
    status = kit.send("POST", "/sources/write", text, key_header(key), other).status
    if status not in (401, 403):
        pytest.skip(f"a wrong API key is answered with {status}")
    kit.add(text, key).done()


def test_account(kit: Kit) -> None:
    """A key belongs to the account, not to the API key."""
    if kit.second is None:
        pytest.skip("name a second API key of the account with --second-api-key")
    key, text = new_key(), kit.text()
    first = kit.add(text, key)
    kit.add(text, key, client=kit.second).repeats(first)


def test_at_once(kit: Kit) -> None:
    """Of requests at once with one key one is done; none waits for ever."""
    key, text = new_key(), kit.text()
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        answers = [*threads.map(lambda _: kit.add(text, key), range(_AT_ONCE))]
    done = {one.value["id"] for one in answers if one.status < 300}
    assert len(done) == 1, "not exactly one source was made"
    for one in answers:
        if one.status >= 300:
            one.refused(409, "idempotency_key_in_use")
            assert one.headers.get("retry-after"), "Retry-After is missing with the 409"


def test_messages(kit: Kit) -> None:
    """A message with a used key is not asked again."""
    key, question = key_header(new_key()), "What is this about?"
    first = kit.ask(question, key)
    kit.ask(question, key).repeats(first)
