"""What the default index promises beyond the contract: a disk that fails, memory that is bounded, threads, rebuilds."""

from __future__ import annotations

import gc
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbgit.embedding.cache import VectorCache
from kbgit.embedding.hashing import HashingEmbedder
from kbgit.errors import IndexFailure
from kbgit.index.contract import BaseState, Floats, IndexedPassage, IndexUpdate, Query, Scope
from kbgit.index.embedded import EmbeddedIndex, directory_name
from kbgit.index.generation import NEAREST
from kbgit.index.lexical import LexicalIndex

ADA = "personal:ada/notes"
WEB = "team:web/handbook"
EVERYTHING = Scope({ADA: None, WEB: None})
EMBEDDER = HashingEmbedder()
ONE, TWO = "1" * 40, "2" * 40
TOPICS = ["disk failure", "network cable", "coffee machine", "release plan", "database backup"]


def passages(numbers: range, base: str = ADA, revision: str = ONE) -> list[IndexedPassage]:
    return [
        IndexedPassage(
            base, f"item{number}", revision, 0, f"Title {number}", (), (1, 1), f"{TOPICS[number % 5]} in room{number}"
        )
        for number in numbers
    ]


class Opener:
    """Opens an index over one directory and one cache, again and again."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "index"
        self.cache = VectorCache(directory / "vectors.sqlite")
        self.opened: list[EmbeddedIndex] = []

    def __call__(
        self, *, fingerprint: str = EMBEDDER.fingerprint, vector_memory: int = 1 << 26, with_cache: bool = True
    ) -> EmbeddedIndex:
        index = EmbeddedIndex(
            self.directory,
            fingerprint=fingerprint,
            dimension=EMBEDDER.dimension,
            cache=self.cache if with_cache else None,
            vector_memory_bytes=vector_memory,
            postings_memory_bytes=1 << 26,
        )
        self.opened.append(index)
        return index


@pytest.fixture
def opener(tmp_path: Path) -> Iterator[Opener]:
    opener = Opener(tmp_path)
    yield opener
    for index in opener.opened:
        index.close()
    opener.cache.close()


def fill(index: EmbeddedIndex, numbers: range, base: str = ADA, cache: VectorCache | None = None) -> None:
    index.update(base, IndexUpdate(ONE, frozenset(), passages(numbers, base)))
    embed(index, base, cache)


def embed(index: EmbeddedIndex, base: str = ADA, cache: VectorCache | None = None) -> int:
    """Embed what is pending; how many that were."""
    done = 0
    while texts := index.pending_vectors(base, 500).texts:
        vectors = dict(zip(texts, EMBEDDER.embed_passages(list(texts.values())), strict=True))
        if cache is not None:
            cache.put_many(EMBEDDER.fingerprint, vectors)
        index.add_vectors(base, vectors)
        done += len(texts)
    return done


Answer = dict[tuple[str, str], tuple[float, float]]


def ask(index: EmbeddedIndex, text: str = "disk failure in room7", scope: Scope = EVERYTHING) -> Answer:
    scores = index.score(Query(text, vector=EMBEDDER.embed_query(text)), scope)
    assert scores.cosine is not None
    found = [scores.passage(row) for row in range(len(scores.lexical))]
    return {
        (one.base, one.item_id): (round(lexical, 4), round(cosine, 4))
        for one, lexical, cosine in zip(found, scores.lexical.tolist(), scores.cosine.tolist(), strict=True)
    }


def files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


# --- restart ---------------------------------------------------------------------------------------------------------


def test_after_a_restart_everything_is_as_it_was(opener: Opener) -> None:
    index = opener()
    fill(index, range(60))
    fill(index, range(20), WEB)
    before = ask(index), index.state(ADA), index.items(WEB), list(index.bases())
    index.close()
    assert ask(index) == before[0], "it can be opened again"
    index.close()
    again = opener(with_cache=False)
    assert (ask(again), again.state(ADA), again.items(WEB), list(again.bases())) == before


def test_a_restart_amid_a_first_indexing_goes_on_from_there(opener: Opener) -> None:
    index = opener()
    index.update(ADA, IndexUpdate(None, frozenset(), passages(range(10))))
    embed(index)
    index.close()
    again = opener()
    assert again.state(ADA) == BaseState(None, 10, 10, 10)
    again.update(ADA, IndexUpdate(ONE, frozenset(), passages(range(10, 20))))
    assert again.state(ADA) == BaseState(ONE, 20, 20, 10)


def test_after_a_crash_before_superfluous_vectors_went_nothing_moves_the_floor(opener: Opener) -> None:
    index = opener()
    fill(index, range(30), cache=opener.cache)
    index.close()
    # The words move on, and the process dies before the vectors follow.
    lexical = LexicalIndex(next((opener.directory / directory_name(ADA)).glob("*/lexical")))
    lexical.apply([f"item{number}" for number in range(20)], [], ONE)
    lived = opener()
    floor = lived.score(Query("disk", vector=EMBEDDER.embed_query("disk")), EVERYTHING).cosine_floor
    lived.close()
    shutil.rmtree(opener.directory)
    rebuilt = opener()
    fill(rebuilt, range(20, 30), cache=opener.cache)
    assert rebuilt.score(Query("disk", vector=EMBEDDER.embed_query("disk")), EVERYTHING).cosine_floor == floor


def test_another_model_keeps_the_words_and_wants_every_vector_anew(opener: Opener) -> None:
    index = opener()
    fill(index, range(40))
    index.close()
    other = opener(fingerprint="other/1", with_cache=False)
    assert other.state(ADA) == BaseState(ONE, 40, 40, 0)
    assert len(other.pending_vectors(ADA, 100).texts) == 40


# --- damage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["emptied", "halved", "removed"])
def test_whatever_file_is_damaged_nothing_raises_and_indexing_again_mends_it(opener: Opener, damage: str) -> None:
    index = opener()
    fill(index, range(40), cache=opener.cache)
    before = ask(index)
    index.close()
    original = shutil.copytree(opener.directory, opener.directory.with_name("original"))
    names = [path.relative_to(opener.directory) for path in files(opener.directory)]
    assert len(names) >= 5
    for name in names:
        path = opener.directory / name
        if damage == "removed":
            path.unlink()
        else:
            raw = path.read_bytes()
            path.write_bytes(b"" if damage == "emptied" else raw[: len(raw) // 2])
        index = opener()
        answer = ask(index)
        state = index.state(ADA)
        if state.head is None:
            assert answer == {}
            index.update(ADA, IndexUpdate(ONE, frozenset(), passages(range(40))))
        else:
            assert {place: scores[0] for place, scores in answer.items()} == {
                place: scores[0] for place, scores in before.items()
            }
        assert index.pending_vectors(ADA, 100).texts == {}, "vectors come back from the cache"
        assert ask(index) == before, f"after {name} was {damage}"
        index.close()
        shutil.rmtree(opener.directory)
        shutil.copytree(original, opener.directory)


def test_lost_vectors_leave_the_words_searchable(opener: Opener) -> None:
    index = opener()
    fill(index, range(40))
    index.close()
    next(opener.directory.rglob("vectors/stamp.json")).unlink()
    again = opener(with_cache=False)
    assert again.state(ADA) == BaseState(ONE, 40, 40, 0)
    assert sum(lexical > 0 for lexical, _ in ask(again, "disk").values()) == 8
    assert embed(again) == 40


def test_damage_to_one_base_leaves_the_others_alone(opener: Opener) -> None:
    index = opener()
    fill(index, range(10))
    fill(index, range(10), WEB)
    index.close()
    for path in files(opener.directory / directory_name(ADA)):
        path.write_bytes(b"")
    again = opener()
    assert {base for base, _ in ask(again)} == {WEB}
    assert again.state(ADA).head is None
    assert again.state(WEB) == BaseState(ONE, 10, 10, 10)


def test_a_base_that_cannot_be_read_is_left_out_and_not_taken_for_empty(opener: Opener) -> None:
    index = opener()
    fill(index, range(10))
    fill(index, range(10), WEB)
    index.close()
    lexical = next((opener.directory / directory_name(ADA)).glob("*/lexical"))
    lexical.rename(lexical.with_name("elsewhere"))
    lexical.write_text("not a directory")
    again = opener()
    assert {base for base, _ in ask(again)} == {WEB}
    with pytest.raises(IndexFailure):
        again.state(ADA)
    lexical.unlink()
    lexical.with_name("elsewhere").rename(lexical)
    assert again.state(ADA) == BaseState(ONE, 10, 10, 10)


def test_a_base_that_is_found_damaged_while_open_is_given_up_and_mended(opener: Opener) -> None:
    index = opener()
    fill(index, range(40), cache=opener.cache)
    fill(index, range(10), WEB)
    before = ask(index)
    for segment in (opener.directory / directory_name(ADA)).rglob("*.seg"):
        with segment.open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"?")
    # Which read of a changed file fails, if any, is Whoosh's affair; this is what a failed one leads to.
    index._verify((ADA, WEB))
    assert index.state(ADA) == BaseState(None, 0, 0, 0)
    assert index.state(WEB) == BaseState(ONE, 10, 10, 10)
    assert {base for base, _ in ask(index)} == {WEB}
    index.update(ADA, IndexUpdate(ONE, frozenset(), passages(range(40))))
    index.pending_vectors(ADA, 1)
    assert ask(index) == before


# --- dropping --------------------------------------------------------------------------------------------------------


def test_of_a_dropped_base_no_byte_is_left(opener: Opener) -> None:
    canary = "xylophonequartz"
    index = opener()
    secret = [
        IndexedPassage(ADA, f"{canary}{number}", ONE, 0, canary, (canary,), (1, 1), f"{canary} {number}")
        for number in range(40)
    ]
    index.update(ADA, IndexUpdate(ONE, frozenset(), secret))
    embed(index, cache=opener.cache)
    fill(index, range(5), WEB, cache=opener.cache)
    ask(index, canary)
    keys = [one.vector_key for one in secret]
    index.drop(ADA)
    assert not (opener.directory / directory_name(ADA)).exists()
    for path in files(opener.directory.parent):
        raw = path.read_bytes()
        assert canary.encode() not in raw, path
        assert keys[0].encode() not in raw, path
    assert opener.cache.get_many(EMBEDDER.fingerprint, keys) == {}
    assert opener.cache.count(EMBEDDER.fingerprint) == 5, "what another base needs is kept"
    limit = time.monotonic() + 10
    while left := open_files(opener.directory):
        assert time.monotonic() < limit, f"still open: {left}"
        time.sleep(0.01)
    assert ask(index, canary).keys() == {(WEB, f"item{number}") for number in range(5)}


def test_what_a_dropped_base_had_open_is_closed_at_once(opener: Opener) -> None:
    index = opener()
    index.update(ADA, IndexUpdate(ONE, frozenset(), passages(range(40))))
    ask(index)
    gc.disable()  # or it might happen to end what reads the state before, which is a cycle
    try:
        index.update(ADA, IndexUpdate(ONE, frozenset({"item0"}), passages(range(1, 2))))
        ask(index)
        assert open_files(opener.directory)
        index.drop(ADA)
        assert open_files(opener.directory) == []
    finally:
        gc.enable()


def open_files(directory: Path) -> list[str]:
    """What is open of the base ADA in `directory`, gone or not; servers of other tests may have a base of that name."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return [link for link in found if link.startswith(str(directory)) and directory_name(ADA) in link]


