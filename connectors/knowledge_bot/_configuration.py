"""A client's settings, checked once, before anything is sent."""

import ipaddress
import os
import re
import ssl
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import quote, urlsplit, urlunsplit

from knowledge_bot._uploads import UploadEncoding
from knowledge_bot._words import PYTHON, Words
from knowledge_bot.errors import ConfigurationError, InsecureTransportWarning

if TYPE_CHECKING:
    from pydantic import SecretStr

BASE_URL_VARIABLE = "KNOWLEDGE_BOT_BASE_URL"
API_KEY_VARIABLE = "KNOWLEDGE_BOT_API_KEY"

_VERSION_PATH = "/public/v1"

# Seconds that every clock and socket accepts: eleven days.
_LONGEST_TIMEOUT = 1_000_000

# RFC 1035, section 2.3.4; underscores and a final dot occur in practice.
_LABELS = re.compile(r"(?:[A-Za-z0-9_-]{1,63}\.)*[A-Za-z0-9_-]{1,63}\.?")


# What no header of the caller's replaces: whose request it is, and how its body is read.
_OWN_HEADERS = (
    *("x-api-key", "idempotency-key", "host", "connection", "content-length", "content-type"),
    *("transfer-encoding", "accept", "accept-encoding"),
)


class Secret:
    """A text that no `repr` shows: pydantic's `SecretStr`, without loading pydantic."""

    __slots__ = ("get_secret_value",)

    def __init__(self, value: str) -> None:
        # A bound method, since a debugger shows what attributes hold.
        self.get_secret_value = value.__str__

    def __repr__(self) -> str:
        return "Secret('**********')"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self.get_secret_value() == other.get_secret_value()

    def __hash__(self) -> int:
        return hash(self.get_secret_value())

    def __reduce__(self) -> tuple[type["Secret"], tuple[str]]:
        return Secret, (self.get_secret_value(),)


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings of one client. Its `repr` shows neither the key nor a header's value."""

    base_url: str
    api_key: Secret | None
    timeout: float
    max_retries: int
    upload_encoding: UploadEncoding
    verify: bool | str | ssl.SSLContext
    headers: tuple[tuple[str, Secret], ...]
    ping: bool
    words: Words = PYTHON

    @classmethod
    def resolve(
        cls,
        *,
        api_key: "str | Secret | SecretStr | None",
        base_url: str | None,
        timeout: float,
        max_retries: int,
        upload_encoding: UploadEncoding,
        verify: bool | str | ssl.SSLContext,
        headers: Iterable[tuple[str, str]] = (),
        ping: bool = True,
    ) -> "Configuration":
        """Complete the arguments from the environment and check them.

        Raises:
            ConfigurationError: no base URL, or a value that cannot be used.
        """
        if upload_encoding not in get_args(UploadEncoding):
            raise ConfigurationError.of(
                "upload_encoding", f"expected 'value' or 'fields', not {upload_encoding!r}"
            )
        check_limits(timeout, max_retries)
        if not isinstance(ping, bool):
            raise ConfigurationError.of("ping", f"expected True or False, not {ping!r:.40}")
        named, words = os.environ.get(API_KEY_VARIABLE), PYTHON
        if api_key in (None, "") and named:
            words = replace(words, key=API_KEY_VARIABLE)
        elif not named:
            words = replace(words, key="api_key=")
        return cls(
            api_key=_api_key(named if api_key in (None, "") else api_key),
            base_url=_base_url(base_url or os.environ.get(BASE_URL_VARIABLE)),
            timeout=timeout,
            max_retries=max_retries,
            upload_encoding=upload_encoding,
            verify=verify,
            headers=tuple((name, _of_header(name, value)) for name, value in headers),
            ping=ping,
            words=words,
        )


def _of_header(name: str, value: str) -> Secret:
    if name.lower() in _OWN_HEADERS:
        raise ConfigurationError.of("headers", f"{name!r} is set by the client itself")
    if not value.isascii():
        raise ConfigurationError.of("headers", f"the value of {name!r} is not ASCII")
    return Secret(value)


def check_limits(timeout: float, max_retries: int) -> None:
    """Check the limits of a client.

    Raises:
        ConfigurationError: one cannot be used.
    """
    if not _is_number(timeout, int | float) or not 0 < timeout <= _LONGEST_TIMEOUT:
        raise ConfigurationError.of(
            "timeout",
            f"expected seconds above 0, at most {_LONGEST_TIMEOUT:,}, not {timeout!r:.40}",
        )
    if not _is_number(max_retries, int) or max_retries < 0:
        raise ConfigurationError.of("max_retries", f"expected a number from 0, not {max_retries!r}")


