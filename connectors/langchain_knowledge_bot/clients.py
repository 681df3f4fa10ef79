"""How the classes of this package reach the service: the fields that they share."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Self, TypeAlias, TypedDict

from langchain_core.utils import from_env, secret_from_env
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails
from typing_extensions import override

from knowledge_bot import AsyncClient, Client, ConfigurationError
from knowledge_bot.adapters import API_KEY_VARIABLE, BASE_URL_VARIABLE
from knowledge_bot.adapters.settings import async_twin, configuration_of, shared_client
from knowledge_bot.conversations import Heads, HeadsError

# The fields that a client already has.
_CLIENTS_OWN = ("api_key", "base_url", "timeout", "max_retries")


def _heads(heads: Any) -> Any:
    try:
        return heads if isinstance(heads, Heads | None) else Heads(heads)
    except HeadsError as error:  # which pydantic would let through
        raise ConfigurationError.of("heads", f"{error}") from error


HeadsField: TypeAlias = Annotated[
    Heads | None, BeforeValidator(_heads), Field(exclude=True, repr=False)
]
"""A field for `Heads`; takes them or their address."""


def _or_default(default: float) -> Callable[[Any], Any]:
    """Take None for what it is with other models: the default."""
    return lambda given: default if given is None else given


class ClientFields(TypedDict, total=False):
    """The fields of a `ClientMixin`, for type checkers."""

    api_key: SecretStr | str | None
    base_url: str | None
    timeout: float | None
    max_retries: int | None
    client: Client | None
    async_client: AsyncClient | None


class ClientMixin(BaseModel):
    """A service's address and key, or ready clients of it.

    Objects with the same key, address and settings share their clients, which need not be closed:
    `configurable_fields` may change any of these for a call, and existing connections are reused.
    With a client of the user's, the fields are those of that client. They cannot be assigned, since
    a copy of the connection would stay with the old ones; `model_copy` connects anew. A pickled
    object contains the API key.

    Raises:
        pydantic.ValidationError: no key or no base URL, or a field is unknown or wrong. It is a
            ValueError, and holds no field's value.
    """

    # The framework ignores unknown fields; this wins if `ClientMixin` is the last of the bases.
    model_config = ConfigDict(
        arbitrary_types_allowed=True, extra="forbid", hide_input_in_errors=True
    )

    api_key: SecretStr | None = Field(
        default_factory=secret_from_env(API_KEY_VARIABLE, default=None), frozen=True
    )
    """The key; by default `KNOWLEDGE_BOT_API_KEY`."""

    base_url: str | None = Field(
        default_factory=from_env(BASE_URL_VARIABLE, default=None), frozen=True
    )
    """The service's address; by default `KNOWLEDGE_BOT_BASE_URL`."""

    timeout: Annotated[float, BeforeValidator(_or_default(60.0))] = Field(60.0, frozen=True)
    """Seconds to wait for a connection, and again for the answer after sending; None: 60."""

    max_retries: Annotated[int, BeforeValidator(_or_default(2))] = Field(2, frozen=True)
    """How many times a request is retried if that cannot duplicate anything; None: twice."""

    client: Client | None = Field(default=None, exclude=True, frozen=True)
    """A client to use instead of a key, an address and the settings."""

    async_client: AsyncClient | None = Field(default=None, exclude=True, frozen=True)
    """The client of asynchronous calls; by default one with the settings of `client`. Required if
    `client` sends with its own `http_client`."""

    _sync: Client = PrivateAttr()
    _service: str = PrivateAttr()

    def __init__(self, *positional: Any, **fields: Any) -> None:
        name = type(self).__name__
        if positional:  # not quoted, since it may be a key
            fields_here = type(self).model_fields
            first = next(
                each for each in ("bot_id", "collections", "client") if each in fields_here
            )
            raise TypeError(
                f"{name}: pass each argument by its name, as in {name}({first}=...); "
                f"{len(positional)} came without one"
            )
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise _without_values(error) from None

    @override
    def __setattr__(self, name: str, value: Any) -> None:
        try:
            super().__setattr__(name, value)
        except ValidationError as error:
            raise _without_values(error) from None

    @override
    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy; with changed fields it is made anew, and so connects as they say.

        Raises:
            pydantic.ValidationError: a field is unknown or cannot be used.
        """
        copied = super().model_copy(deep=deep)
        if not update:
            return copied
        kept = {name: getattr(copied, name) for name in self.model_fields_set}
        return type(self)(**{**kept, **update})

    @model_validator(mode="after")
    def _connect(self) -> Self:
        if self.client is None:
            if self.async_client is not None:
                raise ConfigurationError.of("async_client", "needs client= as well; pass both")
            self._sync = shared_client(
                self.api_key, self.base_url, timeout=self.timeout, max_retries=self.max_retries
            )
            if configuration_of(self._sync).api_key is None:
                raise ConfigurationError.of(
                    "api_key", f"no API key; pass api_key= or set {API_KEY_VARIABLE}"
                )
        else:
            self._sync = self.client
            its = configuration_of(self.client)
            own = {each: getattr(its, each) for each in _CLIENTS_OWN}
            own["api_key"] = its.api_key and SecretStr(its.api_key.get_secret_value())
            # A framework copies an object from all its fields, and may change some of them.
            given = self.model_fields_set.intersection(_CLIENTS_OWN)
            others = [
                f"{each}="
                for each in _CLIENTS_OWN
                if each in given and getattr(self, each) != own[each]
            ]
            if others:
                raise ConfigurationError.of(
                    "client",
                    f"has its own key, address and settings; leave out {', '.join(others)}",
                )
            self.__dict__.update(own)
        self._service = self._sync.base_url
        return self

    @property
    def _account(self) -> str:
        """A digest that differs between keys and reveals none."""
        clients = [each for each in (self._sync, self.async_client) if each is not None]
        keys = [configuration_of(each).api_key for each in clients]
        joined = "\n".join(each.get_secret_value() if each else "" for each in keys)
        return hashlib.sha256(joined.encode()).hexdigest()[:16]

    def _awaiting_client(self) -> AsyncClient:
        return self.async_client or async_twin(self._sync)


def _without_values(error: ValidationError) -> ValidationError:
    # `hide_input_in_errors` only cleans the text: `errors()` still holds what was passed, and so
    # the key, whichever field is wrong.
    details = [
        InitErrorDetails(type=each["type"], loc=each["loc"], input=None, ctx=each.get("ctx", {}))
        for each in error.errors(include_input=False, include_url=False)
    ]
    return ValidationError.from_exception_data(error.title, details, hide_input=True)
