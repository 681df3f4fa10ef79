"""Objects of a store that fsspec can reach: S3 and similar, SFTP, WebDAV, and many more."""

import datetime as dt
import io
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, cast
from urllib.parse import unquote, urlsplit

from knowledge_bot._extras import require
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest._listings import Skipped
from knowledge_bot.origins._origin import (
    Memory,
    Origin,
    check_flag,
    detail_of,
    is_template,
    patterns_of,
    to_the_end,
)
from knowledge_bot.origins._patterns import globbing, is_hidden, matching

if TYPE_CHECKING:
    from knowledge_bot.ingest._items import File

# The fields of an object's validator, and of the times used if there is none.
_VALIDATORS = ("ETag", "etag", "generation", "md5Hash", "content_md5")
_TIMES = ("LastModified", "last_modified", "mtime", "modified", "updated", "modify", "created")

# As for files: an object that changed this recently, in seconds, may change and keep its time.
_SETTLED = 2.0

# Bytes that are read ahead. s3fs would use 50 MiB for each open object.
_BLOCK = 4 * 1024 * 1024

# Bytes of an object that are kept in memory.
_IN_MEMORY = 1024 * 1024

_WILDCARDS = frozenset("*?[")

# Protocols in which the part before the @ is not a user but part of the place.
_NAMES_THE_PLACE = ("abfs", "abfss", "az", "github")

# Options whose values are secret, by their names.
_SECRET = re.compile(
    r"key|secret|token|pass|cred|auth|sas|connection_string|header|cookie|user", re.IGNORECASE
)
# Options that say which store is meant: its address, an account, an archive, a repository.
_OF_THE_STORE = re.compile(
    r"endpoint(_url)?|(base_|account_|server_)?url|(account_)?host|hostname|port|server|share"
    r"|account(_name)?|container(_name)?|fo|archive|org|repo|sha|ref|project(_id)?|drive_id|site"
    r"|client_kwargs",
    re.IGNORECASE,
)
# What of the secret text with which Azure's stores are reached says which store it is.
_AZURE = re.compile(r"\b(?:AccountName|BlobEndpoint|EndpointSuffix)=[^;]+")

# Where the stores' own libraries look for the same.
_VARIABLES = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "abfs": ("AZURE_STORAGE_ACCOUNT_NAME",),
    "az": ("AZURE_STORAGE_ACCOUNT_NAME",),
    "gs": ("STORAGE_EMULATOR_HOST",),
}

Connect = Callable[[], tuple[Any, str]]
"""Returns a file system of fsspec, and the path in it where the search begins."""


