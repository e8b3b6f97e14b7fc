"""Citations as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbgit.citation import Citation
from kbgit.errors import InvalidCitation

SHA = "0123456789abcdef0123456789abcdef01234567"
SHAS = st.text("0123456789abcdef", min_size=40, max_size=40)
# Whatever a path may be: ids made from one have `@`, `#`, spaces and any script; control characters are refused on push.
IDS = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=60)
LINES = st.none() | st.tuples(st.integers(1, 999_999_999), st.integers(1, 999_999_999)).map(
    lambda pair: (min(pair), max(pair))
)


@given(IDS, SHAS, LINES)
def test_a_pinned_citation_reads_back_as_itself(item: str, sha: str, lines: tuple[int, int] | None) -> None:
    citation = Citation(item, sha, lines)
    assert Citation.parse(str(citation)) == citation
    assert Citation.parse(citation.reference) == Citation(item, sha)


@given(IDS.filter(lambda item: "@" not in item))
def test_an_unpinned_reference_reads_back_as_itself(item: str) -> None:
    citation = Citation(item, None)
    assert Citation.parse(str(citation)) == citation


@given(st.text(max_size=200))
def test_any_text_is_a_citation_or_a_typed_error(text: str) -> None:
    try:
        citation = Citation.parse(text)
    except InvalidCitation:
        return
    assert Citation.parse(str(citation)) == citation


def test_one_line_may_be_cited_without_an_end() -> None:
    assert Citation.parse(f"knowledge:a@{SHA}#L7").lines == (7, 7)
    assert str(Citation("a", SHA).with_lines(7, 9)) == f"knowledge:a@{SHA}#L7-L9"


def test_the_sha_is_the_last_one() -> None:
    other = "f" * 40
    assert Citation.parse(f"knowledge:a@{other}#L1@{SHA}") == Citation(f"a@{other}#L1", SHA)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "knowledge:",
        f"knowledge:@{SHA}",
        f"a@{SHA}",
        f"Knowledge:a@{SHA}",
        "knowledge:a@",
        "knowledge:a@abc",
        f"knowledge:a@{SHA[:-1]}",
        f"knowledge:a@{SHA.upper()}",
        f"knowledge:a@{SHA}0",
        f"knowledge:a@{SHA}#",
        f"knowledge:a@{SHA}#L0",
        f"knowledge:a@{SHA}#L01",
        f"knowledge:a@{SHA}#L2-L1",
        f"knowledge:a@{SHA}#L1-2",
        f"knowledge:a@{SHA}#L1-",
        f"knowledge:a@{SHA}#l1",
        f"knowledge:a@{SHA}#L{10**10}",
        f"knowledge:a\n@{SHA}",
        f"knowledge:a@{SHA}\n",
        f" knowledge:a@{SHA}",
        f"knowledge:a\x00@{SHA}",
        f"knowledge:{'a' * 5000}@{SHA}",
    ],
)
def test_what_is_nearly_a_citation_is_refused_rather_than_guessed_at(text: str) -> None:
    with pytest.raises(InvalidCitation):
        Citation.parse(text)
