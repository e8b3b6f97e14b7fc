"""Documents made by the usual Python writers, for the tests of extraction. Each function writes one file."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from pathlib import Path

import docx
import openpyxl
import pptx
import xlsxwriter
from docx.enum.style import WD_STYLE_TYPE
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from openpyxl.comments import Comment
from PIL import Image
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches
from reportlab.lib import colors
from reportlab.lib.enums import TA_JUSTIFY
from reportlab.lib.pagesizes import A4
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.lib.styles import ParagraphStyle, getSampleStyleSheet
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle

from tests.documents.extraction.flat import ARABIC, CHINESE, HEBREW, JAPANESE, LOREM

_W = nsdecls("w")


def text_document(path: Path) -> None:
    """Headings, lists, tables, scripts; what python-docx cannot write is put in as XML."""
    document = docx.Document()
    document.core_properties.title = "Operating handbook"
    document.sections[0].header.paragraphs[0].text = "Header canary-header"
    document.sections[0].footer.paragraphs[0].text = "Footer canary-footer"
    document.add_heading("Backup", 0)
    document.add_heading("Storage", 1)
    document.add_paragraph("A literal * star, a snake_case name, 2 * 3 < 7, <b>no tag</b> and a [link](javascript:x).")
    document.add_paragraph("# no heading")
    document.add_paragraph("1. no list")
    style = document.styles.add_style("Kapitel", WD_STYLE_TYPE.PARAGRAPH)
    style.element.get_or_add_pPr().append(parse_xml(f'<w:outlineLvl {_W} w:val="1"/>'))
    document.add_paragraph("Heading by outline level", "Kapitel")
    document.styles.add_style("Überschrift 3", WD_STYLE_TYPE.PARAGRAPH)
    document.add_paragraph("Heading by German name", "Überschrift 3")
    document.add_paragraph("First", "List Number")
    document.add_paragraph("Second", "List Number")
    document.add_paragraph("Bullet", "List Bullet")
    table = document.add_table(2, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "Region", "Count\nof | disks"
    table.cell(1, 0).text = "Nested:"
    inner = table.cell(1, 1).add_table(2, 2)
    for number, cell in enumerate(inner._cells):
        cell.text = f"canary-inner-{number}"
    merged = document.add_table(2, 3)
    merged.cell(0, 0).merge(merged.cell(0, 1)).text = "wide"
    merged.cell(0, 2).merge(merged.cell(1, 2)).text = "tall"
    merged.cell(1, 0).text = "a"
    paragraph = document.add_paragraph("Kept ")
    paragraph._p.append(parse_xml(f'<w:ins {_W} w:id="1" w:author="Ana"><w:r><w:t>inserted-canary</w:t></w:r></w:ins>'))
    paragraph._p.append(
        parse_xml(f'<w:del {_W} w:id="2" w:author="Ana"><w:r><w:delText>deleted-canary</w:delText></w:r></w:del>')
    )
    paragraph._p.append(parse_xml(f"<w:r {_W}><w:rPr><w:vanish/></w:rPr><w:t>hidden-canary</w:t></w:r>"))
    field = document.add_paragraph("Page ")._p
    for part in (
        '<w:fldChar w:fldCharType="begin"/>',
        "<w:instrText> PAGEREF instruction-canary </w:instrText>",
        '<w:fldChar w:fldCharType="separate"/>',
        "<w:t>12</w:t>",
        '<w:fldChar w:fldCharType="end"/>',
    ):
        field.append(parse_xml(f"<w:r {_W}>{part}</w:r>"))
    run = document.add_paragraph("Commented text").runs[0]
    document.add_comment(run, "comment-canary", "Ben")
    for text in (CHINESE, JAPANESE, ARABIC, HEBREW):
        document.add_paragraph(text)
    document.save(str(path))


def deck(path: Path) -> None:
    """Three slides, the second hidden: levels of a list, a group, a table, a chart, notes, a link, other scripts."""
    made = pptx.Presentation()
    slide = made.slides.add_slide(made.slide_layouts[1])
    slide.shapes.title.text = "Plans for the year"
    frame = slide.placeholders[1].text_frame
    frame.text = "First point"
    below = frame.add_paragraph()
    below.text, below.level = "Point below", 1
    frame.add_paragraph().text = "Last point"
    slide.notes_slide.notes_text_frame.text = "Say this slowly: canary-notes."
    group = slide.shapes.add_group_shape()
    box = group.shapes.add_textbox(Inches(1), Inches(5), Inches(3), Inches(1))
    box.text_frame.text = "Grouped canary-group"
    run = box.text_frame.add_paragraph().add_run()
    run.text = "the manual"
    run.hyperlink.address = "https://example.org/manual"
    hidden = made.slides.add_slide(made.slide_layouts[5])
    hidden.shapes.title.text = "Hidden plans"
    hidden.element.set("show", "0")
    table = hidden.shapes.add_table(2, 2, Inches(1), Inches(2), Inches(4), Inches(1)).table
    for number, text in enumerate(("Plan", "Cost", "large", "4711")):
        table.cell(number // 2, number % 2).text = text
    last = made.slides.add_slide(made.slide_layouts[6])
    data = CategoryChartData()  # type: ignore[no-untyped-call]
    data.categories = ["north", "south"]
    data.add_series("Sales", (1.5, 2.25))  # type: ignore[no-untyped-call]
    chart = last.shapes.add_chart(XL_CHART_TYPE.BAR_CLUSTERED, Inches(1), Inches(1), Inches(5), Inches(3), data).chart
    chart.has_title = True
    chart.chart_title.text_frame.text = "Sales by region"
    scripts = last.shapes.add_textbox(Inches(1), Inches(5), Inches(6), Inches(2)).text_frame
    scripts.text = "\n".join((CHINESE, JAPANESE, ARABIC, HEBREW))
    made.save(str(path))


def workbook(path: Path) -> None:
    """By openpyxl, which writes formulas without values."""
    made = openpyxl.Workbook()
    sheet = made.active
    assert sheet is not None
    sheet.title = "Costs"
    sheet.append(["Costs of 2024"])
    sheet.merge_cells("A1:E1")
    sheet.append(["Item", "Day", "Share", "Price", "Kept"])
    sheet.append(["Disk | big", date(2024, 3, 1), 0.125, 1234.5, True])
    sheet.append(["Power", datetime(2024, 12, 31, 14, 30), 0.5, -10, False])
    sheet.append(["Time", time(9, 5), timedelta(hours=26, minutes=30), 0.1 + 0.2, "#DIV/0!"])
    sheet.append([CHINESE, ARABIC, HEBREW, "=SUM(D3:D4)", "two\nlines"])
    for row in (3, 4):
        sheet.cell(row, 3).number_format = "0.0%"
        sheet.cell(row, 4).number_format = "#,##0.00 [$€-407]"
    sheet["A3"].comment = Comment("comment-canary", "Ben")
    made.create_sheet("Secret").append(["hidden-canary"])
    made["Secret"].sheet_state = "hidden"
    made.create_sheet("Empty")
    made.save(path)


def computed(path: Path) -> None:
    """By XlsxWriter, which writes a formula's value as well."""
    made = xlsxwriter.Workbook(str(path))
    sheet = made.add_worksheet("Sums")
    sheet.write_row(0, 0, ["Name", "Value"])
    sheet.write_formula(1, 1, "=40+2", None, 42)
    sheet.write(1, 0, "answer")
    sheet.write(2, 0, "price")
    sheet.write(2, 1, 99.5, made.add_format({"num_format": "$#,##0.00"}))
    made.close()


