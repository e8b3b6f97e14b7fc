"""A writer's work tree, or any directory, as the tree that a commit of it would have."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from kbgit.base import SETTINGS_FILE
from kbgit.errors import GitFailure
from kbgit.store import Git, Repository


@dataclass(frozen=True, slots=True)
class ProposedTree:
    """A tree that nobody has committed: readable in `repository` as long as the proposal is open.

    `before` is the commit it would be made on, None where there is none.
    """

    repository: Repository
    tree: str
    before: str | None


@dataclass(frozen=True, slots=True)
class WorkTree:
    """A directory that holds a base's files. `git` is None where it is no Git work tree."""

    root: Path
    git: Git | None

    @classmethod
    def around(cls, directory: Path, environment: Mapping[str, str]) -> WorkTree:
        """The Git work tree that `directory` is in; else its nearest parent with a base.yaml; else itself.

        Git's own variables count: within a hook they say which index is being committed.
        """
        git = Git(directory, environment={**environment, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"})
        found = git.complete("rev-parse", "--show-toplevel", allow=(0, 128))
        if found.returncode == 0:
            root = Path(os.fsdecode(found.stdout.rstrip(b"\n")))
            return cls(root, Git(root, environment=git.environment))
        parents = (directory, *directory.parents)
        return cls(next((parent for parent in parents if (parent / SETTINGS_FILE).is_file()), directory), None)

    def hooks(self) -> Path:
        """Where Git looks for this work tree's hooks, `core.hooksPath` respected. Raises `GitFailure`."""
        return self._git_path("hooks")

    def private_hooks(self) -> Path:
        """Where they would be without `core.hooksPath`. Raises `GitFailure`."""
        return self._named("--git-common-dir") / "hooks"

    @contextmanager
    def proposed(self, *, staged: bool) -> Iterator[ProposedTree]:
        """What `git commit` would commit now: what is staged, or with everything that is in the directory.

        New objects go into a scratch repository that borrows the old ones, so that the writer's is left as it is.
        """
        with TemporaryDirectory(prefix="kbgit-") as scratch:
            repository = Repository.create(Path(scratch) / "tree.git")
            git, extra = self._git_onto(repository, Path(scratch) / "index")
            if not staged:
                git.run("add", "--all", ".", extra=extra)
            tree = git.run("write-tree", extra=extra).decode().strip()
            try:
                yield ProposedTree(repository, tree, self._head())
            finally:
                repository.close()

    def _git_onto(self, repository: Repository, index: Path) -> tuple[Git, dict[str, str]]:
        """Git on this directory, and the variables that make it write its objects into `repository`."""
        objects = repository.path / "objects"
        extra = {"GIT_INDEX_FILE": str(index), "GIT_OBJECT_DIRECTORY": str(objects)}
        if self.git is None:
            git = Git(self.root, environment=repository.git.environment)
            return git, extra | {"GIT_DIR": str(repository.path), "GIT_WORK_TREE": str(self.root)}
        (objects / "info").mkdir(exist_ok=True)
        (objects / "info" / "alternates").write_text(f"{self._git_path('objects').resolve()}\n")
        present = self._git_path("index")
        if present.is_file():
            shutil.copyfile(present, index)
        return self.git, extra

    def _head(self) -> str | None:
        if self.git is None:
            return None
        found = self.git.complete("rev-parse", "--verify", "--quiet", "HEAD^{commit}", allow=(0, 1, 128))
        return found.stdout.decode().strip() or None

    def _git_path(self, name: str) -> Path:
        return self._named("--git-path", name)

    def _named(self, *question: str) -> Path:
        if self.git is None:
            raise GitFailure(f"{self.root} is in no Git work tree")
        return self.root / os.fsdecode(self.git.run("rev-parse", *question).rstrip(b"\n"))
