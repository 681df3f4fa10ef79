"""Objects of a store: which are found, and that only those that changed are opened."""

import asyncio
import collections
import datetime as dt
import logging
import os
import sys
import threading
import time

import httpx
import pytest

pytest.importorskip("fsspec", reason="the extra objects is not installed")

from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from knowledge_bot import ConfigurationError
from knowledge_bot.ingest import File, Skipped
from knowledge_bot.origins import Objects
from knowledge_bot.origins import _objects as objects

DOCUMENTS = {
    f"docs/{name}": name.encode() for name in ("a.md", "b.txt", "guide/c.md", "guide/deep/d.md")
}


class Store:
    """A store of one kind: where it is, how to change it, and what was opened there."""

    def __init__(self, address, storage, root, opened):
        self.address, self._storage, self._root, self.opened = address, storage, root, opened

    def write(self, name, content):
        path = f"{self._root}/{name}"
        self._storage.makedirs(path.rpartition("/")[0], exist_ok=True)
        self._storage.pipe(path, content)

    def remove(self, name):
        self._storage.rm(f"{self._root}/{name}")

    def seen(self):
        """What was opened since it was asked last, by name."""
        names = {path.rpartition(f"{self._root.strip('/')}/")[2] for path in self.opened}
        self.opened.clear()
        return names


def counting(monkeypatch, kind):
    opened = []
    plain = kind._open

    def count(self, path, mode="rb", **options):
        if mode == "rb":
            opened.append(path)
        return plain(self, path, mode=mode, **options)

    monkeypatch.setattr(kind, "_open", count)
    return opened


@pytest.fixture
def settled(monkeypatch):
    """Take an object that was written just now for one that changes no more."""
    monkeypatch.setattr(objects, "_SETTLED", -10.0)


@pytest.fixture
def memory(monkeypatch, settled):
    storage = MemoryFileSystem()
    yield Store("memory://bucket", storage, "/bucket", counting(monkeypatch, MemoryFileSystem))
    storage.store.clear()  # its own way of removing takes seconds for thousands
    storage.pseudo_dirs[:] = [""]


@pytest.fixture
def local(monkeypatch, settled, tmp_path):
    root = tmp_path / "bucket"
    opened = counting(monkeypatch, LocalFileSystem)
    return Store(f"file://{root}", LocalFileSystem(), str(root), opened)


@pytest.fixture(params=["memory", "local"])
def store(request):
    made = request.getfixturevalue(request.param)
    for name, content in DOCUMENTS.items():
        made.write(name, content)
    return made


def found(address, **options):
    return [item.name for item in Objects(address, **options).items() if isinstance(item, File)]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("docs/**", ["a.md", "b.txt", "guide/c.md", "guide/deep/d.md"]),
        ("docs", ["a.md", "b.txt", "guide/c.md", "guide/deep/d.md"]),
        ("docs/", ["a.md", "b.txt", "guide/c.md", "guide/deep/d.md"]),
        ("docs/*", ["a.md", "b.txt"]),
        ("docs/**/*.md", ["a.md", "guide/c.md", "guide/deep/d.md"]),
        ("docs/*/*.md", ["guide/c.md"]),
        ("docs/[!a].*", ["b.txt"]),
        ("docs/?.md", ["a.md"]),
        ("*/a.md", ["docs/a.md"]),
        ("docs/a.md", ["a.md"]),
        ("docs/*.pdf", []),
    ],
)
def test_wildcards_choose_as_they_do_in_a_folder(store, pattern, names):
    assert sorted(found(f"{store.address}/{pattern}")) == names


def test_what_is_excluded_is_not_found(store):
    assert found(f"{store.address}/docs/**", exclude="guide/") == ["a.md", "b.txt"]
    assert found(f"{store.address}/docs", exclude=["*.md", "!a.md"]) == ["a.md", "b.txt"]


def test_hidden_names_are_left_out_unless_they_are_asked_for(store):
    for name in (".secret", ".git/config", "guide/.draft.md", "guide/~$c.docx"):
        store.write(f"docs/{name}", b"not for everybody")
    address = f"{store.address}/docs"
    assert sorted(found(address)) == ["a.md", "b.txt", "guide/c.md", "guide/deep/d.md"]
    skipped = {item.name for item in Objects(address).items() if isinstance(item, Skipped)}
    assert {".secret", "guide/.draft.md", "guide/~$c.docx"} < skipped
    assert {".secret", ".git/config", "guide/.draft.md"} <= set(found(address, hidden=True))
    assert found(f"{address}/**/.*.md") == ["guide/.draft.md"]
    assert found(f"{address}/.git") == ["config"]


