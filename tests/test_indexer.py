"""Keeping the index at the published heads, whatever happens to repositories, items and embedders."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from kbgit.access import Principal
from kbgit.base import BaseKey
from kbgit.catalogue import Catalogue
from kbgit.embedding.cache import VectorCache
from kbgit.embedding.contract import Vectors
from kbgit.embedding.hashing import HashingEmbedder
from kbgit.errors import EmbeddingFailure, IndexFailure, TimedOut
from kbgit.home import Home
from kbgit.index.contract import PendingVectors, Query, Scope
from kbgit.index.embedded import EmbeddedIndex
from kbgit.indexer import Background, Indexer, Progress, at_most_every, when_idle_for
from kbgit.library import Library, SearchRequest
from kbgit.publish import Announcement, announce, base_lock, is_under_way, running
from kbgit.ranking import Mode
from kbgit.revision import Via
from kbgit.store import Repository
from tests.writing import Writer, text

OPERATOR = Principal("ada", operator=True)


class Poisoned(HashingEmbedder):
    """Fails for every batch that holds a word, or, when `down`, always; counts what it embeds."""

    def __init__(self, word: str = "poison") -> None:
        super().__init__()
        self.word = word
        self.down = False
        self.embedded: list[str] = []

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        if self.down or any(self.word in one for one in texts):
            raise EmbeddingFailure("no")
        self.embedded += texts
        return super().embed_passages(texts)


class Parts:
    """An indexer with its index, over the test's home."""

    def __init__(self, home: Home, catalogue: Catalogue) -> None:
        self.embedder = Poisoned()
        self.index = EmbeddedIndex(
            home.index_directory,
            fingerprint=self.embedder.fingerprint,
            dimension=self.embedder.dimension,
            cache=None,
            vector_memory_bytes=1 << 24,
            postings_memory_bytes=1 << 24,
        )
        self.progress: list[Progress] = []
        self.indexer = Indexer(home, catalogue, self.index, self.embedder, None, self.progress.append)
        self.library = Library(home.settings, catalogue, self.index, self.embedder, self.indexer)

    def found(self, query: str) -> list[str]:
        """Ids that a lexical search finds."""
        answer = self.library.search(SearchRequest(query=query, mode=Mode.LEXICAL, limit=100), OPERATOR)
        return sorted(result.item_id for result in answer.results)

    def embed_all(self) -> None:
        while self.indexer.embed_some():
            pass


@pytest.fixture
def parts(home: Home, catalogue: Catalogue) -> Iterator[Parts]:
    made = Parts(home, catalogue)
    yield made
    made.indexer.close()
    made.index.close()


def test_an_update_indexes_only_what_changed(parts: Parts, key: BaseKey, writer: Writer) -> None:
    writer.publish({f"{n}.md": text(f"Page {n}", body=f"word{n}\n") for n in range(5)})
    parts.indexer.synchronise(key)
    writer.publish({"2.md": text("Page 2", body="changed\n"), "3.md": None})
    parts.progress.clear()
    parts.indexer.synchronise(key)
    assert [(step.done, step.total) for step in parts.progress] == [(1, 1)]
    assert parts.found("changed") == ["runbooks/2"]
    assert not parts.found("word3")
    assert not parts.found("word2")
    assert parts.index.state(str(key)).head == writer.head


def test_what_was_missed_while_nobody_looked_is_made_good_by_one_sweep(
    parts: Parts, key: BaseKey, writer: Writer, base_repository: Repository
) -> None:
    writer.publish({"a.md": text("A", body="one\n")})
    parts.indexer.sweep()
    for number in range(5):
        writer.publish({"a.md": text("A", body=f"version{number}\n")})
    base_repository.git.run("gc", "--quiet", "--prune=now")
    base_repository.git.run("pack-refs", "--all")
    parts.indexer.sweep()
    assert parts.found("version4") == ["runbooks/a"]
    assert not parts.found("version3")


def test_an_item_changed_twice_and_archived_leaves_no_twin(parts: Parts, key: BaseKey, writer: Writer) -> None:
    writer.publish({"a.md": text("A", body="heron one\n")})
    parts.indexer.synchronise(key)
    writer.commit({"a.md": text("A", body="heron two\n")})
    writer.publish({"a.md": text("A", body="heron three\n")})
    parts.indexer.synchronise(key)
    assert parts.found("heron") == ["runbooks/a"]
    writer.publish({"a.md": text("A", status="archived", body="heron three\n")})
    parts.indexer.synchronise(key)
    assert not parts.found("heron")
    assert parts.index.state(str(key)).passages == 0


