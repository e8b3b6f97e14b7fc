"""The one gate before a tree becomes visible, and the one reading of a tree that publication shares with it.

`assess` reads the step from one published tree to the next: settings, items, problems. `judge` turns that into a
verdict. Both are the same for every way in: push by any transport, API, import.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from kbgit import names
from kbgit.base import SETTINGS_FILE, Admission, BaseSettings, TreeRules, is_okf_bundle
from kbgit.errors import DocumentProblem
from kbgit.item import Document, item_id, parse_document
from kbgit.store import Change, Repository, TreeEntry
from kbgit.store.repository import SUBMODULE

Incumbents = Callable[[Collection[str]], Mapping[str, str]]
"""Case-folded item ids → the path that holds each in the old tree; ids that nothing holds are left out."""

_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes, and how many files a base may have."""

    item_bytes: int = 1 << 20
    file_bytes: int = 32 << 20
    files: int = 500_000


@dataclass(frozen=True, slots=True)
class Rights:
    """What the pusher may do beyond writing items: change a base's settings, delete items."""

    administer: bool = True
    delete: bool = True


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """Something wrong with one file: where, what, and how to mend it.

    `fatal` problems refuse a push always; others only in a base whose admission is strict.
    """

    path: str
    line: int
    code: str
    what: str
    mend: str
    fatal: bool = False

    def __str__(self) -> str:
        return f"{names.shown(self.path)}:{self.line}: {self.what}{f'; {self.mend}' if self.mend else ''}"


@dataclass(frozen=True, slots=True)
class ItemFile:
    """A file that is an item: its entry, its path as text, its id and what it says."""

    entry: TreeEntry
    path: str
    item_id: str
    document: Document


@dataclass
class Assessment:
    """The step from one tree to another, read.

    With `complete`, `items` are all the items of the new tree, and what is not among them is gone; otherwise they are
    those that changed, and `gone` are the paths that no longer hold one (removed, or unreadable now).
    """

    settings: BaseSettings
    rules: TreeRules
    complete: bool
    changes: list[Change]
    items: list[ItemFile] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)


def read_settings(
    repository: Repository, commit: str | None, slug: str
) -> tuple[BaseSettings, TreeRules, list[Problem]]:
    """A tree's settings and rules. Unreadable settings are a fatal problem, and the defaults (everything a draft)."""
    if commit is None:
        return BaseSettings(name=slug), TreeRules(), []
    wanted = (f"{commit}:{SETTINGS_FILE}", f"{commit}:index.md")
    found = {name: content for name, kind, content in repository.git.objects(wanted) if kind == "blob"}
    problems: list[Problem] = []
    try:
        settings = BaseSettings.parse(found.get(wanted[0]), slug)
    except DocumentProblem as problem:
        settings = BaseSettings(name=slug)
        problems.append(Problem(SETTINGS_FILE, problem.line, "settings", problem.what, problem.mend, fatal=True))
    return settings, TreeRules(settings.subdir, is_okf_bundle(found.get(wanted[1]))), problems


def assess(
    repository: Repository,
    old: str | None,
    new: str,
    slug: str,
    incumbents: Incumbents,
    limits: Limits,
    contested: Collection[str] = (),
) -> Assessment:
    """Read the step from `old` (None: nothing) to `new`. Costs what changed, not what is there.

    `contested` are the paths that in `old` claim an id which another file claims too: whether they still do depends on
    what became of the other, so they are read again.
    """
    settings, rules, problems = read_settings(repository, new, slug)
    complete = old is None or read_settings(repository, old, slug)[1] != rules
    changes = repository.changes(None if complete else old, new)
    assessment = Assessment(settings, rules, complete, changes, problems=problems)
    candidates = _candidates(assessment)
    if contested and not complete:
        candidates |= _untouched(repository, new, contested, candidates, rules)
    readable = _within_size(repository, candidates, limits, problems)
    texts = dict(repository.blobs({entry.sha for entry in readable.values()}))
    parsed: list[ItemFile] = []
    for path, entry in readable.items():
        raw = texts[entry.sha]
        if raw.startswith(_LFS_POINTER):
            problems.append(Problem(path, 1, "lfs_pointer", "is a Git LFS pointer, not a text", "git lfs untrack it"))
            continue
        try:
            document = parse_document(raw)
        except DocumentProblem as problem:
            problems.append(Problem(path, problem.line, problem.code, problem.what, problem.mend))
            continue
        parsed.append(ItemFile(entry, path, item_id(document, slug, path), document))
    changed = {name for change in changes if (name := names.decoded(change.path)) is not None}
    assessment.items = _without_duplicates(parsed, assessment, changed, incumbents)
    kept = {item.path for item in assessment.items}
    assessment.gone = (changed | (set(candidates) & set(contested))) - kept
    return assessment


