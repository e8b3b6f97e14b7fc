"""The kinds of text that can be imported: one row each. A new kind is one row, and a converter if none of these fits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from kbgit.importing.text import csv_table, html_page, markdown, plain
from kbgit.importing.text.body import Converter
from kbgit.importing.text.fence import code


@dataclass(frozen=True, slots=True)
class Kind:
    """What a suffix stands for."""

    media_type: str
    convert: Converter
    is_markdown: bool = False
    """Whether the text may say its own front matter, and keeps it."""


KINDS: dict[str, Kind] = {
    ".md": Kind("text/markdown", markdown.convert, is_markdown=True),
    ".markdown": Kind("text/markdown", markdown.convert, is_markdown=True),
    ".txt": Kind("text/plain", plain.convert),
    ".json": Kind("application/json", code("json")),
    ".csv": Kind("text/csv", csv_table.convert),
    ".py": Kind("text/x-python", code("python")),
    ".js": Kind("text/javascript", code("javascript")),
    ".ts": Kind("text/x-typescript", code("typescript")),
    ".tsx": Kind("text/x-typescript", code("tsx")),
    ".html": Kind("text/html", html_page.convert),
    ".yaml": Kind("application/yaml", code("yaml")),
    ".yml": Kind("application/yaml", code("yaml")),
    ".toml": Kind("application/toml", code("toml")),
}
"""Suffix in lower case → kind."""


def suffix_of(name: str) -> str:
    """The suffix of a file's name, in lower case."""
    return PurePosixPath(name.replace("\\", "/")).suffix.lower()
