"""Word documents keep their structure and lose nothing that a reader of them sees."""

from __future__ import annotations

from pathlib import Path

import docx
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

from kbgit.documents.contract import Extracted, Reason
from tests.documents.extraction import flat, hostile
from tests.documents.extraction.conftest import Fail, Read

GONE = ("deleted-canary", "hidden-canary", "instruction-canary", "tracked-deletion-gone")


@pytest.fixture(scope="module")
def handbook(office: Path) -> Path:
    """LibreOffice's."""
    return office / "handbook.docx"


def lines(extracted: Extracted) -> list[str]:
    return extracted.markdown.split("\n")


def test_headings_are_known_by_style_outline_level_and_localised_name(read: Read, written: Path) -> None:
    found = [line for line in lines(read(written / "text.docx")) if line.startswith("#")]
    assert found == [
        "# Backup",
        "# Storage",
        "## Heading by outline level",
        "### Heading by German name",
        "## Comments",
    ]


def test_text_that_looks_like_markdown_stays_text(read: Read, written: Path) -> None:
    found = lines(read(written / "text.docx"))
    assert r"A literal * star, a snake_case name, 2 * 3 < 7, \<b>no tag\</b> and a [link\](javascript:x)." in found
    assert r"\# no heading" in found
    assert r"1\. no list" in found


def test_lists_count_or_do_not(read: Read, written: Path) -> None:
    assert "1. First\n2. Second\n- Bullet\n" in read(written / "text.docx").markdown.replace("\n\n- ", "\n- ")


def test_tables_keep_what_is_nested_and_merged(read: Read, written: Path) -> None:
    text = read(written / "text.docx").markdown
    assert "| Region | Count<br>of \\| disks |\n| --- | --- |\n| Nested: | |" in text
    assert "| canary-inner-0 | canary-inner-1 |\n| --- | --- |\n| canary-inner-2 | canary-inner-3 |" in text
    assert "| wide | | tall |\n| --- | --- | --- |\n| a | | |" in text


def test_tracked_insertions_are_kept_and_deletions_and_hidden_text_dropped(read: Read, written: Path) -> None:
    text = read(written / "text.docx").markdown
    assert "Kept inserted-canary\n" in text
    assert not [word for word in GONE if word in text]


def test_a_field_shows_its_result(read: Read, written: Path) -> None:
    assert "Page 12" in lines(read(written / "text.docx"))


def test_page_headers_footers_and_comments_are_there_once(read: Read, written: Path) -> None:
    found = lines(read(written / "text.docx"))
    assert found.count("Header: Header canary-header") == 1
    assert found.count("Footer: Footer canary-footer") == 1
    assert "- Ben: comment-canary" in found


def test_the_title_is_the_documents_own_or_its_first_heading(read: Read, written: Path, tmp_path: Path) -> None:
    assert read(written / "text.docx").title == "Operating handbook"
    document = docx.Document()
    document.add_paragraph("Before")
    document.add_heading("C* search_engine", 2)
    document.save(str(tmp_path / "a.docx"))
    assert read(tmp_path / "a.docx").title == "C* search_engine"


@pytest.mark.parametrize("script", [flat.CHINESE, flat.JAPANESE, flat.ARABIC, flat.HEBREW])
def test_every_script_survives(read: Read, written: Path, script: str) -> None:
    assert script in lines(read(written / "text.docx"))


def test_an_empty_document_has_no_text(fail: Fail) -> None:
    assert fail("a.docx", hostile.word(hostile.BODY % b"")).reason is Reason.NO_TEXT_LAYER


