"""Publication: from a head that moved to a log entry in Git and a catalogue that says so.

    pre-receive   admits the step and notes in the outbox who pushes what
    Git           moves the branch
    post-receive  `catch_up`: outbox → publication log → catalogue

Each arrow may be the last thing that happens before a crash. `catch_up` is idempotent and can be called by anyone at any
time: it compares the branch, the log and the catalogue, and completes what is missing.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from kbgit.admission import Limits, assess, read_settings
from kbgit.catalogue import Catalogue
from kbgit.errors import GitFailure, HistoryRewritten, TimedOut
from kbgit.history import read_history
from kbgit.revision import Via
from kbgit.rows import BaseRow, Publication, Step
from kbgit.store import Commit, Repository
from kbgit.store.repository import PUBLICATION_LOG, is_sha

OUTBOX = "kbgit-outbox"
_PROCESS = re.compile(r"[0-9]+ [0-9]+")
_LOCK = "kbgit-lock"
_LOCK_SECONDS = 60.0
_STARTED = 18  # place of the start time in /proc/<pid>/stat, counted from the state; see proc(5)
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Announcement:
    """A step that was admitted and that Git is about to make: written before, read after."""

    ref: str
    old: str | None
    new: str
    pushed_by: str
    via: Via
    at: int
    teller: str | None = None
    """The process, as `running` names it, whose end tells the pusher that all is done; None where nobody knows."""


@contextmanager
def base_lock(repository: Repository, seconds: float = _LOCK_SECONDS) -> Iterator[None]:
    """One process at a time publishes a base. The lock dies with its holder. Raises `TimedOut`."""
    with open(repository.path / _LOCK, "a") as lock:
        give_up = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > give_up:
                    raise TimedOut(f"another process has been publishing this base for {seconds:g} s") from None
                time.sleep(0.005)
        yield


def running(pid: int) -> str | None:
    """A name of a process that runs, which no later process gets; None if it has ended or the system does not say."""
    with suppress(OSError, ValueError, IndexError):
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return f"{pid} {rest[_STARTED]}" if state not in "XZ" else None  # a dead one may not have been waited for yet
    return None


def is_under_way(repository: Repository, head: str) -> bool:
    """Whether the pusher of `head` has not been told yet that it is published.

    Until then what was published before is what counts, and no reader need wait. Once the process that tells the pusher has
    ended this is not so, whatever became of the hook.
    """
    announcement = _announced(repository, [repository.path / OUTBOX / head]).get(head)
    if announcement is None or announcement.teller is None:
        return False
    return running(int(announcement.teller.partition(" ")[0])) == announcement.teller


def announce(repository: Repository, announcement: Announcement) -> None:
    """Note an admitted step in the outbox, durably, before Git makes it."""
    outbox = repository.path / OUTBOX
    outbox.mkdir(exist_ok=True)
    draft = outbox / f".{announcement.new}.{os.getpid()}"
    record = {
        "ref": announcement.ref,
        "old": announcement.old,
        "by": announcement.pushed_by,
        "via": announcement.via.value,
        "at": announcement.at,
        "teller": announcement.teller,
    }
    with open(draft, "w") as file:
        json.dump(record, file)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(outbox / announcement.new)


def _announced(repository: Repository, paths: Iterable[Path] | None = None) -> dict[str, Announcement]:
    """The outbox by new head, or what is at `paths` in it.

    An unreadable record is no announcement: its head will be published as `unknown`.
    """
    found = {}
    outbox = repository.path / OUTBOX
    for path in paths or (outbox.iterdir() if outbox.is_dir() else ()):
        if not is_sha(path.name):
            continue
        with suppress(ValueError, KeyError, TypeError, FileNotFoundError):
            record = json.loads(path.read_text())
            step = Announcement(record["ref"], record["old"], path.name, record["by"], Via(record["via"]), record["at"])
            teller = str(record.get("teller"))
            found[path.name] = replace(step, teller=teller) if _PROCESS.fullmatch(teller) else step
    return found


def _clear_outbox(repository: Repository, kept: float) -> None:
    """Drop records older than `kept` (seconds since the epoch): the pushes they announced are published or failed."""
    for path in (repository.path / OUTBOX).glob("*"):
        try:
            if path.stat().st_mtime < kept:
                path.unlink()
        except FileNotFoundError:
            continue


def catch_up(
    repository: Repository,
    catalogue: Catalogue,
    base: BaseRow,
    limits: Limits,
    clock: Clock = time.time,
) -> BaseRow:
    """Complete publication: log every new head, apply every new log entry to the catalogue. Returns the base as it is.

    Raises `HistoryRewritten` (and keeps what is published) when the branch no longer contains what was published.
    """
    head = repository.head()
    if head is not None and head == base.head and not base.alarm and not (repository.path / OUTBOX / head).exists():
        return base
    with base_lock(repository), repository.kept() as repository:
        started = clock()
        base = catalogue.base(str(base.key))
        _log_new_heads(repository, catalogue, base, clock)
        try:
            entries = repository.log_entries(after=base.entry)
            previous = next(repository.commits([base.entry]), None) if base.entry and entries else None
        except GitFailure:
            entries, previous = repository.log_entries(), None
        if base.entry and entries and not _follows(entries[0], previous):
            alarm = "the publication log no longer contains what was published"
            catalogue.raise_alarm(str(base.key), alarm)
            raise HistoryRewritten(f"{base.key}: {alarm}", {"base": str(base.key)})
        for entry in entries:
            base = _apply(repository, catalogue, base, entry, limits)
        # Announcements made since `started` may belong to a push that Git has not finished yet.
        _clear_outbox(repository, started - 3600)
        if base.head is not None:
            (repository.path / OUTBOX / base.head).unlink(missing_ok=True)
        if base.alarm:
            catalogue.raise_alarm(str(base.key), "")  # whatever it was, the branch shows what is published
            base = replace(base, alarm="")
        return base


def _follows(entry: Commit, previous: Commit | None) -> bool:
    return previous is not None and previous.sha in entry.parents


def logged_head(repository: Repository) -> str | None:
    """The head that was published last, whatever the branch shows now; None before the first publication."""
    entry = repository.ref(PUBLICATION_LOG)
    return head_of(next(repository.commits([entry]))) if entry else None


def _log_new_heads(repository: Repository, catalogue: Catalogue, base: BaseRow, clock: Clock) -> None:
    """Append to the log what the branch shows and the log does not: each announced head in turn, then the head."""
    last_entry = repository.ref(PUBLICATION_LOG)
    logged = logged_head(repository)
    announced = _announced(repository)
    if logged is None:
        _adopt_first_branch(repository, announced)
    head = repository.head()
    if head is None:
        if logged is not None or base.head is not None:
            _refuse_rewrite(catalogue, base, "the published branch is gone")
        return
    if logged is None and base.head is not None:
        _refuse_rewrite(catalogue, base, "the publication log is gone, or this is another repository")
    if head == logged:
        return
    if logged is not None and not (repository.has_commit(logged) and repository.is_ancestor(logged, head)):
        _refuse_rewrite(catalogue, base, f"the published branch no longer contains {logged}")
    steps = []
    cursor: str | None = head
    while cursor in announced and cursor != logged:
        steps.append(announced[cursor])
        cursor = announced[cursor].old
        if len(steps) > len(announced):
            break
    if not steps or cursor != logged:
        # Nobody announced how the branch came here (a ref moved by hand, or a first import): it is published all the same.
        known = announced.get(head)
        steps = [known] if known else [Announcement("", logged, head, "unknown", Via.UNKNOWN, int(clock()))]
    for step in reversed(steps):
        last_entry = repository.append_to_log(_entry_message(step), step.new, last_entry, step.at)


def _adopt_first_branch(repository: Repository, announced: Mapping[str, Announcement]) -> None:
    """In a repository whose HEAD names no branch that exists, the branch of the first push is the published one."""
    if repository.head() is not None:
        return
    for announcement in announced.values():
        if repository.ref(announcement.ref) == announcement.new:
            repository.name_published_branch(announcement.ref)


def _refuse_rewrite(catalogue: Catalogue, base: BaseRow, why: str) -> None:
    mend = "put the branch back (the publication log keeps every published commit), or `kbgit base accept-rewrite`"
    catalogue.raise_alarm(str(base.key), f"{why}; {mend}")
    raise HistoryRewritten(f"{base.key}: {why}; {mend}", {"base": str(base.key)})


def _entry_message(step: Announcement) -> str:
    return (
        f"Publish {step.new[:12]}\n\nKbgit-Head: {step.new}\nKbgit-Pushed-By: {step.pushed_by}\n"
        f"Kbgit-Via: {step.via.value}\nKbgit-Published-At: {step.at}\n"
    )


def trailers_of(entry: Commit) -> dict[str, str]:
    """What an entry of the publication log says: `Kbgit-Head` and such."""
    rows = (line.partition(": ") for line in entry.message.splitlines() if line.startswith("Kbgit-"))
    return {name: value for name, _, value in rows}


def head_of(entry: Commit) -> str:
    """The head that an entry of the publication log published."""
    return entry.parents[-1]


def _apply(repository: Repository, catalogue: Catalogue, base: BaseRow, entry: Commit, limits: Limits) -> BaseRow:
    """Apply one log entry to the catalogue."""
    key, head = str(base.key), head_of(entry)
    trailers = trailers_of(entry)
    publication = Publication(
        number=catalogue.publication_count(key) + 1,
        entry=entry.sha,
        head=head,
        pushed_by=trailers.get("Kbgit-Pushed-By", "unknown"),
        via=Via(trailers.get("Kbgit-Via", Via.UNKNOWN.value)),
        published_at=int(trailers.get("Kbgit-Published-At", entry.committed_at)),
    )
    slug = base.key.slug
    # After a rewrite that an operator accepted, everything is read anew: the old head says nothing about the new tree.
    start = base.head if base.head is None or repository.is_ancestor(base.head, head) else None
    assessment = assess(
        repository,
        start,
        head,
        slug,
        lambda ids: catalogue.paths_by_folded_id(key, ids),
        limits,
        catalogue.contested_paths(key),
    )
    old_settings = read_settings(repository, base.head, slug)[0]
    history = read_history(repository, catalogue, key, slug, base.head, assessment, publication)
    step = Step(
        base=replace(base, settings=assessment.settings, head=head, entry=entry.sha),
        publication=publication,
        commits=history.commits,
        revisions=history.revisions,
        items=history.items,
        complete=assessment.complete,
        default_changed=old_settings.default_status is not assessment.settings.default_status,
        removed_paths=assessment.gone,
        problems=assessment.problems,
    )
    catalogue.apply(step)
    return catalogue.base(key)


def replay(
    repository: Repository,
    catalogue: Catalogue,
    base: BaseRow,
    limits: Limits,
    *,
    until: str | None = None,
) -> BaseRow:
    """Apply the log entries that `catalogue` lacks, the last of them `until` (None: all). Nothing is written to Git.

    For a catalogue that nobody else writes. Raises `GitFailure`.
    """
    with repository.kept() as repository:
        for entry in repository.log_entries(after=base.entry):
            base = _apply(repository, catalogue, base, entry, limits)
            if entry.sha == until:
                break
    return base


def rebuild(repository: Repository, catalogue: Catalogue, base: BaseRow, limits: Limits) -> BaseRow:
    """Derive a base's rows anew from its publication log."""
    catalogue.reset(base.key)
    return catch_up(repository, catalogue, catalogue.base(str(base.key)), limits)


def accept_rewrite(
    repository: Repository, catalogue: Catalogue, base: BaseRow, user: str, limits: Limits, clock: Clock = time.time
) -> BaseRow:
    """Publish the branch as it is, though it does not contain what was published: an operator's decision.

    The log goes on, so what was published before keeps its revisions and its citations. Raises `GitFailure` when there is
    no branch to accept.
    """
    head = repository.head()
    if head is None:
        raise GitFailure(f"{base.key}: the published branch is gone; put it back first, at any commit")
    with base_lock(repository):
        step = Announcement(repository.published_branch(), base.head, head, user, Via.PUSH, int(clock()))
        repository.append_to_log(_entry_message(step), head, repository.ref(PUBLICATION_LOG), step.at)
    return rebuild(repository, catalogue, base, limits)
