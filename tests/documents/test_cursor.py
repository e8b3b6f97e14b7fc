"""Cursors give back the number they were made of, and tell nobody."""

from __future__ import annotations

import secrets

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbgit.documents.cursor import Cursors
from kbgit.errors import InvalidRequest

CURSORS = Cursors(b"k" * 32)


@given(st.integers(0, 2**63))
def test_a_number_comes_back(number: int) -> None:
    assert CURSORS.open(CURSORS.seal(number, "events"), "events", "after") == number


def test_the_same_number_looks_different_each_time() -> None:
    sealed = {CURSORS.seal(7, "events") for _ in range(50)}
    assert len(sealed) == 50
    assert len({len(text) for text in sealed}) == 1


@given(st.text(max_size=60))
def test_what_nobody_gave_out_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        CURSORS.open(text, "events", "after")


def test_a_cursor_is_good_for_its_home_and_purpose_only() -> None:
    sealed = CURSORS.seal(7, "events")
    with pytest.raises(InvalidRequest):
        CURSORS.open(sealed, "documents", "cursor")
    with pytest.raises(InvalidRequest):
        Cursors(secrets.token_bytes(32)).open(sealed, "events", "after")