def test_a_drop_that_was_cut_short_is_finished_at_the_next_start(opener: Opener) -> None:
    index = opener()
    fill(index, range(5))
    index.close()
    name = directory_name(ADA)
    (opener.directory / name).rename(opener.directory / f"dropped-{name}")
    again = opener()
    assert list(again.bases()) == []
    assert files(opener.directory) == []


# --- building anew ---------------------------------------------------------------------------------------------------


def test_while_a_base_is_built_anew_the_old_one_answers(opener: Opener) -> None:
    index = opener()
    fill(index, range(10), cache=opener.cache)
    before = ask(index)

    def updates() -> Iterator[IndexUpdate]:
        yield IndexUpdate(None, frozenset(), passages(range(6), revision=TWO))
        assert ask(index) == before
        yield IndexUpdate(TWO, frozenset(), passages(range(6, 12), revision=TWO))

    index.rebuild(ADA, updates())
    assert index.state(ADA).head == TWO
    assert ask(index).keys() == {(ADA, f"item{number}") for number in range(12)}
    assert len(index.pending_vectors(ADA, 100).texts) == 2, "the other ten come from the cache"
    embed(index)
    assert len(list((opener.directory / directory_name(ADA)).iterdir())) == 1
    after = ask(index)
    index.close()
    assert ask(opener()) == after


