"""Editing single documents: `kbgit.item.edit_document`, and what `kbgit.header_edit` does for it."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kbgit.errors import DocumentProblem
from kbgit.item import ItemStatus, edit_document, parse_document
from tests.headers import CONFLICT, TREES, VARIANTS, WORDS, as_yaml, with_header

OWN_FIELDS = ("id", "title", "status", "tags", "description", "<<")
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
    st.dictionaries(WORDS.filter(lambda key: key != "" and key not in OWN_FIELDS), TREES, min_size=1, max_size=4),
    st.sampled_from([None, "'", '"', "|", ">"]),
    st.sampled_from([None, False]),
    values.filter(is_storable),
    st.data(),
)
def test_an_edit_of_any_header_leaves_the_lines_of_other_fields_alone(
    fields: dict[str, object], style: str | None, flow: bool | None, value: str | list[str] | None, data: st.DataObject
) -> None:
    header = as_yaml(fields, style, flow)
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


# --- real files


@pytest.mark.corpora
def test_real_headers_survive_an_edit_byte_for_byte(corpora: Path, tmp_path: Path) -> None:
    with tarfile.open(corpora / "okf-bundles.tar.gz") as bundles:
        bundles.extractall(tmp_path / "okf", filter="data")
    bundle = str(corpora / "prometheus-runbooks.bundle")
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
