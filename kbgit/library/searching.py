"""Search: from a request to a page of cited results, all of them current and all of them the caller's to see."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from typing import Any

import numpy as np

from kbgit.access import Principal
from kbgit.catalogue import Catalogue
from kbgit.citation import Citation
from kbgit.config import Settings
from kbgit.embedding.contract import Embedder, Vectors
from kbgit.errors import BaseArchived, EmbeddingFailure, GitFailure, TimedOut
from kbgit.index.contract import Index, IndexedPassage, Query, Scope, Scores
from kbgit.indexer import Indexer
from kbgit.item import parse_document
from kbgit.library.answers import Freshness, PassageHit, SearchResponse, SearchResult
from kbgit.library.citing import quote_hash
from kbgit.library.request import Content, SearchRequest
from kbgit.library.sight import Sight
from kbgit.place import stretch
from kbgit.ranking import Legs, Mode, RankedItem, fused, item_ranks, normalised, ranked
from kbgit.rows import BaseRow, CurrentItem

_MORE_PASSAGES = 3
_WINDOW = 12  # candidates confirmed together: a page of ten and one more, with a little room
_REMEMBERED_QUERIES = 512


@dataclass(frozen=True, slots=True)
class _Hit:
    """A ranked item that the catalogue confirms, with its best passage."""

    ranked: RankedItem
    best: IndexedPassage
    current: CurrentItem
    base: BaseRow


class Searching:
    """Search over one index, checked against the catalogue."""

    def __init__(
        self, settings: Settings, catalogue: Catalogue, index: Index, embedder: Embedder | None, indexer: Indexer
    ) -> None:
        self._settings = settings
        self._catalogue = catalogue
        self._index = index
        self._embedder = embedder
        self._indexer = indexer
        self._query_vectors = _Remembered(_REMEMBERED_QUERIES)

    def search(self, request: SearchRequest, caller: Principal | None) -> SearchResponse:
        """A page of results. Raises `BaseNotFound`, `BaseArchived`, `TimedOut`."""
        sight = Sight(self._catalogue, caller)
        chosen = sight.chosen(request.bases, request.spaces)
        bases = [self._indexer.seen(base) for base in chosen]
        _refuse_archived(request, bases)
        if request.wait_for is not None:
            self._wait(request, bases)
            bases = [self._catalogue.base(str(base.key)) for base in bases]
        bases = [base for base in bases if base.active]
        vector, fallback = self._query_vector(request, bases)
        scope = Scope({str(base.key): self._filter(request, base) for base in bases})
        scores = self._index.score(Query(request.query, request.exclude, vector), scope)
        mode_used = request.mode if vector is not None else Mode.LEXICAL
        legs = normalised(scores)
        score = fused(legs, scores.item, mode_used, alpha=request.alpha, k=request.k)
        tiebreak = legs.lexical if legs.semantic is None else legs.lexical + legs.semantic
        candidates = ranked(score, tiebreak, scores.item, scores.order, request.min_score)
        by_key = {str(base.key): base for base in bases}
        wanted = request.offset + request.limit
        hits = list(islice(self._confirmed(candidates, scores, by_key), wanted + 1))
        explain = _Explanation(scores, legs, fallback) if request.explain else None
        results, notes = self._results(hits[request.offset : wanted], request, scores, score, explain)
        return SearchResponse(
            mode=request.mode,
            mode_used=mode_used,
            fallback_reason=fallback,
            results=results,
            freshness=self.freshness(bases),
            has_more=len(hits) > wanted,
            notes=notes,
            explanation=explain.legs() if explain else None,
        )

    # Before

    def _wait(self, request: SearchRequest, bases: Sequence[BaseRow]) -> None:
        limit = self._settings.wait_for_max_seconds
        seconds = limit if request.wait_seconds is None else min(limit, request.wait_seconds)
        commit = request.wait_for
        assert commit is not None
        give_up = time.monotonic() + seconds
        while not self._is_indexed(commit, bases):
            left = give_up - time.monotonic()
            # A commit whose push is under way is in no catalogue yet: look at the branches again now and then.
            if left <= 0 or not self._indexer.wait_until(lambda: self._is_indexed(commit, bases), min(left, 0.25)):
                if left <= 0:
                    raise TimedOut(f"{commit} was not indexed within {seconds:g} s", {"wait_for": commit})
                for base in bases:
                    self._indexer.seen(self._catalogue.base(str(base.key)))

    def _is_indexed(self, commit: str, bases: Sequence[BaseRow]) -> bool:
        for base in bases:
            key = str(base.key)
            position = self._catalogue.commit_position(key, commit)
            if position is not None:
                indexed = self._indexer.state(key).head
                reached = self._catalogue.commit_position(key, indexed) if indexed else None
                return reached is not None and reached >= position
        return False

    def _filter(self, request: SearchRequest, base: BaseRow) -> frozenset[str] | None:
        if not (request.tags or request.locator or request.metadata):
            return None
        return self._catalogue.matching(
            str(base.key), tags=request.tags, prefix=request.locator, metadata=request.metadata
        )

    def _query_vector(self, request: SearchRequest, bases: Sequence[BaseRow]) -> tuple[Vectors | None, str | None]:
        """The query's vector, or why the answer is lexical."""
        if request.mode is Mode.LEXICAL:
            return None, None
        if self._embedder is None:
            return None, self._indexer.embedding_problem or "no embedder is configured"
        if not any(self._indexer.state(str(base.key)).vectors for base in bases):
            return None, "no passage searched has a vector yet"
        if not request.query.strip():
            return None, "the query is empty"
        vector = self._query_vectors.get(request.query)
        if vector is None:
            try:
                vector = self._embedder.embed_query(request.query.replace('"', " "))
            except EmbeddingFailure as error:
                return None, f"the embedder cannot be used: {error.message}"
            self._query_vectors.put(request.query, vector)
        return vector, None

    # After

    def _confirmed(self, candidates: Iterator[RankedItem], scores: Scores, bases: dict[str, BaseRow]) -> Iterator[_Hit]:
        """Only what the catalogue calls published and current leaves: the index may lag, an answer may not."""
        while window := list(islice(candidates, _WINDOW)):
            best = [scores.passage(candidate.rows[0]) for candidate in window]
            current = self._catalogue.current([(passage.base, passage.item_id) for passage in best])
            for candidate, passage in zip(window, best, strict=True):
                found = current.get((passage.base, passage.item_id))
                if found is not None and found.revision == passage.revision:
                    yield _Hit(candidate, passage, found, bases[passage.base])

    def _results(
        self,
        hits: Sequence[_Hit],
        request: SearchRequest,
        scores: Scores,
        score: np.ndarray[Any, np.dtype[np.float32]],
        explain: _Explanation | None,
    ) -> tuple[list[SearchResult], tuple[str, ...]]:
        results = []
        room = self._settings.response_max_kb * 1024
        is_cut = False
        for hit in hits:
            result = self._result(hit, request, scores, score, explain)
            room -= len(result.content or "") + sum(len(more.content or "") for more in result.more_passages)
            if room < 0:
                is_cut = True
                result = self._result(hit, _without_content(request), scores, score, explain)
            results.append(result)
        return results, (("contents beyond the size limit of an answer are left out",) if is_cut else ())

    def _result(
        self,
        hit: _Hit,
        request: SearchRequest,
        scores: Scores,
        score: np.ndarray[Any, np.dtype[np.float32]],
        explain: _Explanation | None,
    ) -> SearchResult:
        item, best = hit.current, hit.best
        content = None if request.content is Content.NONE else best.text
        whole = ""
        if request.content is Content.FULL:
            whole = content = self._content(hit)
        elif item.from_file:
            with suppress(GitFailure):  # a damaged repository has its alarm; that a page is not known spoils no answer
                whole = self._content(hit)
        more = []
        for row in hit.ranked.rows[1 : 1 + _MORE_PASSAGES]:
            passage = scores.passage(row)
            text = passage.text if request.content is Content.PASSAGE else None
            citation = Citation(item.item_id, item.revision, passage.lines)
            hashed = quote_hash(passage.text)
            more.append(
                PassageHit(
                    citation,
                    passage.section,
                    passage.lines,
                    float(score[row]),
                    text,
                    hashed,
                    stretch(whole, *passage.lines),
                )
            )
        return SearchResult(
            item_id=item.item_id,
            revision=item.revision,
            title=item.title,
            content=content,
            score=hit.ranked.score,
            lines=best.lines,
            section=best.section,
            base=hit.base,
            locator=item.path,
            number=item.number,
            published_at=item.published_at,
            tags=item.tags,
            quote_hash=quote_hash(best.text),
            more_passages=tuple(more),
            explanation=explain.of(hit.ranked.rows[0]) if explain else None,
            place=stretch(whole, *best.lines),
        )

    def _content(self, hit: _Hit) -> str:
        """The whole text of a hit's item. Raises `GitFailure`."""
        return parse_document(self._indexer.repository(hit.base.key).blob(hit.current.blob)).content

    def freshness(self, bases: Sequence[BaseRow]) -> dict[str, Freshness]:
        """Per base: its slug, or its key where two bases share a slug."""
        slugs = Counter(base.key.slug for base in bases)
        found = {}
        for base in bases:
            state = self._indexer.state(str(base.key))
            name = base.key.slug if slugs[base.key.slug] == 1 else str(base.key)
            found[name] = Freshness(base.head, state.head, state.passages, state.vectors, base.alarm)
        return found


