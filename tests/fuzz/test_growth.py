"""No parser takes more than linear time on text that a user can write: twice as much takes about twice as long."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import log2

import pytest

from kbgit import names
from kbgit.analysis import analyse, chunks, prepare
from kbgit.citation import Citation
from kbgit.errors import KbgitError
from kbgit.index.contract import IndexedPassage
from kbgit.index.query import parse_query, without_phrases
from kbgit.index.terms import passage_terms
from kbgit.item import edit_document, first_heading, heading_text, parse_document
from kbgit.library.citing import find_citations
from kbgit.library.highlight import highlight
from kbgit.library.sections import changed_sections, sections_of
from kbgit.mcp.framing import label, quoted, restored, visible
from kbgit.memory.records import ProjectKey, parse_record
from kbgit.passage import split_passages
from kbgit.place import stretch
from kbgit.web.markdown import render, target_path
from tests.growth import HOSTILE_SIGNS, SIZE, grows_too_fast, more_than_linear, repeated

REPEATED = (
    *HOSTILE_SIGNS,
    *("(", "_", "!", '"', "'", "\\", "-", ":", "{", "/", ".", "\n", "\t"),
    *("[](", "![", "[[", "](a", "**a", "_a_", "<a ", "<!--", "```\n", "# \n", "- ", "> ", "1. ", "|-|\n", "---\n"),
    *("a: b\n", "a: [", "- a\n", " a", "aA1", "a-b_c.", "C++ ", "@a#", "<<<<<<<\n", "\r\n"),
    *("knowledge:a@", "@" + "a" * 40, "#L1-L2 ", "我", "가", "e\u0301", "\u0300", "\u202e", "\u200b", "\U0001f600"),
)  # fmt: skip


def refusing(parse: Callable[[str], object]) -> Callable[[str], object]:
    """A parser that may refuse what it is given."""

    def run(text: str) -> object:
        try:
            return parse(text)
        except KbgitError as error:
            return error

    return run


def passage(text: str) -> IndexedPassage:
    return IndexedPassage(
        base="b", item_id="i", revision="0" * 40, ordinal=0, title=text[:200], section=(), lines=(1, 1), text=text,
        locator="a.md", description="", tags=(),
    )  # fmt: skip


def header(text: str) -> bytes:
    return f"---\ntitle: {text}\n---\nwords\n".encode()


PARSERS: dict[str, Callable[[str], object]] = {
    "an item": refusing(lambda text: parse_document(text.encode())),
    "front matter": refusing(lambda text: parse_document(header(text))),
    "front matter of many lines": refusing(lambda text: parse_document(f"---\n{text}\n---\n".encode())),
    "an edit of front matter": refusing(lambda text: edit_document(header(text), {"status": "draft"})),
    "an edit of a text": refusing(lambda text: edit_document(header("a"), {"title": text[:4000]}, text)),
    "a first heading": first_heading,
    "a heading": heading_text,
    "passages": split_passages,
    "sections": sections_of,
    "changed sections": lambda text: changed_sections(text, text + "x"),
    "marks of places": lambda text: stretch(text, 1, text.count("\n") + 1),
    "analysis": lambda text: [analyse(chunk) for chunk in chunks(prepare(text))],
    "terms": lambda text: passage_terms(passage(text)),
    "a query": lambda text: (parse_query(text), without_phrases(text)),
    "citations in a text": lambda text: list(find_citations(text)),
    "a citation": refusing(Citation.parse),
    "a name of a file": lambda text: (names.fault(text.encode()), names.shown(text), names.folded(text)),
    "a frame": lambda text: (visible(text), quoted(text), label(text), restored(text)),
    "a record of memory": refusing(
        lambda text: parse_record(f"---\n{text}\n---\n{text}".encode(), ProjectKey("team:x", "y"), "a" * 26)
    ),
    "a page": render,
    "a target of a link": lambda text: target_path("a/b.md", text),
    "a highlight": lambda text: highlight(text, "word alpha"),
    "a highlight of a query": lambda text: highlight("a word and another", text),
}


@pytest.mark.parametrize("what", PARSERS)
def test_time_is_linear(what: str) -> None:
    assert [found for part in REPEATED if (found := grows_too_fast(PARSERS[what], repeated(part)))] == []


@pytest.mark.parametrize("part", ["[", "`", "*", "<", "&", "|", "~"])
def test_each_sign_of_the_promise_is_tried(part: str) -> None:
    assert part in HOSTILE_SIGNS
    assert part in REPEATED


def test_what_is_more_than_linear_is_noticed() -> None:
    def busy(text: str) -> None:
        end = time.thread_time() + 0.0012 * (len(text) / SIZE) ** 2
        while time.thread_time() < end:
            pass

    assert grows_too_fast(busy, repeated("a"))


@pytest.mark.parametrize("power", [1.8, 2.0, 3.0])
def test_a_power_of_the_length_is_more_than_linear(power: float) -> None:
    assert more_than_linear(lambda text: 0.1 * (len(text) / SIZE) ** power, repeated("a"))


@pytest.mark.parametrize("first", [0.0001, 0.01, 1.0])
def test_linear_time_is_no_growth_nor_is_a_logarithm_more(first: float) -> None:
    assert not more_than_linear(lambda text: first * len(text) / SIZE, repeated("a"))
    assert not more_than_linear(lambda text: first * len(text) * log2(len(text)) / SIZE, repeated("a"))


def test_what_is_more_than_linear_within_the_limits_of_a_parser_is_noticed() -> None:
    def refused_when_longer(text: str) -> float:
        return 0.02 * (len(text) / SIZE) ** 2 if len(text) <= 4 * SIZE else 0.0

    assert more_than_linear(refused_when_longer, repeated("a"))


def test_what_takes_long_at_one_size_only_is_no_growth() -> None:
    def slow_at_one_size(text: str) -> float:
        return (0.033 if len(text) == 4 * SIZE else 0.01) * len(text) / SIZE

    assert not more_than_linear(slow_at_one_size, repeated("a"))


def test_one_slow_run_is_no_growth() -> None:
    slow = iter([0.3])
    assert not more_than_linear(lambda text: next(slow, 0.01 * len(text) / SIZE), repeated("a"))
