"""Text to tokens, the same way for passages and for queries.

A text is cut into *chunks* (runs of word characters and of the characters that join symbols, `_ - . ' & + # @ / : ~ $ %`)
and into *runs* of scripts written without spaces. A chunk's smallest parts are its *units*; each takes one position.

    chunk                         tokens at the position of the first unit they cover
    Größe                         grosse (unit), größe (its exact form), groesse (the other German spelling)
    knowledge_runtime_disabled    knowledge, runtime, disabled, and the whole
    ERR-1234                      err, 1234, err-1234
    C++  .NET  --include  @ana    c, net, include, ana, and the whole with its affix
    /etc/hosts                    etc, hosts, etc/hosts, /etc/hosts
    getUserById                   getuserbyid, and at the same position get, user, by, id
    l'école  don't                ecole, lecole; don, dont
    向量数据库                     向量, 量数, 数据, 据库 and the last character, one position each

Folding is NFKC, lower case, accents off and a table for letters that Unicode does not decompose (ß æ œ ø ł ı …), so
that both spellings meet; the exact form is a further token, so that it ranks first.

Every step is one pass of an expression without nested repetition, or bounded by `LONGEST_TOKEN`: the time is linear in
the length of the text, whatever it holds. Nothing in a text raises.
"""

from __future__ import annotations

import enum
import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

ANALYSIS_VERSION = 1
"""Part of an index's stamp: an index built by another analysis must be rebuilt."""

LONGEST_TOKEN = 64
"""Characters; a longer word is cut, a longer compound is known by its parts only."""


class Kind(enum.IntEnum):
    """What a token is to the chunk it came from."""

    UNIT = 0
    """A smallest part, folded: `grosse`, `1234`."""
    SPELLING = 1
    """Another folded spelling of the unit before it: `groesse`."""
    EXACT = 2
    """The unit before it with its accents: `größe`."""
    FRAGMENT = 3
    """A part of a unit: `user` of getUserById, `1234` of ERR1234."""
    COMPOUND = 4
    """Several units as one: `err-1234`, `etc/hosts`."""
    SYMBOL = 5
    """A whole with the signs that belong to it: `c++`, `.net`, `--include-knowledge`, `/etc/hosts`."""
    BIGRAM = 6
    """Two neighbouring characters of a script without spaces."""
    CHARACTER = 7
    """The last, or only, character of such a run."""


class Token(NamedTuple):
    """A token, the position of its first unit counted from the chunk's first, and its kind."""

    text: str
    offset: int
    kind: Kind


class Chunk(NamedTuple):
    """The tokens of one chunk or run, and how many positions it takes."""

    tokens: tuple[Token, ...]
    span: int


class Extent(NamedTuple):
    """Where a unit is in its chunk, and where the symbol it is part of is, with its signs."""

    start: int
    end: int
    symbol_start: int
    symbol_end: int


# --- characters ------------------------------------------------------------------------------------------------------


def _marks() -> str:
    """Character class content: the combining marks, which `\\w` leaves out."""
    blocks = (range(0x0300, 0x2100), range(0xA660, 0xAC00), range(0xFE20, 0xFE30))
    points = [point for block in blocks for point in block if unicodedata.category(chr(point))[0] == "M"]
    return "".join(map(chr, points))


# Han, kana, Hangul; and Thai, Lao, Burmese, Khmer, which do without spaces as well.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff"
    "\u3005-\u3007\u3031-\u3035\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3130-\u318f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\U0001b000-\U0001b16f\U00020000-\U000323af"
)
_JOINERS = r"_.'&+#@/:~$%\\-"
_MARKS = _marks()

_CHUNK = re.compile(rf"[\w{_MARKS}{_JOINERS}]+")
_SCRIPTS = re.compile(rf"(?P<run>[{_UNSPACED}]+)|[^{_UNSPACED}]+")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]")
_WORD = rf"[^\W_](?:[^\W_]|[{_MARKS}])*"
_UNIT = re.compile(_WORD)
# One symbol between the separators of a path: signs before it, units with joiners between them, signs after it.
_SYMBOL = re.compile(
    rf"(?P<before>[-.@#$%~+_]{{0,2}})(?P<body>{_WORD}(?:[-._'&+#]{{1,2}}{_WORD})*)(?P<after>[+#_]{{0,2}})"
)
_PATH_START = re.compile(r"(?:~|\.{1,2})?[/\\]")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_LOOK_ALIKE = re.compile("[\u2018\u2019\u02bb\u02bc\u2010\u2212]")
_PLAIN = dict.fromkeys("\u2018\u2019\u02bb\u02bc", "'") | dict.fromkeys("\u2010\u2212", "-")
_VERSION = re.compile(r"v(\d+(?:\.\d+)+)")
_LETTERS_AND_DIGITS = re.compile(r"([^\W\d_]{2,})(\d{2,})|(\d{2,})([^\W\d_]{2,})")
_ENDINGS = frozenset("s t d m ll re ve".split())
_ELIDED = frozenset("l d j m t s c n qu jusqu lorsqu puisqu quoiqu quelqu presqu".split())

