"""The lexical index of one base on disk. The only module that knows Whoosh.

Whoosh keeps what it keeps well: immutable segments of postings, columns and stored fields. Tokens come from
`kbgit.index.terms`, ranking is `kbgit.index.bm25`; Whoosh's analysers, query parser and scorers are not used. Of the
distributions that import as `whoosh`, `whoosh3` is the maintained one.

    index = LexicalIndex(directory)             # opens, or creates in an absent or empty directory
    index.apply(removed, added, head)           # durable when it returns
    snapshot = index.snapshot()                 # immutable; goes on working while others are applied
    snapshot.segments                           # its segments: columns as arrays, postings, stored passages

Durability. Whoosh never calls fsync and deletes the files of the previous state before anyone can be sure of the new
one. Here the *stamp* is the one commit point: a small JSON file that names the head, the versions, and every file of
the state with its size and CRC-32. It is replaced atomically after all that it names has been synced, and only then are
superseded files deleted. Whatever a crash leaves behind, the last stamped state is whole and everything else is litter
that the next `apply` sweeps away.

Damage. Opening checks every file against the stamp before Whoosh (whose table of contents is a pickle) reads a byte of
it, and raises `IndexDamaged` for whatever is missing, cut or changed: the caller rebuilds into a fresh directory. The
directory is private (0700).
"""

from __future__ import annotations

import json
import pickle
import shutil
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock

import numpy as np
import numpy.typing as npt
from whoosh.codec.base import Segment as StoredSegment
from whoosh.codec.whoosh3 import W3Codec
from whoosh.columns import FixedBytesColumn, NumericColumn, VarBytesColumn
from whoosh.fields import COLUMN, FieldType, Schema
from whoosh.filedb.filestore import FileStorage
from whoosh.formats import Format
from whoosh.index import TOC, FileIndex, LockError
from whoosh.matching import Matcher
from whoosh.reading import CorruptIndexError, SegmentReader, TermNotFound
from whoosh.util.filelock import try_for
from whoosh.writing import SegmentWriter

from kbgit.analysis import ANALYSIS_VERSION
from kbgit.errors import IndexDamaged, IndexFailure
from kbgit.index.contract import IndexedPassage, item_number
from kbgit.index.postings import EMPTY, ROW_SHIFT, Places, Postings
from kbgit.index.stamp import STAMP_NAME, Stamp
from kbgit.index.terms import TERMS_VERSION, PassageTerm, passage_terms

SCHEMA_VERSION = 2
"""Raised when what is stored changes its shape or meaning."""

VERSION = f"{SCHEMA_VERSION}.{TERMS_VERSION}.{ANALYSIS_VERSION}"
"""Of the stamp: an index of another version must be rebuilt."""

_DAMAGE = (
    CorruptIndexError,
    EOFError,
    struct.error,
    pickle.UnpicklingError,
    zlib.error,
    LookupError,
    ValueError,
)
"""What Whoosh raises for a file that is not what it wrote."""

_INDEX_NAME = "MAIN"
_LOCK_NAMES = frozenset({"apply.lock", f"{_INDEX_NAME}_WRITELOCK"})
_LOCK_SECONDS = 5.0
_SORT_MEMORY_MB = 256
_SMALL_SEGMENT = 64
_OPEN_ATTEMPTS = 10
_NO_PLACES: Places = np.empty(0, np.int64)


class _PositionsFormat(Format):  # type: ignore[misc]  # Whoosh has no types
    """A weight and a list of positions per posting."""


class _Terms(FieldType):  # type: ignore[misc]
    """A field whose value is the list of its `PassageTerm`s, which is the shape that Whoosh writes."""

    def __init__(self) -> None:
        super().__init__(_PositionsFormat(), analyzer=None)

    def index(self, value: Sequence[PassageTerm], **_: object) -> Sequence[PassageTerm]:
        return value


def _schema() -> Schema:
    return Schema(
        terms=_Terms(),
        passage=COLUMN(VarBytesColumn()),  # not STORED: that is pickled and compressed, and read for every result
        item=COLUMN(VarBytesColumn()),  # not RefBytesColumn: it loses values beyond 65,535 distinct ones
        revision=COLUMN(VarBytesColumn()),
        length=COLUMN(NumericColumn("I")),
        vector_key=COLUMN(FixedBytesColumn(32)),
    )


class _KeepingStorage(FileStorage):  # type: ignore[misc]
    """Files of a directory, of which those that Whoosh deletes stay until the new state is stamped."""

    def delete_file(self, name: str) -> None:
        """Leave it: the sweep after the stamp deletes what the stamp does not name."""