def test_a_build_that_was_cut_short_is_forgotten(opener: Opener) -> None:
    index = opener()
    fill(index, range(10))
    before = ask(index)
    index.close()
    as_it_was_cut = opener.directory.with_name("cut")

    def updates() -> Iterator[IndexUpdate]:
        yield IndexUpdate(None, frozenset(), passages(range(3), revision=TWO))
        shutil.copytree(opener.directory, as_it_was_cut)
        yield IndexUpdate(TWO, frozenset(), passages(range(3, 6), revision=TWO))

    opener().rebuild(ADA, updates())
    opener.directory = as_it_was_cut
    assert len(list((as_it_was_cut / directory_name(ADA)).iterdir())) == 2
    again = opener()
    assert again.state(ADA) == BaseState(ONE, 10, 10, 10)
    assert ask(again) == before
    assert len(list((as_it_was_cut / directory_name(ADA)).iterdir())) == 1


# --- bounded memory --------------------------------------------------------------------------------------------------


def crowd(count: int) -> list[IndexedPassage]:
    return [
        IndexedPassage(ADA, f"item{number}", ONE, 0, "", (), (1, 1), f"{TOPICS[number % 5]} {number % 97} {number}")
        for number in range(count)
    ]


def test_vectors_beyond_the_bound_are_searched_approximately(opener: Opener) -> None:
    index = opener()
    index.update(ADA, IndexUpdate(ONE, frozenset(), crowd(3000)))
    embed(index)
    text = "database backup 42"
    query = Query(text, vector=EMBEDDER.embed_query(text))
    scope = Scope({ADA: None})
    exact = index.score(query, scope)
    index.close()
    bounded = opener(vector_memory=1000)
    approximate = bounded.score(query, scope)
    assert exact.cosine is not None
    assert approximate.cosine is not None
    assert np.array_equal(exact.lexical, approximate.lexical)
    known = np.isfinite(approximate.cosine)
    assert NEAREST <= np.count_nonzero(known) <= 2 * NEAREST
    assert np.allclose(approximate.cosine[known], exact.cosine[known], atol=1e-5)
    nearest = np.argsort(-exact.cosine)[:50]
    assert np.count_nonzero(known[nearest]) >= 45
    assert known[np.argsort(-exact.lexical)[:50]].all(), "what the words found has its cosine too"
    assert approximate.cosine_floor == pytest.approx(exact.cosine_floor, abs=1e-6)


