"""What tests of documents share: headers to read, the problem that reading one gives, and YAML as others write it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import yaml
from hypothesis import strategies as st

from kbgit.errors import DocumentProblem
from kbgit.item import parse_document


def with_header(header: str, body: str = "Body.\n") -> bytes:
    """A file with this front matter."""
    return f"---\n{header}\n---\n{body}".encode()


def problem_of(raw: bytes) -> DocumentProblem:
    """Why a file, which must be one that cannot be read, cannot."""
    with pytest.raises(DocumentProblem) as caught:
        parse_document(raw)
    return caught.value


def problem_of_header(header: str) -> DocumentProblem:
    """The same of a file with this front matter."""
    return problem_of(with_header(header))


VARIANTS: dict[str, Callable[[str], bytes]] = {
    "LF": lambda text: text.encode(),
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "CR": lambda text: text.replace("\n", "\r").encode(),
    "BOM": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "BOM and CRLF": lambda text: b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode(),
    "mixed": lambda text: text.replace("\n", "\r\n", 2).encode(),
    "trailing spaces": lambda text: text.replace("---\n", "--- \t\n").encode(),
    "closed with dots": lambda text: text.replace("\n---\n", "\n...\n").encode(),
}
"""Ways to write a file down that change no word of it."""
CONFLICT = "<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> branch\n"
"""What an unresolved merge leaves."""


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


def as_yaml(fields: object, style: str | None, flow: bool | None, unicode: bool = False) -> str:
    """What PyYAML makes of fields, without its tags."""
    text: str = yaml.dump(fields, Dumper=_Dumper, default_style=style, default_flow_style=flow, allow_unicode=unicode)
    return text.replace("!!str ", "").replace("!!map ", "").replace("!!seq ", "")


WORDS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=12)
TREES = st.recursive(
    WORDS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS.filter(bool), inner, max_size=3)
)
