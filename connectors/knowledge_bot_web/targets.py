"""The address of a page, taken apart once and strictly, so that nothing reads it differently."""

import re
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import SplitResult, quote, urlsplit

import httpcore

from knowledge_bot_web.errors import FetchError


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes. `str()` is its URL without the query, which may hold a secret."""

    scheme: str
    host: str
    port: int
    path: str
    query: str

    @classmethod
    def parse(cls, url: str) -> Self:
        """Take a URL apart.

        Raises:
            FetchError: it is not an http or https URL with a host, or it has a user name, a port
                that cannot be, or characters that programs read in different ways.
        """
        url = url.strip(" \t\r\n")
        if not url or _UNSAFE.search(url):
            raise FetchError("the address is empty or has characters that no address has")
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise FetchError("the address is malformed") from None
        scheme = parts.scheme.lower()
        if scheme not in _PORTS:
            raise FetchError(f"the address must begin with http:// or https://, not {scheme!r}")
        if "@" in parts.netloc:
            raise FetchError("the address has a user name in it; use a request header instead")
        if port == 0:
            raise FetchError("the address has port 0")
        return cls(
            scheme,
            _host(parts),
            port or _PORTS[scheme],
            quote(parts.path or "/", safe=_KEPT),
            quote(parts.query, safe=_KEPT),
        )

    def takes_headers_of(self, start: "Target") -> bool:
        """Whether what was meant for another target may be sent to this one.

        It may go to the same origin (RFC 6454), and from http to https of the same host.
        """
        ours, theirs = (self.scheme, self.port), (start.scheme, start.port)
        is_safer = (ours, theirs) == (("https", 443), ("http", 80))
        return self.host == start.host and (ours == theirs or is_safer)

    @property
    def host_header(self) -> bytes:
        """The Host header's value."""
        return self._authority().encode()

    @property
    def url(self) -> httpcore.URL:
        """For httpcore, in parts, so that it parses nothing again."""
        port = None if self.port == _PORTS[self.scheme] else self.port
        target = f"{self.path}?{self.query}" if self.query else self.path
        return httpcore.URL(scheme=self.scheme, host=self.host, port=port, target=target)

    @property
    def full(self) -> str:
        """The URL with its query."""
        return f"{self}?{self.query}" if self.query else str(self)

    def __str__(self) -> str:
        return f"{self.scheme}://{self._authority()}{self.path}"

    def _authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


_PORTS: Final = {"http": 80, "https": 443}

# Control characters and spaces are dropped by some parsers, backslashes are slashes to some; lone
# surrogates cannot be sent.
_UNSAFE: Final = re.compile("[\x00-\x20\x7f\\\\\ud800-\udfff]")

# What quoting leaves as it is: reserved characters, and escapes that are there already.
_KEPT: Final = "%:/?#[]@!$&'()*+,;=~-._"

_HOST: Final = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+", re.ASCII)


def _host(parts: SplitResult) -> str:
    host = parts.hostname or ""
    try:
        # To its ASCII form (IDNA), in which digits of other scripts are digits.
        host = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        host = ""
    host = host.lower().rstrip(".")
    if not _HOST.fullmatch(host) or any(len(label) > 63 for label in host.split(".")):
        raise FetchError("the address has no usable host name")
    return host