def _candidates(assessment: Assessment) -> dict[str, TreeEntry]:
    """Path → entry of every changed file that should be an item; what is there instead of a file is a problem."""
    found: dict[str, TreeEntry] = {}
    for change in assessment.changes:
        path = names.decoded(change.path)
        if change.new is None or path is None or not assessment.rules.is_item(path):
            continue
        if change.new.is_file:
            found[path] = change.new
        else:
            kind = change.new.link or "no ordinary file"
            mend = "put the text itself there, or use a name that does not end in .md"
            assessment.problems.append(Problem(path, 1, "not_a_file", f"is {kind} where an item should be", mend))
    return found


def _untouched(
    repository: Repository, new: str, contested: Collection[str], changed: Collection[str], rules: TreeRules
) -> dict[str, TreeEntry]:
    """Path → entry of the contested files that are still there as they were."""
    tree = {path: entry for entry in repository.tree(new) if (path := names.decoded(entry.path)) is not None}
    return {
        path: tree[path]
        for path in contested
        if path in tree and path not in changed and tree[path].is_file and rules.is_item(path)
    }


def _within_size(
    repository: Repository, candidates: dict[str, TreeEntry], limits: Limits, problems: list[Problem]
) -> dict[str, TreeEntry]:
    sizes = repository.git.sizes({entry.sha for entry in candidates.values()})
    readable = {}
    for path, entry in candidates.items():
        size = sizes.get(entry.sha, 0)
        if size > limits.item_bytes:
            what = f"has {size:,} bytes; an item has at most {limits.item_bytes:,}"
            problems.append(Problem(path, 1, "too_large", what, "split it", fatal=True))
        else:
            readable[path] = entry
    return readable


