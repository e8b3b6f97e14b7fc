"""Flat OpenDocument sources for LibreOffice, which makes the corpus's office files and PDFs from them."""

from __future__ import annotations

NAMESPACES = (
    'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
    'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
    'xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0" '
    'xmlns:fo="urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0" '
    'xmlns:xlink="http://www.w3.org/1999/xlink" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/" '
    'xmlns:number="urn:oasis:names:tc:opendocument:xmlns:datastyle:1.0" '
    'xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0" '
    'xmlns:presentation="urn:oasis:names:tc:opendocument:xmlns:presentation:1.0" '
    'xmlns:of="urn:oasis:names:tc:opendocument:xmlns:of:1.2" '
    'office:version="1.3"'
)
CHINESE = "我们使用向量数据库存储知识"
JAPANESE = "日本語の文書も検索できます"
ARABIC = "مرحبا بالعالم هذا نص عربي"
HEBREW = "שלום עולם זה טקסט בעברית"
LOREM = (
    "The storage layer keeps every revision of a page and answers with the exact text that was published at that time, "
    "so that a reader may check a claim years later without asking anybody who has long left the company."
)

_FONTS = """<office:font-face-decls>
<style:font-face style:name="DejaVu Sans" svg:font-family="'DejaVu Sans'"/>
<style:font-face style:name="WenQuanYi Micro Hei" svg:font-family="'WenQuanYi Micro Hei'"/>
</office:font-face-decls>"""
_DEFAULT_STYLE = """<style:default-style style:family="paragraph">
<style:text-properties style:font-name="DejaVu Sans" style:font-name-asian="WenQuanYi Micro Hei"
 style:font-name-complex="DejaVu Sans" fo:font-size="11pt" style:font-size-asian="11pt" style:font-size-complex="11pt"
 fo:language="en" fo:country="US"/></style:default-style>"""


def _heading_style(level: int, points: int) -> str:
    return (
        f'<style:style style:name="Heading_20_{level}" style:display-name="Heading {level}" style:family="paragraph" '
        f'style:default-outline-level="{level}">'
        '<style:paragraph-properties fo:margin-top="0.4cm" fo:margin-bottom="0.2cm" fo:keep-with-next="always"/>'
        f'<style:text-properties fo:font-size="{points}pt" fo:font-weight="bold"/></style:style>'
    )


_BODY_STYLE = (
    '<style:style style:name="Text_20_body" style:display-name="Text body" style:family="paragraph">'
    '<style:paragraph-properties fo:margin-bottom="0.25cm"/></style:style>'
)
_AUTOMATIC = """<office:automatic-styles>
<style:page-layout style:name="pm1"><style:page-layout-properties fo:page-width="21cm" fo:page-height="29.7cm"
 fo:margin-top="2cm" fo:margin-bottom="2cm" fo:margin-left="2cm" fo:margin-right="2cm"/>
<style:header-style><style:header-footer-properties fo:min-height="0.8cm" fo:margin-bottom="0.5cm"/></style:header-style>
<style:footer-style><style:header-footer-properties fo:min-height="0.8cm" fo:margin-top="0.5cm"/></style:footer-style>
</style:page-layout>
<style:style style:name="new" style:family="paragraph" style:parent-style-name="Text_20_body">
<style:paragraph-properties fo:break-before="page"/></style:style>
<style:style style:name="rtl" style:family="paragraph" style:parent-style-name="Text_20_body">
<style:paragraph-properties style:writing-mode="rl-tb" fo:text-align="start"/></style:style>
<style:style style:name="cell" style:family="table-cell">
<style:table-cell-properties fo:border="0.5pt solid #000000" fo:padding="0.1cm"/></style:style>
<style:style style:name="columns" style:family="section"><style:section-properties>
<style:columns fo:column-count="2" fo:column-gap="0.8cm"><style:column style:rel-width="1*"/>
<style:column style:rel-width="1*"/></style:columns></style:section-properties></style:style>
<style:style style:name="box" style:family="graphic"><style:graphic-properties style:wrap="none"
 fo:border="0.5pt solid #000000" fo:padding="0.1cm"/></style:style>
<text:list-style style:name="numbers">
<text:list-level-style-number text:level="1" style:num-format="1" style:num-suffix="."><style:list-level-properties
 text:list-level-position-and-space-mode="label-alignment"><style:list-level-label-alignment
 text:label-followed-by="listtab" fo:text-indent="-0.6cm" fo:margin-left="1.2cm"/></style:list-level-properties>
</text:list-level-style-number></text:list-style>
<text:list-style style:name="bullets">
<text:list-level-style-bullet text:level="1" text:bullet-char="•"><style:list-level-properties
 text:list-level-position-and-space-mode="label-alignment"><style:list-level-label-alignment
 text:label-followed-by="listtab" fo:text-indent="-0.6cm" fo:margin-left="1.2cm"/></style:list-level-properties>
</text:list-level-style-bullet>
<text:list-level-style-bullet text:level="2" text:bullet-char="◦"><style:list-level-properties
 text:list-level-position-and-space-mode="label-alignment"><style:list-level-label-alignment
 text:label-followed-by="listtab" fo:text-indent="-0.6cm" fo:margin-left="2.4cm"/></style:list-level-properties>
</text:list-level-style-bullet></text:list-style>
</office:automatic-styles>"""
_MASTER = """<office:master-styles><style:master-page style:name="Standard" style:page-layout-name="pm1">
<style:header><text:p>Runbook of the platform team</text:p></style:header>
<style:footer><text:p>Confidential canary-footer, page <text:page-number>1</text:page-number></text:p></style:footer>
</style:master-page></office:master-styles>"""


