"""Which parts of a passage a query hits, told by the analysis that search itself uses.

So what is marked is what matched: other spellings and cases of a word, `err-1234` and its parts, two neighbouring
characters of a script without spaces, a phrase in quotes as a whole. A word that hits nothing marks the longer words that it
is part of, as search then does. Time is linear in the length of the text, but for looking up where a mark begins and ends.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from kbgit.analysis import Extent, Kind, Token, analyse, chunks_at, extents, prepare
from kbgit.index.query import Phrase, parse_query, without_phrases

Segments = list[tuple[str, bool]]
"""Parts of a text, which joined are exactly the text, each with whether it is a hit; no two of a kind side by side."""
Span = tuple[int, int]

_REMEMBERED = 128
_MOST_EXPANDED = 32
_BETWEEN_SPACES = re.compile(r"[ \n]+|[^ \n]+")
# What joins the character before it when Unicode composes, besides marks: vowels and finals of Hangul, in all their widths,
# and the voicing marks of narrow kana.
_JOINING = ((0x1160, 0x11FF), (0x3130, 0x318F), (0xD7B0, 0xD7FF), (0xFF9E, 0xFFDC))


def highlight(text: str, query: str) -> Segments:
    """The segments of `text` that `query` hits, and those between them. Never raises; nothing of no text."""
    return _segments(text, sorted(_hits(text, _wanted(query))))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a query looks for: words that are hits wherever they stand, those of phrases, and the phrases."""

    words: frozenset[str]
    prefixes: frozenset[str]
    expandable: tuple[str, ...]
    phrases: tuple[Phrase, ...]


@lru_cache(_REMEMBERED)
def _wanted(query: str) -> tuple[_Wanted, _Wanted]:
    """What the query looks for outside of its phrases, and altogether."""
    phrases = parse_query(query).phrases
    found = []
    for text in (without_phrases(query), query):
        terms = parse_query(text).terms
        words = frozenset(token for term in terms if not term.prefix for token in term.term)
        prefixes = frozenset(token for term in terms if term.prefix for token in term.term)
        expandable = tuple(term.term[0] for term in terms if term.expandable)[:_MOST_EXPANDED]
        found.append(_Wanted(words, prefixes, expandable, phrases))
    return found[0], found[1]


@dataclass(frozen=True, slots=True)
class _Placed:
    """A token of a text: its position among the text's, and the part of the prepared text that it covers."""

    token: Token
    position: int
    span: Span


def _hits(text: str, wanted: tuple[_Wanted, _Wanted]) -> Iterator[Span]:
    outside, everything = wanted
    if not (everything.words or everything.prefixes):
        return
    prepared, written = _aligned(text)
    placed, extent_at = _tokens(prepared)
    phrases = [list(_phrase_spans(phrase, placed, extent_at)) for phrase in everything.phrases]
    for spans in phrases:
        yield from map(written, spans)
    chosen = outside if all(phrases) else everything
    seen: set[str] = set()
    for one in placed:
        text_of = one.token.text
        if text_of in chosen.words or (one.token.kind >= Kind.BIGRAM and text_of[0] in chosen.prefixes):
            seen.add(text_of)
            yield written((one.span[0], one.span[0] + 1) if text_of not in chosen.words else one.span)
    for part in chosen.expandable:
        if part not in seen:
            yield from (written(one.span) for one in placed if one.token.kind is Kind.UNIT and part in one.token.text)


def _tokens(prepared: str) -> tuple[list[_Placed], list[tuple[int, Extent]]]:
    """The tokens of a prepared text; and for each position, where its chunk begins and where in that it is."""
    placed: list[_Placed] = []
    extent_at: list[tuple[int, Extent]] = []
    for start, chunk in chunks_at(prepared):
        analysed = analyse(chunk)
        if not analysed.tokens:
            continue
        found = extents(chunk)
        for token in analysed.tokens:
            first, last = _span_in(token, found)
            placed.append(_Placed(token, len(extent_at) + token.offset, (start + first, start + last)))
        extent_at += [(start, extent) for extent in found]
    return placed, extent_at