def test_an_object_is_known_by_its_path_below_the_address(store):
    address = f"{store.address}/docs"
    for pattern in ("*.txt", "b.txt"):
        (item,) = Objects(f"{address}/{pattern}").items()
        assert (item.name, item.key, item.path) == ("b.txt", "b.txt", f"{address}/b.txt")


@pytest.mark.parametrize(
    ("address", "options", "name"),
    [
        ("s3://bucket/docs/", {}, "s3://bucket/docs"),
        ("s3://bucket/docs/*.txt", {}, "s3://bucket/docs/*.txt"),
        ("ftp://clerk:s3cret@h/docs", {"password": "s3cret"}, "ftp://h/docs"),
        ("sftp://h/docs", {"port": 22, "username": "reader"}, "sftp://h/docs [port=22]"),
        ("zip://", {"fo": "/a/../hr.zip"}, "zip:// [fo=/hr.zip]"),
        ("abfs://docs", {"account_name": "hr"}, "abfs://docs [account_name=hr]"),
        (
            "abfs://docs",
            {"connection_string": "AccountName=hr;AccountKey=s3cret;"},
            "abfs://docs [AccountName=hr]",
        ),
        ("github://docs", {"org": "x", "repo": "hr"}, "github://docs [org=x repo=hr]"),
        (
            "s3://documents",
            {"key": "s3cret", "client_kwargs": {"endpoint_url": "http://u:s3cret@minio:9000"}},
            "s3://documents [endpoint_url=http://minio:9000]",
        ),
        ("s3://bucket", {"anon": True, "default_block_size": 5}, "s3://bucket"),
    ],
)
def test_an_origin_is_named_by_its_place_and_store_and_by_no_secret(address, options, name):
    assert Objects(address, storage_options=options).name == name
    assert "s3cret" not in repr(Objects(address, storage_options=options))


@pytest.mark.parametrize(
    ("variable", "address", "name"),
    [
        ("AWS_ENDPOINT_URL", "s3://docs", "s3://docs [http://minio:9000]"),
        ("AWS_ENDPOINT_URL", "memory://docs", "memory://docs"),
    ],
)
def test_a_store_that_the_environment_names_is_another_origin(monkeypatch, variable, address, name):
    monkeypatch.setenv(variable, "http://minio:9000")
    assert Objects(address).name == name


def test_only_what_changed_is_opened_and_what_vanished_is_gone(store, send, service, ledger):
    def run():
        return send(Objects(f"{store.address}/docs/**"), ledger=ledger)

    assert run().created == 4
    assert store.seen() == set(DOCUMENTS)
    again = run()
    assert (again.created, again.unchanged, store.seen()) == (0, 4, set())
    store.write("docs/a.md", b"another text")
    store.remove("docs/b.txt")
    third = run()
    assert (third.created, third.superseded, third.unchanged, third.gone) == (1, 1, 2, 1)
    assert store.seen() == {"docs/a.md"}
    assert [entry.name for entry in ledger.gone()] == ["b.txt"]
    assert b"another text" in service.raw[-1]


def test_an_object_that_was_written_just_now_is_read_again(memory, send, ledger, monkeypatch):
    monkeypatch.setattr(objects, "_SETTLED", 2.0)
    now = dt.datetime.now(dt.UTC)

    def run(content):
        memory.write("docs/a.md", content)
        MemoryFileSystem.store["/bucket/docs/a.md"].created = now  # at the same tick of its clock
        return send(Objects(f"{memory.address}/docs/**"), ledger=ledger)

    assert run(b"one").created == 1
    assert run(b"two").superseded == 1


def test_an_emptied_object_is_named_without_being_opened_and_is_not_gone(store, send, ledger):
    send(Objects(f"{store.address}/docs/**"), ledger=ledger)
    store.seen()
    store.write("docs/a.md", b"")
    store.opened.clear()
    report = send(Objects(f"{store.address}/docs/**"), ledger=ledger)
    assert (report.invalid, report.gone, store.seen()) == (1, 0, set())
    assert "is empty; the service still has" in report.failures[0].error


