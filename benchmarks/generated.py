"""Generated items: words drawn as in natural text (few are frequent, most are rare), the same for the same seed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

VOCABULARY = 40_000
_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"


def vocabulary(size: int = VOCABULARY) -> list[str]:
    """`size` words that can be spoken, the frequent ones short, as in every language."""
    syllables = [a + b for a in _CONSONANTS for b in _VOWELS]
    words: list[str] = []
    for length in itertools.count(2):
        for parts in itertools.product(syllables, repeat=length):
            words.append("".join(parts))
            if len(words) == size:
                return words
    raise AssertionError("there is always a longer word")


class Author:
    """Writes items of a given number of words."""

    def __init__(self, seed: int = 7, words: Sequence[str] | None = None) -> None:
        self._chance = random.Random(seed)
        self._words = list(words or vocabulary())
        # Zipf's law: the n-th word is about 1/n as frequent as the first.
        self._weights = list(itertools.accumulate(1 / rank for rank in range(1, len(self._words) + 1)))

    def text(self, words: int) -> str:
        """Running words."""
        return " ".join(self._chance.choices(self._words, cum_weights=self._weights, k=words))

    def item(self, identity: str, words: int = 80, mark: str = "") -> str:
        """A published item with two sections; `mark` is a word of its own that only this version has."""
        half = words // 2
        return (
            f"---\nid: {identity}\ntitle: {self.text(3)}\nstatus: published\ntags: [{self.text(1)}]\n---\n"
            f"# {self.text(3)}\n\n{self.text(half)} {mark}\n\n## {self.text(2)}\n\n{self.text(half)}\n"
        )

    def queries(self, count: int, words: int = 3) -> Iterator[str]:
        """Queries of rare and frequent words, all of which occur."""
        for _ in range(count):
            yield " ".join(self._chance.sample(self._words[: len(self._words) // 4], words))
