"""Whether a server is ready, and what is wrong where it answers all the same.

Anybody may ask, so the reasons are from a fixed list and name nothing: which base, which model, which directory is for those
who may see them (`kbgit status`, the log).
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock

from kbgit.assemble import Runtime
from kbgit.errors import HomeProblem
from kbgit.web.errors import Starting, Stopping

_LOOK_SECONDS = 1.0


class Phase(StrEnum):
    """Where a server is in its life."""

    STARTING = "starting"
    SERVING = "serving"
    STOPPING = "stopping"


class Reason(StrEnum):
    """Why a server that answers is not well."""

    EMBEDDING = "embedding unavailable"
    LAG = "index lagging"
    ALARM = "alarm"
    DISK = "disk nearly full"
    HOOKS = "hooks changed"


@dataclass(frozen=True, slots=True)
class BaseLag:
    """A base whose index is behind: for how many seconds its published head has been waiting while this server ran."""

    key: str
    seconds: float


class Health:
    """The health of one server. `clock` gives seconds since the epoch."""

    def __init__(self, runtime: Runtime, clock: Callable[[], float] = time.time) -> None:
        self.phase = Phase.SERVING
        self._runtime = runtime
        self._clock = clock
        self._began = clock()
        self._lock = Lock()
        self._looked: float | None = None
        self._found: tuple[Reason, ...] = ()

    def require_serving(self) -> None:
        """Raises `Starting` or `Stopping` while the server is doing that."""
        if self.phase is Phase.STARTING:
            raise Starting("the server is starting")
        if self.phase is Phase.STOPPING:
            raise Stopping("the server is stopping")

    def reasons(self) -> tuple[Reason, ...]:
        """What is wrong; empty when nothing is. Looked at no more than once a second, however often anybody asks."""
        with self._lock:
            now = time.monotonic()
            if self._looked is None or now - self._looked >= _LOOK_SECONDS:
                self._found = tuple(reason for reason in Reason if self._holds(reason))
                self._looked = now
            return self._found

    def as_json(self) -> dict[str, object]:
        """JSON-ready."""
        found = [reason.value for reason in self.reasons()]
        return {"status": "degraded", "reasons": found} if found else {"status": "ok"}

    def lags(self) -> list[BaseLag]:
        """The bases whose index is behind their published head."""
        found = []
        for row in self._runtime.catalogue.bases():
            if row.head is not None and self._runtime.indexer.state(str(row.key)).head != row.head:
                # What was published while no server ran has been waiting for this one since it began.
                since = max(row.published_at or 0, self._began)
                found.append(BaseLag(str(row.key), max(0.0, self._clock() - since)))
        return found

    def disk_free_bytes(self) -> int:
        """What is left on the disk that holds the home."""
        return shutil.disk_usage(self._runtime.home.path).free

    def _holds(self, reason: Reason) -> bool:
        settings = self._runtime.home.settings
        if reason is Reason.EMBEDDING:
            return self._runtime.indexer.embedding_problem is not None
        if reason is Reason.LAG:
            return any(lag.seconds > settings.lag_max_seconds for lag in self.lags())
        if reason is Reason.ALARM:
            return any(row.alarm for row in self._runtime.catalogue.bases())
        if reason is Reason.DISK:
            return self.disk_free_bytes() < settings.disk_free_min_mb << 20
        try:
            self._runtime.home.check_hooks()
        except HomeProblem:
            return True
        return False