def _span_in(token: Token, found: tuple[Extent, ...]) -> Span:
    """The part of a chunk, whose positions stand as `found` says, that one of its tokens covers."""
    first = found[token.offset]
    if token.kind is Kind.BIGRAM:
        return first.start, found[token.offset + 1].end
    if token.kind not in (Kind.COMPOUND, Kind.SYMBOL):
        return first.start, first.end
    units = max(1, analyse(token.text).span)
    last = found[min(token.offset + units, len(found)) - 1]
    if token.kind is Kind.SYMBOL or units == 1:
        return first.symbol_start, last.symbol_end
    return first.start, last.end


def _phrase_spans(phrase: Phrase, placed: Iterable[_Placed], extent_at: list[tuple[int, Extent]]) -> Iterator[Span]:
    """Where a phrase stands: its parts at consecutive positions."""
    wanted = {token for part in phrase if not part.prefix for token in part.term}
    prefixes = {token for part in phrase if part.prefix for token in part.term}
    places: dict[str, set[int]] = {}
    for one in placed:
        if one.token.text in wanted:
            places.setdefault(one.token.text, set()).add(one.position)
        if one.token.kind >= Kind.BIGRAM and one.token.text[0] in prefixes:
            places.setdefault(one.token.text[0], set()).add(one.position)
    starts: set[int] | None = None
    for part in phrase:
        at = {place - part.offset for token in part.term for place in places.get(token, ())}
        starts = at if starts is None else starts & at
    length = max(part.offset + _positions(part.term[0]) for part in phrase)
    has_signs = any(not (token[0].isalnum() and token[-1].isalnum()) for part in phrase for token in part.term)
    for start in starts or ():
        (begin, first), (end, last) = extent_at[start], extent_at[min(start + length, len(extent_at)) - 1]
        if has_signs:
            yield begin + first.symbol_start, end + last.symbol_end
        else:
            yield begin + first.start, end + last.end


def _positions(token: str) -> int:
    return max(1, analyse(token).span)


# --- from the prepared text back to the written one ----------------------------------------------------------------------


def _aligned(text: str) -> tuple[str, Callable[[Span], Span]]:
    """`text` prepared for analysis, and the way back from a span of that to the one that was written for it.

    A span never begins or ends between a character and what is composed with it.
    """
    if text.isascii():
        return text, lambda span: span
    whole = prepare(text)
    # Should Unicode ever compose what `_joins` does not know of, marks are as wide as what stands between spaces.
    for parts in (_characters(text), _BETWEEN_SPACES.findall(text)):
        prepared = [_prepared(part) for part in parts]
        if "".join(prepared) == whole:
            return whole, _way_back(prepared, parts)
    return "", lambda span: span


@lru_cache(1 << 14)
def _prepared(part: str) -> str:
    return part if part.isascii() else prepare(part)


def _characters(text: str) -> list[str]:
    """`text` in parts of one character and all that joins it."""
    found: list[str] = []
    start = 0
    for place, character in enumerate(text):
        if place and not _joins(character):
            found.append(text[start:place])
            start = place
    found.append(text[start:])
    return found


def _joins(character: str) -> bool:
    if character < "\u0300":
        return False
    point = ord(character)
    return unicodedata.category(character)[0] == "M" or any(first <= point <= last for first, last in _JOINING)


def _way_back(prepared: list[str], written: list[str]) -> Callable[[Span], Span]:
    starts = _starts(prepared)
    written_starts = _starts(written)

    def back(span: Span) -> Span:
        first, last = bisect_right(starts, span[0]) - 1, bisect_right(starts, span[1] - 1) - 1
        return written_starts[first], written_starts[last] + len(written[last])

    return back


def _starts(parts: list[str]) -> list[int]:
    found = []
    total = 0
    for part in parts:
        found.append(total)
        total += len(part)
    return found


def _segments(text: str, hits: list[Span]) -> Segments:
    """The text cut at the borders of its hits, those that touch or overlap as one."""
    found: Segments = []
    done = 0
    for start, end in _merged(hits):
        if start > done:
            found.append((text[done:start], False))
        found.append((text[start:end], True))
        done = end
    if done < len(text):
        found.append((text[done:], False))
    return found


def _merged(hits: list[Span]) -> Iterator[Span]:
    current: Span | None = None
    for start, end in hits:
        if current is not None and start <= current[1]:
            current = (current[0], max(current[1], end))
        else:
            if current is not None:
                yield current
            current = (start, end)
    if current is not None:
        yield current
