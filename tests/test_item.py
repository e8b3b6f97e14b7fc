"""Reading and editing single documents: `kbgit.item`, `kbgit.frontmatter`, `kbgit.header_edit`."""

from __future__ import annotations

import os
import subprocess
import tarfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kbgit import frontmatter
from kbgit.errors import DocumentProblem
from kbgit.frontmatter import DEEPEST, LONGEST_HEADER, MOST_NODES
from kbgit.item import (
    Document,
    ItemStatus,
    edit_document,
    first_heading,
    heading_text,
    item_id,
    parse_document,
    title_of,
)
from tests.growth import grows_too_fast, repeated, seconds


def with_header(header: str, body: str = "Body.\n") -> bytes:
    return f"---\n{header}\n---\n{body}".encode()


def problem_of(raw: bytes) -> DocumentProblem:
    with pytest.raises(DocumentProblem) as caught:
        parse_document(raw)
    return caught.value


def problem_of_header(header: str) -> DocumentProblem:
    return problem_of(with_header(header))


# --- what a document says


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


# --- what is refused, with place and mend


@pytest.mark.parametrize(
    ("header", "line", "column", "mend"),
    [
        ("title: Release: plan", 2, 15, 'write title: "Release: plan"'),
        ("id: x\ntitle: *Bold*", 3, None, 'write title: "*Bold*"'),
        ("title: *alias", 2, 8, 'write title: "*alias"'),
        ("see:\n- [[Link]]tail\nx: y", 3, None, 'write - "[[Link]]tail"'),
        ("path: `C:\\x:y`", 2, 7, "write path: '`C:\\x:y`'"),
        ('path: "C:\\x:y"', 2, 7, "write path: 'C:\\x:y'"),
        ("title: [Draft] foo", 2, None, 'write title: "[Draft] foo"'),
        ("title: 'it's'", 2, None, 'write title: "it\'s"'),
        ("title: @home", 2, 8, 'write title: "@home"'),
        ("title: - foo", 2, None, 'write title: "- foo"'),
        ("title: !important x", 2, 8, 'write title: "!important x"'),
        ("title: &a x", 2, 8, 'write title: "&a x"'),
        ("x: [a\ny: b", 2, None, 'write x: "[a"'),
    ],
)
def test_what_yaml_cannot_read_is_refused_with_the_form_that_it_can(
    header: str, line: int, column: int | None, mend: str
) -> None:
    problem = problem_of_header(header)
    assert (problem.line, problem.mend) == (line, mend)
    assert column is None or problem.column == column
    mended = header.split("\n")
    mended[line - 2] = mend.removeprefix("write ")
    parse_document(with_header("\n".join(mended)))


def test_duplicate_keys_are_refused_with_both_lines() -> None:
    problem = problem_of_header("id: a\ntitle: x\nid: b")
    assert problem.line == 4
    assert problem.what == "duplicate key `id`, lines 2 and 4"
    assert problem_of_header("x:\n  a: 1\n  a: 2").what == "duplicate key `a`, lines 3 and 4"


@pytest.mark.parametrize(
    ("header", "line", "named"),
    [
        ("tags:\n\t- a", 3, "tab"),
        ("a: b\nx: y\n \tz: 1", 4, "tab"),
        ("a: &anchor b", 2, "anchor"),
        ("a: &anchor [b]", 2, "anchor"),
        ("a: [*x]", 2, "alias"),
        ("a: !!int 3", 2, "tag"),
        ("a: !x {b: c}", 2, "tag"),
        ("a: !!python/object:os.system {}", 2, "tag"),
        ("<<: {a: b}", 2, "merge"),
        ("? [a, b]\n: c", 2, "key"),
        (": c", 2, "key"),
        ('a: "\\0"', 2, "NUL"),
        ("a: b\x1bc", 2, "U+001B"),
        ("a: b\u2028c", 2, "U+2028"),
        ("a: b\u0085c", 2, "U+0085"),
        ("a: b\ufeffc", 2, "U+FEFF"),
        ("just text", 2, "key: value"),
        ("- a\n- b", 2, "key: value"),
        ("# only a comment", 2, "key: value"),
        ("{a: b}\n--- c", 3, "document"),
        ('a: "\\ud800"', 2, "escape"),
        ("a: {b", 2, "unreadable"),
        ("a: 'b\nc: d", 2, "unreadable"),
    ],
)
def test_yaml_beyond_plain_fields_is_refused_on_its_line(header: str, line: int, named: str) -> None:
    problem = problem_of_header(header)
    assert problem.line == line
    assert named in problem.message


