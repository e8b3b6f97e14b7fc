"""Memory: what agents and people remember about a project, beside the bases and independent of them."""

from kbgit.memory.answers import ProjectView, RecordPage
from kbgit.memory.export import MemoryExport
from kbgit.memory.recall import Recall, RecallAnswer, RecallRequest
from kbgit.memory.records import (
    MemoryKind,
    MemoryLimits,
    MemoryProblem,
    MemoryRecord,
    NewRecord,
    ProjectKey,
)
from kbgit.memory.search import MemoryHit, MemoryHits, MemorySearch
from kbgit.memory.store import MemoryStore

__all__ = [
    "MemoryExport",
    "MemoryHit",
    "MemoryHits",
    "MemoryKind",
    "MemoryLimits",
    "MemoryProblem",
    "MemoryRecord",
    "MemorySearch",
    "MemoryStore",
    "NewRecord",
    "ProjectKey",
    "ProjectView",
    "Recall",
    "RecallAnswer",
    "RecallRequest",
    "RecordPage",
]
