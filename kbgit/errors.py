"""Every error kbgit raises on purpose, in one tree.

    KbgitError
    ├── InvalidRequest            invalid_request        400  the caller's input cannot be understood
    │   ├── InvalidCitation       invalid_citation       400
    │   ├── InvalidName           invalid_name           400  of a base, space or user
    │   └── InvalidSetting        invalid_setting        400  in kbgit.yaml or the environment
    ├── Unauthenticated           unauthenticated        401  no token, or one that is not (or no longer) valid
    ├── Forbidden                 forbidden              403  a valid caller without the right
    ├── NotFound                  not_found              404  not there, or not the caller's to know about
    │   ├── BaseNotFound          base_not_found         404
    │   ├── ItemNotFound          item_not_found         404
    │   ├── RevisionNotFound      revision_not_found     404
    │   └── SpaceNotFound         space_not_found        404
    ├── Conflict                  conflict               409
    │   ├── AlreadyExists         already_exists         409
    │   ├── AmbiguousItem         ambiguous_item         409  one id in several bases that the caller may see
    │   ├── StaleRevision         stale_revision         409  the item changed since the revision that was expected
    │   ├── BaseArchived          base_archived          409
    │   └── ItemNotPublished      item_not_published     409  draft or archived, asked for without a pin
    ├── ItemDeleted               item_deleted           410  its file was removed; pinned citations still resolve
    ├── TooLarge                  too_large              413
    ├── DocumentProblem           document_problem       422  a file that cannot be an item; carries line and mend
    ├── UnsupportedFile           unsupported_file       422  a file of a kind that cannot become an item
    ├── PushRefused               push_refused           422  admission found problems; carries all of them
    ├── TimedOut                  timed_out              504  a wait that was given a limit
    ├── KnowledgeRuntimeDisabled  knowledge_runtime_disabled 503
    ├── QueueFull                 queue_full             503  too many documents wait already
    ├── StorageFull               storage_full           507  the disk has no room for what was sent
    ├── HomeProblem               home_problem           500  the data directory is not what it should be
    │   ├── HomeLocked            home_locked            503  another process owns the index
    │   └── StoreTooNew           store_too_new          500  a later kbgit wrote it
    ├── BackupDamaged             backup_damaged         500  a backup is not as it was written; `details.file` says where
    ├── GitFailure                git_failure            500  Git said no, or said something unreadable
    ├── HistoryRewritten          history_rewritten      500  a published branch was moved behind kbgit's back
    ├── IndexFailure              index_failure          500  a derived store failed
    │   ├── IndexDamaged          index_damaged          500  it must be rebuilt, and will be
    │   └── WriterEnded           writer_ended           500  the process that writes it ended; another is asked
    └── EmbeddingFailure          embedding_failure      503  the embedder cannot be used; lexical search still can
        └── EmbedderUnavailable   embedder_unavailable   503  whatever the text had been

`code` is stable: programs may match on it. `message` is for people and names the way out where there is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class KbgitError(Exception):
    """Root of the tree.

    `code` is the stable identifier, `http_status` what a web surface answers with, `details` a JSON-ready
    mapping for programs.
    """

    code: ClassVar[str] = "internal_error"
    http_status: ClassVar[int] = 500

    def __init__(self, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Any] = dict(details or {})

    def as_json(self) -> dict[str, Any]:
        """The one error shape of every surface: `{"error": {"code", "message", "details"}}`."""
        return {"error": {"code": self.code, "message": self.message, "details": self.details}}


class InvalidRequest(KbgitError):
    """The caller's input cannot be understood."""

    code = "invalid_request"
    http_status = 400


class InvalidCitation(InvalidRequest):
    """A text that is no `knowledge:<item-id>@<40 hex>` citation."""

    code = "invalid_citation"


class InvalidName(InvalidRequest):
    """A name of a base, space or user with forbidden characters."""

    code = "invalid_name"


class InvalidSetting(InvalidRequest):
    """A setting that does not exist or has a value of the wrong kind."""

    code = "invalid_setting"


class Unauthenticated(KbgitError):
    """No token, or one that is not, or no longer, valid."""

    code = "unauthenticated"
    http_status = 401


class Forbidden(KbgitError):
    """A valid caller without the right; `details.rule` names the rule that decided."""

    code = "forbidden"
    http_status = 403


class NotFound(KbgitError):
    """Not there, or not the caller's to know about: the two cannot be told apart."""

    code = "not_found"
    http_status = 404


