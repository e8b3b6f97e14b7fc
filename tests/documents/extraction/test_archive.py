"""An office document is looked at before a library opens it."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from kbgit.documents.contract import ExtractionFailed, ExtractionLimits, Reason
from kbgit.documents.extraction import archive
from tests.documents.extraction import hostile
from tests.documents.extraction.conftest import Fail, Read
from tests.documents.extraction.corpus import WRITERS, with_member, zip_of


@pytest.mark.parametrize("name", [name for name in WRITERS if not name.endswith(".pdf")])
def test_what_real_programs_write_passes(written: Path, limits: ExtractionLimits, name: str) -> None:
    contents = archive.check(written / name, limits)
    assert "[Content_Types].xml" in contents.names
    assert all(sum(elements.values()) for elements in contents.elements.values())


@pytest.mark.parametrize(
    "names", [["../evil"], ["/etc/evil"], ["a/../../evil"], ["C:\\evil"], ["..\\evil"], ["word/.."]]
)
def test_a_member_whose_name_leads_out_is_refused(fail: Fail, names: list[str]) -> None:
    failed = fail("a.docx", hostile.named(names))
    assert failed.reason is Reason.CORRUPT
    assert "leads out" in failed.detail
    assert "evil" not in failed.detail


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("names", [["a", "a"], ["a", "A"], ["word/Document.xml"]])
def test_two_members_of_one_name_are_refused(fail: Fail, names: list[str]) -> None:
    failed = fail("a.docx", hostile.named(names))
    assert failed.reason is Reason.CORRUPT
    assert "same name" in failed.detail


def test_encrypted_documents_say_so(fail: Fail) -> None:
    assert fail("a.docx", hostile.encrypted_office()).reason is Reason.ENCRYPTED
    assert fail("a.xlsx", hostile.password_zip()).reason is Reason.ENCRYPTED


def test_a_document_from_before_2007_says_what_to_do(fail: Fail) -> None:
    failed = fail("a.docx", hostile.old_office())
    assert failed.reason is Reason.CORRUPT
    assert "before 2007" in failed.detail


@pytest.mark.parametrize("parts", range(1, 20))
def test_a_truncated_document_is_corrupt(fail: Fail, written: Path, parts: int) -> None:
    for name in ("text.docx", "deck.pptx", "costs.xlsx"):
        content = (written / name).read_bytes()
        assert fail(name, content[: len(content) * parts // 20]).reason is Reason.CORRUPT


def test_a_size_that_a_member_lies_about_is_found_by_unpacking_it(fail: Fail) -> None:
    content = bytearray(hostile.word(hostile.said(b"a" * 3_000_000)))
    at = content.rfind(b"PK\x01\x02", 0, content.rfind(b"word/document.xml"))
    content[at + 24 : at + 28] = (100).to_bytes(4, "little")
    assert fail("a.docx", bytes(content)).reason is Reason.CORRUPT


def test_the_ratio_counts_only_beyond_a_size_that_matters(read: Read, fail: Fail, tmp_path: Path) -> None:
    file = tmp_path / "small.docx"
    file.write_bytes(hostile.word(hostile.said(b"a" * 900_000)))
    assert len(read(file).markdown) > 900_000
    assert fail("a.docx", hostile.word(hostile.said(b"a" * 2_000_000))).reason is Reason.TOO_LARGE


def test_each_limit_is_met_where_it_is_set(tmp_path: Path, written: Path, limits: ExtractionLimits) -> None:
    file = written / "text.docx"
    contents = archive.check(file, limits)
    members = len(contents.names)
    archive.check(file, replace(limits, members=members))
    with pytest.raises(ExtractionFailed, match="members") as failed:
        archive.check(file, replace(limits, members=members - 1))
    assert failed.value.reason is Reason.TOO_LARGE
    with zipfile.ZipFile(file) as opened:
        size = sum(member.file_size for member in opened.infolist())
    archive.check(file, replace(limits, unpacked=size))
    with pytest.raises(ExtractionFailed, match="unpacks") as failed:
        archive.check(file, replace(limits, unpacked=size - 1))
    assert failed.value.reason is Reason.TOO_LARGE


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    "name", ["word/settings.xml", "docProps/custom.rels", "word/thing.bin", "word/media/image.svg"]
)
def test_entities_are_refused_in_any_part_and_encoding(fail: Fail, name: str, encoding: str) -> None:
    declared = '<?xml version="1.0"?>\n<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'
    assert fail("a.docx", hostile.word(hostile.said(b"x"), {name: declared.encode(encoding)})).reason is Reason.CORRUPT


def test_a_picture_may_name_its_document_type(read: Read, tmp_path: Path) -> None:
    svg = b'<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/svg11.dtd"><svg/>'
    file = tmp_path / "a.docx"
    file.write_bytes(hostile.word(hostile.said(b"text"), {"word/media/image.svg": svg, "word/chunk.htm": b"<p>a<br>b"}))
    assert read(file).markdown == "text\n"


def test_embedded_files_are_not_opened_and_noted(read: Read, tmp_path: Path, written: Path) -> None:
    file = tmp_path / "a.docx"
    with_member(written / "text.docx", file, "word/embeddings/inner.docx", zip_of({"word/document.xml": b"bomb"}))
    assert read(file).notes == ("1 embedded file was not read.",)


def test_an_archive_without_a_document_is_corrupt(fail: Fail) -> None:
    for suffix in (".docx", ".pptx", ".xlsx"):
        assert fail(f"a{suffix}", zip_of({"readme.txt": b"text"})).reason is Reason.CORRUPT
        assert fail(f"a{suffix}", zip_of({})).reason is Reason.CORRUPT


def test_another_way_of_packing_is_refused_or_read_but_never_a_crash(fail: Fail) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("word/document.xml", b"x")
    content = bytearray(buffer.getvalue())
    for magic, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        content[content.find(magic) + offset] = 99
    assert fail("a.docx", bytes(content)).reason is Reason.CORRUPT
