"""A query text as the lexical leg understands it: weighted terms, phrases that must occur, phrases that must not.

Any text is a query. Its only operator is a pair of double quotes around a phrase; a quote without a partner, or right
after a letter or digit (`6" pipe`), is an ordinary character, and so is a leading dash. Words inside quotes are ranked
like others. `“…”` counts as `"…"`, because keyboards write it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kbgit.analysis import Chunk, Kind, analyse, chunks
from kbgit.index.postings import Term

MOST_TERMS = 256
"""Distinct terms of a query; what follows is not ranked by. Phrases and exclusions are never cut."""

WORD_WEIGHT = 1.0
SYMBOL_WEIGHT = 1.0
COMPOUND_WEIGHT = 1.0
PART_WEIGHT = 0.7
"""Of a unit within a compound or symbol."""
FRAGMENT_WEIGHT = 0.4
EXACT_WEIGHT = 0.15

SHORTEST_EXPANDED = 5
"""Letters of a word that, when it occurs nowhere, stands for the longer words it is part of."""

_PHRASE = re.compile(r'(?<![A-Za-z0-9])"([^"]+)"(?![A-Za-z0-9])')
_QUOTES = str.maketrans("“”„‟＂", '"' * 5)


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """Tokens that count as one, and how much they weigh."""

    term: Term
    weight: float
    required: bool = True
    """Whether it belongs to what was asked for even where it occurs nowhere, and so to the upper bound."""
    expandable: bool = False
    """Whether it may stand for longer words when it occurs nowhere."""
    prefix: bool = False
    """Whether it stands for itself and every pair of characters that begins with it (one CJK character)."""


@dataclass(frozen=True, slots=True)
class PhrasePart:
    """One term of a phrase, `offset` positions after the phrase's first."""

    term: Term
    offset: int
    prefix: bool = False


Phrase = tuple[PhrasePart, ...]


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """What to rank by, what must occur, what must not."""

    terms: tuple[QueryTerm, ...]
    phrases: tuple[Phrase, ...] = ()
    exclusions: tuple[Phrase, ...] = ()


def parse_query(text: str, exclude: Iterable[str] = ()) -> ParsedQuery:
    """The query `text`, with the words and phrases to `exclude`. Never raises; time is linear in their length."""
    text = text.translate(_QUOTES)
    phrases = dict.fromkeys(_phrase(match[1]) for match in _PHRASE.finditer(text))
    exclusions = dict.fromkeys(_phrase(words) for words in exclude)
    return ParsedQuery(_ranked_terms(text), tuple(filter(None, phrases)), tuple(filter(None, exclusions)))


def without_phrases(text: str) -> str:
    """The query `text` without its phrases."""
    return _PHRASE.sub(" ", text.translate(_QUOTES))


def _ranked_terms(text: str) -> tuple[QueryTerm, ...]:
    """The terms of `text` in order; one that is repeated weighs its sum."""
    found: dict[Term, QueryTerm] = {}
    for chunk in chunks(text):
        for term in _chunk_terms(analyse(chunk)):
            known = found.get(term.term)
            if known is not None:
                term = QueryTerm(
                    term.term,
                    known.weight + term.weight,
                    known.required or term.required,
                    known.expandable or term.expandable,
                    term.prefix,
                )
            elif len(found) >= MOST_TERMS:
                return tuple(found.values())
            found[term.term] = term
    return tuple(found.values())


def _chunk_terms(chunk: Chunk) -> Iterator[QueryTerm]:
    kinds = {token.kind for token in chunk.tokens}
    composed = bool(kinds & {Kind.COMPOUND, Kind.SYMBOL})
    spellings = _spellings(chunk)
    for token in chunk.tokens:
        match token.kind:
            case Kind.UNIT:
                expandable = len(token.text) >= SHORTEST_EXPANDED and token.text.isalpha()
                term = (token.text, *spellings.get(token.offset, ()))
                yield QueryTerm(term, PART_WEIGHT if composed else WORD_WEIGHT, expandable=expandable)
            case Kind.EXACT:
                yield QueryTerm((token.text,), EXACT_WEIGHT, required=False)
            case Kind.FRAGMENT:
                yield QueryTerm((token.text,), FRAGMENT_WEIGHT, required=False)
            case Kind.COMPOUND:
                yield QueryTerm((token.text,), COMPOUND_WEIGHT, required=False)
            case Kind.SYMBOL:
                yield QueryTerm((token.text,), SYMBOL_WEIGHT)
            case Kind.BIGRAM:
                yield QueryTerm((token.text,), WORD_WEIGHT)
            case Kind.CHARACTER if len(chunk.tokens) == 1:
                yield QueryTerm((token.text,), WORD_WEIGHT, prefix=True)
            case _:
                continue


def _spellings(chunk: Chunk) -> dict[int, Term]:
    """Offset of each unit that has other spellings → those."""
    return {token.offset: (token.text,) for token in chunk.tokens if token.kind is Kind.SPELLING}


def _phrase(words: str) -> Phrase:
    """`words` as consecutive units; a symbol or compound among them must occur as such. Empty when nothing is left."""
    parts: list[PhrasePart] = []
    position = 0
    for chunk in map(analyse, chunks(words.translate(_QUOTES))):
        wholes = [token for token in chunk.tokens if token.kind in (Kind.COMPOUND, Kind.SYMBOL) and token.offset == 0]
        if wholes:
            whole = max(wholes, key=lambda token: len(token.text))
            parts.append(PhrasePart((whole.text,), position))
        spellings = _spellings(chunk)
        for token in chunk.tokens:
            if token.kind is Kind.UNIT:
                term = (token.text, *spellings.get(token.offset, ()))
                parts.append(PhrasePart(term, position + token.offset))
            elif token.kind is Kind.BIGRAM or (token.kind is Kind.CHARACTER and len(chunk.tokens) == 1):
                parts.append(PhrasePart((token.text,), position + token.offset, token.kind is Kind.CHARACTER))
        position += chunk.span
    return tuple(parts)
