"""Each kind of document that an office has: what is read of it, and what is not."""

# Documents and what is read of them stand as they are.
# ruff: noqa: E501, ISC004

import json
import select
import socket

import pytest

from document_files import (
    SENTENCE,
    archive,
    changed,
    compound,
    docx,
    epub,
    msg,
    odf,
    pptx,
    xls,
    xlsx,
)
from knowledge_bot_service.readers.extract import ExtractionError

MAIL = (
    "From: Ada <ada@example.org>\r\nTo: all@example.org\r\n"
    "Subject: =?utf-8?q?Heizung_im_B=C3=BCro?=\r\nMIME-Version: 1.0\r\n"
)
PLAIN = (
    "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    "VGhlIGNvZGUgb2YgdGhlIGdhdGUgaXMgNzcxNC4K\r\n"
)
PARTS = (
    f"{MAIL}Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n{PLAIN}--b\r\n"
    "Content-Type: text/csv\r\nContent-Disposition: attachment; filename=fees.csv\r\n\r\n"
    "Item,Price\r\nKey,45\r\n--b\r\nContent-Type: image/png\r\n"
    "Content-Disposition: attachment; filename=a.png\r\n\r\nX\r\n--b--\r\n"
)
NOTEBOOK = {
    "nbformat": 4,
    "metadata": {"language_info": {"name": "python"}},
    "cells": [
        {"cell_type": "markdown", "source": ["# Water\n", "The boiler uses *300* litres."]},
        {
            "cell_type": "code",
            "source": "print(3)",
            "outputs": [{"text": ["3\n"]}, {"data": {"image/png": "aGk="}}],
        },
    ],
}
TITLE = (
    '<p:sp><p:nvSpPr><p:ph type="title"/></p:nvSpPr><a:p><a:r><a:t>Fees</a:t></a:r></a:p></p:sp>'
)
BODY = (
    '<p:sp><p:nvSpPr><p:ph type="body"/></p:nvSpPr><a:p><a:r><a:t>A key</a:t></a:r></a:p><a:p>'
    '<a:pPr lvl="1"/><a:r><a:t>45 euros</a:t></a:r></a:p><a:p><a:pPr><a:buNone/></a:pPr><a:r>'
    '<a:rPr><a:hlinkClick r:id="rId2"/></a:rPr><a:t>The form</a:t></a:r></a:p></p:sp>'
)
BOXED = (
    "<p:grpSp><p:sp><a:p><a:r><a:t>In a group.</a:t></a:r></a:p></p:sp></p:grpSp><p:graphicFrame>"
    '<a:tbl><a:tblPr firstRow="1"/><a:tr><a:tc><a:p><a:r><a:t>Item</a:t></a:r></a:p></a:tc><a:tc>'
    "<a:p><a:r><a:t>Price</a:t></a:r></a:p></a:tc></a:tr><a:tr><a:tc><a:p><a:r><a:t>Key</a:t></a:r>"
    "</a:p></a:tc><a:tc><a:p><a:r><a:t>45</a:t></a:r></a:p></a:tc></a:tr></a:tbl></p:graphicFrame>"
)
SLIDE_NUMBER = (
    '<p:sp><p:nvSpPr><p:ph type="sldNum"/></p:nvSpPr><a:p><a:r><a:t>7</a:t></a:r></a:p></p:sp>'
)
NOTES = "<p:sp><a:p><a:r><a:t>Say it slowly.</a:t></a:r></a:p></p:sp>"

DAY, EUROS = "d.m.yyyy", '#,##0.00\\ "€"'
ROWS = (
    ["Fees of 2026"],
    ["Town", "From", "Fee", "Share"],
    ["Bern", (46000, DAY), (1234.5, EUROS), (0.19, "0%")],
    ["Chur", (46001, DAY), (-7, EUROS), (1, "0%")],
    [],
    ["Genf", (46002, DAY), (8, EUROS), (0, "0%")],
    ["Secret", (46002, DAY), (8, EUROS), (0, "0%")],
)


def hide(book):
    """Hide a row and a sheet."""
    book["Fees"].row_dimensions[7].hidden = True
    book.create_sheet("Old")["A1"] = "Old"
    book["Old"].sheet_state = "hidden"


def filter_rows(book):
    """Hide a row as a filter does for a while."""
    book["Fees"].row_dimensions[1].hidden = True
    book["Fees"].auto_filter.ref = "A1"