def test_an_object_of_blanks_is_as_an_empty_one(memory, send, ledger):
    memory.write("docs/a.md", b" \n\t\n")
    memory.write("docs/b.md", b"a text")
    report = send(Objects(f"{memory.address}/docs/**"), ledger=ledger)
    assert (report.skipped, report.created, report.ok) == (1, 1, True)


# What goes wrong ----------------------------------------------------------------------------------


def opened(item):
    with item.open() as stream:
        return b"".join(iter(lambda: stream.read(4), b""))


def test_an_object_that_changed_since_it_was_listed_is_named_and_the_rest_is_done(
    store, send, service, ledger
):
    class Changing:
        name = Objects(f"{store.address}/docs/**").name

        def items(self, memory):
            items = list(Objects(f"{store.address}/docs/**").items())
            store.write("docs/a.md", b"what took its place")
            store.remove("docs/b.txt")
            yield from items

    report = send(Changing(), ledger=ledger)
    assert (report.created, report.invalid) == (2, 2)
    assert {one.name for one in report.failures} == {"a.md", "b.txt"}
    assert send(Objects(f"{store.address}/docs/**"), ledger=ledger).created == 1


def test_an_object_that_changes_while_it_is_read_is_not_sent(store, monkeypatch):
    store.write("docs/long.md", b"0123456789")
    (item,) = Objects(f"{store.address}/docs/long.md").items()
    assert opened(item) == b"0123456789"
    copy = objects.shutil.copyfileobj

    def copied(*given):
        copy(*given)
        time.sleep(0.02)
        store.write("docs/long.md", b"9876543210")

    monkeypatch.setattr(objects.shutil, "copyfileobj", copied)
    with pytest.raises(OSError, match="changed"):
        item.open()


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_folder_that_cannot_be_listed_is_named_and_nothing_is_gone(
    local, send, ledger, monkeypatch, wrapped
):
    for name, content in DOCUMENTS.items():
        local.write(name, content)
    within = DirFileSystem(local.address.removeprefix("file://"), LocalFileSystem())
    how = {"connect": lambda: (within, "docs")} if wrapped else {}
    send(Objects(f"{local.address}/docs/**", **how), ledger=ledger)
    plain = LocalFileSystem.ls

    def failing(self, path, **options):
        if path.endswith("guide"):
            raise PermissionError(13, "Permission denied")
        return plain(self, path, **options)

    monkeypatch.setattr(LocalFileSystem, "ls", failing)
    report = send(Objects(f"{local.address}/docs/**", **how), ledger=ledger)
    assert (report.unchanged, report.invalid, report.gone) == (2, 1, 0)
    (said,) = report.failures
    assert said.name == f"{local.address}/docs/guide"
    assert "it cannot be listed: Permission denied" in said.error


@pytest.mark.parametrize("address", ["memory://nowhere/**", "file:///nowhere/at/all"])
def test_a_place_that_is_not_there_is_named_and_nothing_is_gone(address):
    (said,) = Objects(address).items()
    assert (said.invalid, said.partial) == (True, True)


def test_links_of_a_store_are_not_followed(local, tmp_path):
    local.write("docs/a.md", b"a")
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "bucket/docs/leak.md").symlink_to("../../secret.txt")
    (tmp_path / "bucket/docs/loop").symlink_to(tmp_path / "bucket")
    item, *left_out = Objects(f"{local.address}/**").items()
    assert item.name == "docs/a.md"
    assert [one.name for one in left_out] == ["docs/leak.md", "docs/loop"]
    assert all(isinstance(one, Skipped) for one in left_out)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("handbook", "a folder is fed as a folder"),
        ("https://h.example/docs/", "for pages use Urls"),
        ("simplecache::s3://bucket/docs", "expected an address"),
        ("memory://a::b", "zip:// takes its file"),
        ("memory://bucket/a?signature=s3cret", "storage_options"),
        ("memory://bucket/[z-a].md", "cannot be used: bad character range"),
        (3, "expected a string, not int"),
    ],
)
def test_an_address_that_cannot_be_used_is_reported_at_once(address, said):
    with pytest.raises(ConfigurationError, match=said) as caught:
        Objects(address)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("gs://bucket/docs", r"gs://bucket/docs cannot be reached: .*gcsfs"),
        ("nonsense://bucket", "Protocol not known: nonsense; a store is s3://"),
    ],
)
def test_a_protocol_that_cannot_be_used_here_is_a_sentence(monkeypatch, address, said):
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(ConfigurationError, match=said):
        next(Objects(address).items())


