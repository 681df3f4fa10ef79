"""The address of a page, taken apart once and strictly, so that nothing reads it differently."""

import re
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import SplitResult, quote, urljoin, urlsplit

import httpcore


class TargetError(ValueError):
    """An address is not one of a page. `str()` is the reason."""


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
            TargetError: it is not an http or https URL with a host, or it has a user name, a port
                that cannot be, or characters that programs read in different ways.
        """
        url = url.strip(" \t\r\n")
        if not url or _UNSAFE.search(url):
            raise TargetError("the address is empty or has characters that no address has")
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise TargetError("the address is malformed") from None
        scheme = parts.scheme.lower()
        if scheme not in _PORTS:
            raise TargetError(f"the address must begin with http:// or https://, not {scheme!r}")
        if "@" in parts.netloc:
            raise TargetError("the address has a user name in it; use a request header instead")
        if port == 0:
            raise TargetError("the address has port 0")
        return cls(
            scheme,
            _host(parts),
            port or _PORTS[scheme],
            quote(parts.path or "/", safe=_KEPT),
            quote(parts.query, safe=_KEPT),
        )

    def join(self, location: str) -> Self:
        """The target that a redirect's `Location`, which may be relative, leads to."""
        try:
            # A header's bytes came as Latin-1; an address with other letters in it is UTF-8.
            location = location.encode("latin-1").decode("utf-8", "replace")
            return self.parse(urljoin(self._text(), location.strip()))
        except TargetError as error:
            raise TargetError(
                f"{self} redirects to an address that is not usable: {error}"
            ) from None
        except ValueError:
            raise TargetError(f"{self} redirects to an address that is malformed") from None

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port: what a request header is meant for (RFC 6454)."""
        return self.scheme, self.host, self.port

    @property
    def host_header(self) -> bytes:
        """The Host header's value."""
        return self._authority().encode()

    @property
    def url(self) -> httpcore.URL:
        """For httpcore, in parts, so that it parses nothing again."""
        target = f"{self.path}?{self.query}" if self.query else self.path
        return httpcore.URL(
            scheme=self.scheme.encode(),
            host=self.host.encode(),
            port=self.port,
            target=target.encode(),
        )

    def __str__(self) -> str:
        return f"{self.scheme}://{self._authority()}{self.path}"

    def _authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def _text(self) -> str:
        return f"{self}?{self.query}" if self.query else str(self)


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
        raise TargetError("the address has no usable host name")
    return host
