"""Running one worker: a process of its own for each document, with limits from inside and a wall clock from outside.

A worker reads what strangers made, so it is held to be able to do anything. It gets a session, a directory and an environment
of its own and nothing else; what it answers is read as any other untrusted input; and its whole process group is killed
before it is waited for, so that nothing it started stays and no other process can be met by its number.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbgit.documents.contract import Extracted, ExtractionLimits, Reason
from kbgit.documents.worker import FAULTS, JOB_FILE, RESULT_FILE, STATUS, job_text, result_bytes

log = logging.getLogger(__name__)

COMMAND = (sys.executable, "-I", "-m", "kbgit.documents.worker")
_LOOK_SECONDS = 0.1
_BLOCK_BYTES = 4096
_NEAR_THE_LIMIT = 0.75
"""Share of its memory limit beyond which a worker that a memory fault ended is held to have met it."""
_LONGEST_TITLE = 1_000
_LONGEST_SENTENCE = 500
_MOST_NOTES = 50
_WORDS_OF_A_WORKER = [reason for reason in Reason if reason not in (Reason.REFUSED, Reason.TIMEOUT)]


@dataclass(frozen=True, slots=True)
class Failure:
    """The document cannot be extracted, however often it is tried."""

    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Died:
    """The worker ended in a way that says nothing of the document: worth another attempt."""

    how: str


class Stopped(Exception):
    """The extraction was called off from outside; whoever did it knows what is next."""


class Brake:
    """Calls an extraction off, from any thread, at once. Close it when the extraction has ended."""

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def fileno(self) -> int:
        """Readable once the brake is pulled."""
        return self._descriptor

    def pull(self) -> None:
        """Call it off."""
        os.eventfd_write(self._descriptor, 1)

    def close(self) -> None:
        """Release the descriptor."""
        os.close(self._descriptor)


def extract(
    file: Path,
    suffix: str,
    limits: ExtractionLimits,
    workplace: Path,
    brake: Brake,
    command: Sequence[str] = COMMAND,
) -> Extracted | Failure | Died:
    """What a worker makes of `file`, which is of the kind that `suffix` says. `workplace` is an empty directory.

    The thread that calls this must outlive the worker, because the kernel ends a child with the thread that started it.
    Raises `Stopped` when the brake is pulled.
    """
    # Libraries look at a file's suffix before they look at the file, and originals are named by their id alone.
    named = workplace / f"document{suffix}"
    named.symlink_to(file.resolve())
    job = workplace / JOB_FILE
    job.write_text(job_text(named, suffix, limits), "utf-8")
    process = subprocess.Popen(
        [*command, str(job)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=_environment(workplace),
        cwd=workplace,
        start_new_session=True,
        close_fds=True,
    )
    try:
        failure = _watch(process.pid, limits, workplace, brake)
    finally:
        # Killed before it is waited for: until then its number, and its group's, belong to nobody else.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return failure or _judged(process.returncode, limits, workplace)


def _environment(workplace: Path) -> dict[str, str]:
    """All that a worker inherits: nothing of the server's."""
    return {
        "PATH": os.defpath,
        "LANG": "C.UTF-8",
        "HOME": str(workplace),
        "TMPDIR": str(workplace),
        # Each thread and arena reserves address space, which is what the limit counts.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "1",
    }


def _watch(pid: int, limits: ExtractionLimits, workplace: Path, brake: Brake) -> Failure | Died | None:
    """Wait until the worker has ended, or must: then, why. Raises `Stopped`."""
    give_up = time.monotonic() + limits.seconds
    watched = os.pidfd_open(pid)
    try:
        poller = select.poll()
        poller.register(watched, select.POLLIN)
        poller.register(brake.fileno(), select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poller.poll(_LOOK_SECONDS * 1000)}
            if brake.fileno() in ready:
                raise Stopped
            if _holds_more(workplace, 2 * result_bytes(limits)):
                return Failure(Reason.TOO_LARGE, f"reading it writes more than {limits.output} bytes")
            if watched in ready:
                return None
            if found := _fault(pid):
                return _judged_fault(*found, limits)
            if time.monotonic() > give_up:
                return Failure(Reason.TIMEOUT, f"reading it took longer than {limits.seconds:g} s")
    finally:
        os.close(watched)


