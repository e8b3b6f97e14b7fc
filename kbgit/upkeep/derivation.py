"""The catalogue against Git: every row derived once more from the publication log, and citations resolved by Git alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from kbgit.admission import Limits
from kbgit.base import BaseKey
from kbgit.catalogue import TABLES, Catalogue
from kbgit.errors import DocumentProblem
from kbgit.item import parse_document
from kbgit.publish import replay
from kbgit.rows import BaseRow
from kbgit.store import Repository
from kbgit.upkeep.finding import Finding
from kbgit.upkeep.reading import read_only

SAMPLE = 200
"""Revisions of a base whose bytes, and a tenth of it whose numbers, are asked of Git unless all are."""
_MOST_NAMED = 3
_FOUND_LATER = "what NOT LIKE 'cannot be indexed:%'"  # problems of the index, which the log does not know
_NAMES = {
    "bases": "key",
    "publications": "number",
    "commits": "sha",
    "revisions": "item_id || '@' || sha",
    "items": "item_id",
    "item_fields": "item_id",
    "problems": "path",
}
"""What names a row of each table to people."""


class Derivation:
    """One base's rows as the publication log gives them, in a scratch catalogue that is brought forward step by step."""

    def __init__(self, repository: Repository, key: BaseKey, scratch: Path, limits: Limits) -> None:
        self.key = key
        self.repository = repository
        self.path = scratch / f"{key.slug}.sqlite"
        self._limits = limits
        self.catalogue = Catalogue(self.path)
        self.catalogue.add_base(key)

    def close(self) -> None:
        """Remove it."""
        self.catalogue.close()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)

    @property
    def base(self) -> BaseRow:
        """The base, as far as it is derived."""
        return self.catalogue.base(str(self.key))

    def advance(self, entry: str | None) -> None:
        """Derive what the log has up to `entry` (None: all). Raises `KbgitError`."""
        replay(self.repository, self.catalogue, self.base, self._limits, until=entry)

    def differences(self, live: Path) -> Iterator[Finding]:
        """What the catalogue at `live` says otherwise of this base; it must be at the same log entry."""
        with read_only(self.path) as connection:
            connection.execute("ATTACH ? AS live", (f"file:{quote(str(live))}?mode=ro",))
            for table in TABLES:
                wrong = list(_different(connection, table, str(self.key)))
                if wrong:
                    named = ", ".join(str(name) for name in wrong[:_MOST_NAMED])
                    more = f" and {len(wrong) - _MOST_NAMED} more" if len(wrong) > _MOST_NAMED else ""
                    what = f"{table}: {named}{more} is not what the publication log gives"
                    yield Finding("catalogue_differs", what, "catalogue.sqlite", str(self.key))


def _different(connection: sqlite3.Connection, table: str, key: str) -> Iterator[object]:
    rows = connection.execute(f"SELECT name FROM pragma_table_info('{table}')")
    columns = ", ".join(row[0] for row in rows if row[0] != "alarm")
    condition = f"{'key' if table == 'bases' else 'base'} = ?"
    if table == "problems":
        condition += f" AND {_FOUND_LATER}"
    yielded = set()
    for one, other in (("main", "live"), ("live", "main")):
        first, second = (f"SELECT {columns} FROM {schema}.{table} WHERE {condition}" for schema in (one, other))
        for (name,) in connection.execute(f"SELECT {_NAMES[table]} FROM ({first} EXCEPT {second})", (key, key)):
            if name not in yielded:
                yielded.add(name)
                yield name


def check_citations(derived: Derivation, *, full: bool) -> Iterator[Finding]:
    """Whether Git gives, for the pinned revisions of a base, the bytes that their hashes were taken of, and their numbers.

    A sample of them, evenly over the history, or with `full` all.
    """
    key = str(derived.key)
    with read_only(derived.path) as connection:
        sql = "SELECT item_id, sha, path, blob, content_hash, number FROM revisions WHERE base = ? AND blob IS NOT NULL"
        rows = connection.execute(sql + " ORDER BY position, item_id", (key,)).fetchall()
        chosen = rows if full else _spread(rows, SAMPLE)
        numbered = rows if full else _spread(rows, SAMPLE // 10)
        plain = {row[0] for row in connection.execute(_PLAIN, (key, key, key))}
    cited = [f"{sha}:{path}" for _, sha, path, *_ in chosen]
    for (item, sha, path, blob, content_hash, _), (_, kind, raw) in zip(
        chosen, derived.repository.git.objects(cited), strict=True
    ):
        if kind != "blob" or _hash_of(raw) != content_hash:
            what = f"knowledge:{item}@{sha} does not give what was published"
            yield Finding("citation_broken", what, f"{path}, blob {blob}", key)
    if not _is_line(derived.repository, derived.base.head):
        return
    for item, sha, path, _, _, number in numbered:
        if item in plain:
            counted = int(derived.repository.git.run("--literal-pathspecs", "rev-list", "--count", sha, "--", path))
            if counted != number:
                yield Finding("number_differs", f"{item}@{sha} is revision {number}; Git counts {counted}", path, key)


# Items whose every revision is at one path at which no other item ever was: of them Git itself can count revisions.
_PLAIN = """
SELECT item_id FROM revisions WHERE base = ? GROUP BY item_id HAVING count(DISTINCT path) = 1
EXCEPT SELECT item_id FROM revisions WHERE base = ? AND path IN
    (SELECT path FROM revisions WHERE base = ? GROUP BY path HAVING count(DISTINCT item_id) > 1)
"""


def _hash_of(raw: bytes) -> str:
    try:
        return parse_document(raw).content_hash
    except DocumentProblem:
        return ""


def _is_line(repository: Repository, head: str | None) -> bool:
    return head is not None and not repository.git.run("rev-list", "--min-parents=2", "--max-count=1", head, "--")


def _spread(rows: Sequence[tuple[str, ...]], most: int) -> Sequence[tuple[str, ...]]:
    """At most `most` of `rows`, the last among them."""
    step = max(1, -(-len(rows) // most))
    return rows[::-1][::step]


def catalogued(copy: Path) -> Iterable[tuple[str, str | None, str | None]]:
    """(key, head, last log entry) of each base in a catalogue. Raises `sqlite3.Error`."""
    with read_only(copy) as connection:
        return [
            (row[0], row[1], row[2]) for row in connection.execute("SELECT key, head, entry FROM bases ORDER BY key")
        ]
