"""Word documents, whole, broken and hostile."""

import pytest

from document_files import SENTENCE, WORDS, Read, archive, docx, docx_body, relations


def cell(*paragraphs, properties=""):
    """A table's cell."""
    words = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in paragraphs)
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{words}</w:tc>"


def row(*cells):
    """A table's row."""
    return f"<w:tr>{''.join(cells)}</w:tr>"


def test_a_word_document_gives_its_paragraphs_and_rows(read):
    properties = '<p xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Hours</dc:title></p>'
    data = docx(
        "One.",
        "Two.",
        body=f"<w:tbl>{row(cell('a'), cell('b'))}</w:tbl>",
        properties=properties,
    )
    assert read(data, "a.docx") == Read("One.\n\nTwo.\n\na | b", "Hours")


TABLE_STYLES = (
    '<w:style w:styleId="Base"><w:tblStylePr w:type="firstRow"/></w:style>'
    '<w:style w:styleId="Grid"><w:basedOn w:val="Base"/></w:style>'
    '<w:style w:styleId="Plain"><w:tblStylePr w:type="lastRow"/></w:style>'
)
HEADING, BOLD = "<w:trPr><w:tblHeader/></w:trPr>", "<w:rPr><w:b/></w:rPr>"


@pytest.mark.parametrize(
    "look", ['w:firstRow="1"', 'w:val="04A0"', 'w:val="0020" w:firstRow="true"']
)
def test_every_cell_of_a_table_stays_in_its_column(look, read):
    above, below = "<w:vMerge w:val='restart'/>", "<w:vMerge/>"
    table = "".join(
        [
            row(cell("plan"), cell("a month"), cell("a year")),
            row(cell("Basic", properties=above), cell(""), cell("50 euros", "or 60")),
            row(cell("", properties=below), cell("6 euros"), cell("")),
            row(cell("For groups", properties='<w:gridSpan w:val="3"/>')),
            row(cell("Club"), cell("on request", properties='<w:gridSpan w:val="2"/>')),
        ]
    )
    look = f'<w:tblPr><w:tblStyle w:val="Grid"/><w:tblLook {look}/></w:tblPr>'
    end = "<w:p><w:r><w:t>End.</w:t></w:r></w:p>"
    data = docx("One.", body=f"<w:tbl>{look}{table}</w:tbl>{end}", styles=TABLE_STYLES)
    assert read(data, "a.docx").text == (
        "One.\n\n"
        "plan | a month | a year\n--- | --- | ---\n"
        "Basic |  | 50 euros or 60\n| Basic | 6 euros |  |\n\n"
        "For groups\n\n"
        "plan | a month | a year\n--- | --- | ---\nClub | on request | on request\n\n"
        "End."
    )


def test_what_is_hidden_deleted_or_moved_away_is_not_read(read):
    def run(text, properties=""):
        return f"<w:r><w:rPr>{properties}</w:rPr><w:t>{text}</w:t></w:r>"

    hidden, shown = "<w:vanish/>", '<w:vanish w:val="0"/>'
    body = (
        f"<w:p>{run('The fee ')}<w:ins>{run('is 20 ')}</w:ins><w:del>{run('was 15 ')}</w:del>"
        f"{run('(15) ', '<w:strike/>')}{run('(a secret) ', hidden)}{run('euros, ', shown)}"
        f"<w:moveFrom>{run('yearly, ')}</w:moveFrom><w:moveTo>{run('monthly')}</w:moveTo></w:p>"
    )
    assert read(docx(body=body), "a.docx").text == "The fee is 20 euros, monthly"


@pytest.mark.parametrize(
    ("look", "styles", "bold", "names"),
    [
        ('<w:tblLook w:firstRow="1"/>', "", "", ""),
        ('<w:tblStyle w:val="Plain"/><w:tblLook w:firstRow="1"/>', TABLE_STYLES, "", ""),
        ('<w:tblStyle w:val="Grid"/><w:tblLook w:firstRow="0"/>', TABLE_STYLES, "", ""),
        ('<w:tblStyle w:val="Grid"/>', TABLE_STYLES, "", ""),
        ('<w:tblStyle w:val="Grid"/><w:tblLook w:firstRow="1"/>', TABLE_STYLES, "", "--- | ---\n"),
        ("", "", BOLD, "--- | ---\n"),
        ("", "", '<w:rPr><w:b w:val="0"/></w:rPr>', ""),
    ],
)
def test_a_first_row_that_is_not_set_off_has_no_names(look, styles, bold, names, read):
    first = row(*(cell(name).replace("<w:t>", f"{bold}<w:t>") for name in ("Payroll", "Ines")))
    body = f"<w:tbl><w:tblPr>{look}</w:tblPr>{first}{row(cell('Desk'), cell('Tom'))}</w:tbl>"
    text = read(docx(body=body, styles=styles), "a.docx").text
    assert text == f"Payroll | Ines\n{names}Desk | Tom"


