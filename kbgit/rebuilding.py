"""Deriving a base anew while it goes on answering, and how the operator orders that of a running server.

Rows are derived in a catalogue of their own and take the place of the old ones in one transaction. Orders are files below
the home, which whoever holds the directory may write: the owner of the index obeys them.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path

from kbgit.admission import Limits
from kbgit.base import BaseKey
from kbgit.catalogue import Catalogue
from kbgit.errors import HistoryRewritten, KbgitError, TimedOut
from kbgit.publish import base_lock, logged_head, replay
from kbgit.store import Repository

SCRATCH = ".rebuilding-"
"""Begins the name of a directory in the home that is there only while something is derived; its maker's number follows."""
_ATTEMPTS = 20

log = logging.getLogger(__name__)


def scratch_prefix() -> str:
    """How the name of a scratch directory of this process begins."""
    return f"{SCRATCH}{os.getpid()}-"


def rebuild_beside(repository: Repository, catalogue: Catalogue, key: BaseKey, home: Path, limits: Limits) -> None:
    """Derive a base's rows from its publication log anew; readers see the old ones until all of the new are there.

    Raises `GitFailure`, `TimedOut`, and `HistoryRewritten` where the log is gone: then nothing can say what was published.
    """
    before = catalogue.base(str(key))
    if before.head is not None and logged_head(repository) is None:
        raise HistoryRewritten(
            f"{key}: the publication log is gone; restore the repository from a backup", {"base": str(key)}
        )
    with tempfile.TemporaryDirectory(prefix=scratch_prefix(), dir=home) as scratch:
        path = Path(scratch) / "catalogue.sqlite"
        fresh = Catalogue(path)
        try:
            fresh.add_base(key)
            for _ in range(_ATTEMPTS):
                # Asked before the log is read, so that the fresh rows are not behind it.
                entry = catalogue.base(str(key)).entry
                replay(repository, fresh, fresh.base(str(key)), limits)
                with base_lock(repository):  # so that nobody is about to apply an entry to the rows that go
                    if catalogue.adopt(str(key), path, entry):
                        return
        finally:
            fresh.close()
    raise TimedOut(f"{key}: it is published faster than it can be derived anew", {"base": str(key)})


class RebuildOrders:
    """Orders to derive bases anew, given to the process that owns the index of a home."""

    def __init__(self, home: Path) -> None:
        self._directory = home / "orders"

    def place(self, key: BaseKey) -> str:
        """Order that a base be derived anew. Returns what `answer` knows the order by."""
        self._directory.mkdir(mode=0o700, exist_ok=True)
        name = secrets.token_hex(8)
        self._write(f"{name}.order", {"base": str(key)})
        return name

    def answer(self, order: str) -> str | None:
        """None while the order is not carried out; then what went wrong, empty for nothing. It is asked once."""
        done = self._directory / f"{order}.done"
        try:
            told = json.loads(done.read_text("utf-8"))
        except FileNotFoundError:
            return None
        done.unlink(missing_ok=True)
        return str(told["problem"])

    def obey(self, rebuild: Callable[[BaseKey], None]) -> None:
        """Carry out what is ordered. What fails is told to whoever ordered it, and stops no other order."""
        for path in sorted(self._directory.glob("*.order")):
            problem = ""
            try:
                key = BaseKey.parse(str(json.loads(path.read_text("utf-8"))["base"]))
                log.info("base %s is derived anew, as the operator ordered", key)
                rebuild(key)
            except KbgitError as error:
                problem = error.message
            except (ValueError, KeyError, TypeError) as error:
                problem = f"the order cannot be read: {error}"
            except (OSError, sqlite3.Error) as error:  # a full disk, say: to try again at every sweep would not mend it
                problem = f"the system refused: {error}"
            if problem:
                log.error("an order to derive a base anew failed: %s", problem)
            self._write(f"{path.stem}.done", {"problem": problem})
            path.unlink(missing_ok=True)

    def _write(self, name: str, content: dict[str, str]) -> None:
        draft = self._directory / f".{name}"
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(content, file)
        draft.rename(self._directory / name)
