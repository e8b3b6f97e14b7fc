"""Derived files that are damaged: the server starts, answers, and is soon as it was.

Here each kind of file is damaged in one or two ways; `python -m benchmarks.faults` damages every file in every way.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.damage import Damaged
from tests.faults.nursery import Nursery
from tests.faults.site import Site

SAMPLE = (
    ("catalogue.sqlite", "half"),
    ("catalogue.sqlite", "unreadable"),
    ("vectors.sqlite", "garbage"),
    ("memory-vectors.sqlite", "empty"),
    ("lexical/*.seg", "cut by one byte"),
    ("lexical/*.lexicon", "one byte flipped"),
    ("lexical/*.toc", "missing"),
    ("lexical/stamp.json", "half"),
    ("lexical/stamp.json", "unreadable"),
    ("vectors/chroma.sqlite3", "one byte flipped"),
    ("vectors/chroma.sqlite3", "unreadable"),
    ("vectors/stamp.json", "empty"),
)


@pytest.fixture(scope="module")
def damaged(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    site = Site(tmp_path_factory.mktemp("damage") / "site", nursery)
    yield Damaged(site)
    site.close()


@pytest.mark.parametrize(("name", "variant"), SAMPLE, ids=[f"{name}-{variant}" for name, variant in SAMPLE])
def test_a_damaged_file_costs_no_answer(damaged: Damaged, name: str, variant: str) -> None:
    file = next(path for path in damaged.files if path.match(name))
    assert damaged.outcome(file, variant) == ""


def test_every_kind_of_derived_file_is_in_the_sample(damaged: Damaged) -> None:
    # Locks hold nothing, and the graph of few vectors is not saved: Chroma makes its files anew when it opens them.
    apart = ("*.lock", "*_WRITELOCK", "vectors/*/*.bin")
    kinds: list[Path] = [path for path in damaged.files if not any(path.match(pattern) for pattern in apart)]
    assert [path for path in kinds if not any(path.match(name) for name, _ in SAMPLE)] == []
