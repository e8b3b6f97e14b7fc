"""What is written is structure where structure was meant, and nothing but text elsewhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from kbgit.documents.contract import ExtractionFailed, ExtractionLimits, Reason
from kbgit.documents.extraction import markdown
from kbgit.documents.extraction.markdown import Cell, ListItem, Page, Table
from kbgit.place import PlaceKind
from tests.growth import grows_too_fast

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
TRICKY = st.text(alphabet="ab1 \\`*_[]()<>&;~#|-+.!:=\n/^éж中", max_size=40)


def shown(block: str) -> list[str]:
    """The text of each line of a block as a reader shows it; fails when it is more than running text."""
    tokens = READER.parse(block)
    assert [token.type for token in tokens] in ([], ["paragraph_open", "inline", "paragraph_close"]), block
    lines = [""]
    for child in tokens[1].children or [] if tokens else []:
        if child.type in ("softbreak", "hardbreak"):
            lines.append("")
        else:
            assert child.type == "text", (child.type, block)
            lines[-1] += child.content
    return lines


@given(TRICKY)
def test_any_text_is_shown_as_it_was(text: str) -> None:
    wanted = [line for line in markdown.plain(text).split("\n") if line]
    assert [line for line in shown(markdown.paragraph(markdown.literal(text))) if line] == wanted


@given(TRICKY)
def test_any_text_survives_in_a_cell(text: str) -> None:
    [block] = markdown.table(Table.of([["head", "x"], [markdown.literal(text), "y"]]))
    tokens = [token for token in READER.parse(block) if token.type == "inline"]
    assert len(tokens) == 4
    said = "".join(child.content for child in tokens[2].children or []).replace(markdown.LINE_BREAK, "\n")
    assert said == "\n".join(line for line in markdown.plain(text).split("\n") if line)


@pytest.mark.parametrize(
    "text",
    ["snake_case_name", "2 * 3", "a < b & c > d", "[1] and [x]", "C:\\Users", "~5 min", "50% - 60%", "1.5", "#1"],
)
def test_what_needs_no_escape_gets_none(text: str) -> None:
    assert markdown.paragraph(markdown.literal(text)) == text


@pytest.mark.parametrize(
    "text",
    ["# a", "> a", "- a", "+ a", "* a", "12. a", "3) a", "---", "===", "***", "- - -", "| a |\n|---|", "[ ] a", "```"],
)
def test_a_line_never_begins_a_block_by_accident(text: str) -> None:
    assert shown(markdown.paragraph(markdown.literal(text))) == text.split("\n")


def test_control_characters_and_lone_surrogates_are_left_out_and_joiners_kept() -> None:
    assert markdown.literal("a\x00b\x1b\ud800c\u00add\ufeff نمی\u200cخواهم") == "abcd نمی\u200cخواهم"


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "", None, "vbscript:x"]
)
def test_only_addresses_of_the_web_and_of_mail_become_links(address: str | None) -> None:
    assert markdown.link("here", address) == "here"


@pytest.mark.parametrize(
    "address", ["https://example.org/a(b)?c=[d]", "mailto:ana@example.org", "http://x.example/\\y"]
)
def test_a_link_leads_where_it_led(address: str) -> None:
    [_, inline, _] = READER.parse(markdown.paragraph(markdown.link(markdown.literal("a ] tricky [ text"), address)))
    [opening, text, closing] = inline.children or []
    assert (opening.type, closing.type, text.content) == ("link_open", "link_close", "a ] tricky [ text")
    assert str(opening.attrs["href"]).startswith(address.split("(")[0].split("\\")[0])


@given(st.lists(st.tuples(st.booleans(), TRICKY.map(lambda text: text.replace("\n", ""))), max_size=6))
def test_text_beside_markup_stays_text_and_markup_stays_markup(parts: list[tuple[bool, str]]) -> None:
    made = markdown.Inline()
    wanted = ""
    for is_link, text in parts:
        if is_link:
            made.markup(markdown.link("x", "https://example.org"))
        else:
            made.text(text)
        wanted += "x" if is_link else text
    tokens = READER.parse("- " + made.inline())
    children = next((token.children or [] for token in tokens if token.type == "inline"), [])
    links = [token for token in children if token.type == "link_open"]
    assert len(links) == sum(is_link for is_link, _ in parts)
    assert not [token for token in children if token.type not in ("text", "link_open", "link_close", "text_special")]


def test_text_after_a_footnotes_mark_makes_no_link_of_it() -> None:
    made = markdown.Inline()
    made.text("wow!")
    made.markup("[^1]")
    made.text("(see")
    made.text(" there)")
    assert made.inline() == "wow\\![^1]\\(see there)"


def test_blanks_around_a_link_stay_outside() -> None:
    assert markdown.link(" here ", "https://example.org") == " [here](https://example.org) "


def test_a_list_is_nested_by_its_levels() -> None:
    items = [
        ListItem(0, "one", 1),
        ListItem(0, "two", 2),
        ListItem(3, "deep"),
        ListItem(3, "deep\ntwo lines"),
        ListItem(0, "three", 3),
    ]
    assert markdown.listing(items) == "1. one\n2. two\n   - deep\n   - deep\n     two lines\n3. three"


def test_a_list_read_again_has_the_same_nesting() -> None:
    levels = [0, 1, 2, 1, 0, 1, 2, 2, 0]
    tokens = READER.parse(markdown.listing([ListItem(level, f"entry {level}") for level in levels]))
    depth, found = -1, []
    for token in tokens:
        depth += (token.type == "bullet_list_open") - (token.type == "bullet_list_close")
        if token.type == "inline":
            found.append(depth)
    assert found == levels


def test_a_list_of_many_levels_ends_somewhere() -> None:
    text = markdown.listing([ListItem(level, "x") for level in range(2_000)])
    assert max(len(line) for line in text.split("\n")) < 100


def test_a_heading_is_one_line_of_at_most_six_marks() -> None:
    assert markdown.heading(9, "a\nb") == "###### a b"
    assert markdown.heading(1, "C#") == "# C\\#"
    assert not markdown.heading(1, "word " * 200).startswith("#")


def test_rows_of_any_length_make_a_table() -> None:
    assert markdown.table(Table.of([["a"], ["b", "c"], [""], ["d | e\nf", "", ""]])) == [
        "| a | |\n| --- | --- |\n| b | c |\n| d \\| e<br>f | |"
    ]


def test_an_empty_table_is_nothing() -> None:
    assert markdown.table(Table.of([["", ""], [" "]])) == []


def test_a_table_in_a_cell_follows_with_its_place() -> None:
    inner = Table.of([["k", "v"], ["x", "4711"]])
    outer = Table(((Cell("name"), Cell("detail")), (Cell("a"), Cell("see", (inner,)))))
    assert markdown.table(outer) == [
        "| name | detail |\n| --- | --- |\n| a | see |",
        "(Row 2, column 2:)",
        "| k | v |\n| --- | --- |\n| x | 4711 |",
    ]


def test_a_table_around_one_cell_is_passed_over() -> None:
    assert markdown.table(Table(((Cell("", (Table.of([["k", "v"]]),)),),))) == ["| k | v |\n| --- | --- |"]


def test_a_long_table_repeats_its_head() -> None:
    blocks = markdown.table(Table.of([["n"], *([str(number)] for number in range(450))]))
    assert [block.split("\n")[0] for block in blocks] == ["| n |"] * 3
    assert sum(block.count("\n") - 1 for block in blocks) == 450


def test_a_page_puts_blank_lines_between_blocks_and_ends_with_one_line_end() -> None:
    page = Page(ExtractionLimits())
    page.add_place(PlaceKind.PAGE, 12)
    assert not page.said
    page.add("a", "", "b")
    page.add_item(ListItem(0, "# x"))
    page.add_item(ListItem(0, "y"))
    page.add("c")
    assert page.text() == "<!-- page: 12 -->\n\na\n\nb\n\n- \\# x\n- y\n\nc\n"


def test_a_page_keeps_within_the_limit_of_output() -> None:
    page = Page(ExtractionLimits(output=100))
    page.add("é" * 40)
    with pytest.raises(ExtractionFailed) as failed:
        page.add_item(ListItem(0, "é" * 40))
    assert failed.value.reason is Reason.TOO_LARGE


@pytest.mark.parametrize("character", list("[]`*_<>&|~\\#-=() \n!;"))
def test_time_grows_with_the_text_and_no_faster(character: str) -> None:
    def written(text: str) -> None:
        markdown.table(Table.of([[markdown.literal(text)]]))
        markdown.paragraph(markdown.link(markdown.literal(text), "https://example.org"))

    assert not grows_too_fast(written, lambda size: f"{character}a" * (size // 3) + character * (size // 3), 30_000)
