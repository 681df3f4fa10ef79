"""Builds the documentation site into site/: `scripts/docs`.

The pages of docs/ link to each other and to files of the repository by relative paths, so that they
work where the repository is read, too. Here they are copied to build/docs together with what else
the site has: the repository's own pages, such as CONTRIBUTING.md, and each file that a page links
to. Then zensical builds them. llms.txt, a list for language models, is put beside.
"""

import html
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

from parts import with_parts

ROOT = Path(__file__).parents[2]
STAGE = ROOT / "build" / "docs"
SITE = ROOT / "site"

# Pages that stand at the top of the repository, and what the site calls them.
OF_THE_REPOSITORY = {
    "CHANGELOG.md": "changelog.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
LANGUAGES = {".py": "python", ".service": "ini", ".toml": "toml", ".yml": "yaml"}

_FENCED = re.compile(r"^( *)(```+)[^\n]*\n.*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"^<!-- .* -->\n", re.MULTILINE)  # for the tests
# `<!-- tabs: One | Other -->` and two blocks behind it; the repository shows both.
_TABS = re.compile(
    r"^<!-- tabs: (.*?) \| (.*?) -->\n(```.*?^```$)\n\n(```.*?^```$)", re.MULTILINE | re.DOTALL
)
_LINK = re.compile(r"(\]\()(?![a-z]+:|#)([^)\s#]+)((?:#[^)\s]*)?\))")


# The pages ----------------------------------------------------------------------------------------


def staged_name(path: str) -> str:
    """Return where a file of the repository lies below build/docs."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    # Names that begin with a dot are not built.
    return OF_THE_REPOSITORY.get(path, f"files/{path.lstrip('.')}.md")


def stage() -> None:
    """Copy the pages, their pictures and the files that they link to.

    Raises:
        SystemExit: a link leads to nothing.
    """
    shutil.rmtree(STAGE, ignore_errors=True)
    shutil.copytree(ROOT / "docs", STAGE)
    linked: set[str] = set()
    for path in [*sorted((ROOT / "docs").rglob("*.md")), *map(ROOT.joinpath, OF_THE_REPOSITORY)]:
        place = path.relative_to(ROOT).as_posix()
        text, targets = with_links_of_the_site(path.read_text(encoding="utf-8"), place)
        linked |= targets
        text = _COMMENT.sub("", _TABS.sub(tabs, with_parts(text)))
        (STAGE / staged_name(place)).write_text(text, encoding="utf-8")
    for path in sorted(linked):
        page = STAGE / staged_name(path)
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(page_of_file(path), encoding="utf-8")


def with_links_of_the_site(text: str, place: str) -> tuple[str, set[str]]:
    """Return a page with its links as the site needs them, and the files that it links to.

    Args:
        text: the page.
        place: where it stands in the repository.
    """
    linked: set[str] = set()

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(place), link[2]))
        if not (ROOT / target).exists():
            sys.exit(f"{place} links to {link[2]}, which does not exist.")
        if not target.startswith("docs/") and target not in OF_THE_REPOSITORY:
            linked.add(target)
        here = posixpath.dirname(staged_name(place))
        return f"{link[1]}{posixpath.relpath(staged_name(target), here or '.')}{link[3]}"

    parts, end = [], 0
    for block in _FENCED.finditer(text):
        parts += [_LINK.sub(moved, text[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*parts, _LINK.sub(moved, text[end:])]), linked


def tabs(found: re.Match[str]) -> str:
    """Return two blocks as the site shows them: one at a time."""
    shown = zip((found[1], found[2]), (found[3], found[4]), strict=True)
    return "\n".join(
        f'=== "{title}"\n\n{textwrap.indent(block, "    ")}\n' for title, block in shown
    )


def page_of_file(path: str) -> str:
    """Return a page that shows a file of the repository, or what lies in a folder."""
    file = ROOT / path
    head = f"---\nsearch:\n  exclude: true\n---\n\n# `{path}`\n\n"
    if file.is_dir():
        return head + "".join(f"- `{one.name}`\n" for one in sorted(file.iterdir()))
    text = file.read_text(encoding="utf-8")
    return f"{head}````{LANGUAGES.get(file.suffix, 'text')}\n{text}````\n"


# A list for language models -----------------------------------------------------------------------


def titles() -> Iterator[tuple[str, str, str]]:
    """Yield the section, the title and the page of each entry of the navigation."""
    nav = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    for section in nav:
        for name, entries in section.items():
            yield from ((name, *each) for each in _entries(entries))


def _entries(entries: list[object] | str, title: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(entries, str):
        yield title, entries
        return
    for entry in entries:
        if isinstance(entry, dict):
            for inner, page in entry.items():
                yield from _entries(page, inner)


def for_language_models() -> None:
    """Write llms.txt, a list of the pages."""
    project = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    listed = [f"# {project['site_name']}", "", f"> {project['site_description']}"]
    before, base = None, project.get("site_url", "")
    for section, title, page in titles():
        address = re.sub(r"(^|/)index$", r"\1", page.removesuffix(".md")).rstrip("/")
        listed += ["", f"## {section}", ""] if section != before else []
        listed.append(f"- [{title}]({urljoin(base, f'{address}/' if address else './')})")
        before = section
    (SITE / "llms.txt").write_text("\n".join(listed) + "\n", encoding="utf-8")


# The pages' HTML ----------------------------------------------------------------------------------

# What the theme writes and HTML does not allow.
_OF_THE_THEME = {
    ' autocomplete="off"': "",
    ' tabindex=""': "",
    ' for="__drawer" aria-hidden="true"': ' for="__drawer"',
}

_CONSOLE = re.compile(
    r'<div class="language-console highlight">(?=<pre>.*?<code>(.*?)</code></pre>)', re.DOTALL
)

# A word that is on no page finds words in which two letters differ, so that "cron" finds
# "from". Here none may differ in four letters, one in seven, two in more.
_ALIKE = "p=e(t.terms[c],r)"
_MORE_ALIKE = "p=e(t.terms[c],r,r.length<5?0:r.length<8?1:2)"

_NOT_FOUND = """<h1>There is no such page</h1>
<p>Pages are moved and split now and then.
<label class="md-button md-button--primary" for="__search">Search all pages</label></p>
<ul><li><a href="/start/">Start in five minutes</a></li>
<li><a href="/recipes/">I want to …: recipes by wish</a></li>
<li><a href="/reference/commands/">All commands of <code>kbot</code></a></li></ul>"""


def mend() -> None:
    """Take out of the pages what the theme does against the rules of HTML, and what misleads."""
    for page in SITE.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for wrong, right in _OF_THE_THEME.items():
            text = text.replace(wrong, right)
        page.write_text(_CONSOLE.sub(with_commands, text), encoding="utf-8")
    (worker,) = SITE.glob("assets/javascripts/workers/search.*.js")
    replace_once(worker, _ALIKE, _MORE_ALIKE)
    replace_once(SITE / "404.html", "<h1>404 - Not found</h1>", _NOT_FOUND)
    found_by_names()


# Words of names of several words that people type alone.
_TYPED = {"async", "retry"}


def found_by_names() -> None:
    """Let the search find entries of the reference by names: of prose, the pages have more to say.

    Each entry is as short as its name, and so would stand before every page. A member whose name is
    a word that people type, such as `timeout`, is found with its class.
    """
    file = SITE / "search.json"
    index = json.loads(file.read_text(encoding="utf-8"))
    classes: dict[str, dict[str, str]] = {}
    kept = []
    for item in index["items"]:
        page, _, place = item["location"].partition("#")
        if page.startswith("reference/") and "." in place:
            item["text"] = " ".join(re.findall(r"<code>.*?</code>", item["text"]))
            classes[item["location"]] = item
            above, _, name = item["location"].rpartition(".")
            if above in classes and (name.isalpha() or not _TYPED.isdisjoint(name.split("_"))):
                classes[above]["text"] += f" <code>{name}</code>"
                continue
        kept.append(item)
    index["items"] = kept
    file.write_text(json.dumps(index), encoding="utf-8")


def with_commands(block: re.Match[str]) -> str:
    """Return the head of a block of a console: what its button copies are the commands alone."""
    text = html.unescape(re.sub(r"<[^>]+>", "", block[1]))
    return f'{block[0][:-1]} data-copy="{html.escape(commands_of(text))}">'


def commands_of(text: str) -> str:
    """Return a console's commands without their prompts, remarks and output.

    Remarks are left out, since zsh takes them for arguments.
    """
    lines = text.splitlines()
    typed = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")] or lines
    return "\n".join(re.sub(r"\s+# .*", "", line) for line in typed if line.strip())


def replace_once(file: Path, old: str, new: str) -> None:
    """Replace a text of the theme; the build fails where a new version has another one."""
    text = file.read_text(encoding="utf-8")
    if text.count(old) != 1:
        sys.exit(f"{file.relative_to(SITE)} of the theme does not have {old!r} once.")
    file.write_text(text.replace(old, new), encoding="utf-8")


def main() -> None:
    """Build the site."""
    stage()
    command = [Path(sys.executable).with_name("zensical"), "build", "--clean", "--strict"]
    environment = os.environ | {"NO_COLOR": "1"}
    if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
        sys.exit("zensical found what it says above.")
    mend()
    for_language_models()
    pages = sum(1 for _ in SITE.rglob("index.html"))
    size = sum(file.stat().st_size for file in SITE.rglob("*") if file.is_file())
    sys.stdout.write(
        f"site/: {pages} pages, {size / 2**20:.1f} MiB; serve it: python -m http.server -d site\n"
    )


if __name__ == "__main__":
    main()
