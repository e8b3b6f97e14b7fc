"""Garbage is collected when it is asked for, whatever other threads do."""

from __future__ import annotations

import gc
import weakref
from threading import Event, Thread

from kbgit.index.garbage import collect_garbage


class Ring:
    """Refers to itself, so that only the collector ends it."""

    def __init__(self) -> None:
        self.ring = self


class Slow(Ring):
    """Takes its time to end, as a file does that is closed: other threads go on meanwhile."""

    def __init__(self, ending: Event, may_end: Event) -> None:
        super().__init__()
        self._ending, self._may_end = ending, may_end

    def __del__(self) -> None:
        self._ending.set()
        self._may_end.wait(10)


def test_what_only_a_cycle_keeps_is_gone_afterwards_though_another_thread_is_collecting() -> None:
    ending, may_end = Event(), Event()
    Slow(ending, may_end)
    other = Thread(target=gc.collect)
    other.start()
    assert ending.wait(10)
    ours = weakref.ref(Ring())
    gc.collect()
    assert ours() is not None, "this is what the function is for"
    asked = Thread(target=collect_garbage)
    asked.start()
    may_end.set()
    asked.join(10)
    other.join(10)
    assert ours() is None


def test_nothing_is_left_behind() -> None:
    before = list(gc.callbacks)
    collect_garbage()
    assert gc.callbacks == before
