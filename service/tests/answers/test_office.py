"""A folder as an office has it: sixty documents of many kinds, asked as a colleague asks."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from document_files import docx, epub, odf, pdf, pptx, xlsx
from serve_command import key_in, serving
from service_calls import ask, value_of
from waiting import until

pytestmark = pytest.mark.timeout(300)

MAIL = "From: Ada <ada@example.org>\nSubject: {}\nMIME-Version: 1.0\n\n{}\n"
BULLET = (
    '<p:sp><p:nvSpPr><p:ph type="title"/></p:nvSpPr><a:p><a:r><a:t>{}</a:t></a:r></a:p></p:sp>'
    "<p:sp><a:p><a:r><a:t>{}</a:t></a:r></a:p></p:sp>"
)
SHEET = (
    '<table:table table:name="Keys"><table:table-row><table:table-cell><text:p>Door</text:p>'
    "</table:table-cell><table:table-cell><text:p>Holder</text:p></table:table-cell>"
    "</table:table-row><table:table-row><table:table-cell><text:p>Cellar</text:p>"
    "</table:table-cell><table:table-cell><text:p>Mr Okafor</text:p></table:table-cell>"
    "</table:table-row></table:table>"
)
FAQ = (
    "<html><body><h1>Questions of guests</h1><h2><button aria-controls='a'>May dogs come along?"
    "</button></h2><div id='a' hidden><p>Dogs may come along if they are small.</p></div></body>"
)
OFFICE: dict[str, bytes | str] = {
    "travel.docx": docx("Refunds of travel costs are paid by Mrs Lindqvist within 30 days."),
    "boiler.pptx": pptx(BULLET.format("The boiler", "The boiler was installed by Frost and Sons.")),
    "fees.xlsx": xlsx(["Item", "Fee"], ["Projector", "35 francs"]),
    "statutes.odt": odf("<text:p>The board has seven members, elected for two years.</text:p>"),
    "keys.ods": odf(SHEET, kind="spreadsheet"),
    "tour.odp": odf(
        "<draw:page><draw:frame><draw:text-box><text:p>The tour begins at the fountain at three."
        "</text:p></draw:text-box></draw:frame></draw:page>",
        kind="presentation",
    ),
    "parking.rtf": r"{\rtf1 Visitors park behind the bakery.\par}",
    "garden.epub": epub(
        "<html><body><p>Tomatoes are planted in the middle of May.</p></body></html>"
    ),
    "gate.eml": MAIL.format("The gate", "The code of the gate is 7714 from Monday on."),
    "roof.mbox": "From a@b Thu Jan  1 09:00:00 2026\n"
    + MAIL.format("The roof", "The roof is repaired by Hansen Roofing in August."),
    "water.ipynb": '{"nbformat": 4, "cells": [{"cell_type": "markdown", "source": '
    '"The pump moves 300 litres a minute."}]}',
    "lathe.json": '{"lathe": {"maker": "Blue Heron Tools", "power": "750 watts"}}',
    "film.srt": "1\n00:00:01,000 --> 00:00:02,000\nThe bridge was built\n\n"
    "2\n00:00:03,000 --> 00:00:04,000\nby Elsa Brandt.",
    "board.ics": "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Assembly of members\n"
    "DTSTART:20260504T190000\nLOCATION:Great hall\nEND:VEVENT\nEND:VCALENDAR",
    "people.vcf": "BEGIN:VCARD\nFN:Ada Lark\nTEL:044 123 45 67\nEND:VCARD",
    "population.csv": "Country,2023,2024,2025\nNorway,5.5,5.6,5.7\nChile,19.6,19.7,19.8\n",
    "faq.html": FAQ,
    "forms.md": "Leave is asked for by [this form](https://intranet.example/form/77).",
    "sauna.pdf": pdf("The sauna is heated on Thursdays from five."),
}


# What else lies in such a folder: as many minutes as make sixty files.
MINUTES: dict[str, Callable[[str], bytes | str]] = {
    "docx": docx,
    "pptx": lambda text: pptx(BULLET.format("Minutes", text)),
    "xlsx": lambda text: xlsx(["Item", "Decided"], ["1", text]),
    "odt": lambda text: odf(f"<text:p>{text}</text:p>"),
    "rtf": lambda text: f"{{\\rtf1 {text}\\par}}",
    "eml": lambda text: MAIL.format("Minutes", text),
    "html": lambda text: f"<html><body><p>{text}</p></body></html>",
    "md": lambda text: f"# Minutes\n\n{text}\n",
}
for number in range(60 - len(OFFICE)):
    suffix, written = [*MINUTES.items()][number % len(MINUTES)]
    OFFICE[f"minutes/{number + 1}.{suffix}"] = written(
        f"In session {number + 1} the board decided to paint corridor {number + 101} green."
    )


def write(folder: Path, name: str, content: bytes | str) -> None:
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())


def told(http: httpx.Client, question: str) -> str:
    answer: str = ask(http, question, bot="bot_default")["answer"]
    return answer


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[httpx.Client, Path]]:
    home = tmp_path_factory.mktemp("office")
    folder = home / "files"
    for name, content in OFFICE.items():
        write(folder, name, content)
    with (
        serving(home, "--with", "files") as (address, printed, _),
        httpx.Client(base_url=address, headers={"X-API-KEY": key_in(printed)}, timeout=30) as http,
    ):
        assert until(lambda: counted(http) == {"ready": 60}, 120)
        yield http, folder


def counted(http: httpx.Client) -> dict[str, int]:
    listed = value_of(http.get("/sources", params={"limit": 500}))["data"]
    return dict(Counter(one["status"] for one in listed))


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("Who pays refunds of travel costs?", "Mrs Lindqvist"),
        ("Who installed the boiler?", "Frost and Sons"),
        ("What is the fee for the projector?", "35 francs"),
        ("How many members does the board have?", "seven members"),
        ("Who is the holder of the cellar's door?", "Mr Okafor"),
        ("Where does the tour begin?", "fountain"),
        ("Where do visitors park?", "behind the bakery"),
        ("When are tomatoes planted?", "May"),
        ("What is the code of the gate?", "7714"),
        ("Who repairs the roof?", "Hansen Roofing"),
        ("How much does the pump move?", "300 litres"),
        ("Who is the maker of the lathe?", "Blue Heron Tools"),
        ("Who built the bridge?", "Elsa Brandt"),
        ("Where is the assembly of members?", "Great hall"),
        ("What is the phone of Ada Lark?", "044 123 45 67"),
        ("What was the population of Norway in 2024?", "2024: 5.6"),
        ("May dogs come along?", "if they are small"),
        ("Where is the form for leave?", "https://intranet.example/form/77"),
        ("When is the sauna heated?", "Thursdays"),
        ("When does the assembly of members begin?", "2026-05-04 19:00"),
    ],
)
def test_a_colleague_is_answered_from_documents_of_every_kind(question, value, office):
    assert value in told(office[0], question)


def test_a_night_with_changes_is_answered_from_in_the_morning(office):
    http, folder = office
    write(folder, "fees.xlsx", xlsx(["Item", "Fee"], ["Projector", "40"]))
    write(folder, "minutes/61.docx", docx("The board elected Ruth Varga as its treasurer."))
    (folder / "garden.epub").unlink()
    (folder / "parking.rtf").rename(folder / "guests.rtf")
    assert until(lambda: "Fee: 40" in told(http, "What is the fee for the projector?"), 90)
    assert until(lambda: "Varga" in told(http, "Who is the treasurer of the board?"), 90)
    assert until(lambda: "Sources: guests.rtf" in told(http, "Where do visitors park?"), 90)
    assert until(lambda: "May" not in told(http, "When are tomatoes planted?"), 90)
    assert "35 francs" not in told(http, "What is the fee for the projector?")
    assert counted(http) == {"ready": 60}