# Letters that have no decomposition, after lower(); and German umlauts written out.
_LETTERS = str.maketrans(
    {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ħ": "h", "ı": "i", "ŧ": "t"}
)
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})
# Accents of the alphabets, Arabic and Hebrew vowel points; not the vowel signs of Indic scripts nor kana's voicing.
_ACCENTS = re.compile(
    "[\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u064b-\u0652\u0670\u1ab0-\u1aff\u1dc0-\u1dff]+"
)


def fold(word: str) -> str:
    """The form under which all spellings of `word` meet: idempotent, and `fold(x.upper()) == fold(x)` for ordinary x."""
    lowered = word.lower()
    if lowered.isascii():
        return lowered
    decomposed = unicodedata.normalize("NFKD", lowered.translate(_LETTERS).casefold())
    bare = _ACCENTS.sub("", decomposed).casefold().translate(_LETTERS)
    return unicodedata.normalize("NFKC", bare)


def exact(word: str) -> str:
    """`word` in lower case and otherwise as it is written (NFKC)."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", word).lower())


def prepare(text: str) -> str:
    """`text` in NFKC, without invisible characters, with plain apostrophes and hyphens."""
    if text.isascii():
        return text
    text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    return _LOOK_ALIKE.sub(lambda match: _PLAIN[match[0]], text)


# --- cutting ---------------------------------------------------------------------------------------------------------


def chunks(text: str) -> Iterator[str]:
    """The chunks and runs of `text` in order, each of them to be given to `analyse`."""
    for chunk in _CHUNK.findall(prepare(text)):
        if chunk.isascii() or _IS_UNSPACED.search(chunk) is None:
            yield chunk
        else:
            for part in _SCRIPTS.finditer(chunk):
                yield part[0]


def chunks_at(prepared: str) -> Iterator[tuple[int, str]]:
    """The same chunks and runs of a text that went through `prepare`, each with the offset at which it begins there."""
    for chunk in _CHUNK.finditer(prepared):
        for part in _SCRIPTS.finditer(chunk[0]):
            yield chunk.start() + part.start(), part[0]


def extents(chunk: str) -> tuple[Extent, ...]:
    """Where each position of `analyse(chunk)` stands in the chunk."""
    if _IS_UNSPACED.match(chunk):
        return tuple(Extent(place, place + 1, place, place + 1) for place in range(len(chunk)))
    found: list[Extent] = []
    for symbol in _SYMBOL.finditer(chunk):
        body, shift = symbol["body"], symbol.start("body")
        start, end = symbol.span()
        if not found and _PATH_START.fullmatch(chunk[:start]):
            start = 0
        for unit in _kept_units(body):
            found.append(Extent(shift + unit.start(), shift + unit.end(), start, end))
    return tuple(found)


def analyse(chunk: str) -> Chunk:
    """The tokens of one of the `chunks` of a text; none when it holds signs only."""
    if chunk.isascii() and chunk.isalpha() and chunk.islower() and len(chunk) <= LONGEST_TOKEN:  # most of them
        return Chunk((Token(chunk, 0, Kind.UNIT),), 1)
    if _IS_UNSPACED.match(chunk):
        return _analyse_run(chunk)
    symbols = list(_SYMBOL.finditer(chunk))
    tokens: list[Token] = []
    position = 0
    for symbol in symbols:
        position += _analyse_symbol(symbol, position, tokens)
    if symbols:
        _add_path(chunk, symbols, tokens)
    return Chunk(tuple(dict.fromkeys(tokens)), position)


def _analyse_run(run: str) -> Chunk:
    last = len(run) - 1
    tokens = [Token(run[start : start + 2], start, Kind.BIGRAM) for start in range(last)]
    tokens.append(Token(run[last], last, Kind.CHARACTER))
    return Chunk(tuple(tokens), len(run))


def _analyse_symbol(symbol: re.Match[str], position: int, tokens: list[Token]) -> int:
    """Append the tokens of one symbol that starts at `position`; answer how many positions it takes."""
    body = symbol["body"]
    kept = _kept_units(body)
    for offset, unit in enumerate(kept, position):
        _add_unit(unit[0][:LONGEST_TOKEN], offset, tokens)
    if len(kept) > 1 or kept[0].span() != (0, len(body)):
        _add_compound(body, position, tokens)
        joiners = set(_UNIT.sub("", body))
        if len(joiners) > 1:
            for joiner in sorted(joiners):
                _add_pieces(body, joiner, kept, position, tokens)
        if version := _VERSION.fullmatch(body.lower()):
            _add_compound(version[1], position, tokens)
    before, after = (sign if sign != "_" else "" for sign in (symbol["before"], symbol["after"]))
    if before or after:
        _add_symbol(before + body + after, position, tokens)
    return len(kept)


def _kept_units(body: str) -> list[re.Match[str]]:
    """The units of a symbol's body that take a position."""
    units = list(_UNIT.finditer(body))
    return [unit for unit in units if not _is_clitic(body, unit)] or units


