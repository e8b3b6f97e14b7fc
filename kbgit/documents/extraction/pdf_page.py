"""What PDFium says about a page: its text in pieces of one line each, with place and style, and the lines drawn on it.

PDFium gives a text's characters in logical order, so that right-to-left text reads as it was typed.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pypdfium2 as pdfium
import pypdfium2.raw as raw

from kbgit.documents.extraction.pdf_rules import Grid, Rule, grids

_HYPHENS = frozenset({0x02, 0xAD, 0x2010, 0xFFFE})
"""What PDFium gives for a hyphen at a line's end, and others that mean no more than one."""
_LINE_ENDS = frozenset({0x00, 0x0A, 0x0D})
_BLANK = _LINE_ENDS | {0x09, 0x20, 0xA0}
_BOLD = re.compile(r"bold|black|heavy|semibd|demi", re.IGNORECASE)
_BOLD_WEIGHT = 600
_GAP = 1.5
"""Of the text's size; blank space wider than that parts columns and cells."""
_WORD_GAP = 0.2
_UPRIGHT = 0.02
"""Radians."""
_MOST_OBJECTS = 50_000
_MOST_PIECES_OF_PATH = 2_000
_STRAIGHT = 2.0
"""Points that a line may be thick or aslant."""

Slot = tuple[int, int, int]
"""Number of a page's grid, row and column in it."""


@dataclass(frozen=True, slots=True)
class Style:
    """How text is set: its size in points, and whether it is bold."""

    size: float
    bold: bool
    upright: bool = True


@dataclass(slots=True)
class Piece:
    """Text on one line without a wide gap. The box is in points from the page's lower left corner as it is read."""

    x0: float
    y0: float
    x1: float
    y1: float
    style: Style
    slot: Slot | None = None
    characters: list[str] = field(default_factory=list)
    styles: Counter[Style] = field(default_factory=Counter)
    """How many characters are set so. `style` is that of the first."""

    @property
    def text(self) -> str:
        """What it says."""
        return "".join(self.characters)

    @property
    def middle(self) -> float:
        """Of its height."""
        return (self.y0 + self.y1) / 2


@dataclass(slots=True)
class PageContent:
    """One page's text and tables."""

    number: int
    width: float
    height: float
    pieces: list[Piece]
    grids: list[Grid]
    has_pictures: bool


def read_page(page: pdfium.PdfPage, number: int) -> PageContent:
    """What is on the page with this 1-based number. Raises `pdfium.PdfiumError` when PDFium cannot say."""
    turn = _Turn(page)
    horizontal, vertical, has_pictures = _drawn(page, turn)
    tables = grids(horizontal, vertical)
    textpage = page.get_textpage()
    try:
        pieces = _pieces(textpage, turn, tables)
    finally:
        textpage.close()
    return PageContent(number, turn.width, turn.height, pieces, tables, has_pictures)


_SHOWN_ANNOTATIONS = frozenset({raw.FPDF_ANNOT_WIDGET, raw.FPDF_ANNOT_FREETEXT})
_REMARKS = frozenset(
    {
        raw.FPDF_ANNOT_TEXT,
        raw.FPDF_ANNOT_HIGHLIGHT,
        raw.FPDF_ANNOT_UNDERLINE,
        raw.FPDF_ANNOT_STRIKEOUT,
        raw.FPDF_ANNOT_SQUIGGLY,
        raw.FPDF_ANNOT_CARET,
    }
)
_MOST_ANNOTATIONS = 5_000


def read_annotations(page: pdfium.PdfPage) -> tuple[bool, list[str]]:
    """Whether form fields or text lie upon the page, which are no part of it, and what readers remarked on it."""
    shown, remarks = False, []
    for index in range(min(raw.FPDFPage_GetAnnotCount(page), _MOST_ANNOTATIONS)):
        annotation = raw.FPDFPage_GetAnnot(page, index)
        if not annotation:
            continue
        kind = raw.FPDFAnnot_GetSubtype(annotation)
        shown = shown or kind in _SHOWN_ANNOTATIONS
        if kind in _REMARKS and (said := _contents(annotation)):
            remarks.append(said)
        raw.FPDFPage_CloseAnnot(annotation)
    return shown, remarks


def _contents(annotation: raw.FPDF_ANNOTATION) -> str:
    length = raw.FPDFAnnot_GetStringValue(annotation, b"Contents", None, 0)
    if not 2 < length < 1 << 20:
        return ""
    buffer = ctypes.create_string_buffer(length)
    raw.FPDFAnnot_GetStringValue(annotation, b"Contents", ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)), length)
    return buffer.raw.decode("utf-16-le", "replace").rstrip("\0")


