from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbgit.errors import DocumentProblem, InvalidName, InvalidRequest, TooLarge
from kbgit.memory import MemoryKind, MemoryLimits, MemoryRecord, NewRecord, ProjectKey
from kbgit.memory.records import is_record_id, new_record, parse_record, record_file

LIMITS = MemoryLimits(text_bytes=2000)
PROJECT = ProjectKey("personal:ada", "harbour")
NOW = 1_796_040_000

# What a header, a fence, a parser or a terminal may take for something else, among anything at all.
hostile = st.sampled_from(
    ["---", "\n---\n", "...\n", "title: x\n", "- a\n", "\r\n", "\r", "\ufeff", "\x1b[31m", "\u2028", "\x85", "```\n", "<!--",
     "<<<<<<< a\n=======\n>>>>>>> b\n", "*a &b !!c", "\U000e0041", "\u202e", "'", '"', "\\", "#", ": ", "\t", "\x07", "é"]
)  # fmt: skip
words = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"), max_size=12)
texts = st.lists(hostile | words, max_size=8).map("".join)
lines = texts.map(lambda text: "".join(c for c in text if c.isprintable())[:60])


def record(**changes: object) -> MemoryRecord:
    made = new_record(NewRecord("harbour", "A text."), "ada", NOW, LIMITS)
    return replace(made, **changes)  # type: ignore[arg-type]


@given(texts, lines, st.lists(lines, max_size=4), lines, st.sampled_from(MemoryKind))
@settings(max_examples=150, deadline=None)
def test_whatever_is_remembered_reads_back_from_its_file(
    text: str, title: str, tags: list[str], client: str, kind: MemoryKind
) -> None:
    new = NewRecord("harbour", f"x{text}", kind, title=title, tags=tags, client=client)
    made = new_record(new, "ada", NOW, LIMITS)
    read = parse_record(record_file(made), PROJECT, made.id)
    assert read == made
    assert read.text == f"x{text}".replace("\r\n", "\n").replace("\r", "\n")
    assert record_file(read) == record_file(made)


@given(st.text(max_size=200))
@settings(max_examples=100, deadline=None)
def test_any_text_is_remembered_as_it_is_or_refused(text: str) -> None:
    try:
        made = new_record(NewRecord("harbour", text), "ada", NOW, LIMITS)
    except InvalidRequest as refusal:
        why = str(refusal)
    else:
        assert parse_record(record_file(made), PROJECT, made.id) == made
        return
    assert "U+0000" in why if "\x00" in text else not text.strip("\ufeff").strip()


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_no_file_does_more_than_refuse(raw: bytes) -> None:
    with suppress(DocumentProblem):
        parse_record(b"---\nid: mem_000000000000000000000000\n" + raw, PROJECT, "mem_000000000000000000000000")


def test_an_id_is_random_and_fit_for_urls_and_files() -> None:
    ids = {record().id for _ in range(100)}
    assert len(ids) == 100
    assert all(is_record_id(one) for one in ids)
    assert not any(map(is_record_id, ("mem_", "mem_../x", "mem_" + "A" * 24, "mem_" + "0" * 25, "")))


@pytest.mark.parametrize(
    ("field", "new"),
    [
        ("text", NewRecord("p", "a\x00b")),
        ("text", NewRecord("p", "half of a pair \ud83d")),
        ("text", NewRecord("p", " \n\t")),
        ("title", NewRecord("p", "x", title="two\nlines")),
        ("title", NewRecord("p", "x", title="x" * 301)),
        ("client", NewRecord("p", "x", client="a\x1b[2J")),
        ("tags", NewRecord("p", "x", tags=["a\u2028b"])),
        ("tags", NewRecord("p", "x", tags=[str(number) for number in range(33)])),
        ("lifetime_seconds", NewRecord("p", "x", lifetime_seconds=60)),
        ("lifetime_seconds", NewRecord("p", "x", MemoryKind.WORKING, lifetime_seconds=0)),
        ("lifetime_seconds", NewRecord("p", "x", MemoryKind.WORKING, lifetime_seconds=10**9)),
    ],
)
def test_what_cannot_be_kept_is_refused_by_the_name_of_its_field(field: str, new: NewRecord) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        new_record(new, "ada", NOW, LIMITS)
    assert refusal.value.details["field"] == field


def test_a_text_over_the_limit_is_refused_with_the_limit() -> None:
    with pytest.raises(TooLarge) as refusal:
        new_record(NewRecord("p", "é" * 1001), "ada", NOW, LIMITS)
    assert refusal.value.details == {"limit": 2000}


@pytest.mark.parametrize(
    "slug",
    ["", ".", "..", "../x", "a/b", "a\\b", "/etc", "~ada", "A", "a..b", "x.git", "a\x00", "é", "a ", "-a", "x" * 101],
)
def test_no_name_of_a_project_leads_elsewhere(slug: str) -> None:
    with pytest.raises(InvalidName):
        ProjectKey("personal:ada", slug)


@pytest.mark.parametrize(
    "space", ["", "ada", "personal:", "personal:../ada", "team:a/b", "team:..", "group:x", "personal:Ada"]
)
def test_no_name_of_a_space_leads_elsewhere(space: str) -> None:
    with pytest.raises(InvalidName):
        ProjectKey(space, "harbour")


def test_a_working_record_ends_and_knowledge_does_not() -> None:
    working = new_record(NewRecord("p", "x", MemoryKind.WORKING), "ada", NOW, LIMITS)
    short = new_record(NewRecord("p", "x", MemoryKind.WORKING, lifetime_seconds=60), "ada", NOW, LIMITS)
    assert working.expires_at == NOW + 14 * 86_400
    assert short.expires_at == NOW + 60
    assert not short.is_expired(NOW + 59)
    assert short.is_expired(NOW + 60)
    assert record().expires_at is None


def test_hidden_characters_stay_and_are_flagged() -> None:
    hidden = record(text="Fine.\U000e0049\U000e0067")
    assert parse_record(record_file(hidden), PROJECT, hidden.id).text == hidden.text
    assert hidden.as_json()["hidden_characters"] is True
    assert record(title="a\u202eb").has_hidden_characters
    assert record(text="Ordinary: é, 東京, 👩‍🚀").as_json()["hidden_characters"] is False


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ("id: mem_", "id: men_", 2, "the id is not the file's name"),
        ("kind: knowledge", "kind: forever", 3, "unknown kind"),
        ("author: ada\n", "", 1, "`author` is missing"),
        ('created_at: "2026-11-30T12:00:00Z"', "created_at: yesterday", 5, "no time"),
        ('created_at: "2026-11-30T12:00:00Z"', "created_at: 2026-11-30 12:00", 5, "without its zone"),
        ("author: ada", "author: [ada]", 4, "no plain text"),
        ("author: ada", "author: ada\ntags: {a: b}", 5, "no list of words"),
        ("A text.", "", 7, "without text"),
        ("---\n", "", 1, "without front matter"),
    ],
)
def test_a_file_that_is_no_record_says_where_and_why(old: str, new: str, line: int, what: str) -> None:
    made = record()
    raw = record_file(made).decode()
    assert old in raw, raw
    with pytest.raises(DocumentProblem, match=what.replace("no plain", "not a plain")) as problem:
        parse_record(raw.replace(old, new, 1).encode(), PROJECT, made.id)
    assert problem.value.line == line
