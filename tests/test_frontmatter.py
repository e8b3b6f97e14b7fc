"""Reading front matter: `kbgit.frontmatter`, as documents are read with it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kbgit import frontmatter
from kbgit.errors import DocumentProblem
from kbgit.frontmatter import DEEPEST, LONGEST_HEADER, MOST_NODES
from kbgit.item import Document, parse_document
from tests.growth import HOSTILE_SIGNS, grows_too_fast, repeated, seconds
from tests.headers import CONFLICT, TREES, VARIANTS, WORDS, as_yaml, problem_of, problem_of_header, with_header

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


@settings(deadline=None)
@given(
    st.dictionaries(WORDS.filter(lambda key: key not in ("", "<<")), TREES, min_size=1, max_size=5),
    st.sampled_from([None, "'", '"', "|", ">"]),
    st.sampled_from([None, True, False]),
    st.booleans(),
)
def test_text_that_yaml_writes_in_any_style_is_read_as_it_was(
    fields: dict[str, object], style: str | None, flow: bool | None, unicode: bool
) -> None:
    header = as_yaml(fields, style, flow, unicode)
    try:
        read = frontmatter.read_header(header).fields
    except DocumentProblem as problem:
        assume("deeper" not in problem.what and "U+" not in problem.what)
        raise
    assert read == yaml.load(header, Loader=yaml.BaseLoader)


# --- time


def test_parsing_is_linear_in_hostile_input() -> None:
    for one in (
        *HOSTILE_SIGNS,
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
