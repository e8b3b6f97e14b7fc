"""Documents that are not meant well, for the tests of extraction."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Sequence

from tests.documents.extraction.corpus import zip_of

_PAGE = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Resources<<%s>>/Contents %s>>"
_FONT = b"/Font<</F 5 0 R>>"
_FONT_OBJECT = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
_CATALOG = b"<</Type/Catalog/Pages 2 0 R>>"
_ONE_PAGE = b"<</Type/Pages/Kids[3 0 R]/Count 1>>"
TEXT = b"BT /F 12 Tf 72 700 Td (looped canary) Tj ET "


def pdf(*objects: bytes) -> bytes:
    """A PDF of these objects, numbered from 1; the first is its catalog."""
    out = b"%PDF-1.7\n"
    offsets = []
    for number, content in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(objects) + 1
    return (
        out
        + b"xref\n0 %d\n0000000000 65535 f \n%s" % (size, table)
        + b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (size, len(out))
    )


def stream(content: bytes, entries: bytes = b"") -> bytes:
    """A stream object."""
    return b"<<%s/Length %d>>\nstream\n%s\nendstream" % (entries, len(content), content)


def _form(content: bytes, inner: int) -> bytes:
    resources = b"/Resources<<%s/XObject<</X %d 0 R>>>>" % (_FONT, inner)
    return stream(content, b"/Type/XObject/Subtype/Form/BBox[0 0 600 800]" + resources)


def simple(content: bytes = TEXT, entries: bytes = b"", contents: bytes = b"4 0 R") -> bytes:
    """A PDF of one page with this content stream."""
    return pdf(_CATALOG, _ONE_PAGE, _PAGE % (_FONT, contents), stream(content, entries), _FONT_OBJECT)


def page_tree_in_a_circle() -> bytes:
    """Its page tree is its own child."""
    return pdf(_CATALOG, b"<</Type/Pages/Kids[2 0 R]/Count 1000>>")


def page_trees_in_a_circle() -> bytes:
    """Two page trees are each other's children, twice."""
    return pdf(
        _CATALOG,
        b"<</Type/Pages/Kids[3 0 R 3 0 R]/Count 4>>",
        b"<</Type/Pages/Parent 2 0 R/Kids[2 0 R 2 0 R]/Count 4>>",
    )


def endless_pages() -> bytes:
    """Says that it has two billion pages."""
    return pdf(
        _CATALOG, b"<</Type/Pages/Kids[3 0 R]/Count 2000000000>>", _PAGE % (_FONT, b"4 0 R"), stream(TEXT), _FONT_OBJECT
    )


def many_pages(count: int) -> bytes:
    """One page, many times."""
    kids = b"3 0 R " * count
    return pdf(
        _CATALOG,
        b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, count),
        _PAGE % (_FONT, b"4 0 R"),
        stream(TEXT),
        _FONT_OBJECT,
    )


def paints_itself() -> bytes:
    """A form that paints itself twice."""
    page = _PAGE % (_FONT + b"/XObject<</X 6 0 R>>", b"4 0 R")
    return pdf(_CATALOG, _ONE_PAGE, page, stream(b"/X Do"), _FONT_OBJECT, _form(TEXT + b"/X Do /X Do", 6))


def paints_ten_times_ten(levels: int = 12) -> bytes:
    """Forms that paint the next one ten times each: 10^12 texts."""
    page = _PAGE % (_FONT + b"/XObject<</X 6 0 R>>", b"4 0 R")
    forms = [_form(TEXT + b"/X Do " * 10, 7 + number) for number in range(levels)]
    return pdf(_CATALOG, _ONE_PAGE, page, stream(b"/X Do"), _FONT_OBJECT, *forms, _form(TEXT, 6))


def one_stream_a_thousand_times() -> bytes:
    """A page whose content is the same large stream, a thousand times."""
    return simple(TEXT * 20_000, contents=b"[" + b"4 0 R " * 1000 + b"]")


