"""What an Airflow connection of type `knowledge_bot` means, with its defaults and its checks."""

import logging
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from knowledge_bot.errors import ConfigurationError

if TYPE_CHECKING:
    from airflow.sdk import Connection

T = TypeVar("T")

_log = logging.getLogger(__name__)


class ConnectionExtra(BaseModel):
    """The connection's extra. Texts are read as numbers too: a connection URI holds only texts."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    # A description completes the error's sentence on what the field expects.
    timeout: float = Field(60.0, gt=0, description="seconds above 0")
    """How long one request may wait for its answer."""
    max_retries: int = Field(2, ge=0, description="a whole number of 0 or more")
    """How often one try of a task resends a request on which the service cannot have acted."""
    verify: bool | str = Field(
        True,
        union_mode="left_to_right",
        description="true, false or the path of a PEM file",
    )
    """Whether to verify the TLS certificate, or the authorities to trust."""
    default_bot_id: str | None = Field(None, description="a bot's id as text")
    default_collection_id: str | None = Field(None, description="a collection's id as text")


class ConnectionSettings(BaseModel):
    """Everything a client needs, read from a connection."""

    model_config = ConfigDict(frozen=True)

    conn_id: str
    base_url: str
    api_key: SecretStr
    extra: ConnectionExtra

    @classmethod
    def read(cls, conn_id: str, connection: "Connection", extra: object) -> "ConnectionSettings":
        """Read a connection.

        Args:
            conn_id: the connection's id, for messages.
            connection: host is the base URL; password is the API key.
            extra: the connection's extra, as decoded from its JSON.

        Raises:
            ConfigurationError: a part is missing or wrong; the message names connection and field.
        """
        if not connection.password:
            raise ConfigurationError(
                f"The connection {conn_id!r} has no password: put the service's API key there"
            )
        return cls(
            conn_id=conn_id,
            base_url=_base_url(conn_id, connection),
            api_key=SecretStr(connection.password),
            extra=_extra(conn_id, extra),
        )

    def default(self, name: str, given: T | None) -> T | str:
        """Return the value of an argument, or what the connection has for it.

        Raises:
            ConfigurationError: there is neither.
        """
        field = {"bot_id": "default_bot_id", "collections": "default_collection_id"}[name]
        found: T | str | None = getattr(self.extra, field) if given is None else given
        if found is None:
            raise ConfigurationError.of(
                name,
                f"it is not given, and the connection {self.conn_id!r} has no {field!r} in "
                "its extra",
            )
        return found


def _base_url(conn_id: str, connection: "Connection") -> str:
    """Put the base URL together.

    The host usually holds all of it. If the connection was written as a URI, Airflow splits it: the
    path is then in `schema`, where other HTTP connections keep the protocol.
    """
    host = (connection.host or "").strip()
    if not host:
        raise ConfigurationError(
            f"The connection {conn_id!r} has no host: put the service's base URL there, "
            "as in https://service.example/public/v1"
        )
    schema = (connection.schema or "").strip("/ ")
    is_protocol = schema.lower() in {"http", "https"}
    protocol, path = (schema.lower(), "") if is_protocol else ("https", schema)
    try:
        url = urlsplit(host if "://" in host else f"{protocol}://{host}")
        has_port = url.port is not None
    except ValueError:
        # The reason would quote a part of it, and a key may have been pasted there.
        raise ConfigurationError(
            f"The connection {conn_id!r}: its host is not a URL: put the service's base URL there, "
            "as in https://service.example/public/v1"
        ) from None
    if connection.port and not has_port:
        url = url._replace(netloc=f"{url.netloc}:{connection.port}")
    if path and not url.path.strip("/"):
        url = url._replace(path=f"/{path}")
    return url.geturl()


def _extra(conn_id: str, extra: object) -> ConnectionExtra:
    if not isinstance(extra, dict):
        raise ConfigurationError(f"The connection {conn_id!r}: its extra is not a JSON object")
    # The connection form saves an emptied field as null or as an empty text.
    given: dict[str, Any] = {key: value for key, value in extra.items() if value not in (None, "")}
    if unread := sorted(given.keys() - ConnectionExtra.model_fields.keys()):
        _log.warning("The connection %r: nothing reads %s in its extra.", conn_id, unread)
    try:
        return ConnectionExtra.model_validate(given)
    except ValidationError as error:
        # The value is left out: a secret may have been pasted into the wrong field.
        fields = dict.fromkeys(str(problem["loc"][0]) for problem in error.errors())
        known = ConnectionExtra.model_fields
        wrong = "; ".join(
            f"the field {field!r} of its extra expects {known[field].description}"
            for field in fields
        )
        raise ConfigurationError(f"The connection {conn_id!r}: {wrong}") from None
