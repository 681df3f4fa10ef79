"""JUnit XML, valid by the schemas of Jenkins and of Maven Surefire.

What XML cannot hold, such as control characters in an answer, is escaped as in Python.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.etree import ElementTree as ET

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

# What a suite counts of its cases, by how a case ended.
_COUNTED = {"failures": "failure", "errors": "error", "skipped": "skipped"}


class Case(NamedTuple):
    """What was asked, how it ended, and why.

    Attributes:
        name: of the case.
        ended: `failure`, `error` or `skipped`; empty where it passed.
        kind: which kind of failure.
        reason: why.
        output: what was answered.
        seconds: how long it took.
    """

    name: str
    ended: str
    kind: str
    reason: str
    output: str = ""
    seconds: float = 0.0


def junit(name: str, bot: str, facts: Mapping[str, str], cases: Sequence[Case]) -> str:
    """Return what was asked of a bot as a document with one suite."""
    counts = _counts(cases)
    named = {"name": _xml(f"{name} {bot}"), **counts}
    del counts["skipped"]  # a suite has it, all of them together have not
    root = ET.Element("testsuites", counts, name=_xml(name))
    suite = ET.SubElement(root, "testsuite", named)
    properties = ET.SubElement(suite, "properties")
    for key, value in {"bot": bot, **facts}.items():
        ET.SubElement(properties, "property", name=key, value=_xml(value))
    for case in cases:
        _add(suite, bot, case)
    ET.indent(root)
    written: str = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{written}\n'


def _counts(cases: Sequence[Case]) -> dict[str, str]:
    counted = {
        name: str(sum(case.ended == ended for case in cases)) for name, ended in _COUNTED.items()
    }
    seconds = sum(case.seconds for case in cases)
    return {"tests": str(len(cases)), **counted, "time": f"{seconds:.3f}"}


def _add(suite: ET.Element, bot: str, case: Case) -> None:
    named = {"name": _line(case.name), "classname": _xml(bot), "time": f"{case.seconds:.3f}"}
    element = ET.SubElement(suite, "testcase", named)
    if case.ended:
        why = ET.SubElement(element, case.ended, {"message": _line(case.reason)})
        if case.ended != "skipped":
            why.set("type", case.kind)
            why.text = _xml("\n".join(filter(None, (case.reason, case.output))))
    if case.output:
        ET.SubElement(element, "system-out").text = _xml(case.output)


def _xml(text: str) -> str:
    return _NOT_XML.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def _line(text: str) -> str:
    return _xml(" ".join(text.split()))