def test_depth_size_and_count_are_bounded() -> None:
    fits = "a: " + "[" * (DEEPEST - 1) + "]" * (DEEPEST - 1)
    assert parse_document(with_header(fits))
    assert "deeper" in problem_of_header("a: " + "[" * DEEPEST + "]" * DEEPEST).what
    assert "deeper" in problem_of_header("a: " + "[" * 60_000).what
    assert parse_document(with_header("a: [" + "b," * (MOST_NODES - 2) + "]"))
    assert "more than" in problem_of_header("a: [" + "b," * (MOST_NODES - 1) + "]").what
    assert parse_document(with_header("a: " + "b" * (LONGEST_HEADER - 4)))
    assert "KiB" in problem_of_header("a: " + "b" * (LONGEST_HEADER - 3)).what
    assert "KiB" in problem_of_header("a: " + "é" * (LONGEST_HEADER // 2)).what


def test_an_alias_chain_is_refused_in_no_time() -> None:
    chain = "a0: &a0 [x, x]\n" + "\n".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40))
    assert "anchor" in problem_of_header(chain).what
    assert min(seconds(partial(_parsed, with_header), chain) for _ in range(3)) < 0.05


# --- fences, encodings, line ends


VARIANTS: dict[str, Callable[[str], bytes]] = {
    "LF": lambda text: text.encode(),
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "CR": lambda text: text.replace("\n", "\r").encode(),
    "BOM": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "BOM and CRLF": lambda text: b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode(),
    "mixed": lambda text: text.replace("\n", "\r\n", 2).encode(),
    "trailing spaces": lambda text: text.replace("---\n", "--- \t\n").encode(),
    "closed with dots": lambda text: text.replace("\n---\n", "\n...\n").encode(),
}
SAMPLE = "---\nid: a\ntitle: Ä b\ntags:\n- x\n- y\ntext: |\n  one\n  two\n---\n# Body\n\nmore\n"


@pytest.mark.parametrize("variant", VARIANTS)
def test_line_ends_and_byte_order_mark_make_no_difference(variant: str) -> None:
    assert parse_document(VARIANTS[variant](SAMPLE)) == parse_document(SAMPLE.encode())


@pytest.mark.parametrize(
    "text",
    [
        "text\n\n---\n\ntitle: x\n\n---\n\nmore\n",
        "# T\n\n```yaml\n---\na: b\n---\n```\n",
        "\n---\ntitle: x\n---\n",
        " ---\ntitle: x\n---\n",
        "----\ntitle: x\n----\n",
        "---title: x\n---\n",
        "---\n\nA rule, then text.\n",
        "---\n\nA rule, then text, then a rule.\n\n---\n\nmore\n",
        "---\n\n# A rule, then a heading\n",
        "---\n\n- a list\n",
        "---\n",
        "---",
        "---\n\n\n",
    ],
)
def test_what_is_not_a_closed_header_on_the_first_line_stays_text(text: str) -> None:
    document = parse_document(text.encode())
    assert document.content == text
    assert document.fields == {}


@pytest.mark.parametrize(
    "text", ["---\ntitle: x\nbody\n", "---\ntitle: x", "---\n\nid: x\n\n# Heading\n", "---\ntext\n"]
)
def test_a_header_that_is_not_closed_is_an_error_and_loses_no_text(text: str) -> None:
    problem = problem_of(text.encode())
    assert problem.line == 1
    assert "not closed" in problem.what
    assert "***" in problem.mend


@pytest.mark.parametrize(
    "text", ["---\n\n# Heading\n\n---\n", "---\n# Heading\n---\n", "---\n# Heading\n\ntext\n\n---\n"]
)
def test_a_heading_between_rules_is_not_swallowed_as_a_comment(text: str) -> None:
    assert "***" in problem_of(text.encode()).mend


