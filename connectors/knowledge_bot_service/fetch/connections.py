"""Connects only to checked addresses, with one deadline for everything."""

import ssl
import time
from collections.abc import Iterable, Sequence

import httpcore

from knowledge_bot_service.fetch.addresses import Network, Resolver, is_allowed, resolve_within


class RefusedError(ValueError):
    """A host may not be connected to. `str()` is the reason."""


class CheckedNetwork(httpcore.NetworkBackend):
    """The network backend of httpcore.

    Args:
        resolver: looks host names up, once for each connection.
        allow: networks that may be reached although they are not part of the internet.
        deadline: when waiting ends, on the clock of `time.monotonic`. `TimeoutError` or httpcore's
            own is raised then.
    """

    def __init__(self, resolver: Resolver, allow: Sequence[Network], deadline: float) -> None:
        self._resolver = resolver
        self._allow = allow
        self._deadline = deadline
        self._network = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002 (the deadline stands for it)
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to a host that has allowed addresses only; to the first one that answers.

        Raises:
            RefusedError: the host has no address, or one that is not allowed.
            httpcore.ConnectError: none of them answers.
            httpcore.ConnectTimeout, TimeoutError: the deadline has passed.
        """
        failure: Exception | None = None
        addresses = self._addresses(host, port)
        for others, address in zip(reversed(range(len(addresses))), addresses, strict=True):
            # One that says nothing leaves as much time to each of the others.
            seconds = _left(self._deadline) / (others + 1)
            try:
                stream = self._network.connect_tcp(
                    address, port, seconds, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
            else:
                return _TimedStream(stream, self._deadline)
        raise failure or RefusedError(f"the name {host} has no address")

    def _addresses(self, host: str, port: int) -> list[str]:
        try:
            addresses = resolve_within(self._resolver, host, port, _left(self._deadline))
        except TimeoutError:
            raise
        except (OSError, ValueError):
            raise RefusedError(f"the name {host} has no address; check its spelling") from None
        for address in addresses:
            if not is_allowed(address, self._allow):
                shown = host if host == str(address) else f"{host} is at {address}, which"
                raise RefusedError(
                    f"{shown} is not a public address;"
                    " the service may be started with `--allow-fetch` to open a network"
                )
        return [str(address) for address in addresses]


class _TimedStream(httpcore.NetworkStream):
    """A stream whose every wait ends at the deadline, even if bytes keep arriving."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: float) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002
        return self._stream.read(max_bytes, _left(self._deadline))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        self._stream.write(buffer, _left(self._deadline))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002
    ) -> httpcore.NetworkStream:
        stream = self._stream.start_tls(ssl_context, server_hostname, _left(self._deadline))
        return _TimedStream(stream, self._deadline)

    def get_extra_info(self, info: str) -> object:
        return self._stream.get_extra_info(info)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
