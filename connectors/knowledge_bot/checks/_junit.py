"""JUnit XML, valid by the schemas of Jenkins and of Maven Surefire.

What XML cannot hold, such as control characters in an answer, is escaped as in Python.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from xml.etree import ElementTree as ET

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

# What a suite counts of its cases, by how a case ended.
_COUNTED = {"failures": "failure", "errors": "error", "skipped": "skipped"}


class Case(NamedTuple):
    """What was tested: its name and class, how it ended, and why.

    Attributes:
        name: of the case.
        of: the class it belongs to.
        ended: `failure`, `error` or `skipped`; empty where it passed.
        kind: which kind of failure.
        reason: why.
        details: what is shown with a failure, beside the reason.
        output: what was printed.
        seconds: how long it took.
    """

    name: str
    of: str
    ended: str = ""
    kind: str = ""
    reason: str = ""
    details: str = ""
    output: str = ""
    seconds: float = 0.0


class Suite(NamedTuple):
    """Cases that belong together, and facts about them."""

    name: str
    facts: Mapping[str, str]
    cases: Sequence[Case]


def junit(name: str, suites: Iterable[Suite]) -> str:
    """Return suites as a document."""
    several = [*suites]
    counts = _counts([case for suite in several for case in suite.cases])
    del counts["skipped"]  # a suite has it, all of them together have not
    root = ET.Element("testsuites", counts, name=_xml(name))
    for suite in several:
        named = {"name": _xml(suite.name.rstrip()), **_counts(suite.cases)}
        element = ET.SubElement(root, "testsuite", named)
        properties = ET.SubElement(element, "properties")
        for key, value in suite.facts.items():
            ET.SubElement(properties, "property", name=key, value=_xml(value))
        for case in suite.cases:
            _add(element, case)
    ET.indent(root)
    written: str = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{written}\n'


def _counts(cases: Sequence[Case]) -> dict[str, str]:
    counted = {
        name: str(sum(case.ended == ended for case in cases)) for name, ended in _COUNTED.items()
    }
    seconds = sum(case.seconds for case in cases)
    return {"tests": str(len(cases)), **counted, "time": f"{seconds:.3f}"}


def _add(suite: ET.Element, case: Case) -> None:
    named = {"name": _line(case.name), "classname": _xml(case.of), "time": f"{case.seconds:.3f}"}
    element = ET.SubElement(suite, "testcase", named)
    if case.ended:
        why = ET.SubElement(element, case.ended, {"message": _line(case.reason)})
        if case.ended != "skipped":
            why.set("type", case.kind)
            why.text = _xml("\n".join(filter(None, (case.reason, case.details))))
    if case.output:
        ET.SubElement(element, "system-out").text = _xml(case.output)


def _xml(text: str) -> str:
    return _NOT_XML.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def _line(text: str) -> str:
    return _xml(" ".join(text.split()))