def _p(text: str, style: str = "Text_20_body") -> str:
    return f'<text:p text:style-name="{style}">{text}</text:p>'


def _h(level: int, text: str) -> str:
    return f'<text:h text:style-name="Heading_20_{level}" text:outline-level="{level}">{text}</text:h>'


def _table(name: str, rows: list[list[str]]) -> str:
    """Cells are text, or XML of blocks when they begin with `<`."""
    columns = f'<table:table-column table:number-columns-repeated="{len(rows[0])}"/>'
    body = "".join(
        "<table:table-row>"
        + "".join(
            '<table:table-cell table:style-name="cell" office:value-type="string">'
            + (cell if cell.startswith("<") else f"<text:p>{cell}</text:p>")
            + "</table:table-cell>"
            for cell in row
        )
        + "</table:table-row>"
        for row in rows
    )
    return f'<table:table table:name="{name}">{columns}{body}</table:table>'


def _items(style: str, *items: str) -> str:
    """Items are text; one that begins with `<` is XML that goes into the item before it."""
    out = f'<text:list text:style-name="{style}">'
    for number, item in enumerate(items):
        if not item.startswith("<"):
            following = items[number + 1] if number + 1 < len(items) else ""
            inner = following if following.startswith("<") else ""
            out += f"<text:list-item><text:p>{item}</text:p>{inner}</text:list-item>"
    return out + "</text:list>"


def _document(kind: str, body: str) -> str:
    styles = _DEFAULT_STYLE + _BODY_STYLE + "".join(_heading_style(n, size) for n, size in ((1, 20), (2, 16), (3, 13)))
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><office:document {NAMESPACES} '
        f'office:mimetype="application/vnd.oasis.opendocument.{kind}">'
        "<office:meta><dc:title>Operating handbook</dc:title></office:meta>"
        f"{_FONTS}<office:styles>{styles}</office:styles>{_AUTOMATIC}{_MASTER}<office:body>{body}</office:body>"
        "</office:document>"
    )


def writer() -> str:
    """A text of three pages with everything that a text can have."""
    tracked = """<text:tracked-changes><text:changed-region text:id="ct1"><text:insertion><office:change-info>
<dc:creator>Ana</dc:creator><dc:date>2026-01-01T00:00:00</dc:date></office:change-info></text:insertion>
</text:changed-region><text:changed-region text:id="ct2"><text:deletion><office:change-info><dc:creator>Ana</dc:creator>
<dc:date>2026-01-01T00:00:00</dc:date></office:change-info><text:p>tracked-deletion-gone</text:p></text:deletion>
</text:changed-region></text:tracked-changes>"""
    note = (
        '<text:note text:id="n{0}" text:note-class="{1}"><text:note-citation>{0}</text:note-citation>'
        "<text:note-body><text:p>{2}</text:p></text:note-body></text:note>"
    )
    nested = _table("inner", [["region", "count"], ["north", "4711"]])
    body = "".join(
        [
            tracked,
            _h(1, "Backup of the storage layer"),
            _p(LOREM),
            _p(
                f"A claim with a footnote{note.format(1, 'footnote', 'The footnote says canary-foot.')} and an "
                f"endnote{note.format(2, 'endnote', 'The endnote says canary-end.')} stays."
            ),
            _p(
                'See <text:a xlink:type="simple" xlink:href="https://example.org/a_b">the manual</text:a>, '
                'never <text:a xlink:type="simple" xlink:href="javascript:alert(1)">this one</text:a>.'
            ),
            _p(
                'Before <text:change-start text:change-id="ct1"/>tracked-insertion-kept'
                '<text:change-end text:change-id="ct1"/> and <text:change text:change-id="ct2"/>after.'
            ),
            _p(
                "Commented<office:annotation><dc:creator>Ben</dc:creator><dc:date>2026-01-02T00:00:00</dc:date>"
                "<text:p>comment-canary</text:p></office:annotation> text."
            ),
            _h(2, "Steps"),
            _items("numbers", "Stop the writer", "Copy the files", "Start the writer"),
            _p("And then, in any order:"),
            _items("bullets", "Check disks", _items("bullets", "First shelf", "Second shelf"), "Check power"),
            _h(2, "Figures"),
            _table("t1", [["Service", "Owner", "Limit"], ["search|find", "Ana", "1200"], ["storage", "Ben", "64"]]),
            _p("A table within a table:"),
            _table("t2", [["Name", "Detail"], ["Regions", f"<text:p>See:</text:p>{nested}"]]),
            _p(
                '<draw:frame draw:style-name="box" text:anchor-type="paragraph" svg:width="6cm" svg:height="1.2cm" '
                'svg:x="1cm" svg:y="0.2cm"><draw:text-box><text:p>Box text canary-box</text:p></draw:text-box>'
                "</draw:frame>After the box."
            ),
            _p("Other scripts come now.", "new"),
            _h(2, "Languages"),
            _p(CHINESE),
            _p(JAPANESE),
            _p(ARABIC, "rtl"),
            _p(HEBREW, "rtl"),
            _p("The last page has the end.", "new"),
            _h(3, "End"),
            _p(LOREM),
        ]
    )
    return _document("text", f"<office:text>{body}</office:text>")


