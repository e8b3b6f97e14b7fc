"""How the time of a parser grows with its text: what the tests that refuse more than linear time measure with."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

SIZE = 6_000
"""Characters of the shortest text, unless a test says otherwise; the others have twice and four times as many."""
RATIO = 3.0
"""A doubled text may take up to this many times as long: linear time is 2, a square is 4."""
MEASURABLE = 0.04
"""Seconds of the longest text; below it, what the allocator does at some size is more than what the parser does."""
LOOKS = 4
"""How often a suspicion is looked into, each time at twice the size: a machine that does other things makes one run slow and
not all of them, and what an allocator does at some size is not growth."""

Text = Callable[[int], str]
"""A text of about so many characters."""


def repeated(part: str) -> Text:
    """Nothing but `part`, again and again."""
    return lambda size: part * (size // len(part))


def grows_too_fast(parse: Callable[[str], object], text: Text, size: int = SIZE) -> str:
    """What the texts of one, two and four times `size` take, in words, if that is more than linear; empty if it is not.

    Only processor time counts, without garbage collection, whose passes grow with what other tests have left.
    """
    texts = _texts(text, size)
    collecting = gc.isenabled()
    gc.disable()
    try:
        longest = _seconds(parse, texts[2])
        if longest < MEASURABLE or longest < RATIO * 2 * _seconds(parse, texts[0]):
            return ""
        for look in range(LOOKS):
            texts = _texts(text, size << look)
            runs = [[_seconds(parse, one) for one in texts] for _ in range(3)]
            took = [min(times) for times in zip(*runs, strict=True)]
            if took[2] / took[0] < RATIO * RATIO:  # a doubling on average: long texts may be read in another way
                return ""
    finally:
        if collecting:
            gc.enable()
    lengths = " / ".join(f"{len(one):,}" for one in texts)
    return f"{texts[0][:12]!r}, {lengths} characters: " + " / ".join(f"{time * 1000:.1f} ms" for time in took)


def _texts(text: Text, size: int) -> list[str]:
    return [text(factor * size) for factor in (1, 2, 4)]


def _seconds(parse: Callable[[str], object], text: str) -> float:
    began = time.thread_time()
    parse(text)
    return time.thread_time() - began
