"""Bytes to text: which encoding a file is in, decided by its bytes alone and never by a locale.

UTF-8 is taken at its word, and so are byte order marks. What is neither may declare itself (`<meta charset=…>`,
`# -*- coding: … -*-`); otherwise charset-normalizer compares the encodings that old editors wrote, over a bounded sample of
the lines that are not ASCII. Whatever is not UTF-8 comes with a sentence that says so. Bytes that are no text at all are
refused.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass

from charset_normalizer import from_bytes
from charset_normalizer.models import CharsetMatch

from kbgit.errors import UnsupportedFile

_MARKS = (  # UTF-32 first: its little-endian mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SIGNATURES = (
    *((b"\x7fELF", "a program"), (b"MZ", "a program"), (b"\xca\xfe\xba\xbe", "a program")),
    *((b"\xcf\xfa\xed\xfe", "a program"), (b"\xce\xfa\xed\xfe", "a program"), (b"\x00asm", "a program")),
    *((b"PK\x03\x04", "a zip archive"), (b"PK\x05\x06", "a zip archive"), (b"\x1f\x8b\x08", "a gzip archive")),
    *((b"BZh", "a bzip2 archive"), (b"\xfd7zXZ\x00", "an xz archive"), (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive")),
    *((b"Rar!\x1a\x07", "a RAR archive"), (b"(\xb5/\xfd", "a zstd archive"), (b"%PDF-", "a PDF document")),
    *((b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document"), (b"SQLite format 3\x00", "a database")),
    *((b"\x89PNG\r\n\x1a\n", "a picture"), (b"\xff\xd8\xff", "a picture"), (b"GIF87a", "a picture")),
    *((b"GIF89a", "a picture"), (b"OggS\x00", "a recording"), (b"ID3\x03", "a recording"), (b"ID3\x04", "a recording")),
)
_ASCII_SIGNATURES = (b"MZ", b"BZh", b"%PDF-", b"GIF87a", b"GIF89a")  # with which a text may begin as well

# In the order in which they are preferred where the bytes do not tell them apart.
_LEGACY = (
    *("cp1252", "cp932", "gb18030", "euc_jp", "big5", "euc_kr", "koi8_r", "cp1251"),
    *("iso8859_2", "cp1250", "cp1253"),
)
_NAMES = {
    "cp1252": "Windows-1252 (Western European)",
    "cp932": "Shift-JIS (Japanese)",
    "euc_jp": "EUC-JP (Japanese)",
    "gb18030": "GB18030 (Chinese)",
    "big5": "Big5 (Chinese)",
    "euc_kr": "EUC-KR (Korean)",
    "koi8_r": "KOI8-R (Cyrillic)",
    "cp1251": "Windows-1251 (Cyrillic)",
    "iso8859_2": "ISO 8859-2 (Central European)",
    "cp1250": "Windows-1250 (Central European)",
    "cp1253": "Windows-1253 (Greek)",
}
_DECLARED = re.compile(
    rb"""<meta[^<>]{0,200}?charset\s*=\s*["']?\s*(?P<html>[\w.:-]{1,40})"""
    rb"""|\A<\?xml[^<>]{0,100}?encoding\s*=\s*["'](?P<xml>[\w.:-]{1,40})"""
    rb"""|\A(?:[^\n]{0,100}\n)?[ \t]*[#/*;-]{1,4}[^\n]{0,60}?coding[:=][ \t]*(?P<code>[\w.:-]{1,40})""",
    re.IGNORECASE,
)
_DECLARED_WITHIN = 2048
_SAMPLE = 32 << 10
_TRIED_CHAOS = 0.35
_NO_TEXT = re.compile("[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")  # no white space, no ESC, no NEL
_NO_TEXT_SHARE = 0.01
_HIGH_LINE = re.compile(rb"[^\n]*[\x80-\xff][^\n]*\n?")


@dataclass(frozen=True, slots=True)
class Read:
    """A file's text, without byte order mark, its line ends as they are; `note` says what was converted, if anything.

    `encoding` is the name under which the encoding is registered, in lower case.
    """

    text: str
    note: str | None = None
    encoding: str = "utf-8"


def read(raw: bytes) -> Read:
    """The text of a file. Raises `UnsupportedFile` for bytes that are no text."""
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            return _marked(raw[len(mark) :], encoding)
    _refuse_signatures(raw)
    if b"\x00" in raw:
        return _wide(raw)
    try:
        return Read(_checked(raw.decode("utf-8")))
    except UnicodeDecodeError:
        return _legacy(raw)


def _marked(raw: bytes, encoding: str) -> Read:
    try:
        text = _checked(raw.decode(encoding))
    except UnicodeDecodeError:
        name = _wide_name(encoding)
        raise UnsupportedFile(f"its byte order mark says {name}, but it is not valid {name}") from None
    if encoding == "utf-8":
        return Read(text)
    return Read(text, _converted(_wide_name(encoding)), _wide_name(encoding).lower())


