"""Bytes to text: `kbgit.importing.text.encoding`."""

from __future__ import annotations

import codecs
import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbgit.errors import UnsupportedFile
from kbgit.importing.text.encoding import read

JAPANESE = "これは日本語のテキストです。東京は日本の首都です。\n" * 3
CHINESE = "这是一个中文文本。北京是中国的首都。\n" * 3
TRADITIONAL = "這是一個中文文本。台北是台灣的首都。\n" * 3
KOREAN = "이것은 한국어 텍스트입니다. 서울은 한국의 수도입니다.\n" * 3
RUSSIAN = "Это русский текст. Город стоит на реке, и зима длинная.\n" * 3
GERMAN = "Der Käufer prüft das Gerät – „sofort“, für 10 €.\n"


@pytest.mark.parametrize(
    ("text", "encoding", "named"),
    [
        (GERMAN, "cp1252", "Windows-1252"),
        ("Müller\n", "cp1252", "Windows-1252"),
        ("à bientôt, ça va très bien à l'école; élève, Noël\n", "cp1252", "Windows-1252"),
        (JAPANESE, "cp932", "Shift-JIS"),
        (JAPANESE, "euc_jp", "EUC-JP"),
        (CHINESE, "gb18030", "GB18030"),
        (TRADITIONAL, "big5", "Big5"),
        (KOREAN, "euc_kr", "EUC-KR"),
        (RUSSIAN, "koi8_r", "KOI8-R"),
        (RUSSIAN, "cp1251", "Windows-1251"),
        ("Zażółć gęślą jaźń\n", "iso8859_2", "ISO 8859-2"),
        (GERMAN + JAPANESE, "utf-16", "UTF-16"),
        (GERMAN, "utf-16-le", "UTF-16"),
        (GERMAN, "utf-16-be", "UTF-16"),
        (GERMAN + JAPANESE, "utf-32", "UTF-32"),
        (GERMAN, "utf-32-be", "UTF-32"),
    ],
)
def test_what_old_editors_wrote_is_read_and_named(text: str, encoding: str, named: str) -> None:
    found = read(text.encode(encoding))
    assert found.text == text
    assert found.note is not None
    assert found.note.startswith("converted to UTF-8 from ")
    assert named in found.note


def test_utf8_is_taken_at_its_word_with_and_without_its_mark() -> None:
    assert (read(GERMAN.encode()).text, read(GERMAN.encode()).note) == (GERMAN, None)
    assert (read(codecs.BOM_UTF8 + GERMAN.encode()).text, read(b"").text) == (GERMAN, "")


@pytest.mark.parametrize(
    "text",
    [
        '<html><head><meta charset="windows-1251"><p>Да</p>',
        "<meta http-equiv='Content-Type' content='text/html; charset=koi8-r'><p>Да</p>",
        "#!/usr/bin/python\n# -*- coding: cp1251 -*-\nx = 'Да'\n",
        '<?xml version="1.0" encoding="euc-jp"?><p>日本</p>',
    ],
)
def test_what_a_file_declares_counts_where_it_can_be(text: str) -> None:
    encoding = next(one for one in ("windows-1251", "koi8-r", "cp1251", "euc-jp") if one in text)
    found = read(text.encode(encoding))
    assert found.text == text
    assert "which it declares" in str(found.note)


def test_a_declaration_that_the_bytes_contradict_counts_for_nothing() -> None:
    assert read('<meta charset="ascii">für'.encode()).text == '<meta charset="ascii">für'
    for declared in ("utf-8", "no-such-thing", "rot13", "base64", "unicode_escape"):
        text = f'<meta charset="{declared}"> Käufer prüft Gerät\n'
        assert read(text.encode("cp1252")).text == text


@pytest.mark.parametrize(
    "raw",
    [
        b"\x7fELF\x02\x01\x01" + bytes(64),
        b"MZ\x90\x00\x03" + bytes(range(256)),
        b"PK\x03\x04\x14\x00\x06\x00",
        b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n",
        b"\x89PNG\r\n\x1a\n",
        b"\x1f\x8b\x08\x00",
        b"text with a zero\x00 in it",
        bytes(200),
        bytes(range(1, 256)) * 4,
        b"\x01\x02\x03\x04",
        codecs.BOM_UTF16_LE + b"\x00\xd8",
        codecs.BOM_UTF8 + b"\xff\xfe\xfd",
    ],
)
def test_what_is_no_text_is_refused(raw: bytes) -> None:
    with pytest.raises(UnsupportedFile):
        read(raw)


def test_text_that_begins_like_a_program_is_text() -> None:
    for text in ("MZ is the mark of a program\n", "BZh\n", "%PDF- is how one begins\n", "GIF89a\n"):
        assert read(text.encode()).text == text


@settings(deadline=None)
@given(st.binary(max_size=200) | st.binary(max_size=40).map(lambda raw: raw + b"abc\n" * 20))
def test_any_bytes_are_text_or_refused(raw: bytes) -> None:
    with suppress(UnsupportedFile):
        assert "\x00" not in read(raw).text


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=100))
def test_utf8_comes_back_as_it_was(text: str) -> None:
    assert read(text.encode()).text == text.lstrip("\ufeff")


def test_a_large_file_takes_no_longer_to_be_recognised() -> None:
    raw = b"plain ascii line\n" * 200_000 + GERMAN.encode("cp1252") * 100

    def seconds() -> float:
        start = time.thread_time()
        assert read(raw).text.endswith(GERMAN)
        return time.thread_time() - start

    assert any(seconds() < 2.0 for _ in range(3))
