"""The repositories: does Git vouch for every object, and is the publication log the chain that it must be?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kbgit.base import BaseKey
from kbgit.errors import GitFailure, HomeProblem, KbgitError
from kbgit.home import Home
from kbgit.publish import head_of, trailers_of
from kbgit.store import Commit, Git, Repository
from kbgit.store.repository import EMPTY_TREE, PUBLICATION_LOG, is_sha
from kbgit.upkeep.finding import Finding

_KNOWN_TREE = f"missing tree {EMPTY_TREE}"
PATIENCE_SECONDS = 6 * 3600.0
"""Longest time of one Git command that reads a whole repository."""


@dataclass(frozen=True, slots=True)
class Log:
    """A base's publication log, oldest entry first, and the heads that it published."""

    entries: Sequence[Commit]

    @property
    def heads(self) -> list[str]:
        """The head of each entry."""
        return [head_of(entry) for entry in self.entries]


def patient(home: Home, key: BaseKey) -> Repository:
    """A base's repository, whose commands may take long. Raises `BaseNotFound`."""
    path = home.repository(key).path
    return Repository.at(path, Git(path, PATIENCE_SECONDS))


def check_repository(
    home: Home, key: BaseKey, repository: Repository, catalogued_head: str | None, *, full: bool
) -> tuple[Log | None, list[Finding]]:
    """What is wrong with a base's repository, and its log if that can be derived from."""
    where = str(repository.path.relative_to(home.path))

    def found(code: str, what: str) -> Finding:
        return Finding(code, what, where, str(key))

    findings = [found("repository_unguarded", problem) for problem in _unguarded(home, repository)]
    # The log first: what is published after it was read is in the repository, and is no concern of this check.
    try:
        tip = repository.ref(PUBLICATION_LOG)
        log = Log(repository.log_entries())
        branch = repository.head()
    except (KbgitError, OSError, IndexError) as error:
        damage = [found("repository_damaged", what) for what in _damage(repository, full=full) or [str(error)]]
        return None, findings + damage
    damage = [found("repository_damaged", what) for what in _damage(repository, full=full)]
    if damage:
        return None, findings + damage
    if tip is None:
        if catalogued_head is not None:
            return None, [*findings, found("publication_log_missing", f"{PUBLICATION_LOG} names nothing")]
        pending = [found("publication_pending", f"{branch} is not published")] if branch else []
        return Log([]), findings + pending
    broken = list(_broken_entries(log.entries, tip))
    if broken:
        return None, findings + [found("publication_log_broken", what) for what in broken[:5]]
    last = log.heads[-1]
    # Read anew: the branch may have moved on since, and contains what it contained.
    branch = repository.head()
    if branch is None:
        findings.append(found("branch_rewritten", f"the branch is gone; {last} was published"))
    elif branch != last and not repository.is_ancestor(last, branch):
        findings.append(found("branch_rewritten", f"the branch is at {branch}, which does not contain {last}"))
    elif branch != last and branch not in Log(repository.log_entries()).heads:
        findings.append(found("publication_pending", f"{branch} is not published"))
    return log, findings


def _unguarded(home: Home, repository: Repository) -> Iterator[str]:
    try:
        home.check_repository(repository)
    except (HomeProblem, GitFailure) as error:
        yield error.message


def _damage(repository: Repository, *, full: bool) -> list[str]:
    """What `git fsck` complains about, a few lines of it."""
    depth = "--full" if full else "--connectivity-only"
    done = repository.git.complete(
        "fsck",
        depth,
        "--no-dangling",
        "--no-progress",
        allow=range(256),  # bits of what it found
    )
    if done.returncode == 0:
        return []
    lines = (done.stdout + done.stderr).decode("utf-8", "replace").splitlines()
    # Warnings are about commits as their writers made them, which admission let in. The empty tree, which entries of the
    # publication log have, is one that Git knows without storing it, except for this command.
    told = [line for line in lines if line and not line.startswith(("warning ", "notice")) and line != _KNOWN_TREE]
    return told[:5] or ([] if _KNOWN_TREE in lines else [f"git fsck ends with {done.returncode}"])


def _broken_entries(entries: Sequence[Commit], tip: str) -> Iterator[str]:
    if not entries or entries[-1].sha != tip:
        yield f"its last entry is not {tip}"
        return
    previous: str | None = None
    for entry in entries:
        head = head_of(entry) if entry.parents else ""
        expected = (previous, head) if previous else (head,)
        if entry.parents != expected or not is_sha(head):
            yield f"entry {entry.sha} does not follow {previous or 'a beginning'}"
        elif trailers_of(entry).get("Kbgit-Head") != head:
            yield f"entry {entry.sha} names another head than it keeps"
        previous = entry.sha