def strict(member):
    """A member as Office saves it in the strict form."""
    usual, others = b"http://schemas.openxmlformats.org/", b"http://purl.oclc.org/ooxml/"
    for name in (b"spreadsheetml", b"officeDocument"):
        member = member.replace(usual + name + b"/2006/", others + name + b"/")
    return member


TOWNS = "## Fees\n\nTown: Bern; From: 9.12.2025"
CELLS = (
    *((0, at, name, "General") for at, name in enumerate(["Town", "From"])),
    *((1, 0, "Bern", "General"), (1, 1, 46000, DAY)),
)
# The numbers of properties (MS-OXPROPS).
LETTER = msg({0x37: "The gate", 0x0E04: "all@example.org", 0x1000: "The code is 7714."})
FEES = msg({0x3707: "fees.csv", 0x3701: b"Item,Price\nKey,45\n"}, 8).items()
LIST = (
    '<text:list-style style:name="L"><text:list-level-style-number text:level="1"'
    ' style:num-format="a" style:num-suffix=")" text:start-value="2"/></text:list-style>'
    '<style:style style:name="H"><style:text-properties text:display="none"/></style:style>'
)
TEXT = (
    '<text:h text:outline-level="1">Rules</text:h><text:p>See <text:a xlink:href="https://x.org/f">'
    "the form</text:a><text:note><text:note-body><text:p>Page 3.</text:p></text:note-body></text:note>"
    '</text:p><text:p>Seen. <text:span text:style-name="H">Hidden.</text:span></text:p>'
    '<text:list text:style-name="L"><text:list-item><text:p>one</text:p></text:list-item>'
    "<text:list-item><text:p>two</text:p></text:list-item></text:list><text:tracked-changes>"
    "<text:p>Gone.</text:p></text:tracked-changes>"
)
ONE = '<text:list text:style-name="L"{}><text:list-item><text:p>one</text:p></text:list-item></text:list>'
CELL = "<table:table-cell{}><text:p>{}</text:p></table:table-cell>"
SHEET = (
    '<table:table table:name="Fees"><table:table-row>'
    f"{CELL.format('', 'Town')}{CELL.format('', 'Fee')}</table:table-row><table:table-row>"
    f"{CELL.format('', 'Bern')}{CELL.format('', '12,50 €')}</table:table-row><table:table-row"
    ' table:number-rows-repeated="1048570"><table:table-cell table:number-columns-repeated="16384"/>'
    "</table:table-row></table:table>"
)
SHEET_ROW = f"<table:table-row>{CELL.format('', 'Kept.')}</table:table-row>"
SLIDE = (
    "<draw:page><draw:frame><draw:text-box><text:p>Bring a card.</text:p></draw:text-box></draw:frame>"
    '<draw:frame presentation:class="title"><draw:text-box><text:p>Loans</text:p></draw:text-box>'
    "</draw:frame></draw:page>"
)
RTF = (
    r"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0\fcharset204 A;}}{\stylesheet{\s1 heading 1;}}{\info{\title T}}"
    r"{\header Top}\pard\s1 Rules\par\pard Caf\'e9 \u8364? {\f0 \'c4\'e0}\par"
    r"{\field{\*\fldinst{HYPERLINK "
    '"https://x.org/f"'
    r"}}{\fldrslt{The form}}}\par {\listtext 5.\tab}Fifth\par"
    r"\trowd\intbl Item\cell Price\cell\row\intbl Key\cell 45\cell\row\pard End.\par{\*\unknown X}}"
)


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        (
            "a.eml",
            MAIL + PLAIN,
            "# Heizung im Büro\n\nFrom: Ada <ada@example.org>; To: all@example.org\n\n"
            "The code of the gate is 7714.",
        ),
        (
            "a.txt",
            PARTS,
            "# Heizung im Büro\n\nFrom: Ada <ada@example.org>; To: all@example.org\n\n"
            "The code of the gate is 7714.\n\n## fees.csv\n\nItem: Key; Price: 45",
        ),
        (
            "a.mbox",
            f"From a@b Thu Jan  1 09:00:00 2026\n{MAIL}\nOne.\n\n"
            "From a@b Thu Jan  1 09:00:00 2026\nSubject: Two\n\nThere.",
            "# Heizung im Büro\n\nFrom: Ada <ada@example.org>; To: all@example.org\n\nOne.\n\n"
            "# Two\n\nThere.",
        ),
        (
            "a.mhtml",
            "MIME-Version: 1.0\nContent-Type: multipart/related; boundary=b\n\n--b\nContent-Type: "
            f"text/html\nContent-Transfer-Encoding: quoted-printable\n\n<p>{SENTENCE[:30]}=\n"
            f"{SENTENCE[30:]}\n--b--",
            SENTENCE,
        ),
        (
            "a.ipynb",
            json.dumps(NOTEBOOK),
            "# Water\n\nThe boiler uses 300 litres.\n\n```python\nprint(3)\n```\n\n```\n3\n```",
        ),
        (
            "a.json",
            '{"shop": {"opens_at": "nine", "town": "Bern"}, "fees": [{"item": "Key", "euros": 45}]}',
            "opens at: nine; town: Bern\n\nitem: Key; euros: 45",
        ),
        (
            "a.jsonl",
            '{"item": "Key", "euros": 45}\n{"item": "Fob"}',
            "item: Key; euros: 45\n\nitem: Fob",
        ),
        ("a.json", "{never closed", "{never closed"),
        (
            "a.srt",
            "1\n00:00:01,000 --> 00:00:02,000\n<i>We open</i>\n\n2\n00:00:03,000 --> 00:00:04,000\nat nine.",
            "We open at nine.",
        ),
        (
            "a.vtt",
            "WEBVTT\n\nNOTE no\n\n00:01.000 --> 00:02.000\nWe open at nine.",
            "We open at nine.",
        ),
        (
            "a.ics",
            "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Board\\, in\n  May\nDTSTART;TZID=X:20260504T190000\n"
            "LOCATION:Hall\nEND:VEVENT\nEND:VCALENDAR",
            "Event: Board, in May; Begins: 2026-05-04 19:00; Where: Hall",
        ),
        (
            "a.vcf",
            "BEGIN:VCARD\nFN:Ada Lark\nTEL;TYPE=work:044 1\nADR:;;Quay 3;Bern;;3000;CH\nPHOTO:xx\nEND:VCARD",
            "Name: Ada Lark; Phone: 044 1; Postal address: Quay 3, Bern, 3000, CH",
        ),
        (
            "a.pptx",
            pptx(
                BODY + SLIDE_NUMBER + TITLE,
                BOXED,
                "HIDDEN" + TITLE,
                notes=NOTES,
                link="https://x.org/f",
            ),
            "## Fees\n\n- A key\n  - 45 euros\n\nThe form (https://x.org/f)\n\nSay it slowly.\n\n"
            "In a group.\n\nItem: Key; Price: 45",
        ),
        (
            "a.xlsx",
            xlsx(*ROWS, change=hide),
            "## Fees\n\nFees of 2026\n\nTown: Bern; From: 9.12.2025; Fee: 1,234.50 €; Share: 19%\n\n"
            "Town: Chur; From: 10.12.2025; Fee: -7.00 €; Share: 100%\n\n"
            "Town: Genf; From: 11.12.2025; Fee: 8.00 €; Share: 0%",
        ),
        (
            "a.xlsx",
            xlsx(["a", "b"], change=filter_rows),
            "## Fees\n\na; b",
        ),
        (
            "a.odt",
            odf(TEXT, styles=LIST),
            "## Rules\n\nSee the form (https://x.org/f) (Page 3.)\n\nSeen.\n\nb) one\nc) two",
        ),
        # Each way to go on with the numbers of the list before.
        *(
            (
                "a.odt",
                odf(ONE.format("") + ONE.format(way), styles=LIST),
                "b) one\nc) one",
            )
            for way in (' text:continue-numbering="true"', ' text:continue-list="l1"')
        ),
        (
            "a.odt",
            odf(
                "<text:p><draw:frame><draw:image/><svg:title>The fountain</svg:title>"
                "<svg:desc>seen from above.</svg:desc></draw:frame></text:p>"
            ),
            "The fountain seen from above.",
        ),
        ("a.ods", odf(SHEET, kind="spreadsheet"), "## Fees\n\nTown: Bern; Fee: 12,50 €"),
        ("a.odp", odf(SLIDE, kind="presentation"), "## Loans\n\nBring a card."),
        (
            "a.rtf",
            RTF,
            "## Rules\n\nCafé € Да\n\nThe form (https://x.org/f)\n\n5. Fifth\n\nItem: Key; Price: 45\n\nEnd.",
        ),
        (
            "a.epub",
            epub("<html><body><h1>One</h1><p>A.</p></body></html>", f"<html><p>{SENTENCE}</html>"),
            f"# One\n\nA.\n\n{SENTENCE}",
        ),
        ("a.xlsx", changed(xlsx(["Town", "From"], ["Bern", (46000, DAY)]), strict), TOWNS),
        ("a.xls", xls(*CELLS), TOWNS),
        (
            "a.msg",
            compound(
                LETTER | {f"__attach_version1.0_#00000000/{name}": data for name, data in FEES}
            ),
            "# The gate\n\nTo: all@example.org\n\nThe code is 7714.\n\n## fees.csv\n\n"
            "Item: Key; Price: 45",
        ),
        ("a.xls", "Item\tPrice\nKey\t45\n", "Item: Key; Price: 45"),
        ("a.xls", f"<table><tr><td>{SENTENCE}</td></tr></table>", SENTENCE),
    ],
)
def test_what_an_office_has_is_read_as_its_readers_see_it(name, content, text, read):
    assert read(content, name).text == text


