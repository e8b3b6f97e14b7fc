"""The process that answers hooks while a server runs: started with it, ended with it; see `kbgit.hook_keeper`."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kbgit.config import ENVIRONMENT_PREFIX, TABLE
from kbgit.home import Home

log = logging.getLogger("kbgit.hooks")

_INHERITED = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "TZ")
_STOP_SECONDS = 5.0


@contextmanager
def kept_hooks(home: Home, environment: Mapping[str, str]) -> Iterator[None]:
    """While the context lasts, hooks of `home` find somebody who has everything loaded; unless the settings say otherwise.

    `environment` is the server's own, of which only what hooks may know is passed on. Where the process cannot be started,
    hooks work as they do without a server.
    """
    if not home.settings.keep_hooks:
        yield
        return
    passed = (*_INHERITED, *(ENVIRONMENT_PREFIX + row.name.upper() for row in TABLE))
    command = [sys.executable, "-I", "-m", "kbgit.hook_keeper", str(home.path.resolve())]
    try:
        keeper = subprocess.Popen(
            command, stdin=subprocess.PIPE, env={name: environment[name] for name in passed if name in environment}
        )
    except OSError as error:
        log.warning("hooks will load everything each time: %s", error)
        yield
        return
    try:
        yield
    finally:
        assert keeper.stdin is not None
        keeper.stdin.close()  # it ends when this does, also when nobody is left to close it
        try:
            keeper.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            keeper.kill()
            keeper.wait()
