"""Which network addresses a page may be fetched from."""

from collections.abc import Callable, Iterable, Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from queue import Empty, SimpleQueue
from socket import SOCK_STREAM, getaddrinfo
from threading import Thread
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

Resolver = Callable[[str, int], Iterable[str]]
"""Gives the addresses of a host name and a port, as text; raises `OSError` when there are none."""


def resolve(host: str, port: int) -> list[str]:
    """The addresses that the system knows for a host; raises `OSError` when there are none."""
    answers = getaddrinfo(host, port, type=SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in answers))


def resolve_within(resolver: Resolver, host: str, port: int, seconds: float) -> list[Address]:
    """Look a host up once, for at most `seconds`.

    Raises:
        TimeoutError: there was no answer in time.
        OSError: the name has no address.
        ValueError: an answer is no address.
    """
    answers: SimpleQueue[list[Address] | Exception] = SimpleQueue()

    def look_up() -> None:
        try:
            answers.put([ip_address(answer) for answer in resolver(host, port)])
        except (OSError, ValueError) as error:
            answers.put(error)

    # The system's resolver knows no deadline. A thread that it keeps is left to end by itself.
    Thread(target=look_up, name="resolver", daemon=True).start()
    try:
        answer = answers.get(timeout=max(seconds, 0.0))
    except Empty:
        raise TimeoutError from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def is_allowed(address: Address, allow: Sequence[Network]) -> bool:
    """Whether an address is in a network of `allow`, or is an ordinary one of the internet."""
    if any(address in network for network in allow):
        return True
    return (
        address.is_global
        and not address.is_multicast
        and not address.is_reserved
        and not any(address in network for network in _REFUSED)
    )


# Global by the registries, and yet no hosts of the internet: addresses that carry an IPv4 address
# inside, which a gateway on the way may unpack to an inner one (mapped, NAT64, 6to4, Teredo), the
# 6to4 relays, and the address at which Azure's hosts serve their virtual machines.
_REFUSED: Final = tuple(
    ip_network(network)
    for network in (
        "::ffff:0:0/96",
        "64:ff9b::/96",
        "64:ff9b:1::/48",
        "2001::/32",
        "2002::/16",
        "192.88.99.0/24",
        "168.63.129.16/32",
    )
)
