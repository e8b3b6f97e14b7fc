"""What the tests of documents share: the odd worker's command, and uploads without a server."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from kbgit.access import Principal
from kbgit.assemble import Runtime
from kbgit.base import BaseKey
from kbgit.documents.row import DocumentRow
from kbgit.documents.service import Arrived, Documents
from kbgit.revision import Via

KEY = BaseKey("team:platform", "runbooks")
WORKER = (sys.executable, "-I", str(Path(__file__).with_name("odd_worker.py")))


def upload(
    documents: Documents,
    caller: Principal,
    content: str | bytes,
    *,
    base: str = "team:platform/runbooks",
    name: str = "heron.pdf",
    folder: str = "",
    replace: bool = False,
) -> DocumentRow:
    """A document, taken in."""
    raw = content.encode() if isinstance(content, str) else content
    wish = documents.admit(base, caller, name=name, folder=folder, replace=replace, size=len(raw))
    path = documents.new_incoming()
    try:
        path.write_bytes(raw)
        return documents.accept(wish, caller, Arrived(path, len(raw), hashlib.sha256(raw).hexdigest()), Via.API)
    finally:
        path.unlink(missing_ok=True)


def commits(runtime: Runtime) -> int:
    """How many commits the published branch has."""
    repository = runtime.home.repository(KEY)
    head = repository.head()
    return len(repository.history(head)) if head else 0


def file_of(runtime: Runtime, locator: str) -> bytes:
    """An item's file, as the branch has it."""
    repository = runtime.home.repository(KEY)
    found = list(repository.git.objects([f"{repository.head()}:{locator}"]))
    assert found[0][1] == "blob", locator
    return found[0][2]


def left_behind(runtime: Runtime) -> list[str]:
    """Files of uploads, originals and workers."""
    directory = runtime.home.path / "documents"
    return [str(path) for part in ("incoming", "originals", "work") for path in (directory / part).rglob("*")]
