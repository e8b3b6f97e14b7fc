"""Word documents. python-docx opens them and knows their parts; what it leaves out is read from the same XML here.

Kept: headings, lists, tables with what is nested in them, links, text boxes, tracked insertions, the shown results of
fields; at the end footnotes and endnotes, page headers and footers (each text once), and comments. Left out: tracked
deletions and hidden text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import docx
from docx.document import Document
from docx.opc.exceptions import OpcError
from docx.oxml.parser import parse_xml

from kbgit.documents.contract import Extracted, ExtractionFailed, ExtractionLimits, Reason
from kbgit.documents.extraction import archive, markdown
from kbgit.documents.extraction.docx_styles import Styles
from kbgit.documents.extraction.elements import Element, alternatives, attribute, child, full, short
from kbgit.documents.extraction.markdown import Cell, Inline, ListItem, Page, Table
from kbgit.documents.extraction.titles import title_of

_PASSED_THROUGH = frozenset(
    "w:ins w:moveTo w:smartTag w:sdt w:sdtContent w:fldSimple w:customXml w:bdo w:dir w:ruby w:rubyBase w:r".split()
)
_BREAKS_WITHIN_TEXT = frozenset({None, "textWrapping"})
_NOTES = {"w:footnoteReference": "footnotes", "w:endnoteReference": "endnotes"}
_NOTE_ELEMENTS = {"footnotes": "w:footnote", "endnotes": "w:endnote"}
_SEPARATORS = frozenset({"separator", "continuationSeparator", "continuationNotice"})
_OFF = frozenset({"0", "false", "off"})


def extract(file: Path, limits: ExtractionLimits) -> Extracted:
    """The text of a Word document. Raises `ExtractionFailed`."""
    contents = archive.check(file, limits)
    with archive.damaged_when_a_library_fails(OpcError):
        document = docx.Document(str(file))
        reader = _Reader(document, limits)
        reader.read()
        title = title_of(document.core_properties.title, reader.first_heading)
    page = reader.page
    if not page.said:
        raise ExtractionFailed(Reason.NO_TEXT_LAYER, "The document holds no text.")
    return Extracted(page.text(), title, archive.notes_on(contents))


@dataclass(frozen=True, slots=True)
class _Paragraph:
    """One block of text as it was found: its inline text, and what it is."""

    inline: str
    level: int | None = None
    """Of a heading."""
    item: ListItem | None = None


_Block = _Paragraph | Table


@dataclass(slots=True)
class _Line:
    """Text being put together from runs; text boxes that were anchored in it follow it."""

    inline: Inline = field(default_factory=Inline)
    boxes: list[_Block] = field(default_factory=list)


class _Reader:
    """Reads one document into a page."""

    def __init__(self, document: Document, limits: ExtractionLimits) -> None:
        self.page = Page(limits)
        self.first_heading: str | None = None
        self._document = document
        self._limits = limits
        self._styles = Styles(document)
        self._notes = {part: dict(self._notes_of(part)) for part in _NOTE_ELEMENTS}
        self._referenced: dict[tuple[str, str], int] = {}
        self._addresses = {
            name: relationship.target_ref
            for name, relationship in document.part.rels.items()
            if relationship.is_external and relationship.reltype.endswith("/hyperlink")
        }

    def read(self) -> None:
        self._write(self._blocks(self._document.element.body, 0))
        self._write_notes()
        self._write_margins("header", "Header")
        self._write_margins("footer", "Footer")
        self._write_comments()

    # What is written

    def _write(self, blocks: Iterable[_Block]) -> None:
        for block in blocks:
            if isinstance(block, Table):
                self.page.add(*markdown.table(block))
            elif block.item:
                self.page.add_item(block.item)
            elif block.level and block.inline.strip():
                if self.first_heading is None:
                    self.first_heading = block.inline
                self.page.add(markdown.heading(block.level, block.inline))
            else:
                self.page.add(markdown.paragraph(block.inline))

    def _write_notes(self) -> None:
        written = 0
        while written < len(self._referenced):  # a note may refer to a further one
            (part, note_id), number = list(self._referenced.items())[written]
            written += 1
            if (element := self._notes[part].get(note_id)) is not None:
                text = self._flat(self._blocks(element, 0))
                said = markdown.paragraph(text.inline).replace("\n", "\n    ")
                self.page.add(f"[^{number}]: {said}" if said else "")
                self.page.add(*(block for table in text.tables for block in markdown.table(table)))

    def _write_margins(self, kind: str, label: str) -> None:
        seen: set[str] = set()
        for element in self._parts(kind):
            text = self._flat(self._blocks(element, 0))
            said = " ".join(text.inline.split())
            if (any(map(str.isalpha, said)) or text.tables) and said not in seen:
                seen.add(said)
                self.page.add(f"{label}: {said}" if said else "")
                self.page.add(*(block for table in text.tables for block in markdown.table(table)))

    def _write_comments(self) -> None:
        items = []
        for part in self._parts("comments"):
            for comment in part.iterchildren(full("w:comment")):
                author = markdown.literal(markdown.one_line(attribute(comment, "w:author") or ""))
                if said := self._flat(self._blocks(comment, 0)).inline:
                    items.append(ListItem(0, f"{author}: {said}" if author else said))
        if items:
            self.page.add(markdown.heading(2, "Comments"))
            for item in items:
                self.page.add_item(item)

    # Parts beside the document's own

    def _parts(self, kind: str) -> Iterator[Element]:
        for relationship in self._document.part.rels.values():
            if not relationship.is_external and relationship.reltype.endswith(f"/{kind}"):
                part = relationship.target_part
                element = getattr(part, "element", None)
                yield element if element is not None else parse_xml(part.blob)

    def _notes_of(self, part: str) -> Iterator[tuple[str, Element]]:
        for element in self._parts(part):
            for note in element.iterchildren(full(_NOTE_ELEMENTS[part])):
                if attribute(note, "w:type") not in _SEPARATORS:
                    yield attribute(note, "w:id") or "", note

    # What is read

    def _blocks(self, parent: Element, depth: int) -> Iterator[_Block]:
        """The blocks directly in `parent`: the body, a cell, a note or a text box. `depth` counts those around it."""
        if depth > self._limits.nesting:
            raise ExtractionFailed(Reason.TOO_LARGE, "The document's parts are nested too deeply.")
        for element in parent:
            match short(element):
                case "w:p":
                    yield from self._paragraph(element, depth)
                case "w:tbl":
                    yield self._table(element, depth)
                case "w:sdt" | "w:sdtContent" | "w:customXml" | "w:ins" | "w:moveTo":
                    yield from self._blocks(element, depth)
                case "mc:AlternateContent":
                    for taken in alternatives(element):
                        yield from self._blocks(taken, depth + 1)

    def _paragraph(self, element: Element, depth: int) -> Iterator[_Block]:
        line = _Line()
        self._runs(element, line, depth)
        inline = markdown.tidy(line.inline.inline())
        level = self._styles.heading_level(element)
        place = self._styles.list_place(element) if inline.strip() else None
        if place is None:
            yield _Paragraph(inline, level)
        else:
            number, label = self._styles.count(place)
            if level is not None:
                yield _Paragraph(f"{markdown.literal(label)} {inline}" if label else inline, level)
            else:
                yield _Paragraph(inline, item=ListItem(place.level, inline, number))
        yield from line.boxes

    def _runs(self, parent: Element, line: _Line, depth: int) -> None:
        for element in parent:
            match short(element):
                case "w:t" | "m:t":
                    line.inline.text(element.text or "")
                case "w:tab" | "w:ptab":
                    line.inline.text(" ")
                case "w:br" | "w:cr":
                    line.inline.text("\n" if attribute(element, "w:type") in _BREAKS_WITHIN_TEXT else " ")
                case "w:noBreakHyphen":
                    line.inline.text("-")
                case "w:r" if _is_hidden(element):
                    pass
                case "w:hyperlink":
                    inside = _Line(boxes=line.boxes)
                    self._runs(element, inside, depth)
                    address = self._addresses.get(attribute(element, "r:id") or "")
                    line.inline.markup(markdown.link(inside.inline.inline(), address))
                case "w:footnoteReference" | "w:endnoteReference" as reference:
                    key = (_NOTES[reference], attribute(element, "w:id") or "")
                    if key[1] in self._notes[key[0]]:
                        line.inline.markup(f"[^{self._referenced.setdefault(key, len(self._referenced) + 1)}]")
                case "mc:AlternateContent":
                    for taken in alternatives(element):
                        self._boxes(taken, line, depth)
                case "w:drawing" | "w:pict" | "w:object":
                    self._boxes(element, line, depth)
                case name if name in _PASSED_THROUGH or name.startswith("m:"):
                    self._runs(element, line, depth)

    def _boxes(self, drawing: Element, line: _Line, depth: int) -> None:
        """Reads the text boxes of a drawing, the outermost ones: what is in them is read with them."""
        if short(drawing) == "w:txbxContent":
            line.boxes += self._blocks(drawing, depth + 1)
            return
        inner = alternatives(drawing) if short(drawing) == "mc:AlternateContent" else drawing
        for element in inner:
            self._boxes(element, line, depth)

    def _table(self, element: Element, depth: int) -> Table:
        return Table(tuple(tuple(self._row(row, depth)) for row in _members(element, "w:tr") if not _is_deleted(row)))

    def _row(self, row: Element, depth: int) -> Iterator[Cell]:
        for _ in range(_count(child(row, "w:trPr"), "w:gridBefore")):
            yield Cell()
        for element in _members(row, "w:tc"):
            properties = child(element, "w:tcPr")
            merged = child(properties, "w:vMerge")
            continues = merged is not None and attribute(merged, "w:val") in (None, "continue")
            yield Cell() if continues else self._flat(self._blocks(element, depth + 1))
            for _ in range(_count(properties, "w:gridSpan") - 1):
                yield Cell()

    def _flat(self, blocks: Iterable[_Block]) -> Cell:
        """Blocks as the lines of one cell."""
        lines, tables = [], []
        for block in blocks:
            if isinstance(block, Table):
                tables.append(block)
            elif block.item:
                lines.append(f"{block.item.number}. {block.inline}" if block.item.number else f"• {block.inline}")
            elif block.inline.strip():
                lines.append(block.inline)
        return Cell("\n".join(lines), tuple(tables))


_MOST_COLUMNS = 200


def _count(properties: Element | None, name: str) -> int:
    value = attribute(child(properties, name), "w:val") or ""
    return min(int(value), _MOST_COLUMNS) if value.isascii() and value.isdigit() else 0


def _members(parent: Element, name: str) -> Iterator[Element]:
    """Rows of a table or cells of a row, also those inside content controls."""
    for element in parent:
        match short(element):
            case found if found == name:
                yield element
            case "w:sdt" | "w:sdtContent" | "w:customXml" | "w:ins":
                yield from _members(element, name)


def _is_hidden(run: Element) -> bool:
    vanish = child(child(run, "w:rPr"), "w:vanish")
    return vanish is not None and attribute(vanish, "w:val") not in _OFF


def _is_deleted(row: Element) -> bool:
    return child(child(row, "w:trPr"), "w:del") is not None
