"""What the Git hooks do: `pre-receive` admits a push, `post-receive` publishes it and tells the writer.

Run by the scripts in `hooks/` as `python -I -m kbgit.hook NAME HOME`, in the pushed repository, with Git's environment:
pushed objects are in quarantine and visible to the `git` command only. Any failure before the verdict refuses the push.

Who pushes is what the transport says (`KBGIT_USER`, `KBGIT_RIGHTS`, set by the HTTP server or an SSH forced command);
whoever pushes by path holds the data directory itself and is named after their system account.
"""

from __future__ import annotations

import os
import pwd
import sqlite3
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kbgit import config, names
from kbgit.admission import Rights, Verdict, assess, judge
from kbgit.base import BaseKey
from kbgit.catalogue import Catalogue
from kbgit.errors import HistoryRewritten, HomeProblem, KbgitError
from kbgit.home import Home
from kbgit.publish import Announcement, announce, catch_up, logged_head, running
from kbgit.receipt import receipt
from kbgit.revision import Via
from kbgit.store import Git, Repository
from kbgit.store.git import clean_environment
from kbgit.store.repository import NO_OBJECT

USER = "KBGIT_USER"
RIGHTS = "KBGIT_RIGHTS"
VIA = "KBGIT_VIA"
RECEIVER = "KBGIT_RECEIVER"
"""The number of Git's process, of which this is a hook; where it is not given, that is the parent process."""


@dataclass(frozen=True, slots=True)
class RefUpdate:
    """A line of a hook's input; None stands for "not there"."""

    old: str | None
    new: str | None
    ref: str


@dataclass(frozen=True, slots=True)
class Push:
    """One push: where to, by whom, and what it wants to move."""

    home: Home
    key: BaseKey
    repository: Repository
    updates: list[RefUpdate]
    user: str
    rights: Rights
    via: Via
    environment: Mapping[str, str]
    say: Callable[[str], None]
    """Tells the writer a line."""


def main(arguments: list[str] | None = None) -> int:
    """Entry point. Exit code 0 lets Git go on, 1 refuses."""
    name, home_path = (sys.argv[1:] if arguments is None else arguments)[:2]
    try:
        return answer(name, Path(home_path), sys.stdin.buffer.read(), os.environ, _print)
    except OSError as error:
        _print(f"{HomeProblem.code}: the disk or the system refused something: {error.strerror or error}")
        return 1


def answer(name: str, home_path: Path, stdin: bytes, environment: Mapping[str, str], say: Callable[[str], None]) -> int:
    """What the hook `name` does with the lines Git gave it, in the environment Git gave it; its exit code."""
    try:
        push = _read_push(home_path, stdin, environment, say)
        work = {"pre-receive": pre_receive, "post-receive": post_receive}[name]
        with push.repository.kept() as repository:
            return work(replace(push, repository=repository))
    except KbgitError as error:
        say(f"{error.code}: {error.message}")
        return 1
    except sqlite3.Error as error:
        say(f"index_failure: the catalogue cannot be used ({error}); `kbgit reindex` rebuilds it")
        return 1


def _read_push(home_path: Path, stdin: bytes, environment: Mapping[str, str], say: Callable[[str], None]) -> Push:
    home = Home.at(home_path, config.from_environment(environment))
    path = Path(environment.get("GIT_DIR", ".")).resolve()
    key = BaseKey.from_path(path.parent.name, path.name)
    git = Git(path, home.settings.git_timeout_seconds, clean_environment(environment, keep_quarantine=True))
    rights = Rights()
    if RIGHTS in environment:
        granted = environment[RIGHTS].split()
        rights = Rights(administer="administer" in granted, delete="delete" in granted)
    return Push(
        home=home,
        key=key,
        repository=Repository.at(path, git),
        updates=[_ref_update(line) for line in stdin.decode("utf-8", "surrogateescape").split("\n") if line],
        user=environment.get(USER) or f"local:{_system_account()}",
        rights=rights,
        via=Via(environment.get(VIA, Via.PUSH.value)),
        environment=environment,
        say=say,
    )


