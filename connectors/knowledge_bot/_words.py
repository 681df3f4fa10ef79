"""The words of errors: what their reader can change is called what it is called there."""

import re
from collections.abc import Callable
from dataclasses import dataclass


def _in_python(what: str) -> str:
    return f"list_{what}() lists them"


OPTIONS = {
    "allow_empty": "allow_empty=True",
    "anyway": "anyway=True",
    "origin": "origin=",
    "rename_origin": "rename_origin()",
}
"""How the options of a run are given in Python."""


# A function, as above: settings that were pickled equal their first, and bound methods would not.
def _option_in_python(option: str) -> str:
    return OPTIONS[option]


@dataclass(frozen=True, slots=True)
class Words:
    """What advice calls the things that a person can change, for whoever reads it.

    Errors advise in these words, by their names in braces. Those here are Python's; `kbot`, a task
    of Airflow and the gateway have their own.

    Attributes:
        key: where the key is.
        no_key: where to put one.
        base_url: where the service's address is.
        verify: where certificate authorities are named.
        lists: says what lists the `bots`, `collections` and others.
        option: says how an option of a run is given, such as `anyway`.
    """

    key: str = "api_key=, or KNOWLEDGE_BOT_API_KEY"
    no_key: str = "pass api_key= or set KNOWLEDGE_BOT_API_KEY"
    base_url: str = "base_url"
    verify: str = "verify= or SSL_CERT_FILE"
    lists: Callable[[str], str] = _in_python
    option: Callable[[str], str] = _option_in_python

    def __call__(self, advice: str) -> str:
        """Return an advice in these words."""
        return _WORD.sub(self._said, advice)

    def _said(self, named: re.Match[str]) -> str:
        name = named[1]
        if name.startswith("list_"):
            return self.lists(name.removeprefix("list_"))
        if name.startswith("option_"):
            return self.option(name.removeprefix("option_"))
        said: str = getattr(self, name)
        return said


_WORD = re.compile(r"\{(key|no_key|base_url|verify|(?:list|option)_[a-z_]+)\}")

PYTHON = Words()