def _is_clitic(body: str, unit: re.Match[str]) -> bool:
    """Whether `unit` is the elided word of `l'école` or the ending of `don't`."""
    start, end = unit.span()
    word = unit[0].lower()
    return (body[end : end + 1] == "'" and word in _ELIDED) or (body[start - 1 : start] == "'" and word in _ENDINGS)


def _add_unit(word: str, offset: int, tokens: list[Token]) -> None:
    folded = fold(word)[:LONGEST_TOKEN]
    if not folded:
        return
    tokens.append(Token(folded, offset, Kind.UNIT))
    if not word.isascii():
        written = exact(word)[:LONGEST_TOKEN]
        spelling = fold(written.translate(_UMLAUTS))[:LONGEST_TOKEN]
        if spelling != folded:
            tokens.append(Token(spelling, offset, Kind.SPELLING))
        if written != folded:
            tokens.append(Token(written, offset, Kind.EXACT))
    tokens.extend(Token(fragment, offset, Kind.FRAGMENT) for fragment in map(fold, _fragments(word)) if fragment)


def _fragments(word: str) -> list[str]:
    """The words that capitals (getUserById, XMLParser) or a change from letters to digits (ERR1234) show in `word`."""
    if word.islower() or word.isupper() or word.istitle() or word.isdigit():
        match = _LETTERS_AND_DIGITS.fullmatch(word)
        return [group for group in match.groups() if group] if match else []
    starts = [0]
    for index in range(1, len(word)):
        if word[index].isupper() and (not word[index - 1].isupper() or word[index + 1 : index + 2].islower()):
            starts.append(index)
    if len(starts) == 1:
        return []
    return [word[start:end] for start, end in zip(starts, [*starts[1:], len(word)], strict=True)]


def _add_pieces(body: str, joiner: str, kept: list[re.Match[str]], position: int, tokens: list[Token]) -> None:
    """Append the smaller compounds between the `joiner`s: foo_bar and baz-qux of foo_bar.baz-qux."""
    end = 0
    first = 0
    for piece in body.split(joiner):
        end += len(piece) + 1
        after = first
        while after < len(kept) and kept[after].start() < end:
            after += 1
        if after - first > 1:
            _add_compound(piece, position + first, tokens)
        first = after


def _add_compound(text: str, offset: int, tokens: list[Token]) -> None:
    _add_whole(text.replace("'", ""), offset, Kind.COMPOUND, tokens)


def _add_symbol(text: str, offset: int, tokens: list[Token]) -> None:
    _add_whole(text, offset, Kind.SYMBOL, tokens)


def _add_whole(text: str, offset: int, kind: Kind, tokens: list[Token]) -> None:
    if len(text) <= LONGEST_TOKEN and len(folded := fold(text)) <= LONGEST_TOKEN:
        tokens.append(Token(folded, offset, kind))


def _add_path(chunk: str, symbols: list[re.Match[str]], tokens: list[Token]) -> None:
    """Append the whole of several symbols between `/`, `:` and the like, with and without the slash it starts with."""
    first, last = symbols[0], symbols[-1]
    path = chunk[first.start() : last.end()]
    if len(symbols) > 1:
        _add_compound(path, 0, tokens)
    if start := _PATH_START.fullmatch(chunk[: first.start()]):
        _add_symbol(start[0] + path, 0, tokens)
