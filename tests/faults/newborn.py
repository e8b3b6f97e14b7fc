"""The parent of the servers that are killed: reads one order a line, forks, and answers with the child's process id.

python -m tests.faults.newborn
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import chromadb.api.rust

from kbgit.assemble import open_runtime
from kbgit.home import Home
from kbgit.store import litter
from kbgit.web.server import serve
from tests.faults.stepping import Control, step_through

assert chromadb.api.rust  # imported for the children


def main() -> None:
    """Fork for every order until there are no more."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _live(json.loads(line))
        print(pid, flush=True)


def _live(order: Mapping[str, Any]) -> None:
    """What a child does, from its birth to its end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    path = Path(order["home"])
    log = os.open(path.parent / "server.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream, target in ((0, os.open(os.devnull, os.O_RDONLY)), (1, log), (2, log)):
        os.dup2(target, stream)
    control = Control(Path(order["control"]))
    control.cells[4] = os.getpid()
    litter.LOCK_SECONDS = 0.3  # so that nobody waits a minute for what is removed after one
    code = 1
    try:
        step_through(control)
        home = Home.at(path, order["settings"])
        work: dict[str, Callable[[Home], None]] = {
            "serve": _serve,
            "serve apart": partial(_serve, apart=True),
            "reindex": _reindex,
        }
        work[order["what"]](home)
        code = 0
    except BaseException as error:  # noqa: BLE001 - a forked child must not go on where its parent was
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        sys.settrace(None)
        os._exit(code)


def _serve(home: Home, *, apart: bool = False) -> None:
    serve(open_runtime(home, apart=os.environ if apart else None), os.environ, lambda line: print(line, flush=True))


def _reindex(home: Home) -> None:
    """Build catalogue and index anew; the old ones answer until the new ones are complete."""
    runtime = open_runtime(home)
    for key in home.base_keys():
        runtime.indexer.rebuild(key)
    while runtime.indexer.embed_some():
        pass
    runtime.stop()


if __name__ == "__main__":
    main()