def test_an_empty_header_is_a_header() -> None:
    assert parse_document(b"---\n---\nx").content == "x"
    assert parse_document(b"---\n\n---\nx").body_line == 4


def test_the_body_keeps_its_own_rules_and_second_headers() -> None:
    assert parse_document(b"---\na: b\n---\n---\nc: d\n---\n").content == "---\nc: d\n---\n"


@pytest.mark.parametrize(
    ("raw", "line", "offset", "mend"),
    [
        (b"# caf\xe9\n", 1, 5, "UTF-8"),
        (b"a\r\nb\rc\n\x80", 4, 7, "UTF-8"),
        ("a".encode("utf-16"), 1, 0, "UTF-16"),
        (b"a\n\xed\xa0\x80", 2, 2, "surrogate"),
    ],
)
def test_what_is_not_utf8_is_refused_with_its_place(raw: bytes, line: int, offset: int, mend: str) -> None:
    problem = problem_of(raw)
    assert problem.line == line
    assert f"at offset {offset}" in problem.what
    assert mend in problem.mend


def test_a_nul_is_refused_wherever_it_is() -> None:
    assert problem_of(b"---\na: b\n---\nc\n d\x00\n").details["line"] == 5
    assert problem_of(b"---\na: \x00\n---\n").line == 2


CONFLICT = "<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> branch\n"


@pytest.mark.parametrize("before", ["", "# T\n\ntext\n", "---\ntitle: x\n"])
def test_an_unresolved_merge_is_refused(before: str) -> None:
    problem = problem_of((before + CONFLICT).encode())
    assert problem.line == before.count("\n") + 1
    assert "merge conflict" in problem.what


@pytest.mark.parametrize(
    "text",
    [
        f"```\n{CONFLICT}```\n",
        "<<<<<<< HEAD\nours\n",
        "Title\n=======\n\n>>>>>>> quoted seven times\n",
        "=======\n>>>>>>> b\n<<<<<<< a\n",
        "text <<<<<<< HEAD\n=======\n>>>>>>> x\n",
    ],
)
def test_what_only_resembles_a_merge_is_text(text: str) -> None:
    assert parse_document(text.encode()).content == text


# --- one parser, whichever YAML library


@pytest.mark.parametrize(
    "header", ["a: [b, {c: d}]\ne: |\n  x\n\nf: 'g'", "title: Release: plan", "a: *b", "a: &b c", "a:\n- b"]
)
def test_the_pure_parser_agrees_with_libyaml(header: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def outcome() -> Document | tuple[int, int | None, str]:
        try:
            return parse_document(with_header(header))
        except DocumentProblem as problem:
            return problem.line, problem.column, problem.mend

    fast = outcome()
    monkeypatch.setattr(frontmatter, "_EVENT_PARSER", yaml.BaseLoader)
    assert outcome() == fast


@settings(deadline=None)
@given(
    st.binary(max_size=200)
    | st.text("-: \n#'\"[]{}&*!|>%@`\tab\\~?,.", max_size=80).map(lambda text: with_header(text))
)
def test_any_bytes_give_a_document_or_a_problem_with_its_place(raw: bytes) -> None:
    try:
        document = parse_document(raw)
    except DocumentProblem as problem:
        place = (problem.line, problem.column or 1)
        assert min(place) >= 1
    else:
        lines = raw.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n")
        assert "\n".join(lines[document.body_line - 1 :]).lstrip("\ufeff") == document.content


OWN_FIELDS = ("id", "title", "status", "tags", "description", "<<")


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


def _yaml(fields: object, style: str | None, flow: bool | None, unicode: bool = False) -> str:
    text: str = yaml.dump(fields, Dumper=_Dumper, default_style=style, default_flow_style=flow, allow_unicode=unicode)
    return text.replace("!!str ", "").replace("!!map ", "").replace("!!seq ", "")


words = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=12)
trees = st.recursive(
    words, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words.filter(bool), inner, max_size=3)
)


