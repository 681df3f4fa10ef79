"""What a service is started with: collections, bots, keys, limits, folder. Frozen once read."""

import logging
import re
import tomllib
from collections.abc import Iterable, Mapping
from datetime import date
from difflib import get_close_matches
from functools import partial
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, TypeAlias, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    SecretStr,
    ValidationError,
    model_validator,
)

if TYPE_CHECKING:
    from knowledge_bot_web.fetching import FetchPolicy

_log = logging.getLogger(__name__)

MIB = 1024 * 1024

KEY_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}"
"""What the names of keys look like: they are in the log."""

Role: TypeAlias = Literal["read", "write", "manage"]

ROLES: Final[Mapping[Role, str]] = {
    "read": "list and ask",
    "write": "list, ask and add",
    "manage": "list, ask, add, replace and delete",
}
"""What a key of each role may do. Each may what those before it may."""

GIVEN_KEY: Final = "api-key"
"""The name of the key that a command line, or whoever starts a service from Python, gives."""

_COLLECTION_ID: Final = r"^col_[A-Za-z0-9_-]{1,60}$"
_BOT_ID: Final = r"^bot_[A-Za-z0-9_-]{1,60}$"
_ENDPOINT: Final = (
    r"^https?://([^\s/?#@:\[\]]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,4}|:[1-6][0-9]{4})?(/[^\s?#]*)?$"
)


CollectionId = Annotated[str, Field(pattern=_COLLECTION_ID)]
BotId = Annotated[str, Field(pattern=_BOT_ID)]
Network = Annotated[
    IPv4Network | IPv6Network,
    # The union's own errors would name both kinds of network.
    PlainValidator(partial(ip_network, strict=False)),
]
Name = Annotated[str, Field(min_length=1, max_length=300)]


# Shorter ones are guessed in a moment, or are a slip.
_KEY: Final = re.compile("[!-~]{3,200}")


class SettingsError(Exception):
    """The settings cannot be used. str() says which setting, and why."""


def wrong_with_key(key: str) -> str | None:
    """Say why a text cannot be a key, beginning with "must"; None where it can."""
    return None if _KEY.fullmatch(key) else "must be 3 to 200 visible ASCII characters"


def _usable(key: SecretStr) -> SecretStr:
    if wrong := wrong_with_key(key.get_secret_value()):
        raise ValueError(wrong)
    return key


KeyText = Annotated[SecretStr, AfterValidator(_usable)]


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


class KeyRights(_Section):
    """What a key is called and may do.

    `role` is "read" for whoever lists and asks, "write" for whoever also adds, "manage" for whoever
    also replaces and deletes. `expires` is the first day, in UTC, on which the key is no
    longer taken.

    `bots` and `collections` limit the key to these; None is no limit. With `collections` alone it
    sees the bots that read nothing else, and with `bots` alone the collections that these read.
    """

    name: Annotated[str, Field(pattern=f"^{KEY_NAME}$")]
    role: Role
    expires: date | None = None
    bots: tuple[BotId, ...] | None = None
    collections: tuple[CollectionId, ...] | None = None


class KeySettings(KeyRights):
    """A key with a name, which the log has, and a role.

    The key itself is `key`, or in the environment variable `key_env` or the file `key_file`: one of
    the three.
    """

    key: KeyText | None = None
    key_env: Annotated[str, Field(min_length=1)] | None = None
    key_file: Path | None = None

    @model_validator(mode="after")
    def _has_one_key(self) -> Self:
        given = [one for one in (self.key, self.key_env, self.key_file) if one is not None]
        if len(given) != 1:
            raise ValueError(
                f"the key {self.name} must have one of key, key_env and key_file; it has "
                f"{len(given)}"
            )
        return self


class LimitSettings(_Section):
    """What one client may use.

    `request_bytes` bounds a JSON request and so the text it carries, `upload_bytes` an upload. Both
    count the body as it arrives. `sources` is a quota: how many sources the service accepts before
    it answers 402 (sources that failed do not count); None is no quota.

    `connections` is how many clients may be connected at once; each is an open file, of which a
    process may have 1,024 as a rule. Whoever comes beyond it gets 503.
    """

    # Neither true nor "5" is a number.
    model_config = ConfigDict(strict=True)

    request_bytes: int = Field(default=50 * MIB, ge=1)
    upload_bytes: int = Field(default=200 * MIB, ge=1)
    sources: int | None = Field(default=None, ge=0)
    connections: int = Field(default=500, ge=1)