def _refuse_signatures(raw: bytes) -> None:
    for signature, kind in _SIGNATURES:
        if raw.startswith(signature) and not (signature in _ASCII_SIGNATURES and _is_plain(raw)):
            raise UnsupportedFile(f"it is {kind}, whatever its name says, and no text", {"found": kind})


def _is_plain(raw: bytes) -> bool:
    """Whether bytes that begin like a program or a picture are text all the same."""
    try:
        return not _is_noise(raw.decode("utf-8"))
    except UnicodeDecodeError:
        return False


def _wide(raw: bytes) -> Read:
    """UTF-16 or UTF-32 without a mark: most characters of most texts leave a zero in the same place."""
    share = 0.3
    zeros = [raw[place::4].count(0) * 4 / len(raw) for place in range(4)]
    for encoding, full, empty in (("utf-32-le", (1, 2, 3), 0), ("utf-32-be", (0, 1, 2), 3)):
        if all(zeros[place] > 0.9 for place in full) and zeros[empty] < share:
            return _of_wide(raw, encoding)
    even, odd = (zeros[0] + zeros[2]) / 2, (zeros[1] + zeros[3]) / 2
    if odd > share and even < odd / 4:
        return _of_wide(raw, "utf-16-le")
    if even > share and odd < even / 4:
        return _of_wide(raw, "utf-16-be")
    raise _no_text()


def _of_wide(raw: bytes, encoding: str) -> Read:
    try:
        name = _wide_name(encoding)
        return Read(_checked(raw.decode(encoding)), _converted(name), name.lower())
    except UnicodeDecodeError:
        raise _no_text() from None


def _legacy(raw: bytes) -> Read:
    for encoding, name in _candidates(raw):
        try:
            text = raw.decode(encoding)
        except UnicodeDecodeError:
            continue
        if not _is_noise(text):
            registered = encoding.replace("cp125", "windows-125").replace("_", "-")
            return Read(text.lstrip("\ufeff"), _converted(name), registered)
    raise _no_text()


def _candidates(raw: bytes) -> Iterator[tuple[str, str]]:
    """(Python's name, a name for people), the likeliest first."""
    if declared := _DECLARED.search(raw[:_DECLARED_WITHIN]):
        encoding = _known((declared["html"] or declared["xml"] or declared["code"]).decode("ascii"))
        if encoding is not None:
            yield encoding, f"{_NAMES.get(encoding, encoding)}, which it declares"
    found = list(
        from_bytes(
            _sample(raw),
            cp_isolation=list(_LEGACY),
            threshold=_TRIED_CHAOS,
            preemptive_behaviour=False,
            enable_fallback=False,
        )
    )
    for match in sorted(found, key=_rank):
        encoding = min(match.could_be_from_charset, key=_preference)
        yield encoding, _NAMES.get(encoding, encoding)
    yield "cp1252", _NAMES["cp1252"]


def _rank(match: CharsetMatch) -> tuple[float, float, int]:
    return match.chaos, -match.coherence, min(map(_preference, match.could_be_from_charset))


def _preference(encoding: str) -> int:
    return _LEGACY.index(encoding) if encoding in _LEGACY else len(_LEGACY)


def _known(declared: str) -> str | None:
    """Python's name of a declared text encoding; None for UTF-8, which the bytes are not, and for what is none."""
    try:
        encoding = codecs.lookup(declared).name
        "".encode(encoding)
    except (LookupError, ValueError):
        return None
    aliases = {"iso8859-1": "cp1252", "shift_jis": "cp932", "gb2312": "gb18030", "gbk": "gb18030", "ascii": "cp1252"}
    if encoding.startswith(("utf", "unicode", "raw", "idna", "punycode", "undefined", "mbcs", "oem")):
        return None
    return aliases.get(encoding, encoding)


def _sample(raw: bytes) -> bytes:
    """The lines that are not ASCII, cut at a place where no encoding has half a character."""
    if len(raw) <= _SAMPLE:
        return raw
    found = bytearray()
    for match in _HIGH_LINE.finditer(raw):
        found += match[0][:_SAMPLE]
        if len(found) >= _SAMPLE:
            break
    cut = bytes(found[:_SAMPLE])
    end = max(cut.rfind(byte) for byte in (b"\n", b" ", b","))
    return cut[: end + 1] if end > 0 else cut


def _checked(text: str) -> str:
    if _is_noise(text):
        raise _no_text()
    return text.lstrip("\ufeff")


def _is_noise(text: str) -> bool:
    """Whether this is no text: it has NUL, or more than one control character in a hundred."""
    return "\x00" in text or len(_NO_TEXT.findall(text)) > len(text) * _NO_TEXT_SHARE


def _no_text() -> UnsupportedFile:
    return UnsupportedFile("it holds bytes that are no text in any encoding kbgit knows", {"found": "binary"})


def _wide_name(encoding: str) -> str:
    return encoding.upper().removesuffix("-LE").removesuffix("-BE")


def _converted(name: str) -> str:
    return f"converted to UTF-8 from {name}"