@settings(deadline=None)
@given(
    st.dictionaries(words.filter(lambda key: key not in ("", "<<")), trees, min_size=1, max_size=5),
    st.sampled_from([None, "'", '"', "|", ">"]),
    st.sampled_from([None, True, False]),
    st.booleans(),
)
def test_text_that_yaml_writes_in_any_style_is_read_as_it_was(
    fields: dict[str, object], style: str | None, flow: bool | None, unicode: bool
) -> None:
    header = _yaml(fields, style, flow, unicode)
    try:
        read = frontmatter.read_header(header).fields
    except DocumentProblem as problem:
        assume("deeper" not in problem.what and "U+" not in problem.what)
        raise
    assert read == yaml.load(header, Loader=yaml.BaseLoader)


# --- editing


EDITED = """---
# about this item
title: 'Old title'  # keep me
id:   item_1
tags:   # ours
  - "a"
  # about b
  - b
flow: [x,  "y", z]  # brackets
weight: 10
text: |
  one

  two

# before empty
empty:   # nothing yet
status: draft
---
# Body [[a]]

text\t \n"""


def changed_lines(old: bytes, new: bytes) -> tuple[list[bytes], list[bytes]]:
    """Lines of `old` that went, and lines of `new` that came."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    while before and after and before[0] == after[0]:
        del before[0], after[0]
    while before and after and before[-1] == after[-1]:
        del before[-1], after[-1]
    return before, after


@pytest.mark.parametrize("variant", ["LF", "CRLF", "BOM", "BOM and CRLF"])
@pytest.mark.parametrize(
    ("field", "value", "old", "new"),
    [
        ("title", "New: title", "title: 'Old title'  # keep me", "title: 'New: title'  # keep me"),
        ("title", "it's", "title: 'Old title'  # keep me", "title: 'it''s'  # keep me"),
        ("id", "item_2", "id:   item_1", "id:   item_2"),
        ("status", "published", "status: draft", "status: published"),
        ("weight", "20", "weight: 10", "weight: 20"),
        ("weight", "-2.5", "weight: 10", "weight: -2.5"),
        ("weight", "2026-12-01 10:30:00", "weight: 10", "weight: 2026-12-01 10:30:00"),
        ("weight", "ten", "weight: 10", "weight: ten"),
        ("weight", "10: x", "weight: 10", 'weight: "10: x"'),
        ("empty", "value", "empty:   # nothing yet", "empty: value   # nothing yet"),
        ("empty", None, "empty:   # nothing yet", ""),
        ("flow", ["x", "y", "new"], 'flow: [x,  "y", z]  # brackets', 'flow: [x, "y", new]  # brackets'),
        ("flow", "text", 'flow: [x,  "y", z]  # brackets', "flow: text  # brackets"),
        ("tags", ["a", "b", "c, d"], "", '  - "c, d"'),
        ("tags", ["a", "c"], "  # about b|  - b", "  - c"),
        ("tags", [], '  - "a"|  # about b|  - b', ""),
        ("text", None, "text: ||  one||  two", ""),
        ("fresh", "no", "", 'fresh: "no"'),
        ("fresh", ["a", "2026-05-26", "b, c"], "", 'fresh: [a, "2026-05-26", "b, c"]'),
        ("a: key", "v", "", '"a: key": v'),
        ("title", "Old title", "", ""),
        ("tags", ["a", "b"], "", ""),
        ("missing", None, "", ""),
    ],
)
def test_a_change_of_one_field_is_a_difference_of_its_line(
    variant: str, field: str, value: str | list[str] | None, old: str, new: str
) -> None:
    raw = VARIANTS[variant](EDITED)
    edited = edit_document(raw, {field: value})
    went, came = changed_lines(raw, edited)
    end = b"\r\n" if "CRLF" in variant else b"\n"
    if (field, value) == ("tags", []):
        assert came == [b"tags: []   # ours" + end]
        return
    if field == "text":
        assert b"two" not in edited
        assert came == []
        return
    assert b"".join(went) == b"".join(line.encode() + end for line in old.split("|") if line)
    assert b"".join(came) == b"".join(line.encode() + end for line in new.split("|") if line)


def test_a_header_is_made_where_there_is_none_and_saved_again_as_the_same_one() -> None:
    raw = edit_document(b"# Body\r\n", {"title": "x"})
    assert raw == b"---\r\ntitle: x\r\n---\r\n# Body\r\n"
    for title in ("y", "z", "y"):
        raw = edit_document(raw, {"title": title})
    assert raw == b"---\r\ntitle: y\r\n---\r\n# Body\r\n"
    assert edit_document(b"", {"title": "x"}) == b"---\ntitle: x\n---\n"
    assert edit_document(b"\xef\xbb\xbfx", {"a": "b"}) == b"\xef\xbb\xbf---\na: b\n---\nx"
    assert edit_document(b"x", {"a": None}) == b"x"


def test_content_is_replaced_in_the_line_ends_of_the_file() -> None:
    raw = b"---\r\ntitle: x  # c\r\n---\r\nold\r\n"
    assert edit_document(raw, {}, "new\nbody\n") == b"---\r\ntitle: x  # c\r\n---\r\nnew\r\nbody\r\n"
    mixed = b"---\ntitle: x\n---\na\r\nb\nc\r"
    assert edit_document(mixed, {"title": "y"}, "a\nb\nc\n") == mixed.replace(b"title: x", b"title: y")
    assert edit_document(b"---\ntitle: x\n---", {}, "new") == b"---\ntitle: x\n---\nnew"


def test_content_that_looks_like_a_header_stays_content() -> None:
    content = "---\nstatus: published\n---\nx"
    assert parse_document(edit_document(b"", {}, content)).content == content
    assert parse_document(edit_document(b"---\na: b\n---\n", {"a": None}, content)).content == content


@pytest.mark.parametrize(
    ("raw", "fields", "content"),
    [
        (with_header("title: Release: plan"), {"title": "x"}, None),
        (b"---\ntitle: x\nno end\n", {"title": "y"}, None),
        (b"\xff", {"title": "y"}, None),
        (with_header("{title: x, id: y}"), {"title": None}, None),
        (with_header("{title: x, id: y}"), {"new": "z"}, None),
        (with_header("title: x"), {"status": "live"}, None),
        (with_header("title: x"), {"id": "a/b"}, None),
        (with_header("title: x"), {"title": "\ud800"}, None),
        (with_header("title: x"), {"title": "\x00"}, None),
        (with_header("title: x"), {}, CONFLICT),
        (with_header("title: x"), {}, "a\x00"),
        (with_header("# c\ntitle: x"), {"title": None}, None),
    ],
)
def test_what_would_not_read_back_is_not_written(
    raw: bytes, fields: dict[str, str | None], content: str | None
) -> None:
    with pytest.raises(DocumentProblem):
        edit_document(raw, fields, content)


def test_a_wrong_field_can_be_mended_by_an_edit() -> None:
    assert parse_document(edit_document(with_header("status: live"), {"status": "draft"})).status is ItemStatus.DRAFT


texts = (
    st.text(max_size=30) | st.text("-: #'\"[]{}&*!|>%@`\t\nab\\~,.", max_size=12) | st.sampled_from(["no", "1.10", "~"])
)
keys = st.text("abc_-", min_size=1, max_size=4) | st.text(min_size=1, max_size=8)
names = st.sampled_from(["title", "tags", "flow", "weight", "text", "empty", "fresh", "other"]) | keys
values = st.none() | texts | st.lists(texts, max_size=4)
harmless = st.dictionaries(names, values, max_size=3)


def is_storable(value: str | list[str] | None) -> bool:
    return not any(one == "\x00" or "\ud800" <= one <= "\udfff" for one in "".join(value or ""))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(VARIANTS)), harmless)
def test_an_edit_reads_back_as_exactly_the_change(variant: str, changes: dict[str, str | list[str] | None]) -> None:
    assume(all(is_storable(key) and is_storable(value) for key, value in changes.items()))
    assume("id" not in changes and "status" not in changes and "description" not in changes and "<<" not in changes)
    assume(isinstance(changes.get("title", ""), str | None))
    raw = VARIANTS[variant](EDITED)
    edited = edit_document(raw, changes)
    expected = {**parse_document(raw).fields, **changes}
    document = parse_document(edited)
    assert document.fields == {key: value for key, value in expected.items() if value is not None}
    assert document.content == parse_document(raw).content
    assert edited.endswith(raw[raw.index(b"# Body") :])
    assert edited[:3] == raw[:3]
    assert edit_document(edited, changes) == edited
    for line in (b"id:   item_1", b"# before empty", b"# about this item"):
        assert line in edited


@settings(deadline=None)
@given(
    st.dictionaries(words.filter(lambda key: key != "" and key not in OWN_FIELDS), trees, min_size=1, max_size=4),
    st.sampled_from([None, "'", '"', "|", ">"]),
    st.sampled_from([None, False]),
    values.filter(is_storable),
    st.data(),
)
def test_an_edit_of_any_header_leaves_the_lines_of_other_fields_alone(
    fields: dict[str, object], style: str | None, flow: bool | None, value: str | list[str] | None, data: st.DataObject
) -> None:
    header = _yaml(fields, style, flow)
    raw = f"---\n{header}---\nbody\n".encode()
    try:
        before = parse_document(raw)
    except DocumentProblem:
        assume(False)
    key = data.draw(st.sampled_from(sorted(before.fields)))
    try:
        edited = edit_document(raw, {key: value})
    except DocumentProblem as problem:
        assume("field by field" not in problem.what)
        raise
    wanted = {**before.fields, key: value}
    assert parse_document(edited).fields == {name: one for name, one in wanted.items() if one is not None}
    old, new = raw.decode().split("\n"), edited.decode().split("\n")
    first = before.field_lines[key]
    last = min((line for line in before.field_lines.values() if line > first), default=len(old) - 2)
    assert new[: first - 1] == old[: first - 1]
    assert new[len(new) - len(old[last - 1 :]) :] == old[last - 1 :]


def test_a_key_on_its_own_line_is_edited_into_an_ordinary_one() -> None:
    assert edit_document(b"---\n? a b\n: - c\nd: e\n---\n", {"a b": "f"}) == b"---\na b: f\nd: e\n---\n"


@settings(deadline=None)
@given(texts)
def test_text_that_is_written_without_quotes_is_text_to_every_reader(text: str) -> None:
    assume(is_storable(text))
    edited = edit_document(b"", {"fresh": text, "list": [text]})
    header = edited.decode().removeprefix("---\n").removesuffix("\n---\n")
    assert yaml.safe_load(header) == {"fresh": text, "list": [text]}


# --- time


def test_parsing_is_linear_in_hostile_input() -> None:
    for one in (
        "[",
        "`",
        "*",
        "<",
        "&",
        "|",
        "~",
        "_",
        "#",
        "- ",
        "> ",
        "\\",
        "!",
        '"',
        "<<<<<<< \n",
        "# #",
        "*a ",
        "<!--\n",
        "a\n",
    ):
        for document in (
            lambda text: text.encode(),
            lambda text: with_header(f"a: {text}"),
            lambda text: f"# {text}".encode(),
        ):
            assert not grows_too_fast(partial(_parsed, document), repeated(one), 50_000)


def _parsed(document: Callable[[str], bytes], text: str) -> None:
    with suppress(DocumentProblem):
        parse_document(document(text))


# --- real files


@pytest.mark.corpora
def test_real_headers_survive_an_edit_byte_for_byte(tmp_path: Path) -> None:
    corpora = os.environ.get("KBGIT_CORPORA")
    if not corpora:
        pytest.skip("KBGIT_CORPORA names no directory of real corpora")
    with tarfile.open(Path(corpora) / "okf-bundles.tar.gz") as bundles:
        bundles.extractall(tmp_path / "okf", filter="data")
    bundle = str(Path(corpora) / "prometheus-runbooks.bundle")
    subprocess.run(["git", "clone", "-q", bundle, str(tmp_path / "runbooks")], check=True)
    problems, edits = [], 0
    for path in sorted(tmp_path.rglob("*.md")):
        raw = path.read_bytes()
        try:
            document = parse_document(raw)
        except DocumentProblem as problem:
            problems.append((path.name, problem.line))
            continue
        for key in document.fields:
            without = edit_document(raw, {key: None}) if len(document.fields) > 1 else raw
            assert parse_document(without).content == document.content
            edits += 1
        went, came = changed_lines(raw, edit_document(raw, {"kbgit_test": "x: y"}))
        assert b"".join(came).endswith(b'kbgit_test: "x: y"\n') or b"---\n" in came
        assert not went
    assert problems == [("default.md", 2)]  # a Hugo template, which is no YAML
    assert edits > 500
