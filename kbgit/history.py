"""From commits to revisions: which commits changed which items, and the number each revision has.

A commit is a revision of an item when the item's file in it differs from that in every parent: what
`git log --full-history -c --name-only` shows for it. Its number is the count of such commits in its own history, itself
included; where no merge threw a change away, that is `git rev-list --count <commit> -- <path>`. A commit that removes the
file counts too, as it does for Git, but shows nothing and cannot be read.

Every `.md` file has revisions, whether or not the base's settings make it an item: so neither a change of those settings
nor its undoing changes a number. Where two files of a commit claim one id, only what happens to the file that had it counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from kbgit import names
from kbgit.admission import Assessment, ItemFile
from kbgit.base import BaseSettings, TreeRules
from kbgit.catalogue import Catalogue
from kbgit.errors import DocumentProblem
from kbgit.item import Document, ItemStatus, item_id, parse_document, title_of
from kbgit.rows import CommitRow, ItemRow, Publication, RevisionRow
from kbgit.store import Change, Commit, Repository, TreeEntry

_NAMELESS = parse_document(b"")
_ANYWHERE = TreeRules()


@dataclass(frozen=True, slots=True)
class History:
    """What one publication adds: its commits, their revisions, and the items that changed between the two heads."""

    commits: Sequence[CommitRow]
    revisions: Sequence[RevisionRow]
    items: Sequence[ItemRow]


def read_history(
    repository: Repository,
    catalogue: Catalogue,
    base: str,
    slug: str,
    old_head: str | None,
    assessment: Assessment,
    publication: Publication,
) -> History:
    """Read the commits that `publication` brings after `old_head`, and place `assessment`'s items on their revision."""
    settings = assessment.settings
    shas = repository.history(publication.head, without=[old_head] if old_head else [])
    start = catalogue.commit_count(base)
    commits = list(repository.commits(shas))
    changes = dict(repository.commit_changes(shas)) if shas else {}
    documents = _documents(repository, changes, assessment)
    published = {(item.item_id, item.path, item.entry.sha) for item in assessment.items}
    holders = _Holders(repository, catalogue, base, slug)
    numbering = _Numbering(repository, catalogue, base, commits, start, old_head)
    revisions: list[RevisionRow] = []
    for offset, commit in enumerate(commits):
        numbering.enter(commit, start + offset)
        changed = {change.path for change in changes.get(commit.sha, [])}
        touched = _touched(changes.get(commit.sha, []), documents, published, slug)
        for touched_id, (path, blob, document) in touched.items():
            if holders.has_other(commit.sha, touched_id, path, changed):
                continue
            holders.note(touched_id, path)
            status = (document.status if document else None) or settings.default_status
            revisions.append(
                RevisionRow(
                    base=base,
                    item_id=touched_id,
                    sha=commit.sha,
                    number=numbering.next(touched_id),
                    position=start + offset,
                    path=path,
                    blob=blob,
                    status=status,
                    content_hash=document.content_hash if document else "",
                    was_published=bool(document) and status is ItemStatus.PUBLISHED and assessment.rules.is_item(path),
                )
            )
    rows = [
        CommitRow(
            sha=commit.sha,
            author=commit.author,
            committer=commit.committer,
            committed_at=commit.committed_at,
            message=commit.message,
            signature="unverified" if commit.signed else "none",
            publication=publication.number,
            position=start + offset,
        )
        for offset, commit in enumerate(commits)
    ]
    items = []
    latest = {(row.item_id, row.path, row.blob): row for row in revisions}  # later ones replace earlier ones
    for file in assessment.items:
        found = latest.get((file.item_id, file.path, file.entry.sha))
        if found is None:
            found = catalogue.revision_with(base, file.item_id, file.path, file.entry.sha)
        if found is None:
            found = _inherit(file, revisions, rows[-1], numbering, base, settings.default_status)
        items.append(_item_row(file, found, settings))
    return History(rows, revisions, items)


def _documents(
    repository: Repository, changes: Mapping[str, list[Change]], assessment: Assessment
) -> dict[str, Document | None]:
    """Blob → document of every item file in these changes; None for one that cannot be read as an item."""
    found: dict[str, Document | None] = {item.entry.sha: item.document for item in assessment.items}
    wanted: set[str] = set()
    for commit_changes in changes.values():
        for change in commit_changes:
            path = names.decoded(change.path)
            if path is not None and _ANYWHERE.is_item(path):
                for entry in (change.old, change.new):
                    if entry is not None and entry.is_file and entry.sha not in found:
                        wanted.add(entry.sha)
    for sha, raw in repository.blobs(sorted(wanted)):
        try:
            found[sha] = parse_document(raw)
        except DocumentProblem:
            found[sha] = None
    return found


Touched = tuple[str, str | None, Document | None]


def _touched(
    changes: list[Change],
    documents: Mapping[str, Document | None],
    published: Collection[tuple[str, str, str]],
    slug: str,
) -> dict[str, Touched]:
    """Item id → (path, blob, document) of each item whose file this commit changes; blob None where it is removed.

    A file that moved within the commit and kept its id appears once, where it is now. Of several files that claim an id,
    the one counts that is `published` with it (id, path, blob), else the one that had it before, else the first.
    """
    arrived: dict[str, Touched] = {}
    claims: dict[str, tuple[bool, bool]] = {}
    left: dict[str, Touched] = {}
    for change in changes:
        path = names.decoded(change.path)
        if path is None or not _ANYWHERE.is_item(path):
            continue
        before, after = (_known(entry, documents) for entry in (change.old, change.new))
        # A file that cannot be read as an item keeps the id that its path had, so that Git's count stays ours.
        old_id = item_id(before, slug, path) if before else None
        new_id = item_id(after, slug, path) if after else old_id or item_id(_NAMELESS, slug, path)
        if change.new is None or after is None:
            left.setdefault(new_id, (path, None, None))
        else:
            claim = ((new_id, path, change.new.sha) in published, new_id == old_id)
            if new_id not in arrived or claim > claims[new_id]:
                arrived[new_id], claims[new_id] = (path, change.new.sha, after), claim
            if old_id is not None:
                left.setdefault(old_id, (path, None, None))
    return {**left, **arrived}


