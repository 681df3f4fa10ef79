"""Objects of a store that fsspec can reach: S3 and similar, SFTP, WebDAV, and many more."""

import datetime as dt
import io
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, BinaryIO, cast
from urllib.parse import unquote

from pydantic import ValidationError

from knowledge_bot._extras import require
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest._items import File
from knowledge_bot.ingest._listings import Skipped
from knowledge_bot.ingest.sources._found import check_flag, patterns_of
from knowledge_bot.origins._patterns import HIDDEN, expression, matching

# The fields of an object's validator, and of the times used if there is none.
_VALIDATORS = ("ETag", "etag", "generation", "md5Hash", "content_md5")
_TIMES = ("LastModified", "last_modified", "mtime", "modified", "updated", "modify", "created")

# As for files: an object that changed this recently, in seconds, may change and keep its time.
_SETTLED = 2.0

# Bytes that are read ahead. s3fs would use 50 MiB for each open object.
_BLOCK = 4 * 1024 * 1024

_WILDCARDS = frozenset("*?[")

# Protocols in which the part before the @ is not a user but part of the place.
_NAMES_THE_PLACE = ("abfs", "abfss", "az", "github")

# Options of a store whose values are secret.
_SECRET = re.compile(
    r"key|secret|token|pass|cred|auth|sas|connection_string|header|cookie|user", re.IGNORECASE
)


