"""Normalises the addresses of web pages, so that no page is read or sent twice."""

import re
from urllib.parse import quote, unquote_plus, urljoin, urlsplit

LONGEST = 2000
"""Most characters of an address; a longer one grew in a loop, or holds session state."""

# Parameters that count visits: prefixes first, then whole names.
_TRACKING = re.compile(
    r"utm_.*|mtm_.*|pk_.*|hsa_.*|_hs.*|mc_[ce]id|gclid|gclsrc|gbraid|wbraid|dclid|fbclid|msclkid"
    r"|yclid|twclid|ttclid|li_fat_id|igshid|igsh|_ga|_gl|_openstat|s_cid|vero_id|oly_(anon|enc)_id"
    r"|wickedid|mkt_tok|trk_\w+",
    re.IGNORECASE,
)
# Parameters that always hold a session, and those that do if the value looks like one.
_SESSION = re.compile(
    r"phpsessid|jsessionid|aspsessionid\w*|asp\.net_sessionid|cfid|cftoken|session_?id|sessid"
    r"|osc?sid|zenid",
    re.IGNORECASE,
)
_PERHAPS_SESSION = re.compile(r"sid|s|session|sess", re.IGNORECASE)
_TOKEN = re.compile(r"(?=.*\d)[0-9a-z-]{16,}", re.IGNORECASE)
_SESSION_IN_PATH = re.compile(
    r";(jsessionid|phpsessid|sid|sessionid)=[^/?;]*|(?<=/)\([A-Z]\([0-9a-z]{16,}\)\)/",
    re.IGNORECASE,
)

_ESCAPE = re.compile(r"%([0-9a-fA-F]{2})?")
_PORTS = {"http": 80, "https": 443}
# Characters that need no escape in a path or a query (RFC 3986, sections 3.3 and 3.4).
_PATH = "/:@!$&'()*+,;=~%"
_QUERY = _PATH + "?"


def cleaned(link: str, base: str = "", encoding: str = "utf-8") -> str | None:
    """Return a link's address in its normal form; None if it cannot be a web page's.

    Fragment, tracking parameters, session ids and default port are removed, the host is in lower
    case, and everything that is not ASCII is escaped. The query is escaped in the page's encoding,
    as browsers do it.
    """
    try:
        parts = urlsplit(urljoin(base, link.strip()))
        host, port = parts.hostname, parts.port
        if parts.scheme not in _PORTS or not host or parts.username is not None:
            return None
        netloc = _host(host)
    except ValueError:  # half an IPv6 address, a port that is no number, an impossible host
        return None
    if port is not None and port != _PORTS[parts.scheme]:
        netloc = f"{netloc}:{port}"
    path = _escaped(_SESSION_IN_PATH.sub("", parts.path) or "/", _PATH, "utf-8")
    asked = "&".join(part for part in parts.query.split("&") if part and not _counts_visits(part))
    root = f"{parts.scheme}://{netloc}"
    # Joined, it has no `.` and `..` any more; but what begins with two slashes would be a host.
    address = root + path if path.startswith("//") else urljoin(root, path)
    return f"{address}?{_escaped(asked, _QUERY, encoding)}" if asked else address


def site(url: str) -> str:
    """Return what all pages of a site share: the host, with the port unless it is the default.

    `http` and `https` are the same site.
    """
    return urlsplit(url).netloc


def _host(host: str) -> str:
    if ":" in host:
        return f"[{host}]"
    if not host.isascii():
        host = host.encode("idna").decode("ascii")
    if re.search(r"[^0-9a-z._-]", host, re.IGNORECASE):
        raise ValueError("the host holds characters that no host name may have")
    return host.lower()


def _counts_visits(part: str) -> bool:
    name, _, value = part.partition("=")
    name = unquote_plus(name)
    if _TRACKING.fullmatch(name) or _SESSION.fullmatch(name):
        return True
    return bool(_PERHAPS_SESSION.fullmatch(name) and _TOKEN.fullmatch(value))


def _escaped(text: str, safe: str, encoding: str) -> str:
    """Escape what must be escaped, and write existing escapes in upper case."""
    text = _ESCAPE.sub(lambda found: found[0].upper() if found[1] else "%25", text)
    try:
        return quote(text, safe, encoding, "xmlcharrefreplace")
    except (LookupError, UnicodeError):
        return quote(text, safe, "utf-8", "replace")