def test_a_small_scope_is_exact_whatever_the_bound(opener: Opener) -> None:
    index = opener()
    index.update(ADA, IndexUpdate(ONE, frozenset(), crowd(1500)))
    embed(index)
    scope = Scope({ADA: frozenset(f"item{number}" for number in range(0, 1500, 10))})
    exact = ask(index, scope=scope)
    index.close()
    assert ask(opener(vector_memory=1000), scope=scope) == exact
    assert all(np.isfinite(cosine) for _, cosine in exact.values())


def test_the_bound_is_over_all_bases_and_growth_counts(opener: Opener) -> None:
    size = EMBEDDER.dimension * 4
    index = opener(vector_memory=1200 * size)
    index.update(ADA, IndexUpdate(ONE, frozenset(), crowd(1000)))
    embed(index)
    index.update(WEB, IndexUpdate(ONE, frozenset(), passages(range(1000), WEB)))
    embed(index, WEB)

    def lacking(base: str) -> int:
        return sum(bool(np.isnan(cosine)) for _, cosine in ask(index, scope=Scope({base: None})).values())

    assert lacking(ADA) == 0
    assert lacking(WEB) > 0, "no room is left for it"
    index.update(ADA, IndexUpdate(TWO, frozenset(), passages(range(1000, 1500))))
    embed(index)
    assert lacking(ADA) > 0, "it has outgrown the bound"
    assert lacking(WEB) == 0, "now there is room"


# --- threads ---------------------------------------------------------------------------------------------------------


def test_readers_see_whole_states_while_a_writer_works(opener: Opener) -> None:
    index = opener()
    fill(index, range(30))
    stop = Event()
    problems: list[object] = []

    def read() -> None:
        query = Query("disk failure", vector=EMBEDDER.embed_query("disk failure"))
        while not stop.is_set():
            try:
                scores = index.score(query, EVERYTHING)
                found = [scores.passage(row) for row in range(len(scores.lexical))]
                revisions = {one.revision for one in found if one.base == ADA}
                if len(revisions) != 1 or sum(one.base == ADA for one in found) != 30:
                    problems.append((revisions, len(found)))
            except Exception as problem:  # noqa: BLE001  # whatever it is, the test must know
                problems.append(problem)
                return

    readers = [Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    try:
        for number in range(2, 12):
            revision = f"{number:040x}"
            whole = IndexUpdate(revision, frozenset(), passages(range(30), revision=revision))
            index.update(ADA, whole)
            if number % 3 == 0:
                index.rebuild(ADA, [whole])
            fill(index, range(number), WEB)
            embed(index)
            if number % 4 == 0:
                index.drop(WEB)
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert problems == []


# --- names -----------------------------------------------------------------------------------------------------------


@given(st.text(min_size=1, max_size=40).filter(lambda text: "\ud7ff" < "\ue000" and text.isprintable()))
def test_a_directory_name_stays_below_its_parent_and_differs_between_bases(base: str) -> None:
    name = directory_name(base)
    assert "/" not in name
    assert name not in (".", "..")
    assert not name.startswith(".")
    assert directory_name(base + "x") != name


def test_the_bases_are_named_after_a_restart(opener: Opener) -> None:
    index = opener()
    for base in (ADA, WEB, "team:a.b/c-d_e.f"):
        index.update(base, IndexUpdate(ONE, frozenset(), passages(range(1), base)))
    index.close()
    assert list(opener().bases()) == sorted((ADA, WEB, "team:a.b/c-d_e.f"))


def test_vector_type_is_float32(opener: Opener) -> None:
    index = opener()
    fill(index, range(3))
    cosine: Floats | None = index.score(Query("x", vector=EMBEDDER.embed_query("x")), EVERYTHING).cosine
    assert cosine is not None
    assert cosine.dtype == np.float32