def _is_number(value: object, kind: Any) -> bool:
    # A setting of a file or a form often comes as text.
    return isinstance(value, kind) and not isinstance(value, bool)


def _api_key(key: Any) -> Secret | None:
    if hasattr(key, "get_secret_value"):
        key = key.get_secret_value()
    if key is None or key == "":
        return None
    if not isinstance(key, str):
        raise ConfigurationError.expected("api_key", "a string", key)
    if "://" in key:
        raise ConfigurationError.of(
            "api_key", "it is an address; have the API key and the base URL changed places?"
        )
    # A key that a header cannot carry would be quoted in the HTTP library's own error.
    if not all("!" <= character <= "~" for character in key):
        raise ConfigurationError.of(
            "api_key",
            "the API key holds a space, a line end or a character outside ASCII; was it "
            "copied with something around it?",
        )
    return Secret(key)


def _base_url(url: str | None) -> str:
    if not url or not str(url).strip():
        raise ConfigurationError.of(
            "base_url",
            f"no base URL; pass base_url= or set {BASE_URL_VARIABLE}, "
            f"for example to https://service.example.com{_VERSION_PATH}; "
            "Client.from_profile() reads what `kbot login` saved",
        )
    if not isinstance(url, str):
        raise ConfigurationError.expected("base_url", "a string", url)
    if any(character <= " " or character == "\x7f" for character in url):
        raise ConfigurationError.of("base_url", "the base URL holds a space or a control character")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:  # its words may quote a login
        raise ConfigurationError.of(
            "base_url", "the base URL is not a URL; look at its host and its port"
        ) from None
    if parts.username is not None or parts.password is not None:
        # Not quoted: it is a secret.
        raise ConfigurationError.of(
            "base_url",
            "a base URL holds no user name or password",
            advice="For the key, {no_key}",
        )
    if parts.scheme not in ("http", "https") or not host or port == 0:
        raise ConfigurationError.of("base_url", _no_address(url))
    if parts.query or parts.fragment or "?" in url or "#" in url:
        # Not quoted: some put a key there.
        raise ConfigurationError.of(
            "base_url", "the base URL has a query or a fragment; end it before its ? or #"
        )
    path = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~-._") or _VERSION_PATH
    return urlunsplit((parts.scheme, _authority(parts.scheme, host, port), path, "", ""))


def warn_if_readable(base_url: str, proxy: str | None) -> None:
    """Warn of plain HTTP that leaves this machine, to the service or to a proxy."""
    through = [base_url] if proxy is None else [base_url, proxy]
    hosts = [urlsplit(url).hostname or "" for url in through if url.startswith("http:")]
    if base_url.startswith("http:") and (far := [one for one in hosts if not is_loopback(one)]):
        warnings.warn(
            f"The API key and all content travel unencrypted to {far[0]}; use https://",
            InsecureTransportWarning,
            stacklevel=3,  # the caller of Client()
        )


# A host as people write it without its scheme. A bare word is rather a key than a host.
_SCHEMELESS = re.compile(
    r"(localhost|[a-z0-9-]+(?=:\d)|[a-z0-9-]+(?:\.[a-z0-9-]+)+)(?::\d+)?(?:/[^\s@?#]*)?"
)


def _no_address(url: str) -> str:
    """Say that something is no address; quote it only where it looks like one."""
    told = "is not an http:// or https:// address with a host"
    if not (meant := _SCHEMELESS.fullmatch(url)):
        return f"the base URL {told}; it is not repeated here, since it may be a key"
    return f"{url!r} {told}; did you mean {'http' if is_loopback(meant[1]) else 'https'}://{url}?"


def _authority(scheme: str, host: str, port: int | None) -> str:
    """Return host and port in their one spelling, since they are part of a source's identity."""
    if not host.isascii():
        import idna  # comes with both HTTP libraries

        try:
            host = idna.encode(host, uts46=True).decode("ascii")
        except idna.IDNAError as error:
            raise ConfigurationError.of(
                "base_url", f"{host!r} is not the name of a host: {error}"
            ) from None
    if ":" not in host and (len(host) > 253 or not _LABELS.fullmatch(host)):
        raise ConfigurationError.of("base_url", f"{host[:100]!r} is not the name of a host")
    host = f"[{host}]" if ":" in host else host
    is_default = port is None or port == {"http": 80, "https": 443}[scheme]
    return host if is_default else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Return whether a host's name or address is that of this machine alone."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
