"""How often a failing POST arrives at the service: ours and vendor SDKs, with their own defaults.

The server reads every request to its end and then fails in one way; what is counted is requests
that arrived. None of them carries an idempotency key, so each may have acted.
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "support"))

import anthropic
import boto3
import cohere
import openai
from measuring import Figure, report

from knowledge_bot import Client
from scripted_server import Reply, ScriptedServer, answer, close, reset, silence

# After these the service may have acted.
FAULTS: dict[str, Reply] = {
    "connection closed without an answer": close,
    "connection reset": reset,
    "no answer in time": silence,
    "500": answer(500, {"code": 500, "message": "failed"}),
    "502": answer(502, b"<html>Bad Gateway</html>"),
    "504": answer(504, b"<html>Gateway Timeout</html>"),
}
TIMEOUT = 0.3


def main() -> None:
    """Let every client make one call into every fault and count what arrives."""
    rows: list[dict[str, Any]] = []
    for fault, reply in FAULTS.items():
        arrived = {name: count(make, reply) for name, make in CLIENTS.items()}
        rows.append({"fault, after the request arrived": fault, **arrived})
    worst = {name: max(row[name] for row in rows) for name in CLIENTS}
    figures = [Figure("POSTs that arrive for one call, worst fault, ours", worst["ours"], 1)]
    figures += [Figure(f"the same, {name}", worst[name]) for name in CLIENTS if name != "ours"]
    report("How often a failing POST arrives", figures, rows)


def count(make: Callable[[str], Callable[[], object]], reply: Reply) -> int:
    server = ScriptedServer([reply])
    try:
        with suppress(Exception):
            make(server.url)()
        return len(server.requests)
    finally:
        server.stop()


def ours(url: str) -> Callable[[], object]:
    client = Client("key", url, timeout=TIMEOUT)
    return lambda: client.create_text_source(name="x", collections="col_1", content="x")


def with_openai(url: str) -> Callable[[], object]:
    client = openai.OpenAI(api_key="key", base_url=url, timeout=TIMEOUT)
    return lambda: client.vector_stores.create(name="x")


def with_anthropic(url: str) -> Callable[[], object]:
    client = anthropic.Anthropic(api_key="key", base_url=url, timeout=TIMEOUT)
    return lambda: client.messages.batches.create(requests=[])


def with_cohere(url: str) -> Callable[[], object]:
    client = cohere.ClientV2(api_key="key", base_url=url, timeout=TIMEOUT)
    return lambda: client.chat(model="m", messages=[{"role": "user", "content": "x"}])


def with_boto3(url: str) -> Callable[[], object]:
    from botocore.config import Config

    client = boto3.client(
        "sns",
        endpoint_url=url,
        region_name="eu-central-1",
        aws_access_key_id="key",
        aws_secret_access_key="key",
        config=Config(read_timeout=TIMEOUT, connect_timeout=TIMEOUT),
    )
    return lambda: client.publish(TopicArn="arn:aws:sns:eu-central-1:1:x", Message="x")


CLIENTS: dict[str, Callable[[str], Callable[[], object]]] = {
    "ours": ours,
    "openai": with_openai,
    "anthropic": with_anthropic,
    "boto3": with_boto3,
    "cohere": with_cohere,
}

if __name__ == "__main__":
    main()
