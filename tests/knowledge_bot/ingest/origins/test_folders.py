"""Which files of a folder are found, and what is said about the others."""

import errno
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from knowledge_bot import ConfigurationError
from knowledge_bot.ingest import File, Skipped
from knowledge_bot.origins import Folder


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "root"
    for name in ("b.md", "a.md", "guide/intro.md", "guide/deep/end.txt", ".git/config", ".env"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


def found(*arguments, **options) -> list[str]:
    return [item.name for item in Folder(*arguments, **options).items() if isinstance(item, File)]


def left_out(*arguments, **options) -> dict[str, str]:
    items = Folder(*arguments, **options).items()
    return {item.name: item.reason for item in items if isinstance(item, Skipped)}


def test_files_come_in_the_order_of_their_names(folder):
    assert found(folder) == ["a.md", "b.md", "guide/deep/end.txt", "guide/intro.md"]


def test_a_file_is_known_by_its_path_below_the_folder_wherever_that_is(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    direct, through_link = Folder(folder), Folder(tmp_path / "link")
    assert list(direct.items()) == list(through_link.items())
    keys = [item.key for item in direct.items() if isinstance(item, File)]
    assert keys == ["a.md", "b.md", "guide/deep/end.txt", "guide/intro.md"]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "/srv/handbook"),
        ({"include": ["*.txt", "*.md"]}, "/srv/handbook [*.md *.txt]"),
        ({"exclude": "drafts/"}, "/srv/handbook"),
        ({"name": "handbook", "include": "*.md"}, "handbook"),
    ],
)
def test_a_folder_is_named_by_its_path_and_what_it_includes(options, name):
    assert Folder("/srv/team/../handbook", **options).name == name


def test_a_folder_that_a_dag_names_by_a_template_is_checked_once_it_is_rendered(folder):
    made = Folder("{{ place }}", include=["{{ kind }}"], marker="{{ mark }}")
    values = {"{{ place }}": str(folder), ("{{ kind }}",): ("*.txt",), "{{ mark }}": "a.md"}
    rendered = made.rendered(lambda value: values.get(value, value))
    assert rendered == Folder(folder, include="*.txt", marker="a.md")
    with pytest.raises(ConfigurationError, match="marker"):
        made.rendered(lambda value: "a/b" if value == "{{ mark }}" else values.get(value, value))


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        ("*.md", ["a.md", "b.md", "guide/intro.md"]),
        (["*.txt", "a.*"], ["a.md", "guide/deep/end.txt"]),
        ("guide/*", ["guide/intro.md"]),
        ("guide/**", ["guide/deep/end.txt", "guide/intro.md"]),
        ("**/*.md", ["a.md", "b.md", "guide/intro.md"]),
        ("/*.md", ["a.md", "b.md"]),
        ("[!a].md", ["b.md"]),
        ("[ab].md", ["a.md", "b.md"]),
        ("?.md", ["a.md", "b.md"]),
        ("*.pdf", []),
    ],
)
def test_patterns_choose(folder, patterns, names):
    assert found(folder, include=patterns) == names


ERRORS = ("EACCES", "EIO", "ESTALE", "EHOSTDOWN", "ELOOP", "ENAMETOOLONG")


@pytest.mark.parametrize("call", ["stat", "is_dir"])
@pytest.mark.parametrize("name", ["b.md", "guide"])
@pytest.mark.parametrize("error", ERRORS)
def test_what_cannot_be_looked_at_is_no_absence(folder, monkeypatch, error, name, call):
    real = os.scandir

    class Refusing:
        def __init__(self, entry):
            self.name, self.path, self.is_dir = entry.name, entry.path, entry.is_dir
            self.stat = entry.stat
            if entry.name == name:
                setattr(self, call, refused)

    def refused(**_):
        raise OSError(getattr(errno, error), "it failed")

    class Scan:
        def __init__(self, path):
            if name == "guide" and call == "stat" and path.endswith("guide/"):
                refused()
            self.entries = real(path)

        def __enter__(self):
            return map(Refusing, self.entries)

        def __exit__(self, *_):
            self.entries.close()

    monkeypatch.setattr(os, "scandir", Scan)
    (told,) = [item for item in Folder(folder).items() if getattr(item, "partial", False)]
    assert (told.name.rstrip("/"), told.invalid) == (name, True)


def test_a_path_that_has_become_too_long_is_no_absence(folder):
    at = os.open(folder, os.O_RDONLY)
    for _ in range(20):  # 20 times 250 letters are more than a path may have
        os.mkdir("d" * 250, dir_fd=at)
        below = os.open("d" * 250, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    (told,) = [item for item in Folder(folder).items() if getattr(item, "partial", False)]
    assert (told.invalid, "too long" in told.reason) == (True, True)


def test_a_link_that_cannot_be_followed_is_no_absence(as_nobody):
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)
        (folder / "deep").mkdir(mode=0o700)
        (folder / "deep/end.txt").touch()
        (folder / "link.txt").symlink_to("deep/end.txt")
        with as_nobody():
            told = [item.name for item in Folder(folder).items() if getattr(item, "partial", False)]
    assert told == ["deep/", "link.txt"]


@pytest.mark.parametrize("mode", [0o000, 0o444, 0o100])
def test_a_folder_that_cannot_be_read_is_no_mistake_of_the_caller(as_nobody, mode):
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "share"
        Path(made).chmod(0o755)
        folder.mkdir()
        (folder / "a.md").touch()
        folder.chmod(mode)
        with as_nobody():
            (told,) = Folder(folder).items()
    assert (told.name, told.invalid, told.partial) == (str(folder), True, True)


