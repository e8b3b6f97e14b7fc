"""Findings: what an inspection says of a home, as values, and the table of the kinds there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """Whether somebody must do something."""

    NOTICE = "notice"
    """It is as it may be, and passes by itself."""
    FAULT = "fault"


class Mend(StrEnum):
    """What mends a finding of something derived."""

    REBUILD_BASE = "rebuild_base"
    DISCARD_CATALOGUE = "discard_catalogue"
    DISCARD_VECTOR_CACHE = "discard_vector_cache"
    INSTALL_HOOKS = "install_hooks"
    CLOSE_MODE = "close_mode"
    REMOVE = "remove"
    SWEEP_MEMORY = "sweep_memory"
    FINISH_PURGE = "finish_purge"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of finding: what it means, what mends it, and whether that loses nothing because it is derived.

    `action` is None where only people can mend it, or nobody has to.
    """

    meaning: str
    mend: str
    severity: Severity = Severity.FAULT
    action: Mend | None = None

    @property
    def derived(self) -> bool:
        """Whether what is wrong can be made anew without loss."""
        return self.action is not None or self.severity is Severity.NOTICE


_RESTORE_BASE = "restore this base from a backup, or from a clone and an export"
_ANEW = "`kbgit doctor --mend` derives it from Git anew"