LEFT = [(0, 0, "Left", "General"), (0, 1, "Kept", "General"), (1, 1, "Left", "General")]
FOLDED = CELL.format("", "Left") + CELL.format("", "Kept")
FOLDED_COLUMN = '<table:table-column table:visibility="collapse"/>'
SHAPE = '<p:sp><p:nvSpPr><p:ph type="{}"/></p:nvSpPr><a:p><a:r><a:t>{}</a:t></a:r></a:p></p:sp>'
CHART = "<p:graphicFrame><c:chart xmlns:c='c'><c:v>Left</c:v></c:chart></p:graphicFrame>"
DIAGRAM = '<p:graphicFrame><a:relIds r:dm="rId2"/></p:graphicFrame>'
PICTURE = (
    '<w:p><wp:docPr xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/'
    'wordprocessingDrawing" name="Left" descr="Kept"/></w:p>'
)


def comment(book):
    """Hide a column, and comment a cell of another."""
    from openpyxl.comments import Comment

    book["Fees"].column_dimensions["A"].hidden = True
    book["Fees"]["B1"].comment = Comment("Left", "Left")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.docx", docx("Kept", header1="<w:t>Left</w:t>", comments="<w:t>Left</w:t>")),
        ("a.docx", docx(body=PICTURE)),
        ("a.pptx", pptx(*(SHAPE.format(*one) for one in [("dt", "Left"), ("", "Kept")]))),
        ("a.pptx", pptx(SHAPE.format("ftr", "Left") + CHART + SHAPE.format("", "Kept"))),
        ("a.xlsx", xlsx(["Left", "Kept"], change=comment)),
        ("a.xls", xls(*LEFT, rows=[1], columns=[0])),
        (
            "a.ods",
            odf(
                f"<table:table>{FOLDED_COLUMN}<table:table-row>{FOLDED}</table:table-row>"
                "</table:table>",
                kind="spreadsheet",
            ),
        ),
        (
            "a.odt",
            odf(
                "<text:p>Kept<office:annotation><text:p>Left</text:p></office:annotation>"
                "</text:p><text:table-of-content><text:p>Left</text:p></text:table-of-content>"
            ),
        ),
        (
            "a.odt",
            odf(
                "<text:p><draw:frame><draw:text-box><text:p>Kept</text:p></draw:text-box>"
                "</draw:frame></text:p>"
            ),
        ),
        (
            "a.odp",
            odf(
                '<draw:page><draw:frame presentation:class="footer"><text:p>Left</text:p>'
                "</draw:frame><draw:frame><text:p>Kept</text:p></draw:frame></draw:page>",
                kind="presentation",
            ),
        ),
        (
            "a.rtf",
            r"{\rtf1 {\header Left}{\footer Left}{\pict\pngblip 4c656674}{\object\objdata 4c}Kept\par}",
        ),
        (
            "a.epub",
            changed(
                epub("<html><p>Left</p></html>", "<html><p>Kept<img alt='' src='Left'></p></html>"),
                lambda one: one.replace(b'id="c0"', b'id="c0" properties="nav"'),
            ),
        ),
        ("a.srt", "7\n00:00:01,000 --> 00:00:02,000\nKept"),
        ("a.vcf", "BEGIN:VCARD\nFN:Kept\nUID:Left\nREV:Left\nEND:VCARD"),
        ("a.eml", f"{MAIL}X-Spam: Left\n\nKept"),
        ("a.xml", "<a><b>Kept</b></a>"),
        ("a.txt", "Kept"),
    ],
)
def test_what_a_person_does_not_see_is_left_out(name, content, read):
    text = read(content, name).text
    assert "Kept" in text
    assert "Left" not in text


