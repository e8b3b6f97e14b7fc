"""PDFs give their text in reading order, with pages, headings, lists and tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from reportlab.lib.pagesizes import A4
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfgen.canvas import Canvas

from kbgit.documents.contract import Extracted, ExtractionFailed, ExtractionLimits, Reason
from kbgit.documents.extraction import pdf
from kbgit.documents.extraction.pdf_lines import joined
from kbgit.place import read_mark
from tests.documents.extraction import corpus, flat, hostile
from tests.documents.extraction.conftest import Fail, Read

Make = Callable[[Callable[[Path], None]], Extracted]


@pytest.fixture
def make(read: Read, tmp_path: Path) -> Make:
    """Reads what a writer writes."""

    def make_(write: Callable[[Path], None]) -> Extracted:
        write(tmp_path / "made.pdf")
        return read(tmp_path / "made.pdf")

    return make_


@pytest.fixture
def report(read: Read, written: Path) -> Extracted:
    """Reportlab's."""
    return read(written / "report.pdf")


def pages(extracted: Extracted) -> list[str]:
    return [page.split(" -->\n\n", 1)[-1] for page in extracted.markdown.split("<!-- page: ")[1:]]


def test_each_page_has_its_mark(report: Extracted) -> None:
    marks = [line for line in report.markdown.split("\n") if line.startswith("<!--")]
    assert marks == [f"<!-- page: {number} -->" for number in range(1, 5)]
    assert report.title == "Report of the quarter"


def test_headings_are_known_by_their_size(report: Extracted) -> None:
    found = [line for line in report.markdown.split("\n") if line.startswith("#")]
    assert found == ["# Quarterly report", "# Storage", "## Figures", "## Steps"]


def test_paragraphs_are_joined_and_parted(report: Extracted) -> None:
    assert report.markdown.split("\n\n").count(flat.LOREM) == 2
    assert pages(report)[2] == f"Text of page 3. {flat.LOREM}\n\n"


def test_a_table_is_known_by_its_lines_and_one_without_by_its_columns(report: Extracted) -> None:
    assert (
        "| Service | Owner | Limit |\n| --- | --- | --- |\n| search\\|find | Ana | 1200 |\n| storage | | 64 |\n| both | | |\n"
        in report.markdown
    )
    assert "| Region | Sales | Share |\n| --- | --- | --- |\n| north | 4711 | 12% |\n" in report.markdown


def test_lists_are_lists(report: Extracted) -> None:
    assert "## Steps\n\n- Stop the writer\n- Copy the files\n" in report.markdown


def test_headers_and_footers_are_kept_once(report: Extracted) -> None:
    assert report.markdown.count("canary-header") == 1
    assert report.markdown.count("canary-footer") == 1
    assert "canary-header" in pages(report)[0]


def test_words_parted_at_line_ends_are_whole_and_chinese_has_no_blanks(make: Make) -> None:
    text = make(corpus.hyphenated).markdown
    assert "The index is rebuilt incrementally whenever a page is published, without a pause of the service.\n" in text
    assert "\n\nA second paragraph.\n" in text
    assert flat.CHINESE in text


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["a", "b"], "a b"),
        (["incre-", "ment"], "increment"),
        (["Franco-", "German"], "Franco-German"),
        (["from 1-", "2 on"], "from 1- 2 on"),
        (["中文", "文本"], "中文文本"),
        (["中文", "text"], "中文 text"),
        (["한국", "사람"], "한국 사람"),
        (["a -", "b"], "a - b"),
        (["", "a", "", "-", "b"], "a - b"),
        (["-", "b"], "- b"),
    ],
)
def test_lines_are_joined_as_they_were_before_they_were_broken(lines: list[str], said: str) -> None:
    assert joined(lines) == said


def test_columns_are_read_one_after_the_other_even_when_drawn_across(make: Make) -> None:
    text = make(corpus.two_columns).markdown
    assert "# A heading that stands across both of the columns\n\nleft00" in text
    places = [text.index(f"{side}{number:02}") for side in ("left", "right") for number in range(30)]
    assert places == sorted(places)


def test_a_turned_page_is_read_as_it_is_shown(make: Make) -> None:
    text = make(corpus.turned).markdown
    assert text.startswith("<!-- page: 1 -->\n\n# Turned heading\n\nturned line 0 of a paragraph")
    assert "long turned line 1 of" in text