def test_credentials_are_neither_in_keys_nor_in_errors(memory, send, ledger):
    memory.write("docs/a.md", b"a")
    place = Objects("ftp://clerk:s3cr%65t@127.0.0.1:9/docs/*", storage_options={})
    (said,) = place.items()
    assert "Connection refused" in said.reason
    for text in (repr(place), place.name, repr(said)):
        assert "s3cr" not in text
        assert "clerk" not in text

    class Telling(MemoryFileSystem):
        def _open(self, path, **options):
            raise RuntimeError("denied for the key AKIA12345 in https://AKIA12345@h")

    store, options = Telling(skip_instance_cache=True), {"key": "AKIA12345", "fo": "https://h"}
    connect = lambda: (store, "/bucket/docs")  # noqa: E731
    items = Objects("memory://bucket/docs", storage_options=options, connect=connect)
    (failure,) = send(items, ledger=ledger).failures
    assert "denied for the key *** in https://***@h" in failure.error
    assert b"AKIA12345" not in ledger.database.file.read_bytes()


def test_every_secret_among_the_options_is_known():
    options = {
        "auth": ("reader", "s3cret-1"),
        "client_kwargs": {"token": "s3cret-2", "region": "north"},
        "secrets": {"a": {"b": "s3cret-3"}},
        "base_url": "https://reader:s3cret%2D4@h.example/dav",
        "port": 22,
    }
    known = objects._secrets(options)
    assert {"s3cret-1", "s3cret-2", "s3cret-3", "s3cret-4", "s3cret%2D4"} <= known
    assert not {"north", "https://reader:s3cret%2D4@h.example/dav"} & known


@pytest.mark.parametrize(
    ("listed", "asked", "same"),
    [
        ({"etag": "0x8D", "size": 1}, {"etag": '"0x8D"', "size": 1}, True),
        ({"ETag": '"a"', "LastModified": 1}, {"ETag": '"a"', "LastModified": 2}, True),
        ({"etag": 'W/"a"', "modified": 1}, {"etag": 'W/"a"', "modified": 2}, False),
        ({"mtime": 1.5, "size": 1}, {"mtime": 1.5, "size": 2}, False),
        ({"mtime": 1.5, "size": 1}, {"mtime": 2.5, "size": 1}, False),
    ],
)
def test_a_change_in_the_listing_is_a_new_version(listed, asked, same):
    assert (version_of(listed) == version_of(asked)) is same
    assert version_of({"size": 3}) is None


def version_of(listed):
    """Return the version of an object that a store lists like this."""

    class Listing(MemoryFileSystem):
        def find(self, path, **options):
            return {"/bucket/a.txt": {"name": "/bucket/a.txt", "type": "file", **listed}}

    store = Listing(skip_instance_cache=True)
    (item,) = Objects("memory://bucket", connect=lambda: (store, "/bucket")).items()
    return item.version


# Real servers -------------------------------------------------------------------------------------


@pytest.fixture
def s3(monkeypatch):
    """moto's server of S3, and the requests that it got, by method and key."""
    server_of = pytest.importorskip("moto.server", reason="moto[server] is not installed")
    s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed")
    requests = collections.Counter()

    class Counting(logging.Handler):
        def emit(self, record):
            method, _, rest = record.getMessage().partition('"')[2].partition(" ")
            requests[method, rest.partition(" ")[0]] += 1

    handler, logger = Counting(), logging.getLogger("werkzeug")
    monkeypatch.setattr(logger, "level", logging.INFO)
    logger.addHandler(handler)
    server = server_of.ThreadedMotoServer("127.0.0.1", 0, verbose=True)
    server.start()
    url = "http://127.0.0.1:{1}".format(*server.get_host_and_port())
    httpx.post(f"{url}/moto-api/reset")  # what it keeps outlives it
    options = {"key": "AKIA12345", "secret": "s3cret", "endpoint_url": url}
    storage = s3fs.S3FileSystem(**options, skip_instance_cache=True, use_listings_cache=False)
    storage.mkdir("bucket")
    yield storage, options, requests
    server.stop()
    logger.removeHandler(handler)


