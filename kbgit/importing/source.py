"""The file an item was made from: what is kept of it, and where in a base its item goes."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from kbgit import names
from kbgit.frontmatter import Value

SOURCE_TYPE = "file"
_MARKDOWN = frozenset({".md", ".markdown"})
_LONGEST_PART = (
    180  # bytes: leaves room for `.md`, and for Git's and editors' own additions, below the 255 of file systems
)
_FINGERPRINT = 8
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff<>:"|?*\\]+')


@dataclass(frozen=True, slots=True)
class SourceFile:
    """An original: its name as it was given, media type, size in bytes and SHA-256 in hex."""

    name: str
    media_type: str
    size: int
    sha256: str

    @classmethod
    def of(cls, name: str, media_type: str, content: bytes) -> SourceFile:
        """What is kept of a file with this content."""
        return cls(name, media_type, len(content), hashlib.sha256(content).hexdigest())

    @property
    def fields(self) -> dict[str, str | Mapping[str, str]]:
        """The front matter fields that say it: `source_type` and `source`."""
        return {
            "source_type": SOURCE_TYPE,
            "source": {
                "name": self.name,
                "media_type": self.media_type,
                "size": str(self.size),
                "sha256": self.sha256,
            },
        }


def digest_of(fields: Mapping[str, Value], name: str | None = None) -> str | None:
    """The SHA-256 of the file that front matter `fields` say an item was made from, if that was called `name` (None: any)."""
    source = fields.get("source")
    if not isinstance(source, dict) or name not in (None, source.get("name")):
        return None
    digest = source.get("sha256")
    return digest if isinstance(digest, str) else None


def locator_of(name: str, folder: str = "") -> str:
    """Where the item of a file goes: its relative path, with `.md` after the whole name unless it is Markdown already.

    The suffix stays in the name (`tools/run.py` → `tools/run.py.md`), so that `run.py` and `run.ts` are two items. The
    same name gives the same locator always, which is what makes importing twice harmless. Whatever cannot be stored
    safely everywhere is replaced by a dash; `..`, absolute paths and drive letters lead nowhere, since their parts that
    mean something are dropped; a part that is too long ends in a fingerprint of the whole.
    """
    parts = [
        _safe_part(part) for part in f"{folder}/{name}".replace("\\", "/").split("/") if part not in ("", ".", "..")
    ]
    path = PurePosixPath(*(parts or ["unnamed"]))
    stem = path.with_suffix("") if path.suffix.lower() in _MARKDOWN and path.stem else path
    return f"{stem}.md"


def _safe_part(part: str) -> str:
    plain = unicodedata.normalize("NFC", part.encode("utf-8", "replace").decode())
    plain = _FORBIDDEN.sub("-", plain).strip().rstrip(". ").lstrip(".") or "unnamed"
    encoded = plain.encode()
    if len(encoded) > _LONGEST_PART:
        fingerprint = hashlib.sha256(part.encode("utf-8", "replace")).hexdigest()[:_FINGERPRINT]
        dot, suffix = plain.rpartition(".")[1:]
        ending = f"-{fingerprint}{dot}{suffix}" if dot and len(suffix) <= 10 else f"-{fingerprint}"
        kept = encoded[: _LONGEST_PART - len(ending.encode())].decode("utf-8", "ignore")
        plain = kept + ending
    return f"_{plain}" if names.fault(plain.encode()) else plain
