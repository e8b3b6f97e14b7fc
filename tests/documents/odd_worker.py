"""A worker whose documents say what it does: it reads well, or misbehaves in every way that a real one could.

Run as a program, as `kbgit.documents.worker` is; the first line of a document is `<what> <argument>`.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from kbgit.documents.contract import Extracted, ExtractionFailed, ExtractionLimits, Reason
from kbgit.documents.worker import RESULT_FILE, main

_PATIENCE_SECONDS = 60.0
_PR_SET_NAME = 15


def read(suffix: str, file: Path, limits: ExtractionLimits) -> Extracted:
    """Do what the document says."""
    text = file.read_text("utf-8", "surrogateescape")
    what, _, argument = text.partition("\n")[0].partition(" ")
    if what == "fail":
        raise ExtractionFailed(Reason(argument), f"it is {argument}")
    if what == "eat":
        held = []
        while True:
            held.append(bytearray(1 << 20))
    if what == "burst":  # as native code does that finds no memory
        held = [bytearray(limits.memory - (40 << 20))]
        os.abort()
    if what == "rename":  # as what no text can hold, or as a line of its status
        ctypes.CDLL(None).prctl(_PR_SET_NAME, bytes.fromhex(argument), 0, 0, 0)
        time.sleep(0.5)  # so that it is looked at
    if what == "spin":
        while True:
            pass
    if what == "sleep":
        time.sleep(_PATIENCE_SECONDS)
    if what == "write":
        Path("much").write_bytes(b"x" * int(argument))
    if what == "litter":  # each file is small enough, all of them are not
        for number in range(10_000):
            Path(str(number)).write_bytes(b"x" * 100_000)
    if what == "scatter":  # files without a byte, but a great many
        for number in range(100_000):
            Path(str(number)).touch()
        time.sleep(_PATIENCE_SECONDS)
    if what == "fork":
        Path(argument).write_text(str(subprocess.Popen(["sleep", str(_PATIENCE_SECONDS)]).pid))
    if what == "exit":
        os._exit(int(argument))
    if what == "signal":
        os.kill(os.getpid(), getattr(signal, argument))
    if what == "once" and not Path(argument).exists():  # dies at the first attempt
        Path(argument).write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "raise":
        raise ValueError(f"secret words of the document: {argument}")
    if what == "nest":
        return read_nested(suffix)
    if what == "answer":  # says something that the contract does not know, past `main`
        Path(RESULT_FILE).write_text(argument)
        os._exit(0)
    if what == "link":
        os.symlink(argument, RESULT_FILE)
        os._exit(0)
    if what == "pipe":
        os.mkfifo(RESULT_FILE)
        os._exit(0)
    if what == "hold":  # until somebody makes the file
        Path(f"{argument}.begun").write_text(str(os.getpid()))
        give_up = time.monotonic() + _PATIENCE_SECONDS
        while not Path(argument).exists() and time.monotonic() < give_up:
            time.sleep(0.005)
    if what == "long":
        return Extracted("x" * int(argument))
    if what == "look":  # what a worker finds around it
        found = {"environment": dict(os.environ), "directory": os.getcwd(), "session": os.getsid(0) == os.getpid()}
        share = Path("/proc/self/autogroup")
        found |= {"share": share.read_text() if share.exists() else ""}
        found |= {"nice": os.nice(0), "arguments": sys.argv, "input": sys.stdin.read(), "file": file.name}
        return Extracted(json.dumps(found))
    return Extracted(
        f"# {argument or 'Heron'}\n\n{text}\n", title=argument or None, notes=("One picture is left out.",)
    )


def read_nested(suffix: str) -> Extracted:
    """Recursion without end."""
    return read_nested(suffix)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], read))
