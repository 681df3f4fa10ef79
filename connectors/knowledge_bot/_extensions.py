"""What a service can beyond the interface, as it announces it (docs/extensions.md), and keys.

A process asks once an hour, and remembers the answer by the service's address and the API key. What
is not announced is never tried.
"""

import functools
import logging
import math
import os
import re
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from knowledge_bot.errors import ConfigurationError, UnsupportedError

logger: logging.Logger = logging.getLogger("knowledge_bot")

Extensions: TypeAlias = Mapping[str, Mapping[str, Any]]
"""The parameters of each extension by its name."""

HEADER = "knowledge-bot-extensions"

_VERSION = 1  # of the contract, as it is spoken here

# Seconds until a service is asked again: after an answer, and after none.
_REMEMBERED = 3600.0
_PAUSE = 60.0


class Announced:
    """What a service announced to one API key, and when to ask it again.

    Attributes:
        extensions: what it announced at last, without `idempotency` once it has ignored a key;
            None: it has not been asked, or has not answered.
        until: when it is asked again, on the monotonic clock: an hour after it answered, a moment
            after it failed.
    """

    def __init__(self) -> None:
        self.extensions: Extensions | None = None
        self._ignores_keys = False
        self.until = -math.inf
        self._warned = False

    def learn(self, header: str | None) -> None:
        """Remember the header of an answer to a ping."""
        found: dict[str, Mapping[str, Any]] = {}
        try:
            found = spoken(header or "")
        except ValueError as error:
            if not self._warned:
                self._warned = True
                logger.warning(
                    "The service announces its extensions in a header that cannot be read, so it "
                    "is used as one that has none: %s",
                    error,
                )
        if self._ignores_keys:
            found.pop("idempotency", None)
        self.extensions = MappingProxyType(found)
        self.until = time.monotonic() + _REMEMBERED

    def forget(self) -> None:
        """Ask again before the next call that needs to know."""
        self.until = -math.inf

    def pause(self) -> None:
        """Let calls that can do without the answer go on without it for a while."""
        self.until = time.monotonic() + _PAUSE

    def give_up_keys(self) -> None:
        """Send no more keys to a service that ignored one."""
        if not self._ignores_keys:
            self._ignores_keys = True
            logger.warning(
                "The service announces idempotency, but an answer of it does not repeat the "
                "request's Idempotency-Key. No more keys are sent to it, and what is unknown is "
                "not sent again"
            )
        known = self.extensions or {}
        self.extensions = MappingProxyType({k: v for k, v in known.items() if k != "idempotency"})


@functools.lru_cache(maxsize=1024)
def announced_by(address: str, key: int) -> Announced:  # noqa: ARG001 - it is one for each pair
    """Return what this process knows of the service at an address, as seen by a key's holder.

    It belongs to the service and not to a client: one made for each task or request asks no ping
    more. `key` is the hash of the API key.
    """
    return Announced()


def check_announced(needs: tuple[str, ...], what: object, extensions: Extensions) -> None:
    """Check that a service announces an extension, and parameters of it.

    `needs` are the extension's name, then those of parameters.

    Raises:
        UnsupportedError: one is missing.
    """
    name, *parameters = needs
    if name not in extensions:
        raise UnsupportedError(
            f"{what}: the service does not announce the extension {name!r}, so this cannot be done "
            "there. Nothing was sent"
        )
    for parameter in parameters:
        if not extensions[name].get(parameter):
            raise UnsupportedError(f"{what}: {_LACKING[parameter]}. Nothing was sent")


_LACKING = {
    "manage": "this API key may not delete sources; use one with the role manage",
}


def keeps_book_for_others(extensions: Extensions) -> bool:
    """Return whether `sync` may be there for other keys: this one may not replace and delete."""
    sources = extensions.get("sources")
    return "sync" not in extensions and sources is not None and not sources.get("manage")


# Keys ---------------------------------------------------------------------------------------------

# What a quoted string of a header holds without an escape (RFC 9110), but for spaces and for the
# comma, which separates two headers of the same name.
_KEY = re.compile(r"[!#-+\--\[\]-~]{1,255}")


def new_key() -> str:
    """Return a UUIDv7 (RFC 9562, section 5.7); `uuid.uuid7` is new in Python 3.14."""
    random = int.from_bytes(os.urandom(10))
    number = (time.time_ns() // 1_000_000) << 80 | random & ~(0xF << 76 | 0x3 << 62)
    digits = f"{number | 0x7 << 76 | 0x2 << 62:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def given_key(key: object) -> str | None:
    """Return a caller's key, checked for what a header can carry.

    Raises:
        ConfigurationError: it is empty, longer than 255 characters, or holds others than ASCII.
    """
    if key is not None and not (isinstance(key, str) and _KEY.fullmatch(key)):
        raise ConfigurationError.of(
            "idempotency_key",
            "expected 1 to 255 characters of ASCII without spaces, quotes, commas and backslashes, "
            f"not {str(key)[:80]!r}",
        )
    return key


def end_of_life(key: str, extensions: Extensions) -> float:
    """Return until when a key may be sent again, as Unix time in seconds.

    A UUIDv7 lives from its birth, another key from now. Without a lifetime there is no such time.
    """
    lifetime = extensions.get("idempotency", {}).get("lifetime")
    seconds = lifetime if type(lifetime) is int else 0
    digits = key.replace("-", "")
    is_uuid7 = re.fullmatch(r"[0-9a-fA-F]{12}7[0-9a-fA-F]{19}", digits) is not None
    return (int(digits[:12], 16) / 1000 if is_uuid7 else time.time()) + seconds


# The announcement ---------------------------------------------------------------------------------

_NAME = r"[a-z*][a-z0-9_.*-]*"
_NUMBER = r"-?[0-9]{1,15}(?:\.[0-9]{1,3})?"
_WORD = r"[A-Za-z*][!#$%&'*+.^_`|~0-9A-Za-z:/-]*"
_FIELD = re.compile(rf"({_NAME})(?:=(?:({_NUMBER})|({_WORD})|\?([01])))?")


def spoken(header: str) -> dict[str, Mapping[str, Any]]:
    """Return the extensions of an announcement that are spoken here, with their parameters.

    It is a dictionary of structured fields (RFC 9651) whose values are numbers, tokens and flags.

    Raises:
        ValueError: it is not.
    """
    found: dict[str, tuple[Any, dict[str, Any]]] = {}
    for member in header.split(",") if header.strip() else ():
        (name, version), *parameters = map(_field, member.strip(" \t").split(";"))
        found[name] = version, dict(parameters)
    return {
        name: MappingProxyType(parameters)
        for name, (version, parameters) in found.items()
        if type(version) is int and version == _VERSION
    }


def _field(text: str) -> tuple[str, Any]:
    """Read a name and its value, which is true where there is none."""
    field = _FIELD.fullmatch(text.strip(" "))
    if field is None:
        raise ValueError(f"a name with a number, a token or a flag is expected, not {text[:40]!r}")
    name, number, token, flag = field.groups()
    if number is not None:
        return name, float(number) if "." in number else int(number)
    return name, token or flag != "0"