class AnswersSettings(_Section):
    """A language model that words the answers; without one they quote the passages.

    `base_url` is that of an OpenAI-compatible interface, such as `http://127.0.0.1:11434/v1`.
    `api_key_env` names the environment variable that holds its key. `timeout` is how long one
    answer may take, in seconds: less than the clients of the service wait.
    """

    model_config = ConfigDict(strict=True)

    base_url: Annotated[str, Field(pattern=_ENDPOINT)]
    model: Name
    api_key_env: Annotated[str, Field(min_length=1)] | None = None
    timeout: float = Field(default=30.0, gt=0, le=600)


class ServiceConfiguration(_Section):
    """Everything that a service is started with.

    It listens at `host` on `port`; 0 takes a free one.

    Without `keys` it makes one, which its data folder keeps.

    `wait_for_sources` is how many seconds a question waits at most for sources that were accepted
    before it: the interface has no way to ask for a source's status (section 3), so a client that
    adds a source and then asks about it relies on this.
    """

    host: Annotated[str, Field(min_length=1, max_length=255)] = "127.0.0.1"
    port: int = Field(default=8700, ge=0, le=65535, strict=True)
    data: Path = Path("kbot-data")
    keys: tuple[KeySettings, ...] = ()
    collections: tuple[CollectionSettings, ...] = (
        CollectionSettings(id="col_default", name="Default"),
    )
    bots: tuple[BotSettings, ...] = (
        BotSettings(id="bot_default", name="Assistant", collections=("col_default",)),
    )
    limits: LimitSettings = LimitSettings()
    answers: AnswersSettings | None = None
    allow_fetch: tuple[Network, ...] = ()
    wait_for_sources: float = Field(default=5.0, ge=0, le=60, strict=True)
    workers: int = Field(default=4, ge=1, le=64, strict=True)

    @model_validator(mode="after")
    def _ids_agree(self) -> Self:
        known = [collection.id for collection in self.collections]
        _refuse_repeats("collection", known)
        _refuse_repeats("bot", [bot.id for bot in self.bots])
        _refuse_repeats("key", [key.name for key in self.keys])
        for bot in self.bots:
            if missing := set(bot.collections) - set(known):
                declared = "bots" in self.model_fields_set
                advice = "" if declared else "; declare [[bots]] that read them"
                raise ValueError(
                    f"bot {bot.id} reads {', '.join(sorted(missing))}, which is no collection "
                    f"here; the collections are {', '.join(known) or 'none'}{advice}"
                )
        for key in self.keys:
            if absent := self.unknown_in(key.bots or (), key.collections or ()):
                raise ValueError(f"the key {key.name} is limited to {absent}, which is not here")
        return self

    @property
    def fetch_policy(self) -> "FetchPolicy":
        """Where web pages may be fetched from."""
        from knowledge_bot_web.fetching import FetchPolicy

        advice = "; the service may be started with `--allow-fetch` to open a network"
        return FetchPolicy(allow=self.allow_fetch, advice=advice)

    def unknown_in(self, bots: Iterable[str], collections: Iterable[str]) -> str:
        """Say which of the bots and collections that a key is limited to are not declared."""
        known = {*(bot.id for bot in self.bots), *(one.id for one in self.collections)}
        return ", ".join(sorted({*bots, *collections} - known))


