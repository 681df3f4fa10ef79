"""Reads a site's robots.txt: RFC 9309, with `Crawl-delay` and `Sitemap`.

Where the RFC leaves a choice, this follows Google's parser, including the mistakes that it
tolerates; see tests/knowledge_bot_web/robots_spec.
"""

import re
from collections.abc import Iterator
from operator import itemgetter
from urllib.parse import urlsplit

LARGEST = 500 * 1024
"""Bytes of a robots.txt that are read, the least that RFC 9309, section 2.5 allows."""

# Longer lines are cut, as in Google's parser.
_LONGEST_LINE = 16_664

_BOM = b"\xef\xbb\xbf"
_AGENT = re.compile(rb"[a-z_-]*", re.IGNORECASE)
_TO_ESCAPE = re.compile(rb"%[0-9a-fA-F]{2}|[\x80-\xff]")
_DISALLOW = (b"disallow", b"dissallow", b"dissalow", b"disalow", b"diasllow", b"disallaw")
_KINDS = {
    b"user-agent": (b"user-agent", b"useragent", b"user agent"),
    b"disallow": _DISALLOW,
    b"allow": (b"allow",),
    b"sitemap": (b"sitemap", b"site-map"),
    b"crawl-delay": (b"crawl-delay",),
}

_Rule = tuple[int, bool, bytes]


class Robots:
    """The rules of a robots.txt for one user agent.

    Attributes:
        delay: seconds to leave between two requests; None if it names none.
        sitemaps: the addresses of the sitemaps that it names.
    """

    def __init__(self, content: bytes, agent: str) -> None:
        self.delay: float | None = None
        self.sitemaps: list[str] = []
        named, everyone = _Group(), _Group()
        wanted = agent.encode().lower()
        ever_named = listening = False
        groups: list[_Group] = []
        for kind, value in _lines(content):
            if kind == b"user-agent":
                if not listening:  # the first one after rules begins a group
                    groups, listening = [], True
                if re.match(rb"\*(\s|$)", value):
                    groups.append(everyone)
                elif value and _AGENT.match(value)[0].lower() == wanted:  # type: ignore[index] # matches
                    groups.append(named)
                    ever_named = True
            elif kind == b"sitemap":
                self.sitemaps.append(value.decode("utf-8", "replace"))
            elif kind == b"crawl-delay":
                for group in groups:
                    group.delay = _seconds(value)
            else:
                listening = False
                for group in groups:
                    group.add(value, allow=kind == b"allow")
        chosen = named if ever_named else everyone
        self.delay, self._rules = chosen.delay, chosen.rules()

    def allows(self, url: str) -> bool:
        """Return whether a page may be read. The longest rule decides, and `allow` wins a tie."""
        parts = urlsplit(url)
        asked = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        path = asked.encode("utf-8", "surrogatepass")
        for _, allow, pattern in self._rules:
            if _matches(pattern, path):
                return allow
        return True


class _Group:
    """The rules for one user agent, from all groups that name it."""

    def __init__(self) -> None:
        self.delay: float | None = None
        self._rules: set[_Rule] = set()

    def add(self, pattern: bytes, *, allow: bool) -> None:
        pattern = _TO_ESCAPE.sub(_escaped, pattern)
        if pattern:  # an empty rule says nothing
            self._rules.add((len(pattern), allow, pattern))
        folder, slash, file = pattern.rpartition(b"/")
        if allow and slash and file.startswith(b"index.htm"):
            self.add(folder + b"/$", allow=True)  # the same page at its other address

    def rules(self) -> list[_Rule]:
        return sorted(self._rules, key=itemgetter(0, 1), reverse=True)


def _lines(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the kind and value of each line that is understood."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        content = content.decode("utf-16", "replace").encode()
    for byte in _BOM:  # or what remains of it
        content = content.removeprefix(bytes([byte]))
    if len(content) > LARGEST:  # half a rule would forbid more than the whole rule
        ends = (content.rfind(end, 0, LARGEST) for end in (b"\n", b"\r"))
        content = content[: max(ends) + 1]
    for line in re.split(rb"[\r\n]+", content):
        text = line[:_LONGEST_LINE].partition(b"#")[0].strip()
        name, colon, value = text.partition(b":")
        if not colon and len(words := text.split()) == 2:  # the colon is missing
            name, value = words
        for kind, spellings in _KINDS.items():
            if name.strip().lower().startswith(spellings):
                yield kind, value.strip()
                break


def _seconds(value: bytes) -> float | None:
    return float(value) if re.fullmatch(rb"\d{1,6}(\.\d{1,6})?", value) else None


def _escaped(found: re.Match[bytes]) -> bytes:
    return found[0].upper() if len(found[0]) == 3 else b"%%%02X" % found[0][0]


def _matches(pattern: bytes, path: bytes) -> bool:
    """Return whether a path matches a pattern; `*` is anything, a `$` at the end is the end.

    Each piece is searched from the end of the one before, so no pattern can make this slow.
    """
    ends = pattern.endswith(b"$")
    first, *pieces = (pattern[:-1] if ends else pattern).split(b"*")
    if not path.startswith(first):
        return False
    at = len(first)
    last = pieces.pop() if ends and pieces else None
    for piece in pieces:
        at = path.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    if last is not None:
        return len(path) - len(last) >= at and path.endswith(last)
    return not ends or at == len(path)
