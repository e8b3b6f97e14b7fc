"""Short ways through the XML of office documents, as python-docx and python-pptx hold it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Element = Any
"""An element of lxml, which has no types of its own."""

_OFFICE = "http://schemas.openxmlformats.org"
_NAMESPACES = {
    "a": f"{_OFFICE}/drawingml/2006/main",
    "c": f"{_OFFICE}/drawingml/2006/chart",
    "dgm": f"{_OFFICE}/drawingml/2006/diagram",
    "m": f"{_OFFICE}/officeDocument/2006/math",
    "mc": f"{_OFFICE}/markup-compatibility/2006",
    "p": f"{_OFFICE}/presentationml/2006/main",
    "r": f"{_OFFICE}/officeDocument/2006/relationships",
    "w": f"{_OFFICE}/wordprocessingml/2006/main",
}
_PREFIXES = {namespace: prefix for prefix, namespace in _NAMESPACES.items()}


def full(name: str) -> str:
    """`w:p` as lxml names it."""
    prefix, local = name.split(":")
    return f"{{{_NAMESPACES[prefix]}}}{local}"


def short(element: Element) -> str:
    """`w:p` for an element of a namespace known here; empty for any other, a comment included."""
    tag = element.tag
    if not isinstance(tag, str) or not tag.startswith("{"):
        return ""
    namespace, local = tag[1:].split("}")
    prefix = _PREFIXES.get(namespace)
    return f"{prefix}:{local}" if prefix else ""


def child(parent: Element | None, name: str) -> Element | None:
    """The first child of this name; None without one, or without a parent."""
    return None if parent is None else parent.find(full(name))


def attribute(element: Element | None, name: str) -> str | None:
    """The value of an attribute with a namespace; None without one."""
    return None if element is None else element.get(full(name))


def below(element: Element, *names: str) -> Iterator[Element]:
    """Every element of these names inside `element`, in the document's order."""
    return iter(element.iter(*(full(name) for name in names)))


def alternatives(element: Element) -> list[Element]:
    """What a reader shall take of `mc:AlternateContent`: the first choice, or else the fallback. Never both."""
    choice = child(element, "mc:Choice")
    taken = choice if choice is not None else child(element, "mc:Fallback")
    return [] if taken is None else list(taken)