def read_settings(path: Path) -> ServiceConfiguration:
    """Read a TOML file into settings; what it leaves out has its default.

    A relative `data` folder or `key_file` is taken from the file's own folder. The log warns of a
    file with keys in it that others on this machine may read.

    Raises:
        SettingsError: the file cannot be read, is not TOML, or has keys or values that are wrong;
            every one of them is named.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not a TOML file: {error}") from None
    if isinstance(folder := values.get("data"), str):
        values["data"] = path.parent / folder
    keys = values["keys"] if isinstance(values.get("keys"), list) else ()
    for key in keys:
        if isinstance(key, dict) and isinstance(file := key.get("key_file"), str):
            key["key_file"] = path.parent / file
    if any("key" in key for key in keys if isinstance(key, dict)) and path.stat().st_mode & 0o077:
        _log.warning("%s holds keys, and others on this machine may read it: chmod 600 it", path)
    return parse_settings(values, origin=str(path))


def overridden(settings: ServiceConfiguration, given: Mapping[str, object]) -> ServiceConfiguration:
    """Settings with what a command line says: in place of theirs; where there are several, beside.

    What is None is not given.

    Raises:
        SettingsError: a value is wrong; it is named.
    """
    # Not dict(settings), which takes a setting named `keys` for a mapping's method.
    values = {name: getattr(settings, name) for name in ServiceConfiguration.model_fields}
    for name, value in given.items():
        if isinstance(value, tuple):
            values[name] = (*values[name], *value)
        elif value is not None:
            values[name] = value
    return parse_settings(values, origin="command line")


def parse_settings(values: dict[str, object], *, origin: str) -> ServiceConfiguration:
    """Make settings from plain values, such as a file's.

    Raises:
        SettingsError: keys or values are wrong; `origin` says where they came from.
    """
    try:
        return ServiceConfiguration.model_validate(values)
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False)
        found = "; ".join(map(_sentence, problems))
        raise SettingsError(f"{origin}: {found}") from None


def in_words(problem: Any) -> str:
    """Say what a validation error means, without its place: "must be a valid integer"."""
    kind, given = problem["type"], problem.get("ctx", {})
    if kind == "value_error":
        return str(given["error"])
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(given["pattern"], f"must match {given['pattern']}")
    # In the library's words, without what it calls the value.
    said = problem["msg"].replace(" after validation", "")
    return _WORDS.get(kind) or re.sub(r"^\w+ should ", "must ", said)


def _sentence(problem: Any) -> str:
    steps = (f"item {one + 1}" if isinstance(one, int) else one for one in problem["loc"])
    place = ", ".join(steps)
    said = f"{place}: {in_words(problem)}" if place else in_words(problem)
    if problem["type"] == "extra_forbidden":
        for near in get_close_matches(str(problem["loc"][-1]), _known(problem["loc"]), 1):
            said += f"; did you mean {near}?"
    return said


def _known(place: tuple[Any, ...]) -> Iterable[str]:
    """Return the names that are known where one is not."""
    if len(place) == 1:
        return ServiceConfiguration.model_fields
    kind = ServiceConfiguration.model_fields[place[0]].annotation
    tables = (getattr(one, "model_fields", None) for one in (kind, *get_args(kind)))
    return next(filter(None, tables), ())


_PATTERNS: Final = {
    _COLLECTION_ID: "must be col_ and then 1 to 60 letters, digits, _ or -",
    _BOT_ID: "must be bot_ and then 1 to 60 letters, digits, _ or -",
    _ENDPOINT: "must be an http or https address without user, password and query",
    f"^{KEY_NAME}$": "must be 1 to 60 letters, digits, dots, _ or -, and begin with one of the "
    "first two",
}

_DAY: Final = "must be a day, as in 2027-11-30"
_LIST: Final = "must be a list in brackets"
_TABLE: Final = "must have a name and a value for each of its fields"

# By the library's names of what can be wrong: where its own words are Python's.
_WORDS: Final[Mapping[str, str]] = {
    "extra_forbidden": "is not known here",
    "missing": "is missing",
    "date_parsing": _DAY,
    "date_from_datetime_parsing": _DAY,
    "list_type": _LIST,
    "tuple_type": _LIST,
    "model_type": _TABLE,
    "dict_type": _TABLE,
    "path_type": "must be a path",
    "model_attributes_type": _TABLE,
    # JSON can escape what UTF-8 cannot carry, such as a lone "\ud800".
    "string_unicode": "must not contain half a surrogate pair",
}


def _refuse_repeats(kind: str, ids: list[str]) -> None:
    if repeated := {one for one in ids if ids.count(one) > 1}:
        raise ValueError(f"{kind} {', '.join(sorted(repeated))} is declared twice")
