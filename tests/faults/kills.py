"""The steps in which processes are killed: how each is brought about, and where the kill falls."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.site import Site, processes_in
from tests.faults.stepping import WATCHED
from tests.web.serving import until

LINE_STEPS = tuple(step for step in WATCHED if step != "none")
GIT_STEPS = ("git: receive-pack", "git: unpack-objects", "git: http-backend")
STEPS = (*LINE_STEPS, *GIT_STEPS, "the branch moves", "kept hooks", "index apart", "any moment", "gc")
_END_SECONDS = 20.0
_PUSH_SECONDS = 20.0
_APART_BEGINS = 0.2  # seconds from the start of a push until its index is written, about
_APART_TAKES = 0.4


@dataclass
class Kills:
    """Kills on one site, each followed by a restart. `lines` remembers how many lines a step has."""

    site: Site
    chance: random.Random
    lines: dict[str, int] = field(default_factory=dict)
    missed: int = 0
    """Kills that came after the step was over: counted, because a kill at rest must be survived as well."""

    def kill_in(self, step: str, at: float | None = None) -> None:
        """Bring a step about and kill in it, `at` a fraction of its lines (default: by chance). No server lives then."""
        site = self.site
        if not site.is_alive() and step not in ("start", "swap"):
            assert site.start(), site.log()
        share = self.chance.random() if at is None else at
        fell = True
        if step in LINE_STEPS:
            fell = self._at_line(step, share)
        elif step in GIT_STEPS:
            fell = self._at_process(step.removeprefix("git: "))
        elif step == "the branch moves":
            fell = self._as_soon_as(_moved(site.repository() / "refs/heads/main"), site.push, everything=True)
        elif step == "kept hooks":
            self._after(self.chance.uniform(0, 0.15), site.push, self._kill_kept_hooks)
        elif step == "index apart":
            fell = self._in_the_process_apart(share)
        elif step == "gc":
            self._after(self.chance.uniform(0, 0.05), self._gc)
        else:
            self._after(self.chance.uniform(0, 0.8), self._a_bit_of_everything)
        self.missed += not fell
        site.kill_everything()

    # Killed at a line

    def _at_line(self, step: str, share: float) -> bool:
        site = self.site
        prepared = self._prepared(step)
        if step not in self.lines:
            site.control.arm(step, 0)
            prepared()
            if step not in ("start", "swap"):
                site.settle()
            self.lines[step] = site.control.disarm()
            assert self.lines[step], f"the step {step!r} runs no line"
            prepared = self._prepared(step)
        last = 1 + int(share * self.lines[step])
        site.control.arm(step, last, with_server=self.chance.random() < 0.5)
        prepared()
        if step in ("catalogue", "index", "embedding"):  # which run after the answer
            give_up = time.monotonic() + _END_SECONDS
            while not site.server_ended(0.02) and time.monotonic() < give_up and not site.is_fresh():
                pass
        return site.control.disarm() >= last

    def _prepared(self, step: str) -> Callable[[], object]:
        """What makes a step happen; what it needs is made now."""
        site = self.site
        match step:
            case "api write":
                return self.chance.choice((site.write, site.change, site.archive_and_restore))
            case "catalogue":
                return site.move_by_hand
            case "purge":
                slug, canary = site.make_doomed_base()

                def purge() -> None:
                    before = site.repository_of(slug)
                    site.purge(slug)
                    if not before.exists():  # from that moment on it is promised to go
                        site.erased.append(canary)

                return purge
            case "memory":
                record, canary = site.remember()

                def forget() -> None:
                    site.forget(record)
                    if not any((site.path / "memory").rglob(f"{record}*")):
                        site.erased.append(canary)

                return forget
            case "start":
                return self._start
            case "swap":
                return self._swap
            case _:
                return site.push

    def _start(self) -> None:
        self.site.kill_everything()
        self.site.start()

    def _swap(self) -> None:
        self.site.stop()
        child = self.site.run("reindex")
        assert child.has_ended(_END_SECONDS)
        child.close()

    # Killed at other moments

    def _at_process(self, name: str) -> bool:
        """As soon as a Git process of this name works on the home: it alone, or everything."""
        everything = self.chance.random() < 0.5
        return self._as_soon_as(
            lambda: _process_named(self.site.path, name), self.site.push_much, everything=everything
        )

    def _as_soon_as(self, sign: Callable[[], object], action: Callable[[], object], *, everything: bool) -> bool:
        is_over, has_fallen = threading.Event(), threading.Event()

        def watch() -> None:
            while not is_over.is_set():
                if found := sign():
                    has_fallen.set()
                    if everything:
                        self.site.kill_everything()
                    elif isinstance(found, int):
                        with suppress(ProcessLookupError):
                            os.kill(found, signal.SIGKILL)
                    return

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            action()
        finally:
            is_over.set()
            watcher.join()
        return has_fallen.is_set()

    def _after(self, seconds: float, action: Callable[[], object], kill: Callable[[], object] | None = None) -> None:
        killer = threading.Timer(seconds, kill or self.site.kill_everything)
        killer.start()
        try:
            action()
        finally:
            killer.cancel()
            killer.join()

    def _kill_kept_hooks(self) -> None:
        """The process that a server keeps for hooks, with what it does for one: the server goes on without."""
        while (keeper := _process_named(self.site.path, "kbgit.hook_keeper")) is not None:
            with suppress(ProcessLookupError):
                os.kill(keeper, signal.SIGKILL)

    def _in_the_process_apart(self, share: float) -> bool:
        """The process that writes the index, by itself or with everything, between a push and its vectors."""
        site = self.site
        site.stop()
        assert site.start(apart=True), site.log()
        site.push()
        site.settle()  # now it has been started
        fallen = threading.Event()
        with_everything = self.chance.random() < 0.5

        def kill() -> None:
            fallen.set()
            if with_everything:
                site.kill_everything()
            else:
                self._kill_the_process_apart()

        def push_and_wait() -> None:
            site.push()
            while site.is_alive() and not site.is_fresh():
                pass

        self._after(_APART_BEGINS + share * _APART_TAKES, push_and_wait, kill)
        if site.is_alive():
            site.push()
            site.settle()  # the server goes on with another
        return fallen.is_set()

    def _kill_the_process_apart(self) -> None:
        writer = _process_named(self.site.path, "kbgit.index.apart_process")
        assert writer is not None
        os.kill(writer, signal.SIGKILL)

    def _gc(self) -> None:
        self.site.git("gc", "--quiet", "--prune=now")
        self.site.push()

    def _a_bit_of_everything(self) -> None:
        while self.site.is_alive():
            self.chance.choice((self.site.push, self.site.write, self.site.archive_and_restore))()


def start_again(site: Site) -> None:
    """Bring the server back, as a supervisor would. A shelf that was being restored is restored, and a push goes through."""
    site.control.disarm()
    assert site.start(), site.log()
    shelf = site.ask("GET", "/api/v1/bases/~ada/shelf")
    if shelf is not None and shelf.json["status"] == "archived":
        site.ask("POST", "/api/v1/bases/~ada/shelf/restore")
    until(site.push, _PUSH_SECONDS)  # the lock of a dead Git may refuse the first


def _moved(ref: Path) -> Callable[[], bool]:
    def content() -> bytes:
        with suppress(FileNotFoundError):
            return ref.read_bytes()
        return b""

    before = content()
    return lambda: content() not in (before, b"")


def _process_named(home: Path, name: str) -> int | None:
    for pid in processes_in(home):
        with suppress(OSError):
            words = (Path("/proc") / str(pid) / "cmdline").read_bytes().split(b"\0")
            if any(word.endswith(name.encode()) for word in words[:4]):
                return pid
    return None
