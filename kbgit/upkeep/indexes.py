"""A base's index against its passages, split anew from Git's bytes; and its vectors against those that are remembered."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from kbgit.errors import IndexFailure, KbgitError
from kbgit.index.chroma import DATABASE
from kbgit.index.contract import Floats, IndexedPassage
from kbgit.index.embedded import directory_name
from kbgit.index.lexical import LexicalIndex, Snapshot
from kbgit.index.stamp import STAMP_NAME, Stamp
from kbgit.index.terms import passage_terms
from kbgit.index.vector_table import UNIT_TOLERANCE
from kbgit.index.vectors import VERSION, VectorStore
from kbgit.indexer import passages_of
from kbgit.upkeep.derivation import Derivation
from kbgit.upkeep.finding import Finding
from kbgit.upkeep.reading import copy_database, read_only

_BATCH = 1000
_CLOSE = 1e-6


@dataclass(frozen=True, slots=True)
class OpenedIndex:
    """The generation of a base's index that answers: where it is, and its lexical half."""

    directory: Path
    snapshot: Snapshot


def open_index(root: Path, key: str) -> OpenedIndex | None:
    """The index of a base, read only; None where nothing was indexed yet. Raises `IndexFailure`, `IndexDamaged`."""
    directory = root / directory_name(key)
    numbers = sorted((int(path.name) for path in directory.glob("[0-9]*") if path.name.isdecimal()), reverse=True)
    unfinished: OpenedIndex | None = None
    for number in numbers:
        lexical = directory / str(number) / "lexical"
        # Asked first: opening a directory in which there is nothing would make an index of it.
        if not (lexical / STAMP_NAME).is_file():
            if number == numbers[-1]:
                raise IndexFailure(f"{lexical} has no stamp")
            continue
        opened = OpenedIndex(lexical.parent, LexicalIndex(lexical).snapshot())
        if opened.snapshot.head is not None:
            return opened
        unfinished = unfinished or opened
    return unfinished if unfinished and unfinished.snapshot.passages else None


def passages(derived: Derivation) -> Iterator[IndexedPassage]:
    """The passages of all published items, as far as the base is derived. What cannot be split has none."""
    rows = derived.catalogue.items(str(derived.key), statuses=["published"])
    for start in range(0, len(rows), _BATCH):
        batch = rows[start : start + _BATCH]
        blobs = dict(derived.repository.blobs({row.blob for row in batch}))
        for row in batch:
            try:
                yield from list(passages_of(row, blobs[row.blob]))
            except KbgitError:
                continue  # `kbgit status` names it among the problems


def check_lexical(opened: OpenedIndex, derived: Derivation, *, full: bool) -> tuple[set[str], list[Finding]]:
    """Compare every stored passage, and with `full` every posting. Returns the vector keys that are wanted, too."""
    key = str(derived.key)
    expected: dict[tuple[str, int], bytes] = {}
    wanted: set[str] = set()
    for passage in passages(derived):
        expected[passage.item_id, passage.ordinal] = _digest(passage, passage.vector_key)
        wanted.add(passage.vector_key)
    wrong: Counter[str] = Counter()
    example: dict[str, str] = {}
    for what, item in _compared(opened.snapshot, key, expected, full=full):
        wrong[what] += 1
        example.setdefault(what, item)
    for item, _ in expected:
        wrong["not indexed"] += 1
        example.setdefault("not indexed", item)
    where = f"index/{directory_name(key)}/{opened.directory.name}/lexical"
    findings = []
    for what, count in wrong.items():
        counted = f"{count} {'passage' if count == 1 else 'passages'} {what}, such as of {example[what]}"
        findings.append(Finding("index_differs", counted, where, key))
    return wanted, findings


def _compared(
    snapshot: Snapshot, key: str, expected: dict[tuple[str, int], bytes], *, full: bool
) -> Iterator[tuple[str, str]]:
    """(what is wrong, of which item) of each stored passage; what is as it should be is taken out of `expected`."""
    for live_segment in snapshot.segments:
        segment, live = live_segment.segment, live_segment.live
        vector_keys = segment.vector_keys()
        postings: dict[str, list[int]] = {}
        for row in range(segment.size) if live is None else np.flatnonzero(live).tolist():
            passage = segment.passage(row, key)
            due = expected.pop((passage.item_id, passage.ordinal), None)
            if due is None:
                yield "that should not be there", passage.item_id
            elif due != _digest(passage, vector_keys[row]):
                yield "other than in Git", passage.item_id
            elif full:
                terms, length = passage_terms(passage)
                if abs(float(segment.lengths[row]) - length) > 1:
                    yield "of another length", passage.item_id
                for token in {term[0].decode() for term in terms}:
                    postings.setdefault(token, []).append(row)
        for token, rows in postings.items():
            for row in set(rows) - set(segment.read_postings(token).rows.tolist()):
                yield "whose words are not found", segment.items[int(segment.item[row])]