def from_objects(
    address: str,
    *,
    exclude: str | Iterable[str] = (),
    hidden: bool = False,
    origin: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> "Objects":
    """Find objects of a store by an address with wildcards, or all below a folder.

    The store is asked for a listing. What it says about an object (its ETag, or its size and times)
    is the item's version: only new and changed objects are opened, and they are streamed, once to
    compare them and once to send them. An object is named by its path below the part of the address
    without wildcards; its key is its address. Neither holds credentials.

    What is sent is what was listed. An object that changes after that, even while it is read, is
    named in the report, and the next run takes it.

    Args:
        address: where to look, such as `s3://bucket/docs/**/*.pdf`; protocols are those of fsspec.
            `*` is any part of a name, `**/` any number of folders.
        exclude: what to leave out, written like a `.gitignore`: `*.tmp`, `drafts/`. A `.kbotignore`
            in a store is not read.
        hidden: whether to take names that begin with a dot, if the address names none.
        origin: a name for the place that stays the same wherever it is; by default the address.
        storage_options: fsspec's options for the protocol, such as keys, or an endpoint.

    Returns:
        An iterable of a `File` for each object, and a `Skipped` for each link and for what cannot
        be listed.

    Raises:
        ConfigurationError: the address or a pattern cannot be used, or the package for its protocol
            is not installed.
        ModuleNotFoundError: the extra `objects` is not installed.
    """
    require("from_objects", "objects", "fsspec")
    from fsspec import get_filesystem_class

    place = _StorePlace.of(address)
    try:
        kind = get_filesystem_class(place.protocol)
    except (ImportError, ValueError) as error:
        raise ConfigurationError.of(
            "address", f"{place.shown} cannot be reached: {error}"
        ) from None
    if not isinstance(storage_options or {}, Mapping):
        raise ConfigurationError.expected("storage_options", "a mapping", storage_options)
    options = dict(storage_options or {})
    hide = _Hiding(place.secrets | _secrets(options))

    def connect() -> tuple[Any, str]:
        given = {**kind._get_kwargs_from_urls(place.base), **options}  # noqa: SLF001 - as fsspec does
        # A new instance, so that no listing of an earlier run is used.
        return kind(**given, skip_instance_cache=True), str(kind._strip_protocol(place.base))  # noqa: SLF001 - as above

    return objects_in(
        connect,
        place.shown,
        place.pattern,
        exclude=exclude,
        hidden=hidden,
        origin=origin,
        hide=hide,
    )


def objects_in(
    connect: Callable[[], tuple[Any, str]],
    address: str,
    pattern: str,
    *,
    exclude: str | Iterable[str] = (),
    hidden: bool = False,
    origin: str | None = None,
    hide: Callable[[str], str] = str,
) -> "Objects":
    """Find objects in a given fsspec file system.

    `connect` returns the file system and the path in it where the search begins, whose address
    holds no credentials; an empty pattern takes all. `hide` removes secrets from the store's error
    messages. The options are those of `from_objects`.

    Raises:
        ConfigurationError: a pattern cannot be used.
    """
    try:
        matches = re.compile(expression(f"/{pattern}")).fullmatch if pattern else None
    except re.error as error:
        raise ConfigurationError.of("address", f"{pattern} cannot be used: {error.msg}") from None
    several = patterns_of("exclude", exclude)
    name = f"{address}/{pattern}" if pattern else address
    check_flag("hidden", hidden)
    takes_hidden = hidden or _is_hidden(pattern)
    found = Objects(address, address, name, connect, matches, matching(several), takes_hidden, hide)
    return found if origin is None else found.named(origin)


@dataclass(frozen=True)
class Objects:
    """The objects below an address; `from_objects` makes it.

    Attributes:
        address: where the search begins, without credentials.
        prefix: what the keys of its objects begin with.
        origin: the place's name in the ledger.
    """

    address: str
    prefix: str
    origin: str
    _connect: Callable[[], tuple[Any, str]] = field(repr=False)
    _matches: Callable[[str], object] | None = field(repr=False)
    _ignores: Callable[[str], bool] | None = field(repr=False)
    _hidden: bool = field(repr=False)
    _hide: Callable[[str], str] = field(repr=False)

    def named(self, origin: str) -> "Objects":
        """Return the same objects under a name that stays the same wherever they are."""
        return replace(self, prefix=origin, origin=origin)

    def gone_reason(self, key: str) -> str:
        """Return why the object with a key did not come."""
        name = key.removeprefix(f"{self.prefix}/")
        left_out = self._ignores is not None and self._ignores(name)
        left_out = left_out or (self._matches is not None and not self._matches(name))
        hidden = _is_hidden(name) and not self._hidden
        return "excluded" if left_out or hidden else "missing"

    def __iter__(self) -> Iterator[File | Skipped]:
        try:
            store, root = self._connect()
            store.invalidate_cache()  # the caller's store may hold an older listing
            flat = _lists_all_at_once(store)
            yield from (self._at_once if flat else self._by_folder)(store, root)
        except Exception as error:  # noqa: BLE001 - each store has its own errors
            yield self._unlisted(self.address, error)

    def _at_once(self, store: Any, root: str) -> Iterator[File | Skipped]:
        """Take one listing of everything, a thousand objects per request."""
        infos = store.find(root, detail=True)
        if not infos:  # such a store has no folders, so an empty one does not exist
            raise FileNotFoundError("there is nothing")
        now = time.time()
        for path in list(infos):
            yield from self._taken(store, root, infos.pop(path), now)

    def _by_folder(self, store: Any, root: str) -> Iterator[File | Skipped]:
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
                yield self._unlisted(place, error)
                continue
            folders = []
            for info in infos:
                if info["type"] == "directory" and not info.get("islink"):
                    relative = _below(root, str(info["name"])).rstrip("/")
                    itself = _below(folder, str(info["name"])).strip("/") == ""
                    if itself or (self._ignores and self._ignores(f"{relative}/")):
                        continue
                    if _is_hidden(relative) and not self._hidden:
                        yield Skipped(relative, "it is hidden")
                    else:
                        folders.append(str(info["name"]))
                else:
                    yield from self._taken(store, root, info, now)
            waiting += reversed(folders)

    def _taken(
        self, store: Any, root: str, info: dict[str, Any], now: float
    ) -> Iterator[File | Skipped]:
        path = str(info["name"])
        relative = _below(root, path)
        if info["type"] == "directory" or path.endswith("/"):  # a folder, as an object of no bytes
            return
        single = not relative  # the address is that of an object
        name = relative or path.rstrip("/").rpartition("/")[2]
        if not single and self._matches is not None and not self._matches(name):
            return
        if self._ignores is not None and self._ignores(name):
            return
        if not (single or self._hidden) and _is_hidden(name):
            yield Skipped(name, "it is hidden")
            return
        if info["type"] != "file" or info.get("islink"):
            what = "a link" if info.get("islink") or info["type"] == "link" else "not a file"
            yield Skipped(name, f"it is {what}")
            return
        address = self.address if single else f"{self.address}/{name}"
        token = _token(info)
        read = partial(_Reading, store, path, token, info.get("size"), self._hide)
        try:
            yield File(
                path=address,
                name=name,
                key=address if self.prefix == self.address else f"{self.prefix}/{name}",
                version=token if token and _is_settled(info, now) else None,
                open=cast("Callable[[], BinaryIO]", read),
            )
        except ValidationError:
            shown = name.encode("utf-8", "backslashreplace").decode()
            yield Skipped(shown, "its name is not UTF-8 text; rename it", invalid=True)

    def _unlisted(self, address: str, error: Exception) -> Skipped:
        return Skipped(
            address,
            f"it cannot be listed: {self._hide(_detail(error))}",
            invalid=True,
            partial=True,
        )


class _Reading(io.RawIOBase):
    """Reads an object, and raises if it is not as it was listed.

    The last bytes are returned only after a check that the object is still the listed one, so that
    nobody receives half of one object and half of its replacement.
    """

    def __init__(
        self, store: Any, path: str, token: str | None, size: int | None, hide: Callable[[str], str]
    ) -> None:
        self._store, self._path, self._token, self._size = store, path, token, size
        self._hide = hide
        self._at, self._checked_at_end, self._is_conditional = 0, False, False
        self._stream: Any = io.BytesIO()
        if size == 0:
            return
        try:
            self._stream = store.open(path, "rb", block_size=_BLOCK)
        except Exception as error:  # noqa: BLE001 - as in _by_folder
            self._check()
            raise OSError(hide(_detail(error))) from None
        # s3fs sends an ETag with each request (If-Match): the listed one, if it has the listing.
        if "IfMatch" in (getattr(self._stream, "read_kw", None) or {}):
            self._is_conditional = _token(self._stream.details) == token

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        # The store is sought only on reading: some make a request at each seek.
        if whence == io.SEEK_END and self._size is None:
            self._at = int(self._stream.seek(offset, whence))
        else:
            start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size or 0}[whence]
            self._at = start + offset
        self._checked_at_end = False  # it may be sent again, from its first byte
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        if self._checked_at_end and self._size is not None and self._at >= self._size:
            return 0
        try:
            if self._stream.tell() != self._at:
                self._stream.seek(self._at)
            piece = self._stream.read(len(buffer))
        except Exception as error:  # noqa: BLE001 - as in _by_folder
            self._check()
            raise OSError(self._hide(_detail(error))) from None
        self._at += len(piece)
        at_end = not piece or (self._size is not None and self._at >= self._size)
        if at_end and not self._checked_at_end:
            if not self._is_conditional:
                self._check()
            self._checked_at_end = True
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()

    def _check(self) -> None:
        """Check that the object is as it was listed.

        Raises:
            OSError: it is not, or the store cannot say.
        """
        if self._token is None or self._size == 0:
            return
        try:
            token = _token(self._store.info(self._path, refresh=True))
        except FileNotFoundError:
            raise OSError("it was removed since it was listed") from None
        except Exception as error:  # noqa: BLE001 - as in _by_folder
            raise OSError(self._hide(_detail(error))) from None
        if token != self._token:
            raise OSError("it changed since it was listed; the next run takes it")


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

    @classmethod
    def of(cls, address: object) -> "_StorePlace":
        if not isinstance(address, str):
            raise ConfigurationError.expected("address", "a string", address)
        protocol, colon, rest = address.partition("://")
        if not colon or not re.fullmatch(r"[a-z][a-z0-9+.-]*", protocol):
            raise ConfigurationError.of(
                "address",
                "expected an address with a protocol, such as s3://bucket/docs/**; for a "
                "folder use Folder",
            )
        if "::" in rest:
            raise ConfigurationError.of("address", "chained protocols cannot be used")
        if protocol in ("http", "https"):  # its pages cannot be listed
            raise ConfigurationError.of("address", "for pages use from_urls or from_sitemap")
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
            f"{protocol}://{host}{slash}{path}".rstrip("/"),
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

    kind = type(store)
    return kind.find is not AbstractFileSystem.find or (
        issubclass(kind, AsyncFileSystem) and kind._find is not AsyncFileSystem._find  # noqa: SLF001 - fsspec's way to override it
    )


def _below(root: str, path: str) -> str:
    """Return a path relative to another; some stores begin paths with a slash, some do not."""
    inner, outer = path.lstrip("/"), root.strip("/")
    return inner[len(outer) :].removeprefix("/") if inner.startswith(outer) else inner


def _is_hidden(relative: str) -> bool:
    return any(part.startswith(HIDDEN) for part in relative.split("/"))


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


def _detail(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is nothing"
    return " ".join(str(getattr(error, "strerror", None) or error).split()) or type(error).__name__