@pytest.mark.parametrize(
    ("inner", "said"),
    [
        ("<w:r><w:t>a</w:t><w:tab/><w:t>b</w:t><w:br/><w:t>c</w:t></w:r>", "a b\nc"),
        ("<w:r><w:t>well</w:t><w:noBreakHyphen/><w:t>known</w:t><w:softHyphen/></w:r>", "well-known"),
        ("<w:r><w:t>one </w:t></w:r><w:r><w:t>*two</w:t></w:r><w:r><w:t>*</w:t></w:r>", "one \\*two\\*"),
        ("<w:sdt><w:sdtContent><w:r><w:t>controlled</w:t></w:r></w:sdtContent></w:sdt>", "controlled"),
        ('<w:fldSimple w:instr="DATE"><w:r><w:t>today</w:t></w:r></w:fldSimple>', "today"),
        ("<w:moveFrom><w:r><w:t>old</w:t></w:r></w:moveFrom><w:moveTo><w:r><w:t>new</w:t></w:r></w:moveTo>", "new"),
        ('<w:r><w:rPr><w:vanish w:val="0"/></w:rPr><w:t>shown</w:t></w:r>', "shown"),
        (
            "<w:ruby><w:rt><w:r><w:t>kana</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>漢字</w:t></w:r></w:rubyBase></w:ruby>",
            "漢字",
        ),
        (
            '<mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"><mc:Choice>'
            "<w:drawing><w:txbxContent><w:p><w:r><w:t>box</w:t></w:r></w:p></w:txbxContent></w:drawing></mc:Choice>"
            "<mc:Fallback><w:pict><w:txbxContent><w:p><w:r><w:t>box</w:t></w:r></w:p></w:txbxContent></w:pict>"
            "</mc:Fallback></mc:AlternateContent>",
            "box",
        ),
    ],
)
def test_a_run_is_read_as_it_is_shown(read: Read, tmp_path: Path, inner: str, said: str) -> None:
    document = docx.Document()
    document.element.body.insert(0, parse_xml(f"<w:p {nsdecls('w')}>{inner}</w:p>"))
    document.save(str(tmp_path / "a.docx"))
    assert read(tmp_path / "a.docx").markdown == f"{said}\n"


def test_a_numbered_heading_keeps_its_number(read: Read, tmp_path: Path) -> None:
    document = docx.Document()
    numbering = document.part.numbering_part.element
    numbering.insert(
        0,
        parse_xml(
            f'<w:abstractNum {nsdecls("w")} w:abstractNumId="77">'
            '<w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:lvlText w:val="%1"/></w:lvl>'
            '<w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:lvlText w:val="%1.%2"/></w:lvl>'
            "</w:abstractNum>"
        ),
    )
    numbering.append(parse_xml(f'<w:num {nsdecls("w")} w:numId="77"><w:abstractNumId w:val="77"/></w:num>'))
    for text, level in (("One", 0), ("Two", 0), ("Below", 1), ("Beside", 1), ("Three", 0)):
        properties = document.add_heading(text, level + 1)._p.get_or_add_pPr()
        properties.append(
            parse_xml(f'<w:numPr {nsdecls("w")}><w:ilvl w:val="{level}"/><w:numId w:val="77"/></w:numPr>')
        )
    document.save(str(tmp_path / "a.docx"))
    assert read(tmp_path / "a.docx").markdown.split("\n\n") == [
        "# 1 One",
        "# 2 Two",
        "## 2.1 Below",
        "## 2.2 Beside",
        "# 3 Three\n",
    ]


def test_styles_that_are_based_on_each_other_in_a_circle_end(read: Read, tmp_path: Path) -> None:
    document = docx.Document()
    one, other = document.styles.add_style("One", 1), document.styles.add_style("Other", 1)
    one.base_style, other.base_style = other, one
    document.add_paragraph("text", one)
    document.save(str(tmp_path / "a.docx"))
    assert read(tmp_path / "a.docx").markdown == "text\n"


def test_libreoffice_headings_lists_and_tables_survive(read: Read, handbook: Path) -> None:
    text = read(handbook).markdown
    assert text.startswith("# Backup of the storage layer\n")
    assert "## Steps\n\n1. Stop the writer\n2. Copy the files\n3. Start the writer\n" in text
    assert "- Check disks\n  - First shelf\n  - Second shelf\n- Check power\n" in text
    assert "| search\\|find | Ana | 1200 |" in text
    assert "| region | count |\n| --- | --- |\n| north | 4711 |" in text


def test_libreoffice_notes_boxes_margins_comments_and_changes_survive(read: Read, handbook: Path) -> None:
    extracted = read(handbook)
    text = extracted.markdown
    assert "A claim with a footnote[^1] and an endnote[^2] stays." in text
    assert "\n[^1]: The footnote says canary-foot.\n\n[^2]: The endnote says canary-end.\n" in text
    for canary in ("canary-box", "canary-footer", "Runbook of the platform team", "comment-canary"):
        assert text.count(canary) == 1, canary
    assert "tracked-insertion-kept" in text
    assert not [word for word in GONE if word in text]
    assert extracted.title == "Operating handbook"


def test_libreoffice_links_survive_when_they_are_of_the_web(read: Read, handbook: Path) -> None:
    assert "See [the manual](https://example.org/a_b), never this one." in read(handbook).markdown


@pytest.mark.parametrize("script", [flat.CHINESE, flat.JAPANESE, flat.ARABIC, flat.HEBREW])
def test_libreoffice_scripts_survive(read: Read, handbook: Path, script: str) -> None:
    assert script in lines(read(handbook))
