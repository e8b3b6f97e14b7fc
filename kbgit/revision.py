"""Revisions: immutable snapshots of an item, and where they came from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum


class Via(StrEnum):
    """How a revision came to be published."""

    PUSH = "push"
    API = "api"
    WEB = "web"
    MCP = "mcp"
    IMPORT = "import"
    UNKNOWN = "unknown"
    """Git shows the head, but nothing recorded who moved it there."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a revision came from. Times are seconds since the epoch, UTC.

    `author` and `committer` are what the commit says of itself; `pushed_by` is the authenticated user.
    `signature` is `none`, or `unverified` where the commit carries one.
    """

    author: str
    committer: str
    pushed_by: str
    committed_at: int
    published_at: int
    message: str
    via: Via
    signature: str

    def as_json(self) -> dict[str, str]:
        """JSON-ready, times as RFC 3339."""
        return {
            "author": self.author,
            "committer": self.committer,
            "pushed_by": self.pushed_by,
            "committed_at": rfc3339(self.committed_at),
            "published_at": rfc3339(self.published_at),
            "message": self.message,
            "via": self.via.value,
            "signature": self.signature,
        }


def rfc3339(seconds: int) -> str:
    """`2026-11-30T12:00:00Z`."""
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):  # a commit may claim any date
        moment = datetime.fromtimestamp(0, UTC)
    return moment.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"  # strftime leaves zeros of a year out
