"""The files of a lexical index: what Whoosh stores of a passage, and how a base's next state is written.

`kbgit.index.lexical` reads what is written here; the two are the only modules that know Whoosh.

Durability. Whoosh never calls fsync and deletes the files of the previous state before anyone can be sure of the new
one. Here the *stamp* is the one commit point: a small JSON file that names the head, the versions, and every file of
the state with its size and CRC-32. It is replaced atomically after all that it names has been synced, and only then are
superseded files deleted. Whatever a crash leaves behind, the last stamped state is whole and everything else is litter
that the next `write_state` sweeps away.
"""

from __future__ import annotations

import json
import pickle
import shutil
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from whoosh.codec.base import Segment as StoredSegment
from whoosh.codec.whoosh3 import W3Codec
from whoosh.columns import FixedBytesColumn, NumericColumn, VarBytesColumn
from whoosh.fields import COLUMN, FieldType, Schema
from whoosh.filedb.filestore import FileStorage
from whoosh.formats import Format
from whoosh.index import TOC, FileIndex, LockError
from whoosh.reading import CorruptIndexError, SegmentReader
from whoosh.util.filelock import try_for
from whoosh.writing import SegmentWriter

from kbgit.analysis import ANALYSIS_VERSION
from kbgit.errors import IndexDamaged, IndexFailure
from kbgit.index.contract import IndexedPassage
from kbgit.index.stamp import STAMP_NAME, Stamp
from kbgit.index.terms import TERMS_VERSION, PassageTerm, passage_terms

SCHEMA_VERSION = 3
"""Raised when what is stored changes its shape or meaning."""

VERSION = f"{SCHEMA_VERSION}.{TERMS_VERSION}.{ANALYSIS_VERSION}"
"""Of the stamp: an index of another version must be rebuilt."""

DAMAGE = (
    CorruptIndexError,
    EOFError,
    struct.error,
    pickle.UnpicklingError,
    zlib.error,
    LookupError,
    ValueError,
)
"""What Whoosh raises for a file that is not what it wrote."""

INDEX_NAME = "MAIN"
_LOCK_NAMES = frozenset({"apply.lock", f"{INDEX_NAME}_WRITELOCK"})
_LOCK_SECONDS = 5.0
_SORT_MEMORY_MB = 256
_SMALL_SEGMENT = 64
_MOST_SMALL = 4


