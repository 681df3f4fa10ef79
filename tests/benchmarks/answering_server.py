"""A server that answers at once, in a process of its own, so that a client's CPU is the client's.

It speaks just enough HTTP/1.1 to be fast: it reads a request to its last byte, counts it, and sends
a fixed answer by its path. `answering(delay)` runs it and gives its address.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator

_MESSAGE = {
    "id": "msg_1",
    "answer": "The loan period is 14 days for hand tools and power tools. " * 4,
    "conversation_id": "conv_1",
    "created_at": 1731500000000,
}
_SOURCE = {
    "id": "src_1",
    "name": "handbook.pdf",
    "collections": [{"id": "col_1", "name": "Handbook"}],
    "status": "pending",
    "created_at": 1731500000000,
}
_OPENAI = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1731500000,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": _MESSAGE["answer"]},
        }
    ],
    "usage": {"prompt_tokens": 10, "completion_tokens": 50, "total_tokens": 60},
}
_ANTHROPIC = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": _MESSAGE["answer"]}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 10, "output_tokens": 50},
}


def _http(body: object) -> bytes:
    content = json.dumps(body).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(content)}"
    return head.encode() + b"\r\n\r\n" + content


# In the order in which a path is looked for in the request line.
_ANSWERS = {
    b"/public/v1/ping": _http("pong"),
    b"/public/v1/messages": _http({"value": _MESSAGE}),
    b"/public/v1/sources": _http({"value": _SOURCE}),
    b"/chat/completions": _http(_OPENAI),
    b"/v1/messages": _http(_ANTHROPIC),
}


class _Connection(asyncio.BufferedProtocol):
    """Reads requests into one buffer, whatever their size, and answers each."""

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._buffer = bytearray(1 << 20)
        self._head = b""
        self._left = 0
        self._answer = b""
        self._chunked = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        data = memoryview(self._buffer)[:nbytes]
        if self._left:
            self._body(data)
            return
        self._head += bytes(data)
        head, blank, rest = self._head.partition(b"\r\n\r\n")
        if not blank:
            return
        self._head = b""
        line = head.split(b"\r\n", 1)[0]
        self._answer = next(answer for path, answer in _ANSWERS.items() if path in line)
        length = head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0]
        reads = line.startswith(b"GET ")
        self._chunked = not length and not reads
        self._left = int(length or not reads)
        self._body(memoryview(rest))

    def _body(self, data: memoryview) -> None:
        if self._chunked:
            self._left = 0 if bytes(data[-5:]) == b"0\r\n\r\n" else 1
        else:
            self._left -= len(data)
        if self._left == 0:
            if self._delay:
                asyncio.get_running_loop().call_later(
                    self._delay, self._transport.write, self._answer
                )
            else:
                self._transport.write(self._answer)


async def _serve(delay: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(delay), "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def answering(delay: float = 0.0) -> Iterator[str]:
    """Run the server, answering `delay` seconds after a request's last byte; give its address."""
    command = [sys.executable, __file__, str(delay)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(float(sys.argv[1])))