def long_workbook(path: Path, rows: int = 450) -> None:
    """A long table under a head."""
    made = openpyxl.Workbook(write_only=True)
    sheet = made.create_sheet("Long")
    sheet.append(["Number", "Square"])
    for number in range(rows):
        sheet.append([number, number * number])
    made.save(path)


def corner_workbook(path: Path) -> None:
    """Two cells: one in the first corner of a sheet, one in the last."""
    made = openpyxl.Workbook()
    sheet = made.active
    assert sheet is not None
    sheet["A1"] = "first corner"
    sheet["XFD1048576"] = "last corner"
    made.save(path)


_STYLES = getSampleStyleSheet()
_JUSTIFIED = ParagraphStyle("j", parent=_STYLES["BodyText"], alignment=TA_JUSTIFY)


def report(path: Path, **encrypted: str) -> None:
    """A PDF of four pages: headings, a ruled table, one without lines, lists, a header and footer on each page.

    With `user` or `owner`, encrypted by these passwords.
    """

    def margins(canvas: Canvas, _: object) -> None:
        canvas.setFont("Helvetica", 8)
        canvas.drawString(60, A4[1] - 40, "Quarterly report canary-header")
        canvas.drawString(60, 30, f"Page {canvas.getPageNumber()} canary-footer")

    ruled = Table(
        [["Service", "Owner", "Limit"], ["search|find", "Ana", "1200"], ["storage", "", "64"], ["both", "", ""]],
        colWidths=[120, 100, 60],
    )
    ruled.setStyle(
        TableStyle(
            [
                ("GRID", (0, 0), (-1, -1), 0.5, colors.black),
                ("SPAN", (0, 3), (2, 3)),
                ("BACKGROUND", (0, 0), (-1, 0), colors.lightgrey),
            ]
        )
    )
    bare = Table([["Region", "Sales", "Share"], ["north", "4711", "12%"], ["south", "815", "3%"]], colWidths=[150] * 3)
    story = [
        Paragraph("Quarterly report", _STYLES["Title"]),
        Paragraph("Storage", _STYLES["Heading1"]),
        Paragraph(LOREM, _JUSTIFIED),
        Paragraph(LOREM, _JUSTIFIED),
        Paragraph("Figures", _STYLES["Heading2"]),
        ruled,
        Spacer(1, 20),
        Paragraph("And without lines:", _STYLES["BodyText"]),
        bare,
        Paragraph("Steps", _STYLES["Heading2"]),
        Paragraph("Stop the writer", _STYLES["Bullet"], bulletText="•"),
        Paragraph("Copy the files", _STYLES["Bullet"], bulletText="•"),
        *(
            part
            for number in (2, 3, 4)
            for part in (PageBreak(), Paragraph(f"Text of page {number}. {LOREM}", _JUSTIFIED))
        ),
    ]
    encrypt = None
    if encrypted:
        encrypt = StandardEncryption(encrypted.get("user", ""), encrypted.get("owner", "owner"), strength=128)
    made = SimpleDocTemplate(str(path), pagesize=A4, title="Report of the quarter", encrypt=encrypt)
    made.build(story, onFirstPage=margins, onLaterPages=margins)