def _refuse_archived(request: SearchRequest, bases: Sequence[BaseRow]) -> None:
    """A base named in the request must answer or say why not; one that merely is in sight is left out."""
    for base in bases:
        if request.bases and not base.active:
            key = str(base.key)
            raise BaseArchived(f"the base {key!r} is archived and is not searched", {"base": key})


def _without_content(request: SearchRequest) -> SearchRequest:
    return SearchRequest(query=request.query, mode=request.mode, content=Content.NONE)


class _Explanation:
    """Where scores came from, for `explain`."""

    def __init__(self, scores: Scores, legs: Legs, fallback: str | None) -> None:
        self._scores = scores
        self._legs = legs
        self._fallback = fallback
        self._ranks = {
            name: item_ranks(leg, scores.item)
            for name, leg in (("lexical", legs.lexical), ("semantic", legs.semantic))
            if leg is not None
        }

    def legs(self) -> dict[str, Any]:
        """How many passages were scored, and how many each leg found."""
        found: dict[str, Any] = {"passages": len(self._scores.item)}
        found["lexical"] = {"hits": int((self._legs.lexical > 0).sum()), "bound": float(self._scores.lexical_bound)}
        if self._legs.semantic is not None:
            found["semantic"] = {
                "hits": int((self._legs.semantic > 0).sum()),
                "floor": float(self._scores.cosine_floor),
            }
        return found

    def of(self, row: int) -> dict[str, Any]:
        """One passage's raw and normalised scores, and its item's rank in each leg (None: not found by it)."""
        found: dict[str, Any] = {
            "lexical": {
                "bm25": float(self._scores.lexical[row]),
                "score": float(self._legs.lexical[row]),
                "rank": int(self._ranks["lexical"][row]) or None,
            }
        }
        if self._legs.semantic is not None and self._scores.cosine is not None:
            cosine = float(self._scores.cosine[row])
            found["semantic"] = {
                "cosine": None if np.isnan(cosine) else cosine,
                "score": float(self._legs.semantic[row]),
                "rank": int(self._ranks["semantic"][row]) or None,
            }
        return found


class _Remembered:
    """The vectors of the latest queries: people page, and agents repeat themselves."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._vectors: OrderedDict[str, Vectors] = OrderedDict()
        self._lock = Lock()

    def get(self, query: str) -> Vectors | None:
        with self._lock:
            if query in self._vectors:
                self._vectors.move_to_end(query)
            return self._vectors.get(query)

    def put(self, query: str, vector: Vectors) -> None:
        with self._lock:
            self._vectors[query] = vector
            while len(self._vectors) > self._most:
                self._vectors.popitem(last=False)
