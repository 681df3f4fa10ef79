"""Which network addresses may be reached, and how a host's are looked up."""

import socket
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
from threading import Thread
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

ANYWHERE: Final[tuple[Network, ...]] = (IPv4Network("0.0.0.0/0"), IPv6Network("::/0"))

Resolver = Callable[[str, int], Iterable[str]]
"""Gives the addresses of a host name and a port, as text; raises `OSError` when there are none."""


def resolve(host: str, port: int) -> list[str]:
    """The addresses that the system knows for a host; raises `OSError` when there are none."""
    answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
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
    return any(address in network for network in allow) or is_public(address)


def is_public(address: Address) -> bool:
    """Whether an address is an ordinary one of the internet."""
    if isinstance(address, IPv6Address):
        # A gateway to IPv4, and the system itself, unpack these to the address inside.
        if address in _NAT64:
            return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address not in _GLOBAL_UNICAST:
            return False
    return (
        address.is_global
        and not address.is_multicast
        and not address.is_reserved
        and not any(address in network for network in _REFUSED)
    )


# Networks without IPv4 reach all of its hosts through this one (RFC 6052, section 2.1).
_NAT64: Final = IPv6Network("64:ff9b::/96")

# Whatever else IPv6 has is not a host of the internet (RFC 4291, section 2.4).
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")

# Special by IANA's registries or by custom, and global to `is_global` of some Python or other:
# protocol assignments (with a cloud's metadata service, and Teredo), 6to4 and its relays,
# documentation, and the address at which Azure's hosts serve their virtual machines.
_REFUSED: Final = tuple(
    ip_network(network)
    for network in (
        "192.0.0.0/24",
        "192.88.99.0/24",
        "168.63.129.16/32",
        "2001::/23",
        "2002::/16",
        "3fff::/20",
    )
)