def deflated_bomb(twice: bool = False) -> bytes:
    """A stream that unpacks to 200 MB; with `twice`, one of 200 bytes that unpacks to it in two steps."""
    packed = zlib.compress(TEXT * (200_000_000 // len(TEXT)), 9)
    if not twice:
        return simple(packed, b"/Filter/FlateDecode")
    return simple(zlib.compress(packed, 9), b"/Filter[/FlateDecode/FlateDecode]")


_TYPES = (
    b'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    b'<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    b'<Default Extension="bin" ContentType="%s.main+xml"/>'
    b'<Override PartName="/word/document.xml" ContentType="%s.main+xml"/></Types>'
)
_MAIN = b"application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_RELATIONSHIPS = (
    b'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" '
    b'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="%s"/></Relationships>'
)
BODY = b'<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>%s</w:body></w:document>'


def word(document: bytes, more: dict[str, bytes] | None = None, name: str = "word/document.xml") -> bytes:
    """A minimal Word document with this main part and further members."""
    members = {
        "[Content_Types].xml": _TYPES % (_MAIN, _MAIN),
        "_rels/.rels": _RELATIONSHIPS % name.encode(),
        name: document,
        **(more or {}),
    }
    return zip_of(members)


def said(text: bytes) -> bytes:
    """A main part with one paragraph."""
    return BODY % (b"<w:p><w:r><w:t>%s</w:t></w:r></w:p>" % text)


def thousand_to_one() -> bytes:
    """200 KB of archive, 200 MB of document."""
    return word(said(b"a" * 200_000_000))


def small_bombs() -> bytes:
    """Members that are each below what is looked at one by one, and 300 MB together."""
    return word(said(b"text"), {f"word/part{number}.xml": b"<a>%s</a>" % (b" " * 1_000_000) for number in range(300)})


def thousands_of_members(count: int = 100_000) -> bytes:
    """Empty members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as made:
        for number in range(count):
            made.writestr(f"m{number}", b"")
    return buffer.getvalue()


def nested_archives() -> bytes:
    """An archive in an archive in an archive."""
    inner = zip_of({"a.txt": b"0" * 1_000_000})
    for _ in range(5):
        inner = zip_of({f"{number}.zip": inner for number in range(4)})
    return word(said(b"text"), {"more.zip": inner})


def entity_bomb(entities: int = 10) -> bytes:
    """A billion laughs."""
    declared = b'<!ENTITY l0 "lol">' + b"".join(
        b'<!ENTITY l%d "%s">' % (number, b"&l%d;" % (number - 1) * 10) for number in range(1, entities)
    )
    return b"<!DOCTYPE lolz [%s]>" % declared + said(b"&l%d;" % (entities - 1))


def external_entity(file: str) -> bytes:
    """Asks for the content of a file."""
    return b'<!DOCTYPE d [<!ENTITY x SYSTEM "file://%s">]>' % file.encode() + said(b"&x;")


def deep(levels: int) -> bytes:
    """Elements within one another."""
    return BODY % (b"<w:p>" + b"<w:smartTag>" * levels + b"</w:smartTag>" * levels + b"</w:p>")


def deep_tables(levels: int) -> bytes:
    """Tables within one another."""
    return BODY % (b"<w:tbl><w:tr><w:tc>" * levels + b"<w:p/>" + b"</w:tc></w:tr></w:tbl>" * levels)


def named(names: Sequence[str]) -> bytes:
    """A Word document with members of these names, which may be the same."""
    buffer = io.BytesIO(word(said(b"text")))
    with zipfile.ZipFile(buffer, "a") as made:
        for name in names:
            made.writestr(zipfile.ZipInfo(name), b"x")
    return buffer.getvalue()


def sheet_of(cells: int) -> bytes:
    """The XML of a sheet with so many cells."""
    rows = b"".join(
        b"<row>"
        + b"".join(b"<c><v>%d</v></c>" % (number * 7919 % 65_537) for number in range(start, start + 100))
        + b"</row>"
        for start in range(0, cells, 100)
    )
    namespace = b"http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    return b'<worksheet xmlns="%s"><sheetData>%s</sheetData></worksheet>' % (namespace, rows)


def encrypted_office() -> bytes:
    """What an encrypted office document begins with, and the name of the stream that holds it."""
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 504 + "EncryptedPackage".encode("utf-16-le") + b"\0" * 512


def old_office() -> bytes:
    """A document of the format before 2007."""
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 504 + "WordDocument".encode("utf-16-le") + b"\0" * 512


def password_zip() -> bytes:
    """A zip archive whose members say that they are encrypted."""
    content = bytearray(word(said(b"text")))
    at = 0
    for magic, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = 0
        while (at := content.find(magic, at)) >= 0:
            content[at + offset] |= 1
            at += 4
    return bytes(content)