class _Turn:
    """From a page's own coordinates to those of the page as it is read, which may be turned by quarters."""

    def __init__(self, page: pdfium.PdfPage) -> None:
        left, bottom, right, top = page.get_cropbox()
        self._left, self._bottom = min(left, right), min(bottom, top)
        width, height = abs(right - left), abs(top - bottom)
        self._own_width, self._own_height = width, height
        self.quarters = page.get_rotation() // 90 % 4
        self.width, self.height = (height, width) if self.quarters % 2 else (width, height)

    def box(self, x0: float, y0: float, x1: float, y1: float) -> tuple[float, float, float, float]:
        x0, x1, y0, y1 = x0 - self._left, x1 - self._left, y0 - self._bottom, y1 - self._bottom
        match self.quarters:
            case 1:
                return y0, self._own_width - x1, y1, self._own_width - x0
            case 2:
                return self._own_width - x1, self._own_height - y1, self._own_width - x0, self._own_height - y0
            case 3:
                return self._own_height - y1, x0, self._own_height - y0, x1
            case _:
                return x0, y0, x1, y1


def _pieces(textpage: pdfium.PdfTextPage, turn: _Turn, tables: list[Grid]) -> list[Piece]:
    # Run for each character of a book: what can be asked once for a word is asked once.
    handle = textpage.raw
    unicode_of, box_of = raw.FPDFText_GetUnicode, raw.FPDFText_GetLooseCharBox
    styles: dict[int, Style] = {}
    style: Style | None = None
    pieces: list[Piece] = []
    current: Piece | None = None
    space = True
    rectangle = raw.FS_RECTF()
    for index in range(raw.FPDFText_CountChars(handle)):
        code = unicode_of(handle, index)
        if code in _BLANK:
            space = space or code not in _LINE_ENDS
            style = None
            continue
        if not box_of(handle, index, rectangle):
            continue
        box = turn.box(rectangle.left, rectangle.bottom, rectangle.right, rectangle.top)
        x0, y0, x1, y1 = box
        if not math.isfinite(x0 + y0 + x1 + y1):
            continue
        if style is None:
            style = _style(handle, index, turn, styles)
        slot = _slot(tables, (x0 + x1) / 2, (y0 + y1) / 2) if tables else None
        if current is None or not _continues(current, box, style, slot):
            style = _style(handle, index, turn, styles)
            current = Piece(x0, y0, x1, y1, style, slot)
            pieces.append(current)
        elif space or _is_apart(current, x0, x1):
            current.characters.append(" ")
        space = False
        current.styles[style] += 1
        current.characters.append("\u2010" if code in _HYPHENS else chr(code) if code < 0x110000 else "\ufffd")
        if x1 > x0:
            if x0 < current.x0:
                current.x0 = x0
            if x1 > current.x1:
                current.x1 = x1
    for piece in pieces:  # halves of a character beyond the first plane
        if any("\ud800" <= character <= "\udfff" for character in piece.characters):
            piece.characters = list(piece.text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    return pieces


def _continues(piece: Piece, box: tuple[float, float, float, float], style: Style, slot: Slot | None) -> bool:
    x0, y0, x1, y1 = box
    if slot != piece.slot or style.upright != piece.style.upright:
        return False
    if not (piece.y0 <= (y0 + y1) / 2 <= piece.y1 or y0 <= piece.middle <= y1):
        return False
    gap = x0 - piece.x1 if x0 >= piece.x0 else piece.x0 - x1
    return gap <= _GAP * max(piece.style.size, style.size)


def _is_apart(piece: Piece, x0: float, x1: float) -> bool:
    gap = x0 - piece.x1 if x0 >= piece.x0 else piece.x0 - x1
    return gap > _WORD_GAP * piece.style.size


def _slot(tables: list[Grid], x: float, y: float) -> Slot | None:
    for number, grid in enumerate(tables):  # the smallest first
        if (cell := grid.cell_at(x, y)) is not None:
            return number, *cell
    return None


def _style(handle: raw.FPDF_TEXTPAGE, index: int, turn: _Turn, known: dict[int, Style]) -> Style:
    """The style of a character, looked up once for all of the same text object."""
    drawn = raw.FPDFText_GetTextObject(handle, index)
    key = ctypes.cast(drawn, ctypes.c_void_p).value or 0
    if key in known:
        return known[key]
    size = raw.FPDFText_GetFontSize(handle, index)
    matrix = raw.FS_MATRIX()
    if raw.FPDFText_GetMatrix(handle, index, matrix):
        scale = math.hypot(matrix.c, matrix.d)
        if math.isfinite(scale) and scale > 0:
            size *= scale
    weight = raw.FPDFText_GetFontWeight(handle, index)
    bold = weight >= _BOLD_WEIGHT or bool(_BOLD.search(_font_name(handle, index)))
    angle = raw.FPDFText_GetCharAngle(handle, index)
    upright = turn.quarters != 0 or min(angle % (2 * math.pi), -angle % (2 * math.pi)) < _UPRIGHT or angle < 0
    style = Style(round(size, 1) if math.isfinite(size) and size > 0 else 1.0, bold, upright)
    if key:
        known[key] = style
    return style


def _font_name(handle: raw.FPDF_TEXTPAGE, index: int) -> str:
    flags = ctypes.c_int()
    buffer = ctypes.create_string_buffer(128)
    length = raw.FPDFText_GetFontInfo(handle, index, buffer, len(buffer), flags)
    return buffer.value.decode("utf-8", "replace") if 0 < length <= len(buffer) else ""


def _drawn(page: pdfium.PdfPage, turn: _Turn) -> tuple[list[Rule], list[Rule], bool]:
    """Straight lines across and down, and whether there are pictures."""
    horizontal: list[Rule] = []
    vertical: list[Rule] = []
    has_pictures = False
    for index in range(min(raw.FPDFPage_CountObjects(page), _MOST_OBJECTS)):
        drawn = raw.FPDFPage_GetObject(page, index)
        kind = raw.FPDFPageObj_GetType(drawn)
        if kind in (raw.FPDF_PAGEOBJ_IMAGE, raw.FPDF_PAGEOBJ_SHADING):
            has_pictures = True
        elif kind == raw.FPDF_PAGEOBJ_FORM:
            has_pictures = has_pictures or _holds_picture(drawn, 0)
        elif kind == raw.FPDF_PAGEOBJ_PATH:
            for box in _strokes(drawn):
                x0, y0, x1, y1 = turn.box(*box)
                if not all(map(math.isfinite, (x0, y0, x1, y1))):
                    continue
                if y1 - y0 <= _STRAIGHT < x1 - x0:
                    horizontal.append(Rule((y0 + y1) / 2, x0, x1))
                elif x1 - x0 <= _STRAIGHT < y1 - y0:
                    vertical.append(Rule((x0 + x1) / 2, y0, y1))
    return horizontal, vertical, has_pictures


def _holds_picture(form: raw.FPDF_PAGEOBJECT, depth: int) -> bool:
    for index in range(min(raw.FPDFFormObj_CountObjects(form), 100)):
        inner = raw.FPDFFormObj_GetObject(form, index)
        kind = raw.FPDFPageObj_GetType(inner)
        if kind == raw.FPDF_PAGEOBJ_IMAGE or (
            kind == raw.FPDF_PAGEOBJ_FORM and depth < 3 and _holds_picture(inner, depth + 1)
        ):
            return True
    return False


def _strokes(path: raw.FPDF_PAGEOBJECT) -> Iterator[tuple[float, float, float, float]]:
    """Boxes of a path's straight pieces; of a thin area, which is a line too, its own."""
    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    if not raw.FPDFPageObj_GetBounds(path, left, bottom, right, top):
        return
    box = (left.value, bottom.value, right.value, top.value)
    if not all(map(math.isfinite, box)):
        return
    if min(box[2] - box[0], box[3] - box[1]) <= _STRAIGHT:
        yield box
        return
    matrix = raw.FS_MATRIX()
    raw.FPDFPageObj_GetMatrix(path, matrix)
    start: tuple[float, float] | None = None
    last: tuple[float, float] | None = None
    x, y = ctypes.c_float(), ctypes.c_float()
    for index in range(min(raw.FPDFPath_CountSegments(path), _MOST_PIECES_OF_PATH)):
        segment = raw.FPDFPath_GetPathSegment(path, index)
        if not raw.FPDFPathSegment_GetPoint(segment, x, y):
            continue
        point = (
            matrix.a * x.value + matrix.c * y.value + matrix.e,
            matrix.b * x.value + matrix.d * y.value + matrix.f,
        )
        kind = raw.FPDFPathSegment_GetType(segment)
        if kind == raw.FPDF_SEGMENT_MOVETO:
            start = point
        elif kind == raw.FPDF_SEGMENT_LINETO and last is not None:
            yield _between(last, point)
        last = point
        if raw.FPDFPathSegment_GetClose(segment) and start is not None and start != last:
            yield _between(last, start)


def _between(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float, float, float]:
    return min(one[0], other[0]), min(one[1], other[1]), max(one[0], other[0]), max(one[1], other[1])
