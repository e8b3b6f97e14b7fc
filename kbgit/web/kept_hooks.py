"""The process that answers hooks while a server runs: started with it, ended with it; see `kbgit.hook_keeper`."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from kbgit.config import ENVIRONMENT_PREFIX, INHERITED, TABLE
from kbgit.home import Home

log = logging.getLogger("kbgit.hooks")

_STOP_SECONDS = 5.0
_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 60.0


@contextmanager
def kept_hooks(home: Home, environment: Mapping[str, str]) -> Iterator[None]:
    """While the context lasts, hooks of `home` find somebody who has everything loaded; unless the settings say otherwise.

    `environment` is the server's own, of which only what hooks may know is passed on. Where the process cannot be started,
    hooks work as they do without a server.
    """
    if not home.settings.keep_hooks:
        yield
        return
    passed = (*INHERITED, *(ENVIRONMENT_PREFIX + row.name.upper() for row in TABLE))
    command = [sys.executable, "-I", "-m", "kbgit.hook_keeper", str(home.path.resolve())]
    keeper = _Keeper(command, {name: environment[name] for name in passed if name in environment})
    watching = threading.Thread(target=keeper.keep, name="kbgit-hooks", daemon=True)
    keeper.start()
    watching.start()
    try:
        yield
    finally:
        keeper.stop()
        watching.join()


class _Keeper:
    """The process, started again whenever it ends before it should: after a pause, longer each time that
    it ends at once."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command = command
        self._environment = environment
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, unless it is not wanted any more."""
        with self._lock:
            if self._stopping.is_set():
                return
            try:
                self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, env=self._environment)
            except OSError as error:
                log.warning("hooks load everything each time, for now: %s", error)

    def keep(self) -> None:
        """See to it that there is one, until `stop`."""
        pause = _PAUSE_SECONDS
        while True:
            began = time.monotonic()
            if self._process is not None:
                code = self._process.wait()
                assert self._process.stdin is not None
                self._process.stdin.close()
                if not self._stopping.is_set():
                    log.warning(
                        "the process that answers hooks ended with %s; hooks work by themselves until the next", code
                    )
            pause = _PAUSE_SECONDS if time.monotonic() - began > _LONGEST_PAUSE_SECONDS else pause
            if self._stopping.wait(pause):
                return
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            self.start()

    def stop(self) -> None:
        """End it, and let `keep` start no other."""
        with self._lock:
            self._stopping.set()
            process = self._process
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()  # it ends when this does, also when nobody is left to close it
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