def test_two_rows_of_headings_are_one_name_for_a_column(read):
    above, below = "<w:vMerge w:val='restart'/>", "<w:vMerge/>"
    wide = '<w:gridSpan w:val="2"/>'
    first = row(cell("Cake", properties=above), cell("Price", properties=wide))
    second = row(cell("", properties=below), cell("small"), cell("large"))
    names = (first + second).replace("<w:tr>", f"<w:tr>{HEADING}")
    body = f"<w:tbl>{names}{row(cell('Wedding'), cell(''), cell('180'))}</w:tbl>"
    assert read(docx(body=body), "a.docx").text == (
        "Cake | Price small | Price large\n--- | --- | ---\nWedding |  | 180"
    )


def test_a_table_in_a_cell_is_words_of_that_cell(read):
    inner = f"<w:tbl>{row(cell('in'), cell('it'))}</w:tbl>"
    outer = row(f"<w:tc>{inner}<w:p><w:r><w:t>after</w:t></w:r></w:p></w:tc>", cell("beside"))
    body = f"<w:tbl>{row(cell('a'), cell('b'))}{outer}{row(cell('c'), cell('d'))}</w:tbl>"
    assert read(docx(body=body), "a.docx").text == "a | b\nin it after | beside\nc | d"


def test_a_row_that_begins_in_a_later_column_stays_there(read):
    names = row(cell("a"), cell("b"), cell("c")).replace("<w:tr>", f"<w:tr>{HEADING}")
    late = row(cell("80")).replace("<w:tr>", '<w:tr><w:trPr><w:gridBefore w:val="2"/></w:trPr>')
    text = read(docx(body=f"<w:tbl>{names}{late}</w:tbl>"), "a.docx").text
    assert text == "a | b | c\n--- | --- | ---\n|  |  | 80 |"


def test_a_cell_in_a_control_is_a_cell(read):
    controlled = f"<w:sdt><w:sdtContent>{cell('a')}</w:sdtContent></w:sdt>"
    assert read(docx(body=f"<w:tbl>{row(controlled, cell('b'))}</w:tbl>"), "a.docx").text == "a | b"


def test_a_note_is_told_where_it_is_referred_to(read):
    body = "".join(
        f"<w:p><w:r><w:t>{text}</w:t></w:r><w:r>{reference}</w:r></w:p>"
        for text, reference in [
            ("It opens at 7.", '<w:footnoteReference w:id="2"/>'),
            ("It is free.", '<w:endnoteReference w:id="2"/>'),
            ("It is near.", '<w:footnoteReference w:id="9"/>'),
        ]
    )
    note = '<w:{0} w:id="2"><w:p><w:r><w:t>{1}</w:t></w:r></w:p></w:{0}>'
    notes = {
        "footnotes": note.format("footnote", "Not on Sundays."),
        "endnotes": note.format("endnote", "For members."),
    }
    assert read(docx(body=body, **notes), "a.docx").text == (
        "It opens at 7. (Not on Sundays.)\n\nIt is free. (For members.)\n\nIt is near."
    )


def style(identifier, name, properties="", based_on=""):
    """A paragraph's style; Word translates the identifier, and never the name."""
    return (
        f'<w:style w:type="paragraph" w:styleId="{identifier}"><w:name w:val="{name}"/>'
        f'<w:basedOn w:val="{based_on}"/><w:pPr>{properties}</w:pPr></w:style>'
    )


def paragraph(text, style="", properties=""):
    """A paragraph; "|" is where a line ends."""
    words = "<w:br/>".join(f"<w:t>{line}</w:t>" for line in text.split("|"))
    return f'<w:p><w:pPr><w:pStyle w:val="{style}"/>{properties}</w:pPr><w:r>{words}</w:r></w:p>'


def in_list(number, level=0):
    return f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>'


