"""Whatever sequence of updates led there, `MemoryIndex` and `EmbeddedIndex` give the same scores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from kbgit.index.contract import Index, IndexedPassage, IndexUpdate, Query, Scope
from kbgit.index.memory import MemoryIndex
from tests.index.backends import (
    ADA,
    DIMENSION,
    WEB,
    Answer,
    add,
    ask,
    embed,
    embedded,
    passage,
)

WORDS = (
    "disk fan Größe grosse full error ERR-1234 foo_bar getUserById C++ 向量数据库 restarting restart l'école node.js"
).split()
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)
ITEMS = st.sampled_from([f"item{number}" for number in range(6)])
BASES = st.sampled_from([ADA, WEB])


@st.composite
def updates(draw: st.DrawFn) -> tuple[str, IndexUpdate]:
    base = draw(BASES)
    number = draw(st.integers(0, 15))
    revision = f"{number:040x}"
    added = [
        replace(
            passage(item, text, base=base, revision=revision, ordinal=ordinal),
            tags=tuple(draw(st.lists(st.sampled_from(WORDS), max_size=2))),
        )
        for item in draw(st.lists(ITEMS, max_size=4, unique=True))
        for ordinal, text in enumerate(draw(st.lists(TEXTS, min_size=1, max_size=2)))
    ]
    head = draw(st.one_of(st.none(), st.just(revision)))
    return base, IndexUpdate(head, frozenset(draw(st.lists(ITEMS, max_size=3))), added)


QUERIES = [
    "disk",
    "grosse error",
    "ERR-1234 full",
    "restart",
    "foo",
    "数据 向",
    '"full disk"',
    "user node nowhereatall",
]


def whole(index: Index) -> list[Answer]:
    return [ask(index, text, exclude=exclude) for text in QUERIES for exclude in ((), ("fan",))]


@settings(max_examples=8, deadline=None)
@given(st.lists(st.tuples(updates(), st.booleans()), min_size=1, max_size=8))
def test_any_sequence_of_updates_gives_what_its_final_state_gives(
    steps: list[tuple[tuple[str, IndexUpdate], bool]],
) -> None:
    oracle = MemoryIndex(DIMENSION)
    with TemporaryDirectory() as directory:
        stepwise = embedded(Path(directory) / "stepwise")
        for (base, update), then_embeds in steps:
            for index in (oracle, stepwise):
                index.update(base, update)
                if then_embeds:
                    embed(index, base)
            assert stepwise.state(base) == oracle.state(base)
            assert stepwise.items(base) == oracle.items(base)
        expected = whole(oracle)
        assert all(map(Answer.close_to, whole(stepwise), expected))
        stepwise.close()

        reopened = embedded(Path(directory) / "stepwise")
        assert all(map(Answer.close_to, whole(reopened), expected))
        fresh = embedded(Path(directory) / "fresh")
        for base in (ADA, WEB):
            passages = final_passages(reopened, base)
            fresh.update(base, IndexUpdate(oracle.state(base).head, frozenset(), passages))
            for one in (fresh, reopened, oracle):
                embed(one, base)
        expected = whole(oracle)
        assert all(map(Answer.close_to, whole(fresh), expected))
        assert all(map(Answer.close_to, whole(reopened), expected))
        fresh.close()
        reopened.close()


def final_passages(index: Index, base: str) -> list[IndexedPassage]:
    scores = index.score(Query(""), Scope({base: None}))
    found = [scores.passage(row) for row in range(len(scores.lexical))]
    return sorted(found, key=lambda one: (one.item_id, one.ordinal))


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=40), exclude=st.lists(st.text(max_size=10), max_size=2))
def test_any_query_scores_alike_in_both(text: str, exclude: list[str]) -> None:
    shelf = [passage(f"item{number}", " ".join(WORDS[number:])) for number in range(len(WORDS))]
    with TemporaryDirectory() as directory:
        both = [MemoryIndex(DIMENSION), embedded(Path(directory) / "index")]
        for index in both:
            add(index, *shelf)
        first, second = (ask(index, text, exclude=exclude) for index in both)
        assert first.close_to(second)
        both[1].close()