def test_what_a_filter_hides_is_there_in_old_workbooks_too(read):
    assert "Left" in read(xls(*LEFT, rows=[1], filtered=True), "a.xls").text


def test_a_diagram_is_told(read):
    data = pptx(DIAGRAM, notes=NOTES, link="../notes.xml")
    assert read(data, "a.pptx").text == "- Say it slowly.\n\nSay it slowly."


def test_an_attachment_that_cannot_be_read_is_named(read):
    document = read(PARTS.replace("fees.csv", "fees.doc").replace("text/csv", "x/y"), "a.eml")
    assert "7714" in document.text
    assert "'fees.doc' is not read" in document.warnings[0]


ATTACHED = "--b\r\nContent-Disposition: attachment; filename=a.txt\r\n\r\nRead.\r\n"
NOTE = msg({0x3707: "a.txt", 0x3701: b"Read."}, 8).items()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (
            "a.eml",
            f"{MAIL}Content-Type: multipart/mixed; boundary=b\r\n\r\n{ATTACHED * 101}--b--\r\n",
        ),
        (
            "a.msg",
            compound(
                LETTER
                | {
                    f"__attach_version1.0_#{number:08X}/{stream}": data
                    for number in range(101)
                    for stream, data in NOTE
                }
            ),
        ),
    ],
)
def test_of_the_attachments_of_a_message_the_first_hundred_are_read(name, content, read):
    document = read(content, name)
    assert document.text.count("Read.") == 100
    assert document.warnings == ["of 101 attachments the first 100 are read"]


LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "x"><!ENTITY b SYSTEM "file:///etc/passwd">]>'
)
DEEP = "<a:p>" * 400 + "</a:p>" * 400
COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.pptx", pptx(SLIDE_NUMBER), "no text"),
        ("a.pptx", pptx(DEEP), "text is damaged"),
        ("a.pptx", pptx(TITLE + "a" * 30_000_000), "unpacks from"),
        ("a.xlsx", xlsx(), "no text"),
        ("a.xls", xls((0, 0, "Hidden.", "General"), hidden=1), "no text"),
        ("a.xlsx", archive({"xl/workbook.xml": "<workbook>"}), "the spreadsheet is damaged"),
        ("a.xlsx", archive({"xl/workbook.xml": "<workbook>", "a": b"a" * 30_000_000}), "unpacks"),
        ("a.odt", odf("<text:p/>"), "no text"),
        (
            "a.odt",
            archive({"content.xml": "<a/>", "META-INF/manifest.xml": "<a><encryption-data/></a>"}),
            "password",
        ),
        ("a.epub", epub(), "no text"),
        ("a.epub", archive({"META-INF/container.xml": "<a/>"}), "damaged"),
        (
            "a.odt",
            odf(TEXT)[:-10] + b"\xff\xff\xff\0" + odf(TEXT)[-6:],
            "damaged or cut off",
        ),
        ("a.rtf", "{\\rtf1 {\\pict 00}}", "no text"),
        ("a.ipynb", "[]", "damaged"),
        ("a.docx", COMPOUND + "EncryptedPackage".encode("utf-16-le"), "protected by a password"),
        ("a.doc", COMPOUND + "WordDocument".encode("utf-16-le"), "an old Word document"),
        ("a.ppt", COMPOUND + "PowerPoint Document".encode("utf-16-le"), "an old presentation"),
        ("a.xls", COMPOUND + "Workbook".encode("utf-16-le"), "the spreadsheet is damaged"),
        (
            "a.msg",
            COMPOUND + "__properties_version1.0".encode("utf-16-le"),
            "the mail (.msg) is damaged",
        ),
        ("a.wps", COMPOUND, "an old Office document"),
    ],
)
def test_what_cannot_be_read_gets_its_reason(name, content, reason, read):
    assert reason in read.reason(content, name)


