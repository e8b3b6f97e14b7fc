"""The process that reads one document, and nothing else: `python -I -m kbgit.documents.worker <job.json>`.

It limits itself before it loads the library of an extractor or opens the document, writes what it made as `result.json`
beside the job, and ends. Its parent (`kbgit.documents.child`) trusts nothing that it says. It imports little, because one
starts for each document.
"""

from __future__ import annotations

import ctypes
import errno
import json
import math
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from kbgit.documents.contract import Extracted, ExtractionFailed, ExtractionLimits, Reason
from kbgit.documents.extraction.kinds import KINDS, extract

RESULT_FILE = "result.json"
JOB_FILE = "job.json"
LEAST_MEMORY = 192 << 20
"""Below this not even the interpreter and the libraries have room."""
_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_SLACK_BYTES = 64 << 10
_NICENESS = 15
_FILES = 64
_CPU_GRACE_SECONDS = 2
STATUS = "/proc/{}/status"
"""Where the kernel tells how much memory a process has and which signals it holds back, for its number or `self`."""
FAULTS = (signal.SIGABRT, signal.SIGBUS, signal.SIGSEGV)
"""What ends native code that is given no memory, among other things."""
Extract = Callable[[str, Path, ExtractionLimits], Extracted]
"""Reads a document whose name ends in the suffix."""


def job_text(file: Path, suffix: str, limits: ExtractionLimits) -> str:
    """What a worker is told: the document, the suffix that says its kind, the limits, whose child it is."""
    return json.dumps({"file": str(file), "suffix": suffix, "limits": asdict(limits), "parent": os.getpid()})


def result_bytes(limits: ExtractionLimits) -> int:
    """The largest result file: text that JSON has to escape is up to twice as long."""
    return 2 * limits.output + _SLACK_BYTES


def by_suffix(suffix: str, file: Path, limits: ExtractionLimits) -> Extracted:
    """What the extractor of this kind makes of a file. Its library is loaded now, within the limits."""
    return extract(KINDS[suffix], file, limits)


def main(arguments: list[str], read: Extract = by_suffix) -> int:
    """Do one job; gives the exit code."""
    job_file = Path(arguments[0])
    job = json.loads(job_file.read_text("utf-8"))
    limits = ExtractionLimits(**job["limits"])
    die_with(job["parent"])
    stay_at_a_fault()
    restrict(limits)
    answer = outcome(partial(read, job["suffix"], Path(job["file"])), limits)
    try:
        job_file.with_name(RESULT_FILE).write_text(json.dumps(answer, ensure_ascii=False), "utf-8", "replace")
    except (MemoryError, OSError) as error:
        answer = failure(*_explained(error, limits))
        job_file.with_name(RESULT_FILE).write_text(json.dumps(answer), "utf-8")
    return 0


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, however that happens."""
    try:
        prctl = ctypes.CDLL(None, use_errno=True).prctl
    except AttributeError:  # only Linux has it; elsewhere the wall clock and a start's tidying do without
        return
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if os.getppid() != parent:  # it ended before it could be watched
        os._exit(1)


def stay_at_a_fault() -> None:
    """Have a fault in native code stop this process, not end it: its parent sees how much memory it had, and ends it.

    Of a process that has ended nobody can tell. The handler is the C library's `pause`, which needs no memory; while it
    runs, the kernel holds the signal back, and says so in the process's status.
    """
    if not os.path.exists(STATUS.format("self")):
        return
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
    libc.signal.restype = ctypes.c_void_p
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FAULTS)
    for fault in FAULTS:
        libc.signal(fault, ctypes.cast(libc.pause, ctypes.c_void_p))


def restrict(limits: ExtractionLimits) -> None:
    """Take from this process, for good, what extraction does not need."""
    seconds = math.ceil(limits.seconds) + _CPU_GRACE_SECONDS
    for what, most in (
        (resource.RLIMIT_AS, max(limits.memory, LEAST_MEMORY)),
        (resource.RLIMIT_FSIZE, result_bytes(limits)),
        (resource.RLIMIT_NOFILE, _FILES),
        (resource.RLIMIT_NPROC, 0),  # binds everybody but root, whose children end with the process group
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(what)
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (allowed, allowed))
    # At the soft limit comes a signal that says what was met, at the hard one SIGKILL, which says nothing.
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    if hard == resource.RLIM_INFINITY or hard > seconds + _CPU_GRACE_SECONDS:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + _CPU_GRACE_SECONDS))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit is then an error that can be told
    os.nice(_NICENESS)
    for name, value in (
        ("autogroup", _NICENESS),  # where sessions share the processors, niceness counts only within one
        ("oom_score_adj", 1000),  # if memory runs out all the same, the server does not end
    ):
        with suppress(OSError):  # where there is no such file, or it cannot be written to
            Path("/proc/self", name).write_text(str(value))


def outcome(read: Callable[[ExtractionLimits], Extracted], limits: ExtractionLimits) -> dict[str, Any]:
    """What to answer. Whatever the extractor raises is told without a word of the document."""
    try:
        found = read(limits)
        if len(found.markdown.encode("utf-8", "replace")) > limits.output:
            raise ExtractionFailed(Reason.TOO_LARGE, f"its text is longer than {limits.output} bytes")
        return {"markdown": found.markdown, "title": found.title, "notes": list(found.notes)}
    except ExtractionFailed as error:
        return failure(error.reason, error.detail)
    except (MemoryError, RecursionError, OSError) as error:
        return failure(*_explained(error, limits))
    except Exception as error:  # noqa: BLE001 - a fault of the extractor's, told to whoever mends it
        places = traceback.extract_tb(error.__traceback__)
        where = f"{Path(places[-1].filename).name}:{places[-1].lineno}" if places else "unknown"
        return {**failure(Reason.CRASHED, "it could not be read"), "fault": f"{type(error).__name__} at {where}"}


def failure(reason: Reason, detail: str) -> dict[str, Any]:
    """An answer that says why there is no text."""
    return {"reason": reason.value, "detail": detail}


def _explained(error: BaseException, limits: ExtractionLimits) -> tuple[Reason, str]:
    if isinstance(error, MemoryError):
        return Reason.TOO_LARGE, f"reading it needs more than {limits.memory >> 20} MiB of memory"
    if isinstance(error, RecursionError):
        return Reason.TOO_LARGE, "it is nested too deeply"
    if isinstance(error, OSError) and error.errno == errno.EFBIG:
        return Reason.TOO_LARGE, f"its text is longer than {limits.output} bytes"
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return Reason.TOO_LARGE, f"reading it needs more than {limits.memory >> 20} MiB of memory"
    return Reason.CRASHED, f"it could not be read ({type(error).__name__})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