def test_fields_of_a_form_and_remarks_are_there(make: Make) -> None:
    text = make(corpus.form).markdown
    assert "Name of the applicant: field-canary\n" in text
    assert "\nComment: remark-canary\n" in text


def test_a_number_that_pages_share_is_no_page_number_when_it_does_not_grow_with_them(make: Make) -> None:
    def write(path: Path) -> None:
        canvas = Canvas(str(path), pagesize=A4)
        for page in range(1, 6):
            canvas.setFont("Helvetica", 9)
            canvas.drawString(60, 800, f"Order {page * 7} of the day")
            canvas.drawCentredString(300, 30, str(page))
            for line in range(5):
                canvas.drawString(60, 700 - 12 * line, f"body of page {page}, line {line} of the text on it")
            canvas.showPage()
        canvas.save()

    found = pages(make(write))
    assert [f"Order {page * 7} of the day" in text for page, text in enumerate(found, 1)] == [True] * 5
    assert not [text for text in found if text.rstrip().endswith(("\n1", "\n2", "\n3", "\n4", "\n5"))]


def test_a_table_of_contents_keeps_its_lines_and_loses_its_dots(make: Make) -> None:
    def write(path: Path) -> None:
        canvas = Canvas(str(path), pagesize=A4)
        for number, name in enumerate(("Introduction", "Storage", "Index")):
            canvas.drawString(72, 700 - 14 * number, f"{number + 1} {name}" + ". " * 40 + f"{number + 7}")
        canvas.save()

    assert make(write).markdown.endswith("\n\n1 Introduction … 7\n2 Storage … 8\n3 Index … 9\n")


def test_a_bold_word_at_its_beginning_makes_no_heading_of_a_line_and_a_bold_line_is_one(make: Make) -> None:
    def write(path: Path) -> None:
        canvas = Canvas(str(path), pagesize=A4)
        canvas.setFont("Helvetica-Bold", 11)
        canvas.drawString(72, 730, "A bold line")
        canvas.drawString(72, 700, "kbgit")
        canvas.setFont("Helvetica", 11)
        canvas.drawString(
            72 + pdfmetrics.stringWidth("kbgit ", "Helvetica-Bold", 11),
            700,
            "is a program that keeps what those who work in",
        )
        canvas.drawString(72, 686, "a team know in Git and answers with citations.")
        canvas.save()

    running = "kbgit is a program that keeps what those who work in a team know in Git and answers with citations."
    wanted = f"# A bold line\n\n{running}\n"
    assert make(write).markdown.endswith(wanted)


def test_an_entry_of_a_list_goes_on_in_the_next_line(make: Make) -> None:
    def write(path: Path) -> None:
        canvas = Canvas(str(path), pagesize=A4)
        canvas.setFont("Helvetica", 11)
        for number, (label, line) in enumerate(
            (
                ("•", "The first entry of the list is so long that it does"),
                ("", "not end where its first line does."),
                ("•", "The second entry is short."),
            )
        ):
            canvas.drawString(72, 700 - 14 * number, label)
            canvas.drawString(90, 700 - 14 * number, line)
        canvas.save()

    wanted = (
        "- The first entry of the list is so long that it does not end where its first line does.\n"
        "- The second entry is short.\n"
    )
    assert make(write).markdown.endswith(wanted)


def test_a_text_that_looks_like_a_mark_is_none(make: Make) -> None:
    def write(path: Path) -> None:
        canvas = Canvas(str(path), pagesize=A4)
        canvas.drawString(72, 700, "<!-- page: 99 -->")
        canvas.drawString(72, 660, "---")
        canvas.save()

    text = make(write).markdown
    assert [str(place) for line in text.split("\n") if (place := read_mark(line))] == ["page 1"]
    assert text == "<!-- page: 1 -->\n\n\\<!-- page: 99 -->\n\n\\---\n"


def test_a_pdf_that_opens_only_with_a_password_is_encrypted(fail: Fail, tmp_path: Path) -> None:
    corpus.report(tmp_path / "made.pdf", user="user", owner="owner")
    assert fail("a.pdf", (tmp_path / "made.pdf").read_bytes()).reason is Reason.ENCRYPTED


