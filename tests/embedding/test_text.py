from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kbgit.embedding.text import readable, unit_rows

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))


def test_a_lone_surrogate_becomes_the_replacement_character() -> None:
    assert readable("a\ud800b") == "a\ufffdb"


def test_a_pair_of_surrogates_becomes_the_character_it_means() -> None:
    assert readable("\ud83d\ude00") == "😀"


def test_nul_becomes_a_space_and_ends_are_stripped() -> None:
    assert readable("\0 a\0b \n") == "a b"


@given(ANY_TEXT)
def test_any_text_becomes_encodable(text: str) -> None:
    assert "\0" not in readable(text)
    readable(text).encode()


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_ordinary_text_only_loses_its_ends(text: str) -> None:
    assert readable(text) == text.strip()


def test_rows_become_unit_vectors_and_the_input_stays_as_it_is() -> None:
    matrix = np.array([[3.0, 4.0], [0.0, 0.0], [0.0, -2.0]])
    np.testing.assert_allclose(unit_rows(matrix), np.array([[0.6, 0.8], [1, 0], [0, -1]], np.float32))
    assert matrix[0, 0] == 3


def test_no_rows_stay_no_rows() -> None:
    assert unit_rows(np.empty((0, 3))).shape == (0, 3)
