"""What both clients have in common: everything but sending."""

import ssl
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Generic, Self, TypeVar

import httpx
from pydantic import SecretStr

from knowledge_bot.configuration import Configuration
from knowledge_bot.connections import library_of
from knowledge_bot.endpoints import Endpoints
from knowledge_bot.uploads import UploadEncoding
from knowledge_bot.wire import Wire

H = TypeVar("H")

_DEFAULT_TIMEOUT = 60.0
_DEFAULT_RETRIES = 2


class Configured(Endpoints, ABC, Generic[H]):
    """What both clients are before they send: configured, derived, copied and pickled."""

    _http: Any
    """What sends, and knows whether it was closed: an HTTP client, or transports by event loop."""

    def __init__(
        self,
        api_key: str | SecretStr | None = None,
        base_url: str | None = None,
        *,
        timeout: float = _DEFAULT_TIMEOUT,
        max_retries: int = _DEFAULT_RETRIES,
        http_client: H | None = None,
        upload_encoding: UploadEncoding = "value",
        verify: bool | str | ssl.SSLContext = True,
    ) -> None:
        self._configuration = Configuration.resolve(
            api_key=api_key,
            base_url=base_url,
            timeout=timeout,
            max_retries=max_retries,
            upload_encoding=upload_encoding,
            verify=verify,
        )
        self._injected: Any = http_client
        self._derived = self._closed = False
        self._connect()

    @abstractmethod
    def _connect(self) -> None: ...

    def _wire_for(self, kind: str) -> Wire:
        if self._injected is None:
            return Wire(self._configuration, httpx)
        library = library_of(self._injected, kind)
        return Wire(self._configuration, library, self._injected.headers.raw)

    @property
    def _is_closed(self) -> bool:
        return self._closed or bool(self._http.is_closed)

    @property
    def _owns_connections(self) -> bool:
        return self._injected is None and not self._derived

    @classmethod
    def configured(cls, configuration: Configuration) -> Self:
        """Return a client of a configuration that was checked already."""
        client = cls.__new__(cls)
        client.__setstate__({"_configuration": configuration, "_closed": False})
        return client

    @property
    def base_url(self) -> str:
        """The service's address, with its path."""
        return self._configuration.base_url

    def with_options(self, *, timeout: float | None = None, max_retries: int | None = None) -> Self:
        """Return a client with other limits that sends over this one's connections.

        Closing it leaves the connections open for this client and any other; closing this client
        closes them for all. It is cheap enough to be made for a single call.

        Args:
            timeout: seconds, as for the client; by default this client's.
            max_retries: as for the client; by default this client's.

        Raises:
            ConfigurationError: a limit that cannot be used.
        """
        limits = {"timeout": timeout, "max_retries": max_retries}
        changes: dict[str, Any] = {
            name: value for name, value in limits.items() if value is not None
        }
        configuration = replace(self._configuration, **changes)
        client = type(self).__new__(type(self))
        client.__dict__.update(self.__dict__, _configuration=configuration, _derived=True)
        return client

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={self.base_url!r})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # Frameworks copy the objects that hold a client; a copy with connections of its own would
        # be closed by nobody.
        return self

    def __getstate__(self) -> dict[str, Any]:
        if self._injected is not None:
            raise TypeError(
                f"a {type(self).__name__} with an http_client of yours cannot be pickled"
            )
        return {"_configuration": self._configuration, "_closed": self._is_closed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _injected=None, _derived=False)
        self._connect()