def test_a_pdf_with_an_owners_password_alone_is_read(make: Make, report: Extracted) -> None:
    assert make(lambda path: corpus.report(path, owner="owner")) == report


def test_pictures_alone_are_no_text(fail: Fail, tmp_path: Path) -> None:
    corpus.scan(tmp_path / "made.pdf")
    failed = fail("a.pdf", (tmp_path / "made.pdf").read_bytes())
    assert failed.reason is Reason.NO_TEXT_LAYER
    assert "OCR" in failed.detail


def test_a_picture_between_pages_of_text_is_noted(make: Make) -> None:
    extracted = make(corpus.half_scan)
    assert pages(extracted)[0] == "A page of text.\n\n"
    assert extracted.notes == ("Page 2: a picture without text; recognise its text first (OCR) to have it found.",)


@pytest.mark.parametrize("part", range(1, 40))
def test_a_truncated_pdf_is_corrupt_wherever_it_ends(fail: Fail, written: Path, part: int) -> None:
    content = (written / "report.pdf").read_bytes()
    assert fail("a.pdf", content[: max(5, len(content) * part // 40)]).reason is Reason.CORRUPT


def test_a_pdf_with_something_after_its_end_is_read(make: Make, written: Path, report: Extracted) -> None:
    def write(path: Path) -> None:
        path.write_bytes((written / "report.pdf").read_bytes() + b"\r\n<!-- sent by a gateway -->\n")

    assert make(write) == report


def test_a_linearised_pdf_that_is_shorter_than_it_says_is_corrupt(fail: Fail) -> None:
    whole = hostile.simple().replace(b"<</Type/Catalog", b"<</Linearized 1/L 99999999/Type/Catalog")
    assert fail("a.pdf", whole).reason is Reason.CORRUPT


def test_pages_beyond_the_limit_are_refused(tmp_path: Path, written: Path, limits: ExtractionLimits) -> None:
    assert pdf.extract(written / "report.pdf", replace(limits, pages=4))
    with pytest.raises(ExtractionFailed) as failed:
        pdf.extract(written / "report.pdf", replace(limits, pages=3))
    assert failed.value.reason is Reason.TOO_LARGE


def test_text_beyond_the_limit_of_output_is_refused(written: Path, limits: ExtractionLimits) -> None:
    with pytest.raises(ExtractionFailed) as failed:
        pdf.extract(written / "report.pdf", replace(limits, output=500))
    assert failed.value.reason is Reason.TOO_LARGE


def test_libreoffice_structure_survives(read: Read, office: Path) -> None:
    extracted = read(office / "handbook.pdf")
    text = extracted.markdown
    assert "# Backup of the storage layer\n" in text
    assert "## Steps\n\n1. Stop the writer\n2. Copy the files\n3. Start the writer\n" in text
    assert "- Check disks\n  - First shelf\n  - Second shelf\n- Check power\n" in text
    assert "### End\n" in text
    assert "| search\\|find | Ana | 1200 |" in text
    for words in ("region", "4711", "canary-box", "canary-foot.", "canary-end", "tracked-insertion-kept"):
        assert words in text
    assert text.count("Runbook of the platform team") == 1
    assert text.count("canary-footer") == 1
    assert text.count(flat.LOREM) == 2
    assert extracted.title == "Operating handbook"


@pytest.mark.parametrize("script", [flat.CHINESE, flat.JAPANESE, flat.ARABIC, flat.HEBREW])
def test_libreoffice_scripts_survive_in_logical_order_on_their_page(read: Read, office: Path, script: str) -> None:
    assert script in pages(read(office / "handbook.pdf"))[1].split("\n")


def test_libreoffice_columns_are_read_one_after_the_other(read: Read, office: Path) -> None:
    text = read(office / "columns.pdf").markdown
    places = [text.index(f"Sentence number {number} of") for number in range(40)]
    assert places == sorted(places)


def test_a_deck_saved_as_pdf_keeps_its_titles(read: Read, office: Path) -> None:
    found = pages(read(office / "deck.pdf"))
    assert found[0].startswith("# Plans for the year\n\n- First point\n  - Point below\n- Last point\n")