STYLES = "".join(
    [
        style("Titel", "Title"),
        style("berschrift1", "heading 1"),
        style("Kapitel", "Chapter", '<w:outlineLvl w:val="1"/>'),
        style("Absatz", "Part of a chapter", based_on="Kapitel"),
        style("Kreis", "Circle", based_on="Kreis"),
        style("Aufzhlung", "List Bullet", in_list(1)),
        style("Verzeichnis1", "toc 1"),
        style("Verfasser", "Author", based_on="Titel"),
        style("Aufzhlung2", "List Bullet 2", '<w:numPr><w:numId w:val="3"/></w:numPr>'),
    ]
)
LEVEL = '<w:lvl w:ilvl="{}"><w:numFmt w:val="{}"/></w:lvl>'
NUMBERING = (
    f'<w:abstractNum w:abstractNumId="7">{LEVEL.format(0, "bullet")}</w:abstractNum>'
    f'<w:abstractNum w:abstractNumId="8">{LEVEL.format(0, "decimal")}'
    f"{LEVEL.format(1, 'lowerLetter')}</w:abstractNum>"
    '<w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num>'
    '<w:num w:numId="2"><w:abstractNumId w:val="8"/></w:num>'
)


def test_headings_lists_and_code_of_a_word_document_are_kept(read):
    body = "".join(
        [
            paragraph("Handbook", "Titel"),
            paragraph("The Board", "Verfasser"),
            paragraph("Sickness 2", "Verzeichnis1"),
            paragraph("Sickness", "berschrift1"),
            paragraph("Call first|of all:", "Kreis"),
            paragraph("the team", "Aufzhlung"),
            paragraph("", ""),
            paragraph("its leader", "Aufzhlung2"),
            paragraph("the doctor", "Aufzhlung"),
            paragraph("Then rest.", "Aufzhlung", in_list(0)),
            paragraph("Certificates", "Kapitel"),
            paragraph("one", properties=in_list(2)),
            paragraph("one a", properties=in_list(2, 1)),
            paragraph("one b", properties=in_list(2, 1)),
            paragraph("two", properties=in_list(2)),
            paragraph("two a", properties=in_list(2, 1)),
            paragraph("Tools", "Absatz"),
            paragraph("Appendix", properties='<w:outlineLvl w:val="0"/>'),
            paragraph("End.", "no-such-style"),
        ]
    )
    document = read(docx(body=body, styles=STYLES, numbering=NUMBERING), "a.docx")
    assert document == Read(
        "# Handbook\n\nThe Board\n\n## Sickness\n\nCall first of all:\n\n"
        "- the team\n  - its leader\n- the doctor\n\n"
        "Then rest.\n\n### Certificates\n\n"
        "1. one\n   a. one a\n   b. one b\n2. two\n   a. two a\n\n"
        "### Tools\n\n"
        "## Appendix\n\nEnd.",
        "Handbook",
    )


@pytest.mark.parametrize("parts", [{"styles": "<cut"}, {"numbering": "<cut"}, {}])
def test_a_document_without_readable_styles_keeps_its_words(parts, read):
    body = paragraph("Sickness", "berschrift1") + paragraph("the team", properties=in_list(2))
    text = read(docx("One.", body=body, **parts), "a.docx").text
    assert text == "One.\n\nSickness\n\n- the team"


def test_damaged_properties_cost_a_document_its_title_alone(read):
    assert read(docx("One.", properties="<cut"), "a.docx") == Read("One.")


def test_a_text_box_is_read_once_though_it_is_there_twice(read):
    box = "<w:txbxContent><w:p><w:r><w:t>In a box.</w:t></w:r></w:p></w:txbxContent>"
    drawing = (
        '<w:p><w:r><mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/'
        f'markup-compatibility/2006"><mc:Choice>{box}</mc:Choice>'
        f"<mc:Fallback>{box}</mc:Fallback></mc:AlternateContent></w:r></w:p>"
    )
    assert read(docx("One.", body=drawing), "a.docx").text == "One.\n\nIn a box."


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (docx("a" * 30_000_000), "unpacks from"),
        (docx("Text")[:150], "damaged or cut off"),
        (docx("Text").replace(b"word/doc", b"xord/doc"), "no document that is known"),
        (docx("a</w:wrong>"), "text is damaged"),
        (docx(), "no text"),
    ],
    ids=["bomb", "cut", "other zip", "broken", "empty"],
)
def test_a_word_document_without_readable_text_gets_its_reason(data, part, read):
    assert part in read.reason(data, "a.docx")


