"""Cutting content into passages: `kbgit.passage`."""

from __future__ import annotations

import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kbgit.item import parse_document
from kbgit.passage import DEFAULT_CAP, Passage, estimated_tokens, split_passages
from tests.growth import grows_too_fast


def outline(content: str, cap: int = DEFAULT_CAP) -> list[tuple[tuple[str, ...], int, int]]:
    return [(passage.section, passage.start_line, passage.end_line) for passage in split_passages(content, cap)]


def unspaced(text: str) -> str:
    return "".join(text.split())


def check(content: str, passages: list[Passage], cap: int = DEFAULT_CAP) -> None:
    """All that holds for the passages of any content."""
    lines = content.split("\n")
    assert [passage.ordinal for passage in passages] == list(range(len(passages)))
    covered: set[int] = set()
    shared: dict[int, str] = {}
    previous_end = 0
    for passage in passages:
        assert 1 <= passage.start_line <= passage.end_line <= len(lines)
        assert passage.text.strip()
        assert estimated_tokens(passage.text) <= cap + passage.text.count("\n")
        whole = "\n".join(lines[passage.start_line - 1 : passage.end_line])
        if passage.start_line <= previous_end:
            # only the further parts of one line that is over the cap may repeat a line
            assert passage.start_line == passage.end_line == previous_end
            shared[previous_end] += passage.text
        else:
            shared[passage.end_line] = passage.text
            covered.update(range(passage.start_line, passage.end_line + 1))
        assert passage.text in whole
        previous_end = passage.end_line
    ends = {passage.end_line: passage for passage in reversed(passages)}
    for end, text in shared.items():
        whole = "\n".join(lines[ends[end].start_line - 1 : end])
        assert text == whole or (estimated_tokens(whole) > cap and unspaced(text) == unspaced(whole))
    assert covered >= {number for number, line in enumerate(lines, 1) if line.strip()}


# --- sections


def test_a_heading_begins_a_passage_with_the_path_of_headings_above_it() -> None:
    content = "intro\n\n# A\n\na\n\n## B\n\nb\n\n### C\nc\n\n## D\nd\n\n# E\n\ne\n"
    assert outline(content) == [
        ((), 1, 1),
        (("A",), 3, 5),
        (("A", "B"), 7, 9),
        (("A", "B", "C"), 11, 12),
        (("A", "D"), 14, 15),
        (("E",), 17, 19),
    ]


def test_a_heading_without_text_goes_with_its_first_subsection() -> None:
    assert outline("# A\n\n## B\n\n### C\n\nc\n\n## D\n\nd\n") == [(("A", "B", "C"), 1, 7), (("A", "D"), 9, 11)]


def test_a_heading_without_text_or_subsection_stands_alone() -> None:
    assert outline("# A\n\n## B\n\n## C\n\nc\n\n# D\n") == [(("A", "B"), 1, 3), (("A", "C"), 5, 7), (("D",), 9, 9)]


def test_small_text_is_one_passage_of_exactly_its_lines() -> None:
    content = "\n\n# tar\n\n> Archive.\n\n- Create:\n\n`tar cf x`\n\n\n"
    assert split_passages(content) == [
        Passage(0, ("tar",), 3, 9, "# tar\n\n> Archive.\n\n- Create:\n\n`tar cf x`"),
    ]


@pytest.mark.parametrize("content", ["", "\n", " \n\t\n", "\u00a0\n"])
def test_content_without_text_has_no_passage(content: str) -> None:
    assert split_passages(content) == []


@pytest.mark.parametrize(
    "content",
    [
        "> # quoted\n> text\n",
        "- # in a list\n  text\n",
        "```sh\n# comment\n```\n",
        "~~~\n# comment\n```\n# more\n~~~\n",
        "    # indented code\n",
        "<!--\n# hidden\n\n## hidden\n-->\n",
        "<pre>\n# literal\n</pre>\n",
        "#hashtag\n",
        "- item\n---\ntext\n",
        "> quote\n---\ntext\n",
        "```\nnever closed\n\n# comment\n",
    ],
)
def test_what_is_not_a_heading_of_the_document_begins_no_section(content: str) -> None:
    assert [section for section, _, _ in outline(content)] == [()]


