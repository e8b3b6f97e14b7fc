"""Search in memory: the knowledge index's own analysis, scoring and fusion, over records instead of items.

The index is derived from the files and compared with them before every search, record by record, so it cannot show what
was forgotten, changed by hand or has expired. Vectors are kept in a cache of their own, apart from that of the bases: it is
emptied of what is forgotten, and the bases' cache of what no base needs.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kbgit.embedding.batch import embed_batch
from kbgit.embedding.cache import VectorCache
from kbgit.embedding.contract import Embedder, Vectors
from kbgit.errors import EmbeddingFailure
from kbgit.index.contract import Index, IndexedPassage, IndexUpdate, Query, Scope
from kbgit.memory.records import MemoryProblem, MemoryRecord, ProjectKey
from kbgit.passage import split_passages
from kbgit.ranking import Mode, fused, normalised, ranked

_ALPHA = 0.5
_K = 60
_EMBEDDING_BATCH = 32
# Files have no head; what is indexed is compared with them record by record.
_HEAD = "files"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MemoryHit:
    """A found record, by its best passage: `lines` of its text, and whether those are all of it."""

    record: MemoryRecord
    score: float
    content: str
    lines: tuple[int, int]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class MemoryHits:
    """Found records, best first, how they were ranked, and the files that could not be read."""

    hits: Sequence[MemoryHit]
    mode_used: Mode
    fallback_reason: str | None
    problems: tuple[MemoryProblem, ...] = ()


class MemorySearch:
    """The index of all projects of a home. `index` and `cache` must not be those of the bases.

    Callers hold a project's lock while they call `synchronise`, `keep` or `erase` for it; `score` needs none.
    """

    def __init__(self, index: Index, embedder: Embedder | None, cache: VectorCache | None) -> None:
        self._index = index
        self._embedder = embedder
        self._cache = cache
        self._unembeddable: frozenset[str] = frozenset()

    # The index follows the files

    def synchronise(self, project: ProjectKey, records: Mapping[str, MemoryRecord]) -> None:
        """Bring the index of a project to `records`, and take vectors that are known from the cache."""
        base = str(project)
        indexed = self._index.items(base)
        removed = {record_id for record_id in indexed if record_id not in records}
        changed = [record for record in records.values() if indexed.get(record.id) != record.digest]
        if not removed and not changed:
            return
        if not records:
            self._index.drop(base)
            return
        added = [passage for record in changed for passage in passages_of(record)]
        removed |= {record.id for record in changed}
        self._index.update(base, IndexUpdate(_HEAD, frozenset(removed), added))
        if self._cache is not None and self._embedder is not None:
            keys = {passage.vector_key for passage in added}
            self._index.add_vectors(base, self._cache.get_many(self._embedder.fingerprint, keys))

    def erase(self, records: Collection[MemoryRecord]) -> None:
        """Leave no vector of forgotten records behind. Raises `IndexFailure`."""
        if self._cache is not None and records:
            self._cache.delete({passage.vector_key for record in records for passage in passages_of(record)})

    def prune(self, records: Collection[MemoryRecord]) -> None:
        """Leave no vector but those of `records`, which are all there are. Raises `IndexFailure`."""
        if self._cache is not None:
            self._cache.prune({passage.vector_key for record in records for passage in passages_of(record)})

    # Vectors

    @property
    def can_embed(self) -> bool:
        """Whether there is an embedder at all."""
        return self._embedder is not None

    def pending(self, project: ProjectKey, limit: int | None = None) -> Mapping[str, str]:
        """Texts of a project that have no vector yet, by vector key, the newest first; at most `limit`, or a batch."""
        if self._embedder is None:
            return {}
        most = (_EMBEDDING_BATCH if limit is None else limit) + len(self._unembeddable)
        texts = self._index.pending_vectors(str(project), most).texts
        return {key: text for key, text in texts.items() if key not in self._unembeddable}

    def awaited(self, project: ProjectKey) -> Collection[str]:
        """The keys of all vectors that a project lacks."""
        return self._index.pending_vectors(str(project), self._index.state(str(project)).passages).texts.keys()

    def embedded(self, texts: Mapping[str, str]) -> dict[str, Vectors]:
        """The vectors of `texts`; a text that alone cannot be embedded is set aside, and found by its words only.

        Raises `EmbeddingFailure` when every text fails: then it is the embedder.
        """
        if self._embedder is None or not texts:
            return {}
        found, failed = embed_batch(self._embedder, texts)
        for key, failure in failed.items():
            log.error("a memory passage, %s, cannot be embedded: %s", key[:12], failure.message)
        self._unembeddable |= failed.keys()
        return found

    def keep(self, project: ProjectKey, vectors: Mapping[str, Vectors]) -> None:
        """Give passages their vectors, and remember those."""
        if self._cache is not None and self._embedder is not None and vectors:
            self._cache.put_many(self._embedder.fingerprint, vectors)
        self._index.add_vectors(str(project), vectors)

    # Search

    def query_vector(self, query: str, projects: Collection[ProjectKey]) -> tuple[Vectors | None, str | None]:
        """The query's vector, or why there is none."""
        if self._embedder is None:
            return None, "no embedder is configured"
        if not query.strip():
            return None, "the query is empty"
        if not any(self._index.state(str(project)).vectors for project in projects):
            return None, "no record searched has a vector yet"
        try:
            return self._embedder.embed_query(query.replace('"', " ")), None
        except EmbeddingFailure as error:
            return None, f"the embedder cannot be used: {error.message}"

    def search(
        self, query: str, projects: Mapping[ProjectKey, Mapping[str, MemoryRecord]], *, limit: int, min_score: float
    ) -> MemoryHits:
        """The best of the given records, by project. Both legs are fused as in a hybrid search of the bases, so scores are
        on the same scale as theirs."""
        vector, fallback = self.query_vector(query, projects)
        scope = Scope({str(project): frozenset(records) for project, records in projects.items()})
        records = {(str(record.project), record.id): record for found in projects.values() for record in found.values()}
        scores = self._index.score(Query(query, (), vector), scope)
        legs = normalised(scores)
        mode = Mode.LEXICAL if vector is None else Mode.HYBRID
        score = fused(legs, scores.item, mode, alpha=_ALPHA, k=_K)
        tiebreak = legs.lexical if legs.semantic is None else legs.lexical + legs.semantic

        def hits() -> Iterator[MemoryHit]:
            for candidate in ranked(score, tiebreak, scores.item, scores.order, min_score):
                passage = scores.passage(candidate.rows[0])
                record = records.get((passage.base, passage.item_id))
                # A record that was changed since `projects` was read will be found as it is now, by the next search.
                if record is not None and record.digest == passage.revision:
                    yield _hit(record, passage, candidate.score)

        found = [hit for _, hit in zip(range(limit), hits(), strict=False)]
        return MemoryHits(found, mode, fallback)


def passages_of(record: MemoryRecord) -> list[IndexedPassage]:
    """The record as it is indexed."""
    return [
        IndexedPassage(
            base=str(record.project),
            item_id=record.id,
            revision=record.digest,
            ordinal=passage.ordinal,
            title=record.title,
            section=passage.section,
            lines=(passage.start_line, passage.end_line),
            text=passage.text,
            tags=record.tags,
        )
        for passage in split_passages(record.text)
    ]


def _hit(record: MemoryRecord, passage: IndexedPassage, score: float) -> MemoryHit:
    is_whole = passage.text.strip() == record.text.strip()
    content = record.text if is_whole else passage.text
    return MemoryHit(record, score, content, passage.lines, is_whole)
