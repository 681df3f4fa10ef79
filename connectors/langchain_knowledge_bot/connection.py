"""How a class of this package reaches the service: the fields that all of them share."""

import os
from typing import Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails

from knowledge_bot import AsyncClient, Client, ConfigurationError

API_KEY = "KNOWLEDGE_BOT_API_KEY"

# What a given client has already.
_CLIENTS_OWN = ("api_key", "base_url", "timeout", "max_retries")


class Connection(BaseModel):
    """A service's address and key, or ready clients of it.

    Whenever an object is made, its clients are made from the fields and kept beside them, so that
    `configurable_fields` may change any of these. Pickling an object takes the API key along.

    Raises:
        pydantic.ValidationError: no key or no base URL, or a field that is unknown or cannot be
            used. It is a ValueError, and holds no field's value.
    """

    # The framework ignores unknown fields; this wins where `Connection` is the last of the bases.
    model_config = ConfigDict(
        arbitrary_types_allowed=True, extra="forbid", hide_input_in_errors=True
    )

    api_key: SecretStr | None = None
    """The key; by default `KNOWLEDGE_BOT_API_KEY`."""

    base_url: str | None = None
    """The service's address; by default `KNOWLEDGE_BOT_BASE_URL`."""

    timeout: float = 60.0
    """Seconds to wait for a connection, and again for the answer after sending."""

    max_retries: int = 2
    """How many times a request is sent again where that cannot duplicate anything."""

    client: Client | None = Field(default=None, exclude=True)
    """A client to use instead of a key, an address and the settings."""

    async_client: AsyncClient | None = Field(default=None, exclude=True)
    """What asynchronous calls use; by default a client with the settings of `client`. To be given
    where `client` sends with an `http_client` of its own."""

    _sync: Client = PrivateAttr()
    _async: AsyncClient | None = PrivateAttr(default=None)

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise _without_values(error) from None

    @model_validator(mode="after")
    def _connect(self) -> Self:
        if self.client is None:
            if self.async_client is not None:
                raise ConfigurationError("async_client: goes with client=; pass both")
            if not self.api_key and not os.environ.get(API_KEY):
                raise ConfigurationError(f"api_key: no API key; pass api_key= or set {API_KEY}")
            self._sync = Client(
                self.api_key, self.base_url, timeout=self.timeout, max_retries=self.max_retries
            )
        elif others := [f"{name}=" for name in _CLIENTS_OWN if name in self.model_fields_set]:
            raise ConfigurationError(
                f"client: has a key, an address and settings of its own; pass no others beside it, "
                f"as {', '.join(others)} here"
            )
        else:
            self._sync = self.client
        self._async = self.async_client
        return self

    @property
    def _service(self) -> str:
        return self._sync.base_url

    def _awaiting_client(self) -> AsyncClient:
        if self._async is None:
            self._async = self._sync.to_async()
        return self._async


def _without_values(error: ValidationError) -> ValidationError:
    # `hide_input_in_errors` cleans the text alone: `errors()` still holds what was passed, and so
    # the key, whichever field is wrong.
    details = [
        InitErrorDetails(type=each["type"], loc=each["loc"], input=None, ctx=each.get("ctx", {}))
        for each in error.errors(include_input=False, include_url=False)
    ]
    return ValidationError.from_exception_data(error.title, details, hide_input=True)