PARAGRAPH = "<text:p>Kept.</text:p>"
PACKAGES = {
    "a.docx": docx("Kept."),
    "a.pptx": pptx(TITLE.replace("Fees", "Kept.")),
    "a.xlsx": xlsx(["Kept."]),
    "a.odt": odf(PARAGRAPH),
    "a.ods": odf(f"<table:table>{SHEET_ROW}</table:table>", kind="spreadsheet"),
    "a.odp": odf(SLIDE.replace("Bring a card.", "Kept."), kind="presentation"),
    "a.epub": epub("<html><body><p>Kept.</p></body></html>"),
}
LAUGHING = "".join(f'<!ENTITY l{at} "{f"&l{at - 1};" * 10}">' for at in range(1, 10))
ATTACKS = {
    "bomb": ("", "a" * 30_000_000),
    "laughs": (f'<!DOCTYPE a [<!ENTITY l0 "lol">{LAUGHING}]>', "&l9;"),
    "file": ('<!DOCTYPE a [<!ENTITY s SYSTEM "{file}">]>', "&s;"),
    "network": ('<!DOCTYPE a SYSTEM "{url}" [<!ENTITY s SYSTEM "{url}">]>', "&s;"),
    "deep": ("", "<a>" * 100_000),
}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("name", PACKAGES)
def test_what_is_hostile_in_an_archive_is_refused_or_left_out(name, attack, read, tmp_path):
    other = tmp_path / "other"
    other.write_text("s3cret")
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        declared, inside = (
            one.format(file=other.as_uri(), url=url).encode() for one in ATTACKS[attack]
        )

        def attacked(member: bytes) -> bytes:
            if b"Kept." not in member:
                return member
            start = member.startswith(b"<?xml") and member.index(b"?>") + 2
            member = member[:start] + declared + member[start:]
            return member.replace(b"Kept.", b"Kept." + inside, 1)

        try:
            text = read(changed(PACKAGES[name], attacked), name).text
        except ExtractionError as error:
            text = str(error)
            assert attack != "bomb" or "unpacks from" in text
        assert text
        assert "s3cret" not in text
        assert text.count("lol") < 100
        assert not select.select([server], [], [], 0)[0], "somebody was asked"


@pytest.mark.parametrize("content", PACKAGES.values(), ids=PACKAGES)
def test_what_is_attacked_is_read_as_it_is(content, read):
    assert "Kept." in read(content).text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.xls", xls((0, 0, "Kept.", "General"), (65535, 255, "b", "General"))),
        ("a.xml", f"{LAUGHS}<a>Kept. &a;&b;</a>"),
        ("a.rtf", "{\\rtf1 " + "{" * 100_000 + "Kept." + "}" * 100_001),
        (
            "a.eml",
            f"{MAIL}Content-Type: multipart/mixed; boundary=b\n\n"
            + "--b\n" * 10_000
            + f"\n{SENTENCE}",
        ),
        ("a.ods", odf(SHEET.replace('"1048570"', '"999999999"'), kind="spreadsheet")),
        ("a.xlsx", xlsx(["Kept."], change=lambda book: book["Fees"].cell(1048576, 16384, "b"))),
        ("a.xlsx", xlsx(["Kept."], ["=1+2"], ['=WEBSERVICE("http://x.org")'])),
        ("a.docx", docx("Kept.", body='<w:altChunk r:id="rId1"/>')),
        ("a.json", '{"a":' * 200 + '"Kept."' + "}" * 200),
        ("a.mbox", "Subject: No line before it\n\nKept."),
        ("a.mbox", "From a@b 09:00\n" * 10_000 + "Kept: yes\n\nKept."),
        ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\n" + "<" * 50_000 + "Kept."),
        ("a.vcf", "BEGIN:VCARD\n" * 50_000 + "FN:Kept." + "\n " * 50_000),
        ("a.ipynb", '{"cells": [{"source": "Kept.", "outputs": "x"}, {"cell_type": "code"}]}'),
        ("a.pptx", pptx("<p:grpSp>" * 100 + TITLE + "</p:grpSp>" * 100, link="file:///etc/passwd")),
        (
            "a.epub",
            epub("<html><p>Kept.</p><img src='file:///etc/passwd'><iframe src='/etc/passwd'>"),
        ),
        (
            "a.odt",
            odf(
                "<text:list><text:list-item>" * 50
                + "<text:p>Kept.</text:p>"
                + "</text:list-item></text:list>" * 50
            ),
        ),
        (
            "a.rtf",
            r"{\rtf1 {\field{\*\fldinst INCLUDETEXT /etc/passwd}{\fldrslt Kept.}}{\object\objdata 00}}",
        ),
        (
            "a.eml",
            f"{MAIL}Content-Type: message/external-body; access-type=local-file; name=/etc/passwd\n\nKept.",
        ),
        (
            "a.mhtml",
            "MIME-Version: 1.0\nContent-Type: multipart/related; boundary=b\n\n--b\nContent-Type: text/html\n\n<p>Kept.<img src=file:///etc/passwd>\n--b--",
        ),
    ],
)
def test_what_is_hostile_fetches_nothing_and_ends(name, content, read):
    text = read(content, name).text
    assert text
    assert "root:" not in text
