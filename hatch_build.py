"""What the wheel's description says where the README of the repository links to its files."""

import re
import sys

if sys.version_info < (3, 11):  # noqa: UP036 - an installer runs this before it compares versions
    sys.exit(f"knowledge-bot needs Python 3.11 to 3.14; this is {sys.version.split()[0]}.")

import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"\[([^\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")


class Description(MetadataHookInterface):
    """Makes the README the description: links lead to the site, and there are none without one."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the description; zensical.toml says where the site is."""
        root = Path(self.root)
        with (root / "zensical.toml").open("rb") as stream:
            site = tomllib.load(stream)["project"].get("site_url", "")
        text = (root / "README.md").read_text(encoding="utf-8")
        text = _LINK.sub(lambda link: linked(link[1], link[2], site), text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def linked(text: str, path: str, site: str) -> str:
    """Return a link of the README as an index of packages can show it.

    Args:
        text: its text.
        path: the file that it leads to, with an anchor.
        site: where the documentation is published; empty: nowhere yet.
    """
    if not site:
        return text
    page, _, anchor = path.partition("#")
    name = page.removeprefix("docs/") if page.startswith("docs/") else page.lower()
    place = re.sub(r"(^|/)index$", r"\1", name.removesuffix(".md").replace("_", "-"))
    return f"[{text}]({urljoin(site, place.rstrip('/') + '/')}{'#' * bool(anchor)}{anchor})"
