"""What the tests of documents share: the odd worker's command, and uploads without a server."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from kbgit.access import Principal
from kbgit.documents.row import DocumentRow
from kbgit.documents.service import Arrived, Documents
from kbgit.revision import Via

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
