"""What a service is started with: collections, bots, keys, limits, folder. Frozen once read."""

import tomllib
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

MIB = 1024 * 1024

CollectionId = Annotated[str, Field(pattern=r"^col_[A-Za-z0-9_-]{1,60}$")]
BotId = Annotated[str, Field(pattern=r"^bot_[A-Za-z0-9_-]{1,60}$")]
Network = Annotated[
    IPv4Network | IPv6Network,
    # The union's own errors would tell about both kinds of network.
    PlainValidator(ip_network),
]
Name = Annotated[str, Field(min_length=1, max_length=300)]


class SettingsError(Exception):
    """The settings cannot be used. str() says which setting, and why."""


def _endpoint(url: str) -> str:
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        # Its own words repeat what may be a part of a password.
        port = 0
    if port == 0:
        raise ValueError("must have a port of 1 to 65535, or none")
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("must be an http or https address without a query")
    if "@" in parts.netloc:
        raise ValueError("must hold no user and password; api_key_env names where the key is")
    return url


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class CollectionSettings(_Section):
    """A collection that sources can be added to."""

    id: CollectionId
    name: Name


class BotSettings(_Section):
    """A bot, and the ids of the collections that it reads."""

    id: BotId
    name: Name
    collections: tuple[CollectionId, ...] = Field(min_length=1)


class Limits(_Section):
    """What one client may use.

    `request_bytes` bounds a JSON request and so the text it carries, `upload_bytes` an upload. Both
    count the body as it arrives. `sources` is a quota: how many sources the service accepts before
    it answers 402 (sources that failed do not count); None is no quota.

    `connections` is how many clients may be connected at once: fewer where the system allows the
    process fewer open files. A request's headers may take `head_seconds` to arrive, and a
    connection may wait as long for its first request. A body has to arrive at 500 bytes a second or
    faster, over any `body_seconds`.
    """

    request_bytes: int = Field(default=50 * MIB, ge=1)
    upload_bytes: int = Field(default=200 * MIB, ge=1)
    sources: int | None = Field(default=None, ge=0)
    connections: int = Field(default=2000, ge=1)
    head_seconds: float = Field(default=20.0, gt=0, le=3600)
    body_seconds: float = Field(default=30.0, gt=0, le=3600)


class AnswersSettings(_Section):
    """A language model that words the answers; without one they quote the passages.

    `base_url` is that of an OpenAI-compatible interface, such as `http://127.0.0.1:11434/v1`.
    `api_key_env` names the environment variable that holds its key. `timeout` is how long one
    answer may take, in seconds: less than the clients of the service wait. `max_passages` is how
    many passages the model is given at most.
    """

    base_url: Annotated[str, AfterValidator(_endpoint)]
    model: Name
    api_key_env: Annotated[str, Field(min_length=1)] | None = None
    timeout: float = Field(default=30.0, gt=0, le=600)
    max_passages: int = Field(default=5, ge=1, le=5)


class Settings(_Section):
    """Everything that a service is started with.

    `wait_for_sources` is how many seconds a question waits at most for sources that were accepted
    before it: the interface has no way to ask for a source's status (section 3), so a client that
    adds a source and then asks about it relies on this.
    """

    data: Path = Path("kbot-data")
    api_keys: tuple[SecretStr, ...] = ()
    collections: tuple[CollectionSettings, ...] = (
        CollectionSettings(id="col_default", name="Default"),
    )
    bots: tuple[BotSettings, ...] = (
        BotSettings(id="bot_default", name="Assistant", collections=("col_default",)),
    )
    limits: Limits = Limits()
    answers: AnswersSettings | None = None
    allow_fetch: tuple[Network, ...] = ()
    wait_for_sources: float = Field(default=5.0, ge=0, le=60)
    workers: int = Field(default=4, ge=1, le=64)

    @field_validator("api_keys")
    @classmethod
    def _keys_fit_a_header(cls, keys: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        if not all(_fits_a_header(key.get_secret_value()) for key in keys):
            raise ValueError("a key must be 1 to 200 visible ASCII characters")
        return keys

    @model_validator(mode="after")
    def _ids_agree(self) -> Self:
        known = [collection.id for collection in self.collections]
        _refuse_repeats("collection", known)
        _refuse_repeats("bot", [bot.id for bot in self.bots])
        for bot in self.bots:
            if missing := set(bot.collections) - set(known):
                raise ValueError(
                    f"bot {bot.id} reads {', '.join(sorted(missing))}, which is no collection "
                    f"here; the collections are {', '.join(known) or 'none'}"
                )
        return self


def read_settings(path: Path) -> Settings:
    """Read a TOML file into settings; what it leaves out has its default.

    A relative `data` folder is taken from the file's own folder.

    Raises:
        SettingsError: the file cannot be read, is not TOML, or has keys or values that are wrong;
            every one of them is named.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not a TOML file: {error}") from None
    if isinstance(folder := values.get("data"), str):
        values["data"] = path.parent / folder
    return parse_settings(values, origin=str(path))


def overridden(
    settings: Settings,
    *,
    data: Path | None = None,
    api_keys: Sequence[str] = (),
    allow_fetch: Sequence[str] = (),
) -> Settings:
    """Settings with what a command line says put over them; what it leaves out stays.

    Raises:
        SettingsError: a value is wrong; it is named.
    """
    values: dict[str, object] = dict(settings)
    if data is not None:
        values["data"] = data
    if api_keys:
        values["api_keys"] = tuple(api_keys)
    if allow_fetch:
        values["allow_fetch"] = (*settings.allow_fetch, *allow_fetch)
    return parse_settings(values, origin="command line")


def parse_settings(values: dict[str, object], *, origin: str) -> Settings:
    """Make settings from plain values, such as a file's.

    Raises:
        SettingsError: keys or values are wrong; `origin` says where they came from.
    """
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        found = "; ".join(
            f"{'.'.join(map(str, problem['loc'])) or 'settings'}: "
            f"{_in_words(problem['type'], problem['msg'])}"
            for problem in error.errors(include_input=False, include_url=False)
        )
        raise SettingsError(f"{origin}: {found}") from None


def _in_words(kind: str, message: str) -> str:
    return "there is no such setting" if kind == "extra_forbidden" else message


def _fits_a_header(key: str) -> bool:
    return 1 <= len(key) <= 200 and all("!" <= character <= "~" for character in key)


def _refuse_repeats(kind: str, ids: list[str]) -> None:
    if repeated := {one for one in ids if ids.count(one) > 1}:
        raise ValueError(f"{kind} {', '.join(sorted(repeated))} is declared twice")
