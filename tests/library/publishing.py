"""Changing a base's files in a test, one publication each."""

from __future__ import annotations

from collections.abc import Mapping

from kbgit.assemble import Runtime
from kbgit.base import BaseKey


def publish(runtime: Runtime, key: BaseKey, files: Mapping[str, str | None]) -> str:
    """Commit `files` (None removes one) to the base's branch and publish that. The commit's name."""
    repository = runtime.home.repository(key)
    head = repository.head()
    contents = {name: content.encode() if content is not None else None for name, content in files.items()}
    new = repository.commit_files(contents, parent=head, message="Change", author="Ada <ada@example.org>")
    repository.move_ref("refs/heads/main", new, head)
    runtime.indexer.synchronise(key)
    repository.close()
    return new
