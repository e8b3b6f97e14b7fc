"""While a base is derived anew, everybody who asks gets whole and right answers; then the new takes the old one's place."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kbgit.assemble import Runtime
from kbgit.base import BaseKey
from kbgit.catalogue import Catalogue
from kbgit.errors import HistoryRewritten, KbgitError
from kbgit.importing import BaseOptions
from kbgit.index.contract import IndexUpdate
from kbgit.indexer import Indexer
from kbgit.rebuilding import RebuildOrders, rebuild_beside
from tests.library.conftest import embed_all
from tests.library.publishing import publish
from tests.upkeep.furnishing import NOTES, OPERATOR, RUNBOOKS, asked, new_home, opened, without_log, writer_of
from tests.writing import text

PAGES = 60


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    new_home(tmp_path / "home")
    made = opened(tmp_path / "home")
    made.accounts.add_user("ada", "test")
    made.accounts.add_team("platform", "ada", "test")
    for key in (NOTES, RUNBOOKS):
        made.bases.create(key, OPERATOR, BaseOptions())
    words = ("heron", "deploy", "anchor", "Urlaub", "年假", "rollback")
    pages = {f"{n}.md": text(f"Page {n}", body=f"The {words[n % 6]} of number {n}.\n" * 5) for n in range(PAGES)}
    publish(made, RUNBOOKS, dict(pages))
    publish(made, RUNBOOKS, {"1.md": None, "2.md": text("Page 2", status="draft")})
    publish(made, NOTES, {"a.md": text("Heron", body="Another heron.\n")})
    embed_all(made)
    yield made
    made.stop()


class Asking:
    """A thread that asks one thing over and over until it is told to stop."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        self.answers: list[Any] = []
        self._ask = ask
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.answers.append(self._ask())
            except (KbgitError, sqlite3.Error, OSError, AssertionError) as error:  # which is no answer
                self.answers.append(error)
                return

    def __enter__(self) -> Asking:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join()


def rows(catalogue: Catalogue, key: BaseKey) -> tuple[object, ...]:
    items = catalogue.items(str(key))
    revisions = [catalogue.revisions(str(key), item.item_id) for item in items]
    return items, revisions, catalogue.base(str(key)), catalogue.commit_count(str(key))


def test_answers_are_whole_and_right_while_a_base_is_rebuilt(runtime: Runtime) -> None:
    due = asked(runtime)
    assert any(answer["results"] for answer in due)
    with Asking(lambda: asked(runtime)) as one, Asking(lambda: asked(runtime)) as other:
        for _ in range(4):
            runtime.indexer.rebuild(RUNBOOKS)
        while not (one.answers and other.answers):
            pass
    for answer in one.answers + other.answers:
        assert answer == due
    assert asked(runtime) == due


def test_rows_are_whole_and_right_while_they_are_derived_anew(runtime: Runtime) -> None:
    due = rows(runtime.catalogue, RUNBOOKS)
    with Asking(lambda: runtime.catalogue.items(str(RUNBOOKS))) as asking:
        for _ in range(10):
            rebuild_beside(
                runtime.indexer.repository(RUNBOOKS),
                runtime.catalogue,
                RUNBOOKS,
                runtime.home.path,
                runtime.home.limits,
            )
    assert all(answer == due[0] for answer in asking.answers)
    assert rows(runtime.catalogue, RUNBOOKS) == due
    assert list(runtime.home.path.glob(".rebuilding-*")) == []


def test_what_is_pushed_during_a_rebuild_is_there_after_it(runtime: Runtime, tmp_path: Path) -> None:
    writer = writer_of(runtime.home, RUNBOOKS, tmp_path / "writer")
    pushed: list[str] = []

    def push() -> None:
        pushed.append(writer.publish({f"new {len(pushed)}.md": text(f"New {len(pushed)}")}))

    with Asking(push) as pushing:
        while len(pushed) < 3:
            runtime.indexer.rebuild(RUNBOOKS)
    assert not any(isinstance(answer, Exception) for answer in pushing.answers)
    runtime.indexer.synchronise(RUNBOOKS)
    assert runtime.catalogue.base(str(RUNBOOKS)).head == pushed[-1]
    counted = runtime.home.repository(RUNBOOKS).git.run("rev-list", "--count", "HEAD")
    assert runtime.catalogue.commit_count(str(RUNBOOKS)) == int(counted)
    assert runtime.index.items(str(RUNBOOKS)) == runtime.catalogue.published(str(RUNBOOKS))
    assert runtime.catalogue.publication_count(str(RUNBOOKS)) == len(runtime.home.repository(RUNBOOKS).log_entries())


def test_a_rebuild_that_fails_leaves_what_answers(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    due = asked(runtime)
    steps = Indexer._steps

    def cut_short(*arguments: Any) -> Iterator[IndexUpdate]:  # noqa: ANN401 - as they come
        for step in steps(*arguments):
            yield IndexUpdate(None, step.removed, step.added[:5])
            raise OSError("no space left on device")

    monkeypatch.setattr(Indexer, "_steps", cut_short)
    with pytest.raises(OSError, match="no space"):
        runtime.indexer.rebuild(RUNBOOKS)
    monkeypatch.undo()
    assert asked(runtime) == due
    runtime.indexer.rebuild(RUNBOOKS)
    assert asked(runtime) == due


def test_nothing_is_derived_from_a_repository_that_lost_its_log(runtime: Runtime) -> None:
    due = asked(runtime)
    before = rows(runtime.catalogue, RUNBOOKS)[:2]
    without_log(runtime.home.path, RUNBOOKS)
    with pytest.raises(HistoryRewritten):
        runtime.indexer.rebuild(RUNBOOKS)
    assert rows(runtime.catalogue, RUNBOOKS)[:2] == before
    assert [answer["results"] for answer in asked(runtime)] == [answer["results"] for answer in due]


# Orders


def test_orders_are_carried_out_and_answered_once(tmp_path: Path) -> None:
    orders = RebuildOrders(tmp_path)
    done: list[BaseKey] = []

    def rebuild(key: BaseKey) -> None:
        if key == NOTES:
            raise HistoryRewritten("it was rewritten")
        done.append(key)

    orders.obey(rebuild)
    good, bad = orders.place(RUNBOOKS), orders.place(NOTES)
    (tmp_path / "orders" / "noise.order").write_text("noise")
    assert orders.answer(good) is None
    orders.obey(rebuild)
    assert done == [RUNBOOKS]
    assert orders.answer(good) == ""
    assert orders.answer(bad) == "it was rewritten"
    assert orders.answer(good) is None
    assert "cannot be read" in (orders.answer("noise") or "")
    orders.obey(rebuild)
    assert done == [RUNBOOKS]


@pytest.mark.parametrize("failure", [OSError("no space left"), sqlite3.OperationalError("no space left")])
def test_an_order_that_the_system_refuses_is_answered_and_not_tried_for_ever(
    tmp_path: Path, failure: Exception
) -> None:
    orders = RebuildOrders(tmp_path)
    asked: list[BaseKey] = []

    def rebuild(key: BaseKey) -> None:
        asked.append(key)
        if key == NOTES:
            raise failure

    refused, carried_out = orders.place(NOTES), orders.place(RUNBOOKS)
    orders.obey(rebuild)
    orders.obey(rebuild)
    assert sorted(asked, key=str) == [NOTES, RUNBOOKS]
    assert "no space left" in (orders.answer(refused) or "")
    assert orders.answer(carried_out) == ""
