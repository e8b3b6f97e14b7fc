"""Deriving catalogue and index in this process. Importing this brings the index's and the models' libraries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kbgit.base import BaseKey
from kbgit.cli import terminal
from kbgit.cli.in_process import HomeClient, open_home
from kbgit.errors import KbgitError
from kbgit.home import Home
from kbgit.publish import rebuild


def bring_to_head(home: Home, api_key: str | None, keys: Sequence[BaseKey], *, full: bool) -> list[dict[str, Any]]:
    """Bring bases to their heads, vectors included; `full` derives everything anew. One bad base stops no other.

    Returns a row for each: base, head, passages, vectors, done, problem (None where there is none).
    """
    problems: dict[BaseKey, str] = {}
    with open_home(home, api_key) as client:
        for key in keys:
            try:
                if full:
                    _forget(client, key)
                client.runtime.indexer.synchronise(key)
            except KbgitError as error:
                problems[key] = error.message
        client.embed()
        return [_row(client, key, problems.get(key)) for key in keys]


def _forget(client: HomeClient, key: BaseKey) -> None:
    """Derive the base's rows anew, and drop its index; vectors by text stay in their cache."""
    runtime = client.runtime
    progress = terminal.ProgressLine()
    runtime.catalogue.add_base(key)
    base = runtime.catalogue.base(str(key))
    rebuild(runtime.indexer.repository(key), runtime.catalogue, base, runtime.home.limits, progress.tell)
    progress.wipe()
    runtime.index.drop(str(key))


def _row(client: HomeClient, key: BaseKey, problem: str | None) -> dict[str, Any]:
    state = client.runtime.index.state(str(key))
    is_embedded = client.runtime.embedder is None or state.vectors == state.passages
    return {
        "base": str(key),
        "head": state.head,
        "passages": state.passages,
        "vectors": state.vectors,
        "done": problem is None and is_embedded,
        "problem": problem or (None if is_embedded else client.runtime.indexer.embedding_problem),
    }
