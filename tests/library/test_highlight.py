from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbgit.analysis import analyse, chunks
from kbgit.library.highlight import highlight
from tests.growth import grows_too_fast, repeated
from tests.web.pages.payloads import ALL


def marked(text: str, query: str) -> str:
    """`text` with its hits in brackets of a kind that no test text has."""
    return "".join(f"⟦{part}⟧" if is_hit else part for part, is_hit in highlight(text, query))


@pytest.mark.parametrize(
    ("text", "query", "shown"),
    [
        ("The build cache is cold.", "cache", "The build ⟦cache⟧ is cold."),
        ("Cache, CACHE and caches", "cache", "⟦Cache⟧, ⟦CACHE⟧ and caches"),
        ("Die Größe, GROESSE und grosse", "größe", "Die ⟦Größe⟧, ⟦GROESSE⟧ und ⟦grosse⟧"),
        ("un café, un cafe\u0301", "cafe", "un ⟦café⟧, un ⟦cafe\u0301⟧"),
        ("fails with ERR-1234 today", "err-1234", "fails with ⟦ERR-1234⟧ today"),
        ("fails with ERR-1234 today", "1234", "fails with ERR-⟦1234⟧ today"),
        ("knowledge_runtime_disabled is an error", "runtime", "knowledge_⟦runtime⟧_disabled is an error"),
        ("in C++ and C#", "c++", "in ⟦C++⟧ and ⟦C⟧#"),
        ("see /etc/hosts now", "/etc/hosts", "see ⟦/etc/hosts⟧ now"),
        ("call getUserById here", "user", "call ⟦getUserById⟧ here"),
        ("à l'école du don't", "ecole", "à l'⟦école⟧ du don't"),
        ("我们使用向量数据库", "向量", "我们使用⟦向量⟧数据库"),
        ("我们使用向量数据库", "库", "我们使用向量数据⟦库⟧"),
        ("日本語の文書", "日本語", "⟦日本語⟧の文書"),
        ("ｃａｃｈｅ ﬁle", "cache file", "⟦ｃａｃｈｅ⟧ ⟦ﬁle⟧"),
        ("co\u00adope\u200bration", "cooperation", "⟦co\u00adope\u200bration⟧"),
        ("reindexing everything", "index", "⟦reindexing⟧ everything"),
        ("index, reindexing", "index", "⟦index⟧, reindexing"),
        ("nothing here", "absent", "nothing here"),
        ("nothing here", "", "nothing here"),
        ("", "x", ""),
    ],
)
def test_what_search_would_match_is_marked(text: str, query: str, shown: str) -> None:
    assert marked(text, query) == shown


def test_a_phrase_is_marked_as_a_whole_and_its_words_alone_are_not() -> None:
    text = "The build cache. A cache of the build, a BUILD\ncache."
    assert marked(text, '"build cache"') == "The ⟦build cache⟧. A cache of the build, a ⟦BUILD\ncache⟧."
    assert marked(text, '"build cache" of') == "The ⟦build cache⟧. A cache ⟦of⟧ the build, a ⟦BUILD\ncache⟧."


def test_the_words_of_a_phrase_that_is_not_there_are_marked_alone() -> None:
    assert marked("A cache of the build", '"build cache"') == "A ⟦cache⟧ of the ⟦build⟧"


def test_a_phrase_of_characters_without_spaces_and_one_with_signs_are_marked_whole() -> None:
    assert marked("使用向量数据库", '"向量数据"') == "使用⟦向量数据⟧库"
    assert marked("Use C++ today, not C# today", '"c++ today"') == "Use ⟦C++ today⟧, not C# today"


@pytest.mark.parametrize(
    "text", ["ㄱㅏ나", "ｶﾞｷﾞ", "\u1100\u1161\u11a8 x", "நொ", "e\u0301\u0327\u20dd", "a\ud800b", "क्षि", "👩‍💻 x"]
)
def test_a_mark_never_parts_a_character_from_what_is_composed_with_it(text: str) -> None:
    parts = [part for part, _ in highlight(text, text)]
    assert "".join(parts) == text
    assert not any(unicodedata.category(part[0])[0] == "M" or part[0] in "ﾞ\u1161\u11a8" for part in parts[1:])


TEXTS = st.one_of(
    st.text(max_size=60),
    st.text(alphabet="ab AB-_.+/'\"#向量库が\u0301\u0308ßéﾞ\u1161\u200b\u00ad12", max_size=60),
    st.sampled_from(ALL),
)


@settings(max_examples=400, deadline=None)
@given(TEXTS, TEXTS)
def test_segments_join_to_exactly_the_text_and_alternate(text: str, query: str) -> None:
    segments = highlight(text, query)
    assert "".join(part for part, _ in segments) == text
    assert all(part for part, _ in segments)
    assert all(before[1] != after[1] for before, after in pairwise(segments))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from("Größe cache C++ /etc/hosts err-1234 l'école 向量 don't foo_bar v1.2.3 @ana".split()),
        min_size=1,
    )
)
def test_a_text_marks_all_of_its_own_words(words: list[str]) -> None:
    text = " ".join(words)
    hits = [part for part, is_hit in highlight(text, text) if is_hit]
    wanted = {token.text for chunk in chunks(text) for token in analyse(chunk).tokens}
    found = {token.text for part in hits for chunk in chunks(part) for token in analyse(chunk).tokens}
    assert wanted <= found | {"école", "ecole", "don"}
    assert "@ana" not in words or "@ana" in hits


@pytest.mark.parametrize("unit", ["cache ", "向量", "e\u0301", "a-", "/a", '"', "C++ ", "ß", "x\u0301\u0301", "'s "])
def test_the_time_grows_no_faster_than_the_text(unit: str) -> None:
    assert not grows_too_fast(lambda text: highlight(text, 'cache 向量 "a b" école C++'), repeated(unit))
