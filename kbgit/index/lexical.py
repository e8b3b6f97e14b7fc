"""The lexical index of one base on disk, as it is read; `kbgit.index.lexical_files` is how it is written.

Whoosh keeps what it keeps well: immutable segments of postings, columns and stored fields. Tokens come from
`kbgit.index.terms`, ranking is `kbgit.index.bm25`; Whoosh's analysers, query parser and scorers are not used. Of the
distributions that import as `whoosh`, `whoosh3` is the maintained one.

    index = LexicalIndex(directory)             # opens, or creates in an absent or empty directory
    index.apply(removed, added, head)           # durable when it returns
    snapshot = index.snapshot()                 # immutable; goes on working while others are applied
    snapshot.segments                           # its segments: columns as arrays, postings, stored passages

Damage. Opening checks every file against the stamp before Whoosh (whose table of contents is a pickle) reads a byte of
it, and raises `IndexDamaged` for whatever is missing, cut or changed: the caller rebuilds into a fresh directory. The
directory is private (0700).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock

import numpy as np
import numpy.typing as npt
from whoosh.index import TOC
from whoosh.matching import Matcher
from whoosh.reading import SegmentReader, TermNotFound

from kbgit.errors import IndexDamaged, IndexFailure, WriterEnded
from kbgit.index.contract import IndexedPassage, item_number
from kbgit.index.lexical_files import (
    DAMAGE,
    INDEX_NAME,
    VERSION,
    KeepingStorage,
    create,
    damage,
    failure,
    lexicon_file,
    schema,
    tokens_of,
)
from kbgit.index.postings import EMPTY, ROW_SHIFT, Places, Postings
from kbgit.index.stamp import Stamp
from kbgit.index.writer import HERE, Writer

_OPEN_ATTEMPTS = 10
_NO_PLACES: Places = np.empty(0, np.int64)

log = logging.getLogger(__name__)


class Segment:
    """One immutable segment: columns as arrays, postings and stored passages by row. Thread-safe.

    Rows are 0 ≤ row < `size`, deleted ones included; which are deleted is the snapshot's to know.
    """

    def __init__(self, reader: SegmentReader, lexicon: Path, segment_id: str) -> None:
        self._reader = reader
        self._lexicon = lexicon
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
        except DAMAGE as problem:
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
            try:
                found = self._lexicon.read_bytes()
            except FileNotFoundError:  # the segment was superseded; whoever still holds it has its other file open
                found = tokens_of(reader)
            return found.decode("utf-8")

    @contextmanager
    def _reading(self) -> Iterator[SegmentReader]:
        with self._lock, damage(self.segment_id):
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
    generation: int
    """The number of the state on disk."""
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

    def documents(self, items: Iterable[str]) -> list[int]:
        """The numbers of all passages of `items`, deleted ones included; they run through the segments in their order."""
        wanted = list(items)
        found: list[int] = []
        start = 0
        for live_segment in self.segments:
            segment = live_segment.segment
            ordinals = [ordinal for item in wanted if (ordinal := segment.ordinal_of.get(item)) is not None]
            if ordinals:
                found += (start + np.flatnonzero(np.isin(segment.item, ordinals))).tolist()
            start += segment.size
        return found


class LexicalIndex:
    """The index of one base in its own directory. Methods may be called from several threads; `apply` serialises."""

    def __init__(self, directory: Path, writer: Writer = HERE) -> None:
        """Open the index in `directory`, or create an empty one where there is nothing. `writer` changes its files.

        Raises `IndexDamaged` when what is there is not whole or of another version, `IndexFailure` when it cannot be
        read or created.
        """
        self._directory = directory
        self._writer = writer
        self._writing = Lock()
        self._storage = KeepingStorage(str(directory))
        self._snapshot = Snapshot(None, 0, ())
        with failure(f"lexical index {directory} cannot be opened"):
            if not directory.is_dir() or not any(directory.iterdir()):
                create(directory)
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
        with self._writing, failure(f"lexical index {self._directory} cannot be written"):
            try:
                self._write(gone, added, head)
            except WriterEnded as problem:
                log.warning("lexical index %s is written once more: %s", self._directory, problem.message)
                self._write(gone, added, head)

    def _write(self, gone: Iterable[str], added: Sequence[IndexedPassage], head: str | None) -> None:
        if Stamp.read(self._directory, VERSION).generation != self._snapshot.generation:
            self._snapshot = self._open()  # another process wrote, perhaps one that ended before it could tell
        documents = self._snapshot.documents(gone)
        self._writer.write_state(self._directory, self._snapshot.generation, documents, added, head)
        self._snapshot = self._open_stamped(Stamp.read(self._directory, VERSION))

    def refresh(self) -> Snapshot:
        """Open again what another process may have applied, and answer it. Raises `IndexDamaged`."""
        with self._writing, failure(f"lexical index {self._directory} cannot be opened"):
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
        shape = schema()
        segments = []
        with damage(str(self._directory)):
            for stored in TOC.read(self._storage, INDEX_NAME, gen=stamp.generation, schema=shape).segments:
                name = stored.segment_id()
                segment = known.get(name) or Segment(
                    SegmentReader(self._storage, shape, stored), lexicon_file(self._directory, name), name
                )
                live = None
                if stored.has_deletions():
                    live = np.ones(segment.size, dtype=np.bool_)
                    live[list(stored.deleted_docs())] = False
                segments.append(LiveSegment(segment, live))
        return Snapshot(stamp.head, stamp.generation, tuple(segments))


def _one_state_per_item(added: Sequence[IndexedPassage]) -> list[IndexedPassage]:
    """`added` without the passages of a revision that a later one of the same item supersedes."""
    last = {passage.item_id: passage.revision for passage in added}
    return [passage for passage in added if passage.revision == last[passage.item_id]]


def _matcher(reader: SegmentReader, token: str) -> Matcher | None:
    """Whoosh's cursor over the postings of `token`; None when it does not occur."""
    try:
        return reader.postings("terms", token.encode("utf-8"))
    except TermNotFound:
        return None
