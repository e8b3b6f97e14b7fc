"""Items as resources under their citation's URI, and completion of ids and revisions.

A URI is the citation with what a URI cannot hold percent-encoded: `knowledge:deploy/100%25@<sha>#L3-L9`. Without a revision
it means what is current.
"""

from __future__ import annotations

import base64
import binascii
from urllib.parse import quote, unquote

from kbgit.access import Principal
from kbgit.citation import SCHEME, Citation
from kbgit.errors import InvalidRequest, KbgitError
from kbgit.item import ItemStatus
from kbgit.library import Library
from kbgit.library.answers import ItemSummary

PAGE = 100
MOST_COMPLETIONS = 100
CURRENT = "knowledge:{+item_id}"
PINNED = "knowledge:{+item_id}@{revision}"
_UNRESERVED = "/:@!$&'()*+,;=-._~"


def uri_of(citation: Citation) -> str:
    """The URI of what `citation` cites."""
    revision = f"@{citation.revision}" if citation.revision else ""
    lines = f"#L{citation.lines[0]}-L{citation.lines[1]}" if citation.lines else ""
    return f"{SCHEME}{quote(citation.item_id, safe=_UNRESERVED)}{revision}{lines}"


def citation_of(uri: str) -> Citation:
    """What a URI means. Raises `InvalidCitation`."""
    return Citation.parse(unquote(uri))


def listed(library: Library, caller: Principal, cursor: str | None) -> tuple[list[ItemSummary], str | None]:
    """A page of the published items that the caller may see, by base and id, and the cursor after it."""
    first, after = _read_cursor(cursor)
    found: list[tuple[str, ItemSummary]] = []
    for view in sorted(library.bases(caller), key=lambda view: str(view.row.key)):
        key = str(view.row.key)
        if key < first or not view.row.active or len(found) > PAGE:
            continue
        page = library.items(
            key,
            caller,
            status=ItemStatus.PUBLISHED.value,
            cursor=after if key == first else None,
            limit=PAGE + 1 - len(found),  # one more than is shown, which tells whether there is more
        )
        found += [(key, item) for item in page.items]
    shown = found[:PAGE]
    following = _write_cursor(shown[-1][0], shown[-1][1].citation.item_id) if len(found) > PAGE else None
    return [item for _, item in shown], following


def completed_ids(library: Library, caller: Principal, typed: str) -> tuple[list[str], bool]:
    """Ids of published items that begin with `typed`, in order, and whether there are more."""
    found: dict[str, None] = {}
    for view in library.bases(caller):
        if view.row.active:
            found |= dict.fromkeys(_ids_from(library, str(view.row.key), caller, typed))
    return sorted(found)[:MOST_COMPLETIONS], len(found) > MOST_COMPLETIONS


def completed_revisions(library: Library, caller: Principal, item_id: str, typed: str) -> tuple[list[str], bool]:
    """Revisions of an item that begin with `typed`, newest first, and whether there are more."""
    try:
        page = library.revisions(item_id, caller, limit=MOST_COMPLETIONS)
    except KbgitError:
        return [], False  # nothing to complete; reading it will say why
    found = [str(one.citation.revision) for one in page.revisions if not one.removed]
    return [sha for sha in found if sha.startswith(typed)], page.cursor is not None


def _ids_from(library: Library, key: str, caller: Principal, typed: str) -> list[str]:
    """Ids come in the order of their characters, so those with a common beginning are neighbours."""
    page = library.items(
        key, caller, status=ItemStatus.PUBLISHED.value, cursor=_just_before(typed), limit=MOST_COMPLETIONS + 1
    )
    return [item.citation.item_id for item in page.items if item.citation.item_id.startswith(typed)]


def _just_before(typed: str) -> str | None:
    """A text between every id that comes before `typed` and `typed` itself."""
    if not typed:
        return None
    code = ord(typed[-1])
    below = 0xD7FF if code == 0xE000 else code - 1  # what lies between stands for no character
    return typed[:-1] + (f"{chr(below)}\U0010ffff" if code else "")


def _write_cursor(key: str, item_id: str) -> str:
    return base64.urlsafe_b64encode(f"{key}\n{item_id}".encode()).decode()


def _read_cursor(cursor: str | None) -> tuple[str, str | None]:
    if cursor is None:
        return "", None
    try:
        key, newline, item_id = base64.urlsafe_b64decode(cursor.encode("ascii")).decode().partition("\n")
    except (ValueError, binascii.Error):
        newline = ""
    if not newline:
        raise InvalidRequest("the cursor is none that an earlier page gave", {"field": "cursor"})
    return key, item_id
