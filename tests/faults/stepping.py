"""SIGKILL at the n-th line that a process runs in the modules of a step.

The process is told through a small file that it maps: which step is watched, at which line to die, and how many lines
have been seen. So a driver can arm it at any moment, and the product knows nothing of it. Only the standard library is
imported here: hooks run isolated, and load this file by its path.

    python -I tests/faults/stepping.py CONTROL -I -m kbgit.hook pre-receive HOME     in place of the hooks' interpreter
"""

from __future__ import annotations

import mmap
import os
import signal
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

# Step → names of the files whose lines count, each with the directory it is in.
WATCHED: dict[str, frozenset[str]] = {
    "none": frozenset(),
    "pre-receive": frozenset({"kbgit/hook.py", "kbgit/publish.py", "kbgit/admission.py", "kbgit/catalogue.py"}),
    "post-receive": frozenset(
        {"kbgit/hook.py", "kbgit/publish.py", "kbgit/history.py", "kbgit/catalogue.py", "kbgit/sqlite.py"}
    ),
    "api write": frozenset({"library/writing.py", "kbgit/publish.py", "kbgit/catalogue.py", "store/repository.py"}),
    "catalogue": frozenset({"kbgit/publish.py", "kbgit/history.py", "kbgit/catalogue.py", "kbgit/sqlite.py"}),
    "index": frozenset({"index/lexical.py", "index/stamp.py", "index/generation.py", "whoosh/writing.py"}),
    "embedding": frozenset({"kbgit/indexer.py", "index/vectors.py", "index/stamp.py", "embedding/cache.py"}),
    "swap": frozenset(
        {"kbgit/rebuilding.py", "kbgit/publish.py", "kbgit/sqlite.py", "index/embedded.py", "index/generation.py",
         "index/stamp.py"}
    ),
    "purge": frozenset(
        {"library/bases.py", "index/embedded.py", "index/vectors.py", "kbgit/catalogue.py", "kbgit/sqlite.py",
         "embedding/cache.py", "lib/shutil.py"}
    ),
    "memory": frozenset({"memory/store.py", "memory/files.py", "memory/search.py", "embedding/cache.py"}),
    "start": frozenset(
        {"kbgit/assemble.py", "kbgit/home.py", "kbgit/sqlite.py", "index/embedded.py", "index/generation.py",
         "index/vectors.py", "kbgit/indexer.py", "kbgit/publish.py"}
    ),
}  # fmt: skip
STEPS = tuple(WATCHED)
_HOOKS = ("pre-receive", "post-receive")
_LAYOUT = struct.Struct("<5Q")


class Control:
    """The mapped file: step, line to die at (0: none), lines seen, whether the server dies too, the server's process."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_LAYOUT.size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _LAYOUT.size)
        self.cells = memoryview(self._map).cast("Q")

    def arm(self, step: str, last: int, *, with_server: bool = False) -> None:
        """Count the lines of `step` from now on, and end the process that runs the `last` of them."""
        self.cells[0] = 0
        self.cells[1], self.cells[2], self.cells[3] = last, 0, int(with_server)
        self.cells[0] = STEPS.index(step)

    def disarm(self) -> int:
        """Stop counting; how many lines there were."""
        self.cells[0] = 0
        return int(self.cells[2])


def step_through(control: Control, only: str | None = None) -> None:
    """Trace this process and its threads from now on. `only`: the one step that this process can be killed in."""
    by_file: dict[str, frozenset[int]] = {}
    cells = control.cells
    usable = {number for number, step in enumerate(STEPS) if (step == only if only else step not in _HOOKS)}

    def steps_of(name: str) -> frozenset[int]:
        short = "/".join(name.rsplit("/", 2)[-2:])
        if short.endswith("shutil.py"):
            short = "lib/shutil.py"
        return frozenset(number for number in usable if short in WATCHED[STEPS[number]])

    def on_call(frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:  # noqa: ANN401
        name = frame.f_code.co_filename
        steps = by_file.get(name)
        if steps is None:
            steps = by_file[name] = steps_of(name)
        return on_line if steps else None

    def on_line(frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:  # noqa: ANN401
        if event == "line" and cells[0] in by_file[frame.f_code.co_filename]:
            cells[2] += 1
            if cells[2] == cells[1]:
                _die(cells)
        return on_line

    threading.settrace(on_call)
    sys.settrace(on_call)


def _die(cells: memoryview) -> None:
    server = int(cells[4])
    if cells[3] and server and server != os.getpid():
        # As if the machine had stopped: the server, and the Git that waits for this hook, in the same moment.
        for pid in (server, os.getppid()):
            os.kill(pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> int:
    """Run a hook under the tracer if it is the one to die in, and else as Git would, from Python's own arguments."""
    control_file, *arguments = sys.argv[1:]
    name, home = arguments[-2:]
    control = Control(Path(control_file))
    if STEPS[control.cells[0]] != name:
        os.execv(sys.executable, [sys.executable, *arguments])
    from kbgit import hook

    step_through(control, only=name)
    code = hook.main([name, home])
    sys.settrace(None)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
