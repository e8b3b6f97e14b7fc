"""Any text is a query: 500 hostile ones over HTTP, in every mode; `python -m benchmarks.fuzz` asks 50,000."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest

from tests.faults.nursery import Nursery
from tests.faults.site import Site
from tests.fuzz.asking import ask_all
from tests.fuzz.hostile import ALPHABETS, LONGEST, queries


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    nursery = Nursery()
    made = Site(tmp_path_factory.mktemp("queries") / "site", nursery)
    assert made.start(), made.log()
    made.settle()
    yield made
    made.close()
    nursery.close()


def test_any_query_is_answered_in_bounds_and_alike(site: Site) -> None:
    found = ask_all(site.url, site.token, islice(queries(20261130), 500), twice_every=5)
    assert found.wrong == []
    assert set(found.statuses) <= {200, 400}
    assert found.statuses[200] > 400
    assert found.quantile(0.99) < 2.0


@pytest.mark.parametrize("query", ["", " ", "*", "**", "NOT heron", "-heron", '""', "AND", "OR NOT", "a:b", "[a TO"])
def test_no_query_means_everything(site: Site, query: str) -> None:
    told = site.ask("POST", "/api/v1/knowledge/search", {"query": query, "mode": "lexical", "limit": 3})
    assert told is not None
    assert told.status in (200, 400)
    if told.status == 200:
        assert len(told.json["results"]) <= 3


def test_hostile_queries_are_of_every_kind() -> None:
    asked = list(islice(queries(1), 5000))
    assert all(any(letter in query for query in asked) for alphabet in ALPHABETS for letter in alphabet)
    assert max(map(len, asked)) == LONGEST
    assert asked == list(islice(queries(1), 5000))