def create(directory: Path) -> None:
    """Make an empty index in `directory`, private to its owner. Raises `OSError`."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.chmod(0o700)
    storage = KeepingStorage(str(directory))
    FileIndex.create(storage, schema(), INDEX_NAME)
    Stamp.write(directory, VERSION, None, 0, _state_files(storage, 0), None)


def write_state(
    directory: Path, generation: int, gone: Sequence[int], added: Sequence[IndexedPassage], head: str | None
) -> None:
    """Write and stamp what follows the state `generation`: without the documents `gone`, with `added`, built from `head`.

    Document numbers run through the segments of that state in their order. Raises `IndexFailure`; then the state before
    is as it was.
    """
    with failure(f"lexical index {directory} cannot be written"), exclusive(directory):
        before = Stamp.read(directory, VERSION)
        if before.generation != generation:
            raise IndexFailure(f"lexical index {directory} was changed by another process")
        storage = KeepingStorage(str(directory))
        _sweep(directory, before)
        names, written = _commit(storage, gone, added)
        _sweep(directory, Stamp.write(directory, VERSION, head, written, names, before))


@contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """Hold the directory against other processes; the system frees the lock of one that died. Raises `IndexFailure`."""
    lock = KeepingStorage(str(directory)).lock("apply.lock")
    if not try_for(lock.acquire, timeout=_LOCK_SECONDS):
        raise IndexFailure(f"lexical index {directory} is being written by another process")
    try:
        yield
    finally:
        lock.release()


def _commit(storage: FileStorage, gone: Sequence[int], added: Sequence[IndexedPassage]) -> tuple[list[str], int]:
    """Let Whoosh commit its next generation; the names of its files, and its number."""
    index = FileIndex(storage, schema(), INDEX_NAME)
    writer = index.writer(timeout=_LOCK_SECONDS, limitmb=_SORT_MEMORY_MB, codec=W3Codec(compression=0))
    try:
        for document in gone:
            writer.delete_document(document)
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
    _write_lexicons(storage, writer.generation)
    return _state_files(storage, writer.generation), writer.generation


def _write_lexicons(storage: FileStorage, generation: int) -> None:
    """Write out the tokens of each segment that is new: Whoosh takes ten times as long to list them as a search does."""
    for stored in TOC.read(storage, INDEX_NAME, gen=generation, schema=schema()).segments:
        path = lexicon_file(Path(storage.folder), stored.segment_id())
        if not path.exists():
            with closing(SegmentReader(storage, schema(), stored)) as reader:
                path.write_bytes(tokens_of(reader))


def lexicon_file(directory: Path, segment_id: str) -> Path:
    """Where the `tokens_of` a segment are."""
    return directory / f"{segment_id}.lexicon"


def tokens_of(reader: SegmentReader) -> bytes:
    """Every token of a segment, in UTF-8, sorted by code point, each between newlines."""
    return b"\n".join([b"", *reader.lexicon("terms"), b""])


def _sweep(directory: Path, stamp: Stamp) -> None:
    """Delete what no state needs: files that neither `stamp` nor a lock is."""
    for entry in directory.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry.name != STAMP_NAME and entry.name not in _LOCK_NAMES and entry.name not in stamp.files:
            entry.unlink()


def _state_files(storage: FileStorage, generation: int) -> list[str]:
    """The names of the files of a generation: its table of contents and its segments."""
    toc = TOC.read(storage, INDEX_NAME, gen=generation, schema=schema())
    return [
        f"_{INDEX_NAME}_{generation}.toc",
        *(segment.make_filename(segment.COMPOUND_EXT) for segment in toc.segments),
        *(lexicon_file(Path(), segment.segment_id()).name for segment in toc.segments),
    ]


def _merge_policy(added: int) -> Callable[[SegmentWriter, list[StoredSegment]], list[StoredSegment]]:
    """Merge into the new segment, of `added` passages, what is not much larger than it, and what is half deleted.

    So sizes grow geometrically: there are about log₂(passages) segments, and a passage is rewritten that many times. Small
    ones are let be until there are a few, as single changes would rewrite all of them each time.
    """

    def merge(writer: SegmentWriter, segments: list[StoredSegment]) -> list[StoredSegment]:
        kept = []
        size = max(added, _SMALL_SEGMENT)
        small = sum(0 < segment.doc_count() <= _SMALL_SEGMENT for segment in segments)
        may_wait = added <= _SMALL_SEGMENT and small < _MOST_SMALL
        for segment in sorted(segments, key=lambda segment: int(segment.doc_count())):
            live = segment.doc_count()
            if live and 2 * live > segment.doc_count_all() and (live > size or may_wait):
                kept.append(segment)
                continue
            size += live
            if live:
                writer.add_reader(SegmentReader(writer.storage, writer.schema, segment))
        return kept

    return merge


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


class _PositionsFormat(Format):  # type: ignore[misc]  # Whoosh has no types
    """A weight and a list of positions per posting."""


class _Terms(FieldType):  # type: ignore[misc]
    """A field whose value is the list of its `PassageTerm`s, which is the shape that Whoosh writes."""

    def __init__(self) -> None:
        super().__init__(_PositionsFormat(), analyzer=None)

    def index(self, value: Sequence[PassageTerm], **_: object) -> Sequence[PassageTerm]:
        return value


def schema() -> Schema:
    """What is stored of each passage."""
    return Schema(
        terms=_Terms(),
        passage=COLUMN(VarBytesColumn()),  # not STORED: that is pickled and compressed, and read for every result
        item=COLUMN(VarBytesColumn()),  # not RefBytesColumn: it loses values beyond 65,535 distinct ones
        revision=COLUMN(VarBytesColumn()),
        length=COLUMN(NumericColumn("I")),
        vector_key=COLUMN(FixedBytesColumn(32)),
    )


class KeepingStorage(FileStorage):  # type: ignore[misc]
    """Files of a directory, of which those that Whoosh deletes stay until the new state is stamped."""

    def delete_file(self, name: str) -> None:
        """Leave it: the sweep after the stamp deletes what the stamp does not name."""


@contextmanager
def damage(what: str) -> Iterator[None]:
    """Whoosh's complaints about a file as `IndexDamaged`: after the stamp's check, of one that was damaged while open."""
    try:
        yield
    except DAMAGE as problem:
        raise IndexDamaged(f"{what}: {problem}") from problem


@contextmanager
def failure(what: str) -> Iterator[None]:
    """The system's and Whoosh's refusals as `IndexFailure`."""
    try:
        yield
    except LockError as problem:
        raise IndexFailure(f"{what}: another writer holds it") from problem
    except OSError as problem:
        raise IndexFailure(f"{what}: {problem.strerror or problem}") from problem