KINDS: Mapping[str, Kind] = {
    # Git: the truth
    "repository_damaged": Kind("Git cannot read everything that the repository should hold.", _RESTORE_BASE),
    "repository_missing": Kind("The catalogue knows a base whose repository is not there.", _RESTORE_BASE),
    "publication_log_missing": Kind(
        "The log that keeps every published head, and says who published it, is gone.", _RESTORE_BASE
    ),
    "publication_log_broken": Kind("An entry of the publication log is not as kbgit writes it.", _RESTORE_BASE),
    "repository_replaced": Kind(
        "The repository's publication log does not know what the catalogue says was published: another repository is in"
        " its place, or an older copy.",
        "restore this base from a backup; if the repository is the right one, `kbgit reindex --full` derives all from it",
    ),
    "branch_rewritten": Kind(
        "The published branch does not contain what was published.",
        "put the branch back (the publication log has every head), or `kbgit base accept-rewrite`",
    ),
    "citation_broken": Kind("A revision does not give the bytes that its hash was taken of.", _RESTORE_BASE),
    "number_differs": Kind(
        "A revision's number is not the count of commits that Git gives.", "report this as a fault in kbgit"
    ),
    "publication_pending": Kind(
        "The branch has commits that are not published yet.",
        "nothing: a running server publishes them, as does the next command",
        Severity.NOTICE,
    ),
    # The gate
    "hooks_wrong": Kind(
        "A hook is missing, changed or not executable, so pushes would go unchecked.",
        "`kbgit doctor --mend`, or `kbgit hooks install --server`, writes it anew",
        action=Mend.INSTALL_HOOKS,
    ),
    "repository_unguarded": Kind(
        "Git runs other hooks than this home's for pushes to the base.",
        "`kbgit doctor --mend`, or `kbgit hooks install --server`, sets it right",
        action=Mend.INSTALL_HOOKS,
    ),
    # Catalogue
    "catalogue_damaged": Kind(
        "The catalogue cannot be read, or another version wrote it.", _ANEW, action=Mend.DISCARD_CATALOGUE
    ),
    "catalogue_missing": Kind(
        "There is no catalogue.", "nothing: the next start or command derives it", Severity.NOTICE
    ),
    "catalogue_differs": Kind("The catalogue says something else than Git does.", _ANEW, action=Mend.REBUILD_BASE),
    "catalogue_behind": Kind(
        "The publication log has entries that are not catalogued yet.",
        "nothing: a running server catalogues them, as does the next command",
        Severity.NOTICE,
    ),
    # Index
    "index_damaged": Kind("The index cannot be read, or is not as it was stamped.", _ANEW, action=Mend.REBUILD_BASE),
    "index_differs": Kind(
        "The index holds other passages than the published items have.", _ANEW, action=Mend.REBUILD_BASE
    ),
    "index_missing": Kind(
        "Nothing of the base is indexed.",
        "nothing: a running server indexes it; `kbgit reindex` does it now",
        Severity.NOTICE,
        Mend.REBUILD_BASE,
    ),
    "index_behind": Kind(
        "The index is at an earlier publication.",
        "nothing: a running server catches up; `kbgit reindex` does it now",
        Severity.NOTICE,
    ),
    "index_orphaned": Kind(
        "There is an index of a base that is not there.", "`kbgit doctor --mend` removes it", action=Mend.REMOVE
    ),
    "vectors_damaged": Kind("Vectors cannot be read, or are not as stamped.", _ANEW, action=Mend.REBUILD_BASE),
    "vectors_differ": Kind("Vectors in the index are others than those remembered.", _ANEW, action=Mend.REBUILD_BASE),
    "vectors_missing": Kind(
        "Passages have no vector yet, and are found by their words only.",
        "nothing: a running server embeds them; `kbgit reindex` does it now",
        Severity.NOTICE,
    ),
    "vector_cache_damaged": Kind(
        "The file of remembered vectors cannot be read, or holds what is no vector.",
        "`kbgit doctor --mend` removes it; vectors are computed again when they are needed",
        action=Mend.DISCARD_VECTOR_CACHE,
    ),
    # Accounts, memory, documents: no less the truth than Git
    "accounts_damaged": Kind(
        "The accounts cannot be read: users, members, tokens and the audit log.", "restore the home from a backup"
    ),
    "accounts_missing": Kind("There are no accounts.", "restore the home from a backup"),
    "accounts_inconsistent": Kind(
        "The accounts contradict themselves.", "set it right with `kbgit space`, or restore the home from a backup"
    ),
    "space_unknown": Kind(
        "There is a base in a space that no account is a member of.",
        "`kbgit space create` makes the space of a team; or restore the home from a backup",
    ),
    "memory_unreadable": Kind(
        "A record of memory cannot be read.", "mend the file as it says, or restore it from a backup"
    ),
    "documents_damaged": Kind(
        "The queue of documents cannot be read.", "restore it from a backup, or remove it and add the documents again"
    ),
    # Files
    "mode_open": Kind(
        "Others than the owner may read or write it.", "`kbgit doctor --mend` closes it", action=Mend.CLOSE_MODE
    ),
    "leftover": Kind(
        "A crash left it behind; nothing needs it.", "`kbgit doctor --mend` removes it", action=Mend.REMOVE
    ),
    "memory_leftover": Kind(
        "A crash left a half-written record behind.", "`kbgit doctor --mend` removes it", action=Mend.SWEEP_MEMORY
    ),
    "server_file_stale": Kind(
        "It names a server that does not answer.", "`kbgit doctor --mend` removes it", action=Mend.REMOVE
    ),
    "purge_unfinished": Kind(
        "A base was to be destroyed, and is not yet: its text is still there.",
        "`kbgit doctor --mend` finishes what was ordered, as does the next start of the server",
        action=Mend.FINISH_PURGE,
    ),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be. `where` is a path in the home; `base` the key of the base it is about."""

    code: str
    what: str
    where: str = ""
    base: str | None = None

    @property
    def kind(self) -> Kind:
        """What it means, and what mends it."""
        return KINDS[self.code]

    @property
    def is_fault(self) -> bool:
        """Whether somebody must do something."""
        return self.kind.severity is Severity.FAULT

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "code": self.code,
            "what": self.what,
            "where": self.where,
            "base": self.base,
            "severity": self.kind.severity.value,
            "derived": self.kind.derived,
            "meaning": self.kind.meaning,
            "mend": self.kind.mend,
        }