def _digest(passage: IndexedPassage, vector_key: str) -> bytes:
    # The base is left out: it is in the directory's name alone.
    text = repr((replace(passage, base=""), vector_key))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def check_vectors(opened: OpenedIndex, key: str, wanted: set[str], cache: Path, scratch: Path) -> Iterator[Finding]:
    """Compare the vectors of an index with those that are remembered, on a copy: Chroma writes to whatever it opens."""
    directory = opened.directory / "vectors"
    where = f"index/{directory_name(key)}/{opened.directory.name}/vectors"
    if not wanted or not directory.is_dir() or not any(directory.iterdir()):
        return
    if not (directory / STAMP_NAME).is_file():
        # Being written by the owner of the index; or left so by a kill, and begun anew by whoever opens it next.
        yield Finding("vectors_missing", "vectors are being written", where, key)
        return
    copy = scratch / "vectors"
    stamped = _stamped(directory)
    try:
        stamp = Stamp.read(directory, VERSION)
        stamp.check(directory)
        shutil.copytree(directory, copy, ignore=shutil.ignore_patterns(f"{DATABASE}*"))
        copy_database(directory / DATABASE, copy / DATABASE)
        with read_only(copy / DATABASE) as database:
            row = database.execute("SELECT dimension FROM collections").fetchone()
        if row is None or not row[0]:
            raise IndexFailure("there is no collection of vectors")
        store = VectorStore(copy, str(stamp.head), int(row[0]))
        try:
            keys = [one for one in store.keys() if one in wanted]  # noqa: SIM118 - a method of the store
            found = dict(zip(keys, store.vectors(keys), strict=True))
        finally:
            store.settle()  # what Chroma has open, it would give to the next base too, whose copy is at the same place
    except (IndexFailure, sqlite3.Error, OSError) as problem:
        if _stamped(directory) == stamped:  # else a server changed them under our eyes
            yield Finding("vectors_damaged", str(problem), where, key)
        return
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    if len(found) < len(wanted):
        yield Finding("vectors_missing", f"{len(wanted) - len(found)} of {len(wanted)} texts have none", where, key)
    known = remembered(cache, str(stamp.head), found)
    other = [one for one, vector in known.items() if not np.allclose(vector, found[one], atol=_CLOSE)]
    if other:
        yield Finding("vectors_differ", f"{len(other)} of {len(known)} are others, such as {other[0][:12]}", where, key)


def _stamped(directory: Path) -> bytes:
    try:
        return (directory / STAMP_NAME).read_bytes()
    except FileNotFoundError:
        return b""


def remembered(cache: Path, fingerprint: str, keys: dict[str, Floats]) -> dict[str, Floats]:
    """The vectors of `keys` in the cache of a model; none where it cannot be read: that is a finding of its own."""
    if not cache.is_file():
        return {}
    found: dict[str, Floats] = {}
    try:
        with read_only(cache) as connection:
            # One by one, by the table's primary key: the file has the vectors of every base.
            sql = "SELECT vector FROM vectors WHERE key = ? AND fingerprint = ?"
            for key, vector in keys.items():
                row = connection.execute(sql, (key, fingerprint)).fetchone()
                if row is not None and len(row[0]) == vector.nbytes:
                    found[key] = np.frombuffer(row[0], "<f4")
    except sqlite3.Error:
        return {}
    return found


def check_vector_cache(path: Path) -> Iterator[Finding]:
    """Whether every remembered vector is one: finite, and of unit length."""
    if not path.is_file():
        return
    try:
        with read_only(path) as connection:
            told = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if told != "ok":
                yield Finding("vector_cache_damaged", str(told), path.name)
                return
            wrong = total = 0
            for (raw,) in connection.execute("SELECT vector FROM vectors"):
                total += 1
                vector = np.frombuffer(raw, "<f4") if len(raw) % 4 == 0 else np.zeros(1, np.float32)
                wrong += not abs(float(np.linalg.norm(vector)) - 1) < UNIT_TOLERANCE
        if wrong:
            yield Finding("vector_cache_damaged", f"{wrong} of {total} are no unit vectors", path.name)
    except sqlite3.Error as error:
        yield Finding("vector_cache_damaged", str(error), path.name)
