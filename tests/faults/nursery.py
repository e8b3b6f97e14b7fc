"""Server processes in no time: a parent that has imported everything forks one for each request.

The parent is `tests.faults.newborn`.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

_SETTINGS: dict[str, object] = {"port": 0, "embedder": "hashing", "sweep_seconds": 0.5, "log_level": "warning"}
START_SECONDS = 60.0


class Child:
    """A process that a nursery forked. Dies with `kill`, or by itself."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._handle = os.pidfd_open(pid)

    def has_ended(self, seconds: float = 0.0) -> bool:
        """Whether it ended, waiting for that for at most `seconds`."""
        return bool(select.select([self._handle], [], [], seconds)[0])

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send it a signal and, if that ends it, wait for the end."""
        if not self.has_ended():
            signal.pidfd_send_signal(self._handle, number)
            assert self.has_ended(START_SECONDS), "a process outlived its signal"

    def close(self) -> None:
        os.close(self._handle)


class Nursery:
    """The parent process, from outside."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.newborn"],
            cwd=Path(__file__).absolute().parents[2],
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def child(self, home: Path, what: str, control: Path, **settings: object) -> Child:
        """Fork: `what` is `serve`, `serve apart` or `reindex`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"home": str(home), "what": what, "control": str(control), "settings": _SETTINGS | settings}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return Child(int(self._process.stdout.readline()))

    def close(self) -> None:
        self._process.communicate()


def url_of(home: Path, child: Child) -> str | None:
    """Where the server answers, as soon as it does; None if it ended instead."""
    give_up = time.monotonic() + START_SECONDS
    while not child.has_ended(0.004):
        try:
            told = json.loads((home / "server.json").read_text())
        except FileNotFoundError:
            told = {}
        if told.get("pid") == child.pid:
            return str(told["url"])
        assert time.monotonic() < give_up, "the server does not start"
    return None