def test_underlined_headings_are_headings() -> None:
    assert outline("One\n===\n\na\n\nTwo\nlines\n---\n\nb\n") == [(("One",), 1, 4), (("One", "Two lines"), 6, 10)]


def test_section_names_have_no_markup_and_empty_headings_no_name() -> None:
    content = "# The `kbgit` **tool** ##\n\na\n\n## [Links](x) &amp; <b>more</b>\n\nb\n\n### \n\nc\n"
    assert [section for section, _, _ in outline(content)] == [
        ("The kbgit tool",),
        ("The kbgit tool", "Links & more"),
        ("The kbgit tool", "Links & more"),
    ]


def test_section_names_are_bounded() -> None:
    (passage,) = split_passages("# " + "word " * 60 + "\n\ntext\n")
    assert len(passage.section[0]) <= 200


def test_link_definitions_and_comments_are_lines_like_others() -> None:
    content = "# A\n\n[a]: http://x\n\n<!-- note -->\n\n# B\n\n[b]: http://y\n"
    assert outline(content) == [(("A",), 1, 5), (("B",), 7, 9)]


# --- size


def words(count: int, word: str = "word") -> str:
    return " ".join([word] * count)


def test_paragraphs_are_packed_up_to_the_cap() -> None:
    paragraph = words(40)  # 200 characters: 50 tokens
    content = "# A\n\n" + "\n\n".join([paragraph] * 10) + "\n"
    passages = split_passages(content, 120)
    check(content, passages, 120)
    assert [(passage.start_line, passage.end_line) for passage in passages] == [
        (1, 5),
        (7, 9),
        (11, 13),
        (15, 17),
        (19, 21),
    ]
    assert {passage.section for passage in passages} == {("A",)}


@pytest.mark.parametrize(
    "block",
    [
        "- " + "\n- ".join([words(8)] * 8),
        "1. " + "\n2. ".join([words(8)] * 8),
        "a | b\n--|--\n" + "\n".join([words(8, "c") + " | d"] * 10),
        "```\n" + "\n\n".join([words(8)] * 8) + "\n```",
        "> " + "\n> ".join([words(8)] * 8),
        "    " + "\n\n    ".join([words(8)] * 8),
        "<div>\n" + "\n".join([words(8)] * 8) + "\n</div>",
    ],
)
def test_a_block_within_the_cap_is_not_torn(block: str) -> None:
    content = f"{words(60)}\n\n{block}\n\n{words(60)}\n"
    cap = 110
    assert estimated_tokens(block) <= cap < estimated_tokens(block) + estimated_tokens(words(60))
    assert block in [passage.text for passage in split_passages(content, cap)]
    check(content, split_passages(content, cap), cap)


def test_a_list_over_the_cap_is_cut_between_its_items() -> None:
    item = f"- {words(15)}\n\n  {words(15)}\n  - nested\n"
    content = item * 6
    passages = split_passages(content, 100)
    check(content, passages, 100)
    assert len(passages) == 3
    assert all(passage.text.startswith("- word") and passage.text.endswith("- nested") for passage in passages)


def test_a_table_over_the_cap_is_cut_between_its_rows_and_its_head_stays_with_the_first() -> None:
    row = f"| {words(6)} | {words(6)} |"
    content = "| a | b |\n|---|---|\n" + "\n".join([row] * 20) + "\n"
    passages = split_passages(content, 60)
    check(content, passages, 60)
    assert passages[0].text.count("\n") >= 2
    assert all(passage.text.endswith("|") for passage in passages)


