"""Names of files that every clone can check out: which are refused, and which two cannot live in one tree."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

_LONGEST_PART = 255  # bytes: the limit of common file systems
_LONGEST_PATH = 1024
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_RESERVED = re.compile(r"(?i:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?:\.[^/]*)?")
_WINDOWS = re.compile(r'[<>:"|?*\\]')


def decoded(path: bytes) -> str | None:
    """A path as text; None if it is no UTF-8."""
    try:
        return path.decode("utf-8")
    except UnicodeDecodeError:
        return None


def shown(path: bytes | str) -> str:
    """A path as one safe, printable line: what could steer a terminal or deceive a reader is escaped."""
    text = path.decode("utf-8", "backslashreplace") if isinstance(path, bytes) else path
    return "".join(
        character if character.isprintable() and not _BIDI.match(character) else f"\\u{ord(character):04x}"
        for character in text
    )


def fault(path: bytes) -> str | None:
    """Why a path cannot be checked out safely everywhere; None if it can."""
    text = decoded(path)
    if text is None:
        return "the name is no valid UTF-8"
    if _CONTROL.search(text):
        return "the name has a control character"
    if _BIDI.search(text):
        return "the name has a character that reverses the reading direction"
    if len(path) > _LONGEST_PATH:
        return f"the path is longer than {_LONGEST_PATH} bytes"
    for part in text.split("/"):
        if len(part.encode()) > _LONGEST_PART:
            return f"a part of the path is longer than {_LONGEST_PART} bytes"
        if part.endswith((".", " ")):
            return "a part of the path ends in a dot or a space, which Windows drops"
        if _RESERVED.fullmatch(part):
            return f"{part!r} is a device name on Windows"
        if _WINDOWS.search(part):
            return 'the name has one of < > : " | ? * \\, which Windows cannot store'
    return None


def folded(path: str) -> str:
    """What file systems that ignore case or Unicode form take for the same path."""
    if path.isascii():
        return path.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKD", path).casefold())


def twins(added: Iterable[str], tree: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(added path, other path of the tree) that differ, as a whole or in a directory, only in case or Unicode form.

    `tree` includes the added paths.
    """
    spellings: dict[str, str] = {}
    suspects = [(path, list(_prefixes(path))) for path in sorted(added)]
    wanted = {folded(prefix) for _, prefixes in suspects for prefix in prefixes}
    clashes: dict[str, set[str]] = {}
    seen: set[str] = set()
    for path in tree:
        for prefix in _prefixes(path):
            if prefix in seen:
                continue
            seen.add(prefix)
            key = folded(prefix)
            if key in wanted and spellings.setdefault(key, prefix) != prefix:
                clashes.setdefault(key, {spellings[key]}).add(prefix)
    for path, prefixes in suspects:
        for prefix in prefixes:
            others = clashes.get(folded(prefix), set()) - {prefix}
            if others:
                yield path, min(others)
                break


def _prefixes(path: str) -> Iterator[str]:
    """The path, and each directory above it, outermost first."""
    end = path.find("/")
    while end >= 0:
        yield path[:end]
        end = path.find("/", end + 1)
    yield path