@dataclass(frozen=True, repr=False)
class Objects(Origin):
    """The objects of a store that an address with wildcards names, or all below a folder.

    The store is asked for a listing. What it says about an object (its ETag, or its size and times)
    is the item's version: only new and changed objects are opened, once to compare them and once to
    send them. An object is named by its path below the part of the address
    without wildcards, which is its key.

    What is sent is what was listed. An object that changes after that, even while it is read, is
    named in the report, and the next run takes it. What cannot be listed, and links, are `Skipped`.

    Attributes:
        address: where to look, such as `s3://bucket/docs/**/*.pdf`, or a path of Airflow's object
            storage; protocols are those of fsspec. `*` is any part of a name, `**/` any number of
            folders.
        name: stays the same wherever the objects are; by default the address without credentials,
            and the options that say which store is meant, such as an endpoint, an account or an
            archive.
        exclude: what to leave out, written like a `.gitignore`: `*.tmp`, `drafts/`. A `.kbotignore`
            in a store is not read.
        hidden: whether to take names that begin with a dot, if the address names none.
        storage_options: fsspec's options for the protocol, such as keys, or an endpoint. They are
            never shown.
        connect: returns a file system and the path in it, where somebody else knows how to reach
            the store, as Airflow does.

    Raises:
        ConfigurationError: an argument cannot be used; from `items`, that the package for the
            protocol is not installed.
        MissingExtraError: from `items`: the extra `objects` is not installed.
    """

    address: str = field(repr=False)
    _: KW_ONLY
    exclude: str | Iterable[str] = ()
    hidden: bool = False
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    connect: Connect | None = field(default=None, repr=False, compare=False)

    template_fields: ClassVar[tuple[str, ...]] = ("address", "name", "exclude", "storage_options")

    def _check(self) -> None:
        if hasattr(self.address, "protocol"):  # a path of Airflow, or of universal_pathlib
            self._set(address=str(self.address))
        self._set(exclude=patterns_of("exclude", self.exclude))
        check_flag("hidden", self.hidden)
        matching(self.exclude)
        options: object = self.storage_options
        if not (isinstance(options or {}, Mapping) or is_template(options)):
            raise ConfigurationError.expected("storage_options", "a mapping", options)
        if not is_template(self.address):
            _ = _StorePlace.of(self.address).matches

    def _default_name(self) -> str:
        if is_template(self.address) or is_template(self.storage_options):
            return "objects"
        place = _StorePlace.of(self.address)
        name = f"{place.shown}/{place.pattern}" if place.pattern else place.shown
        named = {*_identifying(self.storage_options or {}), *_in_the_environment(place.protocol)}
        store = " ".join(sorted(named))
        return f"{name} [{store}]" if store else name

    def gone_reason(self, key: str) -> str:
        """Return why the object with a key did not come."""
        return "excluded" if self._listing().leaves_out(key) else "missing"

    def items(self, memory: Memory | None = None) -> "Iterator[File | Skipped]":  # noqa: ARG002 - as others
        """Yield a `File` for each object, and a `Skipped` for what is left out."""
        listing = self._listing()
        found = listing.items(self.connect or self._connecting())
        return to_the_end(found, listing.address, listing.hide)

    def _listing(self) -> "_Listing":
        place = _StorePlace.of(self.address)
        hide = _Hiding(place.secrets | _secrets(self.storage_options or {}))
        takes_hidden = self.hidden or is_hidden(place.pattern)
        taking = place.matches, matching(self.exclude), takes_hidden
        return _Listing(place.shown, *taking, hide, self.allow_empty)

    def _connecting(self) -> Connect:
        require("Objects", "objects", "fsspec")
        from fsspec import get_filesystem_class

        place = _StorePlace.of(self.address)
        try:
            kind = get_filesystem_class(place.protocol)
        except (ImportError, ValueError) as error:
            stores = "; a store is s3://, gs://, abfs://, sftp:// or another one that fsspec knows"
            known = stores * isinstance(error, ValueError)
            raise ConfigurationError.of(
                "address", f"{place.shown} cannot be reached: {str(error).rstrip('.')}{known}"
            ) from None

        def connect() -> tuple[Any, str]:
            options = self.storage_options or {}
            given = {**kind._get_kwargs_from_urls(place.base), **options}  # noqa: SLF001 - as fsspec does
            # A new instance, so that no listing of an earlier run is used.
            return kind(**given, skip_instance_cache=True), str(kind._strip_protocol(place.base))  # noqa: SLF001 - as above

        return connect


