"""Which passages hold a phrase: an intersection of positions, linear in the postings of its terms."""

from __future__ import annotations

import numpy as np

from kbgit.index.postings import ROW_SHIFT, Places, PostingsCache, PostingSource, Rows
from kbgit.index.query import Phrase


def phrase_rows(phrase: Phrase, source: PostingSource, cache: PostingsCache) -> Rows:
    """The rows of `source` that hold `phrase`, ascending, deleted ones included. An empty phrase is held by none."""
    parts = [(cache.completed(source, part.term[0]) if part.prefix else part.term, part.offset) for part in set(phrase)]
    rarest_first = sorted(parts, key=lambda part: cache.postings(source, part[0]).rows.size)
    starts: Places | None = None
    for term, offset in rarest_first:
        places = cache.places(source, term) - offset
        starts = places if starts is None else _common(starts, places)
        if not starts.size:
            break
    if starts is None:
        return np.empty(0, np.int64)
    return np.unique(starts >> ROW_SHIFT)


def _common(some: Places, others: Places) -> Places:
    """What both ascending arrays hold; fast when `some` is the shorter."""
    if not others.size:
        return others
    at = np.minimum(np.searchsorted(others, some), others.size - 1)
    common: Places = some[others[at] == some]
    return common
