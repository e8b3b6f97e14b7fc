"""Workbooks say what a reader of their sheets sees."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from pathlib import Path

import openpyxl
import pytest
from openpyxl.worksheet.formula import ArrayFormula

from kbgit.documents.contract import Extracted, Reason
from kbgit.documents.extraction.xlsx_values import shown
from tests.documents.extraction import flat
from tests.documents.extraction.conftest import Fail, Read
from tests.documents.extraction.corpus import long_workbook, with_member


@pytest.fixture
def costs(read: Read, written: Path) -> Extracted:
    """The workbook that openpyxl wrote."""
    return read(written / "costs.xlsx")


def test_each_sheet_has_its_mark_and_heading_and_empty_ones_are_left_out(costs: Extracted) -> None:
    assert costs.markdown.startswith("<!-- sheet: Costs -->\n\n## Costs\n\nCosts of 2024\n\n| Item |")
    assert "\n\n<!-- sheet: Secret -->\n\n## Secret\n\n*(hidden sheet)*\n\nhidden-canary\n" in costs.markdown
    assert "Empty" not in costs.markdown


def test_values_are_readable(costs: Extracted) -> None:
    assert "| Disk \\| big | 2024-03-01 | 12.5% | 1,234.50 € | TRUE |" in costs.markdown
    assert "| Power | 2024-12-31T14:30:00 | 50.0% | -10.00 € | FALSE |" in costs.markdown
    assert "| Time | 09:05:00 | 26:30:00 | 0.3 | #DIV/0! |" in costs.markdown
    assert "two<br>lines" in costs.markdown


def test_a_formula_without_a_value_is_shown_with_a_note(costs: Extracted) -> None:
    assert "| `=SUM(D3:D4)` |" in costs.markdown
    [note] = costs.notes
    assert note.startswith("1 formula has no computed value")


def test_a_formula_gives_the_value_that_its_program_computed(read: Read, written: Path) -> None:
    extracted = read(written / "computed.xlsx")
    assert "| Name | Value |\n| --- | --- |\n| answer | 42 |\n| price | $99.50 |" in extracted.markdown
    assert "40+2" not in extracted.markdown
    assert extracted.notes == ()


def test_a_formula_that_computed_an_empty_text_is_an_empty_cell(read: Read, written: Path, tmp_path: Path) -> None:
    def emptied(sheet: bytes) -> bytes:
        changed = sheet.replace(b"<f>40+2</f><v>42</v>", b"<f>40+2</f><v></v>").replace(
            b'<c r="B2"', b'<c r="B2" t="str"'
        )
        assert changed != sheet
        return changed

    with_member(written / "computed.xlsx", tmp_path / "a.xlsx", "xl/worksheets/sheet1.xml", emptied)
    extracted = read(tmp_path / "a.xlsx")
    assert "| answer | |" in extracted.markdown
    assert extracted.notes == ()


def test_comments_are_listed_with_their_cells(costs: Extracted) -> None:
    assert "\n\nComments:\n\n- A3 (Ben): comment-canary\n" in costs.markdown


@pytest.mark.parametrize("script", [flat.CHINESE, flat.ARABIC, flat.HEBREW])
def test_every_script_survives(costs: Extracted, script: str) -> None:
    assert f"| {script} |" in costs.markdown


def test_a_long_sheet_repeats_its_head(read: Read, tmp_path: Path) -> None:
    long_workbook(tmp_path / "long.xlsx")
    text = read(tmp_path / "long.xlsx").markdown
    assert text.count("| Number | Square |\n| --- | --- |") == 3
    assert "| 449 | 201601 |" in text


def test_cells_far_from_each_other_are_a_list(read: Read, tmp_path: Path) -> None:
    made = openpyxl.Workbook()
    sheet = made.active
    assert sheet is not None
    for number in range(1, 200):
        sheet.cell(number * 5000, number * 80).value = f"cell {number}"
    made.save(tmp_path / "a.xlsx")
    text = read(tmp_path / "a.xlsx").markdown
    assert len(text) < 10_000
    assert all(f"- cell {number}\n" in text for number in range(1, 200))


def test_array_formulas_and_ticks_in_formulas_are_shown(read: Read, tmp_path: Path) -> None:
    made = openpyxl.Workbook()
    sheet = made.active
    assert sheet is not None
    sheet["A1"] = ArrayFormula("A1:A2", "=SUM(B1:B2*C1:C2)")
    sheet["A3"] = "='a`b'!A1"
    made.save(tmp_path / "a.xlsx")
    extracted = read(tmp_path / "a.xlsx")
    assert "| `=SUM(B1:B2*C1:C2)` |" in extracted.markdown
    assert "| ``='a`b'!A1`` |" in extracted.markdown
    assert extracted.notes[0].startswith("2 formulas have")


def test_an_empty_workbook_has_no_text(fail: Fail, tmp_path: Path) -> None:
    openpyxl.Workbook().save(tmp_path / "empty.xlsx")
    assert fail("a.xlsx", (tmp_path / "empty.xlsx").read_bytes()).reason is Reason.NO_TEXT_LAYER


def test_libreoffice_values_formulas_and_comments_survive(read: Read, office: Path) -> None:
    text = read(office / "sheet.xlsx").markdown
    assert "Costs of 2024\n\n| Item | Day | Share | Price |" in text
    assert "| Disk | 2024-03-01 | 12.5% | 1,234.50 € |" in text
    assert "| Sum | | | 1,244.50 € |" in text
    assert "| Broken | | #DIV/0! | noted |" in text
    assert f"| {flat.CHINESE} | {flat.ARABIC} | {flat.HEBREW} | |" in text
    assert "- D6 (Ben): comment-canary" in text
    assert "*(hidden sheet)*\n\nhidden-canary" in text


@pytest.mark.parametrize(
    ("value", "form", "said"),
    [
        (None, "General", ""),
        (True, "General", "TRUE"),
        (3.0, "General", "3"),
        (1234567, "#,##0", "1234567"),
        (0.1 + 0.2, "General", "0.3"),
        (1e21, "General", "1e+21"),
        (0.256, "0%", "26%"),
        (0.2567, "0.00%", "25.67%"),
        (1234.5, '"$"#,##0.00', "$1,234.50"),
        (-5, "[$€-2] #,##0.00", "-€5.00"),
        (5, '#,##0.00 "CHF"', "5.00 CHF"),
        (5, "[$CHF-807] #,##0", "CHF 5"),
        (7, "[Red]0.00;[Blue]-0.00", "7"),
        (date(2024, 2, 29), "General", "2024-02-29"),
        (datetime(2024, 2, 29), "dd.mm.yyyy", "2024-02-29"),
        (datetime(2024, 2, 29), "dd.mm.yyyy hh:mm", "2024-02-29T00:00:00"),
        (datetime(2024, 2, 29, 23, 59, 59, 999_999), "dd.mm.yyyy", "2024-03-01"),
        (datetime(2024, 2, 29), 'dd "hours"', "2024-02-29"),
        (time(9, 5), "hh:mm", "09:05:00"),
        (timedelta(days=1, hours=2, minutes=30), "[h]:mm", "26:30:00"),
        (timedelta(seconds=-90), "[h]:mm", "-0:01:30"),
        ("#N/A", "General", "#N/A"),
        ("a_b *c*", "@", "a_b \\*c\\*"),
    ],
)
def test_a_value_is_shown_as_its_format_says(value: object, form: str, said: str) -> None:
    assert shown(value, form) == said
