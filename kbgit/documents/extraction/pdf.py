"""PDFs, through PDFium: page by page, with marks, headings by size, tables by their lines, headers and footers once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pypdfium2 as pdfium
import pypdfium2.raw as raw

from kbgit.documents.contract import Extracted, ExtractionFailed, ExtractionLimits, Reason
from kbgit.documents.extraction import markdown, pdf_streams
from kbgit.documents.extraction.markdown import ListItem, Page
from kbgit.documents.extraction.pdf_blocks import Blocks, Fonts, PageText, arrange, keep_margins_once
from kbgit.documents.extraction.pdf_page import PageContent, read_annotations, read_page
from kbgit.documents.extraction.titles import title_of
from kbgit.place import PlaceKind

_PASSWORD = (raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY)
_MOST_NAMED = 12


def extract(file: Path, limits: ExtractionLimits) -> Extracted:
    """The text of a PDF. Raises `ExtractionFailed`."""
    pdf_streams.check(file, limits)
    try:
        document = pdfium.PdfDocument(file)
    except pdfium.PdfiumError as error:
        if error.err_code in _PASSWORD:
            raise ExtractionFailed(Reason.ENCRYPTED, "The PDF is encrypted and opens only with a password.") from error
        raise ExtractionFailed(Reason.CORRUPT, "The PDF is damaged.") from error
    try:
        return _read(document, limits)
    except pdfium.PdfiumError as error:
        raise ExtractionFailed(Reason.CORRUPT, "The PDF is damaged.") from error
    finally:
        document.close()


def _read(document: pdfium.PdfDocument, limits: ExtractionLimits) -> Extracted:
    count = len(document)
    if count > limits.pages:
        raise ExtractionFailed(Reason.TOO_LARGE, f"The PDF has more than {limits.pages:,} pages.")
    pages: list[PageText] = []
    unreadable = []
    remarks: dict[int, list[str]] = {}
    room = limits.output
    for number in range(1, count + 1):
        try:
            content, said = _page(document, number)
        except pdfium.PdfiumError:
            unreadable.append(number)
            continue
        remarks[number] = said
        room -= sum(len(piece.characters) for piece in content.pieces)
        if room < 0:
            raise ExtractionFailed(
                Reason.TOO_LARGE, f"The document's text is larger than the limit of {limits.output:,} bytes."
            )
        pages.append(arrange(content))
    if not pages:
        raise ExtractionFailed(Reason.CORRUPT, "None of the PDF's pages can be read.")
    if not any(page.flow for page in pages):
        raise ExtractionFailed(
            Reason.NO_TEXT_LAYER, "The PDF holds pictures of text and no text; recognise its text first (OCR)."
        )
    pictures = [page.number for page in pages if not page.flow and page.has_pictures]
    blocks = Blocks(Fonts.of(pages))
    keep_margins_once(pages, blocks.fonts.body)
    blocks.learn(pages)
    written = Page(limits)
    for page_text in pages:
        written.add_place(PlaceKind.PAGE, page_text.number)
        for block in blocks.of(page_text):
            if isinstance(block, ListItem):
                written.add_item(block)
            else:
                written.add(block)
        written.add(*(f"Comment: {markdown.literal(said)}" for said in remarks[page_text.number]))
    title = title_of(document.get_metadata_value("Title"), blocks.first_heading)
    return Extracted(written.text(), title, tuple(_notes(unreadable, pictures)))


def _page(document: pdfium.PdfDocument, number: int) -> tuple[PageContent, list[str]]:
    """One page, what is filled into its form fields included, and the remarks on it."""
    page = document[number - 1]
    try:
        has_fields, remarks = read_annotations(page)
        if has_fields and raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY) == raw.FLATTEN_SUCCESS:
            page.close()
            page = document[number - 1]
        return read_page(page, number), remarks
    finally:
        page.close()


def _notes(unreadable: list[int], pictures: list[int]) -> Iterator[str]:
    if unreadable:
        yield f"{_named(unreadable)} could not be read."
    if pictures:
        yield f"{_named(pictures)}: a picture without text; recognise its text first (OCR) to have it found."


def _named(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:_MOST_NAMED])) + (" and more" if len(numbers) > _MOST_NAMED else "")
    return f"Page {shown}" if len(numbers) == 1 else f"Pages {shown}"
