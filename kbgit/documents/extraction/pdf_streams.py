"""What a PDF is before PDFium opens it: whole, and without a stream that unpacks to far more than it is.

PDFium would unpack such a stream into memory at once. Pictures are passed over, as nothing here unpacks them, and what an
owner's password encrypts cannot be looked at; for what remains there are the worker's own limits.
"""

from __future__ import annotations

import mmap
import re
import zlib
from pathlib import Path

from kbgit.documents.contract import ExtractionFailed, ExtractionLimits, Reason

_END = b"%%EOF"
_TAIL = 8 << 10
"""Bytes at the end in which a whole file says that it ends; some programs and mail gateways add to it."""
_HEAD = 2 << 10
_LINEAR = re.compile(rb"/Linearized\s[^>]{0,200}?/L\s+(\d{1,12})\b")
_STREAM = re.compile(rb"(?<!end)stream\r?\n(?=[\x08\x18\x28\x38\x48\x58\x68\x78])")
"""Where what may be deflated begins."""
_DICTIONARY = 512
_PICTURE = re.compile(rb"/Subtype\s*/Image\b")
_CHUNK = 256 << 10
_SMALL = 1 << 20
"""Bytes; a stream below that may be packed however well."""
_TWICE = 2
"""A stream may be deflated once more."""


def check(file: Path, limits: ExtractionLimits) -> None:
    """Raises `ExtractionFailed` for a file that ends too early, and for one with a stream that grows too much."""
    size = file.stat().st_size
    if not size:
        raise ExtractionFailed(Reason.CORRUPT, "The file is empty.")
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        linear = _LINEAR.search(content[:_HEAD])
        if content.rfind(_END, max(0, size - _TAIL)) < 0 or (linear and int(linear[1]) > size):
            raise ExtractionFailed(Reason.CORRUPT, "The PDF ends too early; a part of it is missing.")
        total = 0
        at = 0
        while match := _STREAM.search(content, at):
            at = match.end()
            dictionary = content[max(0, match.start() - _DICTIONARY) : match.start()].rpartition(b" obj")[2]
            if not _PICTURE.search(dictionary):
                used, unpacked = _unpacked(content, at, limits, limits.unpacked - total)
                total += unpacked
                at += used


def _unpacked(content: mmap.mmap, start: int, limits: ExtractionLimits, room: int) -> tuple[int, int]:
    """How many bytes the deflated stream at `start` takes, and how many it unpacks to; zeros when it is none."""
    inflaters = [zlib.decompressobj() for _ in range(_TWICE)]
    used = size = 0
    while not inflaters[0].eof:
        packed = content[start + used : start + used + _CHUNK]
        if not packed:
            break
        used += len(packed)
        try:
            while packed:
                out = inflaters[0].decompress(packed, _CHUNK)
                packed = inflaters[0].unconsumed_tail
                if not out and not packed:
                    break
                size += len(out) + _again(inflaters[1], out, room)
                if size > room:
                    raise ExtractionFailed(
                        Reason.TOO_LARGE, f"The PDF unpacks to more than the limit of {limits.unpacked:,} bytes."
                    )
                if size > _SMALL and size > used * limits.ratio:
                    raise ExtractionFailed(
                        Reason.TOO_LARGE,
                        f"The PDF holds a part that unpacks to more than {limits.ratio} times its size.",
                    )
        except zlib.error:
            break
    return used - len(inflaters[0].unused_data) if inflaters[0].eof else 0, size


def _again(inflater: zlib._Decompress, packed: bytes, room: int) -> int:
    """The size of what was deflated twice; 0 for all else."""
    size = 0
    try:
        while packed and not inflater.eof and size <= room:
            size += len(inflater.decompress(packed, _CHUNK))
            packed = inflater.unconsumed_tail
    except zlib.error:
        return 0
    return size