def test_one_poisoned_text_holds_up_no_other_vector(parts: Parts, key: BaseKey, writer: Writer) -> None:
    writer.publish({f"{n}.md": text(f"Page {n}", body="poison\n" if n == 7 else f"word{n}\n") for n in range(100)})
    parts.indexer.synchronise(key)
    parts.embed_all()
    state = parts.index.state(str(key))
    assert (state.passages, state.vectors) == (100, 99)
    assert parts.found("poison") == ["runbooks/7"]


def test_an_embedder_that_is_down_is_asked_again_and_nothing_is_embedded_twice(
    parts: Parts, key: BaseKey, writer: Writer
) -> None:
    writer.publish({f"{n}.md": text(f"Page {n}", body=f"word{n}\n") for n in range(40)})
    parts.indexer.synchronise(key)
    parts.embedder.down = True
    with pytest.raises(EmbeddingFailure):
        parts.indexer.embed_some()
    parts.embedder.down = False
    parts.embed_all()
    assert len(parts.embedder.embedded) == len(set(parts.embedder.embedded)) == 40
    writer.publish({"0.md": text("Page 0", tags="[x]", body="word0\n")})
    parts.indexer.synchronise(key)
    parts.embed_all()
    assert len(parts.embedder.embedded) == 40  # the tag is not part of the text


def test_a_lost_index_is_built_again_and_answers_as_before(
    parts: Parts, home: Home, catalogue: Catalogue, key: BaseKey, writer: Writer
) -> None:
    writer.publish({f"{n}.md": text(f"Page {n}", body=f"heron word{n}\n") for n in range(8)})
    parts.indexer.synchronise(key)
    before = parts.found("heron")
    parts.index.close()
    shutil.rmtree(home.index_directory)
    again = Parts(home, catalogue)
    again.indexer.sweep()
    assert again.found("heron") == before
    again.index.close()


def test_a_repository_that_vanished_is_an_alarm_and_its_index_is_kept(
    parts: Parts, catalogue: Catalogue, key: BaseKey, writer: Writer, base_repository: Repository, tmp_path: Path
) -> None:
    writer.publish({"a.md": text("A", body="heron\n")})
    parts.indexer.sweep()
    away = tmp_path / "away.git"
    base_repository.path.rename(away)
    parts.indexer.sweep()
    assert "missing" in catalogue.base(str(key)).alarm
    assert parts.index.state(str(key)).passages == 1
    assert parts.found("heron") == ["runbooks/a"]
    away.rename(base_repository.path)
    parts.indexer.sweep()
    assert parts.found("heron") == ["runbooks/a"]
    assert catalogue.base(str(key)).alarm == ""


def test_an_empty_repository_in_place_of_a_base_sweeps_nothing_away(
    parts: Parts, home: Home, catalogue: Catalogue, key: BaseKey, writer: Writer, base_repository: Repository
) -> None:
    writer.publish({f"{n}.md": text(f"Page {n}", body="heron\n") for n in range(5)})
    parts.indexer.sweep()
    shutil.rmtree(base_repository.path)
    home.create_repository(key)
    parts.indexer.sweep()
    assert catalogue.base(str(key)).alarm
    assert parts.index.state(str(key)).items == 5
    assert len(parts.found("heron")) == 5


def test_a_rewritten_branch_is_an_alarm_and_the_published_text_still_answers(
    parts: Parts, catalogue: Catalogue, key: BaseKey, writer: Writer, base_repository: Repository
) -> None:
    writer.publish({"a.md": text("A", body="heron\n")})
    head = writer.publish({"a.md": text("A", body="egret\n")})
    parts.indexer.sweep()
    old = base_repository.history(head)[0]
    base_repository.move_ref("refs/heads/main", old, head)
    parts.indexer.sweep()
    assert catalogue.base(str(key)).alarm
    assert parts.found("egret") == ["runbooks/a"]
    base_repository.move_ref("refs/heads/main", head, old)
    parts.indexer.sweep()
    assert catalogue.base(str(key)).alarm == ""


def test_one_broken_base_stops_no_other(parts: Parts, home: Home, key: BaseKey, writer: Writer) -> None:
    home.create_repository(BaseKey("team:a", "broken"))
    (home.repositories / "a" / "broken.git" / "HEAD").write_text("garbage\n")
    writer.publish({"a.md": text("A", body="heron\n")})
    parts.indexer.sweep()
    assert parts.found("heron") == ["runbooks/a"]