def numbered(form, text, start=1, override=""):
    """A list of two levels, and one that begins it anew."""
    level = (
        f'<w:lvl w:ilvl="0"><w:start w:val="{start}"/><w:numFmt w:val="{form}"/>'
        f'<w:lvlText w:val="{text}"/></w:lvl><w:lvl w:ilvl="1"><w:start w:val="1"/>'
        '<w:numFmt w:val="decimal"/><w:lvlText w:val="%1.%2"/></w:lvl>'
    )
    return (
        f'<w:abstractNum w:abstractNumId="0">{level}</w:abstractNum>'
        f'<w:num w:numId="1"><w:abstractNumId w:val="0"/>{override}</w:num>'
    )


ITEMS = "".join(
    paragraph(word, properties=in_list(1, level)) for word, level in [("a", 0), ("b", 1)]
)
AGAIN = '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="4"/></w:lvlOverride>'


@pytest.mark.parametrize(
    ("list_", "told"),
    [
        (("decimal", "%1.", 5), "5. a\n   5.1 b"),
        (("lowerLetter", "(%1)", 2), "(b) a\n    b.1 b"),
        (("upperRoman", "%1.", 9), "IX. a\n    IX.1 b"),
        (("decimal", "Article %1", 1), "Article 1 a\n          1.1 b"),
        (("decimal", "%1.", 1, AGAIN), "4. a\n   4.1 b"),
        (("decimalZero", "%1", 7), "07 a\n   07.1 b"),
    ],
)
def test_an_item_has_the_number_that_a_reader_sees(list_, told, read):
    data = docx(body=ITEMS, numbering=numbered(*list_))
    assert read(data, "a.docx").text == told


RUN = "<w:p><w:r>{}<w:t>Smoker</w:t></w:r></w:p>"
DROP = '<w:p><w:pPr><w:framePr w:dropCap="drop"/></w:pPr><w:r><w:t>D</w:t></w:r></w:p>'
FIELD = (
    '<w:p><w:r><w:fldChar w:fldCharType="begin"/><w:instrText> HYPERLINK "https://x.org/f" '
    '</w:instrText><w:fldChar w:fldCharType="separate"/><w:t>The form</w:t>'
    '<w:fldChar w:fldCharType="end"/></w:r></w:p>'
)
HIDING = (
    '<w:style w:type="character" w:styleId="Hid"><w:rPr><w:vanish/></w:rPr></w:style>'
    '<w:style w:type="paragraph" w:styleId="Old"><w:rPr><w:strike/></w:rPr></w:style>'
)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            "<w:p><w:r><w:t>It is </w:t></w:r><m:oMath><m:r><m:t>a*b</m:t></m:r></m:oMath></w:p>",
            "It is a*b",
        ),
        (RUN.format('<w:sym w:font="Wingdings" w:char="F0FE"/>'), "☒Smoker"),
        (RUN.format("<w:ffData><w:checkBox><w:checked/></w:checkBox></w:ffData>"), "☒ Smoker"),
        (RUN.format('<w:checkBox><w:default w:val="0"/></w:checkBox>'), "☐ Smoker"),
        (DROP + paragraph("rop by."), "Drop by."),
        ('<w:altChunk r:id="rId2"/>', SENTENCE),
        (paragraph("Seen.") + paragraph("Struck.", "Old"), "Seen."),
        (
            '<w:p><w:r><w:rPr><w:rStyle w:val="Hid"/></w:rPr><w:t>No</w:t></w:r></w:p>'
            + paragraph("Yes."),
            "Yes.",
        ),
        (FIELD, "The form (https://x.org/f)"),
        (
            '<w:p><w:hyperlink r:id="rId1"><w:r><w:t>The form</w:t></w:r></w:hyperlink></w:p>',
            "The form (https://x.org/f)",
        ),
    ],
)
def test_what_word_shows_is_told(body, text, read):
    members = {
        "word/document.xml": docx_body(body),
        "word/styles.xml": f"<w:styles {WORDS}>{HIDING}</w:styles>",
        "word/_rels/document.xml.rels": relations("hyperlink=https://x.org/f", "aFChunk=a.html"),
        "word/a.html": f"<html><body><p>{SENTENCE}</p></body></html>",
    }
    assert read(archive(members), "a.docx").text == text


def test_the_main_part_has_any_name_and_may_be_strict(read):
    strict = "http://purl.oclc.org/ooxml/wordprocessingml/main"
    body = f'<w:document xmlns:w="{strict}"><w:body>{paragraph("Strict.")}</w:body></w:document>'
    data = archive(
        {"_rels/.rels": relations("officeDocument=word/document2.xml"), "word/document2.xml": body}
    )
    assert read(data, "a.docx").text == "Strict."
