"""What a Word document's styles and numbering say about a paragraph: a heading of which level, an entry of which list."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from docx.document import Document

from kbgit.documents.extraction.elements import Element, attribute, child, full

_DEEPEST_HEADING = 9
_TITLES = frozenset({"title", "titel", "titre", "título", "titolo", "название", "标题", "表題", "제목"})
_HEADING = re.compile(
    r"(?:heading|überschrift|titre|título|titolo|заголовок|标题|標題|見出し|제목|kop|nagłówek|nadpis|rubrik|overskrift|"
    r"otsikko|başlık|intestazione|encabezado|címsor|titlu|επικεφαλίδα|العنوان|عنوان|כותרת)\s*(\d)",
    re.IGNORECASE,
)
_BULLETS = frozenset({"bullet", "none", ""})
_LABELS = frozenset({"decimal", "decimalZero"})


@dataclass(frozen=True, slots=True)
class ListPlace:
    """A paragraph's list and its level in it, from 0."""

    number_id: str
    level: int


@dataclass(frozen=True, slots=True)
class _Style:
    name: str
    based_on: str | None
    outline: int | None
    list_place: tuple[str | None, int] | None


@dataclass(frozen=True, slots=True)
class _Level:
    form: str
    start: int
    label: str


class Styles:
    """The paragraph styles and lists of one document. Counts the lists' entries as the paragraphs are asked for in order."""

    def __init__(self, document: Document) -> None:
        self._styles = dict(_styles(document.styles.element))
        self._levels, self._abstract_of = _numbering(document)
        self._counts: dict[str, dict[int, int]] = {}
        self._seen_ids: set[str] = set()

    def heading_level(self, paragraph: Element) -> int | None:
        """1 to 9 for a heading, 1 for the title; None for any other paragraph."""
        properties = child(paragraph, "w:pPr")
        if (outline := _outline(properties)) is not None:
            return outline + 1 if outline < _DEEPEST_HEADING else None
        for style in self._chain(_value(properties, "w:pStyle")):
            if style.name.casefold() in _TITLES:
                return 1
            if style.outline is not None:
                return style.outline + 1 if style.outline < _DEEPEST_HEADING else None
            if named := _HEADING.fullmatch(style.name.strip()):
                return int(named[1]) or None
        return None

    def list_place(self, paragraph: Element) -> ListPlace | None:
        """Where in which list; None for a paragraph of no list."""
        properties = child(paragraph, "w:pPr")
        number_id, level = _list_properties(properties) or (None, 0)
        if number_id is None:
            for style in self._chain(_value(properties, "w:pStyle")):
                if style.list_place and style.list_place[0] is not None:
                    number_id, level = style.list_place[0], style.list_place[1]
                    break
        return ListPlace(number_id, level) if number_id not in (None, "0") and number_id in self._abstract_of else None

    def count(self, place: ListPlace) -> tuple[int | None, str]:
        """The number of the list's next entry, None when it does not count, and its label as shown (`2.1`; empty so too)."""
        abstract = self._abstract_of[place.number_id]
        levels = self._levels.get(abstract, {})
        own = levels.get(place.level, _Level("bullet", 1, ""))
        counts = self._counts.setdefault(abstract, {})
        if place.number_id not in self._seen_ids:  # a list of its own begins to count anew, as far as one can tell
            self._seen_ids.add(place.number_id)
            if len(levels) and place.level == 0:
                counts.clear()
        for deeper in [level for level in counts if level > place.level]:
            del counts[deeper]
        counts[place.level] = counts.get(place.level, own.start - 1) + 1
        if own.form in _BULLETS:
            return None, ""
        shown = {
            level: counts.get(level, levels[level].start if level in levels else 1) for level in range(place.level + 1)
        }
        forms = {levels[level].form for level in shown if level in levels and f"%{level + 1}" in own.label}
        label = (
            re.sub(r"%(\d)", lambda match: str(shown.get(int(match[1]) - 1, "")), own.label) if forms <= _LABELS else ""
        )
        return max(counts[place.level], 0), label.strip()

    def _chain(self, style_id: str | None) -> Iterator[_Style]:
        seen: set[str] = set()
        while style_id is not None and style_id not in seen and style_id in self._styles:
            seen.add(style_id)
            yield self._styles[style_id]
            style_id = self._styles[style_id].based_on


def _styles(element: Element) -> Iterator[tuple[str, _Style]]:
    for style in element.iterchildren(full("w:style")):
        if (style_id := attribute(style, "w:styleId")) is not None:
            properties = child(style, "w:pPr")
            yield (
                style_id,
                _Style(
                    _value(style, "w:name") or "",
                    _value(style, "w:basedOn"),
                    _outline(properties),
                    _list_properties(properties),
                ),
            )


def _numbering(document: Document) -> tuple[dict[str, dict[int, _Level]], dict[str, str]]:
    levels: dict[str, dict[int, _Level]] = {}
    abstract_of: dict[str, str] = {}
    for relationship in document.part.rels.values():
        if not relationship.reltype.endswith("/numbering") or relationship.is_external:
            continue
        element: Element = relationship.target_part.element
        for abstract in element.iterchildren(full("w:abstractNum")):
            levels[attribute(abstract, "w:abstractNumId") or ""] = {
                _integer(attribute(level, "w:ilvl"), 0): _Level(
                    _value(level, "w:numFmt") or "",
                    _integer(_value(level, "w:start"), 1),
                    _value(level, "w:lvlText") or "",
                )
                for level in abstract.iterchildren(full("w:lvl"))
            }
        for number in element.iterchildren(full("w:num")):
            abstract_of[attribute(number, "w:numId") or ""] = _value(number, "w:abstractNumId") or ""
    return levels, abstract_of


def _value(parent: Element | None, name: str) -> str | None:
    found = child(parent, name)
    return None if found is None else attribute(found, "w:val")


def _outline(properties: Element | None) -> int | None:
    value = _value(properties, "w:outlineLvl")
    return _integer(value, _DEEPEST_HEADING) if value is not None else None


def _list_properties(properties: Element | None) -> tuple[str | None, int] | None:
    found = child(properties, "w:numPr")
    if found is None:
        return None
    return _value(found, "w:numId"), min(max(_integer(_value(found, "w:ilvl"), 0), 0), 8)


def _integer(text: str | None, otherwise: int) -> int:
    return int(text) if text is not None and re.fullmatch(r"-?\d{1,9}", text) else otherwise
