"""Mending what is derived. Git's content, accounts and memory are never touched: where these are at fault, a backup is due.

While a server runs, only what it can do itself, or what is safe beside it, is done; the rest is said to wait for its end.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbgit.assemble import HomeLock, Runtime, open_runtime
from kbgit.base import BaseKey
from kbgit.errors import EmbeddingFailure, KbgitError
from kbgit.home import Home
from kbgit.memory.files import ProjectFiles, projects_in, spaces_in
from kbgit.upkeep.finding import Finding, Mend

_BESIDE_A_SERVER = frozenset({Mend.REBUILD_BASE, Mend.INSTALL_HOOKS, Mend.CLOSE_MODE})
_WORDS = {
    Mend.REBUILD_BASE: "derive catalogue and index of {target} from Git anew",
    Mend.DISCARD_CATALOGUE: "remove {target} and derive it from Git anew",
    Mend.DISCARD_VECTOR_CACHE: "remove {target}; vectors are computed again when they are needed",
    Mend.INSTALL_HOOKS: "write the hooks anew and have every base run them",
    Mend.CLOSE_MODE: "close {target} to everybody but its owner",
    Mend.REMOVE: "remove {target}",
    Mend.SWEEP_MEMORY: "remove half-written records of memory",
    Mend.FINISH_PURGE: "finish the ordered destruction of {target}: its repository and all that was made of it",
}

Rebuild = Callable[[Sequence[BaseKey]], Mapping[BaseKey, str]]
"""Derives bases anew; what went wrong with which."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do. `target` is a base's key or a path in the home; `obstacle` says why it is left undone."""

    action: Mend
    target: str
    obstacle: str = ""

    @property
    def words(self) -> str:
        """What is done, for people."""
        return _WORDS[self.action].format(target=self.target or "the home")

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "action": self.action.value,
            "target": self.target,
            "what": self.words,
            "obstacle": self.obstacle or None,
        }


def plan(findings: Sequence[Finding], *, is_served: bool) -> list[Step]:
    """What is to be done about `findings`, each step once, in the order in which it is done."""
    lost = {finding.base for finding in findings if finding.base and finding.is_fault and not finding.kind.derived}
    steps: dict[tuple[Mend, str], Step] = {}
    for finding in findings:
        action = finding.kind.action
        if action is None or not finding.is_fault:
            continue
        target = _target(action, finding)
        obstacle = ""
        if is_served and action not in _BESIDE_A_SERVER:
            obstacle = "stop the server first"
        elif action is Mend.REBUILD_BASE and finding.base in lost:
            obstacle = "its repository must be restored first: what was derived from it is kept"
        elif action is Mend.DISCARD_CATALOGUE and lost:
            obstacle = f"restore the repository of {', '.join(sorted(map(str, lost)))} first"
        steps[action, target] = Step(action, target, obstacle)
    order = list(Mend)
    return sorted(steps.values(), key=lambda step: (-order.index(step.action), step.target))


def _target(action: Mend, finding: Finding) -> str:
    if action in (Mend.REBUILD_BASE, Mend.FINISH_PURGE):
        return finding.base or ""
    return "" if action in (Mend.INSTALL_HOOKS, Mend.SWEEP_MEMORY) else finding.where


def carry_out(home: Home, steps: Sequence[Step], rebuild: Rebuild | None, api_key: str | None = None) -> list[str]:
    """Do every step that nothing hinders. Returns what went wrong.

    `rebuild` is how a running server derives bases anew; None: no server runs, and the home is opened here. Raises
    `HomeLocked` while another process owns its index.
    """
    due = [step for step in steps if not step.obstacle]
    bases = [BaseKey.parse(step.target) for step in due if step.action is Mend.REBUILD_BASE]
    problems: list[str] = []
    if rebuild is not None:
        problems += _files(home, due)
        problems += [f"{key}: {what}" for key, what in (rebuild(bases) if bases else {}).items()]
        return problems
    lock = HomeLock(home.path)
    try:
        problems += _files(home, due)
    finally:
        lock.release()
    whole = {Mend.DISCARD_CATALOGUE, Mend.DISCARD_VECTOR_CACHE, Mend.FINISH_PURGE} & {step.action for step in due}
    if bases or whole:
        runtime = open_runtime(home, api_key=api_key)
        try:
            problems += _derive(runtime, bases, everything=Mend.DISCARD_CATALOGUE in whole)
        finally:
            runtime.stop()
    return problems


def _derive(runtime: Runtime, bases: Sequence[BaseKey], *, everything: bool) -> Iterator[str]:
    try:
        runtime.bases.finish_purges()
    except (KbgitError, OSError) as error:
        yield str(error)
    for key in runtime.home.base_keys():
        try:
            if key in bases:
                runtime.indexer.rebuild(key)
            elif everything:
                runtime.indexer.synchronise(key)
        except KbgitError as error:
            yield f"{key}: {error.message}"
    try:
        while runtime.indexer.embed_some():
            pass
    except EmbeddingFailure as error:
        yield f"passages are left without vectors: {error.message}"


def _files(home: Home, steps: Sequence[Step]) -> Iterator[str]:
    """What needs no library opened."""
    for step in steps:
        try:
            _in_files(home, step)
        except (KbgitError, OSError) as error:
            yield f"{step.words}: {error}"


def _in_files(home: Home, step: Step) -> None:
    path = home.path / step.target
    match step.action:
        case Mend.INSTALL_HOOKS:
            home.install_hooks()
        case Mend.CLOSE_MODE:
            path.chmod(path.stat().st_mode & 0o700)
        case Mend.REMOVE:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        case Mend.DISCARD_CATALOGUE:
            home.discard_catalogue()
        case Mend.DISCARD_VECTOR_CACHE:
            _discard_database(path)
        case Mend.SWEEP_MEMORY:
            root = home.path / "memory"
            for space in spaces_in(root):
                for key in projects_in(root, space):
                    files = ProjectFiles(root, key)
                    with files.changing():
                        files.sweep()
        case Mend.REBUILD_BASE | Mend.FINISH_PURGE:
            pass  # with the library open


def _discard_database(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
