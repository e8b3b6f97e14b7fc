"""What a passage is indexed under: its tokens, each with one weight for all the places it occurs in, and its positions.

All parts of a passage share one field. A token's weight is the sum over its occurrences of the weight of the part it
stands in times that of its kind, in the manner of BM25F (Robertson, Zaragoza, Taylor 2004): the parts' frequencies are
added *before* saturation. A passage's length counts the units of its text alone, so that neither a long title nor a
symbol's many forms make it look longer than it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from struct import pack

from kbgit.analysis import Chunk, Kind, analyse, chunks
from kbgit.index.contract import IndexedPassage

TERMS_VERSION = 2
"""Part of an index's stamp: an index with other weights must be rebuilt."""

TITLE_WEIGHT = 2.0
SECTION_WEIGHT = 1.5
TAG_WEIGHT = 1.5
DESCRIPTION_WEIGHT = 1.5
LOCATOR_WEIGHT = 0.5
TEXT_WEIGHT = 1.0

KIND_WEIGHTS = {
    Kind.UNIT: 1.0,
    Kind.SPELLING: 0.9,
    Kind.EXACT: 1.0,
    Kind.FRAGMENT: 0.7,
    Kind.COMPOUND: 1.0,
    Kind.SYMBOL: 1.0,
    Kind.BIGRAM: 1.0,
    Kind.CHARACTER: 1.0,
}
FOLDED_WEIGHT = 0.9
"""Of a unit that is written with accents, so that of `ete` and `été` the one that was asked for ranks first."""
PART_WEIGHT = 0.85
"""Of a unit within a symbol or compound, so that for `net` the word ranks before `.NET`."""

GAP = 64
"""Positions between the parts of a passage, so that no phrase reaches from one into the next.

After the parts come the fragments of each unit, as a run of their own: `quota low space` is a phrase of
etcdBackendQuotaLowSpace, while in the text that word takes one position, so that `github actions` is one of GitHub Actions.
"""

LONGEST_CACHED_CHUNK = 48


PassageTerm = tuple[bytes, int, float, bytes]
"""A token (UTF-8), its occurrences, its weight, and its positions as little-endian 32-bit numbers."""

_ONE_POSITION = tuple(pack("<I", position) for position in range(4096))


def passage_terms(passage: IndexedPassage) -> tuple[list[PassageTerm], int]:
    """What `passage` is indexed under, and its length in units (at least 1)."""
    weights: dict[bytes, float] = {}
    positions: dict[bytes, list[int]] = {}
    runs: list[tuple[tuple[tuple[bytes, float], ...], float]] = []
    length = 1
    start = 0
    for part, part_weight in _parts(passage):
        position = start
        for chunk in chunks(part):
            weighed = _weigh(chunk) if len(chunk) <= LONGEST_CACHED_CHUNK else _weigh.__wrapped__(chunk)
            tokens, span, fragments = weighed
            runs += [(run, part_weight) for run in fragments]
            for token, offset, weight in tokens:
                if token in weights:
                    weights[token] += weight * part_weight
                    positions[token].append(position + offset)
                else:
                    weights[token] = weight * part_weight
                    positions[token] = [position + offset]
            position += span
        length = position - start
        start = position + GAP
    for run, part_weight in runs:
        for position, (token, weight) in enumerate(run, start):
            weights[token] = weights.get(token, 0.0) + weight * part_weight
            positions.setdefault(token, []).append(position)
        start += len(run) + 1
    return [(token, len(at), weights[token], _pack(at)) for token, at in positions.items()], max(length, 1)


def _pack(positions: list[int]) -> bytes:
    if len(positions) == 1 and positions[0] < len(_ONE_POSITION):
        return _ONE_POSITION[positions[0]]
    return pack(f"<{len(positions)}I", *positions)


def _parts(passage: IndexedPassage) -> Iterator[tuple[str, float]]:
    """The searched parts and their weights; the text comes last."""
    yield passage.title, TITLE_WEIGHT
    for heading in dict.fromkeys(passage.section):
        if heading != passage.title:
            yield heading, SECTION_WEIGHT
    for tag in passage.tags:
        yield tag, TAG_WEIGHT
    yield passage.description, DESCRIPTION_WEIGHT
    yield passage.locator, LOCATOR_WEIGHT
    yield passage.text, TEXT_WEIGHT


Weighed = tuple[tuple[tuple[bytes, int, float], ...], int, tuple[tuple[tuple[bytes, float], ...], ...]]


@lru_cache(maxsize=1 << 17)
def _weigh(chunk: str) -> Weighed:
    """The tokens of `chunk` encoded, with their offsets and weights; its span; and its runs of fragments."""
    analysed: Chunk = analyse(chunk)
    accented = {token.offset for token in analysed.tokens if token.kind is Kind.EXACT}
    composed = any(token.kind in (Kind.COMPOUND, Kind.SYMBOL) for token in analysed.tokens)
    weighted: list[tuple[bytes, int, float]] = []
    fragments: dict[int, list[tuple[bytes, float]]] = {}
    for token in analysed.tokens:
        text, weight = token.text.encode("utf-8"), KIND_WEIGHTS[token.kind]
        if token.kind is Kind.FRAGMENT:
            fragments.setdefault(token.offset, []).append((text, weight))
            continue
        if token.kind is Kind.UNIT:
            weight *= (FOLDED_WEIGHT if token.offset in accented else 1.0) * (PART_WEIGHT if composed else 1.0)
        weighted.append((text, token.offset, weight))
    return tuple(weighted), analysed.span, tuple(map(tuple, fragments.values()))