class BaseNotFound(NotFound):
    """No such base among those the caller may see."""

    code = "base_not_found"


class ItemNotFound(NotFound):
    """No such item among those the caller may see."""

    code = "item_not_found"


class RevisionNotFound(NotFound):
    """The SHA is not a revision of that item."""

    code = "revision_not_found"


class SpaceNotFound(NotFound):
    """No such space among those the caller may see."""

    code = "space_not_found"


class Conflict(KbgitError):
    """The request fits, but not to the present state."""

    code = "conflict"
    http_status = 409


class AlreadyExists(Conflict):
    """Something by that name is there already."""

    code = "already_exists"


class AmbiguousItem(Conflict):
    """One id in several bases that the caller may see; `details.bases` names them."""

    code = "ambiguous_item"


class StaleRevision(Conflict):
    """The item changed since `details.expected`; `details.diff` says how, and nothing was written."""

    code = "stale_revision"


class BaseArchived(Conflict):
    """The base is archived: search and unpinned reads are suspended, pinned citations still resolve."""

    code = "base_archived"


class ItemNotPublished(Conflict):
    """The item is a draft or archived; only a pinned read can answer."""

    code = "item_not_published"


class ItemDeleted(KbgitError):
    """The item's file was removed; pinned citations still resolve."""

    code = "item_deleted"
    http_status = 410


class TooLarge(KbgitError):
    """Over a limit; `details.limit` gives it."""

    code = "too_large"
    http_status = 413


class DocumentProblem(KbgitError):
    """A file that cannot be an item: what is wrong, on which line, and how to mend it."""

    code = "document_problem"
    http_status = 422

    def __init__(self, what: str, *, line: int = 1, column: int | None = None, mend: str = "") -> None:
        super().__init__(f"{what}{', ' if mend else ''}{mend}", {"line": line, "column": column, "mend": mend})
        self.what = what
        self.line = line
        self.column = column
        self.mend = mend


class UnsupportedFile(KbgitError):
    """A file that cannot become an item: of an unknown kind, or no text where text was expected."""

    code = "unsupported_file"
    http_status = 422


class PushRefused(KbgitError):
    """Admission refused a proposed tree; `details.problems` lists every problem."""

    code = "push_refused"
    http_status = 422


class TimedOut(KbgitError):
    """A wait reached its limit before what it waited for happened."""

    code = "timed_out"
    http_status = 504


class KnowledgeRuntimeDisabled(KbgitError):
    """The knowledge runtime is off or not configured."""

    code = "knowledge_runtime_disabled"
    http_status = 503


class QueueFull(KbgitError):
    """So many documents wait to be extracted that no more are taken in; the same upload may succeed later."""

    code = "queue_full"
    http_status = 503


class StorageFull(KbgitError):
    """The disk has no room for what was sent: its operator has to make some."""

    code = "storage_full"
    http_status = 507


class HomeProblem(KbgitError):
    """The data directory is not what it should be; the message says what to do."""

    code = "home_problem"


class HomeLocked(HomeProblem):
    """Another live process owns this home's index."""

    code = "home_locked"
    http_status = 503


class StoreTooNew(HomeProblem):
    """Accounts or memory were written by a later kbgit, in a form that this one does not know; nothing was touched."""

    code = "store_too_new"


class BackupDamaged(KbgitError):
    """A backup is not as it was written; `details.file` names what is damaged, missing or too much."""

    code = "backup_damaged"


class GitFailure(KbgitError):
    """A Git command failed or answered something unreadable."""

    code = "git_failure"


class HistoryRewritten(KbgitError):
    """A published branch no longer contains what was published: kept as it was, until an operator decides."""

    code = "history_rewritten"


class IndexFailure(KbgitError):
    """A derived store failed."""

    code = "index_failure"


class IndexDamaged(IndexFailure):
    """A derived store cannot be read and must be rebuilt from Git."""

    code = "index_damaged"


class WriterEnded(IndexFailure):
    """The process that writes the index ended before it was done; what was there is whole, and another is started."""

    code = "writer_ended"


class EmbeddingFailure(KbgitError):
    """The embedder cannot be used now; lexical search still can."""

    code = "embedding_failure"
    http_status = 503


class EmbedderUnavailable(EmbeddingFailure):
    """Whatever the text had been: nobody answers, or nobody who would do it for us now."""

    code = "embedder_unavailable"