def _identifying(options: Mapping[str, Any]) -> Iterator[str]:
    """Yield what says which store is meant, and no secret."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _identifying(value) if _OF_THE_STORE.fullmatch(name) else ()
        elif name == "connection_string" and isinstance(value, str):
            yield from _AZURE.findall(value)
        elif _OF_THE_STORE.fullmatch(name) and isinstance(value, str | int | os.PathLike):
            yield f"{name}={_without_login(name, str(value))}"


def _in_the_environment(protocol: str) -> Iterator[str]:
    for variable in _VARIABLES.get(protocol, ()):
        if value := os.environ.get(variable):
            yield _without_login(variable, value)


def _without_login(name: str, value: str) -> str:
    """Return the place that an option names: no login, no query, and a path as a whole one."""
    if "://" in value:
        parts = urlsplit(value)
        return parts._replace(
            netloc=parts.netloc.rpartition("@")[2], query="", fragment=""
        ).geturl()
    return os.path.abspath(value) if name in ("fo", "archive") else value  # noqa: PTH100 - no IO


@dataclass(frozen=True)
class _Listing:
    """The objects below an address, and what is taken of them."""

    address: str
    matches: Callable[[str], object] | None
    ignores: Callable[[str], bool] | None
    hidden: bool
    hide: Callable[[str], str]
    may_be_empty: bool

    def leaves_out(self, name: str) -> bool:
        """Return whether a filter leaves an object out."""
        ignored = self.ignores is not None and self.ignores(name)
        taken = self.matches is None or self.matches(name)
        return ignored or not taken or (is_hidden(name) and not self.hidden)

    def items(self, connect: Connect) -> "Iterator[File | Skipped]":
        """Yield what the store lists."""
        store, root = connect()
        store.invalidate_cache()  # the caller's store may hold an older listing
        flat = _lists_all_at_once(store)
        yield from (self._at_once if flat else self._by_folder)(store, root)

    def _at_once(self, store: Any, root: str) -> "Iterator[File | Skipped]":
        """Take one listing of everything, a thousand objects per request."""
        infos = store.find(root, detail=True)
        if not infos and not self.may_be_empty:  # without folders, an empty place does not exist
            raise FileNotFoundError("there is nothing")
        now = time.time()
        for path in list(infos):
            yield from self._taken(store, root, infos.pop(path), now)

    def _by_folder(self, store: Any, root: str) -> "Iterator[File | Skipped]":
        """List one folder after the other.

        fsspec's own `find` silently skips a folder that cannot be read.
        """
        first = store.info(root)
        if first["type"] != "directory":
            yield from self._taken(store, root, first, time.time())
            return
        waiting = [root]
        while waiting:
            folder, now = waiting.pop(), time.time()
            try:
                infos = sorted(store.ls(folder, detail=True), key=lambda info: str(info["name"]))
            except Exception as error:  # noqa: BLE001 - as above
                place = f"{self.address}/{_below(root, folder)}".rstrip("/")
                reason = f"it cannot be listed: {self.hide(detail_of(error))}"
                yield Skipped(place, reason, invalid=True, partial=True)
                continue
            folders = []
            for info in infos:
                if info["type"] == "directory" and not info.get("islink"):
                    relative = _below(root, str(info["name"])).rstrip("/")
                    itself = _below(folder, str(info["name"])).strip("/") == ""
                    if itself or (self.ignores and self.ignores(f"{relative}/")):
                        continue
                    if is_hidden(relative) and not self.hidden:
                        yield Skipped(relative, "it is hidden")
                    else:
                        folders.append(str(info["name"]))
                else:
                    yield from self._taken(store, root, info, now)
            waiting += reversed(folders)

    def _taken(
        self, store: Any, root: str, info: dict[str, Any], now: float
    ) -> "Iterator[File | Skipped]":
        from pydantic import ValidationError

        from knowledge_bot.ingest._items import File

        path = str(info["name"])
        relative = _below(root, path)
        if info["type"] == "directory" or path.endswith("/"):  # a folder, as an object of no bytes
            return
        single = not relative  # the address is that of an object
        name = relative or path.rstrip("/").rpartition("/")[2]
        if not single and self.matches is not None and not self.matches(name):
            return
        if self.ignores is not None and self.ignores(name):
            return
        if not (single or self.hidden) and is_hidden(name):
            yield Skipped(name, "it is hidden")
            return
        if info["type"] != "file" or info.get("islink"):
            what = "a link" if info.get("islink") or info["type"] == "link" else "not a file"
            yield Skipped(name, f"it is {what}")
            return
        address = self.address if single else f"{self.address}/{name}"
        token = _token(info)
        try:
            yield File(
                path=address,
                name=name,
                key=name,
                version=token if token and _is_settled(info, now) else None,
                open=io.BytesIO
                if info.get("size") == 0
                else partial(_opened, store, path, token, self.hide),
            )
        except ValidationError:
            shown = name.encode("utf-8", "backslashreplace").decode()
            yield Skipped(shown, "its name is not UTF-8 text; rename it", invalid=True)


def _opened(store: Any, path: str, token: str | None, hide: Callable[[str], str]) -> BinaryIO:
    """Return an object's content, on disk where it is large.

    It is read to its end first, so that nobody receives half of one object and half of its
    replacement.

    Raises:
        OSError: it cannot be read, or is not as it was listed.
    """
    file = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - the caller closes it
    try:
        try:
            with store.open(path, "rb", block_size=_BLOCK) as stream:
                shutil.copyfileobj(stream, file, _BLOCK)
        finally:
            is_listed = token in (None, _token(store.info(path, refresh=True)))
    except FileNotFoundError:
        raise OSError("it was removed since it was listed") from None
    except Exception as error:  # noqa: BLE001 - stores raise anything
        raise OSError(hide(detail_of(error))) from None
    if not is_listed:
        raise OSError("it changed since it was listed; the next run takes it")
    file.seek(0)
    return cast("BinaryIO", file)


@dataclass(frozen=True)
class _StorePlace:
    """The parts of an address.

    Attributes:
        protocol: before the colon.
        base: the part without wildcards, as it was given.
        shown: the same without credentials.
        pattern: the part with wildcards; empty without one.
        secrets: what must not be shown.
    """

    protocol: str
    base: str = field(repr=False)
    shown: str
    pattern: str
    secrets: frozenset[str] = field(repr=False)

    @property
    def matches(self) -> Callable[[str], object] | None:
        """Returns whether the pattern takes a path; None if all are taken."""
        return globbing([f"/{self.pattern}"], "address") if self.pattern else None

    @classmethod
    def of(cls, address: object) -> "_StorePlace":
        if not isinstance(address, str):
            raise ConfigurationError.expected("address", "a string", address)
        protocol, colon, rest = address.partition("://")
        if not colon or not re.fullmatch(r"[a-z][a-z0-9+.-]*", protocol):
            raise ConfigurationError.of(
                "address",
                "expected an address with a protocol, such as s3://bucket/docs/**; a "
                "folder is fed as a folder",
            )
        if "::" in rest:
            raise ConfigurationError.of(
                "address",
                "chained protocols cannot be used; zip:// takes its file as the store's option fo",
            )
        if protocol in ("http", "https"):  # its pages cannot be listed
            raise ConfigurationError.of("address", "for pages use Urls or Sitemap")
        if re.search(r"\?[^/?*]*=", rest):
            # The message does not quote it: it may be a signature.
            raise ConfigurationError.of(
                "address", "what follows the ? cannot be used; give options as storage_options"
            )
        parts = rest.split("/")
        first = next((i for i, part in enumerate(parts) if i and _WILDCARDS & set(part)), None)
        base = "/".join(parts[:first]).rstrip("/") or "/"
        pattern = "" if first is None else "/".join(parts[first:])
        place, slash, path = base.partition("/")
        user, _, host = place.rpartition("@")
        if protocol in _NAMES_THE_PLACE:
            user, host = "", place
        return cls(
            protocol,
            f"{protocol}://{base}",
            f"{protocol}://{f'{host}{slash}{path}'.rstrip('/')}",
            pattern,
            frozenset(_of_user(user)),
        )


class _Hiding:
    """Replaces secrets in a text."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # The longest first. Very short ones would be found in any text.
        self._secrets = sorted((each for each in secrets if len(each) > 3), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def _secrets(options: Mapping[str, Any]) -> set[str]:
    found: set[str] = set()
    for name, value in options.items():
        is_secret = bool(_SECRET.search(str(name)))
        if isinstance(value, Mapping):
            found |= _secrets({f"{name if is_secret else ''}.{key}": value[key] for key in value})
        elif isinstance(value, list | tuple):
            found |= _secrets({f"{name}.{number}": each for number, each in enumerate(value)})
        elif isinstance(value, str) and is_secret:
            found.add(value)
        elif isinstance(value, str) and "://" in value:
            found |= _of_user(value.partition("://")[2].partition("/")[0].rpartition("@")[0])
    return found


def _of_user(user: str) -> set[str]:
    """Return the secrets in the part of an address before the @."""
    name, _, password = user.partition(":")
    return {form for each in (user, name, password) for form in (each, unquote(each))}


def _lists_all_at_once(store: Any) -> bool:
    """Return whether a store can list everything below a place at once."""
    from fsspec import AbstractFileSystem
    from fsspec.asyn import AsyncFileSystem

    while type(store).__name__ == "DirFileSystem":  # it stands for a folder of another one
        store = store.fs
    kind = type(store)
    return kind.find is not AbstractFileSystem.find or (
        issubclass(kind, AsyncFileSystem) and kind._find is not AsyncFileSystem._find  # noqa: SLF001 - fsspec's way to override it
    )


def _below(root: str, path: str) -> str:
    """Return a path relative to another; some stores begin paths with a slash, some do not."""
    inner, outer = path.lstrip("/"), root.strip("/")
    return inner[len(outer) :].removeprefix("/") if inner.startswith(outer) else inner


def _token(info: Mapping[str, Any]) -> str | None:
    """Return a token that changes when the object does; None if the listing has none."""
    validator = next((str(info[name]) for name in _VALIDATORS if info.get(name)), "")
    size = info.get("size")
    if validator and not validator.startswith("W/"):
        # Azure quotes it in some answers and not in others.
        return f"{validator.strip(chr(34))} {size}"
    times = [_time(info[name]) for name in _TIMES if info.get(name) is not None]
    if not times and not validator:
        return None
    return " ".join(map(str, filter(None, [validator, size, *times, info.get("ino")])))


def _time(value: object) -> str:
    if isinstance(value, dt.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        return str(aware.timestamp())
    return str(value)


def _is_settled(info: Mapping[str, Any], now: float) -> bool:
    """Return whether a later change is sure to show in the listing."""
    if any(info.get(name) and not str(info[name]).startswith("W/") for name in _VALIDATORS):
        return True
    for name in _TIMES:
        try:
            if info.get(name) is not None and now - float(_time(info[name])) <= _SETTLED:
                return False
        except ValueError:  # a time in another format
            continue
    return True