def test_a_fence_over_the_cap_is_cut_between_lines() -> None:
    content = "# A\n\n```\n" + "\n".join(words(8) for _ in range(30)) + "\n\n```\n\nafter\n"
    passages = split_passages(content, 80)
    check(content, passages, 80)
    assert passages[0].text.startswith("# A\n\n```\nword")


def test_a_line_over_the_cap_is_given_in_parts_the_first_under_its_heading() -> None:
    line = "One sentence of a paragraph on one line. " * 40
    content = f"# A\n\n{line}\n\nafter\n"
    passages = split_passages(content, 100)
    check(content, passages, 100)
    assert [(passage.start_line, passage.end_line) for passage in passages[:2]] == [(1, 3), (3, 3)]
    assert passages[-1].text == "after"
    assert all(passage.text.endswith("line. ") for passage in passages[:-1])


@pytest.mark.parametrize(
    "line", ["x" * 5000, "漢字" * 2000, "。" * 3000, "|" * 3000, "🙂" * 2000, "a" + " " * 5000 + "b"]
)
def test_a_line_without_words_is_cut_at_the_cap(line: str) -> None:
    content = f"{line}\n\nafter"
    passages = split_passages(content, 100)
    check(content, passages, 100)
    assert unspaced("".join(passage.text for passage in passages[:-1])) == unspaced(line)


def test_chinese_and_symbols_fill_a_passage_sooner_than_english() -> None:
    assert estimated_tokens("向量数据库" * 10) > 2.5 * estimated_tokens("words " * 8 + "xx")
    assert estimated_tokens("한국어") > estimated_tokens("abc")
    assert estimated_tokens("|-|-|-|-") > 2 * estimated_tokens("abcdefgh")
    assert estimated_tokens("") == 0


# --- any text


fragments = st.sampled_from(
    [
        "# Heading\n",
        "## Sub *heading*\n",
        "###### Deep\n",
        "#\n",
        "Under\n===\n",
        "Under\n---\n",
        "text\n",
        words(30) + "\n",
        words(200) + "\n",
        "漢字かな交じり文。" * 20 + "\n",
        "\n",
        "\n\n",
        "  \t\n",
        " " * 900 + "\n",
        "- item\n",
        "  - nested\n",
        "    continued\n",
        "1. first\n\n   para\n",
        "* * *\n",
        "---\n",
        "> quote\n",
        "> > deeper\n> - list\n",
        "```\n",
        "~~~~ py\n",
        "    code\n",
        "\tcode\n",
        "<!--\n",
        "-->\n",
        "<div>\n",
        "</div>\n",
        "a | b\n--|--\nc | d\n",
        "[x]: http://y\n",
        "- [ ] task\n",
        "\x0b\x0c\n",
        "\u2028x\u0085y\n",
        "[" * 50,
        "`",
        "\\",
        "\r",
        "\x00",
    ]
)
contents = st.lists(fragments | st.text(max_size=20), max_size=25).map("".join)


@settings(max_examples=300, deadline=None)
@example("# Heading\n" + " " * 900 + "\n" + "long " * 50, 20)
@example("Long heading " * 20 + "\n===\n\n" + "long " * 50, 20)
@given(contents, st.sampled_from([1, 5, 20, 60, DEFAULT_CAP]))
def test_passages_cover_every_line_in_order_without_overlap(content: str, cap: int) -> None:
    check(content, split_passages(content, cap), cap)


@settings(max_examples=100, deadline=None)
@given(contents)
def test_a_smaller_cap_cuts_passages_but_moves_no_section(content: str) -> None:
    starts = {passage.start_line: passage.section for passage in split_passages(content)}
    section: tuple[str, ...] = ()
    for part in split_passages(content, 30):
        section = starts.get(part.start_line, section)
        assert part.section == section


# --- hostile text