class Segment:
    """One immutable segment: columns as arrays, postings and stored passages by row. Thread-safe.

    Rows are 0 ≤ row < `size`, deleted ones included; which are deleted is the snapshot's to know.
    """

    def __init__(self, reader: SegmentReader, segment_id: str) -> None:
        self._reader = reader
        self._lock = Lock()  # Whoosh's readers seek
        self.segment_id = segment_id
        self.size: int = reader.doc_count_all()
        self.lengths: npt.NDArray[np.float32] = np.array(reader.column_reader("length").load(), dtype=np.float32)
        """Length of each passage in units, shape (size,)."""
        states = list(zip(reader.column_reader("item"), reader.column_reader("revision"), strict=True))
        ordinals = {state: ordinal for ordinal, state in enumerate(dict.fromkeys(states))}
        self.items: tuple[str, ...] = tuple(item.decode("utf-8", "surrogatepass") for item, _ in ordinals)
        """Ids of its items."""
        self.revisions: tuple[str, ...] = tuple(revision.decode() for _, revision in ordinals)
        """The revision of each of `items`."""
        self.item: npt.NDArray[np.int64] = np.array([ordinals[state] for state in states], dtype=np.int64)
        """Index into `items` of each passage's item, shape (size,)."""
        self._passages = reader.column_reader("passage")
        self._vector_keys: bytes = b"".join(map(bytes, reader.column_reader("vector_key")))

    @cached_property
    def ordinal_of(self) -> Mapping[str, int]:
        """Item id → index into `items`."""
        return {item: ordinal for ordinal, item in enumerate(self.items)}

    @cached_property
    def order(self) -> npt.NDArray[np.int64]:
        """A number of each row that depends on its passage alone, shape (size,); see `contract.Scores.order`."""
        numbers = np.array([item_number(item) for item in self.items], np.int64)
        keys = np.frombuffer(self._vector_keys, ">i8").reshape(-1, 4)[:, 0].astype(np.int64)
        return numbers[self.item] ^ keys if len(keys) else keys

    def vector_keys(self) -> list[str]:
        """`IndexedPassage.vector_key` of each row, deleted ones included; made anew at each call."""
        keys = self._vector_keys.hex()
        return [keys[start : start + 64] for start in range(0, len(keys), 64)]

    def passage(self, row: int, base: str) -> IndexedPassage:
        """The passage at `row`, as one of `base`."""
        try:
            with self._lock:
                stored = bytes(self._passages[row])
            ordinal, title, section, (start, end), text, locator, description, tags = json.loads(stored)
        except _DAMAGE as problem:
            raise IndexDamaged(f"{self.segment_id}: {problem}") from problem
        item = int(self.item[row])
        return IndexedPassage(
            base=base,
            item_id=self.items[item],
            revision=self.revisions[item],
            ordinal=ordinal,
            title=title,
            section=tuple(section),
            lines=(start, end),
            text=text,
            locator=locator,
            description=description,
            tags=tuple(tags),
        )

    def read_postings(self, token: str) -> Postings:
        """The posting list of `token`, deleted rows included; empty when it does not occur."""
        rows: list[int] = []
        weights: list[float] = []
        with self._reading() as reader:
            matcher = _matcher(reader, token)
            while matcher is not None and matcher.is_active():
                rows.append(matcher.id())
                weights.append(matcher.weight())
                matcher.next()
        if not rows:
            return EMPTY
        return Postings(np.array(rows, np.int64), np.array(weights, np.float32))

    def read_places(self, token: str) -> Places:
        """The places of `token`, row × 2³² + position, ascending; empty when it does not occur."""
        rows: list[int] = []
        values: list[bytes] = []
        with self._reading() as reader:
            matcher = _matcher(reader, token)
            while matcher is not None and matcher.is_active():
                rows.append(matcher.id())
                values.append(matcher.value())
                matcher.next()
        if not rows:
            return _NO_PLACES
        counts = np.fromiter(map(len, values), np.int64, len(values)) // 4
        positions = np.frombuffer(b"".join(values), "<u4").astype(np.int64)
        return np.sort((np.repeat(np.array(rows, np.int64), counts) << ROW_SHIFT) + positions)

    def read_lexicon(self) -> str:
        """Every token, sorted by code point, each between newlines."""
        with self._reading() as reader:
            return b"\n".join([b"", *reader.lexicon("terms"), b""]).decode("utf-8")

    @contextmanager
    def _reading(self) -> Iterator[SegmentReader]:
        with self._lock, _damage(self.segment_id):
            yield self._reader


