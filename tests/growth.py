"""How the time of a parser grows with its text: what the tests that refuse more than linear time measure with."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

SIZE = 6_000
"""Characters of the shortest text, unless a test says otherwise; the others have twice and four times as many."""
RATIO = 3.0
"""A doubled text may take up to this many times as long: linear time is 2, a square is 4."""
MEASURABLE = 0.015
"""Seconds of the longest text; below it, there is more noise than growth."""
LONG = 0.2
"""Seconds; what takes as long as this is more than an allocator's doing, on a slow machine too."""
LOOKS = 4
"""How often a suspicion is looked into: a machine that does other things makes one run slow and not all of them."""

HOSTILE_SIGNS = ("[", "`", "*", "<", "&", "|", "~")
"""What every parser of text is tried with, again and again."""

Text = Callable[[int], str]
"""A text of about so many characters."""


def repeated(part: str) -> Text:
    """Nothing but `part`, again and again."""
    return lambda size: part * (size // len(part))


def grows_too_fast(parse: Callable[[str], object], text: Text, size: int = SIZE) -> str:
    """What the texts of one, two and four times `size` take, in words, if that is more than linear; empty if it is not.

    Only processor time counts, without garbage collection, whose passes grow with what other tests have left.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        return more_than_linear(lambda one: seconds(parse, one), text, size)
    finally:
        if collecting:
            gc.enable()


def more_than_linear(timed: Callable[[str], float], text: Text, size: int = SIZE) -> str:
    """The verdict of `grows_too_fast` on a parser whose runs take the seconds that `timed` gives."""
    texts = _texts(text, size)
    longest = timed(texts[2])
    if longest < MEASURABLE or longest < RATIO * 2 * timed(texts[0]):
        return ""
    for _ in range(LOOKS):
        runs = [[timed(one) for one in texts] for _ in range(3)]
        took = [min(times) for times in zip(*runs, strict=True)]
        if took[2] / took[0] < RATIO * RATIO:  # a doubling on average: long texts may be read in another way
            return ""
        found = " / ".join(f"{len(one):,}: {time * 1000:.1f} ms" for one, time in zip(texts, took, strict=True))
        # What an allocator does at some sizes is not growth, so the next look is at longer texts; but not at such as a
        # parser is done with early, because they are beyond its limits.
        longer = _texts(text, 2 * size)
        if took[2] < LONG and timed(longer[2]) > took[2] / 2:
            size, texts = 2 * size, longer
    return f"{texts[0][:12]!r}, characters: {found}"


def _texts(text: Text, size: int) -> list[str]:
    return [text(factor * size) for factor in (1, 2, 4)]


def seconds(parse: Callable[[str], object], text: str) -> float:
    """The processor time of one run."""
    began = time.thread_time()
    parse(text)
    return time.thread_time() - began
