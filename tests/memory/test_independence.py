"""Nothing done to memory changes a knowledge item."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import kbgit.memory
from kbgit.access import Role, Scope
from kbgit.assemble import Runtime
from kbgit.errors import KbgitError
from kbgit.memory import MemoryKind, NewRecord, ProjectKey, Recall, RecallRequest
from tests.memory.conftest import BASE, TEAM, Memory, member
from tests.writing import Table, tables

ADA = member("ada", Role.OWNER, frozenset(Scope))
PROJECTS = (ProjectKey(TEAM, "runbooks"), ProjectKey("personal:ada", "plan"))  # one named like the base


def knowledge(runtime: Runtime) -> tuple[dict[str, bytes], dict[str, Table], dict[str, str], list[object]]:
    """Every byte of the repositories, every row of the catalogue, what is indexed, and what readers get."""
    root = runtime.home.repositories
    repositories = {
        str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()
    }
    items = [runtime.library.read(item_id, ADA).as_json() for item_id in ("crane", "tide")]
    answers = [*items, runtime.library.items(str(BASE), ADA).as_json(), runtime.index.state(str(BASE))]
    return repositories, tables(runtime.home), dict(runtime.index.items(str(BASE))), answers


@pytest.mark.parametrize("seed", range(3))
def test_nothing_done_to_memory_changes_a_knowledge_item(memory: Memory, runtime: Runtime, seed: int) -> None:
    choose = random.Random(seed)
    references = ["crane", "knowledge:draft", str(runtime.library.read("tide", ADA).citation)]
    before = knowledge(runtime)
    recall = Recall(memory.store, runtime.library)
    ids: list[str] = []

    def remember() -> None:
        project = choose.choice(PROJECTS)
        kind = choose.choice(list(MemoryKind))
        new = NewRecord(project.slug, f"The crane, {choose.random()}.", kind, project.space, tags=["crane"])
        ids.append(memory.store.remember(new, ADA).id)

    def forget() -> None:
        memory.store.forget(choose.choice(ids), ADA)

    def pass_time() -> None:
        memory.clock.now += 86_400
        memory.store.forget_expired()

    steps: list[Callable[[], object]] = [
        *(remember, remember, forget, pass_time, memory.store.sweep, memory.store.embed_some),
        lambda: memory.store.link(choose.choice(PROJECTS), choose.choice(references), ADA),
        lambda: memory.store.unlink(choose.choice(PROJECTS), choose.choice(references), ADA),
        lambda: memory.store.export(ADA).as_markdown(),
        lambda: memory.store.search("crane", ADA),
        lambda: recall.recall(RecallRequest("crane"), ADA, profile_allows_knowledge=True, knowledge_configured=True),
    ]
    for step in [remember, *(choose.choice(steps) for _ in range(60))]:
        with suppress(KbgitError):  # forgotten twice, linked to nothing: refusals must change nothing either
            step()
    for record in memory.store.records(ADA, limit=200).records:
        memory.store.forget(record.id, ADA)
    for project in PROJECTS:
        for reference in memory.store.project(project, ADA).documents:
            memory.store.unlink(project, reference, ADA)
    assert not memory.files
    assert knowledge(runtime) == before


def test_memory_has_nothing_in_its_hands_that_could_change_a_base() -> None:
    named: set[str] = set()
    for path in Path(kbgit.memory.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                named |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
    writers = (
        "store",
        "publish",
        "catalogue",
        "indexer",
        "importing",
        "library.writing",
        "library.Writing",
        "library.Bases",
    )
    assert not named & {f"kbgit.{writer}" for writer in writers}
    used = {name.removeprefix("kbgit.library.") for name in named if name.startswith("kbgit.library.")}
    assert used == {"Library", "SearchRequest", "SearchResponse", "SearchResult"}
