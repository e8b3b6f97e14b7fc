"""Rows of the catalogue as values, and how they are written and read."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kbgit.admission import Problem
from kbgit.base import Admission, BaseKey, BaseSettings, BaseStatus
from kbgit.frontmatter import Value
from kbgit.item import ItemStatus
from kbgit.revision import Via


@dataclass(frozen=True, slots=True)
class BaseRow:
    """A base as catalogued: its settings, the head its rows belong to, the last publication log entry applied."""

    key: BaseKey
    settings: BaseSettings
    head: str | None
    entry: str | None
    alarm: str
    published_at: int | None

    @property
    def active(self) -> bool:
        """Whether it takes part in search and unpinned reads."""
        return self.settings.status is BaseStatus.ACTIVE


@dataclass(frozen=True, slots=True)
class ItemRow:
    """An item as of its base's head."""

    base: str
    item_id: str
    path: str
    blob: str
    revision: str
    number: int
    declared_status: ItemStatus | None
    status: ItemStatus
    title: str
    description: str
    tags: tuple[str, ...]
    metadata: Mapping[str, Value]
    content_hash: str


@dataclass(frozen=True, slots=True)
class CurrentItem:
    """What a search answer says of an item that is published in an active base.

    `published_at` is when its revision was published, in seconds since the epoch.
    """

    item_id: str
    revision: str
    number: int
    title: str
    path: str
    blob: str
    tags: tuple[str, ...]
    published_at: int
    from_file: bool = False
    """Whether it was made from a file, whose pages, slides or sheets its text may mark."""


@dataclass(frozen=True, slots=True)
class RevisionRow:
    """A revision of an item; `blob` is None where this commit removed the item's file.

    `position` orders a base's commits, parents before children. `was_published` says that readers may see it.
    """

    base: str
    item_id: str
    sha: str
    number: int
    position: int
    path: str
    blob: str | None
    status: ItemStatus
    content_hash: str
    was_published: bool


@dataclass(frozen=True, slots=True)
class Publication:
    """An entry of the publication log: `head` became visible."""

    number: int
    entry: str
    head: str
    pushed_by: str
    via: Via
    published_at: int


@dataclass(frozen=True, slots=True)
class CommitRow:
    """A commit of a published branch's history, and the publication that brought it."""

    sha: str
    author: str
    committer: str
    committed_at: int
    message: str
    signature: str
    publication: int
    position: int


@dataclass
class Step:
    """What one publication changes in the catalogue.

    `base` carries the new settings. With `complete`, `items` are all there are; otherwise `removed_paths` hold no item any
    more. `default_changed` says that items without a status of their own may have another now.
    """

    base: BaseRow
    publication: Publication
    commits: Sequence[CommitRow]
    revisions: Sequence[RevisionRow]
    items: Sequence[ItemRow]
    complete: bool
    default_changed: bool
    removed_paths: Collection[str]
    problems: Sequence[Problem]


def base_row(row: sqlite3.Row) -> BaseRow:
    """Read a row of `bases`."""
    settings = BaseSettings(
        row["name"],
        row["description"],
        BaseStatus(row["status"]),
        ItemStatus(row["default_status"]),
        Admission(row["admission"]),
        row["subdir"],
    )
    key = BaseKey(row["space"], row["slug"])
    return BaseRow(key, settings, row["head"], row["entry"], row["alarm"], row["published_at"])


def item_row(row: sqlite3.Row) -> ItemRow:
    """Read a row of `items`."""
    declared = row["declared_status"]
    return ItemRow(
        base=row["base"],
        item_id=row["item_id"],
        path=row["path"],
        blob=row["blob"],
        revision=row["revision"],
        number=row["number"],
        declared_status=ItemStatus(declared) if declared else None,
        status=ItemStatus(row["status"]),
        title=row["title"],
        description=row["description"],
        tags=tuple(json.loads(row["tags"])),
        metadata=json.loads(row["metadata"]),
        content_hash=row["content_hash"],
    )


def item_values(item: ItemRow) -> tuple[str | int | None, ...]:
    """A row of `items`, in the order of its columns."""
    return (
        *(item.base, item.item_id, item.item_id.casefold(), item.path, item.blob, item.revision, item.number),
        *(item.declared_status, item.status, item.title, item.description),
        *(json.dumps(item.tags, ensure_ascii=False), json.dumps(item.metadata, ensure_ascii=False), item.content_hash),
    )


def item_fields(item: ItemRow) -> Iterable[tuple[str, str]]:
    """What filters can ask for: each tag, and each metadata value that is a text or a list of texts."""
    for tag in item.tags:
        yield "tags", tag
    for key, value in item.metadata.items():
        for single in value if isinstance(value, list) else [value]:
            if isinstance(single, str):
                yield key, single


def revision_row(row: sqlite3.Row) -> RevisionRow:
    """Read a row of `revisions`."""
    return RevisionRow(
        base=row["base"],
        item_id=row["item_id"],
        sha=row["sha"],
        number=row["number"],
        position=row["position"],
        path=row["path"],
        blob=row["blob"],
        status=ItemStatus(row["status"]),
        content_hash=row["content_hash"],
        was_published=bool(row["was_published"]),
    )