def columns() -> str:
    """A page of two columns under a heading across both, long enough to fill both."""
    sentences = [
        f"Sentence number {number} of the {'left' if number < 20 else 'right'} half tells how the keeper of a base "
        "shall store and check what people write into it day by day."
        for number in range(40)
    ]
    paragraphs = "".join(_p(" ".join(sentences[start : start + 5])) for start in range(0, 40, 5))
    section = f'<text:section text:name="s" text:style-name="columns">{paragraphs}</text:section>'
    return _document("text", f"<office:text>{_h(1, 'Two columns')}{section}</office:text>")


def calc() -> str:
    """A workbook with formulas, dates, percentages, money, errors, comments, a merged title and a hidden sheet."""
    cell = '<table:table-cell office:value-type="string"><text:p>{}</text:p></table:table-cell>'

    def styled(style: str, kind: str, attributes: str, formula: str = "") -> str:
        given = f' table:formula="of:={formula}"' if formula else ""
        return (
            f'<table:table-cell table:style-name="{style}" office:value-type="{kind}" {attributes}{given}>'
            "</table:table-cell>"
        )

    rows = [
        '<table:table-cell table:number-columns-spanned="4" office:value-type="string"><text:p>Costs of 2024</text:p>'
        "</table:table-cell>" + "<table:covered-table-cell/>" * 3,
        cell.format("Item") + cell.format("Day") + cell.format("Share") + cell.format("Price"),
        cell.format("Disk")
        + styled("d", "date", 'office:date-value="2024-03-01"')
        + styled("p", "percentage", 'office:value="0.125"')
        + styled("m", "currency", 'office:currency="EUR" office:value="1234.5"'),
        cell.format("Power")
        + styled("d", "date", 'office:date-value="2024-12-31"')
        + styled("p", "percentage", 'office:value="0.5"')
        + styled("m", "currency", 'office:currency="EUR" office:value="10"'),
        cell.format("Sum")
        + "<table:table-cell/>" * 2
        + styled("m", "currency", 'office:value="1244.5"', "SUM([.D3:.D4])"),
        cell.format("Broken")
        + "<table:table-cell/>"
        + styled("", "float", 'office:value="0"', "1/0").replace(' table:style-name=""', "")
        + '<table:table-cell office:value-type="string"><office:annotation><dc:creator>Ben</dc:creator>'
        "<text:p>comment-canary</text:p></office:annotation><text:p>noted</text:p></table:table-cell>",
        cell.format(CHINESE) + cell.format(ARABIC) + cell.format(HEBREW),
    ]
    sheet = "".join(f"<table:table-row>{row}</table:table-row>" for row in rows)
    hidden = f'<table:table table:name="Secret" table:style-name="hid"><table:table-row>{cell.format("hidden-canary")}'
    styles = """<office:automatic-styles>
<number:date-style style:name="nd"><number:day/><number:text>.</number:text><number:month/><number:text>.</number:text>
<number:year number:style="long"/></number:date-style>
<number:percentage-style style:name="np"><number:number number:decimal-places="1" number:min-decimal-places="1"
 number:min-integer-digits="1"/><number:text>%</number:text></number:percentage-style>
<number:currency-style style:name="nm"><number:number number:decimal-places="2" number:min-decimal-places="2"
 number:min-integer-digits="1" number:grouping="true"/><number:text> </number:text>
<number:currency-symbol number:language="de" number:country="DE">€</number:currency-symbol></number:currency-style>
<style:style style:name="d" style:family="table-cell" style:data-style-name="nd"/>
<style:style style:name="p" style:family="table-cell" style:data-style-name="np"/>
<style:style style:name="m" style:family="table-cell" style:data-style-name="nm"/>
<style:style style:name="hid" style:family="table"><style:table-properties table:display="false"/></style:style>
</office:automatic-styles>"""
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><office:document {NAMESPACES} '
        'office:mimetype="application/vnd.oasis.opendocument.spreadsheet">'
        f"{styles}<office:body><office:spreadsheet>"
        f'<table:table table:name="Costs">{sheet}</table:table>{hidden}</table:table-row></table:table>'
        "</office:spreadsheet></office:body></office:document>"
    )