def fill(storage, number):
    storage.pipe({f"bucket/docs/{i % 40}/{i}.txt": b"%d" % i for i in range(number)})


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_of_ten_thousand_objects_in_s3_the_three_that_changed_are_opened(s3, send, ledger):
    storage, options, requests = s3
    number = int(os.environ.get("KBOT_TEST_OBJECTS", "10000"))
    fill(storage, number)

    def run():
        requests.clear()
        items = Objects("s3://bucket/docs/**", storage_options=options)
        return send(items, ledger=ledger, concurrency=16)

    assert run().created == number
    changed = {f"/bucket/docs/{i % 40}/{i}.txt" for i in (7, 8, number - 1)}
    for path in changed:
        storage.pipe(path.strip("/"), b"it changed")
    report = run()
    assert (report.created, report.unchanged) == (3, number - 3)
    read = {path for _, path in requests if "list-type" not in path}
    assert read == changed
    report = run()
    assert (report.unchanged, {path for _, path in requests if "list-type" not in path}) == (
        number,
        set(),
    )


@pytest.mark.slow
def test_an_object_of_s3_that_changed_since_it_was_listed_is_named(s3, send, ledger):
    storage, options, _ = s3
    fill(storage, 3)
    items = list(Objects("s3://bucket/docs", storage_options=options).items())
    storage.pipe("bucket/docs/0/0.txt", b"another")
    storage.rm("bucket/docs/1/1.txt")
    report = send(items, ledger=ledger)
    said = {one.name: one.error for one in report.failures}
    assert said.keys() == {"0/0.txt", "1/1.txt"}
    assert report.created == 1
    assert not any("AKIA12345" in text or "s3cret" in text for text in said.values())
    (single,) = Objects("s3://bucket/docs/2/2.txt", storage_options=options).items()
    assert opened(single) == b"2"
    storage.pipe("bucket/docs/2/2.txt", b"3")
    with pytest.raises(OSError, match="changed"):
        opened(single)
    (denied,) = Objects("s3://nowhere/docs", storage_options=options).items()
    assert denied.partial


@pytest.fixture
def sftp(tmp_path):
    """A server of SFTP, the folder that it serves, and what was opened there."""
    asyncssh = pytest.importorskip("asyncssh", reason="asyncssh is not installed")
    pytest.importorskip("sshfs", reason="sshfs is not installed")
    root, opened, served = tmp_path / "served", collections.Counter(), []
    started, end = threading.Event(), threading.Event()

    class Files(asyncssh.SFTPServer):
        def __init__(self, channel):
            super().__init__(channel, chroot=str(root))

        def open(self, path, flags, attributes):
            opened[path.decode()] += 1
            return super().open(path, flags, attributes)

    class Server(asyncssh.SSHServer):
        def begin_auth(self, username):
            return True

        def password_auth_supported(self):
            return True

        def validate_password(self, username, password):
            return password == "s3cret-of-sftp"

    async def serve():
        key = asyncssh.generate_private_key("ssh-ed25519")
        server = await asyncssh.listen(
            "127.0.0.1", 0, server_factory=Server, server_host_keys=[key], sftp_factory=Files
        )
        served.append(server.sockets[0].getsockname()[1])
        started.set()
        await asyncio.to_thread(end.wait)

    root.mkdir()
    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    assert started.wait(20)
    yield f"sftp://reader:s3cret-of-sftp@127.0.0.1:{served[0]}", root, opened
    end.set()
    thread.join(10)


@pytest.mark.slow
def test_of_an_sftp_server_only_what_changed_is_opened(sftp, send, ledger):
    address, root, opened = sftp

    def write(number, content, time):
        path = root / f"docs/{number % 10}/{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        os.utime(path, (time, time))

    for number in range(200):
        write(number, f"text {number}", 1_700_000_000)

    def run():
        opened.clear()
        items = Objects(f"{address}/docs/**", storage_options={"known_hosts": None})
        return send(items, ledger=ledger)

    assert run().created == 200
    assert (run().unchanged, opened) == (200, {})
    write(7, "another text", 1_700_000_100)
    (root / "docs/8/8.txt").unlink()
    report = run()
    assert (report.superseded, report.unchanged, report.gone) == (1, 198, 1)
    assert opened == {"/docs/7/7.txt": 2}  # compared, and sent
    assert not any("reader" in entry.key or "s3cret" in entry.key for entry in ledger.gone())
    assert b"s3cret-of-sftp" not in ledger.database.file.read_bytes()
