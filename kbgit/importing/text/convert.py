"""One file's bytes to the Markdown of its item."""

from __future__ import annotations

from dataclasses import dataclass

from kbgit.errors import UnsupportedFile
from kbgit.header_edit import canonical_content
from kbgit.importing.source import SourceFile
from kbgit.importing.text import encoding
from kbgit.importing.text.kinds import KINDS, suffix_of
from kbgit.names import shown

_LONGEST_TITLE = 200


@dataclass(frozen=True, slots=True)
class Converted:
    """A file as Markdown.

    `markdown` begins with front matter only where the file was Markdown that has some. `title` is what the text says, else
    the file's name; `says_title` tells whether the Markdown says it itself. `notes` are sentences for whoever imports it.
    """

    markdown: str
    title: str
    says_title: bool
    source: SourceFile
    notes: tuple[str, ...] = ()


def convert(name: str, raw: bytes) -> Converted:
    """The file `name` (a relative path with `/`) with the content `raw`.

    Raises `UnsupportedFile` for a kind that is not in the table and for bytes that are no text, `DocumentProblem` for
    Markdown whose front matter cannot be read.
    """
    kind = KINDS.get(suffix_of(name))
    if kind is None:
        raise UnsupportedFile(
            f"{shown(suffix_of(name)) or 'a file without suffix'} is no kind of text that can be imported; "
            f"known are {' '.join(KINDS)}",
            {"suffix": suffix_of(name)[:100], "known": list(KINDS)},
        )
    found = encoding.read(raw)
    # Markdown keeps its own line ends, which its lines' numbers do not depend on.
    body = kind.convert(found.text if kind.is_markdown else canonical_content(found.text))
    notes = (*((found.note,) if found.note else ()), *body.notes)
    title = body.title or shown(name.replace("\\", "/").rpartition("/")[2])
    return Converted(
        markdown=body.markdown,
        title=title[:_LONGEST_TITLE],
        says_title=kind.is_markdown,
        source=SourceFile.of(name, kind.media_type, raw),
        notes=notes,
    )
