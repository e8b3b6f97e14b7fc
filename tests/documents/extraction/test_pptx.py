"""Presentations are read slide by slide, with what is said beside them."""

from __future__ import annotations

from pathlib import Path

import pptx
import pytest
from pptx.enum.shapes import PP_PLACEHOLDER
from pptx.util import Inches

from kbgit.documents.contract import Extracted, Reason
from tests.documents.extraction import flat
from tests.documents.extraction.conftest import Fail, Read


@pytest.fixture(params=["python-pptx", "libreoffice"])
def extracted(request: pytest.FixtureRequest, read: Read, written: Path) -> Extracted:
    """The deck, as each of the programs writes it."""
    if request.param == "python-pptx":
        return read(written / "deck.pptx")
    return read(request.getfixturevalue("office") / "deck.pptx")


def slides(extracted: Extracted) -> list[str]:
    return extracted.markdown.split("<!-- slide: ")[1:]


def test_slides_are_in_order_with_their_marks_and_titles(extracted: Extracted) -> None:
    assert [slide.split("\n")[:3] for slide in slides(extracted)] == [
        ["1 -->", "", "## Plans for the year"],
        ["2 -->", "", "## Hidden plans"],
        ["3 -->", "", "## Slide 3"],
    ]
    assert extracted.title == "Plans for the year"
    assert extracted.notes == ()


def test_a_list_keeps_its_levels_and_a_group_its_text(extracted: Extracted) -> None:
    first = slides(extracted)[0]
    assert "- First point\n  - Point below\n- Last point\n" in first
    assert "\nGrouped canary-group\n" in first
    assert "\n[the manual](https://example.org/manual)\n" in first


def test_notes_are_a_paragraph(extracted: Extracted) -> None:
    assert "\nNotes: Say this slowly: canary-notes.\n" in slides(extracted)[0]
    assert extracted.markdown.count("canary-notes") == 1


def test_a_hidden_slide_says_so_and_keeps_its_table(extracted: Extracted) -> None:
    assert "\n*(hidden slide)*\n\n| Plan | Cost |\n| --- | --- |\n| large | 4711 |\n" in slides(extracted)[1]
    assert extracted.markdown.count("(hidden slide)") == 1


def test_a_chart_gives_its_title_and_numbers(extracted: Extracted) -> None:
    assert (
        "Chart: Sales by region\n\n| | Sales |\n| --- | --- |\n| north | 1.5 |\n| south | 2.25 |\n"
        in slides(extracted)[2]
    )


@pytest.mark.parametrize("script", [flat.CHINESE, flat.JAPANESE, flat.ARABIC, flat.HEBREW])
def test_every_script_survives(extracted: Extracted, script: str) -> None:
    assert script in slides(extracted)[2].split("\n")


def test_a_footer_is_kept_once_and_numbers_of_slides_are_not(read: Read, tmp_path: Path) -> None:
    made = pptx.Presentation()
    layout = made.slide_layouts[5]
    for number in range(3):
        slide = made.slides.add_slide(layout)
        for placeholder in layout.placeholders:  # type: ignore[misc]
            kind = placeholder.placeholder_format.type
            if kind in (PP_PLACEHOLDER.FOOTER, PP_PLACEHOLDER.SLIDE_NUMBER):
                slide.shapes.clone_placeholder(placeholder)
                text = "footer-canary" if kind == PP_PLACEHOLDER.FOOTER else f"number-canary {number}"
                slide.shapes[-1].text_frame.text = text
    made.save(str(tmp_path / "a.pptx"))
    text = read(tmp_path / "a.pptx").markdown
    assert text.endswith("\n\nFooter: footer-canary\n")
    assert text.count("footer-canary") == 1
    assert "number-canary" not in text


def test_a_merged_cell_gives_its_text_once(read: Read, tmp_path: Path) -> None:
    made = pptx.Presentation()
    slide = made.slides.add_slide(made.slide_layouts[6])
    table = slide.shapes.add_table(2, 2, Inches(1), Inches(1), Inches(4), Inches(2)).table
    table.cell(0, 0).merge(table.cell(0, 1))
    table.cell(0, 0).text, table.cell(1, 0).text, table.cell(1, 1).text = "wide", "a\nb", "c"
    made.save(str(tmp_path / "a.pptx"))
    assert "| wide | |\n| --- | --- |\n| a<br>b | c |" in read(tmp_path / "a.pptx").markdown


def test_a_deck_without_a_word_has_no_text(fail: Fail, tmp_path: Path) -> None:
    made = pptx.Presentation()
    made.slides.add_slide(made.slide_layouts[6])
    made.save(str(tmp_path / "empty.pptx"))
    assert fail("a.pptx", (tmp_path / "empty.pptx").read_bytes()).reason is Reason.NO_TEXT_LAYER
