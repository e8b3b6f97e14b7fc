"""Whatever is done to a document, reading it ends soon: with text, or with a reason."""

from __future__ import annotations

import random
import time
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbgit.documents.contract import Extracted, ExtractionFailed, ExtractionLimits
from kbgit.documents.extraction.kinds import KINDS, extract
from tests.documents.extraction.corpus import WRITERS, zip_of

LIMITS = ExtractionLimits(seconds=10, unpacked=64 << 20)
SECONDS = 10.0
SETTINGS = settings(
    max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
ZIPPED = [name for name in WRITERS if not name.endswith(".pdf")]
BYTES = (b"\0", b"\xff", b"<", b">", b"/", b'"', b"9", b"-", b"&", b" ")


def attempt(file: Path) -> None:
    """Reads a file, which may fail in the one way that it may."""
    started = time.monotonic()
    try:
        extracted = extract(KINDS[file.suffix], file, LIMITS)
    except (ExtractionFailed, MemoryError, RecursionError):
        pass
    else:
        assert isinstance(extracted, Extracted)
        extracted.markdown.encode("utf-8")
    assert time.monotonic() - started < SECONDS


def mutated(content: bytes, seed: int, changes: int) -> bytes:
    """Bytes changed, taken out, doubled."""
    chance = random.Random(seed)
    for _ in range(changes):
        at = chance.randrange(max(len(content), 1))
        length = chance.choice((1, 1, 1, 4, 50))
        match chance.randrange(4):
            case 0:
                content = content[:at] + chance.choice(BYTES) + content[at + 1 :]
            case 1:
                content = content[:at] + content[at + length :]
            case 2:
                content = content[:at] + content[at : at + length] * 2 + content[at + length :]
            case _:
                content = content[:at] + bytes([chance.randrange(256)]) + content[at + 1 :]
    return content


@pytest.mark.parametrize("name", WRITERS)
@SETTINGS
@given(seed=st.integers(0, 2**32), changes=st.integers(1, 30))
def test_a_damaged_file_gives_text_or_a_reason(
    written: Path, tmp_path: Path, name: str, seed: int, changes: int
) -> None:
    file = tmp_path / name
    file.write_bytes(mutated((written / name).read_bytes(), seed, changes))
    attempt(file)


@pytest.mark.parametrize("name", ZIPPED)
@SETTINGS
@given(seed=st.integers(0, 2**32), changes=st.integers(1, 10), data=st.data())
def test_a_damaged_part_of_an_archive_gives_text_or_a_reason(
    written: Path, tmp_path: Path, name: str, seed: int, changes: int, data: st.DataObject
) -> None:
    with zipfile.ZipFile(written / name) as opened:
        members = {member.filename: opened.read(member) for member in opened.infolist()}
    chosen = data.draw(st.sampled_from(sorted(members)))
    if data.draw(st.booleans()):
        members[chosen] = mutated(members[chosen], seed, changes)
    else:
        del members[chosen]
    file = tmp_path / name
    file.write_bytes(zip_of(members))
    attempt(file)


@pytest.mark.parametrize("name", ZIPPED)
@SETTINGS
@given(seed=st.integers(0, 2**32))
def test_attributes_of_an_archives_xml_may_say_anything(written: Path, tmp_path: Path, name: str, seed: int) -> None:
    chance = random.Random(seed)
    values = (b"", b"-1", b"99999999999999999999", b"NaN", b"A0", b"XFE1048577", b"../x", b"\xe9\x80\x80")
    with zipfile.ZipFile(written / name) as opened:
        members = {member.filename: opened.read(member) for member in opened.infolist()}
    for _ in range(3):
        chosen = chance.choice([member for member in sorted(members) if member.endswith((".xml", ".rels"))])
        pieces = members[chosen].split(b'"')
        if len(pieces) > 2:
            pieces[chance.randrange(len(pieces) // 2) * 2 + 1] = chance.choice(values)
            members[chosen] = b'"'.join(pieces)
    file = tmp_path / name
    file.write_bytes(zip_of(members))
    attempt(file)


@pytest.mark.parametrize("suffix", KINDS)
@SETTINGS
@given(content=st.binary(max_size=2_000), lead=st.booleans())
def test_random_bytes_give_a_reason(tmp_path: Path, suffix: str, content: bytes, lead: bool) -> None:
    file = tmp_path / f"random{suffix}"
    file.write_bytes((KINDS[suffix].beginnings[0] if lead else b"") + content)
    with pytest.raises(ExtractionFailed):
        extract(KINDS[suffix], file, LIMITS)
