"""What a document says: `kbgit.item`. Front matter is tested in `test_frontmatter.py`, editing in `test_item_edits.py`."""

from __future__ import annotations

import pytest

from kbgit.item import ItemStatus, first_heading, heading_text, item_id, parse_document, title_of
from tests.headers import problem_of_header, with_header


def test_a_document_gives_its_fields_and_its_content() -> None:
    document = parse_document(
        b"---\nid: item_deploy\ntitle: Production deployment\nstatus: published\ntags: [deploy, ops]\n"
        b"description: How we ship.\nowner: platform\nsources:\n  - url: https://example.org\n---\n\n# Steps\n"
    )
    assert document.explicit_id == "item_deploy"
    assert document.title == "Production deployment"
    assert document.status is ItemStatus.PUBLISHED
    assert document.tags == ("deploy", "ops")
    assert document.description == "How we ship."
    assert document.metadata == {"owner": "platform", "sources": [{"url": "https://example.org"}]}
    assert document.content == "\n# Steps\n"
    assert document.body_line == 11
    assert document.field_lines["owner"] == 7


def test_a_file_without_front_matter_is_a_document() -> None:
    document = parse_document(b"# Title\n\ntext\n")
    assert (document.title, document.content, document.body_line) == ("Title", "# Title\n\ntext\n", 1)
    assert (document.fields, document.status, document.explicit_id, document.tags) == ({}, None, None, ())


def test_an_empty_file_is_a_document() -> None:
    assert parse_document(b"").content == ""
    assert title_of(parse_document(b""), "notes/Empty page.md") == "Empty page"


def test_the_content_hash_is_of_the_canonical_content() -> None:
    known = "sha256:" + "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"  # of "hello"
    assert parse_document(b"hello").content_hash == known
    assert parse_document(b"---\ntitle: x\n---\nhello").content_hash == known
    lines = {parse_document(raw).content_hash for raw in (b"a\nb\n", b"a\r\nb\r\n", b"a\rb\r", b"\xef\xbb\xbfa\nb\n")}
    assert len(lines) == 1


@pytest.mark.parametrize(
    "typed", ["2026-05-26", "26", "no", "0123", "1.10", "12:30", "~", "null", "true", "0x1F", "1e3", ".inf", "=", "C#"]
)
def test_text_stays_exactly_as_typed(typed: str) -> None:
    document = parse_document(with_header(f"title: {typed}\nweight: {typed}\nlist: [{typed}]"))
    assert document.title == typed
    assert document.metadata == {"weight": typed, "list": [typed]}


def test_2024_02_30_is_text_like_any_other() -> None:
    assert parse_document(with_header("due: 2024-02-30")).metadata == {"due": "2024-02-30"}


@pytest.mark.parametrize(
    "nothing", ["status:", "tags:", "tags: null", "id:", "id: ~", "title:", "description:", "x: y"]
)
def test_what_is_empty_is_not_given(nothing: str) -> None:
    document = parse_document(with_header(nothing, "# Heading\n"))
    assert (document.status, document.tags, document.explicit_id) == (None, (), None)
    assert (document.title, document.description) == ("Heading", "")


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("draft", ItemStatus.DRAFT),
        ("published", ItemStatus.PUBLISHED),
        ("archived", ItemStatus.ARCHIVED),
        ("stable", ItemStatus.PUBLISHED),
        ("deprecated", ItemStatus.ARCHIVED),
        ("'draft'", ItemStatus.DRAFT),
    ],
)
def test_statuses_have_the_words_of_kbgit_and_of_okf(word: str, status: ItemStatus) -> None:
    assert parse_document(with_header(f"status: {word}")).status is status


@pytest.mark.parametrize(
    ("written", "tags"),
    [
        ("[a, b]", ("a", "b")),
        ("\n- a\n- 'b, c'", ("a", "b, c")),
        ("a, b", ("a", "b")),
        ("one", ("one",)),
        ("[]", ()),
        ("[a, a, '']", ("a",)),
        ("[2024, no]", ("2024", "no")),
    ],
)
def test_tags_are_a_list_or_words_between_commas(written: str, tags: tuple[str, ...]) -> None:
    assert parse_document(with_header(f"tags: {written}")).tags == tags