def _fault(pid: int) -> tuple[signal.Signals, int] | None:
    """The fault at which a worker stays, and the most address space that it had, in bytes, which is what its limit counts.

    The resource usage that the kernel reports at the end is no help: in it is what the server had when the child began.
    """
    try:
        # In bytes: the worker's name is in it, which may be any bytes but a line end.
        lines = Path(STATUS.format(pid)).read_bytes().split(b"\n")
    except OSError:  # it has just ended
        return None
    said = {name: value.split() for name, _, value in (line.partition(b":") for line in lines)}
    if b"VmPeak" not in said:  # likewise
        return None
    # While its handler runs. Signals that are only held back may be so by whoever started the server.
    handled = int(said[b"SigBlk"][0], 16) & int(said[b"SigCgt"][0], 16)
    fault = next((fault for fault in FAULTS if handled >> (fault - 1) & 1), None)
    return (fault, int(said[b"VmPeak"][0]) << 10) if fault else None


def _holds_more(directory: Path, most: int) -> bool:
    """Whether more than `most` bytes are below a directory, as far as that can be seen while somebody writes there.

    Each name counts as a block at least: files without content fill a disk too, and have to be looked through and removed.
    """
    left = most
    for parent, directories, files in os.walk(directory):
        for name in (*directories, *files):
            with suppress(OSError):
                left -= max(os.lstat(os.path.join(parent, name)).st_size, _BLOCK_BYTES)
            if left < 0:
                return True
    return False


def _judged_fault(fault: signal.Signals, peak: int, limits: ExtractionLimits) -> Failure | Died:
    """What a fault means in a worker that had `peak` bytes of address space."""
    if peak > limits.memory * _NEAR_THE_LIMIT:
        return Failure(Reason.TOO_LARGE, f"reading it needs more than {limits.memory >> 20} MiB of memory")
    return Died(f"signal {fault:d}")


def _judged(code: int, limits: ExtractionLimits, workplace: Path) -> Extracted | Failure | Died:
    """What an ended worker's exit code and its answer mean."""
    if code == -signal.SIGXCPU:
        return Failure(Reason.TIMEOUT, f"reading it took more than {limits.seconds:g} s of processor time")
    if code != 0:
        return Died(f"signal {-code}" if code < 0 else f"exit code {code}")
    answer = _answer(workplace / RESULT_FILE, result_bytes(limits))
    if answer is None:
        return Died("no answer that can be read")
    return _read(answer, limits)


def _answer(path: Path, most: int) -> dict[str, Any] | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            raw = file.read(most + 1)
        found = json.loads(raw) if len(raw) <= most else None
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _read(answer: dict[str, Any], limits: ExtractionLimits) -> Extracted | Failure | Died:
    """The answer as a value, if it has the form that the contract gives it."""
    if "reason" in answer:
        reason, detail = answer["reason"], answer.get("detail")
        if reason not in _WORDS_OF_A_WORKER or not isinstance(detail, str):
            return Died("an answer without a reason")
        if "fault" in answer:
            log.warning("an extractor failed: %s", _sentence(str(answer["fault"])))
        return Failure(Reason(reason), _sentence(detail))
    markdown, title, notes = answer.get("markdown"), answer.get("title"), answer.get("notes")
    if not isinstance(markdown, str) or not isinstance(title, str | None) or not isinstance(notes, list):
        return Died("an answer of another form")
    markdown = _encodable(markdown)
    if len(markdown.encode()) > limits.output:
        return Failure(Reason.TOO_LARGE, f"its text is longer than {limits.output} bytes")
    said = [_sentence(note) for note in notes[:_MOST_NOTES] if isinstance(note, str)]
    return Extracted(markdown, _line(title, _LONGEST_TITLE) if title else None, tuple(said))


def _encodable(text: str) -> str:
    """`text` as an item can hold it: LF, no NUL, no half of a surrogate pair."""
    plain = text.encode("utf-8", "replace").decode()
    return plain.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")


def _line(text: str, longest: int) -> str | None:
    return " ".join(_encodable(text).split())[:longest].strip() or None


def _sentence(text: str) -> str:
    return _line(text, _LONGEST_SENTENCE) or ""
