"""Bases: their keys, the settings in `base.yaml`, and which paths of a tree are items."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import TypeVar

from kbgit.access import PERSONAL, TEAM
from kbgit.errors import DocumentProblem, InvalidName
from kbgit.frontmatter import Value, decode, read_header
from kbgit.item import ItemStatus, parse_document

SETTINGS_FILE = "base.yaml"
_SLUG = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,98}[a-z0-9])?")
_Word = TypeVar("_Word", bound=StrEnum)
_USER = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")


class BaseStatus(StrEnum):
    """Whether a base takes part in search and unpinned reads."""

    ACTIVE = "active"
    ARCHIVED = "archived"


class Admission(StrEnum):
    """What happens to a push in which an item it changes has a problem."""

    STRICT = "strict"
    LENIENT = "lenient"


@dataclass(frozen=True, slots=True)
class BaseKey:
    """Names a base in a home: `team:platform/runbooks`, `personal:ada/notes`.

    As a path, below `repositories/` and in Git URLs, a personal space is written `~ada`: `~ada/notes.git`.
    """

    space: str
    slug: str

    def __post_init__(self) -> None:
        kind, _, name = self.space.partition(":")
        if f"{kind}:" not in (PERSONAL, TEAM) or not _USER.fullmatch(name) or ".." in name:
            raise InvalidName(f"{self.space[:100]!r} is no space; expected personal:USER or team:NAME")
        if not _SLUG.fullmatch(self.slug) or self.slug.endswith(".git") or ".." in self.slug:
            raise InvalidName(
                f"{self.slug[:120]!r} cannot name a base: use a-z, 0-9, dot, underscore and dash, "
                "beginning and ending with a letter or digit, at most 100 characters"
            )

    @classmethod
    def parse(cls, text: str) -> BaseKey:
        """Read `space/slug`. Raises `InvalidName`."""
        space, _, slug = text.rpartition("/")
        return cls(space, slug)

    @classmethod
    def from_path(cls, space: str, name: str) -> BaseKey:
        """Read the two last parts of a repository's path or URL: `~ada`, `notes.git`. Raises `InvalidName`."""
        key = PERSONAL + space.removeprefix("~") if space.startswith("~") else TEAM + space
        if not name.endswith(".git"):
            raise InvalidName("the address of a base's repository ends in .git")
        return cls(key, name.removesuffix(".git"))

    @property
    def relative_path(self) -> PurePosixPath:
        """`~ada/notes` or `platform/runbooks`."""
        kind, _, name = self.space.partition(":")
        return PurePosixPath(f"~{name}" if f"{kind}:" == PERSONAL else name) / self.slug

    def repository_path(self, repositories: Path) -> Path:
        """The bare repository, below the home's `repositories`."""
        return repositories / f"{self.relative_path}.git"

    def __str__(self) -> str:
        return f"{self.space}/{self.slug}"


def check_user_name(name: str) -> str:
    """`name`, if it can name a user or a team. Raises `InvalidName`."""
    if not _USER.fullmatch(name) or ".." in name:
        raise InvalidName(f"{name[:100]!r} cannot name a user or team: use a-z, 0-9, dot, underscore and dash")
    return name


def slug_from(name: str) -> str:
    """A base name made from a file name: lower case, the rest dashes. Raises `InvalidName` if nothing is left."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"\.{2,}", ".", re.sub(r"[^a-z0-9._-]+", "-", plain)).strip("-._")[:100].strip("-._")
    while slug.endswith(".git"):
        slug = slug.removesuffix(".git").strip("-._")
    if not slug:
        raise InvalidName(f"no name for a base can be made from {name[:100]!r}; give one with --name")
    return slug


@dataclass(frozen=True, slots=True)
class BaseSettings:
    """What `base.yaml` says. `subdir` (empty: the whole tree) is where items are looked for."""

    name: str
    description: str = ""
    status: BaseStatus = BaseStatus.ACTIVE
    default_status: ItemStatus = ItemStatus.DRAFT
    admission: Admission = Admission.STRICT
    subdir: str = ""

    @classmethod
    def parse(cls, raw: bytes | None, slug: str) -> BaseSettings:
        """Read `base.yaml`; without one (None) a base has its defaults and its directory's name.

        Raises `DocumentProblem`.
        """
        if raw is None:
            return cls(name=slug)
        # The header of an item and this file are one language, so one strict parser reads both; a header begins on
        # the second line of its file, this mostly on the first.
        text = decode(raw)
        written = text.removeprefix("---\n")
        try:
            fields = read_header(written).fields
        except DocumentProblem as problem:
            line = problem.line - (written == text)
            raise DocumentProblem(problem.what, line=line, column=problem.column, mend=problem.mend) from None
        return cls(
            name=_text(fields.get("name", "")) or slug,
            description=_text(fields.get("description", "")),
            status=_one_of("status", fields.get("status", ""), BaseStatus.ACTIVE),
            default_status=_one_of("default_status", fields.get("default_status", ""), ItemStatus.DRAFT),
            admission=_one_of("admission", fields.get("admission", ""), Admission.STRICT),
            subdir=_subdir(_text(fields.get("subdir", ""))),
        )


def _text(value: Value) -> str:
    if not isinstance(value, str):
        raise DocumentProblem("a setting of base.yaml is not a plain text", mend="write it on one line")
    return value


def _one_of(field: str, value: Value, default: _Word) -> _Word:
    kind = type(default)
    text = _text(value) or default.value
    try:
        return kind(text)
    except ValueError:
        known = " or ".join(word.value for word in kind)
        raise DocumentProblem(f"{field}: {text!r} is unknown", mend=f"use {known}") from None


def _subdir(text: str) -> str:
    parts = [part for part in text.strip("/").split("/") if part]
    if any(part in (".", "..") for part in parts):
        raise DocumentProblem(f"subdir: {text!r} leaves the base", mend="name a directory of the base")
    return "/".join(parts)


@dataclass(frozen=True, slots=True)
class TreeRules:
    """Which paths are items: `.md` files, but none below a hidden directory, outside `subdir`, or reserved by OKF."""

    subdir: str = ""
    okf: bool = False

    def is_item(self, path: str) -> bool:
        """Whether the file at `path` is an item (or should be one, if it can be read)."""
        return not self.why_no_item(path)

    def why_no_item(self, path: str) -> str:
        """Why the file at `path` is no item, in words for its writer; empty if it is one."""
        *directories, name = path.split("/")
        if not name.endswith(".md") or name == ".md":
            return "settings of the base" if path == SETTINGS_FILE else "not a .md file"
        if any(part.startswith(".") for part in directories):
            return "below a hidden directory"
        if self.subdir and not path.startswith(self.subdir + "/"):
            return f"outside the base's subdir {self.subdir}"
        if self.okf and name in ("index.md", "log.md"):
            return "reserved by the Open Knowledge Format"
        return ""


def is_okf_bundle(root_index: bytes | None) -> bool:
    """Whether a tree with this root `index.md` (None: it has none) is a bundle of the Open Knowledge Format."""
    if root_index is None:
        return False
    try:
        return "okf_version" in parse_document(root_index).fields
    except DocumentProblem:
        return False
