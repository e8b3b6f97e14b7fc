"""Presentations, slide by slide, through python-pptx: titles, text in groups, tables, charts, diagrams, notes, comments.

A slide's text keeps the order that its author (and a screen reader) goes through it. Dates and slide numbers are left out;
a footer is kept once for all slides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pptx
from pptx.chart.chart import Chart
from pptx.enum.shapes import PP_PLACEHOLDER
from pptx.exc import PythonPptxError
from pptx.opc.package import Part
from pptx.oxml import parse_xml
from pptx.shapes.base import BaseShape
from pptx.shapes.graphfrm import GraphicFrame
from pptx.shapes.group import GroupShape
from pptx.slide import Slide

from kbgit.documents.contract import Extracted, ExtractionFailed, ExtractionLimits, Reason
from kbgit.documents.extraction import archive, markdown
from kbgit.documents.extraction.elements import Element, alternatives, attribute, below, child, full, short
from kbgit.documents.extraction.markdown import Cell, Inline, ListItem, Page, Table
from kbgit.documents.extraction.titles import title_of
from kbgit.place import PlaceKind

_TITLES = frozenset({PP_PLACEHOLDER.TITLE, PP_PLACEHOLDER.CENTER_TITLE, PP_PLACEHOLDER.VERTICAL_TITLE})
_LISTS = frozenset({PP_PLACEHOLDER.BODY, PP_PLACEHOLDER.OBJECT, PP_PLACEHOLDER.VERTICAL_BODY})
_ON_EVERY_SLIDE = frozenset({PP_PLACEHOLDER.DATE, PP_PLACEHOLDER.SLIDE_NUMBER})
_HEADING = 2
_MOST_POINTS = 1000
"""Categories of a chart that are written out."""


def extract(file: Path, limits: ExtractionLimits) -> Extracted:
    """The text of a presentation. Raises `ExtractionFailed`."""
    contents = archive.check(file, limits)
    with archive.damaged_when_a_library_fails(PythonPptxError):
        presentation = pptx.Presentation(str(file))
        slides = list(presentation.slides)
        if len(slides) > limits.pages:
            raise ExtractionFailed(Reason.TOO_LARGE, f"The presentation has more than {limits.pages:,} slides.")
        reader = _Reader(limits)
        for number, slide in enumerate(slides, 1):
            reader.read(number, slide)
        reader.page.add(*(f"Footer: {footer}" for footer in reader.footers))
        title = title_of(presentation.core_properties.title, reader.first_title)
    if not reader.said and not reader.footers:
        raise ExtractionFailed(Reason.NO_TEXT_LAYER, "The presentation holds no text.")
    return Extracted(reader.page.text(), title, archive.notes_on(contents, reader.charts))


class _Reader:
    """Reads slides into a page."""

    def __init__(self, limits: ExtractionLimits) -> None:
        self.page = Page(limits)
        self.first_title: str | None = None
        self.footers: dict[str, None] = {}
        self.said = False
        self.charts = 0
        """Each has a workbook of its own embedded, whose numbers it repeats."""
        self._addresses: Mapping[str, str] = {}
        self._limits = limits

    def read(self, number: int, slide: Slide) -> None:
        self.page.add_place(PlaceKind.SLIDE, number)
        self._addresses = _addresses(slide.part)
        shapes = list(self._shapes(slide.shapes, 0))
        titles = [shape for shape in shapes if _placeholder(shape) in _TITLES]
        title = " ".join(" ".join(_text_of(shape) for shape in titles).split())
        self.page.add(markdown.heading(_HEADING, title or f"Slide {number}"))
        self.said = self.said or bool(title)
        if self.first_title is None and title:
            self.first_title = title
        if slide.element.get("show") in ("0", "false"):
            self.page.add("*(hidden slide)*")
        written = self.page.said
        for shape in shapes:
            if _placeholder(shape) not in _TITLES:
                self._shape(shape)
        self._notes(slide)
        self._comments(slide)
        self.said = self.said or self.page.said > written

    def _shapes(self, shapes: Iterable[BaseShape], depth: int) -> Iterator[BaseShape]:
        """All shapes, also those in groups."""
        if depth > self._limits.nesting:
            raise ExtractionFailed(Reason.TOO_LARGE, "The slide's shapes are nested too deeply.")
        for shape in shapes:
            if isinstance(shape, GroupShape):
                yield from self._shapes(shape.shapes, depth + 1)
            else:
                yield shape

    def _shape(self, shape: BaseShape) -> None:
        placeholder = _placeholder(shape)
        if placeholder in _ON_EVERY_SLIDE:
            return
        if placeholder in (PP_PLACEHOLDER.FOOTER, PP_PLACEHOLDER.HEADER):
            if said := " ".join(_text_of(shape).split()):
                self.footers[said] = None
        elif isinstance(shape, GraphicFrame):
            self._frame(shape)
        elif shape.has_text_frame:
            self._text(_paragraphs(shape), as_list=placeholder in _LISTS)

    def _text(self, paragraphs: list[Element], *, as_list: bool) -> None:
        """Paragraphs, as entries of a list where they are shown so. A lone one in a placeholder is running text."""
        as_list = as_list and len(paragraphs) > 1
        counts: dict[int, int] = {}
        for paragraph in paragraphs:
            inline = markdown.tidy(_inline(paragraph, self._addresses))
            properties = child(paragraph, "a:pPr")
            level = _level(properties)
            has = {short(element) for element in properties} if properties is not None else set()
            for deeper in [known for known in counts if known > level]:
                del counts[deeper]
            if not inline.strip():
                continue
            if "a:buAutoNum" in has:
                counts[level] = counts.get(level, 0) + 1
                self.page.add_item(ListItem(level, inline, counts[level]))
            elif has & {"a:buChar", "a:buBlip"} or (("a:buNone" not in has) and (as_list or level > 0)):
                counts.pop(level, None)
                self.page.add_item(ListItem(level, inline))
            else:
                counts.clear()
                self.page.add(markdown.paragraph(inline))

    def _frame(self, frame: GraphicFrame) -> None:
        if frame.has_table:
            rows = [
                tuple(Cell() if cell.is_spanned else Cell(_joined(cell._tc)) for cell in row.cells)
                for row in frame.table.rows
            ]
            self.page.add(*markdown.table(Table(tuple(rows))))
        elif frame.has_chart:
            self._chart(frame.chart)
            self.charts += 1
        else:
            for ids in below(frame._element, "dgm:relIds"):
                self._diagram(frame.part.related_part(attribute(ids, "r:dm") or ""))

    def _chart(self, chart: Chart) -> None:
        if chart.has_title and chart.chart_title.has_text_frame:
            self.page.add(f"Chart: {_joined(chart.chart_title.text_frame._txBody)}")
        for plot in chart.plots:
            series = list(plot.series)
            names = [markdown.literal(markdown.one_line(one.name or "")) for one in series]
            values = [list(one.values)[:_MOST_POINTS] for one in series]
            categories = [markdown.literal(str(category)) for category in plot.categories][:_MOST_POINTS]
            length = max([len(categories), *map(len, values)], default=0)
            rows = [
                [categories[point] if point < len(categories) else ""]
                + [_number(column[point]) if point < len(column) else "" for column in values]
                for point in range(length)
            ]
            self.page.add(*markdown.table(Table.of([["", *names], *rows])))

    def _diagram(self, part: Part) -> None:
        for text in below(parse_xml(part.blob), "dgm:t"):
            if inline := _joined(text):
                self.page.add_item(ListItem(0, inline))

    def _notes(self, slide: Slide) -> None:
        if slide.has_notes_slide and (frame := slide.notes_slide.notes_text_frame) is not None:
            paragraphs = [markdown.paragraph(_inline(element)) for element in frame._txBody.iterchildren(full("a:p"))]
            first, *more = [inline for inline in paragraphs if inline.strip()] or [""]
            self.page.add(f"Notes: {first}" if first else "", *more)

    def _comments(self, slide: Slide) -> None:
        for relationship in slide.part.rels.values():
            if not relationship.is_external and relationship.reltype.endswith("/comments"):
                root = parse_xml(relationship.target_part.blob)
                for element in root.iter():
                    if short(element) == "p:text":
                        said = markdown.literal(element.text or "")
                    elif str(element.tag).endswith("}txBody"):  # of the threaded comments of later programs
                        said = _joined(element)
                    else:
                        continue
                    self.page.add(f"Comment: {said}" if said else "")


def _placeholder(shape: BaseShape) -> PP_PLACEHOLDER | None:
    return shape.placeholder_format.type if shape.is_placeholder else None


def _paragraphs(shape: BaseShape) -> list[Element]:
    body = child(shape._element, "p:txBody")
    return [] if body is None else list(body.iterchildren(full("a:p")))


def _text_of(shape: BaseShape) -> str:
    return "\n".join(_inline(paragraph) for paragraph in _paragraphs(shape))


def _joined(body: Element) -> str:
    """All paragraphs of a text body, as lines."""
    lines = (markdown.tidy(_inline(paragraph)) for paragraph in below(body, "a:p"))
    return "\n".join(line for line in lines if line)


def _inline(parent: Element, addresses: Mapping[str, str] = MappingProxyType({})) -> str:
    made = Inline()
    for element in parent:
        match short(element):
            case "a:r" | "a:fld":
                text = child(element, "a:t")
                said = "" if text is None else text.text or ""
                if address := addresses.get(_link(element)):
                    made.markup(markdown.link(markdown.escaped(said), address))
                else:
                    made.text(said)
            case "a:br":
                made.text("\n")
            case "mc:AlternateContent":
                for taken in alternatives(element):
                    made.text("".join(text.text or "" for text in below(taken, "m:t")))
    return made.inline()


def _link(run: Element) -> str:
    """The id of the relationship that a run's link is; empty without a link."""
    return attribute(child(child(run, "a:rPr"), "a:hlinkClick"), "r:id") or ""


def _addresses(part: Part) -> dict[str, str]:
    """Where a slide's links to the outside lead, by their ids."""
    return {name: one.target_ref for name, one in part.rels.items() if one.is_external}


def _level(properties: Element | None) -> int:
    value = "" if properties is None else properties.get("lvl") or ""
    return min(int(value), 8) if value.isascii() and value.isdigit() else 0


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.15g}"