def hyphenated(path: Path) -> None:
    """Lines drawn one by one: words parted at their ends, Chinese without blanks, and two paragraphs."""
    pdfmetrics.registerFont(UnicodeCIDFont("STSong-Light"))
    canvas = Canvas(str(path), pagesize=A4)
    canvas.setFont("Helvetica", 11)
    for number, line in enumerate(
        ("The index is rebuilt incremen-", "tally whenever a page is pub-", "lished, without a pause of the service.")
    ):
        canvas.drawString(72, 700 - 14 * number, line)
    canvas.drawString(72, 630, "A second paragraph.")
    canvas.setFont("STSong-Light", 11)
    canvas.drawString(72, 600, CHINESE)
    canvas.drawString(72, 586, "每个版本都会保留")
    canvas.save()


def two_columns(path: Path) -> None:
    """Two columns whose lines were drawn across, row by row, under one heading."""
    canvas = Canvas(str(path), pagesize=A4)
    canvas.setFont("Helvetica-Bold", 18)
    canvas.drawString(72, 760, "A heading that stands across both of the columns")
    canvas.setFont("Helvetica", 10)
    for number in range(30):
        canvas.drawString(72, 730 - 13 * number, f"left{number:02} of the first column, a line of running text")
        canvas.drawString(320, 730 - 13 * number, f"right{number:02} of the second column, a line of text")
    canvas.save()


def turned(path: Path) -> None:
    """A landscape page that is stored upright and turned for reading."""
    canvas = Canvas(str(path), pagesize=A4)
    canvas.setPageRotation(90)
    canvas.rotate(90)
    canvas.setFont("Helvetica-Bold", 20)
    canvas.drawString(72, -80, "Turned heading")
    canvas.setFont("Helvetica", 11)
    for number in range(4):
        canvas.drawString(72, -120 - 14 * number, f"turned line {number} of a paragraph that goes on and on for long")
    canvas.save()


def form(path: Path) -> None:
    """A form with a filled field, and a remark."""
    canvas = Canvas(str(path), pagesize=A4)
    canvas.drawString(72, 700, "Name of the applicant:")
    canvas.acroForm.textfield(name="n", value="field-canary", x=250, y=690, width=200, height=20, fontSize=10)
    canvas.textAnnotation("remark-canary", Rect=[72, 600, 90, 618])
    canvas.save()


def picture() -> Image.Image:
    """A grey picture with something in it."""
    return Image.radial_gradient("L").resize((400, 500))


def scan(path: Path, pages: int = 2) -> None:
    """Pictures only."""
    canvas = Canvas(str(path), pagesize=A4)
    file = path.with_suffix(".png")
    picture().save(file)
    for _ in range(pages):
        canvas.drawImage(str(file), 0, 0, *A4)
        canvas.showPage()
    canvas.save()
    file.unlink()


def half_scan(path: Path) -> None:
    """A page of text and one that is a picture."""
    canvas = Canvas(str(path), pagesize=A4)
    file = path.with_suffix(".png")
    picture().save(file)
    canvas.drawString(72, 700, "A page of text.")
    canvas.showPage()
    canvas.drawImage(str(file), 0, 0, *A4)
    canvas.save()
    file.unlink()


def with_member(source: Path, path: Path, name: str, content: bytes | Callable[[bytes], bytes]) -> None:
    """A copy of an archive with a member added, or replaced by what `content` is or makes of it."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        seen = False
        for member in old.infolist():
            there = old.read(member)
            if member.filename == name:
                seen = True
                there = content if isinstance(content, bytes) else content(there)
            new.writestr(member.filename, there)
        if not seen:
            new.writestr(name, content if isinstance(content, bytes) else content(b""))


def zip_of(members: dict[str, bytes]) -> bytes:
    """An archive of these."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in members.items():
            made.writestr(name, content)
    return buffer.getvalue()


WRITERS: dict[str, Callable[[Path], None]] = {
    "text.docx": text_document,
    "deck.pptx": deck,
    "costs.xlsx": workbook,
    "computed.xlsx": computed,
    "report.pdf": report,
}
"""By file name: the files that most tests use."""