def _system_account() -> str:
    """The name of the account that this process runs as, whatever its environment says; its number if it has no name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _ref_update(line: str) -> RefUpdate:
    old, new, ref = line.split(" ", 2)
    return RefUpdate(None if old == NO_OBJECT else old, None if new == NO_OBJECT else new, ref)


def pre_receive(push: Push) -> int:
    """Refuse the whole push, naming every problem, or announce the step of the published branch."""
    branch = _published_branch(push)
    refusals: list[str] = []
    announcement: Announcement | None = None
    for update in push.updates:
        why = _ref_rule(push.repository, update, branch)
        if why:
            refusals.append(f"{names.shown(update.ref)}: {why}")
        elif update.ref == branch and update.new is not None:
            refusals += map(str, _verdict(push, update.old, update.new).refusals)
            receiver = int(push.environment.get(RECEIVER) or os.getppid())  # its end is what the pusher waits for
            announcement = Announcement(
                update.ref, update.old, update.new, push.user, push.via, int(time.time()), running(receiver)
            )
        elif (commit := _unpublished_commit(push.repository, update)) is not None:
            # A proposal or tag may have unfinished items, but no tree that cannot be checked out safely.
            refusals += [str(found) for found in _verdict(push, update.old, commit).refusals if found.code in _ALWAYS]
    if refusals:
        for line in ("refused; nothing was changed. Mend this and push again:", *(f"  {line}" for line in refusals)):
            push.say(line)
        return 1
    if announcement is not None:
        announce(push.repository, announcement)
    return 0


_ALWAYS = frozenset({"unsafe_name", "twin_name", "too_large"})


def _unpublished_commit(repository: Repository, update: RefUpdate) -> str | None:
    """The commit that a proposal or tag brings; None if it brings nothing that was not published before."""
    commit = repository.commit_of(update.new) if update.new else None
    head = repository.head()
    return None if commit is None or (head is not None and repository.is_ancestor(commit, head)) else commit


def _verdict(push: Push, old: str | None, new: str) -> Verdict:
    catalogue = push.home.catalogue()
    key, slug, limits = str(push.key), push.key.slug, push.home.limits
    try:
        _complete_earlier_pushes(push, catalogue)
        # A proposal is judged by what it changes against the published branch.
        start = old or push.repository.head()
        assessment = assess(
            push.repository,
            start,
            new,
            slug,
            lambda ids: catalogue.paths_by_folded_id(key, ids),
            limits,
            catalogue.contested_paths(key),
        )
        return judge(push.repository, start, new, assessment, slug, push.rights, limits)
    finally:
        catalogue.close()


def _complete_earlier_pushes(push: Push, catalogue: Catalogue) -> None:
    """Catalogue what was published before, so that the gate knows which file has which id."""
    catalogue.add_base(push.key)
    # What is written here belongs to the repository and not to the quarantine of a push that may be refused.
    settled = Git(push.repository.path, push.home.settings.git_timeout_seconds, clean_environment(push.environment))
    try:
        catch_up(Repository.at(settled.directory, settled), catalogue, catalogue.base(str(push.key)), push.home.limits)
    except HistoryRewritten as error:
        push.say(error.message)  # the base has its alarm; a push may be what puts the branch back


_USUAL = "refs/heads/master"


def _published_branch(push: Push) -> str:
    """The branch that HEAD names; in an empty repository, the one that this first push brings instead of it."""
    branch = push.repository.published_branch()
    pushed = [update.ref for update in push.updates if update.ref.startswith("refs/heads/") and update.new]
    is_new = push.repository.ref(branch) is None and logged_head(push.repository) is None
    if is_new and pushed and branch not in pushed:
        return _USUAL if _USUAL in pushed else pushed[0]
    return branch


def _ref_rule(repository: Repository, update: RefUpdate, branch: str) -> str:
    """Why a ref may not be moved like this; empty if it may."""
    if update.ref == branch:
        if update.new is None:
            return "the published branch cannot be deleted"
        # Whatever the branch shows: it may have been moved or deleted without kbgit.
        published = {update.old, logged_head(repository)} - {None}
        if not all(repository.is_ancestor(str(sha), update.new) for sha in published):
            return "published history cannot be rewritten; merge or rebase onto it and push again"
        return ""
    if not update.ref.startswith(("refs/heads/", "refs/tags/")):
        return "only branches and tags can be pushed"
    if update.ref.startswith("refs/tags/") and update.old is not None:
        return "a tag cannot be moved or deleted; choose another name"
    if update.new is not None and repository.commit_of(update.new) is None:
        return "a branch or tag must name a commit"
    return ""


def post_receive(push: Push) -> int:
    """Publish the new head and print the receipt. A failure here loses nothing: the server catches up later."""
    branch = _published_branch(push)
    update = next((update for update in push.updates if update.ref == branch), None)
    if update is None:
        push.say(f"not published: {', '.join(names.shown(u.ref) for u in push.updates)} (only {branch} is)")
        return 0
    repository = push.repository
    catalogue = push.home.catalogue()
    try:
        catalogue.add_base(push.key)
        base = catch_up(repository, catalogue, catalogue.base(str(push.key)), push.home.limits)
        for line in receipt(repository, catalogue, base, update.old).lines():
            push.say(str(line))
    finally:
        catalogue.close()
    return 0


def _print(line: str) -> None:
    print(f"kbgit: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    # Git decodes nothing: whatever the locale, the writer's terminal gets UTF-8.
    if hasattr(sys.stderr, "reconfigure"):
        sys.stderr.reconfigure(encoding="utf-8", errors="backslashreplace")
    raise SystemExit(main())