def test_a_title_over_several_lines_becomes_one_line() -> None:
    assert parse_document(with_header("title: |\n  One\n  two")).title == "One two"


def test_ids_come_from_the_header_or_from_the_path_in_nfc() -> None:
    assert item_id(parse_document(with_header("id: item_1.a-b")), "base", "x.md") == "item_1.a-b"
    decomposed = "cafe\u0301/menu.md"
    assert item_id(parse_document(b"x"), "base", decomposed) == "base/caf\u00e9/menu"


@pytest.mark.parametrize("wrong", ["a/b", "-a", ".a", "a b", "é", "a" * 129, "a@b", "'a\n\n  b'"])
def test_an_id_with_forbidden_characters_is_refused_on_its_line(wrong: str) -> None:
    problem = problem_of_header(f"title: x\nid: {wrong}")
    assert (problem.line, problem.column) == (3, 5)
    assert "letters, digits" in problem.mend


def test_an_unknown_status_is_refused_with_the_word_that_was_meant() -> None:
    problem = problem_of_header("title: x\nstatus: Published")
    assert (problem.line, problem.mend) == (3, "write status: published")
    assert "draft, published or archived" in problem_of_header("status: live").mend


@pytest.mark.parametrize(
    "field", ["title: {a: b}", "title: [a]", "status: [draft]", "id: {}", "tags: {a: b}", "tags: [[a]]"]
)
def test_a_field_of_the_wrong_shape_is_refused_on_its_line(field: str) -> None:
    assert problem_of_header(f"x: y\n{field}").line == 3


# --- headings as titles


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("# One\n", "One"),
        ("text\n\n## Two ##\n", "Two"),
        ("Three\n=====\n", "Three"),
        ("Four\nlines\n---\n", "Four lines"),
        ("```\n# comment\n```\n# Real\n", "Real"),
        ("~~~ sh\n# a\n```\n~~~\n# Real\n", "Real"),
        ("<!--\n# hidden\n-->\n# Real\n", "Real"),
        ("<!-- one line -->\n# Real\n", "Real"),
        ("    # code\n\n# Real\n", "Real"),
        ("- item\n---\n# Real\n", "Real"),
        ("> quote\n---\n# Real\n", "Real"),
        ("- item\nlazy\n---\n# Real\n", "Real"),
        ("#hashtag\n# Real\n", "Real"),
        ("#\n# Real\n", "Real"),
        ("---\n\n# Real\n", "Real"),
        ("# C#\n", "C#"),
        ("# `kbgit serve` and **bold** [link](http://x)\n", "kbgit serve and bold link"),
        ("no heading\n", None),
        ("```\n# never closed\n", None),
        ("", None),
    ],
)
def test_the_first_heading_is_the_title(content: str, title: str | None) -> None:
    assert first_heading(content) == title


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("snake_case_name and get_x", "snake_case_name and get_x"),
        ("*a* **b** ***c*** _d_ __e__ ~~f~~", "a b c d e f"),
        ("`` a`b `` `*x*`", "a`b *x*"),
        (r"\*not\* \`code\`", "*not* `code`"),
        ("[![badge](i.svg)](l) [ref][1] [x]", "badge ref [x]"),
        ("<https://example.org> <b>bold</b> vector<int>", "https://example.org bold vector<int>"),
        ("R&amp;D &lt;x&gt; `&amp;`", "R&D <x> &amp;"),
        ("2 * 3 * 4", "2 * 3 * 4"),
        ("a\n  b", "a b"),
        ("[" * 100, "[" * 100),
    ],
)
def test_inline_markup_is_taken_off_headings(markdown: str, text: str) -> None:
    assert heading_text(markdown) == text
