"""Request bodies: every wrong one is named, none is guessed at."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbgit.config import Settings
from kbgit.errors import InvalidRequest
from kbgit.library import SearchRequest

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
NAMES = st.sampled_from(
    "query exclude mode alpha k limit offset bases spaces tags locator metadata min_score content wait_for explain".split()
)


@given(JSON | st.dictionaries(NAMES, JSON))
def test_any_json_is_a_request_or_a_named_refusal(body: object) -> None:
    with suppress(InvalidRequest):
        request = SearchRequest.from_json(body, Settings())
        assert 1 <= request.limit <= 100
        assert 0 <= request.alpha <= 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("query", 3),
        ("query", None),
        ("mode", "magic"),
        ("alpha", 1.5),
        ("alpha", float("nan")),
        ("alpha", True),
        ("k", 0),
        ("limit", 0),
        ("limit", 101),
        ("limit", 10**9),
        ("limit", 2.5),
        ("offset", -1),
        ("bases", [1]),
        ("tags", {}),
        ("metadata", {"owner": 3}),
        ("metadata", []),
        ("min_score", "high"),
        ("content", "all"),
        ("wait_for", "abc"),
        ("wait_for", "A" * 40),
        ("explain", "yes"),
    ],
)
def test_a_wrong_field_is_named(field: str, value: object) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        SearchRequest.from_json({"query": "x", field: value}, Settings())
    assert refusal.value.details == {"field": field}
    assert f"`{field}`" in refusal.value.message


def test_an_unknown_field_is_named_with_the_known_ones() -> None:
    with pytest.raises(InvalidRequest, match="unknown field 'qery'") as refusal:
        SearchRequest.from_json({"qery": "x", "query": "x"}, Settings())
    assert "query" in refusal.value.details["known"]


def test_half_a_surrogate_pair_is_replaced_wherever_a_text_may_stand() -> None:
    half = {"query": "\ud800", "locator": "\ud800", "tags": ["\ud800"], "metadata": {"\ud800": "\ud800"}}
    request = SearchRequest.from_json(half, Settings())
    assert (request.query, request.locator, request.tags) == ("\ufffd", "\ufffd", ("\ufffd",))
    assert request.metadata == {"\ufffd": "\ufffd"}


def test_a_query_that_is_too_long_is_refused_with_its_length() -> None:
    with pytest.raises(InvalidRequest, match="has 8193 characters"):
        SearchRequest.from_json({"query": "x" * 8193}, Settings())


def test_one_text_may_stand_for_a_list_of_one() -> None:
    assert SearchRequest.from_json({"query": "x", "bases": "notes"}, Settings()).bases == ("notes",)
