"""An imported file and the item that is there already: what is new, what people did since, and which of them counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kbgit.errors import AlreadyExists, Conflict, DocumentProblem
from kbgit.frontmatter import Value
from kbgit.header_edit import NewValue
from kbgit.importing import SourceFile, digest_of
from kbgit.importing.text import Converted
from kbgit.item import Document, ItemStatus, edit_document, parse_document

_NEVER_MERGED = frozenset({"id", "source", "source_type"})


def created(converted: Converted, status: ItemStatus) -> tuple[bytes, list[str]]:
    """The file of a new item, and what to say about it. Raises `DocumentProblem`."""
    fields: dict[str, NewValue] = {}
    notes: list[str] = []
    document = _document_of(converted)
    if not converted.says_title:
        fields["title"] = converted.title
    if document.status is None:
        fields["status"] = status.value
    elif document.status is not status:
        notes.append(f"keeps its own status, {document.status}")
    if converted.says_title:  # Markdown, which keeps its own bytes
        return edit_document(converted.markdown.encode("utf-8"), fields | converted.source.fields), notes
    return edit_document(b"", fields | converted.source.fields, converted.markdown), notes


def is_made_from(raw: bytes, source: SourceFile) -> bool:
    """Whether a base's file says that it was made from exactly this original."""
    document = _readable(raw)
    return document is not None and digest_of(document.fields, source.name) == source.sha256


def updated(
    converted: Converted, before: bytes, history: Iterable[bytes], locator: str, *, replace: bool, status: ItemStatus
) -> tuple[bytes, list[str]]:
    """The file `before` with the text of a changed original, and what to say about it.

    `history` gives the item's files, newest first. The oldest in a row that names the same original is what the import
    made; where the text is another now, somebody edited it. Front matter is merged field by field: what the original
    changed is taken, unless somebody changed that field too. Raises `AlreadyExists` where no import put the file there,
    `Conflict` where the text was edited since (neither with `replace`), `DocumentProblem`.
    """
    current = _readable(before)
    former = digest_of(current.fields, converted.source.name) if current else None
    if former is None and not replace:
        raise AlreadyExists(
            "there is an item at its place that was not made from this file; replace it, or import into another folder",
            {"locator": locator},
        )
    if current is None:
        return created(converted, status)
    imported = _as_imported(history, converted.source.name, former) if former else None
    if (imported is None or imported.content != current.content) and not replace:
        raise Conflict(
            "its item was edited since the last import; replace it, or carry the change over by hand",
            {"locator": locator},
        )
    document = _document_of(converted)
    wanted: Mapping[str, Value] = document.fields if converted.says_title else {"title": converted.title}
    changes, notes = _merged(imported.fields if imported else {}, current.fields, wanted)
    return edit_document(before, changes | converted.source.fields, document.content), notes


def _merged(
    base: Mapping[str, Value], current: Mapping[str, Value], wanted: Mapping[str, Value]
) -> tuple[dict[str, NewValue], list[str]]:
    """Fields to change, and what to say. `base` is what the last import made, `current` what is there now."""
    changes: dict[str, NewValue] = {}
    notes: list[str] = []
    for key in dict.fromkeys([*base, *wanted]):
        new, old = wanted.get(key), base.get(key)
        # A status that the import gave is not the file's to take back.
        if key in _NEVER_MERGED or new in (old, current.get(key)) or (key == "status" and new is None):
            continue
        if current.get(key) != old:
            notes.append(f"`{key}` was changed here, so it stays as it is")
        elif _is_writable(new):
            changes[key] = new  # type: ignore[assignment]
        else:
            notes.append(f"`{key}` changed in the file, but is too deeply nested to be carried over")
    return changes, notes


def _is_writable(value: Value | None) -> bool:
    """Whether a field can get this value: a text, a list of texts, a flat mapping, or nothing."""
    if isinstance(value, list):
        return all(isinstance(one, str) for one in value)
    return not isinstance(value, dict) or all(isinstance(one, str) for one in value.values())


def _document_of(converted: Converted) -> Document:
    """The file's own front matter and text; a file that is no Markdown has a text only."""
    if converted.says_title:
        return parse_document(converted.markdown.encode("utf-8"))
    return parse_document(edit_document(b"", {"title": converted.title}, converted.markdown))


def _as_imported(history: Iterable[bytes], name: str, sha256: str) -> Document | None:
    found = None
    for raw in history:
        document = _readable(raw)
        if document is None or digest_of(document.fields, name) != sha256:
            break
        found = document
    return found


def _readable(raw: bytes) -> Document | None:
    try:
        return parse_document(raw)
    except DocumentProblem:
        return None
