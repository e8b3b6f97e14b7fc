"""What belongs to one running server beside the home it serves: its health and its metrics."""

from __future__ import annotations

from dataclasses import dataclass

from kbgit.assemble import Runtime
from kbgit.web.health import Health
from kbgit.web.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Operating:
    """One server's."""

    health: Health
    metrics: Metrics

    @classmethod
    def of(cls, runtime: Runtime) -> Operating:
        """Those of a server of `runtime`."""
        health = Health(runtime)
        return cls(health, Metrics(runtime, health))