@dataclass(frozen=True, slots=True)
class LiveSegment:
    """A segment as a snapshot sees it: `live` is False for deleted rows, None when there are none."""

    segment: Segment
    live: npt.NDArray[np.bool_] | None

    @property
    def passages(self) -> int:
        """How many passages are not deleted."""
        return self.segment.size if self.live is None else int(np.count_nonzero(self.live))


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One state of one base. Immutable, and usable for as long as it is held, whatever is applied meanwhile."""

    head: str | None
    """The head it was built from; None before the first `apply`."""
    segments: tuple[LiveSegment, ...]

    @cached_property
    def passages(self) -> int:
        """How many passages it holds."""
        return sum(live_segment.passages for live_segment in self.segments)

    @cached_property
    def items(self) -> Mapping[str, str]:
        """Item id → revision."""
        found: dict[str, str] = {}
        for live_segment in self.segments:
            segment, live = live_segment.segment, live_segment.live
            items = np.unique(segment.item if live is None else segment.item[live]).tolist()
            found.update((segment.items[item], segment.revisions[item]) for item in items)
        return found


class LexicalIndex:
    """The index of one base in its own directory. Methods may be called from several threads; `apply` serialises."""

    def __init__(self, directory: Path) -> None:
        """Open the index in `directory`, or create an empty one where there is nothing.

        Raises `IndexDamaged` when what is there is not whole or of another version, `IndexFailure` when it cannot be
        read or created.
        """
        self._directory = directory
        self._writing = Lock()
        self._storage = _KeepingStorage(str(directory))
        self._snapshot = Snapshot(None, ())
        with _failure(f"lexical index {directory} cannot be opened"):
            if not directory.is_dir() or not any(directory.iterdir()):
                self._create()
            self._snapshot = self._open()

    @property
    def directory(self) -> Path:
        """Where it is; removing it with all it holds is how a base is dropped."""
        return self._directory

    def snapshot(self) -> Snapshot:
        """The state as of the last `apply`."""
        return self._snapshot

    def apply(self, removed: Iterable[str], added: Sequence[IndexedPassage], head: str | None) -> None:
        """Remove all passages of the items `removed`, add `added`, and stamp the result with `head`; idempotent.

        `head` None says that the state is not yet that of any head: the first of several parts.

        Items that are added lose the passages they had, whether they are in `removed` or not; should `added` hold one
        item in several revisions, the last counts. Raises `IndexFailure`; then the old state still answers.
        """
        added = _one_state_per_item(added)
        gone = set(removed).union(passage.item_id for passage in added)
        with self._writing, _failure(f"lexical index {self._directory} cannot be written"), self._exclusive():
            before = Stamp.read(self._directory, VERSION)
            self._sweep(before)
            names, generation = self._write(gone, added)
            after = Stamp.write(self._directory, VERSION, head, generation, names, before)
            self._snapshot = self._open_stamped(after)
            self._sweep(after)

    def refresh(self) -> Snapshot:
        """Open again what another process may have applied, and answer it. Raises `IndexDamaged`."""
        with self._writing, _failure(f"lexical index {self._directory} cannot be opened"):
            self._snapshot = self._open()
        return self._snapshot

    # --- reading -----------------------------------------------------------------------------------------------------

    def _open(self) -> Snapshot:
        """The stamped state. A writer in another process may supersede it meanwhile: then the next one is opened."""
        stamp = Stamp.read(self._directory, VERSION)
        for _ in range(_OPEN_ATTEMPTS):
            try:
                stamp.check(self._directory)
                return self._open_stamped(stamp)
            except (IndexDamaged, FileNotFoundError) as problem:
                newer = Stamp.read(self._directory, VERSION)
                if newer == stamp:
                    raise IndexDamaged(f"lexical index {self._directory}: {problem}") from problem
                stamp = newer
        raise IndexFailure(f"lexical index {self._directory} changes faster than it can be opened")

    def _open_stamped(self, stamp: Stamp) -> Snapshot:
        known = {live_segment.segment.segment_id: live_segment.segment for live_segment in self._snapshot.segments}
        schema = _schema()
        segments = []
        with _damage(str(self._directory)):
            for stored in TOC.read(self._storage, _INDEX_NAME, gen=stamp.generation, schema=schema).segments:
                name = stored.segment_id()
                segment = known.get(name) or Segment(SegmentReader(self._storage, schema, stored), name)
                live = None
                if stored.has_deletions():
                    live = np.ones(segment.size, dtype=np.bool_)
                    live[list(stored.deleted_docs())] = False
                segments.append(LiveSegment(segment, live))
        return Snapshot(stamp.head, tuple(segments))

    # --- writing -----------------------------------------------------------------------------------------------------

    def _create(self) -> None:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory.chmod(0o700)
        FileIndex.create(self._storage, _schema(), _INDEX_NAME)
        Stamp.write(self._directory, VERSION, None, 0, _state_files(self._storage, 0), None)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Hold the directory against other processes; the system frees the lock of one that died."""
        lock = self._storage.lock("apply.lock")
        if not try_for(lock.acquire, timeout=_LOCK_SECONDS):
            raise IndexFailure(f"lexical index {self._directory} is being written by another process")
        try:
            yield
        finally:
            lock.release()

    def _write(self, gone: set[str], added: Sequence[IndexedPassage]) -> tuple[list[str], int]:
        """Let Whoosh commit its next generation; the names of its files, and its number.

        Document numbers run through the segments in their order.
        """
        index = FileIndex(self._storage, _schema(), _INDEX_NAME)
        writer = index.writer(timeout=_LOCK_SECONDS, limitmb=_SORT_MEMORY_MB, codec=W3Codec(compression=0))
        try:
            start = 0
            for live_segment in self._snapshot.segments:
                segment = live_segment.segment
                ordinals = [ordinal for item in gone if (ordinal := segment.ordinal_of.get(item)) is not None]
                for row in np.flatnonzero(np.isin(segment.item, ordinals)) if ordinals else ():
                    writer.delete_document(start + int(row))
                start += segment.size
            for passage in added:
                terms, length = passage_terms(passage)
                writer.add_document(
                    terms=terms,
                    passage=_stored(passage),
                    item=passage.item_id.encode("utf-8", "surrogatepass"),
                    revision=passage.revision.encode(),
                    length=length,
                    vector_key=bytes.fromhex(passage.vector_key),
                )
        except BaseException:
            writer.cancel()
            raise
        writer.commit(mergetype=_merge_policy(len(added)))
        return _state_files(self._storage, writer.generation), writer.generation

    def _sweep(self, stamp: Stamp) -> None:
        """Delete what no state needs: files that neither `stamp` nor a lock is."""
        for entry in self._directory.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            elif entry.name != STAMP_NAME and entry.name not in _LOCK_NAMES and entry.name not in stamp.files:
                entry.unlink()