def test_a_repository_without_its_HEAD_spoils_no_search_and_is_an_alarm(
    parts: Parts, catalogue: Catalogue, key: BaseKey, writer: Writer, base_repository: Repository
) -> None:
    writer.publish({"a.md": text("A", body="heron\n")})
    parts.indexer.sweep()
    head = (base_repository.path / "HEAD").read_bytes()
    (base_repository.path / "HEAD").unlink()
    assert parts.found("heron") == ["runbooks/a"]
    assert "HEAD" in catalogue.base(str(key)).alarm
    (base_repository.path / "HEAD").write_bytes(head)
    assert parts.found("heron") == ["runbooks/a"]
    assert catalogue.base(str(key)).alarm == ""


def test_a_base_whose_vectors_cannot_be_had_holds_up_no_other(
    parts: Parts, home: Home, key: BaseKey, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = BaseKey("team:a", "first")
    home.create_repository(other).close()
    writer.publish({"a.md": text("A", body="heron\n")})
    writer.remote = str(other.repository_path(home.repositories))
    writer.publish({"b.md": text("B", body="egret\n")})
    parts.indexer.sweep()
    pending = parts.index.pending_vectors

    def refusing(base: str, limit: int) -> PendingVectors:
        if base == str(other):
            raise IndexFailure("no permission")
        return pending(base, limit)

    monkeypatch.setattr(parts.index, "pending_vectors", refusing)
    assert parts.indexer.embed_some()
    assert parts.index.state(str(key)).vectors == parts.index.state(str(key)).passages
    with pytest.raises(IndexFailure):
        parts.indexer.embed_some()


def test_whoever_waits_is_let_go_when_the_index_closes(parts: Parts) -> None:
    outcome: list[BaseException] = []
    started = threading.Event()

    def never() -> bool:
        started.set()
        return False

    def wait() -> None:
        try:
            parts.indexer.wait_until(never, 60)
        except TimedOut as told:
            outcome.append(told)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert started.wait(10)
    parts.indexer.close()
    waiting.join(10)
    assert len(outcome) == 1


def test_twenty_thousand_notices_converge_and_then_there_is_rest(parts: Parts, key: BaseKey, writer: Writer) -> None:
    background = Background(parts.indexer)
    background.start()
    writer.publish({"a.md": text("A", body="heron\n")})
    for _ in range(20_000):
        background.notice(key)
    assert parts.indexer.wait_until(lambda: parts.index.state(str(key)).head == writer.head, 20)
    background.stop()
    assert parts.found("heron") == ["runbooks/a"]


def test_every_passage_of_an_item_is_in_scope_of_its_base_only(parts: Parts, key: BaseKey, writer: Writer) -> None:
    writer.publish({"a.md": text("A", body="heron\n")})
    parts.indexer.synchronise(key)
    vector = np.asarray(parts.embedder.embed_query("heron"))
    assert len(parts.index.score(Query("heron", (), vector), Scope({str(key): None})).item) == 1
    assert len(parts.index.score(Query("heron", (), vector), Scope({"team:other/x": None})).item) == 0


def test_a_chore_is_done_after_a_sweep_when_it_is_due_and_not_before(parts: Parts) -> None:
    done: list[str] = []
    fresh = threading.Event()

    def always() -> None:
        done.append("always")
        fresh.set()

    chores = [at_most_every(3600, lambda: done.append("hourly")), at_most_every(0, lambda: done.append("due")), always]
    background = Background(parts.indexer, chores)
    background.start()
    assert fresh.wait(10)
    background.stop()
    assert done[:2] == ["due", "always"]
    assert "hourly" not in done


def test_what_is_embedded_beside_the_bases_comes_after_them(parts: Parts, key: BaseKey, writer: Writer) -> None:
    writer.publish({f"{n}.md": text(f"Page {n}", body=f"word{n}\n") for n in range(40)})
    done: list[int] = []
    fresh = threading.Event()

    def beside() -> bool:
        done.append(parts.index.state(str(key)).vectors)
        if len(done) == 3:
            fresh.set()
        return len(done) < 3

    background = Background(parts.indexer, embed_beside=beside)
    background.start()
    assert fresh.wait(20)
    background.stop()
    assert done[:3] == [40, 40, 40]


def test_who_looks_for_work_looks_again_at_once_while_there_is_some_and_rests_then() -> None:
    left = [True, True, False, True]
    look = when_idle_for(3600, lambda: left.pop(0))
    assert [look() for _ in range(6)] == [True, True, False, False, False, False]
    assert left == [True]
    left = [False, True]
    look = when_idle_for(0, lambda: left.pop(0))
    assert [look(), look()] == [False, True]


def pushed_behind(repository: Repository, teller: str | None = None) -> str:
    """A commit on the published branch that nobody has published yet; `teller` is who would tell its pusher."""
    head = repository.head()
    commit = repository.commit_files({"b.md": text("Later").encode()}, parent=head, message="Later", author="a <a@x>")
    branch = repository.published_branch()
    announce(repository, Announcement(branch, head, commit, "max", Via.PUSH, 1_700_000_000, teller))
    repository.move_ref(branch, commit, head)
    return commit


def test_a_reader_does_not_wait_for_a_push_whose_pusher_is_not_told_yet(
    parts: Parts, key: BaseKey, writer: Writer, catalogue: Catalogue
) -> None:
    writer.publish({"a.md": text("First")})
    before = catalogue.base(str(key))
    repository = parts.indexer.repository(key)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as receiver:
        commit = pushed_behind(repository, running(receiver.pid))
        assert is_under_way(repository, commit)
        with base_lock(repository):  # whoever publishes it
            assert parts.indexer.seen(before).head == before.head
        assert parts.indexer.seen(before).head == before.head, "the hook has not begun, or was killed"
        receiver.communicate()
    assert not is_under_way(repository, commit)
    assert parts.indexer.seen(before).head == commit, "its pusher may know, so nobody is told less"


def test_a_process_that_ended_but_was_not_waited_for_tells_nobody(key: BaseKey, parts: Parts) -> None:
    with subprocess.Popen(["true"]) as receiver:
        name = running(receiver.pid)
        os.waitid(os.P_PID, receiver.pid, os.WEXITED | os.WNOWAIT)
        assert running(receiver.pid) is None
    assert name is None or name.startswith(f"{receiver.pid} ")
    assert running(os.getpid()) == running(os.getpid()) is not None


@pytest.mark.parametrize("teller", [None, "a process that ended", "another process of its number", "nonsense"])
def test_a_reader_waits_for_whoever_completes_a_push_whose_pusher_may_know_already(
    parts: Parts, key: BaseKey, writer: Writer, catalogue: Catalogue, teller: str | None
) -> None:
    writer.publish({"a.md": text("First")})
    before = catalogue.base(str(key))
    repository = parts.indexer.repository(key)
    if teller == "a process that ended":
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as ended:
            teller = running(ended.pid)
    elif teller == "another process of its number":
        teller = f"{os.getpid()} 1"
    commit = pushed_behind(repository, teller)
    seen: list[str | None] = []
    with base_lock(repository):
        reader = threading.Thread(target=lambda: seen.append(parts.indexer.seen(before).head))
        reader.start()
        reader.join(0.1)
        assert reader.is_alive()
    reader.join(30)
    assert seen == [commit]


def test_what_takes_too_long_is_said_and_not_answered_from_before(
    parts: Parts, key: BaseKey, writer: Writer, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.publish({"a.md": text("First")})
    before = catalogue.base(str(key))
    repository = parts.indexer.repository(key)
    pushed_behind(repository)

    def too_long(*_: object, **__: object) -> NoReturn:
        raise TimedOut("another process has been publishing this base for long")

    monkeypatch.setattr("kbgit.indexer.catch_up", too_long)
    with pytest.raises(TimedOut):
        parts.indexer.seen(before)


def test_a_base_destroyed_while_it_is_embedded_leaves_no_vector_in_the_cache(
    home: Home, catalogue: Catalogue, key: BaseKey, writer: Writer, tmp_path: Path
) -> None:
    embedder = HashingEmbedder()
    cache = VectorCache(tmp_path / "vectors.sqlite")

    class Meanwhile(HashingEmbedder):
        """Somebody destroys the base while this computes."""

        def embed_passages(self, texts: Sequence[str]) -> Vectors:
            index.drop(str(key))
            return super().embed_passages(texts)

    index = EmbeddedIndex(
        tmp_path / "index",
        fingerprint=embedder.fingerprint,
        dimension=embedder.dimension,
        cache=cache,
        vector_memory_bytes=1 << 24,
        postings_memory_bytes=1 << 24,
    )
    indexer = Indexer(home, catalogue, index, Meanwhile(), cache)
    try:
        writer.publish({"a.md": text("A", body="secret words\n")})
        indexer.synchronise(key)
        pending = index.pending_vectors(str(key), 10).texts
        assert pending
        indexer.embed_some()
        assert cache.get_many(embedder.fingerprint, list(pending)) == {}
        assert str(key) not in index.bases()
    finally:
        indexer.close()
        index.close()
        cache.close()