def _known(entry: TreeEntry | None, documents: Mapping[str, Document | None]) -> Document | None:
    return documents.get(entry.sha) if entry is not None and entry.is_file else None


def _inherit(
    file: ItemFile,
    revisions: list[RevisionRow],
    head: CommitRow,
    numbering: _Numbering,
    base: str,
    default_status: ItemStatus,
) -> RevisionRow:
    """The revision in which a file becomes the item because a rival gave up the id: the commit that did so, or the head."""
    status = file.document.status or default_status
    given_up = [place for place, row in enumerate(revisions) if row.item_id == file.item_id]
    if given_up:
        place = given_up[-1]
        revisions[place] = replace(
            revisions[place],
            path=file.path,
            blob=file.entry.sha,
            status=status,
            content_hash=file.document.content_hash,
        )
        return revisions[place]
    row = RevisionRow(
        base=base,
        item_id=file.item_id,
        sha=head.sha,
        number=numbering.next(file.item_id),
        position=head.position,
        path=file.path,
        blob=file.entry.sha,
        status=status,
        content_hash=file.document.content_hash,
        was_published=False,
    )
    revisions.append(row)
    return row


def _item_row(file: ItemFile, revision: RevisionRow, settings: BaseSettings) -> ItemRow:
    document = file.document
    return ItemRow(
        base=revision.base,
        item_id=file.item_id,
        path=file.path,
        blob=file.entry.sha,
        revision=revision.sha,
        number=revision.number,
        declared_status=document.status,
        status=document.status or settings.default_status,
        title=title_of(document, file.path),
        description=document.description,
        tags=document.tags,
        metadata=document.metadata,
        content_hash=document.content_hash,
    )


class _Holders:
    """Which file has an id, as far as the history is read; asked when another file claims it or gives it up."""

    def __init__(self, repository: Repository, catalogue: Catalogue, base: str, slug: str) -> None:
        self._repository = repository
        self._catalogue = catalogue
        self._base = base
        self._slug = slug
        self._paths: dict[str, str | None] = {}

    def note(self, item: str, path: str) -> None:
        """The item's file is, or was last, at `path`."""
        self._paths[item] = path

    def has_other(self, sha: str, item: str, path: str, changed: Collection[bytes]) -> bool:
        """Whether in this commit a file that it leaves alone, and not the one at `path`, is the item."""
        if "/" in item:
            return False  # an id made from a path has no rival
        if item not in self._paths:
            known = self._catalogue.item(self._base, item)
            self._paths[item] = known.path if known else None
        holder = self._paths[item]
        if holder is None or holder == path or holder.encode() in changed:
            return False
        for _, kind, raw in self._repository.git.objects([f"{sha}:{holder}"]):
            try:
                return kind == "blob" and item_id(parse_document(raw), self._slug, holder) == item
            except DocumentProblem:
                return False
        return False


class _Numbering:
    """Counts, for each revision, the revisions of its item in its own history.

    While history is a line, that is one more than before. Where branches were merged, the ancestors of a commit are a
    set of positions, kept as the bits of one integer and only as long as a child may still ask for them.
    """

    def __init__(
        self,
        repository: Repository,
        catalogue: Catalogue,
        base: str,
        commits: Sequence[Commit],
        start: int,
        known_head: str | None,
    ) -> None:
        self._repository = repository
        self._catalogue = catalogue
        self._base = base
        self._start = start
        self._ancestors: dict[str, int] = {known_head: (1 << start) - 1} if known_head else {}
        self._waiting = Counter(parent for commit in commits for parent in commit.parents)
        self._positions: dict[str, list[int]] = {}
        self._here = 0
        self._position = start
        self._linear = True

    def enter(self, commit: Commit, position: int) -> None:
        """Go to the next commit, in topological order."""
        self._position = position
        history = 0
        for parent in commit.parents:
            history |= self._reached(parent)
            self._waiting[parent] -= 1
            if not self._waiting[parent]:
                del self._ancestors[parent]
        self._linear = history == (1 << position) - 1
        self._ancestors[commit.sha] = history | (1 << position)
        self._here = history

    def next(self, item: str) -> int:
        """The number of the revision that the present commit is of `item`."""
        before = self._positions.get(item)
        if before is None:
            before = self._catalogue.revision_positions(self._base, item) if self._start else []
            self._positions[item] = before
        count = len(before) if self._linear else sum(self._here >> position & 1 for position in before)
        before.append(self._position)
        return count + 1

    def _reached(self, parent: str) -> int:
        """The positions in the history of `parent`, itself included."""
        found = self._ancestors.get(parent)
        if found is None:
            # A branch that left the published one before its present head: ask Git once what lies behind it.
            found = 0
            for sha in self._repository.history(parent):
                position = self._catalogue.commit_position(self._base, sha)
                if position is not None:
                    found |= 1 << position
            self._ancestors[parent] = found
        return found
