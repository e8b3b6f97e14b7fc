"""Letting go, now, of what only cycles keep: Whoosh's readers are such, and would keep removed files open."""

from __future__ import annotations

import gc
import threading
import time

_OLDEST = 2
_MOMENT_SECONDS = 0.001


def collect_garbage() -> None:
    """Collect all garbage there is.

    While another thread collects, `gc.collect` does nothing and does not say so; so this waits for its turn.
    """
    here, done = threading.get_ident(), threading.Event()

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == _OLDEST and threading.get_ident() == here:
            done.set()

    gc.callbacks.append(note)
    try:
        gc.collect()
        while not done.is_set():
            time.sleep(_MOMENT_SECONDS)
            gc.collect()
    finally:
        gc.callbacks.remove(note)
