"""The catalogue: what the published branches say, as tables. Derived from Git alone, and rebuildable at any time.

Each base's rows belong to one head, named in `bases.head`; a step to the next head is one transaction, so a reader sees
an old or a new state and never a mixture.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from kbgit.admission import Problem
from kbgit.base import BaseKey
from kbgit.errors import BaseNotFound
from kbgit.item import ItemStatus
from kbgit.revision import Provenance, Via
from kbgit.rows import (
    BaseRow,
    CurrentItem,
    ItemRow,
    RevisionRow,
    Step,
    base_row,
    item_fields,
    item_row,
    item_values,
    revision_row,
)
from kbgit.sqlite import Database

VERSION = 2
"""Raised when the tables change, or what is derived into them: a catalogue of another version is derived anew."""
_SCHEMA = """
CREATE TABLE bases (
    key TEXT PRIMARY KEY, space TEXT NOT NULL, slug TEXT NOT NULL, name TEXT NOT NULL, description TEXT NOT NULL,
    status TEXT NOT NULL, default_status TEXT NOT NULL, admission TEXT NOT NULL, subdir TEXT NOT NULL,
    head TEXT, entry TEXT, alarm TEXT NOT NULL DEFAULT '', published_at INTEGER
) STRICT;
CREATE TABLE publications (
    base TEXT NOT NULL REFERENCES bases ON DELETE CASCADE, number INTEGER NOT NULL, entry TEXT NOT NULL, head TEXT NOT NULL,
    pushed_by TEXT NOT NULL, via TEXT NOT NULL, published_at INTEGER NOT NULL, PRIMARY KEY (base, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE commits (
    base TEXT NOT NULL REFERENCES bases ON DELETE CASCADE, sha TEXT NOT NULL, author TEXT NOT NULL, committer TEXT NOT NULL,
    committed_at INTEGER NOT NULL, message TEXT NOT NULL, signature TEXT NOT NULL, publication INTEGER NOT NULL,
    position INTEGER NOT NULL, PRIMARY KEY (base, sha)
) STRICT, WITHOUT ROWID;
CREATE TABLE revisions (
    base TEXT NOT NULL REFERENCES bases ON DELETE CASCADE, item_id TEXT NOT NULL, sha TEXT NOT NULL,
    number INTEGER NOT NULL, position INTEGER NOT NULL, path TEXT NOT NULL, blob TEXT, status TEXT NOT NULL,
    content_hash TEXT NOT NULL, was_published INTEGER NOT NULL, PRIMARY KEY (base, item_id, sha)
) STRICT, WITHOUT ROWID;
CREATE INDEX revisions_by_blob ON revisions (base, item_id, path, blob, position);
CREATE TABLE items (
    base TEXT NOT NULL REFERENCES bases ON DELETE CASCADE, item_id TEXT NOT NULL, folded_id TEXT NOT NULL,
    path TEXT NOT NULL, blob TEXT NOT NULL, revision TEXT NOT NULL, number INTEGER NOT NULL, declared_status TEXT,
    status TEXT NOT NULL, title TEXT NOT NULL, description TEXT NOT NULL, tags TEXT NOT NULL, metadata TEXT NOT NULL,
    content_hash TEXT NOT NULL, PRIMARY KEY (base, item_id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX items_by_path ON items (base, path);
CREATE INDEX items_by_folded_id ON items (base, folded_id);
CREATE INDEX items_by_id ON items (item_id);
CREATE TABLE item_fields (
    base TEXT NOT NULL, item_id TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (base, key, value, item_id),
    FOREIGN KEY (base, item_id) REFERENCES items ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX item_fields_by_item ON item_fields (base, item_id);
CREATE TABLE problems (
    base TEXT NOT NULL REFERENCES bases ON DELETE CASCADE, path TEXT NOT NULL, line INTEGER NOT NULL, code TEXT NOT NULL,
    what TEXT NOT NULL, mend TEXT NOT NULL, fatal INTEGER NOT NULL, PRIMARY KEY (base, path, line, code, what)
) STRICT, WITHOUT ROWID;
"""

TABLES = ("bases", "publications", "commits", "revisions", "items", "item_fields", "problems")
"""In an order in which rows can be added. All but `bases`, whose key it is, have a column `base`."""
_JOINED_AT_ONCE = 1000

# What is published now was published, whatever its status was when it was written.
_WAS_PUBLISHED = "UPDATE revisions SET was_published = 1 WHERE base = ?"
_IS_CURRENT = (
    "EXISTS (SELECT 1 FROM items WHERE items.base = revisions.base AND items.item_id = revisions.item_id"
    " AND items.revision = revisions.sha AND items.status = 'published')"
)


class Catalogue:
    """The tables of one home, in one SQLite file that several processes may open."""

    def __init__(self, path: Path) -> None:
        self._database = Database(path, _SCHEMA, VERSION)

    @property
    def is_current_version(self) -> bool:
        """Whether this program wrote the file's schema; otherwise it must be removed and rebuilt."""
        return self._database.version == VERSION

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[sqlite3.Row]:
        return self._database.connection().execute(sql, parameters).fetchall()

    def _joined(
        self, columns: str, wanted: Collection[tuple[str, ...]], sql: str, parameters: Sequence[Any]
    ) -> Iterator[sqlite3.Row]:
        """The rows of `sql`, in which `wanted` is a table with `columns`."""
        rest = iter(wanted)
        while some := list(islice(rest, _JOINED_AT_ONCE)):
            places = ", ".join(["(" + ", ".join("?" * len(some[0])) + ")"] * len(some))
            values = [value for row in some for value in row]
            yield from self._rows(f"WITH wanted ({columns}) AS (VALUES {places}) {sql}", [*values, *parameters])

    # Bases

    def bases(self) -> list[BaseRow]:
        """Every base, by key."""
        return [base_row(row) for row in self._rows("SELECT * FROM bases ORDER BY key")]

    def base(self, key: str) -> BaseRow:
        """One base. Raises `BaseNotFound`."""
        rows = self._rows("SELECT * FROM bases WHERE key = ?", (key,))
        if not rows:
            raise BaseNotFound(f"there is no base {key!r}", {"base": key})
        return base_row(rows[0])

    def add_base(self, key: BaseKey) -> None:
        """A row for a base that has published nothing yet; nothing happens when it is there already."""
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO bases (key, space, slug, name, description, status, default_status, admission,"
                " subdir) VALUES (?, ?, ?, ?, '', 'active', 'draft', 'strict', '')",
                (str(key), key.space, key.slug, key.slug),
            )

    def remove_base(self, key: str) -> None:
        """Everything about a base goes, and leaves no byte."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM bases WHERE key = ?", (key,))
        self._database.erase_deleted()

    def raise_alarm(self, key: str, alarm: str) -> None:
        """Say (or, with an empty text, unsay) that a base needs an operator."""
        with self._database.transaction() as connection:
            connection.execute("UPDATE bases SET alarm = ? WHERE key = ?", (alarm, key))

    # Steps

    def reset(self, key: BaseKey) -> None:
        """Forget what was derived for a base, so that its publications are applied from the first."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM bases WHERE key = ?", (str(key),))
        self.add_base(key)

    def adopt(self, key: str, other: Path, entry: str | None) -> bool:
        """Replace all rows of a base by those in the catalogue at `other`, in one transaction.

        Nothing happens, and the answer is False, unless the base's last log entry is still `entry`.
        """
        connection = self._database.connection()
        connection.execute("ATTACH ? AS other", (str(other),))
        try:
            with self._database.transaction() as run:
                row = run.execute("SELECT entry, alarm FROM bases WHERE key = ?", (key,)).fetchone()
                if row is None or row["entry"] != entry:
                    return False
                run.execute("DELETE FROM bases WHERE key = ?", (key,))
                for table in TABLES:
                    named = "key" if table == "bases" else "base"
                    run.execute(f"INSERT INTO main.{table} SELECT * FROM other.{table} WHERE {named} = ?", (key,))
                run.execute("UPDATE bases SET alarm = ? WHERE key = ?", (row["alarm"], key))
                return True
        finally:
            connection.execute("DETACH other")

    def apply(self, step: Step) -> None:
        """Move a base from its head to the publication's, in one transaction."""
        key = str(step.base.key)
        settings, publication = step.base.settings, step.publication
        with self._database.transaction() as connection:
            run = connection.execute
            if step.complete:
                run("DELETE FROM items WHERE base = ?", (key,))
                run("DELETE FROM problems WHERE base = ?", (key,))
            gone = [(key, path) for path in step.removed_paths]
            touched = gone + [(key, item.path) for item in step.items]
            connection.executemany("DELETE FROM items WHERE base = ? AND path = ?", touched)
            connection.executemany("DELETE FROM problems WHERE base = ? AND path = ?", touched)
            connection.executemany(
                "DELETE FROM items WHERE base = ? AND item_id = ?", [(key, item.item_id) for item in step.items]
            )
            run(
                "UPDATE bases SET name = ?, description = ?, status = ?, default_status = ?, admission = ?, subdir = ?,"
                " head = ?, entry = ?, published_at = ?, alarm = '' WHERE key = ?",
                (
                    *(settings.name, settings.description, settings.status, settings.default_status),
                    *(settings.admission, settings.subdir, publication.head, publication.entry),
                    *(publication.published_at, key),
                ),
            )
            run(
                "INSERT INTO publications VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    *(key, publication.number, publication.entry, publication.head),
                    *(publication.pushed_by, publication.via, publication.published_at),
                ),
            )
            connection.executemany(
                "INSERT INTO commits VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    (
                        key,
                        c.sha,
                        c.author,
                        c.committer,
                        c.committed_at,
                        c.message,
                        c.signature,
                        c.publication,
                        c.position,
                    )
                    for c in step.commits
                ),
            )
            connection.executemany(
                "INSERT OR REPLACE INTO revisions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    (
                        key,
                        r.item_id,
                        r.sha,
                        r.number,
                        r.position,
                        r.path,
                        r.blob,
                        r.status,
                        r.content_hash,
                        r.was_published,
                    )
                    for r in step.revisions
                ),
            )
            connection.executemany(
                "INSERT INTO items VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", map(item_values, step.items)
            )
            connection.executemany(
                "INSERT OR IGNORE INTO item_fields VALUES (?, ?, ?, ?)",
                ((key, i.item_id, name, value) for i in step.items for name, value in item_fields(i)),
            )
            connection.executemany(
                _WAS_PUBLISHED + " AND item_id = ? AND sha = ?",
                [(key, i.item_id, i.revision) for i in step.items if i.status is ItemStatus.PUBLISHED],
            )
            if step.default_changed:
                run(
                    "UPDATE items SET status = ? WHERE base = ? AND declared_status IS NULL",
                    (settings.default_status, key),
                )
                run(f"{_WAS_PUBLISHED} AND {_IS_CURRENT}", (key,))
            connection.executemany(
                "INSERT OR IGNORE INTO problems VALUES (?, ?, ?, ?, ?, ?, ?)",
                ((key, p.path, p.line, p.code, p.what, p.mend, p.fatal) for p in step.problems),
            )

    # Items

    def item(self, base: str, item_id: str) -> ItemRow | None:
        """An item of a base as of its head; None if there is none (now)."""
        rows = self._rows("SELECT * FROM items WHERE base = ? AND item_id = ?", (base, item_id))
        return item_row(rows[0]) if rows else None

    def items_named(self, base: str, item_ids: Collection[str]) -> dict[str, ItemRow]:
        """Item id → item as of the base's head, of those among `item_ids` that there are."""
        sql = "SELECT items.* FROM wanted CROSS JOIN items ON items.base = ? AND items.item_id = wanted.item_id"
        rows = self._joined("item_id", [(item_id,) for item_id in item_ids], sql, (base,))
        return {row["item_id"]: item_row(row) for row in rows}

    def items(
        self,
        base: str,
        *,
        statuses: Collection[str] = (),
        prefix: str = "",
        after: str = "",
        limit: int = -1,
    ) -> list[ItemRow]:
        """Items of a base by id, from after `after`; those of `statuses` (empty: any) below the locator `prefix`."""
        sql = "SELECT * FROM items WHERE base = ? AND item_id > ?"
        parameters: list[Any] = [base, after]
        if statuses:
            sql += f" AND status IN ({', '.join('?' * len(statuses))})"
            parameters += list(statuses)
        if prefix:
            sql += " AND substr(path, 1, ?) = ?"
            parameters += [len(prefix), prefix]
        return [item_row(row) for row in self._rows(sql + " ORDER BY item_id LIMIT ?", (*parameters, limit))]

    def items_at(self, base: str, paths: Iterable[str]) -> list[ItemRow]:
        """The items whose files are at `paths`, in that order."""
        found = []
        for path in paths:
            rows = self._rows("SELECT * FROM items WHERE base = ? AND path = ?", (base, path))
            found += [item_row(row) for row in rows]
        return found

    def removed_since(self, base: str, old: str | None) -> list[tuple[str, str]]:
        """(id, path) of each file that commits after the commit `old` (None: any) removed, if no file has the id now."""
        sql = (
            "SELECT DISTINCT item_id, path FROM revisions WHERE base = ? AND blob IS NULL AND position > ? AND NOT EXISTS"
            " (SELECT 1 FROM items WHERE items.base = revisions.base AND items.item_id = revisions.item_id)"
        )
        position = self.commit_position(base, old) if old else None
        return [(row[0], row[1]) for row in self._rows(sql, (base, -1 if position is None else position))]

    def published(self, base: str) -> dict[str, str]:
        """Item id → current revision of every published item, whether or not the base is archived."""
        rows = self._rows("SELECT item_id, revision FROM items WHERE base = ? AND status = 'published'", (base,))
        return {row[0]: row[1] for row in rows}

    def current(self, hits: Sequence[tuple[str, str]]) -> dict[tuple[str, str], CurrentItem]:
        """(base, item id) → item, of those that are published, in active bases: what a search may answer with."""
        sql = (
            "SELECT wanted.base, wanted.item_id, revision, items.number, title, path, blob, tags, publications.published_at,"
            " EXISTS (SELECT 1 FROM item_fields WHERE base = wanted.base AND item_id = wanted.item_id"
            " AND key = 'source_type' AND value = 'file')"
            " FROM wanted"
            " CROSS JOIN items ON items.base = wanted.base AND items.item_id = wanted.item_id"
            " CROSS JOIN bases ON bases.key = items.base"
            " CROSS JOIN commits ON commits.base = items.base AND commits.sha = items.revision"
            " CROSS JOIN publications ON publications.base = items.base AND publications.number = commits.publication"
            " WHERE items.status = 'published' AND bases.status = 'active'"
        )
        rows = self._joined("base, item_id", hits, sql, ())
        return {
            (base, item_id): CurrentItem(
                item_id,
                revision,
                number,
                title,
                path,
                blob,
                tuple(json.loads(tags)) if tags != "[]" else (),
                published_at,
                bool(from_file),
            )
            for base, item_id, revision, number, title, path, blob, tags, published_at, from_file in rows
        }

    def matching(
        self, base: str, *, tags: Sequence[str] = (), prefix: str = "", metadata: Mapping[str, str] | None = None
    ) -> frozenset[str]:
        """Ids of the published items that have all `tags`, lie below the locator `prefix` and have all `metadata`."""
        sql = "SELECT item_id FROM items WHERE base = ? AND status = 'published'"
        parameters: list[Any] = [base]
        if prefix:
            sql += " AND substr(path, 1, ?) = ?"
            parameters += [len(prefix), prefix]
        for key, value in [*(("tags", tag) for tag in tags), *(metadata or {}).items()]:
            sql += " AND item_id IN (SELECT item_id FROM item_fields WHERE base = ? AND key = ? AND value = ?)"
            parameters += [base, key, value]
        return frozenset(row[0] for row in self._rows(sql, parameters))

    def bases_with_item(self, item_id: str) -> list[str]:
        """Keys of the bases in which an item has, or had, this id."""
        return [row[0] for row in self._rows("SELECT key FROM bases WHERE EXISTS (SELECT 1 FROM revisions WHERE"
                                             " base = key AND item_id = ?) ORDER BY key", (item_id,))]  # fmt: skip

    def paths_by_folded_id(self, base: str, folded_ids: Collection[str]) -> dict[str, str]:
        """Case-folded id → path, of the items that hold one of `folded_ids`."""
        found = {}
        for folded_id in folded_ids:
            rows = self._rows("SELECT path FROM items WHERE base = ? AND folded_id = ?", (base, folded_id))
            if rows:
                found[folded_id] = rows[0][0]
        return found

    def contested_paths(self, base: str) -> list[str]:
        """Paths of the files that claim an id which another file claims too."""
        rows = self._rows("SELECT path FROM problems WHERE base = ? AND code = 'duplicate_id' ORDER BY path", (base,))
        return [row[0] for row in rows]

    # Revisions

    def revision(self, base: str, item_id: str, sha: str) -> RevisionRow | None:
        """One revision; None if the commit is none of that item."""
        rows = self._rows("SELECT * FROM revisions WHERE base = ? AND item_id = ? AND sha = ?", (base, item_id, sha))
        return revision_row(rows[0]) if rows else None

    def revisions_named(self, base: str, pins: Collection[tuple[str, str]]) -> dict[tuple[str, str], RevisionRow]:
        """(item id, commit) → revision, of those among `pins` that are one."""
        sql = (
            "SELECT revisions.* FROM wanted CROSS JOIN revisions ON revisions.base = ?"
            " AND revisions.item_id = wanted.item_id AND revisions.sha = wanted.sha"
        )
        rows = self._joined("item_id, sha", pins, sql, (base,))
        return {(row["item_id"], row["sha"]): revision_row(row) for row in rows}

    def revisions_of_files(self, base: str, files: Collection[tuple[str, str]], *, until: int) -> list[RevisionRow]:
        """For each item that was one of `files` (path, blob) at a position up to `until`, the latest such revision."""
        sql = (
            "SELECT *, max(position) FROM revisions WHERE base = ? AND position <= ?"
            " AND (path, blob) IN (SELECT path, blob FROM wanted) GROUP BY item_id, path"
        )
        return [revision_row(row) for row in self._joined("path, blob", files, sql, (base, until))]

    def revisions(self, base: str, item_id: str, *, before: int | None = None, limit: int = -1) -> list[RevisionRow]:
        """An item's revisions, newest first; those at positions below `before` when it is given."""
        sql = "SELECT * FROM revisions WHERE base = ? AND item_id = ?" + (
            " AND position < ?" if before is not None else ""
        )
        parameters = (base, item_id, *((before,) if before is not None else ()), limit)
        return [revision_row(row) for row in self._rows(sql + " ORDER BY position DESC LIMIT ?", parameters)]

    def revision_with(self, base: str, item_id: str, path: str, blob: str) -> RevisionRow | None:
        """The latest revision in which the item is the file `path` with the content `blob`."""
        rows = self._rows(
            "SELECT * FROM revisions WHERE base = ? AND item_id = ? AND path = ? AND blob = ?"
            " ORDER BY position DESC LIMIT 1",
            (base, item_id, path, blob),
        )
        return revision_row(rows[0]) if rows else None

    def revision_positions(self, base: str, item_id: str) -> list[int]:
        """Positions of every revision of an item, removals included, oldest first."""
        sql = "SELECT position FROM revisions WHERE base = ? AND item_id = ? ORDER BY position"
        return [row[0] for row in self._rows(sql, (base, item_id))]

    def commit_position(self, base: str, sha: str) -> int | None:
        """Where a commit stands in a base's published history; None if it is not in it."""
        rows = self._rows("SELECT position FROM commits WHERE base = ? AND sha = ?", (base, sha))
        return int(rows[0][0]) if rows else None

    def commit_count(self, base: str) -> int:
        """How many commits a base's published history has."""
        return int(self._rows("SELECT count(*) FROM commits WHERE base = ?", (base,))[0][0])

    def head_at(self, base: str, moment: int) -> str | None:
        """The head that was published at `moment` (seconds since the epoch); None before the first publication."""
        rows = self._rows(
            "SELECT head FROM publications WHERE base = ? AND published_at <= ? ORDER BY number DESC LIMIT 1",
            (base, moment),
        )
        return str(rows[0][0]) if rows else None

    def publication_count(self, base: str) -> int:
        """How many entries of the publication log are applied."""
        return int(self._rows("SELECT count(*) FROM publications WHERE base = ?", (base,))[0][0])

    def provenance(self, base: str, sha: str) -> Provenance | None:
        """Where a commit of a base's published history came from."""
        rows = self._rows(
            "SELECT author, committer, committed_at, message, signature, pushed_by, via, published_at FROM commits"
            " JOIN publications ON publications.base = commits.base AND number = publication"
            " WHERE commits.base = ? AND sha = ?",
            (base, sha),
        )
        if not rows:
            return None
        row = dict(rows[0])
        return Provenance(**{**row, "via": Via(row["via"])})

    def problems(self, base: str) -> list[Problem]:
        """What is wrong with files of a base's head, by path and line."""
        rows = self._rows("SELECT * FROM problems WHERE base = ? ORDER BY path, line", (base,))
        return [Problem(r["path"], r["line"], r["code"], r["what"], r["mend"], bool(r["fatal"])) for r in rows]

    def add_problem(self, base: str, problem: Problem) -> None:
        """Record a problem found after publication, until its file changes."""
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO problems VALUES (?, ?, ?, ?, ?, ?, ?)",
                (base, problem.path, problem.line, problem.code, problem.what, problem.mend, problem.fatal),
            )

    def counts(self, base: str) -> dict[str, int]:
        """How many items of a base are in each status."""
        counts = {status.value: 0 for status in ItemStatus}
        counts |= dict(
            map(tuple, self._rows("SELECT status, count(*) FROM items WHERE base = ? GROUP BY status", (base,)))
        )
        return counts

    def problem_count(self) -> int:
        """How many problems there are, in all bases."""
        return int(self._rows("SELECT count(*) FROM problems", ())[0][0])

    def publications_by_via(self) -> dict[str, int]:
        """How many publications came which way, in all bases."""
        return {via.value: 0 for via in Via} | {
            str(row[0]): int(row[1]) for row in self._rows("SELECT via, count(*) FROM publications GROUP BY via", ())
        }
