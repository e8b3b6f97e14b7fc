"""Any text, wherever texts come in: what is written reads back, what cannot be is refused by a typed error."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbgit.base import BaseKey, BaseSettings
from kbgit.citation import Citation
from kbgit.errors import KbgitError
from kbgit.item import edit_document, parse_document
from kbgit.library.citing import find_citations
from kbgit.passage import split_passages

KEYS = st.sampled_from(["title", "status", "tags", "description", "id", "owner", "due", "x-y", "größe"])
SCALARS = st.text(max_size=30) | st.sampled_from(
    ["no", "1.10", "2026-05-26", "~", "null", "a: b", "#", "'", '"', "*b*", "- x"]
)
LINES = st.sampled_from(["\n", "\r\n"])
MARKDOWN = st.lists(
    st.sampled_from(
        [
            "# A",
            "## B #",
            "a",
            "",
            " ",
            "```",
            "~~~",
            "- x",
            "> q",
            "| a | b |",
            "---",
            "===",
            "<!-- c",
            "-->",
            "\t",
            "\\",
        ]
    )
    | st.text(max_size=12),
    max_size=25,
).map("\n".join)
SHA = st.text("0123456789abcdef", min_size=40, max_size=40)


@settings(max_examples=150)
@given(fields=st.dictionaries(KEYS, SCALARS, max_size=5), body=MARKDOWN, end=LINES)
def test_what_was_written_into_any_header_reads_back_and_is_written_the_same_again(
    fields: dict[str, str], body: str, end: str
) -> None:
    header = "".join(f"{key}: {value}{end}" for key, value in fields.items())
    raw = f"---{end}{header}---{end}{body}".encode("utf-8", "surrogatepass")
    try:
        first = parse_document(raw)
        written = edit_document(raw, {"note": "a word"})
    except KbgitError:
        return
    second = parse_document(written)
    assert second.content == first.content
    assert edit_document(written, {"note": "a word"}) == written
    assert parse_document(edit_document(written, {"note": None})) == first


@settings(max_examples=200)
@given(MARKDOWN)
def test_every_line_of_any_markdown_is_in_exactly_one_passage(content: str) -> None:
    passages = split_passages(content)
    lines = [line for passage in passages for line in range(passage.start_line, passage.end_line + 1)]
    whole = sorted(set(lines))
    assert [passage.ordinal for passage in passages] == list(range(len(passages)))
    assert lines == sorted(lines)
    assert all(1 <= line <= content.count("\n") + 1 for line in whole)
    spoken = [number for number, line in enumerate(content.split("\n"), 1) if line.strip()]
    assert set(spoken) <= set(whole)


@settings(max_examples=200)
@given(st.text(max_size=60))
def test_no_text_is_a_key_that_leads_out_of_the_repositories(text: str) -> None:
    repositories = Path("/home/repositories")
    for read in (BaseKey.parse, lambda one: BaseKey.from_path(one, f"{one}.git"), lambda one: BaseKey("team:a", one)):
        try:
            path = read(text).repository_path(repositories)
        except KbgitError:
            continue
        assert path.parent.parent == repositories
        assert ".." not in path.parts
        assert path.name.endswith(".git")


@pytest.mark.parametrize(
    "name", ["../x", "..", "a/../../b", "/etc", "a\\..\\b", "a\0b", "%2e%2e", ".git", "~", "~/x", "a/b/c", ""]
)
def test_no_path_is_the_name_of_a_base(name: str) -> None:
    with pytest.raises(KbgitError):
        BaseKey("team:platform", name)
    with pytest.raises(KbgitError):
        BaseKey.from_path("platform", f"{name}.git")


@settings(max_examples=200)
@given(st.binary(max_size=200) | MARKDOWN.map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_settings_of_a_base_or_a_problem(raw: bytes) -> None:
    with suppress(KbgitError):
        assert BaseSettings.parse(raw, "slug").name


@settings(max_examples=200)
@given(item=st.text(min_size=1, max_size=20), sha=SHA, around=st.text(max_size=10))
def test_a_citation_in_any_text_is_found_as_it_reads_alone(item: str, sha: str, around: str) -> None:
    text = f"knowledge:{item}@{sha}"
    try:
        citation = Citation.parse(text)
    except KbgitError:
        return
    assert str(citation) == text
    for found in find_citations(f"{around} <{text}> {around}"):
        assert found.text in f"{around} <{text}> {around}"