def test_hidden_names_are_skipped_with_a_word(folder):
    (folder / "~$intro.docx").write_text("Ada")
    assert left_out(folder).keys() == {".env", ".git", "~$intro.docx"}
    assert {".env", ".git/config", "~$intro.docx"} <= set(found(folder, hidden=True))


def test_links_that_leave_the_folder_are_skipped_with_a_word(folder, tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "leak.md").symlink_to("../secret.txt")
    (folder / "guide/up").symlink_to(tmp_path)
    (folder / "loop").symlink_to(folder)
    (folder / "dangling.md").symlink_to(folder / "nothing")
    (folder / "endless.md").symlink_to(folder / ("x" * 300))
    links = {"leak.md", "guide/up", "loop", "dangling.md", "endless.md"}
    assert left_out(folder).keys() - {".env", ".git"} == links
    assert "leak.md" not in found(folder)


@pytest.mark.parametrize(
    "options",
    [
        {"exclude": "guide/intro.md"},
        {"exclude": ["guide/", "!guide/intro.md"]},
        {"include": "0.md"},
    ],
)
def test_a_link_counts_only_if_its_file_does_not_come(folder, options):
    (folder / "0.md").symlink_to("guide/intro.md")
    assert "0.md" in left_out(folder)
    assert found(folder, include="*.md") == ["a.md", "b.md", "guide/intro.md"]
    linked = next(item for item in Folder(folder, **options).items() if item.name == "0.md")
    assert linked.path == str(folder / "guide/intro.md")
    assert linked.identity == "guide/intro.md"


def test_a_link_to_what_is_hidden_counts(folder):
    (folder / "0.md").symlink_to(".env")
    assert "0.md" in found(folder)
    assert "0.md" in left_out(folder, hidden=True)


@pytest.mark.parametrize("options", [{}, {"hidden": True, "include": ["*", "*-key"]}])
def test_a_data_folder_of_a_service_is_skipped_with_a_word(folder, options):
    for kept in ("guide/deep/data/in-use.sqlite3", "older/knowledge.sqlite3"):
        (folder / kept).parent.mkdir()
        (folder / kept).touch()
        (folder / kept).with_name("api-key").write_text("secret")
        (folder / kept).with_name("keys").mkdir()
        (folder / kept).with_name("keys").joinpath("reader").write_text("{}")
    (folder / "key.txt").symlink_to("older/keys/reader")
    assert "guide/intro.md" in found(folder, **options)
    assert not [name for name in found(folder, **options) if "key" in name]
    assert left_out(folder, **options).keys() >= {"guide/deep/data/", "older/", "key.txt"}
    (folder / "knowledge.sqlite3").touch()
    assert found(folder, **options) == []
    assert list(left_out(folder, **options)) == [str(folder)]


def test_what_is_no_file_is_skipped_with_a_word(folder):
    os.mkfifo(folder / "pipe")
    assert "pipe" in left_out(folder)


@pytest.mark.parametrize("name", ["missing", "a.md", "x" * 300])
def test_a_folder_that_is_none_is_reported_before_anything_is_found(folder, name):
    with pytest.raises(ConfigurationError, match=name):
        next(Folder(folder / name).items())


@pytest.fixture
def begun(folder):
    """The files of a folder of which not even a part is read yet that comes after 1,000 others."""
    (folder / "c").mkdir()
    for number in range(1000):
        (folder / f"c/{number}.md").write_text(".")
    items = Folder(folder, include="*.md").items()
    while next(items).name != "a.md":
        pass
    return items


def test_a_folder_is_read_as_it_is_needed(folder, begun):
    (folder / "guide/new.md").write_text("written after the walk began")
    assert [item.name for item in begun][-2:] == ["guide/intro.md", "guide/new.md"]


def test_what_is_excluded_is_not_found(folder):
    assert found(folder, exclude="guide/") == ["a.md", "b.md"]
    assert found(folder, exclude=["*.md", "!b.md"]) == ["b.md", "guide/deep/end.txt"]
    assert found(folder, include="*.md", exclude="/a.md") == ["b.md", "guide/intro.md"]


def test_a_kbotignore_names_what_is_left_out_and_is_not_sent_itself(folder):
    (folder / ".kbotignore").write_text("# drafts\n*.txt\n/b.md\n")
    assert found(folder) == ["a.md", "guide/intro.md"]
    assert ".kbotignore" not in left_out(folder)
    assert found(folder, exclude="guide") == ["a.md"]


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        (b"!\n\\\na\\\n", ["a.md", "b.md", "x1.md"]),  # what git does not take for a pattern
        (b"\xef\xbb\xbf*.txt\r\na.md\r\n", ["b.md", "x1.md"]),
        (b"x[[:digit:]].md\n", ["a.md", "b.md"]),
        (b"[[:alpha:]].md\n", ["x1.md"]),
        (b"[![:alpha:]]1.md\n", ["a.md", "b.md", "x1.md"]),
        (b"*.md\n!b.md\n", ["b.md"]),
        (b"\\!a.md\n#b.md\n", ["a.md", "b.md", "x1.md"]),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_kbotignore_is_read_as_git_reads_its_own(folder, lines, names):
    (folder / "x1.md").touch()
    (folder / ".kbotignore").write_bytes(lines)
    assert found(folder, exclude="guide/") == names


def test_a_folder_below_that_cannot_be_read_is_named_as_partial(folder, begun):
    shutil.rmtree(folder / "guide")
    *_, partial = begun
    assert (partial.name, partial.invalid, partial.partial) == ("guide/", True, True)
    assert "cannot be read: No such file" in partial.reason