def _state_files(storage: FileStorage, generation: int) -> list[str]:
    """The names of the files of a generation: its table of contents and its segments."""
    toc = TOC.read(storage, _INDEX_NAME, gen=generation, schema=_schema())
    return [
        f"_{_INDEX_NAME}_{generation}.toc",
        *(segment.make_filename(segment.COMPOUND_EXT) for segment in toc.segments),
    ]


def _merge_policy(added: int) -> Callable[[SegmentWriter, list[StoredSegment]], list[StoredSegment]]:
    """Merge into the new segment, of `added` passages, what is not much larger than it, and what is half deleted.

    So sizes grow geometrically: there are about log₂(passages) segments, and a passage is rewritten that many times.
    """

    def merge(writer: SegmentWriter, segments: list[StoredSegment]) -> list[StoredSegment]:
        kept = []
        size = max(added, _SMALL_SEGMENT)
        for segment in sorted(segments, key=lambda segment: int(segment.doc_count())):
            live = segment.doc_count()
            if live and live > size and 2 * live > segment.doc_count_all():
                kept.append(segment)
                continue
            size += live
            if live:
                writer.add_reader(SegmentReader(writer.storage, writer.schema, segment))
        return kept

    return merge


def _one_state_per_item(added: Sequence[IndexedPassage]) -> list[IndexedPassage]:
    """`added` without the passages of a revision that a later one of the same item supersedes."""
    last = {passage.item_id: passage.revision for passage in added}
    return [passage for passage in added if passage.revision == last[passage.item_id]]


def _stored(passage: IndexedPassage) -> bytes:
    """What is stored of a passage besides its columns."""
    values = (
        passage.ordinal,
        passage.title,
        passage.section,
        passage.lines,
        passage.text,
        passage.locator,
        passage.description,
        passage.tags,
    )
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _matcher(reader: SegmentReader, token: str) -> Matcher | None:
    """Whoosh's cursor over the postings of `token`; None when it does not occur."""
    try:
        return reader.postings("terms", token.encode("utf-8"))
    except TermNotFound:
        return None


@contextmanager
def _damage(what: str) -> Iterator[None]:
    """Whoosh's complaints about a file as `IndexDamaged`: after the stamp's check, of one that was damaged while open."""
    try:
        yield
    except _DAMAGE as problem:
        raise IndexDamaged(f"{what}: {problem}") from problem


@contextmanager
def _failure(what: str) -> Iterator[None]:
    """The system's and Whoosh's refusals as `IndexFailure`."""
    try:
        yield
    except LockError as problem:
        raise IndexFailure(f"{what}: another writer holds it") from problem
    except OSError as problem:
        raise IndexFailure(f"{what}: {problem.strerror or problem}") from problem