def _without_duplicates(
    parsed: list[ItemFile], assessment: Assessment, changed: Collection[str], incumbents: Incumbents
) -> list[ItemFile]:
    """The items whose id nobody else has. A newcomer never displaces the file that holds the id already."""
    holders: dict[str, list[ItemFile]] = {}
    for item in parsed:
        holders.setdefault(item.item_id.casefold(), []).append(item)
    before = incumbents(holders.keys())
    kept: list[ItemFile] = []
    for folded_id, claims in holders.items():
        # The old holder still counts where this step did not touch it, or where it is one of the claims itself.
        old_path = before.get(folded_id)
        untouched = old_path is not None and not assessment.complete and old_path not in changed
        rightful = [item for item in claims if item.path == old_path] if not untouched else []
        if len(claims) == 1 and not untouched:
            rightful = claims
        kept += rightful
        others = [item for item in claims if item not in rightful]
        everyone = sorted({item.path for item in claims} | ({old_path} if untouched and old_path else set()))
        for item in others:
            rivals = ", ".join(names.shown(path) for path in everyone if path != item.path)
            line = item.document.field_lines.get("id", 1)
            what = f"the id {item.item_id!r} is also that of {rivals}"
            assessment.problems.append(Problem(item.path, line, "duplicate_id", what, "give one of them another id"))
    return kept


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a step may become visible, and everything that is wrong with it."""

    refusals: tuple[Problem, ...]
    tolerated: tuple[Problem, ...]

    @property
    def admitted(self) -> bool:
        """No problem refuses the step."""
        return not self.refusals


def judge(
    repository: Repository, old: str | None, new: str, assessment: Assessment, slug: str, rights: Rights, limits: Limits
) -> Verdict:
    """The gate: every problem at once."""
    changes = assessment.changes if not assessment.complete or old is None else repository.changes(old, new)
    fatal = [*_name_problems(repository, new, changes), *_size_problems(repository, changes, limits)]
    fatal += _right_problems(repository, old, assessment, changes, slug, rights)
    touched = {names.decoded(change.path) for change in changes}
    strict = assessment.settings.admission is Admission.STRICT
    refusals, tolerated = list(fatal), []
    for problem in assessment.problems:
        # A file that was broken before never blocks somebody else's push.
        if problem.path in touched and (problem.fatal or strict):
            refusals.append(problem)
        else:
            tolerated.append(problem)
    return Verdict(tuple(sorted(set(refusals))), tuple(sorted(set(tolerated))))


def _name_problems(repository: Repository, new: str, changes: list[Change]) -> Iterable[Problem]:
    # Only a name that comes in now can be refused: one that is there already never blocks somebody else's push.
    added = [change.new for change in changes if change.old is None and change.new is not None]
    for entry in added:
        why = names.fault(entry.path)
        if why:
            yield Problem(names.shown(entry.path), 1, "unsafe_name", why, "rename it", fatal=True)
    if added:
        tree = [path for entry in repository.tree(new) if (path := names.decoded(entry.path)) is not None]
        for path, other in names.twins([p for e in added if (p := names.decoded(e.path)) is not None], tree):
            what = f"differs from {names.shown(other)} only in case or Unicode form"
            yield Problem(
                path, 1, "twin_name", what, "rename one of them; not every file system can hold both", fatal=True
            )


def _size_problems(repository: Repository, changes: list[Change], limits: Limits) -> Iterable[Problem]:
    files = [change.new for change in changes if change.new is not None and change.new.mode != SUBMODULE]
    sizes = repository.git.sizes({entry.sha for entry in files})
    for entry in files:
        if sizes.get(entry.sha, 0) > limits.file_bytes:
            what = f"has {sizes[entry.sha]:,} bytes; a file has at most {limits.file_bytes:,}"
            yield Problem(names.shown(entry.path), 1, "too_large", what, "keep it elsewhere and link to it", fatal=True)


def _right_problems(
    repository: Repository,
    old: str | None,
    assessment: Assessment,
    changes: list[Change],
    slug: str,
    rights: Rights,
) -> Iterable[Problem]:
    if not rights.administer and read_settings(repository, old, slug)[0] != assessment.settings:
        what = "changes the settings of the base, which needs base:admin"
        yield Problem(SETTINGS_FILE, 1, "forbidden", what, "ask an administrator of its space", fatal=True)
    if rights.delete or old is None:
        return
    added = {change.path for change in changes if change.old is None}
    arrived = {item.entry.sha for item in assessment.items if item.entry.path in added}
    kept_ids = {item.document.explicit_id for item in assessment.items}
    removed: dict[str, TreeEntry] = {}
    for change in changes:
        path, old_entry = names.decoded(change.path), change.old
        if change.new is not None or old_entry is None or path is None or not assessment.rules.is_item(path):
            continue
        if old_entry.is_file and old_entry.sha not in arrived:  # moved as it was: renamed, not deleted
            removed[path] = old_entry
    texts = dict(repository.blobs({entry.sha for entry in removed.values()}))
    for path, entry in removed.items():
        try:
            explicit = parse_document(texts[entry.sha]).explicit_id
        except DocumentProblem:
            explicit = None
        if explicit is None or explicit not in kept_ids:
            what = "deletes an item, which needs base:admin"
            yield Problem(
                path, 1, "forbidden", what, "set `status: archived` instead, or ask an administrator", fatal=True
            )