@pytest.mark.parametrize(
    "nested", ["> " * 60 + "deep\n", "- " * 60 + "deep\n", "".join("  " * n + "- x\n" for n in range(25))]
)
def test_headings_after_nesting_without_bounds_are_found(nested: str) -> None:
    content = f"# A\n\na\n\n{nested}\n```\n# comment\n```\n\n# B\n\nb\n"
    passages = split_passages(content)
    check(content, passages)
    assert [section for section, _, _ in outline(content)] == [("A",), ("B",)]


HOSTILE: dict[str, Callable[[int], str]] = {
    "brackets": lambda n: "[" * n,
    "backticks": lambda n: "`" * n,
    "stars": lambda n: "*" * n,
    "quote marks": lambda n: ">" * n,
    "quotes in quotes": lambda n: (">" * 40 + "a\n") * (n // 42),
    "lists in lists": lambda n: "- " * (n // 2),
    "numbers in numbers": lambda n: "1. " * (n // 3),
    "staircase": lambda n: "".join("  " * step + "- a\n" for step in range(int(n**0.5))),
    "short paragraph lines": lambda n: "a\n" * (n // 8),
    "short items": lambda n: "- a\n" * (n // 8),
    "short loose items": lambda n: "- a\n\n" * (n // 8),
    "lazy quote": lambda n: "> " * 15 + "a\n" + "b\n" * (n // 16),
    "changing bullets": lambda n: "* a\n- a\n" * (n // 16),
    "fences": lambda n: "```\n" * (n // 8),
    "rules": lambda n: "---\n" * (n // 8),
    "headings": lambda n: "# a\n" * (n // 8),
    "underlines": lambda n: "a\n=\n" * (n // 16),
    "comments": lambda n: "<!--\n\n" * (n // 8),
    "tags": lambda n: "<a\n" * (n // 8),
    "less-than": lambda n: "<" * n,
    "ampersands": lambda n: "&" * n,
    "bars": lambda n: "|" * (n // 2) + "\n" + "|-" * (n // 4) + "|\n|a\n",
    "rows": lambda n: "a|b\n-|-\n" + "|\n" * (n // 8),
    "spaces": lambda n: " " * n + "a",
    "tabs": lambda n: "\t" * n + "a",
    "definitions": lambda n: "[a]: b\n" * (n // 8),
    "hashes": lambda n: "# " + "#" * n,
    "hashes with spaces": lambda n: "# " + " #" * (n // 2),
    "blank lines": lambda n: "- \n" + "\n" * n + "a",
    "one long heading": lambda n: "a" * n + "\n=\n\n" + "b\n\n" * (n // 16),
    "one long word": lambda n: "a" * n,
    "carriage returns": lambda n: "\r" * n,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_time_grows_no_faster_than_the_text(kind: str) -> None:
    assert not grows_too_fast(split_passages, HOSTILE[kind], 8_000)


@pytest.mark.parametrize("line", ["- a\n", "# h\n\nx\n"])
def test_very_long_text_is_cut_by_headings_and_blank_lines_in_reasonable_time(line: str) -> None:
    content = line * (1_200_000 // len(line))
    began = time.thread_time()
    passages = split_passages(content)
    assert time.thread_time() - began < 20
    assert passages[-1].end_line >= content.count("\n") - 1


# --- real files


@pytest.mark.corpora
def test_real_pages_are_cut_within_the_cap_and_in_little_time(corpora: Path, tmp_path: Path) -> None:
    with tarfile.open(corpora / "tldr-six-languages.tar.gz") as pages:
        pages.extractall(tmp_path, filter="data")
    contents = [parse_document(path.read_bytes()).content for path in sorted(tmp_path.rglob("*.md"))[::20]]
    began = time.thread_time()
    cut = [split_passages(content) for content in contents]
    per_page = (time.thread_time() - began) / len(contents)
    for content, passages in zip(contents, cut, strict=True):
        check(content, passages)
    assert per_page < 0.002  # 0.25 ms on an idle machine
